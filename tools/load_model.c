/* load_model.c - plan, create, read, verify, step, release. See load_model.h. */
#include "load_model.h"

#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* One read: large enough that the system call is noise, small enough that the bar moves. */
#define READ_BYTES_MAX   ((size_t)16 << 20)
#define VERIFY_BYTES     ((size_t)1 << 20)
#define PREFAULT_THREADS 2

const char *const load_area_names[LOAD_AREAS] = {"weights", "kv", "scratch"};

/* --- opening -----------------------------------------------------------------------------------*/

strata_status load_model_open(load_model *load, const char *path, strata_error *err)
{
    *load = (load_model){.path = path};
    text_label(load->label, sizeof load->label, path);
    strata_report_init(&load->undo, NULL, NULL);
    strata_report_init(&load->release, NULL, NULL);
    strata_status status = modelfile_open(&load->file, path, NULL, err);
    if (status != STRATA_OK) {
        return status;
    }
    load->tensors = calloc(load->file->tensor_count + 1, sizeof *load->tensors);
    if (load->tensors == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for %zu tensors",
                                load->file->tensor_count);
    }
    return STRATA_OK;
}

/* --- creating ----------------------------------------------------------------------------------*/

/* What the tensors take one behind the other. INVALID where that does not fit an address. */
static strata_status plan_bytes(const modelfile *file, size_t *bytes, strata_error *err)
{
    size_t end = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (!strata_size_align_up(end, LOAD_TENSOR_ALIGN, &end) ||
            !strata_size_add(end, file->tensors[i].bytes, &end)) {
            return strata_error_set(err, STRATA_INVALID,
                                    "the tensors together are larger than an address space");
        }
    }
    *bytes = end;
    return STRATA_OK;
}

/* A guarded arena puts something behind every block; how much is its own business. Addresses cost
 * nothing, so the plan has room for it, and only first_bytes is exact. */
static bool reserve_bytes(const modelfile *file, size_t bytes, size_t *reserve)
{
    size_t room;
    return strata_size_multiply(file->tensor_count + 1, (size_t)4 * LOAD_TENSOR_ALIGN, &room) &&
           strata_size_add(bytes, room, reserve);
}

static strata_status create_copied(load_model *load, strata_error *err)
{
    size_t bytes = 0;
    size_t reserve = 0;
    strata_status status = plan_bytes(load->file, &bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (!reserve_bytes(load->file, bytes, &reserve)) {
        return strata_error_set(err, STRATA_INVALID, "%zu tensors are more than can be placed",
                                load->file->tensor_count);
    }
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = load_area_names[0];
    config.region.reserve_bytes = reserve;
    config.region.first_bytes = bytes;
    config.region.prefault = true;
    config.region.prefault_threads = PREFAULT_THREADS;
    return strata_arena_create(&load->weights, strata_model_root(load->model), &config, err);
}

/* The mapping is read-only: a guard, which writes behind blocks, has no place in it. */
static strata_status create_mapped(load_model *load, strata_process *process, strata_error *err)
{
    strata_status status = strata_file_backend_init(&load->backend, load->file->fd,
                                                    strata_process_gate(process), NULL, err);
    if (status != STRATA_OK) {
        return status;
    }
    load->backend.backend.gate_wait_ns = strata_process_backend(process, "host")->gate_wait_ns;
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = load_area_names[0];
    config.region.reserve_bytes = (size_t)load->file->file_bytes;
    config.region.first_bytes = (size_t)load->file->file_bytes;
    config.backend = &load->backend.backend;
    config.guard = STRATA_GUARD_OFF;

    strata_arena_config laid_over = config;
    status = strata_model_config_arena(strata_model_get_config(load->model), &laid_over, err);
    if (status == STRATA_OK && laid_over.guard == STRATA_GUARD_ON) {
        status = strata_error_set(err, STRATA_INVALID,
                                  "weights.guard: on is not for a file's read-only memory; "
                                  "use --memory host, or guard = off");
    }
    return status != STRATA_OK
               ? status
               : strata_arena_create(&load->weights, strata_model_root(load->model), &config, err);
}

static strata_status create_plain(load_model *load, const char *label, strata_arena **out,
                                  strata_error *err)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = label;
    return strata_arena_create(out, strata_model_root(load->model), &config, err);
}

/* What is configured as committed at the start is taken as one block: a KV cache of that size. */
static strata_status take_kv(load_model *load, strata_error *err)
{
    strata_arena_info info;
    strata_arena_read(load->kv, &info);
    size_t guard = info.guarded ? 4 * (size_t)LOAD_TENSOR_ALIGN : 0;
    if (info.region.committed_bytes <= guard) {
        return STRATA_OK;
    }
    size_t bytes = info.region.committed_bytes - guard;
    if (strata_arena_alloc(load->kv, bytes, LOAD_TENSOR_ALIGN) == NULL) {
        *err = *strata_arena_error(load->kv);
        strata_error_context(err, "kv");
        return err->status;
    }
    return STRATA_OK;
}

/* --- placing and reading -----------------------------------------------------------------------*/

static strata_status place_copied(load_model *load, strata_error *err)
{
    for (size_t i = 0; i < load->file->tensor_count; i++) {
        const modelfile_tensor *tensor = &load->file->tensors[i];
        if (tensor->bytes == 0) {
            continue;
        }
        load->tensors[i] = strata_arena_alloc(load->weights, tensor->bytes, LOAD_TENSOR_ALIGN);
        if (load->tensors[i] == NULL) {
            *err = *strata_arena_error(load->weights);
            strata_error_context(err, "tensor %.64s", tensor->name);
            return err->status;
        }
    }
    return STRATA_OK;
}

/* The whole file is one block; the tensors lie in it where the file has them. */
static strata_status place_mapped(load_model *load, strata_error *err)
{
    const unsigned char *base =
        strata_arena_alloc(load->weights, (size_t)load->file->file_bytes, LOAD_TENSOR_ALIGN);
    if (base == NULL) {
        *err = *strata_arena_error(load->weights);
        return err->status;
    }
    for (size_t i = 0; i < load->file->tensor_count; i++) {
        const modelfile_tensor *tensor = &load->file->tensors[i];
        if (tensor->bytes == 0) {
            continue;
        }
        load->tensors[i] = base + tensor->offset;
    }
    return STRATA_OK;
}

/* In either memory: for copies the arena promises it, for a mapped file nobody does. */
static void count_misaligned(load_model *load)
{
    for (size_t i = 0; i < load->file->tensor_count; i++) {
        size_t align = modelfile_type_align(&load->file->tensors[i]);
        load->misaligned += (uintptr_t)load->tensors[i] % align != 0;
    }
}

/* Where the run that begins with tensor `first` ends: the tensors up to there lie in memory exactly
 * as they lie in the file, so that one read fills them, and the padding between them. */
static size_t run_end(const load_model *load, size_t first, bool guarded)
{
    const modelfile_tensor *tensors = load->file->tensors;
    size_t end = first + 1;
    while (!guarded && end < load->file->tensor_count && load->tensors[end] != NULL &&
           (uintptr_t)load->tensors[end] - (uintptr_t)load->tensors[first] ==
               tensors[end].offset - tensors[first].offset) {
        end++;
    }
    return end;
}

static strata_status read_run(load_model *load, size_t first, size_t end, progress *bar,
                              strata_error *err)
{
    const modelfile_tensor *from = &load->file->tensors[first];
    const modelfile_tensor *last = &load->file->tensors[end - 1];
    /* The arena is ours and writable; the list is const for everybody else. */
    unsigned char *into = (unsigned char *)(uintptr_t)load->tensors[first];
    uint64_t whole = last->offset + last->bytes - from->offset;
    for (uint64_t done = 0; done < whole;) {
        uint64_t rest = whole - done;
        size_t bytes = rest < READ_BYTES_MAX ? (size_t)rest : READ_BYTES_MAX;
        strata_status status =
            modelfile_read(load->file, NULL, into + done, from->offset + done, bytes, err);
        if (status != STRATA_OK) {
            strata_error_context(err, "tensor %.64s", from->name);
            return status;
        }
        done += bytes;
        progress_add(bar, bytes);
    }
    load->read_calls++;
    return STRATA_OK;
}

strata_status load_model_read(load_model *load, progress *bar, strata_error *err)
{
    strata_arena_info info;
    strata_arena_read(load->weights, &info);
    for (size_t first = 0; first < load->file->tensor_count;) {
        if (load->tensors[first] == NULL) {
            first++;
            continue;
        }
        size_t end = run_end(load, first, info.guarded);
        strata_status status = read_run(load, first, end, bar, err);
        if (status != STRATA_OK) {
            return status;
        }
        first = end;
    }
    return STRATA_OK;
}

/* --- a load ------------------------------------------------------------------------------------*/

static strata_status create_areas(load_model *load, strata_process *process, strata_error *err)
{
    strata_status status = load->mapped ? create_mapped(load, process, err)
                                        : create_copied(load, err);
    if (status == STRATA_OK) {
        status = create_plain(load, load_area_names[1], &load->kv, err);
    }
    if (status == STRATA_OK) {
        status = create_plain(load, load_area_names[2], &load->scratch, err);
    }
    return status;
}

static strata_status fill_areas(load_model *load, progress *bar, strata_error *err)
{
    strata_status status = load->mapped ? place_mapped(load, err) : place_copied(load, err);
    count_misaligned(load);
    if (status == STRATA_OK && !load->mapped) {
        status = load_model_read(load, bar, err);
    }
    return status == STRATA_OK ? take_kv(load, err) : status;
}

static strata_status undo(load_model *load, strata_scope *scope, strata_error *err)
{
    load->undone = true;
    load->weights = NULL;
    load->kv = NULL;
    load->scratch = NULL;
    return strata_scope_undo(scope, &load->undo, err);
}

static strata_status open_model(load_model *load, strata_process *process,
                                const strata_model_config *config, strata_error *err)
{
    strata_model_config defaults;
    strata_model_config_init(&defaults);
    strata_model_config mine = *config;
    if (strcmp(mine.label, defaults.label) == 0) {
        memcpy(mine.label, load->label, sizeof mine.label);
    } else {
        memcpy(load->label, mine.label, sizeof load->label);
    }
    return strata_model_open(&load->model, process, &mine, err);
}

strata_status load_model_fill(load_model *load, strata_process *process,
                              const strata_model_config *config, bool mapped, progress *bar,
                              strata_error *err)
{
    uint64_t began_ns = strata_now_ns();
    load->mapped = mapped;
    strata_status status = open_model(load, process, config, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_scope scope;
    status = strata_scope_open(&scope, strata_model_root(load->model));
    if (status != STRATA_OK) {
        return strata_error_set(err, status, "the scope of the load: %s",
                                strata_status_text(status));
    }
    status = create_areas(load, process, err);
    if (status == STRATA_OK) {
        status = fill_areas(load, bar, err);
    }
    if (status != STRATA_OK) {
        return undo(load, &scope, err);
    }
    status = strata_scope_keep(&scope);
    if (status != STRATA_OK) {
        return strata_error_set(err, status, "keeping the load: %s", strata_status_text(status));
    }
    load->load_ns = strata_now_ns() - began_ns;
    return STRATA_OK;
}

/* --- verifying ---------------------------------------------------------------------------------*/

/* Copies mapped bytes without touching them ourselves: where the file has become shorter, the
 * kernel answers EFAULT instead of sending SIGBUS. */
static strata_status copy_mapped(void *into, const unsigned char *from, size_t bytes,
                                 strata_error *err)
{
    size_t done = 0;
    while (done < bytes) {
        struct iovec local = {.iov_base = (char *)into + done, .iov_len = bytes - done};
        struct iovec remote = {.iov_base = (void *)(uintptr_t)(from + done),
                               .iov_len = bytes - done};
        ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (got <= 0) {
            return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO,
                                       got == 0 ? EIO : errno,
                                       "reading the mapped file (has it become shorter?)");
        }
        done += (size_t)got;
    }
    return STRATA_OK;
}

static strata_status verify_piece(const load_model *load, size_t index, uint64_t at, size_t bytes,
                                  unsigned char *buffer, strata_error *err)
{
    const modelfile_tensor *tensor = &load->file->tensors[index];
    const unsigned char *have = load->tensors[index] + at;
    strata_status status =
        modelfile_read(load->file, NULL, buffer, tensor->offset + at, bytes, err);
    if (status == STRATA_OK && load->mapped) {
        unsigned char *copy = buffer + VERIFY_BYTES;
        status = copy_mapped(copy, have, bytes, err);
        have = copy;
    }
    if (status == STRATA_OK && memcmp(buffer, have, bytes) != 0) {
        status = strata_error_set(err, STRATA_CORRUPT,
                                  "memory and file differ; the file was written, or memory is bad");
    }
    if (status != STRATA_OK) {
        strata_error_context(err, "verify: tensor %.64s", tensor->name);
    }
    return status;
}

strata_status load_model_verify(load_model *load, progress *bar, strata_error *err)
{
    unsigned char *buffer = malloc(2 * VERIFY_BYTES);
    if (buffer == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for the buffer of --verify");
    }
    strata_status status = STRATA_OK;
    for (size_t i = 0; i < load->file->tensor_count && status == STRATA_OK; i++) {
        uint64_t whole = load->file->tensors[i].bytes;
        for (uint64_t at = 0; at < whole && status == STRATA_OK;) {
            uint64_t rest = whole - at;
            size_t bytes = rest < VERIFY_BYTES ? (size_t)rest : VERIFY_BYTES;
            status = verify_piece(load, i, at, bytes, buffer, err);
            at += bytes;
            progress_add(bar, bytes);
        }
        load->verified += status == STRATA_OK;
    }
    free(buffer);
    return status;
}

/* --- steps -------------------------------------------------------------------------------------*/

#define STEP_BLOCKS 32

/* 1, 2, 4 ... 64 KiB, over and over: what a step of a small model asks for. */
static size_t step_bytes(size_t block)
{
    return (size_t)1024 << (block % 7);
}

static strata_status fill_step(load_model *load, unsigned char value, strata_error *err)
{
    unsigned char *blocks[STEP_BLOCKS];
    for (size_t i = 0; i < STEP_BLOCKS; i++) {
        blocks[i] = strata_arena_alloc(load->scratch, step_bytes(i), LOAD_TENSOR_ALIGN);
        if (blocks[i] == NULL) {
            *err = *strata_arena_error(load->scratch);
            return err->status;
        }
        memset(blocks[i], (unsigned char)(value + i), step_bytes(i));
    }
    for (size_t i = 0; i < STEP_BLOCKS; i++) {
        unsigned char expected = (unsigned char)(value + i);
        if (blocks[i][0] != expected || blocks[i][step_bytes(i) - 1] != expected) {
            return strata_error_set(err, STRATA_CORRUPT, "block %zu does not hold what was written",
                                    i);
        }
    }
    return STRATA_OK;
}

static strata_status take_step(load_model *load, unsigned char value, strata_error *err)
{
    strata_scope scope;
    strata_status status = strata_scope_open(&scope, strata_model_root(load->model));
    if (status != STRATA_OK) {
        return strata_error_set(err, status, "opening the scope: %s", strata_status_text(status));
    }
    status = fill_step(load, value, err);
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    strata_status closed = strata_scope_close(&scope, &report);
    if (status == STRATA_OK && closed != STRATA_OK) {
        char text[STRATA_TEXT_MAX];
        (void)strata_report_format(&report, text, sizeof text);
        return strata_error_set(err, closed, "closing the scope: %s", text);
    }
    return status;
}

strata_status load_model_step(load_model *load, uint64_t steps, strata_error *err)
{
    for (uint64_t i = 0; i < steps; i++) {
        strata_status status = take_step(load, (unsigned char)i, err);
        if (status != STRATA_OK) {
            strata_error_context(err, "step %llu", (unsigned long long)i + 1);
            return status;
        }
        load->steps++;
    }
    return STRATA_OK;
}

/* --- the end -----------------------------------------------------------------------------------*/

strata_status load_model_release(load_model *load)
{
    if (load->model == NULL) {
        return STRATA_OK;
    }
    load->area_count = strata_model_areas(load->model, load->areas, LOAD_AREAS);
    if (load->area_count > LOAD_AREAS) {
        load->area_count = LOAD_AREAS;
    }
    machine_count before = machine_tlb_shootdowns();
    strata_status status = strata_model_release(load->model, NULL, &load->release);
    load->release_tlb = machine_difference(before, machine_tlb_shootdowns());
    return status;
}

strata_status load_model_close(load_model *load)
{
    strata_status status = strata_model_destroy(&load->model);
    free(load->tensors);
    load->tensors = NULL;
    modelfile_close(load->file);
    load->file = NULL;
    return status;
}

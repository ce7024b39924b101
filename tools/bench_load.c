/* bench_load.c - reading a file of weights that is in the page cache.
 *
 * Two workloads. "read": into memory that is faulted in already, beside a plain pread into such
 * memory. "allocate and read": from nothing, beside a fresh mapping and beside malloc. The file is
 * made here, with holes for data: reading a hole goes through the page cache like any other page,
 * and a gibibyte need not be written. */
#include "bench.h"
#include "load_model.h"
#include "message.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES_DEFAULT ((size_t)1 << 30)
#define TENSOR_BYTES  ((size_t)1 << 20)
#define TENSORS_MAX   4096
#define CHUNK_BYTES   ((size_t)16 << 20) /* what load_model.c reads at a time */
#define RUNS_DEFAULT  9

typedef struct load_bench {
    char path[4096];
    int fd; /* of the same file, for the plain rows */
    size_t tensor_bytes;
    size_t tensors;
    size_t bytes; /* tensors * tensor_bytes */
    off_t data_offset;
    strata_process *process;
    strata_model_config config;
    load_model loaded;     /* stays: the region that "read" reads into */
    bench_mapping faulted; /* stays: the plain counterpart */
} load_bench;

/* --- the file ----------------------------------------------------------------------------------*/

/* The header of a safetensors file, to be freed. */
static char *make_header(const load_bench *now, size_t *length)
{
    size_t capacity = 128 * (now->tensors + 1);
    char *text = malloc(capacity);
    if (text == NULL) {
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < now->tensors; i++) {
        at += (size_t)snprintf(text + at, capacity - at,
                               "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[%zu],"
                               "\"data_offsets\":[%zu,%zu]}",
                               i == 0 ? "{" : ",", i, now->tensor_bytes, i * now->tensor_bytes,
                               (i + 1) * now->tensor_bytes);
    }
    at += (size_t)snprintf(text + at, capacity - at, "}");
    while (at % 64 != 0) {
        text[at++] = ' '; /* the format allows it, and data then begins where it is 8 mod 64 */
    }
    *length = at;
    return text;
}

static bool write_file(load_bench *now, const char *text, size_t length)
{
    unsigned char head[8];
    for (size_t i = 0; i < sizeof head; i++) {
        head[i] = (unsigned char)(length >> (8 * i));
    }
    now->data_offset = (off_t)(sizeof head + length);
    return write(now->fd, head, sizeof head) == (ssize_t)sizeof head &&
           write(now->fd, text, length) == (ssize_t)length &&
           ftruncate(now->fd, now->data_offset + (off_t)now->bytes) == 0;
}

static int make_file(load_bench *now, const char *folder)
{
    int length = snprintf(now->path, sizeof now->path, "%s/strata-bench-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof now->path) {
        return message_refuse(BENCH_NAME, "--folder: longer than %zu bytes; name another",
                              sizeof now->path - 32);
    }
    now->fd = mkostemp(now->path, O_CLOEXEC);
    if (now->fd < 0) {
        int code = errno;
        now->path[0] = '\0';
        return message_refuse(BENCH_NAME, "--folder: %.3000s: %s; name a folder for a file", folder,
                              strerror(code));
    }
    size_t header = 0;
    char *text = make_header(now, &header);
    bool written = text != NULL && write_file(now, text, header);
    int code = errno;
    free(text);
    return written ? TOOL_DONE
                   : message_fail(BENCH_NAME, "load: %s: %s", now->path, strerror(code));
}

/* --- rows --------------------------------------------------------------------------------------*/

static int read_plain(const load_bench *now, unsigned char *into)
{
    for (size_t done = 0; done < now->bytes;) {
        size_t rest = now->bytes - done;
        size_t wanted = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;
        ssize_t got = pread(now->fd, into + done, wanted, now->data_offset + (off_t)done);
        if (got <= 0) {
            return message_fail(BENCH_NAME, "load: %s: pread: %s", now->path,
                                got == 0 ? "the file has become shorter" : strerror(errno));
        }
        done += (size_t)got;
    }
    return TOOL_DONE;
}

static double since(uint64_t began_ns)
{
    return (double)(strata_now_ns() - began_ns) / 1e9;
}

static int read_into_faulted(load_bench *now, double *seconds)
{
    uint64_t began_ns = strata_now_ns();
    int status = read_plain(now, now->faulted.base);
    *seconds = since(began_ns);
    return status;
}

static int read_into_region(load_bench *now, double *seconds)
{
    strata_error error;
    progress bar = {0};
    uint64_t began_ns = strata_now_ns();
    strata_status status = load_model_read(&now->loaded, &bar, &error);
    *seconds = since(began_ns);
    return status == STRATA_OK ? TOOL_DONE
                               : message_status(BENCH_NAME, status, "load: %s", error.text);
}

/* Faulted in by one call, where the kernel has it (5.14). In a virtual machine this row jumps where
 * its pages come from memory that the guest has never touched; its spread then says so. */
static int map_and_read(load_bench *now, double *seconds)
{
    bench_mapping fresh;
    uint64_t began_ns = strata_now_ns();
    int status = bench_map(&fresh, "load", now->bytes, true);
    if (status == TOOL_DONE) {
        (void)madvise(fresh.base, now->bytes, MADV_POPULATE_WRITE);
        status = read_plain(now, fresh.base);
    }
    *seconds = since(began_ns);
    (void)bench_unmap(&fresh);
    return status;
}

static int malloc_and_read(load_bench *now, double *seconds)
{
    uint64_t began_ns = strata_now_ns();
    unsigned char *into = malloc(now->bytes);
    int status = into != NULL ? read_plain(now, into)
                              : message_fail(BENCH_NAME,
                                             "load: malloc of %zu bytes failed; use a "
                                             "smaller --bytes",
                                             now->bytes);
    *seconds = since(began_ns);
    free(into);
    return status;
}

static int load_and_release(load_bench *now, bench_row *into, double *seconds)
{
    strata_error error;
    load_model fresh;
    progress bar = {0};
    strata_status status = load_model_open(&fresh, now->path, &error);
    if (status == STRATA_OK) {
        status = load_model_fill(&fresh, now->process, &now->config, false, &bar, &error);
    }
    *seconds = (double)fresh.load_ns / 1e9;
    (void)load_model_release(&fresh);
    into->unmaps = (machine_count){.known = true, .value = fresh.release.unmaps};
    (void)load_model_close(&fresh);
    return status == STRATA_OK ? TOOL_DONE
                               : message_status(BENCH_NAME, status, "load: %s", error.text);
}

enum { READ_LIMIT, READ_STRATA, READ_AGAIN, FULL_LIMIT, FULL_STRATA, FULL_AGAIN, FULL_MALLOC };

static int run_row(void *user, size_t row, bench_row *into, double *seconds)
{
    switch (row) {
    case READ_STRATA:
        return read_into_region(user, seconds);
    case FULL_LIMIT:
    case FULL_AGAIN:
        return map_and_read(user, seconds);
    case FULL_STRATA:
        return load_and_release(user, into, seconds);
    case FULL_MALLOC:
        return malloc_and_read(user, seconds);
    default:
        return read_into_faulted(user, seconds);
    }
}

#define READ "read into faulted memory"
#define FULL "allocate and read"

static int measure(load_bench *now, const bench_options *options, json_t **documents)
{
    bench *all = bench_create("load", options, RUNS_DEFAULT);
    if (all == NULL) {
        return TOOL_FAILED;
    }
    (void)bench_add(all, READ, "limit", 0, READ_LIMIT, READ_STRATA);
    (void)bench_add(all, READ, "strata", 0, READ_LIMIT, READ_STRATA);
    (void)bench_add(all, READ, "limit-again", 0, READ_LIMIT, READ_STRATA);
    (void)bench_add(all, FULL, "limit", 0, FULL_LIMIT, FULL_STRATA);
    (void)bench_add(all, FULL, "strata", 0, FULL_LIMIT, FULL_STRATA);
    (void)bench_add(all, FULL, "limit-again", 0, FULL_LIMIT, FULL_STRATA);
    (void)bench_add(all, FULL, "malloc", 0, FULL_LIMIT, FULL_STRATA);
    int status = bench_measure(all, run_row, now);
    if (status == TOOL_DONE) {
        bench_report(all, documents);
    }
    bench_destroy(all);
    return status;
}

/* --- setting up --------------------------------------------------------------------------------*/

/* The file's pages, the region, its plain counterpart, and one more of either while a row runs. */
static int check_fits(const load_bench *now)
{
    machine_count available = machine_memory_available_bytes();
    if (available.known && available.value / 5 < now->bytes) {
        return message_refuse(BENCH_NAME,
                              "load: five times %zu bytes are not available; use a "
                              "smaller --bytes",
                              now->bytes);
    }
    return TOOL_DONE;
}

/* Creates what stays for all runs. */
static int set_up(load_bench *now)
{
    strata_error error;
    progress bar = {0};
    strata_model_config_init(&now->config);
    strata_status status = strata_process_create(&now->process, NULL, &error);
    if (status == STRATA_OK) {
        status = load_model_open(&now->loaded, now->path, &error);
    }
    if (status == STRATA_OK) {
        status = load_model_fill(&now->loaded, now->process, &now->config, false, &bar, &error);
    }
    if (status != STRATA_OK) {
        return message_status(BENCH_NAME, status, "load: %s", error.text);
    }
    int mapped = bench_map(&now->faulted, "load", now->bytes, true);
    if (mapped == TOOL_DONE) {
        memset(now->faulted.base, 1, now->bytes);
    }
    return mapped;
}

static int tear_down(load_bench *now, int status)
{
    (void)bench_unmap(&now->faulted);
    if (now->process != NULL) {
        if (load_model_release(&now->loaded) != STRATA_OK && status == TOOL_DONE) {
            status = message_fail(BENCH_NAME, "load: the model's release failed");
        }
        (void)load_model_close(&now->loaded);
    }
    (void)strata_process_destroy(&now->process);
    if (now->path[0] != '\0') {
        (void)close(now->fd);
        (void)unlink(now->path);
    }
    return status;
}

int bench_load(const bench_options *options, json_t **documents)
{
    load_bench *now = calloc(1, sizeof *now);
    if (now == NULL) {
        return message_fail(BENCH_NAME, "load: out of memory");
    }
    size_t bytes = options->bytes == 0 ? BYTES_DEFAULT : (size_t)options->bytes;
    now->tensors = bytes / TENSOR_BYTES < TENSORS_MAX ? bytes / TENSOR_BYTES : TENSORS_MAX;
    now->tensor_bytes = bytes / now->tensors / 64 * 64;
    now->bytes = now->tensors * now->tensor_bytes;
    int status = check_fits(now);
    if (status == TOOL_DONE) {
        status = make_file(now, options->folder);
    }
    if (status == TOOL_DONE) {
        status = set_up(now);
    }
    if (status == TOOL_DONE) {
        status = measure(now, options, documents);
    }
    status = tear_down(now, status);
    free(now);
    return status;
}

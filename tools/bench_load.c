/* bench_load.c - reading a file of weights that is in the page cache.
 *
 * Two workloads. "read": into memory that is faulted in already, beside a plain pread into such
 * memory. "allocate and read": from nothing, beside a fresh mapping and beside malloc. The file is
 * made here, with holes for data: reading a hole goes through the page cache like any other page,
 * and a gibibyte need not be written. */
#include "bench.h"
#include "cli.h"
#include "load_model.h"
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
#define HUGE_BYTES    ((size_t)2 << 20)
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
    load_model loaded;      /* stays: the region that "read" reads into */
    unsigned char *faulted; /* stays: the plain counterpart */
    unsigned char *mapping;
} load_bench;

/* --- the file ----------------------------------------------------------------------------------*/

/* The header of a safetensors file, to be freed. */
static char *make_header(const load_bench *now, size_t *length)
{
    const size_t capacity = 128 * (now->tensors + 1);
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
    for (size_t i = 0; i < sizeof(head); i++) {
        head[i] = (unsigned char)(length >> (8 * i));
    }
    now->data_offset = (off_t)(sizeof(head) + length);
    return write(now->fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
           write(now->fd, text, length) == (ssize_t)length &&
           ftruncate(now->fd, now->data_offset + (off_t)now->bytes) == 0;
}

static int make_file(load_bench *now, const char *folder)
{
    const int length = snprintf(now->path, sizeof(now->path), "%s/strata-bench-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof(now->path)) {
        return cli_refuse("strata bench", "--folder: longer than %zu bytes; name another",
                          sizeof(now->path) - 32);
    }
    now->fd = mkostemp(now->path, O_CLOEXEC);
    if (now->fd < 0) {
        const int code = errno;
        now->path[0] = '\0';
        return cli_refuse("strata bench", "--folder: %.3000s: %s; name a folder for a file", folder,
                          strerror(code));
    }
    size_t header = 0;
    char *text = make_header(now, &header);
    const bool written = text != NULL && write_file(now, text, header);
    const int code = errno;
    free(text);
    return written ? TOOL_DONE
                   : cli_fail("strata bench", "load: %s: %s", now->path, strerror(code));
}

/* --- plain memory ------------------------------------------------------------------------------*/

static unsigned char *map_plain(size_t bytes, unsigned char **mapping)
{
    *mapping = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*mapping == MAP_FAILED) {
        *mapping = NULL;
        (void)cli_fail("strata bench", "load: no memory for %zu bytes; use a smaller --bytes",
                       bytes);
        return NULL;
    }
    (void)madvise(*mapping, bytes + HUGE_BYTES, MADV_HUGEPAGE);
    return *mapping + (HUGE_BYTES - (uintptr_t)*mapping % HUGE_BYTES) % HUGE_BYTES;
}

static void unmap_plain(size_t bytes, unsigned char *mapping)
{
    if (mapping != NULL) {
        (void)munmap(mapping, bytes + HUGE_BYTES);
    }
}

static bool read_plain(const load_bench *now, unsigned char *into)
{
    for (size_t done = 0; done < now->bytes;) {
        const size_t rest = now->bytes - done;
        const size_t wanted = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;
        const ssize_t got = pread(now->fd, into + done, wanted, now->data_offset + (off_t)done);
        if (got <= 0) {
            (void)cli_fail("strata bench", "load: %s: pread: %s", now->path,
                           got == 0 ? "the file has become shorter" : strerror(errno));
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

/* --- rows --------------------------------------------------------------------------------------*/

static double since(uint64_t began_ns)
{
    return (double)(strata_now_ns() - began_ns) / 1e9;
}

static bool read_into_faulted(load_bench *now, double *seconds)
{
    const uint64_t began_ns = strata_now_ns();
    const bool done = read_plain(now, now->faulted);
    *seconds = since(began_ns);
    return done;
}

static bool read_into_region(load_bench *now, double *seconds)
{
    strata_error error;
    progress bar = {0};
    const uint64_t began_ns = strata_now_ns();
    const strata_status status = load_model_read(&now->loaded, &bar, &error);
    *seconds = since(began_ns);
    if (status != STRATA_OK) {
        (void)cli_fail("strata bench", "load: %s", error.text);
    }
    return status == STRATA_OK;
}

/* Faulted in by one call, where the kernel has it (5.14). In a virtual machine this row jumps where
 * its pages come from memory that the guest has never touched; its spread then says so. */
static bool map_and_read(load_bench *now, double *seconds)
{
    unsigned char *mapping;
    const uint64_t began_ns = strata_now_ns();
    unsigned char *into = map_plain(now->bytes, &mapping);
    if (into != NULL) {
        (void)madvise(into, now->bytes, MADV_POPULATE_WRITE);
    }
    const bool done = into != NULL && read_plain(now, into);
    *seconds = since(began_ns);
    unmap_plain(now->bytes, mapping);
    return done;
}

static bool malloc_and_read(load_bench *now, double *seconds)
{
    const uint64_t began_ns = strata_now_ns();
    unsigned char *into = malloc(now->bytes);
    const bool done = into != NULL && read_plain(now, into);
    *seconds = since(began_ns);
    free(into);
    return done;
}

static bool load_and_release(load_bench *now, bench_row *into, double *seconds)
{
    strata_error error;
    load_model fresh;
    progress bar = {0};
    strata_status status = load_model_open(&fresh, now->path, &error);
    if (status == STRATA_OK) {
        status = load_model_fill(&fresh, now->process, &now->config, false, &bar, &error);
    }
    if (status != STRATA_OK) {
        (void)cli_fail("strata bench", "load: %s", error.text);
    }
    *seconds = (double)fresh.load_ns / 1e9;
    (void)load_model_release(&fresh);
    into->unmaps = (machine_count){.known = true, .value = fresh.release.unmaps};
    (void)load_model_close(&fresh);
    return status == STRATA_OK;
}

enum { READ_LIMIT, READ_STRATA, READ_AGAIN, FULL_LIMIT, FULL_STRATA, FULL_MALLOC };

static bool run_row(void *user, size_t row, bench_row *into, double *seconds)
{
    switch (row) {
    case READ_STRATA:
        return read_into_region(user, seconds);
    case FULL_LIMIT:
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
    (void)bench_add(all, FULL, "malloc", 0, FULL_LIMIT, FULL_STRATA);
    const bool done = bench_measure(all, run_row, now);
    if (done) {
        bench_report(all, documents);
    }
    bench_destroy(all);
    return done ? TOOL_DONE : TOOL_FAILED;
}

/* --- setting up --------------------------------------------------------------------------------*/

/* The file's pages, the region, its plain counterpart, and one more of either while a row runs. */
static int check_fits(const load_bench *now)
{
    const machine_count available = machine_memory_available_bytes();
    if (available.known && available.value / 5 < now->bytes) {
        return cli_refuse("strata bench",
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
        return cli_fail("strata bench", "load: %s", error.text);
    }
    now->faulted = map_plain(now->bytes, &now->mapping);
    if (now->faulted == NULL) {
        return TOOL_FAILED;
    }
    memset(now->faulted, 1, now->bytes);
    return TOOL_DONE;
}

static int tear_down(load_bench *now, int status)
{
    unmap_plain(now->bytes, now->mapping);
    if (now->process != NULL) {
        if (load_model_release(&now->loaded) != STRATA_OK && status == TOOL_DONE) {
            status = cli_fail("strata bench", "load: the model's release failed");
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
    load_bench *now = calloc(1, sizeof(*now));
    if (now == NULL) {
        return cli_fail("strata bench", "load: out of memory");
    }
    const size_t bytes = options->bytes == 0 ? BYTES_DEFAULT : (size_t)options->bytes;
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

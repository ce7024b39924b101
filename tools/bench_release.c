/* bench_release.c - what giving memory back costs, with its translation shootdowns.
 *
 * The same number of bytes in the same number of touched blocks, given back by one munmap (the
 * limit), by a model's release, and by freeing block after block, while a second thread of this
 * process runs on the other core: without it there is nobody to interrupt. Filling is not measured.
 */
#include "bench.h"
#include "message.h"
#include "tool.h"

#include <strata/model.h>

#include <stdlib.h>

#define BLOCK_BYTES   ((size_t)64 << 10)
#define BYTES_DEFAULT ((size_t)256 << 20)
#define HUGE_BYTES    ((size_t)2 << 20)
#define PAGE_BYTES    ((size_t)4096)
#define RUNS_DEFAULT  9

typedef struct release_bench {
    strata_process *process;
    size_t bytes;
    size_t blocks;
    void **list; /* glibc's blocks */
    bool beside; /* a neighbour runs */
} release_bench;

/* Writes into every page. */
static void fill(unsigned char *base, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
        *(volatile unsigned char *)(base + at) = 1;
    }
}

static void note(const release_bench *now, bench_row *into, const machine_cost *cost,
                 machine_count resident_before, double *seconds)
{
    *seconds = (double)cost->elapsed_ns / 1e9;
    if (now->beside) {
        bench_note_shootdowns(into, cost->tlb_shootdowns);
    }
    into->peak_bytes = resident_before;
    into->bytes_returned = machine_difference(machine_resident_bytes(), resident_before);
}

/* --- the limit: one mapping, one munmap --------------------------------------------------------*/

static int run_limit(release_bench *now, bool huge, bench_row *into, double *seconds)
{
    bench_mapping mapping;
    int status = bench_map(&mapping, "release", now->bytes, huge);
    if (status != TOOL_DONE) {
        return status;
    }
    fill(mapping.base, now->bytes);

    machine_count resident = machine_resident_bytes();
    machine_window window;
    machine_window_begin(&window);
    bool unmapped = bench_unmap(&mapping);
    machine_cost cost = machine_window_end(&window);
    note(now, into, &cost, resident, seconds);
    into->unmaps = (machine_count){.known = true, .value = 1};
    return unmapped ? TOOL_DONE : message_fail(BENCH_NAME, "release: munmap failed");
}

/* --- strata: many blocks in an arena, one release ----------------------------------------------*/

static strata_status fill_model(release_bench *now, strata_model *model, bool huge,
                                strata_error *err)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = "blocks";
    config.region.reserve_bytes = now->bytes;
    config.region.first_bytes = now->bytes;
    config.region.pages = huge ? STRATA_PAGES_THP : STRATA_PAGES_DEFAULT;
    config.guard = STRATA_GUARD_OFF;
    strata_arena *arena;
    strata_status status = strata_arena_create(&arena, strata_model_root(model), &config, err);
    for (size_t i = 0; status == STRATA_OK && i < now->blocks; i++) {
        unsigned char *block = strata_arena_alloc(arena, BLOCK_BYTES, 64);
        if (block == NULL) {
            *err = *strata_arena_error(arena);
            return err->status;
        }
        fill(block, BLOCK_BYTES);
    }
    return status;
}

static int run_strata(release_bench *now, bool huge, bench_row *into, double *seconds)
{
    strata_error error;
    strata_model *model = NULL;
    strata_status status = strata_model_open(&model, now->process, NULL, &error);
    if (status == STRATA_OK) {
        status = fill_model(now, model, huge, &error);
    }
    if (status != STRATA_OK) {
        (void)strata_model_release(model, NULL, NULL);
        (void)strata_model_destroy(&model);
        return message_status(BENCH_NAME, status, "release: %s", error.text);
    }
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    machine_count resident = machine_resident_bytes();
    machine_window window;
    machine_window_begin(&window);
    status = strata_model_release(model, NULL, &report);
    machine_cost cost = machine_window_end(&window);
    note(now, into, &cost, resident, seconds);
    into->unmaps = (machine_count){.known = true, .value = report.unmaps};
    (void)strata_model_destroy(&model);
    if (status != STRATA_OK || report.verdict == STRATA_VERDICT_SHORT) {
        return message_fail(BENCH_NAME, "release: the model's release failed");
    }
    return TOOL_DONE;
}

/* --- glibc: block after block, newest first ----------------------------------------------------*/

static int run_glibc(release_bench *now, bench_row *into, double *seconds)
{
    size_t have = 0;
    while (have < now->blocks && (now->list[have] = malloc(BLOCK_BYTES)) != NULL) {
        fill(now->list[have], BLOCK_BYTES);
        have++;
    }
    machine_count resident = machine_resident_bytes();
    machine_window window;
    machine_window_begin(&window);
    for (size_t i = have; i > 0; i--) {
        free(now->list[i - 1]);
    }
    machine_cost cost = machine_window_end(&window);
    note(now, into, &cost, resident, seconds);
    return have == now->blocks
               ? TOOL_DONE
               : message_fail(BENCH_NAME, "release: malloc failed; use a smaller --bytes");
}

/* --- rows --------------------------------------------------------------------------------------*/

#define HUGE  "64 KiB blocks, huge pages"
#define SMALL "64 KiB blocks, 4 KiB pages"

enum { HUGE_LIMIT, HUGE_STRATA, HUGE_AGAIN, SMALL_LIMIT, SMALL_STRATA, SMALL_AGAIN, SMALL_GLIBC };

static int run_row(void *user, size_t row, bench_row *into, double *seconds)
{
    switch (row) {
    case HUGE_LIMIT:
    case HUGE_AGAIN:
        return run_limit(user, true, into, seconds);
    case HUGE_STRATA:
        return run_strata(user, true, into, seconds);
    case SMALL_LIMIT:
    case SMALL_AGAIN:
        return run_limit(user, false, into, seconds);
    case SMALL_STRATA:
        return run_strata(user, false, into, seconds);
    default:
        return run_glibc(user, into, seconds);
    }
}

static int measure(release_bench *now, bench *all)
{
    (void)bench_add(all, HUGE, "limit", 0, HUGE_LIMIT, HUGE_STRATA);
    (void)bench_add(all, HUGE, "strata", 0, HUGE_LIMIT, HUGE_STRATA);
    (void)bench_add(all, HUGE, "limit-again", 0, HUGE_LIMIT, HUGE_STRATA);
    (void)bench_add(all, SMALL, "limit", 0, SMALL_LIMIT, SMALL_STRATA);
    (void)bench_add(all, SMALL, "strata", 0, SMALL_LIMIT, SMALL_STRATA);
    (void)bench_add(all, SMALL, "limit-again", 0, SMALL_LIMIT, SMALL_STRATA);
    (void)bench_add(all, SMALL, "glibc", 0, SMALL_LIMIT, SMALL_STRATA);
    machine_neighbour neighbour;
    now->beside = machine_neighbour_start(&neighbour);
    int status = bench_measure(all, run_row, now);
    machine_neighbour_stop(&neighbour);
    return status;
}

int bench_release(const bench_options *options, json_t **documents)
{
    strata_error error;
    release_bench now = {
        .bytes = options->bytes == 0 ? BYTES_DEFAULT
                                     : (size_t)options->bytes / HUGE_BYTES * HUGE_BYTES,
    };
    now.bytes = now.bytes == 0 ? HUGE_BYTES : now.bytes;
    now.blocks = now.bytes / BLOCK_BYTES;
    now.list = calloc(now.blocks, sizeof *now.list);
    bench *all = bench_create("release", options, RUNS_DEFAULT);
    int status = TOOL_FAILED;
    if (now.list == NULL) {
        (void)message_fail(BENCH_NAME, "release: no memory for %zu blocks", now.blocks);
    } else if (strata_process_create(&now.process, NULL, &error) != STRATA_OK) {
        (void)message_fail(BENCH_NAME, "release: %s", error.text);
    } else if (all != NULL) {
        status = measure(&now, all);
        if (status == TOOL_DONE) {
            bench_report(all, documents);
        }
    }
    bench_destroy(all);
    (void)strata_process_destroy(&now.process);
    free(now.list);
    return status;
}

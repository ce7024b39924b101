/* bench_alloc.c - what an allocation costs, beside a bare pointer bump.
 *
 * A run allocates the same 1,024 blocks over and over, cache-resident: dropped whole by a rewind
 * where the allocator has one, one by one where it has not (its figure is then the cost of having
 * and freeing a block). Every row touches every block in the same way, and the touch makes the
 * compiler believe that all memory has been read and written: the cursor has to go through memory,
 * and nothing can be left out. No row looks whether a block was given: the areas are large enough,
 * and the limit has no such question either. */
#include "bench.h"
#include "message.h"
#include "tool.h"

#include <strata/heap.h>
#include <strata/lane.h>
#include <strata/model.h>

#include <stdlib.h>

#define BLOCKS       1024
#define ALIGN        16
#define BUMP_PASSES  512 /* short, so that neighbours in time meet the same machine */
#define HEAP_PASSES  32
#define AREA_BYTES   ((size_t)2 << 20)
#define PIECE_BYTES  ((size_t)512 << 10) /* of a lane: a whole pass fits */
#define RUNS_DEFAULT 301

/* The whole of a bare bump allocator. */
typedef struct plain_bump {
    uintptr_t cursor;
} plain_bump;

typedef struct alloc_bench {
    strata_process *process;
    strata_model *model;
    strata_arena *arena;
    strata_arena *shared;
    strata_arena *below_limit; /* where the bare bump runs: the same kind of memory */
    strata_lane *lane;
    strata_heap *heap;
    strata_heap_lane *heap_lane;
    strata_arena_mark arena_mark;
    strata_arena_mark shared_mark;
    uintptr_t plain_base;
    plain_bump plain;
    uint16_t sizes[BLOCKS];
    void *blocks[BLOCKS];
} alloc_bench;

static inline void touch(void *block)
{
    *(volatile unsigned char *)block = 1;
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* --- runs --------------------------------------------------------------------------------------
 *
 * One function each, never inlined, so that each is compiled for itself. */

__attribute__((noinline)) static bool run_limit(alloc_bench *now)
{
    plain_bump *bump = &now->plain;
    for (size_t pass = 0; pass < BUMP_PASSES; pass++) {
        bump->cursor = now->plain_base;
        for (size_t i = 0; i < BLOCKS; i++) {
            uintptr_t at = (bump->cursor + (ALIGN - 1)) & ~(uintptr_t)(ALIGN - 1);
            bump->cursor = at + now->sizes[i];
            touch((void *)at);
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_arena(alloc_bench *now)
{
    strata_arena *arena = now->arena;
    for (size_t pass = 0; pass < BUMP_PASSES; pass++) {
        if (strata_arena_rewind(arena, now->arena_mark) != STRATA_OK) {
            return false;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            touch(strata_arena_alloc(arena, now->sizes[i], ALIGN));
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_arena_exported(alloc_bench *now)
{
    strata_arena *arena = now->arena;
    for (size_t pass = 0; pass < BUMP_PASSES; pass++) {
        if (strata_arena_rewind(arena, now->arena_mark) != STRATA_OK) {
            return false;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            touch(strata_arena_take(arena, now->sizes[i], ALIGN));
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_lane(alloc_bench *now)
{
    strata_lane *lane = now->lane;
    for (size_t pass = 0; pass < BUMP_PASSES; pass++) {
        if (strata_arena_rewind(now->shared, now->shared_mark) != STRATA_OK) {
            return false;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            touch(strata_lane_alloc(lane, now->sizes[i], ALIGN));
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_heap(alloc_bench *now)
{
    for (size_t pass = 0; pass < HEAP_PASSES; pass++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            now->blocks[i] = strata_heap_alloc(now->heap, now->sizes[i], ALIGN, NULL);
            touch(now->blocks[i]);
        }
        for (size_t i = BLOCKS; i > 0; i--) {
            (void)strata_heap_free(now->heap, now->blocks[i - 1]);
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_heap_lane(alloc_bench *now)
{
    for (size_t pass = 0; pass < HEAP_PASSES; pass++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            now->blocks[i] = strata_heap_lane_alloc(now->heap_lane, now->sizes[i], ALIGN, NULL);
            touch(now->blocks[i]);
        }
        for (size_t i = BLOCKS; i > 0; i--) {
            (void)strata_heap_lane_free(now->heap_lane, now->blocks[i - 1]);
        }
    }
    return true;
}

__attribute__((noinline)) static bool run_glibc(alloc_bench *now)
{
    for (size_t pass = 0; pass < HEAP_PASSES; pass++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            now->blocks[i] = malloc(now->sizes[i]);
            touch(now->blocks[i]);
        }
        for (size_t i = BLOCKS; i > 0; i--) {
            free(now->blocks[i - 1]);
        }
    }
    return true;
}

/* --- rows --------------------------------------------------------------------------------------*/

typedef struct alloc_row {
    const char *workload;
    const char *allocator;
    size_t passes;
    bool (*run)(alloc_bench *now);
} alloc_row;

#define DROPPED "1024 blocks, dropped whole"
#define FREED   "1024 blocks, freed one by one"

/* `limit-again` is `limit` once more: how far from 1 its ratio is, is what a ratio is worth. */
static const alloc_row rows[] = {
    {DROPPED, "limit", BUMP_PASSES, run_limit},
    {DROPPED, "strata-arena", BUMP_PASSES, run_arena},
    {DROPPED, "limit-again", BUMP_PASSES, run_limit},
    {DROPPED, "strata-arena-exported", BUMP_PASSES, run_arena_exported},
    {DROPPED, "strata-lane", BUMP_PASSES, run_lane},
    {FREED, "strata-heap", HEAP_PASSES, run_heap},
    {FREED, "strata-heap-lane", HEAP_PASSES, run_heap_lane},
    {FREED, "glibc", HEAP_PASSES, run_glibc},
};
#define ROW_COUNT  (sizeof rows / sizeof rows[0])
#define ROW_LIMIT  0
#define ROW_STRATA 1

static int run_row(void *user, size_t row, bench_row *into, double *seconds)
{
    (void)into;
    uint64_t began_ns = strata_now_ns();
    if (!rows[row].run(user)) {
        return message_fail(BENCH_NAME, "alloc: %s: a rewind was refused", rows[row].allocator);
    }
    *seconds = (double)(strata_now_ns() - began_ns) / 1e9;
    return TOOL_DONE;
}

/* --- setting up --------------------------------------------------------------------------------*/

static strata_status open_arena(alloc_bench *now, const char *label, bool shared,
                                strata_arena **out, strata_error *err)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = label;
    config.region.first_bytes = AREA_BYTES;
    config.region.prefault = true;
    config.shared = shared;
    config.lane_bytes = shared ? PIECE_BYTES : config.lane_bytes;
    config.guard = STRATA_GUARD_OFF; /* the point is what a build for users does */
    return strata_arena_create(out, strata_model_root(now->model), &config, err);
}

static strata_status open_heap(alloc_bench *now, strata_error *err)
{
    strata_heap_config config;
    strata_heap_config_init(&config);
    config.region.label = "heap";
    strata_status status =
        strata_heap_create(&now->heap, strata_model_root(now->model), &config, err);
    return status == STRATA_OK ? strata_heap_lane_open(&now->heap_lane, now->heap, err) : status;
}

/* From 16 to 112, seldom a multiple of the alignment; the same in every run of the program. */
static void choose_sizes(alloc_bench *now)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < BLOCKS; i++) {
        state = state * 1664525U + 1013904223U;
        now->sizes[i] = (uint16_t)(16 + (state >> 16) % 97);
    }
}

static strata_status set_up(alloc_bench *now, strata_error *err)
{
    choose_sizes(now);
    strata_status status = strata_process_create(&now->process, NULL, err);
    if (status == STRATA_OK) {
        status = strata_model_open(&now->model, now->process, NULL, err);
    }
    if (status == STRATA_OK) {
        status = open_arena(now, "limit", false, &now->below_limit, err);
    }
    if (status == STRATA_OK) {
        status = open_arena(now, "arena", false, &now->arena, err);
    }
    if (status == STRATA_OK) {
        status = open_arena(now, "shared", true, &now->shared, err);
    }
    if (status == STRATA_OK) {
        status = strata_lane_open(&now->lane, now->shared, err);
    }
    if (status == STRATA_OK) {
        status = open_heap(now, err);
    }
    if (status == STRATA_OK) {
        now->plain_base = (uintptr_t)strata_arena_alloc(now->below_limit, AREA_BYTES / 2, ALIGN);
        now->arena_mark = strata_arena_get_mark(now->arena);
        now->shared_mark = strata_arena_get_mark(now->shared);
    }
    return status;
}

/* The model's release takes everything but the lanes, which are closed before. */
static int tear_down(alloc_bench *now, int status)
{
    strata_heap_lane_close(now->heap_lane);
    strata_lane_close(now->lane);
    if (now->model != NULL && strata_model_release(now->model, NULL, NULL) != STRATA_OK &&
        status == TOOL_DONE) {
        status = message_fail(BENCH_NAME, "alloc: the model's release failed");
    }
    (void)strata_model_destroy(&now->model);
    (void)strata_process_destroy(&now->process);
    return status;
}

static int measure(alloc_bench *now, const bench_options *options, json_t **documents)
{
    strata_error error;
    strata_status ready = set_up(now, &error);
    if (ready != STRATA_OK) {
        return message_status(BENCH_NAME, ready, "alloc: %s", error.text);
    }
    bench *all = bench_create("alloc", options, RUNS_DEFAULT);
    if (all == NULL) {
        return TOOL_FAILED;
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        (void)bench_add(all, rows[i].workload, rows[i].allocator,
                        (double)rows[i].passes * (double)BLOCKS, ROW_LIMIT, ROW_STRATA);
    }
    int status = bench_measure(all, run_row, now);
    if (status == TOOL_DONE) {
        bench_report(all, documents);
    }
    bench_destroy(all);
    return status;
}

int bench_alloc(const bench_options *options, json_t **documents)
{
    alloc_bench *now = calloc(1, sizeof *now);
    if (now == NULL) {
        return message_fail(BENCH_NAME, "alloc: out of memory");
    }
    int status = tear_down(now, measure(now, options, documents));
    free(now);
    return status;
}

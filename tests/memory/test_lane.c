/* test_lane.c - threads over one shared arena: pieces never overlap, rewinding empties them all. */
#include <strata/host.h>
#include <strata/lane.h>

#include "fixture.h"

#include <string.h>

static strata_arena *arena;

static void open_shared(strata_guard guard)
{
    setup();
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.shared = true;
    config.guard = guard;
    config.region.reserve_bytes = 256 * MIB;
    assert_ok(strata_arena_open(&arena, &host.backend, &ledger, &memory.memory, &config, &error),
              error);
}

static void setup_shared(void)
{
    open_shared(STRATA_GUARD_OFF);
}

static void end(void)
{
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    strata_arena_destroy(arena);
    assert_all_returned();
}

START_TEST(a_shared_arena_serves_lanes_only_and_lanes_need_a_shared_arena)
{
    ck_assert_ptr_null(strata_arena_alloc(arena, 1, 1));
    ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_ORDER);
    strata_arena_config config;
    strata_arena_config_init(&config);
    strata_arena *plain = NULL;
    strata_lane *lane = NULL;
    assert_ok(strata_arena_open(&plain, &host.backend, &ledger, &memory.memory, &config, &error),
              error);
    assert_status(strata_lane_open(&lane, plain, &error), STRATA_INVALID);
    assert_ok(strata_arena_close(plain, NULL, &error), error);
    strata_arena_destroy(plain);
    fake_memory_fail(&memory, 1, false);
    assert_status(strata_lane_open(&lane, arena, &error), STRATA_NO_MEMORY);
    fake_memory_heal(&memory);
    strata_lane_close(NULL);
    end();
}
END_TEST

START_TEST(rewinding_empties_every_lane_and_closing_ends_them)
{
    strata_lane *lanes[3];
    strata_arena_mark mark = strata_arena_get_mark(arena);
    for (int i = 0; i < 3; i++) {
        assert_ok(strata_lane_open(&lanes[i], arena, &error), error);
        ck_assert_ptr_nonnull(strata_lane_alloc(lanes[i], 100, 16));
    }
    assert_status(strata_arena_rewind(arena, mark), STRATA_OK);
    unsigned char *a = strata_lane_alloc(lanes[0], 100, 16);
    unsigned char *b = strata_lane_alloc(lanes[1], 100, 16);
    ck_assert(a + 100 <= b || b + 100 <= a);
    strata_lane_close(lanes[2]);
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    ck_assert_ptr_null(strata_lane_alloc(lanes[0], 1, 1));
    ck_assert_ptr_null(strata_lane_alloc(lanes[0], 1 * MIB, 1));
    ck_assert_int_eq(strata_lane_error(lanes[0])->status, STRATA_CLOSED);
    assert_status(strata_lane_open(&lanes[2], arena, &error), STRATA_CLOSED);
    end(); /* lanes that were left are destroyed with the arena */
}
END_TEST

START_TEST(odd_sizes_and_alignments_go_through_or_are_refused)
{
    strata_lane *lane = NULL;
    assert_ok(strata_lane_open(&lane, arena, &error), error);
    for (size_t align = 1; align <= 2 * MIB; align *= 2) {
        for (size_t size = 0; size <= 200000; size = size * 5 + 1) {
            unsigned char *block = strata_lane_alloc(lane, size, align);
            ck_assert_ptr_nonnull(block);
            ck_assert_uint_eq((uintptr_t)block & (align - 1), 0);
            memset(block, 1, size);
        }
    }
    ck_assert_ptr_null(strata_lane_alloc(lane, SIZE_MAX, 1));
    ck_assert_ptr_null(strata_lane_alloc(lane, 1, 3));
    ck_assert_ptr_null(strata_lane_alloc(lane, 0, 0));
    ck_assert_ptr_null(strata_lane_alloc(lane, 1024 * MIB, 1));
    ck_assert_int_eq(strata_lane_error(lane)->status, STRATA_LIMIT);
    end();
}
END_TEST

enum { THREADS = 4, BLOCKS = 4000 };

typedef struct worker {
    pthread_t thread;
    unsigned char mark;
    unsigned char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
} worker;

static void *fill(void *argument)
{
    worker *w = argument;
    strata_lane *lane = NULL;
    ck_assert_int_eq(strata_lane_open(&lane, arena, NULL), STRATA_OK);
    uint32_t seed = w->mark;
    for (int i = 0; i < BLOCKS; i++) {
        seed = seed * 1664525u + 1013904223u;
        w->sizes[i] = seed >> 28 == 0 ? seed >> 15 : seed >> 23;
        w->blocks[i] = strata_lane_alloc(lane, w->sizes[i], 1u << (seed % 8));
        ck_assert_ptr_nonnull(w->blocks[i]);
        memset(w->blocks[i], w->mark, w->sizes[i]);
    }
    strata_lane_close(lane);
    return NULL;
}

static void run_threads(void)
{
    static worker workers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t].mark = (unsigned char)(t + 1);
        ck_assert_int_eq(pthread_create(&workers[t].thread, NULL, fill, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        (void)pthread_join(workers[t].thread, NULL);
    }
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t good = 0;
            while (good < workers[t].sizes[i] && workers[t].blocks[i][good] == workers[t].mark) {
                good++;
            }
            ck_assert_uint_eq(good, workers[t].sizes[i]);
        }
    }
}

START_TEST(threads_never_share_a_byte)
{
    run_threads();
    end();
}
END_TEST

START_TEST(guarded_lanes_neither)
{
    end();
    open_shared(STRATA_GUARD_ON);
    run_threads();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *tests = add_case(suite, "lane");
    tcase_add_checked_fixture(tests, setup_shared, NULL);
    tcase_add_test(tests, a_shared_arena_serves_lanes_only_and_lanes_need_a_shared_arena);
    tcase_add_test(tests, rewinding_empties_every_lane_and_closing_ends_them);
    tcase_add_test(tests, odd_sizes_and_alignments_go_through_or_are_refused);
    tcase_add_test(tests, threads_never_share_a_byte);
    tcase_add_test(tests, guarded_lanes_neither);
    return run_suite(suite);
}

/* test_refusals.c - addresses and requests that a heap must not accept. */
#include "support.h"

#include <strata/arena.h>

#include <string.h>

/* Promise (case 9): foreign, interior and repeated frees are refused and counted; the owner's block
 * stays intact. */
START_TEST(bad_frees_are_refused)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    unsigned char *block = must_alloc(heap, 1000, 16);
    fill(block, 1000);
    int outside = 0;

    ck_assert_int_eq(strata_heap_free(heap, &outside), STRATA_FOREIGN);
    ck_assert_int_eq(strata_heap_free(heap, (void *)16), STRATA_FOREIGN);
    ck_assert_int_eq(strata_heap_free(heap, (void *)UINTPTR_MAX), STRATA_FOREIGN);
    for (size_t i = 1; i < 1000; i++) {
        ck_assert_int_eq(strata_heap_free(heap, block + i), STRATA_INVALID);
    }
    strata_heap_info info;
    strata_heap_read(heap, &info);
    char *last = (char *)info.region.base + info.region.reserve_bytes;
    ck_assert_int_eq(strata_heap_free(heap, last - 16), STRATA_INVALID);
    ck_assert_int_eq(strata_heap_free(heap, last), STRATA_FOREIGN);
    ck_assert(is_filled(block, 1000));
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_INVALID);
    ck_assert_int_eq(strata_heap_free(heap, NULL), STRATA_OK);

    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.refused_frees, 3 + 999 + 2 + 1);
    ck_assert_uint_eq(info.frees, 1);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise (case 34): what one heap gave is refused by another, and by memory that is no heap's. */
START_TEST(another_heaps_block_is_refused)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *one = bench_heap(&b, &config);
    strata_heap *two = bench_heap(&b, &config);
    strata_heap_lane *lane = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&lane, two, NULL), STRATA_OK);
    strata_arena_config arena_config;
    strata_arena_config_init(&arena_config);
    strata_arena *arena = NULL;
    ck_assert_int_eq(strata_arena_open(&arena, &b.host.backend, &b.ledger, &b.memory.memory,
                                       &arena_config, NULL),
                     STRATA_OK);
    void *bumped = strata_arena_alloc(arena, 64, 16);
    ck_assert_ptr_nonnull(bumped);

    void *block = must_alloc(one, 64, 16);
    fill(block, 64);
    ck_assert(strata_heap_owns(one, block));
    ck_assert(!strata_heap_owns(two, block));
    ck_assert_int_eq(strata_heap_free(two, block), STRATA_FOREIGN);
    ck_assert_int_eq(strata_heap_lane_free(lane, block), STRATA_FOREIGN);
    ck_assert_int_eq(strata_heap_free(one, bumped), STRATA_FOREIGN);
    ck_assert(!strata_arena_owns(arena, block));
    ck_assert_uint_eq(strata_heap_usable(two, block), 0);
    ck_assert(is_filled(block, 64));
    ck_assert_int_eq(strata_heap_free(one, block), STRATA_OK);

    ck_assert_int_eq(strata_arena_close(arena, NULL, NULL), STRATA_OK);
    strata_arena_destroy(arena);
    bench_heap_end(two);
    bench_heap_end(one);
    bench_end(&b);
}
END_TEST

/* Promise: an unchecked heap still refuses what is not its own. */
START_TEST(unchecked_refuses_foreign)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.checked = false;
    strata_heap *heap = bench_heap(&b, &config);
    int outside = 0;
    void *block = must_alloc(heap, 64, 16);
    ck_assert_int_eq(strata_heap_free(heap, &outside), STRATA_FOREIGN);
    ck_assert_uint_eq(strata_heap_usable(heap, block), 0);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    bench_heap_end(heap);
    strata_ledger_counts counts;
    strata_ledger_read(&b.ledger, &counts);
    ck_assert_uint_eq(counts.mappings_made, 1); /* no bits are kept */
    bench_end(&b);
}
END_TEST

/* Promise (case 25): sizes and alignments that could wrap are refused before jemalloc sees them. */
START_TEST(wrapping_requests_are_refused)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 15,    SIZE_MAX - 4096,
                                   SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)65 * 1024 * 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t align = 1; align <= STRATA_ALIGN_MAX; align *= 2) {
            strata_error err = {.status = STRATA_OK};
            ck_assert_ptr_null(strata_heap_alloc(heap, sizes[i], align, &err));
            ck_assert_int_eq(err.status, STRATA_LIMIT);
            ck_assert_ptr_nonnull(strstr(err.text, "reserve"));
        }
    }
    static const size_t aligns[] = {0, 3, 24, STRATA_ALIGN_MAX * 2, SIZE_MAX, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof aligns / sizeof aligns[0]; i++) {
        strata_error err = {.status = STRATA_OK};
        ck_assert_ptr_null(strata_heap_alloc(heap, 64, aligns[i], &err));
        ck_assert_int_eq(err.status, STRATA_INVALID);
    }
    /* The largest valid alignment does not fit 64 MiB: a limit, not a crash. */
    strata_error err = {.status = STRATA_OK};
    void *block = strata_heap_alloc(heap, 64, STRATA_ALIGN_MAX, &err);
    ck_assert(block == NULL ? err.status == STRATA_LIMIT
                            : (uintptr_t)block % STRATA_ALIGN_MAX == 0);
    /* No refusal left anything behind. */
    ck_assert_ptr_nonnull(must_alloc(heap, 64, 16));
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise: every call after the close answers CLOSED and touches nothing. */
START_TEST(late_calls_answer_closed)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    strata_heap_lane *lane = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&lane, heap, NULL), STRATA_OK);
    void *block = must_alloc(heap, 64, 16);
    ck_assert_int_eq(strata_heap_close(heap, NULL, NULL), STRATA_OK);

    strata_error err = {.status = STRATA_OK};
    ck_assert_ptr_null(strata_heap_alloc(heap, 64, 16, &err));
    ck_assert_int_eq(err.status, STRATA_CLOSED);
    err = (strata_error){.status = STRATA_OK};
    ck_assert_ptr_null(strata_heap_lane_alloc(lane, 64, 16, &err));
    ck_assert_int_eq(err.status, STRATA_CLOSED);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_CLOSED);
    ck_assert_int_eq(strata_heap_lane_free(lane, block), STRATA_CLOSED);
    ck_assert_uint_eq(strata_heap_usable(heap, block), 0);
    ck_assert(!strata_heap_owns(heap, block));
    strata_heap_lane *late = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&late, heap, NULL), STRATA_CLOSED);
    ck_assert_ptr_null(late);

    uint64_t calls = fake_system_calls(&b.system, FAKE_ANY);
    ck_assert_int_eq(strata_heap_close(heap, NULL, NULL), STRATA_OK); /* again: a no-op */
    ck_assert_uint_eq(fake_system_calls(&b.system, FAKE_ANY), calls);
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.allocations, 0); /* jemalloc's counts went with its arena */
    ck_assert_uint_eq(info.live_blocks, 0);
    ck_assert_uint_eq(info.region.committed_bytes, 0);
    strata_heap_lane_close(lane); /* after the heap's close, before its destruction */
    strata_heap_destroy(heap);
    bench_end(&b);
}
END_TEST

Suite *refusal_suite(void)
{
    Suite *suite = suite_create("heap refusals");
    TCase *tests = tcase_create("refusals");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, bad_frees_are_refused);
    tcase_add_test(tests, another_heaps_block_is_refused);
    tcase_add_test(tests, unchecked_refuses_foreign);
    tcase_add_test(tests, wrapping_requests_are_refused);
    tcase_add_test(tests, late_calls_answer_closed);
    suite_add_tcase(suite, tests);
    return suite;
}

/* test_lanes.c - caches in front of a heap. */
#include "support.h"

#include <string.h>

/* Promise: with all tcache indices of the process taken, opening a lane answers LIMIT and holds
 * nothing; after one is closed it works. */
START_TEST(lane_indices_run_out)
{
    static strata_heap_lane *lanes[5000];
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    size_t blocks = fake_memory_live(&b.memory);
    strata_error err = {.status = STRATA_OK};
    size_t count = 0;
    while (count < 5000 && strata_heap_lane_open(&lanes[count], heap, &err) == STRATA_OK) {
        count++;
    }
    ck_assert_uint_gt(count, 4000);
    ck_assert_uint_lt(count, 5000);
    ck_assert_int_eq(err.status, STRATA_LIMIT);
    ck_assert_uint_eq(fake_memory_live(&b.memory), blocks + count);
    strata_heap_lane_close(lanes[--count]);
    ck_assert_int_eq(strata_heap_lane_open(&lanes[count], heap, NULL), STRATA_OK);
    bench_heap_end(heap); /* takes the lanes along */
    bench_end(&b);
}
END_TEST

/* Promise: a block of one lane may be freed through another, through the heap, and the other way
 * round; a second free is refused in every combination. */
START_TEST(blocks_cross_lanes)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    strata_heap_lane *one = NULL;
    strata_heap_lane *two = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&one, heap, NULL), STRATA_OK);
    ck_assert_int_eq(strata_heap_lane_open(&two, heap, NULL), STRATA_OK);
    for (size_t size = 1; size < 200 * KIB; size = size * 3 / 2 + 1) {
        void *block = strata_heap_lane_alloc(one, size, 16, NULL);
        fill(block, size);
        ck_assert(is_filled(block, size));
        ck_assert_int_eq(strata_heap_lane_free(two, block), STRATA_OK);
        ck_assert_int_eq(strata_heap_lane_free(one, block), STRATA_INVALID);
        ck_assert_int_eq(strata_heap_free(heap, block), STRATA_INVALID);

        block = strata_heap_lane_alloc(two, size, 64, NULL);
        ck_assert_uint_eq((uintptr_t)block % 64, 0);
        fill(block, size);
        ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
        ck_assert_int_eq(strata_heap_lane_free(two, block), STRATA_INVALID);

        block = must_alloc(heap, size, 16);
        ck_assert_int_eq(strata_heap_lane_free(one, block), STRATA_OK);
        ck_assert_int_eq(strata_heap_free(heap, block), STRATA_INVALID);
    }
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.lanes, 2);
    strata_heap_lane_close(two);
    strata_heap_lane_close(one);
    strata_heap_lane_close(NULL);
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.lanes, 0);
    ck_assert_uint_eq(info.live_blocks, 0); /* what the lanes had cached is back */
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise: a lane grows the heap as the heap itself does, and answers the same errors. */
START_TEST(a_lane_grows_the_heap)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 8 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    strata_heap_lane *lane = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&lane, heap, NULL), STRATA_OK);
    strata_error err = {.status = STRATA_OK};
    size_t count = 0;
    void *block;
    while ((block = strata_heap_lane_alloc(lane, 4000, 16, &err)) != NULL) {
        fill(block, 4000);
        count++;
    }
    ck_assert_uint_ge(count, 1900); /* of 2,048 */
    ck_assert_int_eq(err.status, STRATA_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "reserve"));
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

Suite *lane_suite(void)
{
    Suite *suite = suite_create("heap lanes");
    TCase *tests = tcase_create("lanes");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, lane_indices_run_out);
    tcase_add_test(tests, blocks_cross_lanes);
    tcase_add_test(tests, a_lane_grows_the_heap);
    suite_add_tcase(suite, tests);
    return suite;
}

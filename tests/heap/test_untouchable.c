/* test_untouchable.c - a heap over memory that the host cannot touch. */
#include "support.h"

#define BLOCKS 300

/* Promise: no bookkeeping is read from or written into the region. Its pages are PROT_NONE, so one
 * byte would be a SIGSEGV: over small, large and aligned blocks, lanes, growth, purge, close. */
START_TEST(the_region_is_never_touched)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    fake_backend device;
    fake_backend_init(&device, &b.gate);
    strata_heap_config config = small_config();
    config.host = &b.host.backend;
    strata_heap *heap = NULL;
    ck_assert_int_eq(
        strata_heap_open(&heap, &device.backend, &b.ledger, &b.memory.memory, &config, NULL),
        STRATA_OK);
    strata_heap_lane *lane = NULL;
    ck_assert_int_eq(strata_heap_lane_open(&lane, heap, NULL), STRATA_OK);
    void *blocks[BLOCKS] = {NULL};
    uint64_t random = 88172645463325252U;
    uint64_t refused = 0;
    for (int turn = 0; turn < 20000; turn++) {
        size_t i = next_random(&random) % BLOCKS;
        bool through_lane = next_random(&random) % 2 == 0;
        if (blocks[i] != NULL) {
            ck_assert_int_eq(strata_heap_free(heap, (char *)blocks[i] + 8), STRATA_INVALID);
            ck_assert_int_eq(through_lane ? strata_heap_lane_free(lane, blocks[i])
                                          : strata_heap_free(heap, blocks[i]),
                             STRATA_OK);
        }
        size_t size = next_random(&random) % (size_t[]){64, 2000, 40000, 600000}[turn % 4];
        size_t align = (size_t)1 << (next_random(&random) % (turn % 50 == 0 ? 21 : 13));
        strata_error err = {.status = STRATA_OK};
        blocks[i] = through_lane ? strata_heap_lane_alloc(lane, size, align, &err)
                                 : strata_heap_alloc(heap, size, align, &err);
        if (blocks[i] == NULL) {
            ck_assert_int_eq(err.status, STRATA_LIMIT); /* full: purged and said so */
            refused++;
        } else {
            ck_assert_uint_eq((uintptr_t)blocks[i] % align, 0);
            ck_assert_uint_ge(strata_heap_usable(heap, blocks[i]), size);
        }
    }
    ck_assert_uint_lt(refused, 20000 / 2);
    ck_assert_uint_gt(device.commits, 5);
    bench_heap_end(heap);
    ck_assert_uint_eq(device.live_ranges, 0);
    bench_end(&b);
}
END_TEST

/* Promise: without a host backend handed in, the bits find host memory of their own. */
START_TEST(bits_find_host_memory)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    fake_backend device;
    fake_backend_init(&device, &b.gate);
    strata_heap_config config = small_config();
    strata_heap *heap = NULL;
    ck_assert_int_eq(
        strata_heap_open(&heap, &device.backend, &b.ledger, &b.memory.memory, &config, NULL),
        STRATA_OK);
    void *block = must_alloc(heap, 100, 16);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_INVALID);
    bench_heap_end(heap);
    ck_assert_uint_eq(fake_system_calls(&b.system, FAKE_MAP), 0);
    bench_end(&b);
}
END_TEST

/* Promise: a device that is full is an error with the device's own status, and what was there
 * before goes on working. */
START_TEST(a_full_device_is_an_error)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    fake_backend device;
    fake_backend_init(&device, &b.gate);
    strata_heap_config config = small_config();
    config.host = &b.host.backend;
    strata_heap *heap = NULL;
    ck_assert_int_eq(
        strata_heap_open(&heap, &device.backend, &b.ledger, &b.memory.memory, &config, NULL),
        STRATA_OK);
    void *first = must_alloc(heap, MIB, 16);
    strata_error err = {.status = STRATA_OK};
    /* 8 MiB is more than a step, so nothing smaller is tried; the second try follows a purge. */
    device.fault = (fake_fault){.nth = 1, .from_then_on = true};
    ck_assert_ptr_null(strata_heap_alloc(heap, 8 * MIB, 16, &err));
    ck_assert_int_eq(err.status, STRATA_DEVICE_MEMORY);
    ck_assert_uint_gt(device.fault.injected, 0);
    device.fault = (fake_fault){.nth = 0};
    void *second = must_alloc(heap, 8 * MIB, 16);
    ck_assert_int_eq(strata_heap_free(heap, second), STRATA_OK);
    ck_assert_int_eq(strata_heap_free(heap, first), STRATA_OK);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

Suite *untouchable_suite(void)
{
    Suite *suite = suite_create("heap over untouchable memory");
    TCase *tests = tcase_create("untouchable");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, the_region_is_never_touched);
    tcase_add_test(tests, bits_find_host_memory);
    tcase_add_test(tests, a_full_device_is_an_error);
    suite_add_tcase(suite, tests);
    return suite;
}

/* test_alloc.c - what a heap gives: aligned, inside, apart, and given back whole. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a;
    uintptr_t y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

/* Promise (case 24): alignments of 1 byte to 2 MiB with odd sizes give blocks that are aligned, lie
 * inside the committed region and do not overlap. */
START_TEST(alignments_hold)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 256 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    static const size_t sizes[] = {1,    2,    7,     15,    17,     33,     100,
                                   1021, 4095, 14337, 65537, 262143, 1000003};
    static struct {
        unsigned char *block;
        size_t size;
    } blocks[600];
    static void *sorted[600];
    size_t count = 0;
    for (size_t align = 1; align <= 2 * MIB; align *= 2) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            unsigned char *block = must_alloc(heap, sizes[i], align);
            ck_assert_uint_eq((uintptr_t)block % align, 0);
            ck_assert_uint_ge(strata_heap_usable(heap, block), sizes[i]);
            fill(block, sizes[i]);
            blocks[count].block = block;
            blocks[count].size = sizes[i];
            sorted[count++] = block;
        }
    }
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.live_blocks, count);
    for (size_t i = 0; i < count; i++) {
        size_t offset = (size_t)(blocks[i].block - (unsigned char *)info.region.base);
        ck_assert_uint_le(offset + blocks[i].size, info.region.committed_bytes);
        ck_assert(is_filled(blocks[i].block, blocks[i].size));
    }
    qsort(sorted, count, sizeof sorted[0], by_address);
    for (size_t i = 1; i < count; i++) {
        size_t usable = strata_heap_usable(heap, sorted[i - 1]);
        ck_assert_uint_le((uintptr_t)sorted[i - 1] + usable, (uintptr_t)sorted[i]);
    }
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(strata_heap_free(heap, blocks[i].block), STRATA_OK);
    }
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise (cases 26, 53): zero bytes give a block of its own, at least 16 bytes apart from any
 * other, which is freed like one. Odd sizes at a runtime's 64 bytes stay aligned. */
START_TEST(zero_and_odd_sizes)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    void *blocks[64];
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = must_alloc(heap, 0, i % 2 == 0 ? 1 : 64);
        for (size_t k = 0; k < i; k++) {
            ck_assert_ptr_ne(blocks[i], blocks[k]);
        }
    }
    for (size_t i = 0; i < 64; i++) {
        ck_assert_int_eq(strata_heap_free(heap, blocks[i]), STRATA_OK);
        ck_assert_int_eq(strata_heap_free(heap, blocks[i]), STRATA_INVALID);
    }
    for (size_t size = 1; size < 3000; size += 7) {
        void *block = must_alloc(heap, size, 64);
        ck_assert_uint_eq((uintptr_t)block % 64, 0);
        fill(block, size);
        ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    }
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise: figures are exact without a lane: blocks, bytes, totals. */
START_TEST(figures_are_exact)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    void *blocks[100];
    size_t usable = 0;
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = must_alloc(heap, 1 + i * 777, 16);
        usable += strata_heap_usable(heap, blocks[i]);
    }
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.live_blocks, 100);
    ck_assert_uint_eq(info.live_bytes, usable);
    ck_assert_uint_eq(info.allocations, 100);
    for (size_t i = 0; i < 60; i++) {
        ck_assert_int_eq(strata_heap_free(heap, blocks[i]), STRATA_OK);
    }
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.live_blocks, 40);
    ck_assert_uint_eq(info.frees, 60);
    ck_assert_uint_eq(info.refused_frees, 0);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise (case 8): a big block, freed, leaves room for another big one in the same reservation; so
 * do many small ones, whose slabs jemalloc joins only because it is told to before a refusal. */
START_TEST(freed_room_is_found_again)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 32 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    static void *small[90000];
    for (int turn = 0; turn < 4; turn++) {
        void *big = must_alloc(heap, 20 * MIB, 16);
        ck_assert_int_eq(strata_heap_free(heap, big), STRATA_OK);
        for (size_t i = 0; i < 90000; i++) {
            small[i] = must_alloc(heap, 256, 16);
        }
        for (size_t i = 0; i < 90000; i++) {
            ck_assert_int_eq(strata_heap_free(heap, small[i]), STRATA_OK);
        }
    }
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise (case 8): a block larger than any before finds the room of those that were freed, in the
 * reservation and in the budget. */
START_TEST(a_larger_block_finds_freed_room)
{
    bench b;
    bench_begin(&b, 100 * MIB);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 128 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    for (size_t size = 20 * MIB; size <= 80 * MIB; size += MIB) {
        void *block = must_alloc(heap, size, 16);
        ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    }
    void *small = must_alloc(heap, 100, 16); /* one that stays does not change it */
    void *block = must_alloc(heap, 30 * MIB, 16);
    ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
    block = must_alloc(heap, 70 * MIB, 16);
    fill(block, 70 * MIB);
    ck_assert(is_filled(block, 70 * MIB));
    ck_assert_int_eq(strata_heap_free(heap, small), STRATA_OK);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise (case 8): after a close the bytes held are 0, and the next heap has the whole budget. */
START_TEST(release_then_open_fits)
{
    bench b;
    bench_begin(&b, 40 * MIB);
    strata_heap_config config = small_config();
    for (int turn = 0; turn < 20; turn++) {
        strata_heap *heap = bench_heap(&b, &config);
        fill(must_alloc(heap, 30 * MIB, 64), 30 * MIB);
        bench_heap_end(heap);
        ck_assert(bench_is_empty(&b));
    }
    bench_end(&b);
}
END_TEST

/* Promise: what a closed heap had of jemalloc is used again: more heaps, one after another, than
 * there are indices. */
START_TEST(indices_are_used_again)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    for (int turn = 0; turn < 4200; turn++) {
        strata_heap *heap = bench_heap(&b, &config);
        strata_heap_lane *lane = NULL;
        ck_assert_int_eq(strata_heap_lane_open(&lane, heap, NULL), STRATA_OK);
        bench_heap_end(heap);
    }
    bench_end(&b);
}
END_TEST

/* Promise (case 28): nothing of a dead heap is handed out, not even where a new heap gets the same
 * addresses; blocks of live neighbours keep their contents through it. */
START_TEST(dead_heaps_stay_dead)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *neighbour = bench_heap(&b, &config);
    void *kept = must_alloc(neighbour, 5000, 16);
    fill(kept, 5000);
    for (int turn = 0; turn < 50; turn++) {
        strata_heap *heap = bench_heap(&b, &config);
        strata_heap_lane *lane = NULL;
        ck_assert_int_eq(strata_heap_lane_open(&lane, heap, NULL), STRATA_OK);
        for (size_t i = 0; i < 200; i++) {
            void *block = must_alloc(heap, 16 + i * 50, 16);
            void *cached = strata_heap_lane_alloc(lane, 16 + i, 16, NULL);
            ck_assert_ptr_nonnull(cached);
            if (i % 3 != 0) { /* the rest dies with the heap */
                ck_assert_int_eq(strata_heap_lane_free(lane, cached), STRATA_OK);
                ck_assert_int_eq(strata_heap_free(heap, block), STRATA_OK);
            }
        }
        bench_heap_end(heap);
        for (size_t i = 0; i < 50; i++) {
            void *block = must_alloc(neighbour, 16 + i * 50, 16);
            ck_assert(strata_heap_owns(neighbour, block));
            fill(block, 16 + i * 50); /* would crash in a dead heap */
            ck_assert_int_eq(strata_heap_free(neighbour, block), STRATA_OK);
        }
    }
    ck_assert(is_filled(kept, 5000));
    bench_heap_end(neighbour);
    bench_end(&b);
}
END_TEST

/* Promise: one heap is two mappings, one for memory and one for its bits, however much it grew; the
 * bits are 1/128 of it. */
START_TEST(two_mappings_a_heap)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config;
    strata_heap_config_init(&config);
    strata_heap *heap = bench_heap(&b, &config);
    for (int i = 0; i < 60; i++) {
        (void)must_alloc(heap, 2 * MIB, 16);
    }
    strata_ledger_counts counts;
    strata_ledger_read(&b.ledger, &counts);
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(counts.mappings_made, 2);
    ck_assert_uint_eq(fake_system_live(&b.system), 2);
    size_t bits = counts.committed_bytes - info.region.committed_bytes;
    ck_assert_uint_ge(bits, info.region.committed_bytes / 128);
    ck_assert_uint_le(bits, info.region.committed_bytes / 128 + 2 * MIB);
    ck_assert_uint_le(counts.mapping_operations, 24);
    bench_heap_end(heap);
    ck_assert_uint_eq(b.system.calls[FAKE_UNMAP], 2);
    bench_end(&b);
}
END_TEST

Suite *alloc_suite(void)
{
    Suite *suite = suite_create("heap alloc");
    TCase *tests = tcase_create("alloc");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, alignments_hold);
    tcase_add_test(tests, zero_and_odd_sizes);
    tcase_add_test(tests, figures_are_exact);
    tcase_add_test(tests, freed_room_is_found_again);
    tcase_add_test(tests, a_larger_block_finds_freed_room);
    tcase_add_test(tests, release_then_open_fits);
    tcase_add_test(tests, indices_are_used_again);
    tcase_add_test(tests, dead_heaps_stay_dead);
    tcase_add_test(tests, two_mappings_a_heap);
    suite_add_tcase(suite, tests);
    return suite;
}

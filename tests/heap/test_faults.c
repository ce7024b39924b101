/* test_faults.c - the n-th control block, system call, extent hook and unmap fails, for every n. */
#include "support.h"

#include "alloc/heap/src/internal.h"

#include <errno.h>
#include <string.h>

/* The life of a heap that touches every kind of call. Returns what went wrong first; the heap is
 * NULL or closed and destroyed afterwards, unless closing failed: then it is left in *left. */
static strata_status one_life(bench *b, strata_heap **left, strata_error *err)
{
    strata_heap_config config = small_config();
    config.region.first_bytes = MIB;
    strata_heap *heap = NULL;
    *left = NULL;
    strata_status status =
        strata_heap_open(&heap, &b->host.backend, &b->ledger, &b->memory.memory, &config, err);
    if (status != STRATA_OK) {
        ck_assert_ptr_null(heap); /* outputs are untouched on failure */
        return status;
    }
    strata_heap_lane *lane = NULL;
    strata_status lane_status = strata_heap_lane_open(&lane, heap, err);
    status = lane_status;
    strata_error alloc_err = {.status = STRATA_OK};
    for (size_t i = 0; i < 12 && status == STRATA_OK; i++) {
        void *block = strata_heap_alloc(heap, MIB, 16, &alloc_err);
        if (block == NULL) {
            ck_assert_int_ne(alloc_err.status, STRATA_OK);
            *err = alloc_err;
            status = alloc_err.status;
        } else {
            fill(block, MIB);
        }
    }
    strata_error close_err = {.status = STRATA_OK};
    strata_status closing = strata_heap_close(heap, NULL, &close_err);
    if (closing != STRATA_OK) {
        ck_assert_int_eq(close_err.status, closing);
        *left = heap;
        *err = close_err;
        return closing;
    }
    strata_heap_destroy(heap);
    return status;
}

/* Promise: whichever control block cannot be had, the error says NO_MEMORY and nothing is held. */
START_TEST(control_block_n_fails)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    uint64_t failures = 0;
    for (uint64_t n = 1, injected = 1; injected > 0; n++) {
        strata_error err = {.status = STRATA_OK};
        strata_heap *left;
        fake_memory_fail(&b.memory, n, _i == 1);
        strata_status status = one_life(&b, &left, &err);
        fake_memory_heal(&b.memory);
        injected = fake_memory_injected(&b.memory);
        ck_assert_int_eq(status, injected > 0 ? STRATA_NO_MEMORY : STRATA_OK);
        ck_assert_int_eq(err.status, status);
        ck_assert_ptr_null(left);
        ck_assert(bench_is_empty(&b));
        failures += injected;
    }
    ck_assert_uint_ge(failures, 3); /* heap, its region, its bits, a lane */
    bench_end(&b);
}
END_TEST

/* Promise: whichever map, protect or advise fails, an error comes back, and after the close nothing
 * is held. A failed unmap leaves a heap that can be closed again, and then nothing is held. */
START_TEST(system_call_n_fails)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    uint64_t stranded = 0;
    uint64_t n = 1;
    for (uint64_t injected = 1; injected > 0; n++) {
        strata_error err = {.status = STRATA_OK};
        strata_heap *left;
        fake_system_fail(&b.system, FAKE_ANY, n, false, ENOMEM);
        strata_status status = one_life(&b, &left, &err);
        fake_system_heal(&b.system);
        injected = fake_system_injected(&b.system);
        if (left != NULL) {
            ck_assert_ptr_nonnull(strstr(err.text, "munmap"));
            ck_assert_int_eq(strata_heap_close(left, NULL, &err), STRATA_OK);
            strata_heap_destroy(left);
            stranded++;
        }
        ck_assert_int_eq(err.status, status);
        ck_assert(bench_is_empty(&b));
    }
    ck_assert_uint_eq(stranded, 2); /* the region and its bits */
    ck_assert_uint_ge(n, 8);
    bench_end(&b);
}
END_TEST

/* Promise: while every system call fails from the n-th on, the status is the first failure's, and
 * what could not be given back is named and counted; a heap that was open can be closed once calls
 * work again. */
START_TEST(system_calls_fail_from_n_on)
{
    uint64_t kept = 0;
    for (uint64_t n = 1, injected = 1; injected > 0; n++) {
        bench b;
        bench_begin(&b, STRATA_UNLIMITED);
        strata_error err = {.status = STRATA_OK};
        strata_heap *left;
        fake_system_fail(&b.system, FAKE_ANY, n, true, ENOMEM);
        strata_status status = one_life(&b, &left, &err);
        fake_system_heal(&b.system);
        injected = fake_system_injected(&b.system);
        ck_assert_int_eq(err.status, status);
        if (left != NULL) {
            ck_assert(!bench_is_empty(&b));
            ck_assert_int_eq(strata_heap_close(left, NULL, &err), STRATA_OK);
            ck_assert_int_eq(strata_heap_close(left, NULL, &err), STRATA_OK);
            strata_heap_destroy(left);
        } else if (!bench_is_empty(&b)) {
            /* An opening that failed and could not be undone. */
            ck_assert_ptr_nonnull(strstr(err.text, "munmap"));
            kept++;
            bench_abandon(&b);
            continue;
        }
        bench_end(&b);
    }
    ck_assert_uint_gt(kept, 0);
}
END_TEST

/* Promise: a refused budget is a BUDGET error that names the heap; after freeing, the same request
 * is served from what is there. */
START_TEST(budget_refuses_then_serves)
{
    bench b;
    bench_begin(&b, 9 * MIB);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    void *blocks[16];
    size_t count = 0;
    strata_error err = {.status = STRATA_OK};
    while (count < 16 && (blocks[count] = strata_heap_alloc(heap, MIB, 16, &err)) != NULL) {
        fill(blocks[count], MIB);
        count++;
    }
    ck_assert_uint_ge(count, 6);
    ck_assert_uint_lt(count, 9);
    ck_assert_int_eq(err.status, STRATA_BUDGET);
    ck_assert_ptr_nonnull(strstr(err.text, "run"));
    for (size_t i = 0; i < count; i++) {
        ck_assert(is_filled(blocks[i], MIB));
    }
    ck_assert_int_eq(strata_heap_free(heap, blocks[0]), STRATA_OK);
    blocks[0] = must_alloc(heap, MIB, 16);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Promise: a full reservation is a LIMIT error naming `reserve`, and no crash. */
START_TEST(reservation_is_full)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 8 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    strata_error err = {.status = STRATA_OK};
    size_t count = 0;
    while (strata_heap_alloc(heap, 64 * KIB, 16, &err) != NULL) {
        count++;
    }
    ck_assert_uint_ge(count, 90); /* of 128: jemalloc pads each class with a page */
    ck_assert_int_eq(err.status, STRATA_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "reserve"));
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* --- extent hooks ------------------------------------------------------------------------------*/

typedef struct hook_fault {
    strata__hook hook;
    fake_fault fault;
} hook_fault;

static bool hook_fails(void *user, strata__hook hook)
{
    hook_fault *f = user;
    if (hook != f->hook) {
        return false;
    }
    return fake_fault_is_due(&f->fault);
}

#define HOOK_BLOCKS 48

/* Sizes that make jemalloc cut large extents and join freed ones. */
static void split_and_merge(strata_heap *heap)
{
    void *blocks[HOOK_BLOCKS] = {NULL};
    size_t sizes[HOOK_BLOCKS] = {0};
    uint64_t random = 88172645463325252U;
    for (int turn = 0; turn < 400; turn++) {
        size_t i = next_random(&random) % HOOK_BLOCKS;
        if (blocks[i] != NULL) {
            ck_assert(is_filled(blocks[i], sizes[i]));
            ck_assert_int_eq(strata_heap_free(heap, blocks[i]), STRATA_OK);
        }
        sizes[i] = 1 +
                   next_random(&random) % (next_random(&random) % 4 == 0 ? 400 * KIB : 20 * KIB);
        strata_error err = {.status = STRATA_OK};
        blocks[i] = strata_heap_alloc(heap, sizes[i], 16, &err);
        if (blocks[i] != NULL) {
            fill(blocks[i], sizes[i]);
        } else {
            ck_assert_int_eq(err.status, STRATA_NO_MEMORY);
        }
    }
    for (size_t i = 0; i < HOOK_BLOCKS; i++) {
        if (blocks[i] != NULL) {
            ck_assert(is_filled(blocks[i], sizes[i]));
            ck_assert_int_eq(strata_heap_free(heap, blocks[i]), STRATA_OK);
        }
    }
}

/* Promise (case 29): whichever extent operation fails, once or from then on, live blocks keep their
 * contents, every block can be freed, and closing gives everything back. */
static void fail_hook(strata__hook hook, bool from_then_on)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    uint64_t n = 1;
    for (uint64_t injected = 1; injected > 0; n++) {
        strata_heap *heap = bench_heap(&b, &config);
        hook_fault f = {.hook = hook, .fault = {.nth = n, .from_then_on = from_then_on}};
        heap->extents.fault_user = &f;
        heap->extents.fault = hook_fails;
        split_and_merge(heap);
        strata_heap_info info;
        strata_heap_read(heap, &info);
        ck_assert_uint_eq(info.live_blocks, 0);
        ck_assert_uint_eq(info.live_bytes, 0);
        injected = f.fault.injected;
        heap->extents.fault = NULL;
        bench_heap_end(heap);
        ck_assert(bench_is_empty(&b));
    }
    ck_assert_uint_gt(n, 2); /* the hook was called at all */
    bench_end(&b);
}

START_TEST(extent_hook_n_fails)
{
    static const strata__hook hooks[] = {STRATA__HOOK_ALLOC, STRATA__HOOK_SPLIT,
                                         STRATA__HOOK_MERGE};
    fail_hook(hooks[_i / 2], _i % 2 == 1);
}
END_TEST

/* --- indices -----------------------------------------------------------------------------------*/

/* Promise: with all of jemalloc's arena indices taken, opening answers LIMIT and holds nothing;
 * with one free again it works. */
START_TEST(arena_indices_run_out)
{
    static unsigned arenas[5000];
    static strata__extents extents; /* outlives the arenas, hands out nothing */
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata__extents_init(&extents);
    strata_error err = {.status = STRATA_OK};
    size_t count = 0;
    while (count < 5000 &&
           strata__je_arena_create(&arenas[count], &extents.hooks, &err) == STRATA_OK) {
        count++;
    }
    ck_assert_uint_lt(count, 5000);
    ck_assert_int_eq(err.status, STRATA_LIMIT);

    strata_heap_config config = small_config();
    strata_heap *heap = NULL;
    err = (strata_error){.status = STRATA_OK};
    ck_assert_int_eq(
        strata_heap_open(&heap, &b.host.backend, &b.ledger, &b.memory.memory, &config, &err),
        STRATA_LIMIT);
    ck_assert_int_eq(err.status, STRATA_LIMIT);
    ck_assert_ptr_null(heap);
    ck_assert(bench_is_empty(&b));

    ck_assert_int_eq(strata__je_arena_destroy(arenas[--count], NULL), STRATA_OK);
    bench_heap_end(bench_heap(&b, &config));
    while (count > 0) {
        ck_assert_int_eq(strata__je_arena_destroy(arenas[--count], NULL), STRATA_OK);
    }
    bench_end(&b);
}
END_TEST

Suite *faults_suite(void)
{
    Suite *suite = suite_create("heap faults");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_loop_test(tests, control_block_n_fails, 0, 2);
    tcase_add_test(tests, system_call_n_fails);
    tcase_add_test(tests, system_calls_fail_from_n_on);
    tcase_add_test(tests, budget_refuses_then_serves);
    tcase_add_test(tests, reservation_is_full);
    tcase_add_loop_test(tests, extent_hook_n_fails, 0, 6);
    tcase_add_test(tests, arena_indices_run_out);
    suite_add_tcase(suite, tests);
    return suite;
}

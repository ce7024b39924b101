/* test_threads.c - one heap, several threads. */
#include "support.h"

#include <pthread.h>

#define THREADS 4
#define BLOCKS  200

typedef struct worker {
    strata_heap *heap;
    strata_heap_lane *lane; /* NULL: straight through the heap */
    pthread_barrier_t *start;
    uint64_t random;
    size_t size_max;
    size_t served;
    uint64_t damaged;
    uint64_t refused_frees;
    int turns;
    strata_status last;
    void *mailbox; /* atomic: a block for the next thread to free */
    struct worker *next;
} worker;

static void *take(worker *w, size_t size, strata_error *err)
{
    return w->lane != NULL ? strata_heap_lane_alloc(w->lane, size, 16, err)
                           : strata_heap_alloc(w->heap, size, 16, err);
}

static void give(worker *w, void *block)
{
    strata_status status = w->lane != NULL ? strata_heap_lane_free(w->lane, block)
                                           : strata_heap_free(w->heap, block);
    w->refused_frees += status != STRATA_OK;
}

static void *churn(void *argument)
{
    worker *w = argument;
    void *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    (void)pthread_barrier_wait(w->start);
    for (int turn = 0; turn < w->turns; turn++) {
        size_t i = next_random(&w->random) % BLOCKS;
        if (blocks[i] != NULL) {
            w->damaged += !is_filled(blocks[i], sizes[i]);
            if (turn % 5 == 0) { /* freed by another thread than the one that allocated it */
                void *other = __atomic_exchange_n(&w->next->mailbox, blocks[i], __ATOMIC_ACQ_REL);
                if (other != NULL) {
                    give(w, other);
                }
            } else {
                give(w, blocks[i]);
            }
        }
        sizes[i] = next_random(&w->random) % w->size_max;
        blocks[i] = take(w, sizes[i], NULL);
        if (blocks[i] != NULL) {
            fill(blocks[i], sizes[i]);
            w->served++;
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL) {
            w->damaged += !is_filled(blocks[i], sizes[i]);
            give(w, blocks[i]);
        }
    }
    return NULL;
}

static void run_workers(worker *workers, strata_heap *heap, void *(*body)(void *))
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].heap = heap;
        workers[i].start = &start;
        workers[i].random = 88172645463325252U + i * 7919;
        workers[i].next = &workers[(i + 1) % THREADS];
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&start);
}

/* Promise: blocks of concurrent threads keep their contents, whoever frees them; afterwards nothing
 * is live. Loop: without lanes, with lanes, with both kinds mixed. */
START_TEST(contents_survive_churn)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 256 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    worker workers[THREADS] = {{.turns = 0}};
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].turns = 20000;
        workers[i].size_max = i % 2 == 0 ? 500 : 20 * KIB;
        if (_i == 1 || (_i == 2 && i % 2 == 0)) {
            ck_assert_int_eq(strata_heap_lane_open(&workers[i].lane, heap, NULL), STRATA_OK);
        }
    }
    run_workers(workers, heap, churn);
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(workers[i].damaged, 0);
        ck_assert_uint_eq(workers[i].refused_frees, 0);
        ck_assert_uint_eq(workers[i].served, 20000);
        ck_assert_int_eq(strata_heap_free(heap, workers[i].mailbox), STRATA_OK);
        strata_heap_lane_close(workers[i].lane);
    }
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(info.live_blocks, 0);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Allocates until refused, keeping everything. */
static void *exhaust(void *argument)
{
    worker *w = argument;
    strata_error err = {.status = STRATA_OK};
    (void)pthread_barrier_wait(w->start);
    while (take(w, w->size_max, &err) != NULL) {
        w->served++;
    }
    w->last = err.status;
    return NULL;
}

/* Promise: threads that fall short at the same moment, and take each other's room, are refused only
 * once the reservation is full: together they get what one thread alone gets. */
START_TEST(growth_race_loses_nothing)
{
    static const size_t sizes[] = {1000, 60 * KIB, 200 * KIB};
    size_t size = sizes[_i];
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.step_bytes = 4 * KIB; /* short nearly every time */
    config.region.step_max_bytes = 4 * KIB;
    config.region.reserve_bytes = 16 * MIB;

    strata_heap *heap = bench_heap(&b, &config);
    size_t alone = 0;
    while (strata_heap_alloc(heap, size, 16, NULL) != NULL) {
        alone++;
    }
    bench_heap_end(heap);

    heap = bench_heap(&b, &config);
    worker workers[THREADS] = {{.turns = 0}};
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].size_max = size;
    }
    run_workers(workers, heap, exhaust);
    size_t together = 0;
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(workers[i].last, STRATA_LIMIT);
        together += workers[i].served;
    }
    /* Each thread may hold a slab of its own that nobody else could use. */
    ck_assert_uint_ge(together + (uintmax_t)THREADS * 64, alone);
    ck_assert_uint_ge(together * size, 12 * MIB);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

/* Allocates a number of times, keeping everything, whatever is refused. */
static void *keep_asking(void *argument)
{
    worker *w = argument;
    (void)pthread_barrier_wait(w->start);
    for (int turn = 0; turn < w->turns; turn++) {
        w->served += take(w, w->size_max, NULL) != NULL;
    }
    return NULL;
}

/* Promise: a request that cannot fit does not make another thread's, which can, fail. */
START_TEST(a_hopeless_request_hurts_nobody)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.reserve_bytes = 512 * MIB;
    config.region.step_bytes = 4 * KIB;
    config.region.step_max_bytes = 4 * KIB;
    strata_heap *heap = bench_heap(&b, &config);
    (void)must_alloc(heap, 4 * MIB, 16);
    worker workers[THREADS] = {{.turns = 0}};
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].turns = 3000;
        workers[i].size_max = i % 2 == 0 ? 510 * MIB : 60 * KIB;
    }
    run_workers(workers, heap, keep_asking);
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(workers[i].served, i % 2 == 0 ? 0 : 3000);
    }
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

typedef struct race {
    strata_heap *heap;
    void **blocks;
    pthread_barrier_t *start;
    size_t freed;
} race;

#define RACE_BLOCKS 20000

static void *free_all(void *argument)
{
    race *r = argument;
    (void)pthread_barrier_wait(r->start);
    for (size_t i = 0; i < RACE_BLOCKS; i++) {
        r->freed += strata_heap_free(r->heap, r->blocks[i]) == STRATA_OK;
    }
    return NULL;
}

/* Promise: of threads that free the same block at the same moment, exactly one succeeds. */
START_TEST(racing_double_frees)
{
    static void *blocks[RACE_BLOCKS];
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    for (size_t i = 0; i < RACE_BLOCKS; i++) {
        blocks[i] = must_alloc(heap, 32, 16);
    }
    race racers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        racers[i] = (race){heap, blocks, &start, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, free_all, &racers[i]), 0);
    }
    size_t freed = 0;
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        freed += racers[i].freed;
    }
    (void)pthread_barrier_destroy(&start);
    strata_heap_info info;
    strata_heap_read(heap, &info);
    ck_assert_uint_eq(freed, RACE_BLOCKS);
    ck_assert_uint_eq(info.frees, RACE_BLOCKS);
    ck_assert_uint_eq(info.refused_frees, (uintmax_t)(THREADS - 1) * RACE_BLOCKS);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

Suite *threads_suite(void)
{
    Suite *suite = suite_create("heap threads");
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_loop_test(tests, contents_survive_churn, 0, 3);
    tcase_add_loop_test(tests, growth_race_loses_nothing, 0, 3);
    tcase_add_test(tests, a_hopeless_request_hurts_nobody);
    tcase_add_test(tests, racing_double_frees);
    suite_add_tcase(suite, tests);
    return suite;
}

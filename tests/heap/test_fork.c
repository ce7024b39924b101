/* test_fork.c - fork beside threads that allocate (case 30). */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define FORKS 10 /* forking with threads is slow there */
#else
#define FORKS 100
#endif
#define CHILD_LIMIT_S 20

typedef struct forker {
    strata_heap *heap;
    bool stop; /* atomic */
    uint64_t damaged;
} forker;

static void *allocate_until_told(void *argument)
{
    forker *f = argument;
    while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
        for (size_t size = 16; size < 100000; size = size * 2 + 1) {
            void *block = strata_heap_alloc(f->heap, size, 16, NULL);
            if (block != NULL) {
                fill(block, size);
                (void)__atomic_add_fetch(&f->damaged, !is_filled(block, size), __ATOMIC_RELAXED);
                (void)strata_heap_free(f->heap, block);
            }
        }
    }
    return NULL;
}

/* Runs in the child: which promise is broken, 0: none. Only what a child of a threaded process may
 * call: no Check, no malloc. */
static int child_of(strata_heap *heap, void *inherited)
{
    if (!is_filled(inherited, 5000)) {
        return 1;
    }
    void *blocks[50];
    for (size_t i = 0; i < 50; i++) {
        blocks[i] = strata_heap_alloc(heap, 100, 16, NULL);
        if (blocks[i] == NULL) {
            return 2;
        }
        fill(blocks[i], 100);
    }
    for (size_t i = 0; i < 50; i++) {
        if (!is_filled(blocks[i], 100) || strata_heap_free(heap, blocks[i]) != STRATA_OK) {
            return 3;
        }
    }
    if (strata_heap_free(heap, inherited) != STRATA_OK) {
        return 4;
    }
    strata_error err = {.status = STRATA_OK};
    while (strata_heap_alloc(heap, 100000, 16, &err) != NULL) {}
    if (err.status != STRATA_UNSUPPORTED) {
        return 5; /* growing is the parent's */
    }
    if (strata_heap_close(heap, NULL, &err) != STRATA_UNSUPPORTED) {
        return 6;
    }
    void *block = strata_heap_alloc(heap, 10, 16, NULL); /* and it changed nothing */
    return block != NULL ? 0 : 7;
}

/* The child's exit status; fails the test where it hangs. */
static int wait_for(pid_t child)
{
    for (int ms = 0; ms < CHILD_LIMIT_S * 1000; ms++) {
        int status;
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child) {
            ck_assert_msg(WIFEXITED(status), "child ended by signal %d",
                          WIFSIGNALED(status) ? WTERMSIG(status) : 0);
            return WEXITSTATUS(status);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    ck_abort_msg("the child hangs");
    return -1;
}

/* Promise: fork beside allocating threads never hangs; the child reads, allocates and frees in what
 * it inherited, is refused growth and close, and the parent's memory is untouched by all of it. */
START_TEST(fork_beside_allocating_threads)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    config.region.first_bytes = 16 * MIB;
    strata_heap *heap = bench_heap(&b, &config);
    void *kept = must_alloc(heap, 5000, 16);
    fill(kept, 5000);
    forker f = {.heap = heap};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_until_told, &f), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            _exit(child_of(heap, kept));
        }
        ck_assert_int_eq(wait_for(child), 0);
        ck_assert(is_filled(kept, 5000));
    }
    __atomic_store_n(&f.stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(f.damaged, 0);
    ck_assert_int_eq(strata_heap_free(heap, kept), STRATA_OK);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

static void *grow_once(void *argument)
{
    forker *f = argument;
    f->damaged = strata_heap_alloc(f->heap, MIB, 16, NULL) == NULL;
    return NULL;
}

static bool somebody_is_inside(strata_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex_);
    bool inside = gate->inside_ != NULL;
    (void)pthread_mutex_unlock(&gate->mutex_);
    return inside;
}

/* Promise: a fork while another thread is in the middle of growing, with the heap's growth lock and
 * the gate taken, leaves a child that is refused growth instead of waiting for ever. */
START_TEST(fork_beside_a_growing_thread)
{
    bench b;
    bench_begin(&b, STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = bench_heap(&b, &config);
    forker f = {.heap = heap};
    pthread_t thread;
    (void)pthread_mutex_lock(&b.system.mutex); /* its next system call waits for us */
    ck_assert_int_eq(pthread_create(&thread, NULL, grow_once, &f), 0);
    while (!somebody_is_inside(&b.gate)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        strata_error err = {.status = STRATA_OK};
        void *block = strata_heap_alloc(heap, MIB, 16, &err);
        strata_heap_lane *lane = NULL;
        bool refused = block == NULL && err.status == STRATA_UNSUPPORTED &&
                       strata_heap_lane_open(&lane, heap, NULL) == STRATA_UNSUPPORTED &&
                       strata_heap_close(heap, NULL, NULL) == STRATA_UNSUPPORTED;
        _exit(refused ? 0 : 1);
    }
    int verdict = wait_for(child);
    (void)pthread_mutex_unlock(&b.system.mutex);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(verdict, 0);
    ck_assert_uint_eq(f.damaged, 0);
    bench_heap_end(heap);
    bench_end(&b);
}
END_TEST

Suite *fork_suite(void)
{
    Suite *suite = suite_create("heap fork");
    TCase *tests = tcase_create("fork");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, fork_beside_allocating_threads);
    tcase_add_test(tests, fork_beside_a_growing_thread);
    suite_add_tcase(suite, tests);
    return suite;
}

/* test_gate.c - the gate: closers first, no waiting for oneself, every wait bounded, holders named.
 * Threads meet at barriers and flags, not at sleeps; deadlines are short where they are meant to
 * pass and long where they are not. */
#include <strata/gate.h>

#include "support/check_main.h"

#include <string.h>
#include <time.h>

#define MS   UINT64_C(1000000)
#define LONG (UINT64_C(20000) * MS)

static strata_gate gate;
static strata_error error;

static void setup(void)
{
    assert_ok(strata_gate_init(&gate, &error), error);
}

static void teardown(void)
{
    strata_gate_fini(&gate);
}

static bool flag_is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
}

static void set_flag(int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static void wait_flag(const int *flag)
{
    while (!flag_is_set(flag)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

START_TEST(any_call_from_inside_answers_order_at_once)
{
    strata_pass pass;
    strata_pass second;
    assert_ok(strata_gate_enter(&gate, &pass, "traffic", STRATA_DEADLINE_NEVER, &error), error);
    assert_status(strata_gate_enter(&gate, &second, "again", STRATA_DEADLINE_NEVER, &error),
                  STRATA_ORDER);
    assert_status(strata_gate_close(&gate, &second, "close", STRATA_DEADLINE_NEVER, &error),
                  STRATA_ORDER);
    strata_gate_leave(&gate, &pass);
    assert_ok(strata_gate_close(&gate, &pass, "closer", STRATA_DEADLINE_NEVER, &error), error);
    ck_assert(strata_gate_is_closer(&gate));
    assert_status(strata_gate_enter(&gate, &second, "enter", STRATA_DEADLINE_NEVER, &error),
                  STRATA_ORDER);
    assert_status(strata_gate_close(&gate, &second, "close", STRATA_DEADLINE_NEVER, &error),
                  STRATA_ORDER);
    strata_gate_open(&gate, &pass);
    ck_assert(!strata_gate_is_closer(&gate));
}
END_TEST

typedef struct holder {
    bool closes;
    int inside;
    int leave;
    pthread_t thread;
} holder;

static void *hold(void *argument)
{
    holder *h = argument;
    strata_pass pass;
    strata_status status =
        h->closes
            ? strata_gate_close(&gate, &pass, "a stalled release", STRATA_DEADLINE_NEVER, NULL)
            : strata_gate_enter(&gate, &pass, "a stalled copy", STRATA_DEADLINE_NEVER, NULL);
    ck_assert_int_eq(status, STRATA_OK);
    set_flag(&h->inside);
    wait_flag(&h->leave);
    if (h->closes) {
        strata_gate_open(&gate, &pass);
    } else {
        strata_gate_leave(&gate, &pass);
    }
    return NULL;
}

static void start_holder(holder *h, bool closes)
{
    *h = (holder){.closes = closes};
    ck_assert_int_eq(pthread_create(&h->thread, NULL, hold, h), 0);
    wait_flag(&h->inside);
}

static void end_holder(holder *h)
{
    set_flag(&h->leave);
    (void)pthread_join(h->thread, NULL);
}

START_TEST(a_wait_ends_at_its_deadline_and_names_the_holder)
{
    holder h;
    strata_pass pass;
    start_holder(&h, false);
    uint64_t before = strata_now_ns();
    assert_status(
        strata_gate_close(&gate, &pass, "release of rec", strata_deadline_in(20 * MS), &error),
        STRATA_TIMEOUT);
    ck_assert_uint_ge(strata_now_ns() - before, 20 * MS);
    ck_assert_ptr_nonnull(strstr(error.text, "a stalled copy"));
    ck_assert_ptr_nonnull(strstr(error.text, "release of rec"));
    ck_assert_ptr_nonnull(strstr(error.text, " ms"));
    /* Not to wait at all is BUSY. */
    assert_status(strata_gate_close(&gate, &pass, "x", STRATA_DEADLINE_NOW, &error), STRATA_BUSY);
    end_holder(&h);

    start_holder(&h, true);
    assert_status(strata_gate_enter(&gate, &pass, "growth", strata_deadline_in(5 * MS), &error),
                  STRATA_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "a stalled release"));
    assert_status(strata_gate_close(&gate, &pass, "x", strata_deadline_in(5 * MS), &error),
                  STRATA_TIMEOUT);
    end_holder(&h);
    assert_ok(strata_gate_close(&gate, &pass, "x", STRATA_DEADLINE_NOW, &error), error);
    strata_gate_open(&gate, &pass);
}
END_TEST

typedef struct closer {
    uint64_t deadline_ns;
    strata_status status;
    int started;
    pthread_t thread;
} closer;

static void *try_close(void *argument)
{
    closer *c = argument;
    strata_pass pass;
    set_flag(&c->started);
    c->status = strata_gate_close(&gate, &pass, "closer", c->deadline_ns, NULL);
    if (c->status == STRATA_OK) {
        strata_gate_open(&gate, &pass);
    }
    return NULL;
}

/* Until the gate turns traffic away, the closer does not wait yet. */
static void wait_until_a_closer_waits(void)
{
    for (;;) {
        strata_pass pass;
        if (strata_gate_enter(&gate, &pass, "probe", STRATA_DEADLINE_NOW, NULL) == STRATA_BUSY) {
            return;
        }
        strata_gate_leave(&gate, &pass);
    }
}

START_TEST(closers_come_before_new_traffic_and_one_that_gives_up_lets_it_in)
{
    holder h;
    strata_pass pass;
    start_holder(&h, false);
    closer c = {.deadline_ns = STRATA_DEADLINE_NEVER};
    ck_assert_int_eq(pthread_create(&c.thread, NULL, try_close, &c), 0);
    wait_until_a_closer_waits();
    /* Traffic is inside and would be let in, were it not for the closer. */
    assert_status(strata_gate_enter(&gate, &pass, "new", strata_deadline_in(5 * MS), &error),
                  STRATA_TIMEOUT);
    end_holder(&h);
    (void)pthread_join(c.thread, NULL);
    assert_status(c.status, STRATA_OK);

    start_holder(&h, false);
    c = (closer){.deadline_ns = strata_deadline_in(30 * MS)};
    ck_assert_int_eq(pthread_create(&c.thread, NULL, try_close, &c), 0);
    wait_until_a_closer_waits();
    assert_ok(strata_gate_enter(&gate, &pass, "new", strata_deadline_in(LONG), &error), error);
    strata_gate_leave(&gate, &pass);
    (void)pthread_join(c.thread, NULL);
    assert_status(c.status, STRATA_TIMEOUT);
    end_holder(&h);
}
END_TEST

enum { THREADS = 6, ROUNDS = 3000 };
static int inside_shared;
static int inside_closed;

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        strata_pass pass;
        if (seed >> 29 == 0) {
            ck_assert_int_eq(strata_gate_close(&gate, &pass, "c", STRATA_DEADLINE_NEVER, NULL),
                             STRATA_OK);
            ck_assert_int_eq(__atomic_add_fetch(&inside_closed, 1, __ATOMIC_SEQ_CST), 1);
            ck_assert_int_eq(__atomic_load_n(&inside_shared, __ATOMIC_SEQ_CST), 0);
            (void)__atomic_sub_fetch(&inside_closed, 1, __ATOMIC_SEQ_CST);
            strata_gate_open(&gate, &pass);
        } else if (strata_gate_enter(&gate, &pass, "t", strata_deadline_in(seed >> 12), NULL) ==
                   STRATA_OK) {
            (void)__atomic_add_fetch(&inside_shared, 1, __ATOMIC_SEQ_CST);
            ck_assert_int_eq(__atomic_load_n(&inside_closed, __ATOMIC_SEQ_CST), 0);
            (void)__atomic_sub_fetch(&inside_shared, 1, __ATOMIC_SEQ_CST);
            strata_gate_leave(&gate, &pass);
        }
    }
    return NULL;
}

START_TEST(a_closer_is_alone_whatever_the_others_do)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}
END_TEST

START_TEST(deadlines_saturate)
{
    ck_assert_uint_eq(strata_deadline_in(UINT64_MAX), STRATA_DEADLINE_NEVER);
    ck_assert_uint_gt(strata_deadline_in(1), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *tests = add_case(suite, "gate");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, any_call_from_inside_answers_order_at_once);
    tcase_add_test(tests, a_wait_ends_at_its_deadline_and_names_the_holder);
    tcase_add_test(tests, closers_come_before_new_traffic_and_one_that_gives_up_lets_it_in);
    tcase_add_test(tests, a_closer_is_alone_whatever_the_others_do);
    tcase_add_test(tests, deadlines_saturate);
    return run_suite(suite);
}

/* test_teardown.c - the ordered release: everything attempted, everything reported, nothing touched
 * on a refusal. Each test states the promise it checks. */
#include <strata/teardown.h>

#include "support/check_main.h"

#include <string.h>

/* A resource that writes down what happens to it. */
typedef struct probe {
    strata_resource resource;
    char label[16];
    strata_status answer;       /* of release */
    strata_status ready_answer; /* of ready */
    int released;
    int asked;
    strata_teardown *push_into; /* pushed from inside the release */
    strata_resource *push;
    strata_resource *forget; /* forgotten from inside the release */
    void *seen_context;
} probe;

#define PROBES 8
static probe probes[PROBES];
static int order[64];
static int order_count;

static probe *probe_of(strata_resource *resource)
{
    return (probe *)(void *)resource;
}

static strata_status probe_release(strata_resource *self, void *context, strata_error *error)
{
    probe *p = probe_of(self);
    p->released++;
    p->seen_context = context;
    order[order_count++] = (int)(p - probes);
    if (p->push != NULL) {
        strata_teardown_push(p->push_into, p->push);
        p->push = NULL;
    }
    if (p->forget != NULL) {
        strata_teardown_forget(p->forget);
    }
    if (p->answer != STRATA_OK) {
        strata_error_native(error, p->answer, STRATA_ORIGIN_RESOURCE, 7, "probe");
    }
    return p->answer;
}

static strata_status probe_ready(strata_resource *self, void *context, strata_error *error)
{
    probe *p = probe_of(self);
    (void)context;
    p->asked++;
    if (p->ready_answer != STRATA_OK) {
        strata_error_set(error, p->ready_answer, "%s is in use", p->label);
    }
    return p->ready_answer;
}

static strata_teardown teardown;
static strata_report report;

static void setup(void)
{
    memset(probes, 0, sizeof probes);
    order_count = 0;
    strata_teardown_init(&teardown);
    strata_report_init(&report, NULL, NULL);
    for (int i = 0; i < PROBES; i++) {
        (void)snprintf(probes[i].label, sizeof probes[i].label, "p%d", i);
        strata_resource_init(&probes[i].resource, probes[i].label, probe_release, probe_ready);
        probes[i].resource.held_bytes = 100;
    }
}

static void push_all(int count)
{
    for (int i = 0; i < count; i++) {
        strata_teardown_push(&teardown, &probes[i].resource);
    }
}

START_TEST(every_release_may_fail_and_none_stops_the_rest)
{
    /* For every set of failing resources: all attempted, newest first, exact counts, the first
     * failure's status returned. */
    for (unsigned failing = 0; failing < 1u << 5; failing++) {
        setup();
        push_all(5);
        int expected_failures = 0;
        strata_status expected = STRATA_OK;
        for (int i = 4; i >= 0; i--) {
            if ((failing & (1u << i)) != 0) {
                probes[i].answer = i % 2 == 0 ? STRATA_RESOURCE : STRATA_DRIVER;
                expected = expected == STRATA_OK ? probes[i].answer : expected;
                expected_failures++;
            }
        }
        assert_status(strata_teardown_release_all(&teardown, NULL, &report), expected);
        ck_assert_uint_eq(report.attempted, 5);
        ck_assert_int_eq((int)report.failed, expected_failures);
        ck_assert_int_eq((int)report.detail_count, expected_failures);
        ck_assert_uint_eq(report.held_bytes, UINTMAX_C(100) * (unsigned)expected_failures);
        for (int i = 0; i < 5; i++) {
            ck_assert_int_eq(order[i], 4 - i);
            ck_assert_int_eq(probes[i].released, 1);
            ck_assert_str_eq(report.order[i], probes[4 - i].label);
        }
        ck_assert(strata_teardown_is_empty(&teardown));
        ck_assert(strata_teardown_is_valid(&teardown));
    }
}
END_TEST

START_TEST(any_busy_or_timeout_refuses_and_touches_nothing)
{
    static const strata_status refusals[] = {STRATA_BUSY, STRATA_TIMEOUT};
    for (int who = 0; who < 5; who++) {
        for (int kind = 0; kind < 2; kind++) {
            setup();
            push_all(5);
            probes[who].ready_answer = refusals[kind];
            assert_status(strata_teardown_release_all(&teardown, NULL, &report), refusals[kind]);
            ck_assert_uint_eq(report.attempted, 0);
            ck_assert_uint_eq(report.refused, 1);
            ck_assert_uint_eq(report.asked, 5); /* all are asked, so that all holders are named */
            ck_assert_uint_eq(report.held_bytes, 100);
            ck_assert_str_eq(report.details[0].label, probes[who].label);
            ck_assert_int_eq(order_count, 0);
            ck_assert_uint_eq(strata_teardown_len(&teardown), 5);
            probes[who].ready_answer = STRATA_OK;
            assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_OK);
            ck_assert_int_eq(order_count, 5);
        }
    }
}
END_TEST

START_TEST(a_ready_that_fails_otherwise_is_reported_and_does_not_refuse)
{
    push_all(3);
    probes[1].ready_answer = STRATA_DEVICE_LOST;
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 3);
    ck_assert_uint_eq(report.ready_failed, 1);
    ck_assert_uint_eq(report.detail_count, 1);
    ck_assert_int_eq(report.details[0].phase, STRATA_PHASE_READY);
    ck_assert_int_eq(report.details[0].error.status, STRATA_DEVICE_LOST);
}
END_TEST

START_TEST(releasing_again_attempts_nothing)
{
    push_all(3);
    probes[1].answer = STRATA_RESOURCE;
    assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_RESOURCE);
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_int_eq(order_count, 3);
    strata_teardown empty = STRATA_TEARDOWN_INIT;
    assert_status(strata_teardown_release_all(&empty, NULL, NULL), STRATA_OK);
}
END_TEST

START_TEST(release_to_a_mark_leaves_what_is_older)
{
    push_all(2);
    strata_mark mark = strata_teardown_mark(&teardown);
    strata_teardown_push(&teardown, &probes[2].resource);
    strata_teardown_push(&teardown, &probes[3].resource);
    assert_status(strata_teardown_release_to(&teardown, mark, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 2);
    ck_assert_int_eq(probes[0].asked + probes[1].asked, 0);
    ck_assert_uint_eq(strata_teardown_len(&teardown), 2);
    /* The mark outlives what it marked: everything older may go first. */
    assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_OK);
    assert_status(strata_teardown_release_to(&teardown, mark, NULL, NULL), STRATA_OK);
    strata_mark future = {.serial = mark.serial + 100};
    assert_status(strata_teardown_release_to(&teardown, future, NULL, NULL), STRATA_INVALID);
    assert_status(strata_teardown_ready_to(&teardown, future, NULL, NULL), STRATA_INVALID);
}
END_TEST

START_TEST(what_a_callback_pushes_stays_for_the_next_release)
{
    push_all(3);
    for (int i = 0; i < 3; i++) {
        probes[i].push_into = &teardown;
        probes[i].push = &probes[3 + i].resource;
    }
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 3);
    ck_assert_uint_eq(strata_teardown_len(&teardown), 3);
    ck_assert(strata_teardown_is_valid(&teardown));
    assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_OK);
    ck_assert_int_eq(order_count, 6);
    /* Pushed in the order 5 (by 2), 4, 3: released newest first. */
    ck_assert_int_eq(order[3], 3);
    ck_assert_int_eq(order[5], 5);
}
END_TEST

START_TEST(a_callback_may_push_its_own_node_anew)
{
    push_all(2);
    probes[1].push_into = &teardown;
    probes[1].push = &probes[1].resource;
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 2);
    ck_assert_int_eq(probes[1].released, 1);
    ck_assert_uint_eq(strata_teardown_len(&teardown), 1);
    assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_OK);
    ck_assert_int_eq(probes[1].released, 2);
}
END_TEST

START_TEST(a_callback_may_forget_any_other)
{
    /* For every pair: the newest release forgets another one, wherever it is in the list, also one
     * that was put back or pushed meanwhile. */
    for (int forgotten = 0; forgotten < 4; forgotten++) {
        setup();
        push_all(5);
        probes[4].forget = &probes[forgotten].resource;
        probes[3].answer = STRATA_RESOURCE;
        strata_resource_set_stays(&probes[3].resource, true);
        (void)strata_teardown_release_all(&teardown, NULL, &report);
        ck_assert_uint_eq(report.attempted, 4);
        ck_assert_int_eq(probes[forgotten].released, 0);
        ck_assert(strata_teardown_is_valid(&teardown));
    }
}
END_TEST

START_TEST(forgetting_twice_is_harmless_and_forgets_what_was_put_back)
{
    push_all(3);
    strata_teardown_forget(&probes[1].resource);
    strata_teardown_forget(&probes[1].resource);
    ck_assert_uint_eq(strata_teardown_len(&teardown), 2);
    probes[2].answer = STRATA_RESOURCE;
    strata_resource_set_stays(&probes[2].resource, true);
    probes[0].forget = &probes[2].resource; /* put back, then forgotten while the release goes on */
    assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_RESOURCE);
    ck_assert(strata_teardown_is_empty(&teardown));
    ck_assert(strata_teardown_is_valid(&teardown));
}
END_TEST

START_TEST(those_that_stay_are_stranded_in_their_order_and_tried_again)
{
    for (unsigned failing = 0; failing < 1u << 5; failing++) {
        setup();
        push_all(5);
        for (int i = 0; i < 5; i++) {
            strata_resource_set_stays(&probes[i].resource, true);
            probes[i].answer = (failing & (1u << i)) != 0 ? STRATA_SYSTEM : STRATA_OK;
            /* One is pushed in the middle of it, and must not disturb the order. */
            probes[i].push_into = &teardown;
        }
        probes[2].push = &probes[5].resource;
        (void)strata_teardown_release_all(&teardown, NULL, &report);
        ck_assert_uint_eq(report.attempted, 5);
        ck_assert_uint_eq(strata_teardown_len(&teardown), (size_t)__builtin_popcount(failing) + 1);
        ck_assert(strata_teardown_is_valid(&teardown));
        order_count = 0;
        for (int i = 0; i < 5; i++) {
            probes[i].answer = STRATA_OK;
        }
        assert_status(strata_teardown_release_all(&teardown, NULL, NULL), STRATA_OK);
        ck_assert_int_eq(order[0], 5);
        for (int at = 1, i = 4; i >= 0; i--) {
            if ((failing & (1u << i)) != 0) {
                ck_assert_int_eq(order[at++], i);
            }
        }
        ck_assert(strata_teardown_is_empty(&teardown));
    }
}
END_TEST

static strata_status nested_status;

static strata_status nested_release(strata_resource *self, void *context, strata_error *error)
{
    (void)self;
    (void)context;
    (void)error;
    nested_status = strata_teardown_release_all(&teardown, NULL, NULL);
    ck_assert_ptr_eq(strata_teardown_report(&teardown), &report);
    return STRATA_OK;
}

START_TEST(a_release_from_inside_a_release_answers_order)
{
    strata_resource nested;
    strata_resource_init(&nested, "nested", nested_release, NULL);
    push_all(1);
    strata_teardown_push(&teardown, &nested);
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_OK);
    assert_status(nested_status, STRATA_ORDER);
    ck_assert_int_eq(probes[0].released, 1);
    ck_assert_ptr_null(strata_teardown_report(&teardown));
}
END_TEST

static strata_status freeing_release(strata_resource *self, void *context, strata_error *error)
{
    (void)context;
    (void)error;
    free(self); /* the node goes with it: nothing may touch it afterwards */
    return STRATA_RESOURCE;
}

START_TEST(a_node_may_free_itself_even_when_it_fails)
{
    for (int i = 0; i < 3; i++) {
        strata_resource *own = malloc(sizeof *own);
        strata_resource_init(own, "freed", freeing_release, NULL);
        strata_teardown_push(&teardown, own);
    }
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_RESOURCE);
    ck_assert_uint_eq(report.failed, 3);
    ck_assert_str_eq(report.details[2].label, "freed");
    /* A callback that only returned a status still leaves a text. */
    ck_assert_str_eq(report.details[0].error.text, strata_status_text(STRATA_RESOURCE));
}
END_TEST

START_TEST(the_context_reaches_every_resource_and_null_reports_are_allowed)
{
    int context = 0;
    push_all(3);
    probes[0].answer = STRATA_DRIVER;
    assert_status(strata_teardown_ready_to(&teardown, (strata_mark){0}, NULL, NULL), STRATA_OK);
    assert_status(strata_teardown_release_all(&teardown, &context, NULL), STRATA_DRIVER);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_eq(probes[i].seen_context, &context);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("teardown");
    TCase *tests = add_case(suite, "teardown");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, every_release_may_fail_and_none_stops_the_rest);
    tcase_add_test(tests, any_busy_or_timeout_refuses_and_touches_nothing);
    tcase_add_test(tests, a_ready_that_fails_otherwise_is_reported_and_does_not_refuse);
    tcase_add_test(tests, releasing_again_attempts_nothing);
    tcase_add_test(tests, release_to_a_mark_leaves_what_is_older);
    tcase_add_test(tests, what_a_callback_pushes_stays_for_the_next_release);
    tcase_add_test(tests, a_callback_may_push_its_own_node_anew);
    tcase_add_test(tests, a_callback_may_forget_any_other);
    tcase_add_test(tests, forgetting_twice_is_harmless_and_forgets_what_was_put_back);
    tcase_add_test(tests, those_that_stay_are_stranded_in_their_order_and_tried_again);
    tcase_add_test(tests, a_release_from_inside_a_release_answers_order);
    tcase_add_test(tests, a_node_may_free_itself_even_when_it_fails);
    tcase_add_test(tests, the_context_reaches_every_resource_and_null_reports_are_allowed);
    return run_suite(suite);
}

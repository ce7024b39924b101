/* test_report.c - statuses, errors and reports: texts, bounds, exact counts beyond the bounds. */
#include <strata/teardown.h>

#include "support/check_main.h"

#include <errno.h>
#include <string.h>

START_TEST(every_status_has_a_word_and_a_text_of_its_own)
{
    for (int a = 0; a < STRATA_STATUS_COUNT_; a++) {
        const char *name = strata_status_name((strata_status)a);
        ck_assert_str_ne(name, "unknown");
        ck_assert_uint_gt(strlen(strata_status_text((strata_status)a)), 0);
        for (int b = 0; b < a; b++) {
            ck_assert_str_ne(name, strata_status_name((strata_status)b));
        }
    }
    ck_assert_str_eq(strata_status_name((strata_status)-1), "unknown");
    ck_assert_str_eq(strata_status_name(STRATA_STATUS_COUNT_), "unknown");
    ck_assert_str_eq(strata_origin_name((strata_origin)77), "unknown");
    ck_assert_str_eq(strata_verdict_name((strata_verdict)77), "unknown");
}
END_TEST

START_TEST(a_null_error_is_allowed_everywhere)
{
    assert_status(strata_error_set(NULL, STRATA_BUSY, "%d", 1), STRATA_BUSY);
    assert_status(strata_error_native(NULL, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, 1, "x"),
                  STRATA_SYSTEM);
    strata_error_context(NULL, "%d", 1);
    strata_error_append(NULL, "%d", 1);
}
END_TEST

START_TEST(an_error_carries_status_native_code_and_origin)
{
    strata_error error;
    (void)strata_error_native(&error, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, ENOMEM, "munmap");
    ck_assert_str_eq(error.text, "munmap: 12 ENOMEM");
    ck_assert_int_eq(error.native, ENOMEM);
    ck_assert_int_eq(error.origin, STRATA_ORIGIN_ERRNO);
    (void)strata_error_native(&error, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, 99999, "munmap");
    ck_assert_str_eq(error.text, "munmap: 99999");
    strata_error_context(&error, "%s", "weights");
    ck_assert_str_eq(error.text, "weights: munmap: 99999");
    strata_error_append(&error, "; %d", 5);
    ck_assert_str_eq(error.text, "weights: munmap: 99999; 5");
}
END_TEST

START_TEST(a_long_text_is_cut_and_stays_terminated)
{
    char big[2 * STRATA_TEXT_MAX];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    strata_error error;
    (void)strata_error_set(&error, STRATA_INVALID, "%s", big);
    ck_assert_uint_eq(strlen(error.text), STRATA_TEXT_MAX - 1);
    strata_error_context(&error, "%s", big);
    ck_assert_uint_eq(strlen(error.text), STRATA_TEXT_MAX - 1);
    strata_error_append(&error, "%s", big);
    ck_assert_uint_eq(strlen(error.text), STRATA_TEXT_MAX - 1);
}
END_TEST

START_TEST(whatever_is_quoted_an_error_stays_one_line)
{
    strata_error error;
    (void)strata_error_set(&error, STRATA_INVALID, "\"%s\"", "a\nb\x1b[31mc\x7f\xC3\xA4");
    ck_assert_str_eq(error.text, "\"a b?[31mc?\xC3\xA4\"");
    strata_error_context(&error, "%s", "d\re");
    strata_error_append(&error, "%s", "\tf");
    ck_assert_str_eq(error.text, "d e: \"a b?[31mc?\xC3\xA4\" f");
}
END_TEST

static strata_status fail_release(strata_resource *self, void *context, strata_error *error)
{
    (void)self;
    (void)context;
    return strata_error_set(error, STRATA_RESOURCE, "cannot go");
}

static size_t seen;
static size_t seen_errors;

static void each(void *user, strata_phase phase, const char *label, const strata_error *error)
{
    ck_assert_ptr_eq(user, &seen);
    ck_assert_int_eq(phase, STRATA_PHASE_RELEASE);
    ck_assert_ptr_nonnull(label);
    seen++;
    seen_errors += error != NULL;
}

START_TEST(counts_are_exact_and_each_sees_all_beyond_the_bounds)
{
    enum { MANY = 1000 };
    static strata_resource resources[MANY];
    strata_teardown teardown = STRATA_TEARDOWN_INIT;
    strata_report report;
    strata_report_init(&report, each, &seen);
    for (int i = 0; i < MANY; i++) {
        strata_resource_init(&resources[i],
                             i == 5 ? NULL
                                    : "a label that is longer than the "
                                      "bound and has to be cut somewhere",
                             fail_release, NULL);
        strata_teardown_push(&teardown, &resources[i]);
    }
    assert_status(strata_teardown_release_all(&teardown, NULL, &report), STRATA_RESOURCE);
    ck_assert_uint_eq(report.attempted, MANY);
    ck_assert_uint_eq(report.failed, MANY);
    ck_assert_uint_eq(seen, MANY);
    ck_assert_uint_eq(seen_errors, MANY);
    ck_assert_uint_eq(report.detail_count, STRATA_REPORT_DETAILS_MAX);
    ck_assert_uint_eq(report.order_count, STRATA_REPORT_ORDER_MAX);
    ck_assert_uint_eq(strlen(report.order[0]), STRATA_LABEL_MAX - 1);
    char text[8192];
    (void)strata_report_format(&report, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "1000 resource(s) failed to release"));
    ck_assert_ptr_nonnull(strstr(text, "and 984 more"));
}
END_TEST

START_TEST(format_keeps_snprintfs_contract_at_every_capacity)
{
    strata_resource resource;
    strata_resource_init(&resource, "kv", fail_release, NULL);
    strata_teardown teardown = STRATA_TEARDOWN_INIT;
    strata_teardown_push(&teardown, &resource);
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    (void)strata_teardown_release_all(&teardown, NULL, &report);
    const char *whole = "1 resource(s) failed to release: kv: cannot go";
    size_t length = strata_report_format(&report, NULL, 0);
    ck_assert_uint_eq(length, strlen(whole));
    for (size_t capacity = 1; capacity <= length + 3; capacity++) {
        char buffer[128];
        memset(buffer, '#', sizeof buffer);
        ck_assert_uint_eq(strata_report_format(&report, buffer, capacity), length);
        size_t expected = capacity - 1 < length ? capacity - 1 : length;
        ck_assert_uint_eq(strlen(buffer), expected);
        ck_assert_int_eq(strncmp(buffer, whole, expected), 0);
        ck_assert_int_eq(buffer[capacity], '#');
    }
}
END_TEST

START_TEST(the_worst_verdict_is_kept_and_short_bytes_add_up)
{
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    strata_report_verdict(&report, STRATA_VERDICT_VERIFIED, 0, NULL);
    strata_report_verdict(&report, STRATA_VERDICT_SHORT, 4096, "still there");
    strata_report_verdict(&report, STRATA_VERDICT_UNVERIFIABLE, 0, "taken");
    strata_report_verdict(&report, STRATA_VERDICT_SHORT, 4096, "second");
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_SHORT);
    ck_assert_uint_eq(report.short_bytes, 8192);
    ck_assert_str_eq(report.verdict_reason, "still there");
    char text[256];
    (void)strata_report_format(&report, text, sizeof text);
    ck_assert_str_eq(text, "0 resource(s) released; short by 8192 bytes: still there");
    strata_report_verdict(NULL, STRATA_VERDICT_SHORT, 1, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = add_case(suite, "report");
    tcase_add_test(tests, every_status_has_a_word_and_a_text_of_its_own);
    tcase_add_test(tests, a_null_error_is_allowed_everywhere);
    tcase_add_test(tests, an_error_carries_status_native_code_and_origin);
    tcase_add_test(tests, a_long_text_is_cut_and_stays_terminated);
    tcase_add_test(tests, whatever_is_quoted_an_error_stays_one_line);
    tcase_add_test(tests, counts_are_exact_and_each_sees_all_beyond_the_bounds);
    tcase_add_test(tests, format_keeps_snprintfs_contract_at_every_capacity);
    tcase_add_test(tests, the_worst_verdict_is_kept_and_short_bytes_add_up);
    return run_suite(suite);
}

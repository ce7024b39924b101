/* test_parts.c - the parts of the command that can be asked alone: statistics, traces, the bar,
 * figures of the machine, documents. What the command does as a process is in the scripts. */
#include "support/check_main.h"

#include "machine.h"
#include "output.h"
#include "progress.h"
#include "statistics.h"
#include "text.h"
#include "trace.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- statistics --------------------------------------------------------------------------------*/

START_TEST(median_of_even_and_odd_numbers_of_values)
{
    const double values[] = {5.0, 1.0, 4.0, 2.0};
    ck_assert_double_eq(statistics_median(values, 3), 4.0);
    ck_assert_double_eq(statistics_median(values, 4), 3.0);
    ck_assert_double_eq(statistics_median(values, 1), 5.0);
    ck_assert(isnan(statistics_median(values, 0)));
    ck_assert_double_eq(values[0], 5.0); /* not reordered */
}
END_TEST

/* Which of the sorted values bound the interval stands in every table of order statistics. */
START_TEST(interval_is_the_one_of_the_tables)
{
    static const struct {
        size_t count;
        double low, high; /* counted from 1 */
    } table[] = {{6, 1, 6},   {8, 1, 8},   {9, 2, 8},    {10, 2, 9},   {15, 4, 12},
                 {20, 6, 15}, {25, 8, 18}, {30, 10, 21}, {50, 18, 33}, {100, 40, 61}};
    double values[100];
    for (size_t i = 0; i < 100; i++) {
        values[i] = (double)(i + 1);
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        statistics_interval found = statistics_median_interval(values, table[i].count);
        ck_assert(found.covered);
        ck_assert_double_eq(found.low95, table[i].low);
        ck_assert_double_eq(found.high95, table[i].high);
        ck_assert_uint_eq(found.values, table[i].count);
    }
}
END_TEST

START_TEST(too_few_values_cover_nothing_and_say_so)
{
    const double values[] = {3.0, 1.0, 2.0, 5.0, 4.0};
    statistics_interval found = statistics_median_interval(values, 5);
    ck_assert(!found.covered);
    ck_assert_double_eq(found.low95, 1.0);
    ck_assert_double_eq(found.high95, 5.0);
    ck_assert(isnan(statistics_median_interval(values, 0).median));
}
END_TEST

START_TEST(interval_of_thousands_of_values_stays_in_range)
{
    static double values[STATISTICS_VALUES_MAX];
    for (size_t i = 0; i < STATISTICS_VALUES_MAX; i++) {
        values[i] = (double)i;
    }
    statistics_interval found = statistics_median_interval(values, STATISTICS_VALUES_MAX);
    ck_assert(found.covered);
    /* By the normal distribution: 1.96 standard deviations of 32 values around 2047.5. */
    ck_assert_double_eq_tol(found.low95, 2047.5 - 1.96 * 32.0, 2.0);
    ck_assert_double_eq_tol(found.high95, 2047.5 + 1.96 * 32.0, 2.0);
}
END_TEST

START_TEST(spread_is_the_quartiles_distance_by_the_median)
{
    const double values[] = {10.0, 20.0, 30.0, 40.0, 50.0};
    ck_assert_double_eq_tol(statistics_spread(values, 5), 20.0 / 30.0, 1e-12);
    ck_assert_double_eq(statistics_spread(values, 1), 0.0);
}
END_TEST

/* --- traces ------------------------------------------------------------------------------------*/

START_TEST(trace_accounts_for_every_model)
{
    trace loaded;
    strata_error error = {0};
    assert_ok(trace_read(&loaded, TEST_TRACES "/ort-multi3-hook.csv.gz", &error), error);
    ck_assert_uint_eq(loaded.event_count, 2542);
    ck_assert_uint_eq(loaded.object_count, 1271);
    ck_assert_uint_eq(loaded.left_live, 0);
    ck_assert_uint_eq(loaded.live_peak_bytes, 36116100);
    uint64_t peaks = 0;
    for (size_t i = 0; i < 3; i++) {
        ck_assert(loaded.models[i].used);
        peaks += loaded.models[i].live_peak_bytes;
    }
    ck_assert(!loaded.models[3].used);
    ck_assert_uint_ge(peaks, loaded.live_peak_bytes);
    trace_free(&loaded);
    ck_assert_ptr_null(loaded.events);
}
END_TEST

/* Whoever replays may believe it: every free is of a live object, with its size and model. */
START_TEST(trace_frees_only_what_is_live)
{
    trace loaded;
    strata_error error = {0};
    assert_ok(trace_read(&loaded, TEST_TRACES "/ort-rec-hook.csv.gz", &error), error);
    uint64_t *sizes = calloc(loaded.object_count, sizeof *sizes);
    ck_assert_ptr_nonnull(sizes);
    uint64_t reserved = 0;
    for (size_t i = 0; i < loaded.event_count; i++) {
        const trace_event *event = &loaded.events[i];
        ck_assert_uint_lt(event->object, loaded.object_count);
        if (event->kind == TRACE_FREE) {
            ck_assert_uint_eq(sizes[event->object], event->size + 1);
            sizes[event->object] = 0;
        } else {
            ck_assert_uint_eq(sizes[event->object], 0);
            sizes[event->object] = event->size + 1;
            reserved += event->kind == TRACE_RESERVE ? event->size : 0;
        }
    }
    ck_assert_uint_eq(reserved, 10917532);
    ck_assert_uint_ge(loaded.models[0].reserve_bytes, reserved);
    free(sizes);
    trace_free(&loaded);
}
END_TEST

START_TEST(trace_that_is_refused_leaves_nothing)
{
    trace loaded;
    strata_error error = {0};
    assert_status(trace_read(&loaded, "/dev/null", &error), STRATA_INVALID);
    ck_assert_ptr_null(loaded.events);
    assert_status(trace_read(&loaded, TEST_TRACES "/none", &error), STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(error.text, "ENOENT"));
}
END_TEST

/* --- the bar -----------------------------------------------------------------------------------*/

START_TEST(bar_shows_share_amount_rate_and_time_left)
{
    progress bar;
    char text[256];
    progress_begin(&bar, "load", NULL, UINT64_C(400) << 20);
    bar.began_ns_ = 1000;
    progress_set(&bar, UINT64_C(100) << 20);
    size_t length = progress_format(&bar, 1000 + UINT64_C(2000000000), text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "load [######..................]  25%"));
    ck_assert_ptr_nonnull(strstr(text, "100MiB, 50MiB/s, 6s left"));
    progress_end(&bar);
}
END_TEST

START_TEST(bar_without_a_total_or_past_it_makes_no_promise)
{
    progress bar;
    char text[256];
    progress_begin(&bar, "a\nlabel", "rounds", 0);
    progress_set(&bar, 7);
    (void)progress_format(&bar, bar.began_ns_, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "a?label ["));
    ck_assert_ptr_nonnull(strstr(text, "7 rounds"));
    ck_assert_ptr_null(strstr(text, "left"));
    progress_begin(&bar, "x", "rounds", 5);
    progress_set(&bar, 9);
    (void)progress_format(&bar, bar.began_ns_ + 1, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "100%"));
}
END_TEST

/* --- the machine -------------------------------------------------------------------------------*/

START_TEST(what_is_unknown_stays_unknown)
{
    machine_count unknown = {0};
    machine_count ten = {.known = true, .value = 10};
    machine_count four = {.known = true, .value = 4};
    ck_assert(!machine_difference(unknown, ten).known);
    ck_assert(!machine_difference(ten, unknown).known);
    ck_assert(!machine_difference(ten, four).known); /* a counter never runs backwards */
    ck_assert_uint_eq(machine_difference(four, ten).value, 6);
    ck_assert_uint_eq(machine_without(ten, four).value, 6);
    ck_assert_uint_eq(machine_without(four, ten).value, 0);
    ck_assert(machine_without(four, ten).known);
    ck_assert(!machine_without(ten, unknown).known);
    json_t *null = output_count(unknown);
    ck_assert(json_is_null(null));
    json_decref(null);
}
END_TEST

START_TEST(resident_set_follows_what_is_touched)
{
    size_t bytes = (size_t)32 << 20;
    machine_count before = machine_resident_bytes();
    ck_assert(before.known);
    unsigned char *block =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(block, MAP_FAILED);
    memset(block, 1, bytes);
    ck_assert_uint_ge(machine_difference(before, machine_resident_bytes()).value, bytes / 4 * 3);
    ck_assert_int_eq(munmap(block, bytes), 0);
    ck_assert_uint_lt(machine_resident_bytes().value, before.value + bytes / 2);
}
END_TEST

START_TEST(neighbour_gives_the_cores_back)
{
    int before[64];
    int after[64];
    size_t cores = machine_cores(before, 64);
    ck_assert_uint_ge(cores, 1);
    machine_neighbour neighbour;
    bool beside = machine_neighbour_start(&neighbour);
    ck_assert(beside == (cores >= 2));
    if (beside) {
        ck_assert_uint_eq(machine_cores(after, 64), 1);
        ck_assert_int_eq(after[0], before[0]);
    }
    machine_neighbour_stop(&neighbour);
    machine_neighbour_stop(&neighbour); /* again: nothing */
    ck_assert_uint_eq(machine_cores(after, 64), cores);
}
END_TEST

/* --- text
 * ---------------------------------------------------------------------------------------*/

START_TEST(number_is_digits_within_its_limit)
{
    uint64_t value = 7;
    ck_assert(text_number("18446744073709551615", UINT64_MAX, &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(text_number("010", 10, &value));
    ck_assert_uint_eq(value, 10);
    static const char *const refused[] = {
        "", "11", "-1", "+1", " 1", "1 ", "1x", "0x1", "18446744073709551616"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ck_assert_msg(!text_number(refused[i], 10, &value), "\"%s\"", refused[i]);
    }
    ck_assert(!text_number("18446744073709551616", UINT64_MAX, &value));
    ck_assert_uint_eq(value, 10); /* untouched */
}
END_TEST

START_TEST(label_is_the_name_without_folder_and_ending)
{
    static const char *const table[][2] = {{"/a/b.c/rec.onnx", "rec"}, {"rec", "rec"},
                                           {"a/.hidden", ".hidden"},   {"v1.2.gguf", "v1.2"},
                                           {"longer-name", "longer-"}, {"a/", ""}};
    char label[8];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        text_label(label, sizeof label, table[i][0]);
        ck_assert_str_eq(label, table[i][1]);
    }
}
END_TEST

START_TEST(plain_text_is_one_line)
{
    char text[] = "a\n\033[31mb\t\x7f\xc3\xa9";
    text_make_plain(text);
    ck_assert_str_eq(text, "a??[31mb??\xc3\xa9");
}
END_TEST

/* --- documents ---------------------------------------------------------------------------------*/

START_TEST(failed_release_is_shown_with_all_that_failed)
{
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    report.status = STRATA_SYSTEM;
    report.attempted = 2;
    report.failed = 1;
    report.detail_count = 1;
    (void)snprintf(report.details[0].label, STRATA_LABEL_MAX, "%s", "kv");
    report.details[0].phase = STRATA_PHASE_RELEASE;
    report.details[0].error = (strata_error){STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, 12, "munmap: 12"};
    report.order_count = 2;
    (void)snprintf(report.order[0], STRATA_LABEL_MAX, "%s", "kv");
    (void)snprintf(report.order[1], STRATA_LABEL_MAX, "%s", "weights");
    ck_assert(!output_release_is_good(&report));

    json_t *document = output_release("rec", &report, (machine_count){.known = true, .value = 3});
    ck_assert_ptr_nonnull(document);
    ck_assert_str_eq(json_string_value(json_object_get(document, "status")), "system");
    ck_assert_int_eq(json_integer_value(json_object_get(document, "tlb_shootdowns")), 3);
    json_t *failure = json_array_get(json_object_get(document, "failures"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(failure, "label")), "kv");
    ck_assert_int_eq(json_integer_value(json_object_get(failure, "native")), 12);
    ck_assert_uint_eq(json_array_size(json_object_get(document, "order")), 2);
    json_decref(document);
}
END_TEST

START_TEST(release_that_fell_short_or_holds_bytes_is_not_good)
{
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    ck_assert(output_release_is_good(&report));
    strata_report_verdict(&report, STRATA_VERDICT_UNVERIFIABLE, 0, "another thread took it");
    ck_assert(output_release_is_good(&report));
    report.bytes_held_after = 1;
    ck_assert(!output_release_is_good(&report));
    report.bytes_held_after = 0;
    strata_report_verdict(&report, STRATA_VERDICT_SHORT, 4096, NULL);
    ck_assert(!output_release_is_good(&report));
}
END_TEST

START_TEST(text_that_is_no_utf8_is_still_a_document)
{
    json_t *text = output_text("caf\xe9.gguf");
    ck_assert_str_eq(json_string_value(text), "caf?.gguf");
    json_decref(text);
    text = output_text("caf\xc3\xa9.gguf");
    ck_assert_str_eq(json_string_value(text), "caf\xc3\xa9.gguf");
    json_decref(text);
    json_t *number = output_real(NAN);
    ck_assert(json_is_null(number));
    json_decref(number);
}
END_TEST

/* Promise: figures come with what they were measured on; what the machine hides is null. */
START_TEST(machine_is_described)
{
    static const char *const keys[] = {"cpu",    "architecture",         "cores",
                                       "kernel", "page_bytes",           "memory_bytes",
                                       "thp",    "tlb_shootdowns_known", "library"};
    json_t *document = output_machine();
    ck_assert_ptr_nonnull(document);
    ck_assert_uint_eq(json_object_size(document), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        ck_assert_msg(json_object_get(document, keys[i]) != NULL, "%s", keys[i]);
    }
    ck_assert_int_ge(json_integer_value(json_object_get(document, "cores")), 1);
    json_decref(document);
}
END_TEST

START_TEST(nothing_goes_missing_quietly)
{
    json_t *array = json_array();
    output_append(&array, json_integer(1));
    ck_assert_uint_eq(json_array_size(array), 1);
    output_append(&array, NULL); /* memory ran out while it was built */
    ck_assert_ptr_null(array);
    output_append(&array, json_integer(2));
    ck_assert_ptr_null(array);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tools");
    TCase *numbers = add_case(suite, "statistics");
    tcase_add_test(numbers, median_of_even_and_odd_numbers_of_values);
    tcase_add_test(numbers, interval_is_the_one_of_the_tables);
    tcase_add_test(numbers, too_few_values_cover_nothing_and_say_so);
    tcase_add_test(numbers, interval_of_thousands_of_values_stays_in_range);
    tcase_add_test(numbers, spread_is_the_quartiles_distance_by_the_median);
    TCase *traces = add_case(suite, "traces");
    tcase_add_test(traces, trace_accounts_for_every_model);
    tcase_add_test(traces, trace_frees_only_what_is_live);
    tcase_add_test(traces, trace_that_is_refused_leaves_nothing);
    TCase *bars = add_case(suite, "progress");
    tcase_add_test(bars, bar_shows_share_amount_rate_and_time_left);
    tcase_add_test(bars, bar_without_a_total_or_past_it_makes_no_promise);
    TCase *machines = add_case(suite, "machine");
    tcase_add_test(machines, what_is_unknown_stays_unknown);
    tcase_add_test(machines, resident_set_follows_what_is_touched);
    tcase_add_test(machines, neighbour_gives_the_cores_back);
    TCase *texts = add_case(suite, "text");
    tcase_add_test(texts, number_is_digits_within_its_limit);
    tcase_add_test(texts, label_is_the_name_without_folder_and_ending);
    tcase_add_test(texts, plain_text_is_one_line);
    TCase *documents = add_case(suite, "documents");
    tcase_add_test(documents, failed_release_is_shown_with_all_that_failed);
    tcase_add_test(documents, release_that_fell_short_or_holds_bytes_is_not_good);
    tcase_add_test(documents, text_that_is_no_utf8_is_still_a_document);
    tcase_add_test(documents, machine_is_described);
    tcase_add_test(documents, nothing_goes_missing_quietly);
    return run_suite(suite);
}

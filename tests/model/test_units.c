/* test_units.c - sizes and times as people write them, exactly or not at all. */
#include <strata/units.h>

#include "support/check_main.h"

START_TEST(sizes_are_exact)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"1B", 1},
                {"64KiB", 65536},
                {"1.5GiB", 1610612736},
                {"0.5KiB", 512},
                {"0.125KiB", 128},
                {"16777215TiB", UINT64_C(16777215) << 40},
                {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 1;
        strata_error error;
        assert_ok(strata_size_parse(good[i].text, &bytes, &error), error);
        ck_assert_uint_eq(bytes, good[i].bytes);
    }
}
END_TEST

START_TEST(bad_sizes_are_refused_and_touch_nothing)
{
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 KiB",
                                      "-1",
                                      "+1",
                                      "1kib",
                                      "1KB",
                                      "1G",
                                      "KiB",
                                      ".5KiB",
                                      "1.KiB",
                                      "1.0001B",
                                      "0.3KiB",
                                      "1e3",
                                      "0x10",
                                      "16777216TiB",
                                      "18446744073709551616",
                                      "1.5.5KiB",
                                      "1.0000000KiB",
                                      "1KiB ",
                                      "1KiBx",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        strata_error error;
        ck_assert_msg(strata_size_parse(bad[i], &bytes, &error) == STRATA_INVALID, "\"%s\"",
                      bad[i]);
        ck_assert_uint_eq(bytes, 77);
        ck_assert(error.text[0] != '\0');
    }
}
END_TEST

START_TEST(times_need_a_unit_except_nought)
{
    uint64_t ns = 7;
    assert_status(strata_time_parse("250ms", &ns, NULL), STRATA_OK);
    ck_assert_uint_eq(ns, 250000000);
    assert_status(strata_time_parse("1.5s", &ns, NULL), STRATA_OK);
    ck_assert_uint_eq(ns, 1500000000);
    assert_status(strata_time_parse("0", &ns, NULL), STRATA_OK);
    ck_assert_uint_eq(ns, 0);
    ns = 7;
    assert_status(strata_time_parse("5", &ns, NULL), STRATA_INVALID);
    assert_status(strata_time_parse("5m", &ns, NULL), STRATA_INVALID);
    assert_status(strata_time_parse("0.5ns", &ns, NULL), STRATA_INVALID);
    assert_status(strata_time_parse("99999999999s", &ns, NULL), STRATA_INVALID);
    ck_assert_uint_eq(ns, 7);
}
END_TEST

START_TEST(what_is_shown_reads_back_where_it_is_exact)
{
    char buffer[STRATA_UNITS_TEXT_MAX];
    for (uint64_t value = 1; value != 0; value <<= 1) {
        uint64_t back = 0;
        assert_status(strata_size_parse(strata_size_show(value, buffer), &back, NULL), STRATA_OK);
        ck_assert_uint_eq(back, value);
    }
    for (uint64_t value = 1; value < UINT64_MAX / 10; value *= 10) {
        uint64_t back = 0;
        assert_status(strata_time_parse(strata_time_show(value, buffer), &back, NULL), STRATA_OK);
        ck_assert_uint_eq(back, value);
    }
    ck_assert_str_eq(strata_size_show(0, buffer), "0B");
    ck_assert_str_eq(strata_size_show(512, buffer), "512B");
    ck_assert_str_eq(strata_size_show(65536, buffer), "64KiB");
    ck_assert_str_eq(strata_size_show(13841203, buffer), "13.2MiB");
    ck_assert_str_eq(strata_size_show(UINT64_MAX, buffer), "16777216.0TiB");
    ck_assert_str_eq(strata_time_show(250000, buffer), "250us");
    ck_assert_str_eq(strata_time_show(13200001, buffer), "13.2ms");
    ck_assert_str_eq(strata_time_show(0, buffer), "0ns");
}
END_TEST

START_TEST(flags_have_six_words)
{
    bool value = false;
    assert_status(strata_bool_parse("yes", &value, NULL), STRATA_OK);
    ck_assert(value);
    assert_status(strata_bool_parse("off", &value, NULL), STRATA_OK);
    ck_assert(!value);
    assert_status(strata_bool_parse("1", &value, NULL), STRATA_INVALID);
    assert_status(strata_bool_parse("Yes", &value, NULL), STRATA_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("units");
    TCase *tests = add_case(suite, "units");
    tcase_add_test(tests, sizes_are_exact);
    tcase_add_test(tests, bad_sizes_are_refused_and_touch_nothing);
    tcase_add_test(tests, times_need_a_unit_except_nought);
    tcase_add_test(tests, what_is_shown_reads_back_where_it_is_exact);
    tcase_add_test(tests, flags_have_six_words);
    return run_suite(suite);
}

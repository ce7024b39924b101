/* test_config.c - strict configuration: every mistake is an error with file and line, and changes
 * nothing; what is valid is laid over the code's defaults. */
#include <strata/config.h>

#include "support/check_main.h"

#include <string.h>

static strata_model_config config;
static strata_error error;

static void setup(void)
{
    strata_model_config_init(&config);
}

/* Byte by byte: a configuration begins as zeros and is copied whole, padding included. */
static bool is_unchanged(const strata_model_config *before)
{
    const unsigned char *a = (const unsigned char *)before;
    const unsigned char *b = (const unsigned char *)&config;
    for (size_t i = 0; i < sizeof config; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

static strata_status read_text(const char *text)
{
    return strata_model_config_read(&config, text, strlen(text), "m.ini", &error);
}

static strata_arena_config arena_of(const char *label)
{
    strata_arena_config arena;
    strata_arena_config_init(&arena);
    arena.region.label = label;
    assert_ok(strata_model_config_arena(&config, &arena, &error), error);
    return arena;
}

START_TEST(a_whole_file_is_laid_over_the_defaults)
{
    assert_ok(read_text("\xEF\xBB\xBF# a comment\r\n"
                        "; another\n"
                        "[model]\n"
                        "label = rec ; after a value\n"
                        "budget=2GiB\n"
                        "release_wait = 250ms\n"
                        "\n"
                        "[all]\n"
                        "pages = default\n"
                        "step = 4MiB\n"
                        "  [ weights ]  \n"
                        "\treserve\t=\t8GiB\n"
                        "first = 1GiB\n"
                        "step = 8MiB\n"
                        "pages_fallback = no\n"
                        "prefault = yes\n"
                        "prefault_threads = 2\n"
                        "guard = off\n"
                        "lane = 128KiB\n"
                        "memory = file\n"
                        "checked = no"),
              error);
    ck_assert_str_eq(config.label, "rec");
    ck_assert_uint_eq(config.budget_bytes, UINT64_C(2) << 30);
    ck_assert_uint_eq(config.release_wait_ns, 250000000);
    strata_arena_config weights = arena_of("weights");
    ck_assert_uint_eq(weights.region.reserve_bytes, (size_t)8 << 30);
    ck_assert_uint_eq(weights.region.first_bytes, (size_t)1 << 30);
    ck_assert_uint_eq(weights.region.step_bytes, (size_t)8 << 20); /* its own, not all's */
    ck_assert_int_eq(weights.region.pages, STRATA_PAGES_DEFAULT);
    ck_assert(!weights.region.pages_fallback);
    ck_assert(weights.region.prefault);
    ck_assert_uint_eq(weights.region.prefault_threads, 2);
    ck_assert_int_eq(weights.guard, STRATA_GUARD_OFF);
    ck_assert_uint_eq(weights.lane_bytes, (size_t)128 << 10);
    ck_assert_str_eq(weights.memory, "file");
    strata_arena_config kv = arena_of("kv");
    ck_assert_uint_eq(kv.region.step_bytes, (size_t)4 << 20);
    ck_assert_ptr_null(kv.memory);
    bool checked = true;
    strata_region_config region;
    strata_region_config_init(&region);
    region.label = "weights";
    assert_ok(strata_model_config_region(&config, &region, &checked, NULL, &error), error);
    ck_assert(!checked);
}
END_TEST

/* Every line that is wrong, with the line that must be named. */
static const struct {
    const char *text;
    const char *named;
} bad_files[] = {
    {"[weights]\nreserv = 1GiB\n", "m.ini:2: weights.reserv"},
    {"[weights]\nreserve = 1GB\n", "m.ini:2: weights.reserve"},
    {"[weights]\nreserve = 0\n", "m.ini:2"},
    {"[weights]\nreserve = 16777215TiB\n", "m.ini:2"},
    {"[weights]\npages = huge\n", "m.ini:2"},
    {"[weights]\nguard = maybe\n", "m.ini:2"},
    {"[weights]\nprefault = 1\n", "m.ini:2"},
    {"[weights]\nprefault_threads = 0\n", "m.ini:2"},
    {"[weights]\nprefault_threads = 1KiB\n", "m.ini:2"},
    {"[weights]\nprefault_threads = 65\n", "m.ini:2"},
    {"[weights]\nmemory = a b\n", "m.ini:2"},
    {"[weights]\nreserve =\n", "m.ini:2"},
    {"[weights]\n= 1GiB\n", "m.ini:2"},
    {"[weights]\nreserve 1GiB\n", "m.ini:2"},
    {"[weights]\nreserve = 1GiB\n\nreserve = 1GiB\n", "first in line 2"},
    {"[weights]\nreserve = 1GiB\n[kv]\n[weights]\nreserve = 1GiB\n", "m.ini:5"},
    {"[model]\nlabel = a\nlabel = b\n", "first in line 2"},
    {"[model]\nbudget = 1GiB\nbudget = 1GiB\n", "m.ini:3"},
    {"[model]\nrelease_wait = 1s\nrelease_wait = 2s\n", "m.ini:3"},
    {"[model]\nrelease_wait = 5\n", "m.ini:2"},
    {"[model]\nreserve = 5\n", "m.ini:2: model.reserve"},
    {"reserve = 1GiB\n", "m.ini:1"},
    {"[weights\nreserve = 1GiB\n", "m.ini:1"},
    {"[]\n", "m.ini:1"},
    {"[we ights]\n", "m.ini:1"},
    {"[weights]x\n", "m.ini:1"},
    {"[weights]\nfirst = 2GiB\nreserve = 1GiB\n", "m.ini:2: weights.first"},
    {"[weights]\nstep = 4MiB\nstep_max = 2MiB\n", "m.ini:2: weights.step"},
    {"[all]\nreserve = 1GiB\n[kv]\nfirst = 2GiB\n", "m.ini:4: kv.first"},
    {"[model]\nbudget = 1GiB\n[a]\nfirst = 600MiB\n[b]\nfirst = 600MiB\n", "m.ini:2"},
    {"[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n", "m.ini:1"},
};

START_TEST(every_mistake_names_file_and_line_and_changes_nothing)
{
    strata_model_config before = config;
    ck_assert_uint_lt((size_t)_i, sizeof bad_files / sizeof *bad_files);
    assert_status(read_text(bad_files[_i].text), STRATA_INVALID);
    ck_assert_msg(strstr(error.text, bad_files[_i].named) != NULL, "\"%s\" has no \"%s\"",
                  error.text, bad_files[_i].named);
    ck_assert(is_unchanged(&before));
}
END_TEST

START_TEST(odd_bytes_and_long_lines_are_refused_whole)
{
    static const char nul[] = "[weights]\nreserve = 1\0GiB\n";
    assert_status(strata_model_config_read(&config, nul, sizeof nul - 1, "m.ini", &error),
                  STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "m.ini:2"));
    char big[3000];
    memset(big, 'x', sizeof big);
    assert_status(strata_model_config_read(&config, big, sizeof big, "m.ini", &error),
                  STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "m.ini:1"));
    assert_status(strata_model_config_read(&config, "", 0, "m.ini", &error), STRATA_OK);
    /* No prefix of a valid text crashes or is half applied. */
    const char *text = "[weights]\nreserve = 8GiB\nfirst = 1MiB # x\n[kv]\nstep = 2MiB\n";
    for (size_t length = 0; length <= strlen(text); length++) {
        strata_model_config_init(&config);
        strata_model_config before = config;
        char *copy = malloc(length + 1); /* exact, so that a sanitizer sees an overrun */
        memcpy(copy, text, length);
        if (strata_model_config_read(&config, copy, length, "m.ini", &error) != STRATA_OK) {
            ck_assert(is_unchanged(&before));
        }
        free(copy);
    }
}
END_TEST

START_TEST(override_lines_are_applied_whole_or_not_at_all)
{
    assert_ok(strata_model_config_set_line(&config, "weights.reserve:8GiB,run.pages:thp", &error),
              error);
    ck_assert_uint_eq(arena_of("weights").region.reserve_bytes, (size_t)8 << 30);
    static const char *const bad[] = {"",
                                      "weights.reserve",
                                      "weights.reserve:8GiB,",
                                      "reserve:1",
                                      ".reserve:1",
                                      "weights.:1",
                                      "a.reserve:1GiB,b.nope:1",
                                      ",",
                                      "weights.reserve:",
                                      "a b.reserve:1GiB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        strata_model_config before = config;
        ck_assert_msg(strata_model_config_set_line(&config, bad[i], &error) == STRATA_INVALID,
                      "\"%s\"", bad[i]);
        ck_assert(is_unchanged(&before));
    }
}
END_TEST

START_TEST(limits_are_errors)
{
    char key[64];
    for (int i = 0; i < STRATA_CONFIG_NAMES_MAX; i++) {
        (void)snprintf(key, sizeof key, "n%d.reserve", i);
        assert_ok(strata_model_config_set(&config, key, "1MiB", &error), error);
    }
    assert_status(strata_model_config_set(&config, "more.reserve", "1MiB", &error), STRATA_LIMIT);
    for (int i = 0; i < STRATA_CONFIG_SOURCES_MAX; i++) {
        assert_ok(read_text("# nothing\n"), error);
    }
    assert_status(read_text("# nothing\n"), STRATA_LIMIT);
}
END_TEST

START_TEST(names_that_nothing_creates_are_refused_with_their_place)
{
    static const char *const names[] = {"weights", "kv"};
    assert_ok(read_text("[all]\nstep = 2MiB\n[weights]\nstep = 2MiB\n[wieghts]\nstep = 2MiB\n"),
              error);
    assert_status(strata_model_config_expect(&config, names, 2, &error), STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "m.ini:6"));
    ck_assert_ptr_nonnull(strstr(error.text, "wieghts"));
    ck_assert_ptr_nonnull(strstr(error.text, "kv"));
}
END_TEST

START_TEST(what_contradicts_a_default_of_the_code_has_its_place_too)
{
    assert_ok(read_text("[weights]\n\nfirst = 1GiB\n"), error);
    strata_arena_config arena;
    strata_arena_config_init(&arena);
    arena.region.label = "weights";
    arena.region.reserve_bytes = (size_t)512 << 20;
    assert_status(strata_model_config_arena(&config, &arena, &error), STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "m.ini:3: weights.first"));
}
END_TEST

START_TEST(later_sources_win_and_null_errors_are_allowed)
{
    assert_ok(read_text("[weights]\nreserve = 1GiB\n"), error);
    assert_ok(read_text("[weights]\nreserve = 2GiB\n"), error);
    ck_assert_uint_eq(arena_of("weights").region.reserve_bytes, (size_t)2 << 30);
    assert_status(strata_model_config_set(&config, "weights.reserve", "x", NULL), STRATA_INVALID);
    assert_status(strata_model_config_read(&config, "x", 1, "f", NULL), STRATA_INVALID);
    strata_arena_config arena;
    strata_arena_config_init(&arena);
    arena.region.label = "no good";
    assert_status(strata_model_config_arena(&config, &arena, NULL), STRATA_INVALID);
    arena.region.label = "model";
    assert_status(strata_model_config_arena(&config, &arena, NULL), STRATA_INVALID);
    arena.region.label = "all";
    assert_status(strata_model_config_arena(&config, &arena, NULL), STRATA_INVALID);
    strata_model_config before = config;
    assert_status(strata_model_config_set(&config, "model.release_wait", "x", NULL),
                  STRATA_INVALID);
    ck_assert(is_unchanged(&before));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = add_case(suite, "config");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_whole_file_is_laid_over_the_defaults);
    tcase_add_loop_test(tests, every_mistake_names_file_and_line_and_changes_nothing, 0,
                        (int)(sizeof bad_files / sizeof *bad_files));
    tcase_add_test(tests, odd_bytes_and_long_lines_are_refused_whole);
    tcase_add_test(tests, override_lines_are_applied_whole_or_not_at_all);
    tcase_add_test(tests, limits_are_errors);
    tcase_add_test(tests, names_that_nothing_creates_are_refused_with_their_place);
    tcase_add_test(tests, what_contradicts_a_default_of_the_code_has_its_place_too);
    tcase_add_test(tests, later_sources_win_and_null_errors_are_allowed);
    return run_suite(suite);
}

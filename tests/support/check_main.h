/* check_main.h - how every test program of ours ends: one suite, the runner, an exit status.
 *
 * Check runs each test in a child unless CK_FORK=no. Its default of 4 s a test is too little under
 * Valgrind and sanitizers, so each case gets 60 s; ctest's own limit is the outer one. */
#ifndef STRATA_TESTS_CHECK_MAIN_H
#define STRATA_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include <strata/error.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#define TEST_SKIPPED 77 /* ctest's SKIP_RETURN_CODE */

/* Whether a tool watches memory, so that an arena's guard tells it instead of keeping canaries. */
static inline bool memory_is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return RUNNING_ON_VALGRIND != 0;
#endif
}

/* A case of the suite with room for slow machines. */
static inline TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return tests;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Ends the program visibly without a verdict; where CI promised the feature, that is a failure. */
static inline int skip_program(const char *reason)
{
    const char *ci = getenv("CI");
    printf("SKIP: %s\n", reason);
    return ci != NULL && ci[0] != '\0' ? EXIT_FAILURE : TEST_SKIPPED;
}

/* With the error's text in the failure. */
#define assert_ok(call, error)                                              \
    do {                                                                    \
        strata_status assert_ok_status_ = (call);                           \
        ck_assert_msg(assert_ok_status_ == STRATA_OK, "%s: %s (%s)", #call, \
                      strata_status_name(assert_ok_status_), (error).text); \
    } while (0)

#define assert_status(call, expected)                                                    \
    do {                                                                                 \
        strata_status assert_status_ = (call);                                           \
        ck_assert_msg(assert_status_ == (expected), "%s: %s, expected %s", #call,        \
                      strata_status_name(assert_status_), strata_status_name(expected)); \
    } while (0)

#endif

/* main.c - runs the heap's suites, or the child of the environment test. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* fork has jemalloc hold all its locks at once, more than ThreadSanitizer's deadlock detector can
 * count (64): it aborts the program. So that part of it is off; races are still looked for. Any
 * program that links the heap and forks under ThreadSanitizer needs the same. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "detect_deadlocks=0";
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], ENVIRONMENT_CHILD) == 0) {
        return environment_child();
    }
    SRunner *runner = srunner_create(faults_suite());
    srunner_add_suite(runner, refusal_suite());
    srunner_add_suite(runner, alloc_suite());
    srunner_add_suite(runner, lane_suite());
    srunner_add_suite(runner, untouchable_suite());
    srunner_add_suite(runner, threads_suite());
    srunner_add_suite(runner, fork_suite());
    srunner_add_suite(runner, environment_suite());
    srunner_add_suite(runner, strand_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

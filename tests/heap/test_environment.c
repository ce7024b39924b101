/* test_environment.c - what the environment says to a jemalloc does not reach the private one. */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* abort_conf aborts at once on the unknown option; were that not heeded, junk would fill blocks. */
#define HOSTILE "abort_conf:true,no_such_option:1,junk:true,retain:true,narenas:7,tcache:true"

/* In the child: 0, or which promise is broken. Opening asks for every option (strata__je_check). */
int environment_child(void)
{
    strata_host_backend host;
    strata_ledger ledger;
    strata_host_backend_init(&host, NULL, NULL);
    strata_ledger_init(&ledger, NULL, "child", STRATA_UNLIMITED);
    strata_heap_config config = small_config();
    strata_heap *heap = NULL;
    if (strata_heap_open(&heap, &host.backend, &ledger, NULL, &config, NULL) != STRATA_OK) {
        return 1;
    }
    unsigned char *block = strata_heap_alloc(heap, 4096, 16, NULL);
    if (block == NULL || block[0] != 0 || block[4095] != 0) { /* junk is 0xa5 */
        return 2;
    }
    if (strata_heap_close(heap, NULL, NULL) != STRATA_OK) {
        return 3;
    }
    strata_heap_destroy(heap);
    return 0;
}

/* Promise: with MALLOC_CONF set against it, the library starts and behaves as always. */
START_TEST(malloc_conf_does_not_reach_it)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        static char *const arguments[] = {"test_heap", ENVIRONMENT_CHILD, NULL};
        static char *const environment[] = {"MALLOC_CONF=" HOSTILE, NULL};
        (void)execve("/proc/self/exe", arguments, environment);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

Suite *environment_suite(void)
{
    Suite *suite = suite_create("heap environment");
    TCase *tests = tcase_create("environment");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, malloc_conf_does_not_reach_it);
    suite_add_tcase(suite, tests);
    return suite;
}

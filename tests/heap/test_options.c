/* test_options.c - a jemalloc that is not configured as the heap needs it is refused, by name.
 *
 * An executable of its own, because jemalloc reads its options once: each build of it (see
 * CMakeLists.txt) replaces strata__je_malloc_conf by one with a single option changed, WRONG_CONF,
 * and expects the name of that option, WRONG_NAME. */
#define strata__je_malloc_conf right_conf_
#include "alloc/heap/src/isolation.c" // NOLINT(bugprone-suspicious-include): see above
#undef strata__je_malloc_conf

#include <strata/heap.h>
#include <strata/host.h>

#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(hidden)
extern const char *const strata__je_malloc_conf;
#pragma GCC visibility pop
const char *const strata__je_malloc_conf = WRONG_CONF;

int main(void)
{
    strata_host_backend host;
    strata_ledger ledger;
    strata_host_backend_init(&host, NULL, NULL);
    strata_ledger_init(&ledger, NULL, "options", STRATA_UNLIMITED);
    strata_heap_config config;
    strata_heap_config_init(&config);
    strata_heap *heap = NULL;
    strata_error err = {.status = STRATA_OK};
    strata_status status = strata_heap_open(&heap, &host.backend, &ledger, NULL, &config, &err);
    strata_ledger_counts counts;
    strata_ledger_read(&ledger, &counts);
    if (status != STRATA_UNSUPPORTED || heap != NULL || strstr(err.text, WRONG_NAME) == NULL ||
        counts.mappings_made != 0) {
        (void)fprintf(stderr, "status %s: %s\n", strata_status_name(status), err.text);
        return 1;
    }
    return 0;
}

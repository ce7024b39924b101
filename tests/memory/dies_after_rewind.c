/* dies_after_rewind.c - uses memory that a rewind dropped. Under AddressSanitizer the program has
 * to be stopped at that line: ctest expects the report. It reaches the end nowhere else. */
#include <strata/arena.h>
#include <strata/host.h>

#include <stdio.h>

int main(void)
{
    strata_host_backend host;
    strata_ledger ledger;
    strata_host_backend_init(&host, NULL, NULL);
    strata_ledger_init(&ledger, NULL, "test", STRATA_UNLIMITED);
    strata_arena_config config;
    strata_arena_config_init(&config);
    strata_arena *arena = NULL;
    if (strata_arena_open(&arena, &host.backend, &ledger, NULL, &config, NULL) != STRATA_OK) {
        return 0;
    }
    strata_arena_mark mark = strata_arena_get_mark(arena);
    volatile char *kept = strata_arena_alloc(arena, 100, 16);
    kept[50] = 1;
    (void)strata_arena_rewind(arena, mark);
    kept[50] = 2;
    (void)puts("the use after the rewind went unnoticed");
    return 0;
}

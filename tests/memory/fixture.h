/* fixture.h - what the tests of alloc/memory stand on: the host backend over system calls and
 * control memory that are counted and can fail, a gate, and a ledger without a limit. One set a
 * program. */
#ifndef STRATA_TESTS_MEMORY_FIXTURE_H
#define STRATA_TESTS_MEMORY_FIXTURE_H

#include <strata/host.h>
#include <strata/region.h>

#include "fakes/fake_system.h"
#include "support/check_main.h"

#define MIB ((size_t)1 << 20)

static fake_system fake;
static fake_memory memory;
static strata_gate gate;
static strata_host_backend host;
static strata_ledger ledger;
static strata_error error;

static inline void setup(void)
{
    fake_system_init(&fake);
    fake_memory_init(&memory);
    assert_ok(strata_gate_init(&gate, &error), error);
    strata_host_backend_init(&host, &gate, &fake.system);
    strata_ledger_init(&ledger, NULL, "test", STRATA_UNLIMITED);
}

/* Nothing is held anywhere: by the system, by the account, by malloc. */
static inline void assert_all_returned(void)
{
    strata_ledger_counts counts;
    strata_ledger_read(&ledger, &counts);
    ck_assert(fake_system_is_clean(&fake));
    ck_assert_uint_eq(fake_memory_live(&memory), 0);
    ck_assert_uint_eq(counts.committed_bytes, 0);
    ck_assert_uint_eq(counts.reserved_bytes, 0);
    ck_assert_uint_eq(counts.mappings_made, counts.mappings_torn_down);
}

#endif

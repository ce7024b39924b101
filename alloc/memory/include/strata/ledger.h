/* strata/ledger.h - one count for every byte committed and every mapping made and torn down.
 *
 * Ledgers form a chain: a model's ledger has the process's as its parent, and each entry is made in
 * both. A ledger may have a limit; that is all a budget is. Committing memory asks the ledger
 * before the system or a driver is asked, and the chain is charged whole or not at all.
 *
 * Thread rule: any thread; plain atomics, no lock. Counts read while others move are each exact,
 * but not of one instant. */
#ifndef STRATA_LEDGER_H
#define STRATA_LEDGER_H

#include <strata/error.h>

STRATA_BEGIN_DECLS

#define STRATA_UNLIMITED UINT64_MAX

typedef struct strata_ledger {
    /* ours */
    struct strata_ledger *parent_;
    const char *name_;
    uint64_t limit_bytes_;
    uint64_t committed_bytes_;
    uint64_t committed_peak_bytes_;
    uint64_t reserved_bytes_;
    uint64_t mappings_made_;
    uint64_t mappings_torn_down_;
    uint64_t operations_;
} strata_ledger;

typedef struct strata_ledger_counts {
    uint64_t limit_bytes;
    uint64_t committed_bytes; /* what a budget counts */
    uint64_t committed_peak_bytes;
    uint64_t reserved_bytes; /* addresses, not memory */
    uint64_t mappings_made;
    uint64_t mappings_torn_down;
    uint64_t mapping_operations; /* every call that changed a mapping: reserve, commit, return */
} strata_ledger_counts;

/* `name` appears in "budget" errors and must outlive the ledger. parent may be NULL. */
STRATA_API void strata_ledger_init(strata_ledger *ledger, strata_ledger *parent, const char *name,
                                   uint64_t limit_bytes);

/* BUDGET, naming the ledger, its limit, what is committed and what was asked. */
STRATA_API strata_status strata_ledger_charge(strata_ledger *ledger, uint64_t bytes,
                                              strata_error *err);
STRATA_API void strata_ledger_refund(strata_ledger *ledger, uint64_t bytes);

/* Entries that cannot be refused. `mappings` is what the kernel or driver made or tore down. */
STRATA_API void strata_ledger_reserved(strata_ledger *ledger, uint64_t bytes, uint64_t mappings);
STRATA_API void strata_ledger_returned(strata_ledger *ledger, uint64_t bytes, uint64_t mappings);
STRATA_API void strata_ledger_operation(strata_ledger *ledger);

STRATA_API void strata_ledger_read(const strata_ledger *ledger, strata_ledger_counts *out);

STRATA_END_DECLS

#endif

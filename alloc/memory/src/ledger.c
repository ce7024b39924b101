/* ledger.c - atomic counts along a chain of ledgers. Decides one thing: whether a charge fits. */
#include <strata/ledger.h>

#define RELAXED __ATOMIC_RELAXED

void strata_ledger_init(strata_ledger *ledger, strata_ledger *parent, const char *name,
                        uint64_t limit_bytes)
{
    *ledger = (strata_ledger){.parent_ = parent, .name_ = name, .limit_bytes_ = limit_bytes};
}

static void raise_peak(uint64_t *peak, uint64_t value)
{
    uint64_t seen = __atomic_load_n(peak, RELAXED);
    while (seen < value &&
           !__atomic_compare_exchange_n(peak, &seen, value, true, RELAXED, RELAXED)) {}
}

/* One ledger, not its parents. *committed is what it held when the charge was decided. */
static bool charge_one(strata_ledger *ledger, uint64_t bytes, uint64_t *committed)
{
    *committed = __atomic_load_n(&ledger->committed_bytes_, RELAXED);
    do {
        if (bytes > ledger->limit_bytes_ || *committed > ledger->limit_bytes_ - bytes) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&ledger->committed_bytes_, committed, *committed + bytes,
                                          true, RELAXED, RELAXED));
    return true;
}

strata_status strata_ledger_charge(strata_ledger *ledger, uint64_t bytes, strata_error *err)
{
    uint64_t committed = 0;
    for (strata_ledger *at = ledger; at != NULL; at = at->parent_) {
        if (charge_one(at, bytes, &committed)) {
            continue;
        }
        for (strata_ledger *undo = ledger; undo != at; undo = undo->parent_) {
            (void)__atomic_fetch_sub(&undo->committed_bytes_, bytes, RELAXED);
        }
        return strata_error_set(err, STRATA_BUDGET,
                                "budget of %s: %llu bytes, %llu committed, %llu more asked for; "
                                "raise the budget or release something first",
                                at->name_, (unsigned long long)at->limit_bytes_,
                                (unsigned long long)committed, (unsigned long long)bytes);
    }
    /* Only what the whole chain has accepted is a peak. */
    for (strata_ledger *at = ledger; at != NULL; at = at->parent_) {
        raise_peak(&at->committed_peak_bytes_, __atomic_load_n(&at->committed_bytes_, RELAXED));
    }
    return STRATA_OK;
}

void strata_ledger_refund(strata_ledger *ledger, uint64_t bytes)
{
    for (; ledger != NULL; ledger = ledger->parent_) {
        (void)__atomic_fetch_sub(&ledger->committed_bytes_, bytes, RELAXED);
    }
}

void strata_ledger_reserved(strata_ledger *ledger, uint64_t bytes, uint64_t mappings)
{
    for (; ledger != NULL; ledger = ledger->parent_) {
        (void)__atomic_fetch_add(&ledger->reserved_bytes_, bytes, RELAXED);
        (void)__atomic_fetch_add(&ledger->mappings_made_, mappings, RELAXED);
        (void)__atomic_fetch_add(&ledger->operations_, 1, RELAXED);
    }
}

void strata_ledger_returned(strata_ledger *ledger, uint64_t bytes, uint64_t mappings)
{
    for (; ledger != NULL; ledger = ledger->parent_) {
        (void)__atomic_fetch_sub(&ledger->reserved_bytes_, bytes, RELAXED);
        (void)__atomic_fetch_add(&ledger->mappings_torn_down_, mappings, RELAXED);
        (void)__atomic_fetch_add(&ledger->operations_, 1, RELAXED);
    }
}

void strata_ledger_operation(strata_ledger *ledger)
{
    for (; ledger != NULL; ledger = ledger->parent_) {
        (void)__atomic_fetch_add(&ledger->operations_, 1, RELAXED);
    }
}

void strata_ledger_read(const strata_ledger *ledger, strata_ledger_counts *out)
{
    *out = (strata_ledger_counts){
        .limit_bytes = ledger->limit_bytes_,
        .committed_bytes = __atomic_load_n(&ledger->committed_bytes_, RELAXED),
        .committed_peak_bytes = __atomic_load_n(&ledger->committed_peak_bytes_, RELAXED),
        .reserved_bytes = __atomic_load_n(&ledger->reserved_bytes_, RELAXED),
        .mappings_made = __atomic_load_n(&ledger->mappings_made_, RELAXED),
        .mappings_torn_down = __atomic_load_n(&ledger->mappings_torn_down_, RELAXED),
        .mapping_operations = __atomic_load_n(&ledger->operations_, RELAXED),
    };
}

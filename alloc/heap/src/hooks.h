/* hooks.h - where the private jemalloc gets addresses from: a bump through the committed part.
 *
 * Knows addresses only: not the region, which grows them, nor the heap, which asks. */
#ifndef STRATA_HEAP_HOOKS_H
#define STRATA_HEAP_HOOKS_H

#include "jemalloc.h"

#pragma GCC visibility push(hidden)

typedef enum strata__hook {
    STRATA__HOOK_ALLOC,
    STRATA__HOOK_SPLIT,
    STRATA__HOOK_MERGE
} strata__hook;

/* A seam for tests: true makes this call of the hook fail. */
typedef bool strata__hook_fault_fn(void *user, strata__hook hook);

typedef struct strata__extents {
    strata__je_hooks hooks; /* first: jemalloc hands back its address */
    uintptr_t base;
    size_t limit; /* bytes from base that may be handed out; atomic, only ever grows */
    size_t used;  /* bytes from base that have been; atomic, falls when the last one comes back */

    /* The thread that is growing the heap, 0: none; and where the last extent that it was refused
     * would have ended. Others that fall short meanwhile leave no trace: they become growers in
     * their turn, with a shortage of their own. */
    uintptr_t grower; /* atomic */
    size_t wanted;    /* the grower's alone */

    strata__hook_fault_fn *fault; /* NULL outside tests */
    void *fault_user;
} strata__extents;

void strata__extents_init(strata__extents *extents);

/* pre: the caller holds the heap's growth lock. */
void strata__extents_grower_begin(strata__extents *extents);
void strata__extents_grower_end(strata__extents *extents);

/* pre: [base, base + limit) is committed. */
void strata__extents_set_limit(strata__extents *extents, size_t limit);

static inline size_t strata__extents_limit(const strata__extents *extents)
{
    return __atomic_load_n(&extents->limit, __ATOMIC_ACQUIRE);
}

#pragma GCC visibility pop

#endif

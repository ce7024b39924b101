/* hooks.c - extent hooks that never map, unmap or touch memory.
 *
 * jemalloc calls alloc from inside an allocation, holding locks of its own. Entering the gate or
 * committing there could wait for a teardown that waits for one of those locks. So alloc only hands
 * out what is committed; on shortage it notes what was missing and fails, and the heap, outside
 * jemalloc, commits and asks again.
 *
 * An extent that jemalloc gives back is refused (dalloc answers "keep it"): its addresses stay with
 * the arena for reuse, and memory goes back with the region. Only the last one is taken, because
 * the bump can go back over it, so that a larger block finds that room again. */
#include "hooks.h"

#include <strata/size.h>

#include <pthread.h>

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

static bool fails(strata__extents *extents, strata__hook hook)
{
    return extents->fault != NULL && extents->fault(extents->fault_user, hook);
}

/* Where an extent of these wants would lie, as offsets; false where no address is that high. */
static bool place(const strata__extents *extents, size_t used, size_t bytes, size_t align,
                  size_t *at, size_t *end)
{
    uintptr_t start;
    if (!strata_size_align_up(extents->base + used, align, &start)) {
        return false;
    }
    *at = start - extents->base;
    return strata_size_add(*at, bytes, end);
}

static void note_shortage(strata__extents *extents, size_t end)
{
    if (__atomic_load_n(&extents->grower, __ATOMIC_RELAXED) == self()) {
        extents->wanted = end;
    }
}

/* Alignment is of the address: the region's base is aligned to 2 MiB, a caller may want more. What
 * is skipped for it is lost until the heap closes. jemalloc asks for `at` only to grow an extent in
 * place, which it can do without. `*zero` is not promised: nothing here asks for zeroed memory. */
static void *extent_alloc(strata__je_hooks *hooks, void *at, size_t bytes, size_t align, bool *zero,
                          bool *commit, unsigned arena)
{
    strata__extents *extents = (strata__extents *)hooks;
    (void)arena;
    if (at != NULL || fails(extents, STRATA__HOOK_ALLOC)) {
        return NULL;
    }
    size_t used = __atomic_load_n(&extents->used, __ATOMIC_RELAXED);
    size_t start;
    size_t end;
    do {
        if (!place(extents, used, bytes, align, &start, &end)) {
            note_shortage(extents, SIZE_MAX);
            return NULL;
        }
        if (end > strata__extents_limit(extents)) {
            note_shortage(extents, end);
            return NULL;
        }
    } while (!__atomic_compare_exchange_n(&extents->used, &used, end, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    *zero = false;
    *commit = true;
    return (void *)(extents->base + start);
}

static bool extent_dalloc(strata__je_hooks *hooks, void *extent, size_t bytes, bool committed,
                          unsigned arena)
{
    strata__extents *extents = (strata__extents *)hooks;
    (void)committed;
    (void)arena;
    size_t at = (uintptr_t)extent - extents->base;
    size_t end = at + bytes;
    bool taken = __atomic_compare_exchange_n(&extents->used, &end, at, false, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED);
    return !taken;
}

static bool extent_commit(strata__je_hooks *hooks, void *extent, size_t bytes, size_t offset,
                          size_t length, unsigned arena)
{
    (void)hooks;
    (void)extent;
    (void)bytes;
    (void)offset;
    (void)length;
    (void)arena;
    return false;
}

/* Addresses are all there is to an extent, so any may be cut and any neighbours joined. Without
 * these two, jemalloc could not reuse a large extent for small ones. */
static bool extent_split(strata__je_hooks *hooks, void *extent, size_t bytes, size_t first_bytes,
                         size_t second_bytes, bool committed, unsigned arena)
{
    (void)extent;
    (void)bytes;
    (void)first_bytes;
    (void)second_bytes;
    (void)committed;
    (void)arena;
    return fails((strata__extents *)hooks, STRATA__HOOK_SPLIT);
}

static bool extent_merge(strata__je_hooks *hooks, void *first, size_t first_bytes, void *second,
                         size_t second_bytes, bool committed, unsigned arena)
{
    (void)first;
    (void)first_bytes;
    (void)second;
    (void)second_bytes;
    (void)committed;
    (void)arena;
    return fails((strata__extents *)hooks, STRATA__HOOK_MERGE);
}

void strata__extents_init(strata__extents *extents)
{
    *extents = (strata__extents){.hooks = {.alloc = extent_alloc,
                                           .dalloc = extent_dalloc,
                                           .commit = extent_commit,
                                           .split = extent_split,
                                           .merge = extent_merge}};
}

void strata__extents_grower_begin(strata__extents *extents)
{
    __atomic_store_n(&extents->grower, self(), __ATOMIC_RELAXED);
}

void strata__extents_grower_end(strata__extents *extents)
{
    __atomic_store_n(&extents->grower, 0, __ATOMIC_RELAXED);
}

void strata__extents_set_limit(strata__extents *extents, size_t limit)
{
    __atomic_store_n(&extents->limit, limit, __ATOMIC_RELEASE);
}

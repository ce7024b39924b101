/* internal.h - the heap as its own files see it. Not installed. */
#ifndef STRATA_HEAP_INTERNAL_H
#define STRATA_HEAP_INTERNAL_H

#include <strata/heap.h>
#include <strata/host.h>

#include "hooks.h"
#include "starts.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

struct strata_heap {
    /* Read on every allocation and free. */
    unsigned flags; /* of mallocx: the arena, no tcache */
    bool closed;    /* atomic */
    size_t reserve_bytes;
    strata__starts starts;
    strata__extents extents;

    uint64_t refused_frees; /* atomic */

    strata_backend *backend;
    strata_region *region;
    const strata_host_memory *memory;
    strata_host_backend own_host; /* for the start bits, where none was handed in */
    unsigned arena;
    bool has_arena; /* atomic */

    /* One thread at a time grows. Taken before the gate, never inside it or inside jemalloc. */
    pthread_mutex_t growth_mutex;

    pthread_mutex_t lanes_mutex;
    strata_heap_lane *lanes;
    size_t lane_count;

    char label[STRATA_LABEL_MAX];
};

/* strata_heap_open; where it fails and giving back fails as well, the closed heap in *rest. */
strata_status strata__heap_open(strata_heap **out, strata_heap **rest, strata_backend *backend,
                                strata_ledger *ledger, const strata_host_memory *memory,
                                const strata_heap_config *config, strata_error *err);

/* The whole of an allocation, for the heap (cache_flag STRATA__JE_TCACHE_NONE) and its lanes. */
void *strata__heap_alloc(strata_heap *heap, size_t size, size_t align, unsigned cache_flag,
                         strata_error *err);
strata_status strata__heap_free(strata_heap *heap, void *block, unsigned cache_flag);

static inline bool strata__heap_is_closed(const strata_heap *heap)
{
    return __atomic_load_n(&heap->closed, __ATOMIC_RELAXED);
}

/* UNSUPPORTED in a forked child: it may use what is committed, but must not wait for a lock that a
 * thread of the parent held, nor return memory. A system call: for slow paths. */
strata_status strata__heap_may_map(const strata_heap *heap, strata_error *err);

/* Ends the caches of all lanes; their handles stay. Before the arena goes. */
void strata__heap_lanes_retire(strata_heap *heap);
void strata__heap_lanes_destroy(strata_heap *heap);

#pragma GCC visibility pop

#endif

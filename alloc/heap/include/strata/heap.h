/* strata/heap.h - individually freeable allocations inside one region.
 *
 * A private jemalloc manages addresses of a region that it never maps, unmaps or writes its own
 * bookkeeping into; so the region may be memory that the host cannot touch, and goes back whole
 * whatever is still live in it. Lives in a library of its own, strata::heap, because of jemalloc's
 * static thread-local storage (alloc/heap/README.md in the sources argues it).
 *
 * When not to use it: for what dies together. An arena is tens of times cheaper (`strata bench
 * alloc`).
 *
 * Thread rule: any thread. A heap lane belongs to one thread at a time. */
#ifndef STRATA_HEAP_H
#define STRATA_HEAP_H

#include <strata/region.h>

STRATA_BEGIN_DECLS

typedef struct strata_strand strata_strand; /* strand.h */
typedef struct strata_heap strata_heap;
typedef struct strata_heap_lane strata_heap_lane;

typedef struct strata_heap_config {
    strata_region_config region;
    bool checked; /* keep the start bitmap: foreign, interior and double frees are refused */
    strata_backend *backend; /* for strata_heap_create: NULL: by name, see `memory` */
    const char *memory;      /* likewise: the backend's name, NULL: "host" */
    strata_backend *host;    /* where the start bitmap lies: host memory. NULL: with the heap where
                                that is "host", in the model's "host", or in one of its own */
} strata_heap_config;

/* Checked; 1 GiB reserved, nothing committed, steps of 2 to 64 MiB, transparent huge pages. */
STRATA_API void strata_heap_config_init(strata_heap_config *config);

typedef struct strata_heap_info {
    strata_region_info region;
    /* What a lane has cached counts as allocated until the lane is closed. After the heap's close
     * nothing is live; the totals stay. */
    size_t live_bytes; /* usable bytes of live blocks, by jemalloc's size classes */
    size_t live_blocks;
    uint64_t allocations;
    uint64_t frees;
    uint64_t refused_frees; /* foreign, interior or double */
    size_t lanes;
    size_t bookkeeping_bytes; /* committed for the start bitmap, beside the region's */
} strata_heap_info;

/* A heap over a region of its own, which knows no model; a checked one has a second region for the
 * bitmap, "LABEL.starts", 1/128 of the first. Errors: the region's, LIMIT when jemalloc has no
 * arena index left (about 4,090), UNSUPPORTED when the linked jemalloc is not configured as it must
 * be. On failure nothing is held; where giving back fails too, the error says so. */
STRATA_API strata_status strata_heap_open(strata_heap **out, strata_backend *backend,
                                          strata_ledger *ledger, const strata_host_memory *memory,
                                          const strata_heap_config *config, strata_error *err);

/* The same as a resource of a strand: what the model's configuration says under the label is laid
 * over `config`, bytes are charged to the model, and the model's release returns it. */
STRATA_API strata_status strata_heap_create(strata_heap **out, strata_strand *strand,
                                            const strata_heap_config *config, strata_error *err);

/* size bytes, aligned to `align`, a power of two up to STRATA_ALIGN_MAX. A size of 0 gives a unique
 * address. NULL: INVALID, LIMIT (the reservation is full: raise `reserve`), BUDGET, NO_MEMORY,
 * CLOSED, BUSY, TIMEOUT or ORDER of the gate where the heap has to grow, UNSUPPORTED where it would
 * have to in a forked child. */
STRATA_API void *strata_heap_alloc(strata_heap *heap, size_t size, size_t align, strata_error *err);

/* NULL is accepted and ignored. FOREIGN: not an address of this heap. INVALID: inside a block,
 * freed already, or never handed out. CLOSED. Nothing is touched on failure. An unchecked heap
 * refuses only what lies outside its committed memory; anything else that is wrong corrupts it. */
STRATA_API strata_status strata_heap_free(strata_heap *heap, void *block);

/* Usable bytes of a live block, 0 for anything else (checked heaps only). */
STRATA_API size_t strata_heap_usable(strata_heap *heap, const void *block);
STRATA_API bool strata_heap_owns(const strata_heap *heap, const void *address);

/* A cache of one thread in front of the heap: cheaper, and its blocks may be freed through any lane
 * of the heap or through the heap. LIMIT past 4,094 lanes in the process. */
STRATA_API strata_status strata_heap_lane_open(strata_heap_lane **out, strata_heap *heap,
                                               strata_error *err);
STRATA_API void *strata_heap_lane_alloc(strata_heap_lane *lane, size_t size, size_t align,
                                        strata_error *err);
STRATA_API strata_status strata_heap_lane_free(strata_heap_lane *lane, void *block);
STRATA_API void strata_heap_lane_close(strata_heap_lane *lane); /* NULL allowed */

/* Returns the region, whatever is live; later calls answer CLOSED. Idempotent; may be repeated on
 * failure. UNSUPPORTED in a forked child, nothing touched. pre: no call of another thread is
 * inside. */
STRATA_API strata_status strata_heap_close(strata_heap *heap, strata_report *out,
                                           strata_error *err);

/* Frees the control blocks of the heap and its lanes. pre: closed. NULL allowed. Not for heaps made
 * by strata_heap_create: their strand does it. */
STRATA_API void strata_heap_destroy(strata_heap *heap);

/* Bytes of memory behind it, bookkeeping included; cheaper than all figures. Any thread. */
STRATA_API size_t strata_heap_committed(const strata_heap *heap);

/* Any thread. Takes longer the more heaps there are (12 us with one); after the close the counts
 * are 0 and the region's figures stay. */
STRATA_API void strata_heap_read(strata_heap *heap, strata_heap_info *out);

STRATA_END_DECLS

#endif

/* strata/region.h - one contiguous range of one backend: reserved once, committed from its start in
 * few large extents, returned whole.
 *
 * The unit of everything that is expensive: system calls, mappings, budget. It hands out no
 * allocations; arenas and heaps do, over it. Its bookkeeping lies on the host, never in the range.
 *
 * Thread rule: commit may be called from any thread; release by whoever tears it down, once nobody
 * commits any more. Release closes the backend's gate, so it never overlaps a commit. */
#ifndef STRATA_REGION_H
#define STRATA_REGION_H

#include <strata/backend.h>
#include <strata/ledger.h>

STRATA_BEGIN_DECLS

/* Where control blocks come from, for all objects of a process. NULL functions: malloc, free.
 * Called from whatever thread creates or destroys; never on an allocation's fast path, never during
 * a release. */
typedef struct strata_host_memory {
    void *user;
    void *(*allocate)(void *user, size_t bytes); /* aligned as malloc's, NULL: no memory */
    void (*free)(void *user, void *block);       /* NULL block allowed */
} strata_host_memory;

STRATA_API void *strata_host_memory_allocate(const strata_host_memory *memory, size_t bytes);
STRATA_API void strata_host_memory_free(const strata_host_memory *memory, void *block);

typedef struct strata_region_config {
    const char *label;     /* copied */
    size_t reserve_bytes;  /* rounded up to the backend's granularity */
    size_t first_bytes;    /* committed at creation; 0: nothing yet */
    size_t step_bytes;     /* the first growth; each further one doubles, */
    size_t step_max_bytes; /* up to this */
    strata_pages pages;
    bool pages_fallback;
    bool prefault;
    unsigned prefault_threads; /* 0: one */
} strata_region_config;

/* 64 MiB reserved, nothing committed, steps of 2 to 64 MiB, transparent huge pages with fallback,
 * no prefault. */
STRATA_API void strata_region_config_init(strata_region_config *config);

typedef struct strata_region strata_region;

/* Figures of a region; after its release the committed bytes are 0 and the rest stays readable. */
typedef struct strata_region_info {
    const char *label;
    const char *backend;
    void *base;
    size_t reserve_bytes;
    size_t committed_bytes;
    size_t committed_peak_bytes;
    size_t extents;     /* commits that it took */
    strata_pages pages; /* what it got */
    bool released;
    bool stranded; /* a release failed; committed_bytes are still held */
} strata_region_info;

/* Reserves and commits the first extent. INVALID for sizes of 0 or that wrap; LIMIT where RLIMIT_AS
 * refuses the addresses; NO_MEMORY with what to look at; BUDGET, before the system is asked;
 * SYSTEM; UNSUPPORTED for a backend of another version. On failure nothing is held; where giving
 * the addresses back fails too, the error says so and the ledger goes on counting the mapping.
 * memory NULL: malloc. */
STRATA_API strata_status strata_region_create(strata_region **out, strata_backend *backend,
                                              strata_ledger *ledger,
                                              const strata_host_memory *memory,
                                              const strata_region_config *config,
                                              strata_error *err);

/* Makes at least the first `bytes` usable; grows by at least a step. LIMIT past the reservation,
 * with the key to raise; BUDGET, NO_MEMORY, BUSY/TIMEOUT from the gate, CLOSED. A step that the
 * budget or the system refuses is tried again with exactly what is needed. */
STRATA_API strata_status strata_region_commit(strata_region *region, size_t bytes,
                                              strata_error *err);

/* Gives back what lies behind `keep_bytes`, rounded up. UNSUPPORTED where the backend cannot. */
STRATA_API strata_status strata_region_trim(strata_region *region, size_t keep_bytes,
                                            strata_error *err);

/* Returns the whole range and checks that it is gone. Again after success: OK, no system call.
 * On failure the range is held as before and the call may be repeated. `out` (NULL allowed) gets
 * the verdict. */
STRATA_API strata_status strata_region_release(strata_region *region, strata_report *out,
                                               strata_error *err);

/* Frees the control block. pre: released. NULL allowed. */
STRATA_API void strata_region_destroy(strata_region *region);

STRATA_API void *strata_region_base(const strata_region *region);
STRATA_API size_t strata_region_committed(const strata_region *region); /* bytes, acquire */
STRATA_API void strata_region_read(const strata_region *region, strata_region_info *out);

STRATA_END_DECLS

#endif

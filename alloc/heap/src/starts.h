/* starts.h - which addresses of a heap are the start of a live block.
 *
 * One bit for each 16 bytes, in a host region of its own ("NAME.starts" in the ledger), so that a
 * heap over memory that the host cannot touch has one too. Committed in step with the heap, 1/128
 * of it. Knows regions only. */
#ifndef STRATA_HEAP_STARTS_H
#define STRATA_HEAP_STARTS_H

#include <strata/region.h>

#pragma GCC visibility push(hidden)

/* Every block starts on a multiple of this; jemalloc's smaller classes are never asked for. */
#define STRATA__GRAIN ((size_t)16)

typedef struct strata__starts {
    strata_region *region; /* NULL: none is kept */
    uint64_t *words;
} strata__starts;

/* For a heap of heap_bytes; covers nothing yet. The region's errors. */
strata_status strata__starts_create(strata__starts *starts, strata_backend *host,
                                    strata_ledger *ledger, const strata_host_memory *memory,
                                    const char *heap_label, size_t heap_bytes, strata_error *err);

/* Makes bits for the first heap_bytes usable. The region's errors. */
strata_status strata__starts_cover(strata__starts *starts, size_t heap_bytes, strata_error *err);
size_t strata__starts_covered(const strata__starts *starts); /* heap bytes; SIZE_MAX without bits */

/* Idempotent, may be repeated on failure. */
strata_status strata__starts_release(strata__starts *starts, strata_report *out, strata_error *err);
void strata__starts_destroy(strata__starts *starts); /* pre: released, or never created */

/* The three below: pre: offset lies in what is covered, and bits are kept.
 *
 * Read-modify-write, because neighbours of a word belong to other threads' blocks. Relaxed, because
 * a word orders nothing but itself: whoever frees a block has it from whoever allocated it, and a
 * reused address has been through jemalloc's locks in between. */

static inline uint64_t strata__starts_bit(size_t offset)
{
    return UINT64_C(1) << (offset / STRATA__GRAIN % 64);
}

static inline uint64_t *strata__starts_word(const strata__starts *starts, size_t offset)
{
    return &starts->words[offset / STRATA__GRAIN / 64];
}

static inline void strata__starts_set(const strata__starts *starts, size_t offset)
{
    (void)__atomic_fetch_or(strata__starts_word(starts, offset), strata__starts_bit(offset),
                            __ATOMIC_RELAXED);
}

static inline bool strata__starts_has(const strata__starts *starts, size_t offset)
{
    return offset % STRATA__GRAIN == 0 &&
           (__atomic_load_n(strata__starts_word(starts, offset), __ATOMIC_RELAXED) &
            strata__starts_bit(offset)) != 0;
}

/* Clears a set bit; false where it was not set. Of two threads that try, one gets true. */
static inline bool strata__starts_take(const strata__starts *starts, size_t offset)
{
    uint64_t bit = strata__starts_bit(offset);
    return offset % STRATA__GRAIN == 0 &&
           (__atomic_fetch_and(strata__starts_word(starts, offset), ~bit, __ATOMIC_RELAXED) &
            bit) != 0;
}

#pragma GCC visibility pop

#endif

/* strata/arena.h - a bump cursor over a region.
 *
 * Allocation is an addition, inline, without a lock. There is no individual free: an arena is
 * rewound to a mark or goes whole. For things that die together; a stream of individual frees
 * belongs in a heap (heap.h), or the arena fills up (a runtime's inference took 2.5 to 5 times as
 * long on a pure bump).
 *
 * An arena of memory that the host cannot touch works the same: nothing is ever written into the
 * region on its behalf, except by the guard, which needs host memory.
 *
 * Thread rule: one thread at a time; handing over is allowed. A shared arena serves lanes only. */
#ifndef STRATA_ARENA_H
#define STRATA_ARENA_H

#include <strata/region.h>
#include <strata/size.h>

STRATA_BEGIN_DECLS

/* The two words that the fast path touches. `limit` is 0 where every call has to enter the library:
 * a guarded, shared or closed arena. */
typedef struct strata_bump {
    uintptr_t cursor;
    uintptr_t limit;
} strata_bump;

/* Only the head is public, for the inline path; the rest is the library's. Never declare one. */
typedef struct strata_arena {
    strata_bump bump_;
} strata_arena;

/* What catches the use of memory that a rewind dropped, and writes past a block's end. */
typedef enum strata_guard {
    STRATA_GUARD_AUTO, /* on under AddressSanitizer, under Valgrind and in debug builds */
    STRATA_GUARD_OFF,
    STRATA_GUARD_ON /* canaries behind blocks, dropped bytes filled and checked; host memory only */
} strata_guard;

typedef struct strata_arena_config {
    strata_region_config region;
    bool shared;       /* serves lanes only */
    size_t lane_bytes; /* what a lane takes at a time */
    strata_guard guard;
    strata_backend *backend; /* for strata_arena_create (strand.h): NULL: by name, see `memory` */
    const char *memory;      /* likewise: the backend's name, NULL: "host" */
} strata_arena_config;

STRATA_API void strata_arena_config_init(strata_arena_config *config);

/* Made by strata_arena_get_mark; valid for its arena while nothing below it has been dropped. */
typedef struct strata_arena_mark {
    const strata_arena *arena;
    size_t offset;
    uint64_t moment;
} strata_arena_mark;

typedef struct strata_arena_info {
    strata_region_info region;
    size_t used_bytes;
    size_t used_peak_bytes;
    size_t lanes;
    bool guarded;
} strata_arena_info;

/* A low-level arena over a region of its own, which knows no model. strata_arena_create (strand.h)
 * is what a runtime calls. config NULL: the defaults. Errors are the region's, and INVALID for a
 * guard over memory that the host cannot touch. */
STRATA_API strata_status strata_arena_open(strata_arena **out, strata_backend *backend,
                                           strata_ledger *ledger, const strata_host_memory *memory,
                                           const strata_arena_config *config, strata_error *err);

/* The slow path, and the whole path for callers that cannot inline (Rust, ctypes, and whoever has the
 * library by dlopen: the inline functions need it when linking). Grows the region
 * where needed. NULL: see strata_arena_error. A size of 0 gives a unique address. */
STRATA_API void *strata_arena_take(strata_arena *arena, size_t size, size_t align);

/* The addition itself; false where the library has to be entered.
 *
 * The comparisons are arranged so that nothing can wrap: valid alignments are small and the cursor
 * lies in a mapping, so `at` is never below it; a size that wraps, or of 0, gives an `end` that is
 * not above `at`; and where every call has to be slow, limit is 0. Both words are relaxed atomics,
 * which costs nothing and makes a late call on a closed arena fail instead of racing. With a
 * constant `align` its check folds away. (An answer by bool, because gcc keeps a test for NULL that
 * it cannot know to be needless: 1.37 instead of 1.04 times a bare bump.) */
static inline bool strata_bump_try_(strata_bump *bump, size_t size, size_t align, void **block)
{
    uintptr_t cursor = __atomic_load_n(&bump->cursor, __ATOMIC_RELAXED);
    uintptr_t limit = __atomic_load_n(&bump->limit, __ATOMIC_RELAXED);
    uintptr_t at = (cursor + (align - 1)) & ~(uintptr_t)(align - 1);
    uintptr_t end = at + size;
    if (__builtin_expect(!strata_align_is_valid(align) || end <= at || end > limit, 0)) {
        return false;
    }
    __atomic_store_n(&bump->cursor, end, __ATOMIC_RELAXED);
    *block = (void *)at;
    return true;
}

/* size bytes aligned to `align`, a power of two up to STRATA_ALIGN_MAX; NULL on failure, see
 * strata_arena_error. */
static inline void *strata_arena_alloc(strata_arena *arena, size_t size, size_t align)
{
    void *block;
    if (strata_bump_try_(&arena->bump_, size, align, &block)) {
        return block;
    }
    return strata_arena_take(arena, size, align);
}

/* Why the last call on this arena failed. Valid until the next failure. */
STRATA_API const strata_error *strata_arena_error(const strata_arena *arena);

STRATA_API strata_arena_mark strata_arena_get_mark(strata_arena *arena);

/* Drops everything allocated since the mark. Memory stays committed (see trim). INVALID for a mark
 * of another arena or a stale one, nothing changed; CLOSED. CORRUPT where the guard found damage:
 * rewound all the same. Every lane of a shared arena is emptied; needs quiescence.
 *
 * A mark is stale once something below it has been dropped, even where the cursor has passed it
 * again since. Exactly that is remembered over 64 rewinds to ever higher offsets; beyond, an old
 * mark may be refused as stale that is not, never the other way round. Scopes have no such limit.
 */
STRATA_API strata_status strata_arena_rewind(strata_arena *arena, strata_arena_mark mark);

/* The same as a rewind to the empty arena: all marks but those of the start become stale. */
STRATA_API strata_status strata_arena_clear(strata_arena *arena);

/* Gives committed memory behind the cursor back to the system. CORRUPT where the guard found damage
 * in it: trimmed all the same. */
STRATA_API strata_status strata_arena_trim(strata_arena *arena, strata_error *err);

/* Whether an address was handed out and not dropped. Any address may be asked. */
STRATA_API bool strata_arena_owns(const strata_arena *arena, const void *address);

/* Returns the region; later allocations fail with CLOSED. Idempotent; may be repeated on failure.
 * CORRUPT where the guard found damage, after everything was returned. */
STRATA_API strata_status strata_arena_close(strata_arena *arena, strata_report *out,
                                            strata_error *err);

/* Frees the control block and the lanes'. pre: closed. NULL allowed. */
STRATA_API void strata_arena_destroy(strata_arena *arena);

/* Bytes of memory behind it; cheaper than all figures. Any thread. */
STRATA_API size_t strata_arena_committed(const strata_arena *arena);
STRATA_API void strata_arena_read(const strata_arena *arena, strata_arena_info *out);

STRATA_END_DECLS

#endif

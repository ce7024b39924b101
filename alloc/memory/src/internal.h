/* internal.h - what the files of alloc/memory share with each other. Not installed. */
#ifndef STRATA_MEMORY_INTERNAL_H
#define STRATA_MEMORY_INTERNAL_H

#include <strata/arena.h>
#include <strata/host.h>

#include <pthread.h>

#define STRATA__HUGE_BYTES ((size_t)2 << 20)

/* The real system calls (host_system.c). */
extern const strata_host_system strata__host_system;

/* Faults [base, base + bytes) in by MADV_POPULATE_WRITE on up to `threads` threads (prefault.c).
 * NO_MEMORY, SYSTEM. */
strata_status strata__prefault(const strata_host_system *system, void *base, size_t bytes,
                               unsigned threads, strata_error *err);

/* The check after a return, shared by everything that munmap takes back (host.c). */
strata_verdict strata__verify_unmapped(const strata_host_system *system, const strata_range *range,
                                       size_t page_bytes, size_t *short_bytes, char *reason,
                                       size_t capacity);

/* --- marks.c: which marks of an arena are still good -------------------------------------------*/

#define STRATA__REWINDS_MAX 64

/* The rewinds that matter, offsets and moments rising together: for any mark, the first entry after
 * its moment is the lowest the cursor has been since. */
typedef struct strata__marks {
    uint64_t moment; /* rewinds so far */
    size_t count;
    struct strata__rewind {
        uint64_t moment;
        size_t offset;
    } rewinds[STRATA__REWINDS_MAX];
} strata__marks;

bool strata__marks_is_good(const strata__marks *marks, uint64_t moment, size_t offset);
void strata__marks_rewound(strata__marks *marks, size_t offset);

/* --- guard.c: what catches use after a rewind and writes past the end --------------------------*/

typedef enum strata__guard_mode {
    STRATA__GUARD_NONE,
    STRATA__GUARD_POISON, /* AddressSanitizer or Valgrind watches: tell it */
    STRATA__GUARD_CANARY  /* nobody watches: patterns, checked later */
} strata__guard_mode;

typedef struct strata__guard {
    strata__guard_mode mode;
    uintptr_t filled_to;   /* canary: [cursor, filled_to) holds the pattern */
    uintptr_t last_footer; /* canary: of the newest block, 0: none */
} strata__guard;

strata__guard_mode strata__guard_choose(strata_guard wanted);

/* Bytes that follow a block which ends at `end`, in this mode. */
size_t strata__guard_tail(strata__guard_mode mode, uintptr_t end);

/* A block [at, end) with its tail up to `next` is handed out. CORRUPT where dropped memory was
 * written; the block is not handed out then. */
strata_status strata__guard_handed_out(strata__guard *guard, uintptr_t cursor, uintptr_t at,
                                       uintptr_t end, uintptr_t next, strata_error *err);

/* Checks what was dropped and not handed out again. For when it goes for good (trim, close): at
 * every rewind it would cost a walk over all that was ever used. CORRUPT. */
strata_status strata__guard_check_dropped(const strata__guard *guard, uintptr_t cursor,
                                          strata_error *err);

/* [to, cursor) is dropped. CORRUPT where a tail was written; dropped all the same. */
strata_status strata__guard_dropped(strata__guard *guard, uintptr_t to, uintptr_t cursor,
                                    strata_error *err);

/* Fresh committed memory joins behind the cursor; and all of it leaves. */
void strata__guard_committed(const strata__guard *guard, uintptr_t from, uintptr_t to);
void strata__guard_leave(const strata__guard *guard, uintptr_t from, uintptr_t to);

/* --- arena.c, lane.c ---------------------------------------------------------------------------*/

typedef struct strata__lane strata__lane;

#define STRATA__SCOPES_MAX 8

/* The arena behind its public head. */
typedef struct strata__arena {
    strata_arena head; /* first: the public pointer is this */
    strata_region *region;
    strata_backend *backend;
    const strata_host_memory *memory;
    const char *label;
    uintptr_t base;
    uintptr_t used_peak; /* an address */
    strata__marks marks;
    strata__guard guard;
    strata_error last_error;
    strata_error damage; /* what the guard found at the close; said once it is closed */
    struct strata__saved {
        size_t offset; /* of the cursor when a scope of this depth was opened */
        size_t lowest; /* that it has been since */
    } saved[STRATA__SCOPES_MAX];
    bool shared;
    bool closed; /* atomic, relaxed */
    size_t lane_bytes;
    pthread_mutex_t mutex;       /* shared: the cursor; held while the region grows */
    pthread_mutex_t lanes_mutex; /* shared: the list of lanes; a leaf, after the other */
    strata__lane *lanes;
    size_t lane_count;
} strata__arena;

static inline strata__arena *strata__arena_of(strata_arena *arena)
{
    return (strata__arena *)(void *)arena;
}

static inline const strata__arena *strata__arena_of_const(const strata_arena *arena)
{
    return (const strata__arena *)(const void *)arena;
}

/* The lock of a shared arena, nothing for any other. UNSUPPORTED in a forked child where it is
 * held. */
strata_status strata__arena_lock(strata__arena *arena, strata_error *err);

/* Takes a block by the slow path, whether the arena is shared or not. pre: the mutex is held where
 * it is shared. NULL with the error set. */
void *strata__arena_take_block(strata__arena *arena, size_t size, size_t align, strata_error *err);

/* A scope's cursor. Unlike a mark it cannot go stale: where something below it was dropped since,
 * the scope ends at the lowest point, below which all is as it was. CORRUPT as for a rewind. */
void strata__arena_save(strata_arena *arena, uint32_t depth);
strata_status strata__arena_restore(strata_arena *arena, uint32_t depth);

void strata__lanes_empty(strata__arena *arena); /* pre: no lane is in use */
void strata__lanes_destroy(strata__arena *arena);

#endif

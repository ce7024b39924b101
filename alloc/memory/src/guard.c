/* guard.c - catching what an arena's callers do wrong, where somebody wants to know.
 *
 * Under AddressSanitizer or Valgrind, memory that is not a block is declared untouchable, and the
 * tool reports the access itself, with a stack. AddressSanitizer's functions are weak references:
 * present when the program has it, whether or not this library was built with it. Where nobody
 * watches, patterns do a part of it: every block is followed by a canary that is checked when it is
 * dropped, and dropped memory is filled and checked when it is handed out again.
 *
 * Never aborts: damage is a status. Only host memory can be guarded. */
#include "internal.h"

#include <string.h>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND                    0
#define VALGRIND_MAKE_MEM_NOACCESS(at, bytes)  ((void)(at), (void)(bytes))
#define VALGRIND_MAKE_MEM_UNDEFINED(at, bytes) ((void)(at), (void)(bytes))
#endif

/* From sanitizer/asan_interface.h, declared here so that they can be absent. */
__attribute__((weak)) void __asan_poison_memory_region(void const volatile *at, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);

#define DROPPED_BYTE 0xDD
#define CANARY_BYTE  0xCA
#define CANARY_BYTES 16
#define RED_ZONE     16
#define FOOTER_MAGIC UINT64_C(0x5354524154414354)

/* Behind the canary of every block, newest linked to oldest. */
typedef struct footer {
    uint64_t seal; /* of the other two and its own address */
    uint64_t block_end;
    uint64_t previous;
} footer;

static bool has_asan(void)
{
    return __asan_poison_memory_region != NULL && __asan_unpoison_memory_region != NULL;
}

static bool is_debug_build(void)
{
#ifdef NDEBUG
    return false;
#else
    return true;
#endif
}

strata__guard_mode strata__guard_choose(strata_guard wanted)
{
    if (wanted == STRATA_GUARD_OFF) {
        return STRATA__GUARD_NONE;
    }
    if (has_asan() || RUNNING_ON_VALGRIND) {
        return STRATA__GUARD_POISON;
    }
    return wanted == STRATA_GUARD_ON || is_debug_build() ? STRATA__GUARD_CANARY
                                                         : STRATA__GUARD_NONE;
}

static void poison(uintptr_t from, uintptr_t to)
{
    if (from >= to) {
        return;
    }
    if (has_asan()) {
        __asan_poison_memory_region((void *)from, to - from);
    }
    VALGRIND_MAKE_MEM_NOACCESS(from, to - from);
}

static void unpoison(uintptr_t from, uintptr_t to)
{
    if (from >= to) {
        return;
    }
    if (has_asan()) {
        __asan_unpoison_memory_region((void *)from, to - from);
    }
    VALGRIND_MAKE_MEM_UNDEFINED(from, to - from);
}

static uintptr_t footer_of(uintptr_t end)
{
    return (end + CANARY_BYTES + 7) & ~(uintptr_t)7;
}

size_t strata__guard_tail(strata__guard_mode mode, uintptr_t end)
{
    switch (mode) {
    case STRATA__GUARD_NONE:
        break;
    case STRATA__GUARD_POISON:
        return RED_ZONE;
    case STRATA__GUARD_CANARY:
        return footer_of(end) + sizeof(footer) - end;
    }
    return 0;
}

/* The first byte of [from, to) that is not `byte`, or `to`. */
static uintptr_t first_other(uintptr_t from, uintptr_t to, unsigned char byte)
{
    while (from < to && *(const unsigned char *)from == byte) {
        from++;
    }
    return from;
}

static strata_status check_dropped(const strata__guard *guard, uintptr_t from, uintptr_t to,
                                   strata_error *err)
{
    uintptr_t filled = to < guard->filled_to ? to : guard->filled_to;
    uintptr_t bad = first_other(from, filled, DROPPED_BYTE);
    if (from >= filled || bad == filled) {
        return STRATA_OK;
    }
    return strata_error_set(err, STRATA_CORRUPT,
                            "address %p was written after a rewind had dropped it; look for a "
                            "pointer kept past its scope",
                            (void *)bad);
}

strata_status strata__guard_check_dropped(const strata__guard *guard, uintptr_t cursor,
                                          strata_error *err)
{
    return guard->mode == STRATA__GUARD_CANARY ? check_dropped(guard, cursor, guard->filled_to, err)
                                               : STRATA_OK;
}

static uint64_t seal_of(uintptr_t at, const footer *written)
{
    return FOOTER_MAGIC ^ at ^ (written->block_end << 16) ^
           (written->previous << 32 | written->previous >> 32);
}

static void write_footer(strata__guard *guard, uintptr_t end)
{
    uintptr_t at = footer_of(end);
    memset((void *)end, CANARY_BYTE, at - end);
    footer written = {.block_end = end, .previous = guard->last_footer};
    written.seal = seal_of(at, &written);
    memcpy((void *)at, &written, sizeof written);
    guard->last_footer = at;
}

strata_status strata__guard_handed_out(strata__guard *guard, uintptr_t cursor, uintptr_t at,
                                       uintptr_t end, uintptr_t next, strata_error *err)
{
    if (guard->mode == STRATA__GUARD_POISON) {
        unpoison(at, end);
        return STRATA_OK;
    }
    strata_status status = check_dropped(guard, cursor, next, err);
    if (status == STRATA_OK) {
        write_footer(guard, end);
    } else {
        /* Said once; the next request is served again. */
        memset((void *)cursor, DROPPED_BYTE, next - cursor);
    }
    return status;
}

/* Walks the footers of the blocks above `to`, newest first. A footer that is damaged itself ends
 * the walk: what lies before it cannot be found. */
static strata_status check_tails(strata__guard *guard, uintptr_t to, strata_error *err)
{
    strata_status status = STRATA_OK;
    uintptr_t at = guard->last_footer;
    while (at > to) {
        footer read;
        memcpy(&read, (const void *)at, sizeof read);
        bool whole = read.seal == seal_of(at, &read) && read.block_end < at &&
                     at - read.block_end < CANARY_BYTES + 8 && read.previous < at;
        if (!whole || first_other(read.block_end, at, CANARY_BYTE) != at) {
            status = strata_error_set(err, STRATA_CORRUPT,
                                      "something wrote past the end of the block before %p",
                                      (void *)at);
        }
        if (!whole) {
            guard->last_footer = 0;
            return status;
        }
        at = (uintptr_t)read.previous;
    }
    guard->last_footer = at;
    return status;
}

strata_status strata__guard_dropped(strata__guard *guard, uintptr_t to, uintptr_t cursor,
                                    strata_error *err)
{
    switch (guard->mode) {
    case STRATA__GUARD_NONE:
        break;
    case STRATA__GUARD_POISON:
        poison(to, cursor);
        break;
    case STRATA__GUARD_CANARY: {
        strata_status status = check_tails(guard, to, err);
        if (cursor > to) {
            memset((void *)to, DROPPED_BYTE, cursor - to);
        }
        if (cursor > guard->filled_to) {
            guard->filled_to = cursor;
        }
        return status;
    }
    }
    return STRATA_OK;
}

void strata__guard_committed(const strata__guard *guard, uintptr_t from, uintptr_t to)
{
    if (guard->mode == STRATA__GUARD_POISON) {
        poison(from, to);
    }
}

void strata__guard_leave(const strata__guard *guard, uintptr_t from, uintptr_t to)
{
    if (guard->mode == STRATA__GUARD_POISON) {
        unpoison(from, to);
    }
}

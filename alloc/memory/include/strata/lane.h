/* strata/lane.h - a per-thread sub-cursor of a shared arena.
 *
 * A lane takes a piece of `lane_bytes` from its arena under a lock and bumps through it without
 * one, so that threads allocate from one region without meeting. Blocks larger than half a piece
 * come from the arena directly.
 *
 * Rewinding or closing the arena empties every lane; it needs quiescence, which the caller ensures.
 *
 * Thread rule: a lane belongs to one thread at a time. Opening and closing lanes: any thread. */
#ifndef STRATA_LANE_H
#define STRATA_LANE_H

#include <strata/arena.h>

STRATA_BEGIN_DECLS

typedef struct strata_lane {
    strata_bump bump_;
} strata_lane;

/* INVALID where the arena is not shared; CLOSED; NO_MEMORY for the control block. */
STRATA_API strata_status strata_lane_open(strata_lane **out, strata_arena *shared,
                                          strata_error *err);
/* Gives the control block back; the piece stays used until the arena is rewound. NULL allowed. Does
 * nothing in a forked child.
 * pre: the arena has not been destroyed, which destroys its lanes. */
STRATA_API void strata_lane_close(strata_lane *lane);

/* The slow path, and the whole path for callers that cannot inline. Errors as for arenas. */
STRATA_API void *strata_lane_take(strata_lane *lane, size_t size, size_t align);

/* Why the last call on this lane failed. Valid until its next failure. */
STRATA_API const strata_error *strata_lane_error(const strata_lane *lane);

static inline void *strata_lane_alloc(strata_lane *lane, size_t size, size_t align)
{
    void *block;
    if (strata_bump_try_(&lane->bump_, size, align, &block)) {
        return block;
    }
    return strata_lane_take(lane, size, align);
}

STRATA_END_DECLS

#endif

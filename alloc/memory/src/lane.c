/* lane.c - pieces of a shared arena for single threads.
 *
 * The lock is taken once a piece, and for blocks that are large compared to one. What a lane leaves
 * of a piece when it takes the next is lost until the arena is rewound: at most half a piece, since
 * larger blocks do not go through it. */
#include <strata/lane.h>

#include "internal.h"

struct strata__lane {
    strata_lane head; /* first: the public pointer is this */
    strata__arena *arena;
    strata_error last_error;
    strata__lane *next;
    strata__lane *previous;
};

static strata__lane *lane_of(strata_lane *lane)
{
    return (strata__lane *)(void *)lane;
}

strata_status strata_lane_open(strata_lane **out, strata_arena *shared, strata_error *err)
{
    strata__arena *arena = strata__arena_of(shared);
    if (!arena->shared) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s: lanes need a shared arena; set `shared` in its configuration",
                                arena->label);
    }
    strata_status ours = strata_backend_may_map(arena->backend, err);
    if (ours != STRATA_OK) {
        return ours;
    }
    strata__lane *lane = strata_host_memory_allocate(arena->memory, sizeof *lane);
    if (lane == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a lane's control block");
    }
    *lane = (strata__lane){.arena = arena};
    (void)pthread_mutex_lock(&arena->lanes_mutex);
    bool closed = __atomic_load_n(&arena->closed, __ATOMIC_RELAXED);
    if (!closed) {
        lane->next = arena->lanes;
        if (arena->lanes != NULL) {
            arena->lanes->previous = lane;
        }
        arena->lanes = lane;
        __atomic_store_n(&arena->lane_count, arena->lane_count + 1, __ATOMIC_RELAXED);
    }
    (void)pthread_mutex_unlock(&arena->lanes_mutex);
    if (closed) {
        strata_host_memory_free(arena->memory, lane);
        return strata_error_set(err, STRATA_CLOSED, "%s: the arena has been returned",
                                arena->label);
    }
    *out = &lane->head;
    return STRATA_OK;
}

void strata_lane_close(strata_lane *public_lane)
{
    if (public_lane == NULL) {
        return;
    }
    strata__lane *lane = lane_of(public_lane);
    strata__arena *arena = lane->arena;
    if (strata_backend_may_map(arena->backend, NULL) != STRATA_OK) {
        return; /* a forked child: its copy goes with it */
    }
    (void)pthread_mutex_lock(&arena->lanes_mutex);
    if (lane->previous != NULL) {
        lane->previous->next = lane->next;
    } else {
        arena->lanes = lane->next;
    }
    if (lane->next != NULL) {
        lane->next->previous = lane->previous;
    }
    __atomic_store_n(&arena->lane_count, arena->lane_count - 1, __ATOMIC_RELAXED);
    (void)pthread_mutex_unlock(&arena->lanes_mutex);
    strata_host_memory_free(arena->memory, lane);
}

static void set_piece(strata__lane *lane, uintptr_t from, uintptr_t to)
{
    __atomic_store_n(&lane->head.bump_.cursor, from, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->head.bump_.limit, to, __ATOMIC_RELAXED);
}

void strata__lanes_empty(strata__arena *arena)
{
    (void)pthread_mutex_lock(&arena->lanes_mutex);
    for (strata__lane *lane = arena->lanes; lane != NULL; lane = lane->next) {
        set_piece(lane, 0, 0);
    }
    (void)pthread_mutex_unlock(&arena->lanes_mutex);
}

void strata__lanes_destroy(strata__arena *arena)
{
    while (arena->lanes != NULL) {
        strata__lane *lane = arena->lanes;
        arena->lanes = lane->next;
        strata_host_memory_free(arena->memory, lane);
    }
}

/* pre: the arena's mutex is held. */
static void *take_locked(strata__lane *lane, size_t size, size_t align)
{
    strata__arena *arena = lane->arena;
    if (__atomic_load_n(&arena->closed, __ATOMIC_RELAXED)) {
        (void)strata_error_set(&lane->last_error, STRATA_CLOSED, "%s: the arena has been returned",
                               arena->label);
        return NULL;
    }
    bool through_a_piece = arena->guard.mode == STRATA__GUARD_NONE && size > 0 &&
                           strata_align_is_valid(align) && align <= arena->lane_bytes / 2 &&
                           size <= arena->lane_bytes / 2;
    if (!through_a_piece) {
        return strata__arena_take_block(arena, size, align, &lane->last_error);
    }
    void *piece = strata__arena_take_block(arena, arena->lane_bytes, align > 64 ? align : 64,
                                           &lane->last_error);
    if (piece == NULL) {
        /* No room for a whole piece: the block alone may still fit. */
        return strata__arena_take_block(arena, size, align, &lane->last_error);
    }
    set_piece(lane, (uintptr_t)piece, (uintptr_t)piece + arena->lane_bytes);
    void *block = NULL; /* a fresh piece has room for it, whatever the alignment */
    (void)strata_bump_try_(&lane->head.bump_, size, align, &block);
    return block;
}

void *strata_lane_take(strata_lane *public_lane, size_t size, size_t align)
{
    void *block;
    if (strata_bump_try_(&public_lane->bump_, size, align, &block)) {
        return block;
    }
    strata__lane *lane = lane_of(public_lane);
    if (strata__arena_lock(lane->arena, &lane->last_error) != STRATA_OK) {
        return NULL;
    }
    block = take_locked(lane, size, align);
    (void)pthread_mutex_unlock(&lane->arena->mutex);
    return block;
}

const strata_error *strata_lane_error(const strata_lane *lane)
{
    return &((const strata__lane *)(const void *)lane)->last_error;
}

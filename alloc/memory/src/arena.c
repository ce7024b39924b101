/* arena.c - everything of an arena that is not the addition in arena.h: growth, guard, marks, end.
 *
 * The public head holds cursor and limit; whatever must not take the fast path (guarded, shared,
 * closed) has limit 0, so that the inline code needs no flag and normal builds pay nothing.
 *
 * Works on addresses as numbers and writes nothing into the region; only the guard does, and only
 * for memory that the host can touch. */
#include <strata/arena.h>

#include "internal.h"

void strata_arena_config_init(strata_arena_config *config)
{
    *config = (strata_arena_config){.lane_bytes = (size_t)64 << 10, .guard = STRATA_GUARD_AUTO};
    strata_region_config_init(&config->region);
    config->region.label = "arena";
}

static uintptr_t cursor_of(const strata__arena *arena)
{
    return __atomic_load_n(&arena->head.bump_.cursor, __ATOMIC_RELAXED);
}

static void set_cursor(strata__arena *arena, uintptr_t cursor)
{
    __atomic_store_n(&arena->head.bump_.cursor, cursor, __ATOMIC_RELAXED);
}

static void set_limit(strata__arena *arena, uintptr_t limit)
{
    __atomic_store_n(&arena->head.bump_.limit, limit, __ATOMIC_RELAXED);
}

static bool is_closed(const strata__arena *arena)
{
    return __atomic_load_n(&arena->closed, __ATOMIC_RELAXED);
}

static bool takes_the_fast_path(const strata__arena *arena)
{
    return !arena->shared && arena->guard.mode == STRATA__GUARD_NONE;
}

/* After the committed end has moved. */
static void follow_region(strata__arena *arena, size_t committed_before)
{
    size_t committed = strata_region_committed(arena->region);
    strata__guard_committed(&arena->guard, arena->base + committed_before, arena->base + committed);
    if (takes_the_fast_path(arena)) {
        set_limit(arena, arena->base + committed);
    }
}

static void note_peak(strata__arena *arena)
{
    uintptr_t cursor = cursor_of(arena);
    if (cursor > arena->used_peak) {
        __atomic_store_n(&arena->used_peak, cursor, __ATOMIC_RELAXED);
    }
}

/* --- creation and end --------------------------------------------------------------------------*/

static strata_status choose_guard(const strata_backend *backend, strata_guard wanted,
                                  strata__guard *guard, strata_error *err)
{
    if (backend->ops->host_accessible) {
        guard->mode = strata__guard_choose(wanted);
        return STRATA_OK;
    }
    if (wanted == STRATA_GUARD_ON) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s memory cannot be guarded: the host does not see it; set "
                                "`guard = off`",
                                backend->ops->name);
    }
    guard->mode = STRATA__GUARD_NONE;
    return STRATA_OK;
}

strata_status strata_arena_open(strata_arena **out, strata_backend *backend, strata_ledger *ledger,
                                const strata_host_memory *memory, const strata_arena_config *config,
                                strata_error *err)
{
    strata_arena_config defaults;
    if (config == NULL) {
        strata_arena_config_init(&defaults);
        config = &defaults;
    }
    strata__guard guard = {.mode = STRATA__GUARD_NONE};
    strata_status status = choose_guard(backend, config->guard, &guard, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (!backend->ops->can_grow && backend->ops->decommit == NULL) {
        guard.mode = STRATA__GUARD_NONE; /* contents are given: nothing is allocated into them */
    }
    strata__arena *arena = strata_host_memory_allocate(memory, sizeof *arena);
    if (arena == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for an arena's control block");
    }
    *arena = (strata__arena){.backend = backend,
                             .memory = memory,
                             .guard = guard,
                             .shared = config->shared,
                             .lane_bytes = config->lane_bytes > 0 ? config->lane_bytes : 1};
    status = strata_region_create(&arena->region, backend, ledger, memory, &config->region, err);
    if (status != STRATA_OK) {
        strata_host_memory_free(memory, arena);
        return status;
    }
    (void)pthread_mutex_init(&arena->mutex, NULL);
    (void)pthread_mutex_init(&arena->lanes_mutex, NULL);
    strata_region_info info;
    strata_region_read(arena->region, &info);
    arena->label = info.label; /* lives as long as the region's control block */
    arena->base = (uintptr_t)info.base;
    arena->used_peak = arena->base;
    set_cursor(arena, arena->base);
    follow_region(arena, 0);
    *out = &arena->head;
    return STRATA_OK;
}

/* In a forked child the lock may be held by a thread that does not exist there; it is asked who we
 * are only when the lock is not free, because that question is a system call. */
strata_status strata__arena_lock(strata__arena *arena, strata_error *err)
{
    if (!arena->shared || pthread_mutex_trylock(&arena->mutex) == 0) {
        return STRATA_OK;
    }
    strata_status status = strata_backend_may_map(arena->backend, err);
    if (status == STRATA_OK) {
        (void)pthread_mutex_lock(&arena->mutex);
    }
    return status;
}

static void unlock(strata__arena *arena)
{
    if (arena->shared) {
        (void)pthread_mutex_unlock(&arena->mutex);
    }
}

strata_status strata_arena_close(strata_arena *public_arena, strata_report *out, strata_error *err)
{
    strata__arena *arena = strata__arena_of(public_arena);
    strata_status ours = strata_backend_may_map(arena->backend, err);
    if (ours != STRATA_OK) {
        return ours;
    }
    strata_error *damage = &arena->damage;
    if (!is_closed(arena)) {
        (void)strata__arena_lock(arena, NULL); /* ours: it cannot be refused */
        note_peak(arena);
        __atomic_store_n(&arena->closed, true, __ATOMIC_RELAXED);
        set_limit(arena, 0);
        strata__lanes_empty(arena);
        if (strata__guard_check_dropped(&arena->guard, cursor_of(arena), damage) == STRATA_OK) {
            (void)strata__guard_dropped(&arena->guard, arena->base, cursor_of(arena), damage);
        }
        strata__guard_leave(&arena->guard, arena->base,
                            arena->base + strata_region_committed(arena->region));
        set_cursor(arena, arena->base);
        unlock(arena);
    }
    strata_status status = strata_region_release(arena->region, out, err);
    if (status == STRATA_OK && damage->status != STRATA_OK) {
        status = strata_error_set(err, STRATA_CORRUPT, "returned, but %s", damage->text);
        damage->status = STRATA_OK;
    }
    return status;
}

void strata_arena_destroy(strata_arena *public_arena)
{
    if (public_arena == NULL) {
        return;
    }
    strata__arena *arena = strata__arena_of(public_arena);
    strata__lanes_destroy(arena);
    strata_region_destroy(arena->region);
    (void)pthread_mutex_destroy(&arena->lanes_mutex);
    (void)pthread_mutex_destroy(&arena->mutex);
    strata_host_memory_free(arena->memory, arena);
}

/* --- allocation --------------------------------------------------------------------------------*/

/* Where a block of this size would lie: [*at, *end), the cursor after it at *next. */
static strata_status place(const strata__arena *arena, size_t size, size_t align, uintptr_t *at,
                           uintptr_t *end, uintptr_t *next, strata_error *err)
{
    size_t tail_room = 64; /* at least any guard's tail */
    size_t from = 0;
    size_t sum = 0;
    if (!strata_align_is_valid(align)) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s: alignment %zu is no power of two between 1 and %zu",
                                arena->label, align, STRATA_ALIGN_MAX);
    }
    if (!strata_size_align_up(cursor_of(arena), align, &from) ||
        !strata_size_add(from, size, &sum) || !strata_size_add(sum, tail_room, &sum) ||
        size > (size_t)PTRDIFF_MAX) {
        return strata_error_set(err, STRATA_INVALID, "%s: a block of %zu bytes wraps around",
                                arena->label, size);
    }
    *at = from;
    *end = from + size;
    *next = *end + strata__guard_tail(arena->guard.mode, *end);
    return STRATA_OK;
}

void *strata__arena_take_block(strata__arena *arena, size_t size, size_t align, strata_error *err)
{
    uintptr_t at = 0;
    uintptr_t end = 0;
    uintptr_t next = 0;
    size_t effective = size > 0 ? size : 1; /* an address of its own, even for nothing */
    if (place(arena, effective, align, &at, &end, &next, err) != STRATA_OK) {
        return NULL;
    }
    size_t committed = strata_region_committed(arena->region);
    if (next - arena->base > committed) {
        if (strata_region_commit(arena->region, next - arena->base, err) != STRATA_OK) {
            return NULL;
        }
        follow_region(arena, committed);
    }
    if (arena->guard.mode != STRATA__GUARD_NONE &&
        strata__guard_handed_out(&arena->guard, cursor_of(arena), at, end, next, err) !=
            STRATA_OK) {
        return NULL;
    }
    set_cursor(arena, next);
    return (void *)at;
}

void *strata_arena_take(strata_arena *public_arena, size_t size, size_t align)
{
    strata__arena *arena = strata__arena_of(public_arena);
    void *block;
    if (strata_bump_try_(&arena->head.bump_, size, align, &block)) {
        return block;
    }
    if (is_closed(arena)) {
        (void)strata_error_set(&arena->last_error, STRATA_CLOSED, "%s: the arena has been returned",
                               arena->label);
        return NULL;
    }
    if (arena->shared) {
        (void)strata_error_set(&arena->last_error, STRATA_ORDER,
                               "%s: a shared arena serves lanes only; open one (lane.h)",
                               arena->label);
        return NULL;
    }
    return strata__arena_take_block(arena, size, align, &arena->last_error);
}

const strata_error *strata_arena_error(const strata_arena *arena)
{
    return &strata__arena_of_const(arena)->last_error;
}

/* --- marks -------------------------------------------------------------------------------------*/

strata_arena_mark strata_arena_get_mark(strata_arena *public_arena)
{
    const strata__arena *arena = strata__arena_of_const(public_arena);
    return (strata_arena_mark){.arena = public_arena,
                               .offset = cursor_of(arena) - arena->base,
                               .moment = arena->marks.moment};
}

static strata_status rewind_to(strata__arena *arena, size_t offset)
{
    strata_status locked = strata__arena_lock(arena, &arena->last_error);
    if (locked != STRATA_OK) {
        return locked;
    }
    note_peak(arena);
    uintptr_t cursor = cursor_of(arena);
    uintptr_t to = arena->base + offset;
    strata_status status = strata__guard_dropped(&arena->guard, to, cursor, &arena->last_error);
    set_cursor(arena, to);
    strata__marks_rewound(&arena->marks, offset);
    for (int depth = 0; depth < STRATA__SCOPES_MAX; depth++) {
        if (offset < arena->saved[depth].lowest) {
            arena->saved[depth].lowest = offset;
        }
    }
    strata__lanes_empty(arena);
    unlock(arena);
    return status;
}

strata_status strata_arena_rewind(strata_arena *public_arena, strata_arena_mark mark)
{
    strata__arena *arena = strata__arena_of(public_arena);
    if (is_closed(arena)) {
        return strata_error_set(&arena->last_error, STRATA_CLOSED,
                                "%s: the arena has been returned", arena->label);
    }
    if (mark.arena != public_arena) {
        return strata_error_set(&arena->last_error, STRATA_INVALID,
                                "%s: the mark belongs to another arena", arena->label);
    }
    if (mark.offset > cursor_of(arena) - arena->base ||
        !strata__marks_is_good(&arena->marks, mark.moment, mark.offset)) {
        return strata_error_set(&arena->last_error, STRATA_INVALID,
                                "%s: the mark is stale: what it marked has been dropped already",
                                arena->label);
    }
    return rewind_to(arena, mark.offset);
}

void strata__arena_save(strata_arena *public_arena, uint32_t depth)
{
    strata__arena *arena = strata__arena_of(public_arena);
    size_t offset = cursor_of(arena) - arena->base;
    arena->saved[depth] = (struct strata__saved){.offset = offset, .lowest = offset};
}

strata_status strata__arena_restore(strata_arena *public_arena, uint32_t depth)
{
    strata__arena *arena = strata__arena_of(public_arena);
    const struct strata__saved *saved = &arena->saved[depth];
    if (is_closed(arena) || cursor_of(arena) - arena->base == saved->lowest) {
        return STRATA_OK; /* returned early, or never moved */
    }
    return rewind_to(arena, saved->lowest);
}

strata_status strata_arena_clear(strata_arena *public_arena)
{
    strata__arena *arena = strata__arena_of(public_arena);
    if (is_closed(arena)) {
        return strata_error_set(&arena->last_error, STRATA_CLOSED,
                                "%s: the arena has been returned", arena->label);
    }
    return rewind_to(arena, 0);
}

strata_status strata_arena_trim(strata_arena *public_arena, strata_error *err)
{
    strata__arena *arena = strata__arena_of(public_arena);
    if (is_closed(arena)) {
        return strata_error_set(err, STRATA_CLOSED, "%s: the arena has been returned",
                                arena->label);
    }
    strata_status locked = strata__arena_lock(arena, err);
    if (locked != STRATA_OK) {
        return locked;
    }
    size_t before = strata_region_committed(arena->region);
    uintptr_t cursor = cursor_of(arena);
    /* The limit falls first: a racing allocation fails instead of touching what goes. */
    set_limit(arena, 0);
    strata_error damage = {.status = STRATA_OK};
    (void)strata__guard_check_dropped(&arena->guard, cursor, &damage);
    strata_status status = strata_region_trim(arena->region, cursor - arena->base, err);
    size_t after = strata_region_committed(arena->region);
    strata__guard_leave(&arena->guard, arena->base + after, arena->base + before);
    if (arena->guard.filled_to > arena->base + after) {
        arena->guard.filled_to = arena->base + after;
    }
    if (takes_the_fast_path(arena)) {
        set_limit(arena, arena->base + after);
    }
    unlock(arena);
    if (status == STRATA_OK && damage.status != STRATA_OK) {
        return strata_error_set(err, STRATA_CORRUPT, "trimmed, but %s", damage.text);
    }
    return status;
}

/* --- questions ---------------------------------------------------------------------------------*/

bool strata_arena_owns(const strata_arena *public_arena, const void *address)
{
    const strata__arena *arena = strata__arena_of_const(public_arena);
    uintptr_t at = (uintptr_t)address;
    return at >= arena->base && at < cursor_of(arena);
}

size_t strata_arena_committed(const strata_arena *public_arena)
{
    return strata_region_committed(strata__arena_of_const(public_arena)->region);
}

void strata_arena_read(const strata_arena *public_arena, strata_arena_info *out)
{
    const strata__arena *arena = strata__arena_of_const(public_arena);
    uintptr_t cursor = cursor_of(arena);
    uintptr_t peak = __atomic_load_n(&arena->used_peak, __ATOMIC_RELAXED);
    peak = cursor > peak ? cursor : peak;
    *out = (strata_arena_info){.used_bytes = cursor - arena->base,
                               .used_peak_bytes = peak - arena->base,
                               .lanes = __atomic_load_n(&arena->lane_count, __ATOMIC_RELAXED),
                               .guarded = arena->guard.mode != STRATA__GUARD_NONE};
    strata_region_read(arena->region, &out->region);
}

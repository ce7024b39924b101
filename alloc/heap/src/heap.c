/* heap.c - individually freeable allocations inside one region.
 *
 * Puts four things together: the region that commits, the hooks through which jemalloc sees its
 * addresses, the start bits that tell a live block from any other address, and the private
 * jemalloc. Knows memory headers only: no strand, no model (strand.c does). */
#include <strata/heap.h>

#include "internal.h"

#include <strata/size.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_RESERVE_BYTES ((size_t)1 << 30)

void strata_heap_config_init(strata_heap_config *config)
{
    *config = (strata_heap_config){.checked = true};
    strata_region_config_init(&config->region);
    config->region.label = "heap";
    config->region.reserve_bytes = DEFAULT_RESERVE_BYTES;
}

/* --- growth ------------------------------------------------------------------------------------*/

strata_status strata__heap_may_map(const strata_heap *heap, strata_error *err)
{
    strata_status status = strata_backend_may_map(heap->backend, err);
    if (status != STRATA_OK) {
        strata_error_context(err, "%s", heap->label);
    }
    return status;
}

static void publish_limit(strata_heap *heap)
{
    size_t limit = strata_region_committed(heap->region);
    size_t covered = strata__starts_covered(&heap->starts);
    strata__extents_set_limit(&heap->extents, limit < covered ? limit : covered);
}

/* Makes the first `bytes` usable. The bits come first: they are small, and the region's growth by
 * whole steps may take all that a budget has left. A step that reaches past the bits is no loss:
 * the next shortage finds it committed. */
static strata_status commit(strata_heap *heap, size_t bytes, strata_error *err)
{
    strata_status status = STRATA_OK;
    if (bytes <= heap->reserve_bytes) {
        status = strata__starts_cover(&heap->starts, bytes, err);
    }
    if (status == STRATA_OK && bytes > strata_region_committed(heap->region)) {
        status = strata_region_commit(heap->region, bytes, err);
    }
    publish_limit(heap);
    return status;
}

static void give_reason(strata_error *err, const strata_error *why)
{
    if (err != NULL) {
        *err = *why;
    }
}

/* An allocation that found no room, as the only grower. Ends: each turn either gets the block, or
 * gives up, or commits past what was committed, of which there is at most the reservation. What
 * another thread takes of the room made here is that thread's progress.
 *
 * Before giving up, jemalloc joins the free extents that it keeps apart and gives the last one
 * back, and is asked once more. */
static void *alloc_as_grower(strata_heap *heap, size_t size, int flags, strata_error *err)
{
    bool purged = false;
    for (;;) {
        heap->extents.wanted = 0;
        void *block = strata__je_mallocx(size, flags);
        if (block != NULL) {
            return block;
        }
        if (heap->extents.wanted == 0) {
            (void)strata_error_set(err, STRATA_NO_MEMORY,
                                   "%s: no memory for jemalloc's own bookkeeping", heap->label);
            return NULL;
        }
        strata_error why = {.status = STRATA_OK};
        if (commit(heap, heap->extents.wanted, &why) == STRATA_OK) {
            continue;
        }
        bool shortage = why.status == STRATA_LIMIT || why.status == STRATA_BUDGET ||
                        why.status == STRATA_NO_MEMORY;
        if (purged || !shortage) { /* joining extents opens no gate */
            strata_error_context(&why, "an allocation of %zu bytes", size);
            give_reason(err, &why);
            return NULL;
        }
        strata__je_arena_purge(heap->arena);
        purged = true;
    }
}

static void *alloc_growing(strata_heap *heap, size_t size, int flags, strata_error *err)
{
    if (strata__heap_may_map(heap, err) != STRATA_OK) {
        return NULL;
    }
    if (heap->backend->gate != NULL && strata_gate_is_closer(heap->backend->gate)) {
        /* Whoever has the growth lock waits for this thread to open the gate. */
        (void)strata_error_set(err, STRATA_ORDER, "%s: a release callback cannot make it grow",
                               heap->label);
        return NULL;
    }
    (void)pthread_mutex_lock(&heap->growth_mutex);
    strata__extents_grower_begin(&heap->extents);
    void *block = alloc_as_grower(heap, size, flags, err);
    strata__extents_grower_end(&heap->extents);
    (void)pthread_mutex_unlock(&heap->growth_mutex);
    return block;
}

/* --- allocation --------------------------------------------------------------------------------*/

static strata_status closed(const strata_heap *heap, strata_error *err)
{
    return strata_error_set(err, STRATA_CLOSED, "%s: the heap is closed", heap->label);
}

/* What never reaches jemalloc. A size within the reservation and a valid alignment cannot wrap in
 * any sum of the two. */
static strata_status refuse_request(const strata_heap *heap, size_t size, size_t align,
                                    strata_error *err)
{
    if (!strata_align_is_valid(align)) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s: alignment %zu is no power of two up to %zu", heap->label,
                                align, STRATA_ALIGN_MAX);
    }
    if (strata__heap_is_closed(heap)) {
        return closed(heap, err);
    }
    return strata_error_set(
        err, STRATA_LIMIT,
        "%s: %zu bytes are more than all that is reserved, %zu; raise `%s.reserve`", heap->label,
        size, heap->reserve_bytes, heap->label);
}

void *strata__heap_alloc(strata_heap *heap, size_t size, size_t align, unsigned cache_flag,
                         strata_error *err)
{
    if (!strata_align_is_valid(align) || size > heap->reserve_bytes ||
        strata__heap_is_closed(heap)) {
        (void)refuse_request(heap, size, align, err);
        return NULL;
    }
    /* Classes from 16 bytes on are aligned to 16, so only more has to be said; a size of 0 becomes
     * a block like any other, hence unique. */
    size_t bytes = size < STRATA__GRAIN ? STRATA__GRAIN : size;
    unsigned align_flag = align > STRATA__GRAIN ? strata__je_flag_align(align) : 0;
    int flags = (int)(heap->flags | cache_flag | align_flag);
    void *block = strata__je_mallocx(bytes, flags);
    if (__builtin_expect(block == NULL, 0)) {
        block = alloc_growing(heap, bytes, flags, err);
    }
    if (block != NULL && heap->starts.words != NULL) {
        strata__starts_set(&heap->starts, (uintptr_t)block - heap->extents.base);
    }
    return block;
}

void *strata_heap_alloc(strata_heap *heap, size_t size, size_t align, strata_error *err)
{
    return strata__heap_alloc(heap, size, align, STRATA__JE_TCACHE_NONE, err);
}

/* --- free --------------------------------------------------------------------------------------*/

static strata_status refuse_free(strata_heap *heap, strata_status status)
{
    (void)__atomic_add_fetch(&heap->refused_frees, 1, __ATOMIC_RELAXED);
    return status;
}

strata_status strata__heap_free(strata_heap *heap, void *block, unsigned cache_flag)
{
    if (block == NULL) {
        return STRATA_OK;
    }
    if (strata__heap_is_closed(heap)) {
        return STRATA_CLOSED;
    }
    size_t offset = (uintptr_t)block - heap->extents.base; /* below the base: wraps to huge */
    if (offset >= heap->reserve_bytes) {
        return refuse_free(heap, STRATA_FOREIGN);
    }
    if (offset >= strata__extents_limit(&heap->extents)) {
        return refuse_free(heap, STRATA_INVALID); /* ours, but never handed out */
    }
    if (heap->starts.words != NULL && !strata__starts_take(&heap->starts, offset)) {
        return refuse_free(heap, STRATA_INVALID);
    }
    strata__je_dallocx(block, (int)cache_flag);
    return STRATA_OK;
}

strata_status strata_heap_free(strata_heap *heap, void *block)
{
    return strata__heap_free(heap, block, STRATA__JE_TCACHE_NONE);
}

size_t strata_heap_usable(strata_heap *heap, const void *block)
{
    size_t offset = (uintptr_t)block - heap->extents.base;
    if (strata__heap_is_closed(heap) || heap->starts.words == NULL ||
        offset >= strata__extents_limit(&heap->extents) ||
        !strata__starts_has(&heap->starts, offset)) {
        return 0;
    }
    return strata__je_sallocx(block, 0);
}

bool strata_heap_owns(const strata_heap *heap, const void *address)
{
    return !strata__heap_is_closed(heap) &&
           (uintptr_t)address - heap->extents.base < heap->reserve_bytes;
}

/* --- opening -----------------------------------------------------------------------------------*/

/* The start bits lie in host memory whatever the heap's backend is. Pinned or managed memory can be
 * touched as well, but is too dear for them; so "host" is asked for by name. */
static strata_backend *host_for_starts(strata_heap *heap, strata_backend *backend,
                                       const strata_heap_config *config)
{
    if (config->host != NULL) {
        return config->host;
    }
    if (strcmp(backend->ops->name, "host") == 0) {
        return backend;
    }
    strata_host_backend_init(&heap->own_host, backend->gate, NULL);
    heap->own_host.backend.gate_wait_ns = backend->gate_wait_ns;
    return &heap->own_host.backend;
}

static strata_status create_region(strata_heap *heap, strata_backend *backend,
                                   strata_ledger *ledger, const strata_heap_config *config,
                                   strata_error *err)
{
    strata_status status =
        strata_region_create(&heap->region, backend, ledger, heap->memory, &config->region, err);
    if (status == STRATA_OK) {
        strata_region_info info;
        strata_region_read(heap->region, &info);
        heap->reserve_bytes = info.reserve_bytes;
        heap->extents.base = (uintptr_t)info.base;
    }
    return status;
}

static strata_status create_starts(strata_heap *heap, strata_backend *backend,
                                   strata_ledger *ledger, const strata_heap_config *config,
                                   strata_error *err)
{
    if (!config->checked) {
        return STRATA_OK;
    }
    strata_status status =
        strata__starts_create(&heap->starts, host_for_starts(heap, backend, config), ledger,
                              heap->memory, heap->label, heap->reserve_bytes, err);
    if (status == STRATA_OK) {
        status = strata__starts_cover(&heap->starts, strata_region_committed(heap->region), err);
    }
    return status;
}

static strata_status create_arena(strata_heap *heap, strata_error *err)
{
    strata_status status = strata__je_arena_create(&heap->arena, &heap->extents.hooks, err);
    if (status == STRATA_OK) {
        heap->has_arena = true;
        heap->flags = strata__je_flag_arena(heap->arena);
    }
    return status;
}

/* Cheapest to undo first: neither the control block nor the arena's index can fail to go back. */
static strata_status build(strata_heap *heap, strata_backend *backend, strata_ledger *ledger,
                           const strata_heap_config *config, strata_error *err)
{
    strata_status status = create_arena(heap, err);
    if (status == STRATA_OK) {
        status = create_region(heap, backend, ledger, config, err);
    }
    if (status == STRATA_OK) {
        status = create_starts(heap, backend, ledger, config, err);
    }
    if (status == STRATA_OK) {
        publish_limit(heap);
    }
    return status;
}

static void begin(strata_heap *heap, strata_backend *backend, const strata_host_memory *memory,
                  const char *label)
{
    memset(heap, 0, sizeof *heap);
    heap->memory = memory;
    heap->backend = backend;
    (void)snprintf(heap->label, sizeof heap->label, "%s", label != NULL ? label : "heap");
    strata__extents_init(&heap->extents);
    (void)pthread_mutex_init(&heap->growth_mutex, NULL);
    (void)pthread_mutex_init(&heap->lanes_mutex, NULL);
}

/* A region that does not go back after a creation that failed stays in a closed heap: *rest, for
 * whoever can try again, and the error says so. */
static void undo(strata_heap *heap, strata_heap **rest, strata_error *err)
{
    strata_error why = {.status = STRATA_OK};
    if (strata_heap_close(heap, NULL, &why) == STRATA_OK) {
        strata_heap_destroy(heap);
    } else {
        *rest = heap;
        strata_error_append(err, "; giving back failed: %s", why.text);
    }
}

strata_status strata_heap_open(strata_heap **out, strata_backend *backend, strata_ledger *ledger,
                               const strata_host_memory *memory, const strata_heap_config *config,
                               strata_error *err)
{
    /* Without a strand nobody tries again: the control block is left alone, so that the ledger goes
     * on counting what it holds. */
    strata_heap *rest = NULL;
    return strata__heap_open(out, &rest, backend, ledger, memory, config, err);
}

strata_status strata__heap_open(strata_heap **out, strata_heap **rest, strata_backend *backend,
                                strata_ledger *ledger, const strata_host_memory *memory,
                                const strata_heap_config *config, strata_error *err)
{
    strata_status status = strata_backend_may_map(backend, err);
    if (status == STRATA_OK) {
        status = strata__je_check(err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    strata_heap *heap = strata_host_memory_allocate(memory, sizeof *heap);
    if (heap == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a heap's control block");
    }
    begin(heap, backend, memory, config->region.label);
    status = build(heap, backend, ledger, config, err);
    if (status != STRATA_OK) {
        undo(heap, rest, err);
        return status;
    }
    *out = heap;
    return STRATA_OK;
}

/* --- closing -----------------------------------------------------------------------------------*/

static void keep_first(strata_status *first, strata_status status, const strata_error *error,
                       strata_error *err)
{
    if (status == STRATA_OK) {
        return;
    }
    if (*first != STRATA_OK) {
        strata_error_append(err, "; and %s", error->text);
        return;
    }
    *first = status;
    give_reason(err, error);
}

/* jemalloc forgets the addresses before they go: afterwards nothing of this heap can be handed out,
 * whatever is mapped there next. */
static strata_status release_arena(strata_heap *heap, strata_error *err)
{
    if (!heap->has_arena) {
        return STRATA_OK;
    }
    strata_status status = strata__je_arena_destroy(heap->arena, err);
    __atomic_store_n(&heap->has_arena, status != STRATA_OK, __ATOMIC_RELAXED);
    return status;
}

strata_status strata_heap_close(strata_heap *heap, strata_report *out, strata_error *err)
{
    strata_status first = strata__heap_may_map(heap, err);
    if (first != STRATA_OK) {
        return first;
    }
    __atomic_store_n(&heap->closed, true, __ATOMIC_RELAXED);
    strata__heap_lanes_retire(heap);

    /* Each is attempted whatever became of the one before. */
    strata_error error = {.status = STRATA_OK};
    keep_first(&first, release_arena(heap, &error), &error, err);
    if (heap->region != NULL) {
        keep_first(&first, strata_region_release(heap->region, out, &error), &error, err);
    }
    keep_first(&first, strata__starts_release(&heap->starts, out, &error), &error, err);
    return first;
}

void strata_heap_destroy(strata_heap *heap)
{
    if (heap == NULL) {
        return;
    }
    assert(strata__heap_is_closed(heap));
    strata__heap_lanes_destroy(heap);
    strata__starts_destroy(&heap->starts);
    strata_region_destroy(heap->region);
    (void)pthread_mutex_destroy(&heap->lanes_mutex);
    (void)pthread_mutex_destroy(&heap->growth_mutex);
    strata_host_memory_free(heap->memory, heap);
}

/* --- figures -----------------------------------------------------------------------------------*/

static size_t starts_committed(const strata_heap *heap)
{
    return heap->starts.region != NULL ? strata_region_committed(heap->starts.region) : 0;
}

size_t strata_heap_committed(const strata_heap *heap)
{
    return strata_region_committed(heap->region) + starts_committed(heap);
}

/* jemalloc counts per arena, so nothing is counted on an allocation's path. It brings the counts of
 * all its arenas up to date at once, which takes longer the more there are: so this is for whoever
 * asks, never for a release, and after the close there are none. */
void strata_heap_read(strata_heap *heap, strata_heap_info *out)
{
    *out = (strata_heap_info){.live_bytes = 0};
    strata_region_read(heap->region, &out->region);
    out->bookkeeping_bytes = starts_committed(heap);
    if (__atomic_load_n(&heap->has_arena, __ATOMIC_RELAXED)) {
        strata__je_counts counts;
        strata__je_arena_counts(heap->arena, &counts);
        out->live_bytes = counts.live_bytes;
        out->live_blocks = (size_t)(counts.allocations - counts.frees);
        out->allocations = counts.allocations;
        out->frees = counts.frees;
    }
    out->refused_frees = __atomic_load_n(&heap->refused_frees, __ATOMIC_RELAXED);
    if (strata__heap_may_map(heap, NULL) == STRATA_OK) { /* else the lock may be held for ever */
        (void)pthread_mutex_lock(&heap->lanes_mutex);
        out->lanes = heap->lane_count;
        (void)pthread_mutex_unlock(&heap->lanes_mutex);
    }
}

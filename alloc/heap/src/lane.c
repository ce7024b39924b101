/* lane.c - a cache of one thread in front of a heap: an explicit jemalloc tcache.
 *
 * The list of lanes exists so that closing the heap can end every cache before the arena they were
 * filled from; it is on no allocation's path. */
#include <strata/heap.h>

#include "internal.h"

struct strata_heap_lane {
    strata_heap *heap;
    unsigned tcache;
    unsigned cache_flag;
    bool retired; /* the heap was closed and took the tcache with it */
    strata_heap_lane *next;
    strata_heap_lane *previous;
};

static void link_lane(strata_heap *heap, strata_heap_lane *lane)
{
    (void)pthread_mutex_lock(&heap->lanes_mutex);
    lane->next = heap->lanes;
    if (heap->lanes != NULL) {
        heap->lanes->previous = lane;
    }
    heap->lanes = lane;
    heap->lane_count++;
    (void)pthread_mutex_unlock(&heap->lanes_mutex);
}

static void unlink_lane(strata_heap *heap, strata_heap_lane *lane)
{
    (void)pthread_mutex_lock(&heap->lanes_mutex);
    if (lane->previous != NULL) {
        lane->previous->next = lane->next;
    } else {
        heap->lanes = lane->next;
    }
    if (lane->next != NULL) {
        lane->next->previous = lane->previous;
    }
    heap->lane_count--;
    (void)pthread_mutex_unlock(&heap->lanes_mutex);
}

strata_status strata_heap_lane_open(strata_heap_lane **out, strata_heap *heap, strata_error *err)
{
    strata_status status = strata__heap_may_map(heap, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (strata__heap_is_closed(heap)) {
        return strata_error_set(err, STRATA_CLOSED, "%s: the heap is closed", heap->label);
    }
    strata_heap_lane *lane = strata_host_memory_allocate(heap->memory, sizeof *lane);
    if (lane == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "%s: no memory for a lane", heap->label);
    }
    *lane = (strata_heap_lane){.heap = heap};
    status = strata__je_tcache_create(&lane->tcache, err);
    if (status != STRATA_OK) {
        strata_host_memory_free(heap->memory, lane);
        return status;
    }
    lane->cache_flag = strata__je_flag_tcache(lane->tcache);
    link_lane(heap, lane);
    *out = lane;
    return STRATA_OK;
}

void *strata_heap_lane_alloc(strata_heap_lane *lane, size_t size, size_t align, strata_error *err)
{
    return strata__heap_alloc(lane->heap, size, align, lane->cache_flag, err);
}

strata_status strata_heap_lane_free(strata_heap_lane *lane, void *block)
{
    return strata__heap_free(lane->heap, block, lane->cache_flag);
}

/* In a forked child the handle is left as it is: the list's lock may be held by a thread that does
 * not exist there. */
void strata_heap_lane_close(strata_heap_lane *lane)
{
    if (lane == NULL || strata__heap_may_map(lane->heap, NULL) != STRATA_OK) {
        return;
    }
    strata_heap *heap = lane->heap;
    unlink_lane(heap, lane);
    if (!lane->retired) {
        strata__je_tcache_destroy(lane->tcache);
    }
    strata_host_memory_free(heap->memory, lane);
}

void strata__heap_lanes_retire(strata_heap *heap)
{
    (void)pthread_mutex_lock(&heap->lanes_mutex);
    for (strata_heap_lane *lane = heap->lanes; lane != NULL; lane = lane->next) {
        if (!lane->retired) {
            strata__je_tcache_destroy(lane->tcache);
            lane->retired = true;
        }
    }
    (void)pthread_mutex_unlock(&heap->lanes_mutex);
}

void strata__heap_lanes_destroy(strata_heap *heap)
{
    while (heap->lanes != NULL) {
        strata_heap_lane *lane = heap->lanes;
        heap->lanes = lane->next;
        strata_host_memory_free(heap->memory, lane);
    }
    heap->lane_count = 0;
}

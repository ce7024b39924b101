/* strand.c - a heap as a resource of a strand.
 *
 * The only file here that knows strands and configurations. It wraps a heap, which knows neither,
 * in an area: the strand's release closes the heap, its destruction frees it. */
#include <strata/heap.h>

#include <strata/model.h>

#include "internal.h"

typedef struct heap_area {
    strata_area area; /* first: the strand hands back its address */
    strata_heap *heap;
    const strata_host_memory *memory;
} heap_area;

static strata_status area_close(strata_area *area, strata_report *out, strata_error *err)
{
    return strata_heap_close(((heap_area *)area)->heap, out, err);
}

static void area_read(strata_area *area, strata_area_info *out)
{
    strata_heap_info info;
    strata_heap_read(((heap_area *)area)->heap, &info);
    *out = (strata_area_info){.kind = area->ops->kind,
                              .region = info.region,
                              .used_bytes = info.live_bytes,
                              .allocations = info.allocations,
                              .frees = info.frees,
                              .bookkeeping_bytes = info.bookkeeping_bytes};
}

static size_t area_held(const strata_area *area)
{
    return strata_heap_committed(((const heap_area *)area)->heap);
}

static void area_destroy(strata_area *area)
{
    heap_area *own = (heap_area *)area;
    strata_heap_destroy(own->heap);
    strata_host_memory_free(own->memory, own);
}

/* No save and rewind: a scope's end leaves what was allocated in an older heap alone. */
static const strata_area_ops heap_area_ops = {.kind = "heap",
                                              .close = area_close,
                                              .save = NULL,
                                              .rewind = NULL,
                                              .read = area_read,
                                              .held = area_held,
                                              .destroy = area_destroy};

/* What code says, with what the operator wrote under this label laid over it. */
static strata_status configured(strata_heap_config *config, strata_model *model, strata_error *err)
{
    strata_status status = strata_model_config_region(
        strata_model_get_config(model), &config->region, &config->checked, &config->memory, err);
    if (config->host == NULL) {
        config->host = strata_process_backend(strata_model_process(model), "host");
    }
    return status;
}

strata_status strata_heap_create(strata_heap **out, strata_strand *strand,
                                 const strata_heap_config *config, strata_error *err)
{
    strata_heap_config own;
    strata_heap_config_init(&own);
    if (config != NULL) {
        own = *config;
    }
    strata_area_source source;
    strata_status status = configured(&own, strata_strand_model(strand), err);
    if (status == STRATA_OK) {
        status =
            strata_strand_source(strand, own.region.label, own.backend, own.memory, &source, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    heap_area *area = strata_host_memory_allocate(source.memory, sizeof *area);
    if (area == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a heap's control block");
    }
    *area = (heap_area){.area = {.ops = &heap_area_ops}, .memory = source.memory};
    strata_heap *rest = NULL;
    status = strata__heap_open(&area->heap, &rest, source.backend, source.ledger, source.memory,
                               &own, err);
    if (status != STRATA_OK && rest != NULL) {
        /* Neither made nor given back: the strand keeps it, and its next release tries again. */
        area->heap = rest;
        (void)strata_strand_add(strand, &area->area, own.region.label);
        return status;
    }
    if (status != STRATA_OK) {
        strata_host_memory_free(source.memory, area);
        return status;
    }
    status = strata_strand_add(strand, &area->area, own.region.label);
    if (status != STRATA_OK) {
        (void)strata_error_set(err, status, "%s: the model has been released", own.region.label);
        (void)strata_heap_close(area->heap, NULL, NULL);
        area_destroy(&area->area);
        return status;
    }
    *out = area->heap;
    return STRATA_OK;
}

/* areas.c - an arena as an area of a strand: what a scope saves and rewinds, and its figures. */
#include <strata/strand.h>

#include "internal.h"

#include "alloc/memory/src/internal.h"

#include <assert.h>
#include <string.h>

typedef struct arena_area {
    strata_area area; /* first */
    strata_arena *arena;
    const strata_host_memory *memory;
} arena_area;

static_assert(STRATA_SCOPE_DEPTH_MAX == STRATA__SCOPES_MAX,
              "an arena saves a cursor for each depth");

static arena_area *arena_of(strata_area *area)
{
    return (arena_area *)(void *)area;
}

static strata_status arena_close(strata_area *area, strata_report *out, strata_error *err)
{
    return strata_arena_close(arena_of(area)->arena, out, err);
}

static void arena_save(strata_area *area, uint32_t depth)
{
    strata__arena_save(arena_of(area)->arena, depth);
}

static strata_status arena_rewind(strata_area *area, uint32_t depth, strata_error *err)
{
    strata_arena *arena = arena_of(area)->arena;
    strata_status status = strata__arena_restore(arena, depth);
    if (status != STRATA_OK) {
        *err = *strata_arena_error(arena);
    }
    return status;
}

static void arena_read(strata_area *area, strata_area_info *out)
{
    strata_arena_info info;
    strata_arena_read(arena_of(area)->arena, &info);
    *out = (strata_area_info){.kind = area->ops->kind,
                              .region = info.region,
                              .used_bytes = info.used_bytes,
                              .used_peak_bytes = info.used_peak_bytes};
}

static size_t arena_held(const strata_area *area)
{
    return strata_arena_committed(((const arena_area *)(const void *)area)->arena);
}

static void arena_destroy(strata_area *area)
{
    const strata_host_memory *memory = arena_of(area)->memory;
    strata_arena_destroy(arena_of(area)->arena);
    strata_host_memory_free(memory, area);
}

static const strata_area_ops arena_ops = {
    .kind = "arena",
    .close = arena_close,
    .save = arena_save,
    .rewind = arena_rewind,
    .read = arena_read,
    .held = arena_held,
    .destroy = arena_destroy,
};

strata_status strata_arena_create(strata_arena **out, strata_strand *strand,
                                  const strata_arena_config *config, strata_error *err)
{
    strata_arena_config overlaid;
    strata_arena_config_init(&overlaid);
    if (config != NULL) {
        overlaid = *config;
    }
    strata_area_source source;
    strata_status status = strata_model_config_arena(&strand->model->config, &overlaid, err);
    if (status == STRATA_OK) {
        status = strata_strand_source(strand, overlaid.region.label, overlaid.backend,
                                      overlaid.memory, &source, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    arena_area *area = strata_host_memory_allocate(source.memory, sizeof *area);
    if (area == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "%s: no memory for a control block",
                                overlaid.region.label);
    }
    *area = (arena_area){.area = {.ops = &arena_ops}, .memory = source.memory};
    status = strata_arena_open(&area->arena, source.backend, source.ledger, source.memory,
                               &overlaid, err);
    if (status != STRATA_OK) {
        strata_host_memory_free(source.memory, area);
        return status;
    }
    status = strata_strand_add(strand, &area->area, overlaid.region.label);
    if (status != STRATA_OK) {
        (void)strata_error_set(err, status, "%s: the model has been released",
                               overlaid.region.label);
        (void)strata_arena_close(area->arena, NULL, NULL);
        arena_destroy(&area->area);
        return status;
    }
    *out = area->arena;
    return STRATA_OK;
}

strata_arena *strata_strand_arena(const strata_strand *strand, const char *label)
{
    for (strata_area *area = strand->areas; area != NULL; area = area->older_) {
        if (area->ops == &arena_ops && strcmp(area->label_, label) == 0) {
            return arena_of(area)->arena;
        }
    }
    return NULL;
}

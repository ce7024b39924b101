/* strand.c - strands, and the areas in them.
 *
 * A strand is a teardown with a list of areas beside it: the teardown decides when an arena or heap
 * is closed, the list keeps its control block and figures until the strand goes. */
#include <strata/strand.h>

#include "internal.h"

#include "teardown/src/internal.h"

#include <assert.h>

strata_status strata__strand_new(strata_strand **out, strata_model *model, const char *label,
                                 strata_error *err)
{
    strata_strand *strand =
        strata_host_memory_allocate(strata_process_memory(model->process), sizeof *strand);
    if (strand == NULL) {
        (void)strata_error_set(err, STRATA_NO_MEMORY, "no memory for a strand");
        return STRATA_NO_MEMORY; /* spelt out: clang-tidy does not see that set returns it */
    }
    *strand = (strata_strand){.model = model};
    strata__label_copy(strand->label, label);
    strata_teardown_init(&strand->teardown);
    *out = strand;
    return STRATA_OK;
}

void strata__strand_free(strata_strand *strand)
{
    assert(strata_teardown_is_empty(&strand->teardown));
    const strata_host_memory *memory = strata_process_memory(strand->model->process);
    while (strand->areas != NULL) {
        strata_area *area = strand->areas;
        strand->areas = area->older_;
        area->ops->destroy(area);
    }
    strata_host_memory_free(memory, strand);
}

void strata__strand_close_scopes(strata_strand *strand)
{
    strand->depth = 0;
    strand->generation++;
    strand->closed = true;
}

static strata_status closed(const strata_strand *strand, strata_error *err)
{
    return strata_error_set(err, STRATA_CLOSED, "model \"%s\" has been released",
                            strand->model->config.label);
}

strata_status strata_strand_push(strata_strand *strand, strata_resource *resource)
{
    if (strand->closed) {
        return STRATA_CLOSED;
    }
    if (resource->release == NULL || strata_resource_is_pushed(resource)) {
        return STRATA_INVALID;
    }
    strata_teardown_push(&strand->teardown, resource);
    return STRATA_OK;
}

strata_model *strata_strand_model(const strata_strand *strand)
{
    return strand->model;
}

/* --- opening and closing -----------------------------------------------------------------------*/

strata_status strata_strand_open(strata_strand **out, strata_model *model, const char *label,
                                 strata_error *err)
{
    strata_status status = strata__process_is_ours(model->process, err);
    strata_strand *strand = NULL;
    if (status == STRATA_OK) {
        status = strata__strand_new(&strand, model, label, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&model->mutex);
    bool refused = model->released || model->releasing;
    if (!refused) {
        strand->older = model->strands;
        model->strands = strand;
    }
    (void)pthread_mutex_unlock(&model->mutex);
    if (refused) {
        status = closed(strand, err);
        strata__strand_free(strand);
        return status;
    }
    *out = strand;
    return STRATA_OK;
}

/* A model's release walks the list of strands without the lock, so no strand may leave meanwhile;
 * and it does not begin while one is leaving. */
static bool begin_close(strata_model *model)
{
    (void)pthread_mutex_lock(&model->mutex);
    bool may = !model->releasing;
    model->closing += may ? 1 : 0;
    (void)pthread_mutex_unlock(&model->mutex);
    return may;
}

static void end_close(strata_model *model, strata_strand *gone)
{
    (void)pthread_mutex_lock(&model->mutex);
    model->closing--;
    strata_strand **at = &model->strands;
    while (gone != NULL && *at != gone) {
        at = &(*at)->older;
    }
    if (gone != NULL) {
        *at = gone->older;
    }
    (void)pthread_mutex_unlock(&model->mutex);
}

strata_status strata_strand_close(strata_strand **strand, strata_report *out)
{
    strata_strand *closing = *strand;
    if (closing == NULL) {
        return STRATA_OK;
    }
    strata_model *model = closing->model;
    if (closing == model->root) {
        return STRATA_INVALID;
    }
    if (closing->depth > 0) {
        return STRATA_ORDER;
    }
    strata_status status = strata__process_is_ours(model->process, NULL);
    if (status != STRATA_OK) {
        return status;
    }
    if (!begin_close(model)) {
        return STRATA_BUSY;
    }
    strata__account account;
    strata__account_begin(&account, model);
    status = strata_teardown_release_all(&closing->teardown, NULL, out);
    strata__left left = {.count = 0};
    strata__left_add(&left, &closing->teardown, (strata_mark){.serial = 0});
    strata__account_end(&account, model, &left, out);
    end_close(model, left.count == 0 ? closing : NULL);
    if (left.count > 0) {
        return status;
    }
    strata__strand_free(closing);
    *strand = NULL;
    return status;
}

/* --- areas -------------------------------------------------------------------------------------*/

static strata_area *area_of(strata_resource *resource)
{
    return (strata_area *)(void *)((char *)resource - offsetof(strata_area, resource_));
}

/* Always ready by itself; but the question comes before every release, so it is where the bytes for
 * the report are brought up to date. */
static strata_status area_ready(strata_resource *self, void *context, strata_error *error)
{
    (void)context;
    (void)error;
    const strata_area *area = area_of(self);
    self->held_bytes = area->ops->held(area);
    return STRATA_OK;
}

static strata_status area_release(strata_resource *self, void *context, strata_error *error)
{
    (void)context;
    strata_area *area = area_of(self);
    return area->ops->close(area, strata_teardown_report(&area->strand_->teardown), error);
}

strata_status strata_strand_source(strata_strand *strand, strata_backend *backend,
                                   const char *memory, strata_area_source *out, strata_error *err)
{
    if (strand->closed) {
        return closed(strand, err);
    }
    strata_process *process = strand->model->process;
    const char *name = memory != NULL ? memory : "host";
    strata_backend *chosen = backend != NULL ? backend : strata_process_backend(process, name);
    if (chosen == NULL) {
        strata_status status = strata_error_set(
            err, STRATA_INVALID, "no memory is called \"%.40s\" here; known are", name);
        (void)pthread_mutex_lock(&process->mutex);
        for (size_t i = 0; i < process->backend_count; i++) {
            strata_error_append(err, "%s %s", i > 0 ? "," : "", process->backends[i]->ops->name);
        }
        (void)pthread_mutex_unlock(&process->mutex);
        return status;
    }
    strata__process_adopt(process, chosen);
    *out = (strata_area_source){.backend = chosen,
                                .ledger = &strand->model->ledger,
                                .memory = strata_process_memory(process)};
    return STRATA_OK;
}

void strata_strand_add(strata_strand *strand, strata_area *area, const char *label)
{
    strata__label_copy(area->label_, label);
    strata_resource_init(&area->resource_, area->label_, area_release, area_ready);
    strata_resource_set_stays(&area->resource_, true);
    area->strand_ = strand;
    area->born_depth_ = strand->depth;
    (void)pthread_mutex_lock(&strand->model->mutex);
    area->older_ = strand->areas;
    strand->areas = area;
    (void)pthread_mutex_unlock(&strand->model->mutex);
    strata_teardown_push(&strand->teardown, &area->resource_);
}

/* strand.c - strands, and the areas in them.
 *
 * A strand is a teardown with a list of areas beside it: the teardown decides when an arena or heap
 * is closed, the list keeps its control block and figures until the strand goes.
 *
 * A strand has one thread, and beside it whoever asks the model to be released. So whatever changes
 * the teardown takes the strand's lock; scopes in which nothing was registered, the common case of
 * a request, change nothing there and take none. The lock is recursive, because callbacks may push.
 * Order: strand, gate, model. */
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
    pthread_mutexattr_t recursive;
    (void)pthread_mutexattr_init(&recursive);
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&strand->mutex, &recursive);
    (void)pthread_mutexattr_destroy(&recursive);
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
    (void)pthread_mutex_destroy(&strand->mutex);
    strata_host_memory_free(memory, strand);
}

void strata__strand_lock(strata_strand *strand)
{
    (void)pthread_mutex_lock(&strand->mutex);
}

void strata__strand_unlock(strata_strand *strand)
{
    (void)pthread_mutex_unlock(&strand->mutex);
}

bool strata__strand_try_lock(strata_strand *strand)
{
    return pthread_mutex_trylock(&strand->mutex) == 0;
}

/* The flag alone may be another thread's question, which is over in a moment; with the lock held it
 * can only be this thread's own callback. In a forked child it may be left over from a question that
 * ends only in the parent. */
bool strata__strand_is_inside_a_release(strata_strand *strand)
{
    if (!strata__teardown_is_releasing(&strand->teardown) ||
        strata__process_is_ours(strand->model->process, NULL) != STRATA_OK) {
        return false;
    }
    strata__strand_lock(strand);
    bool inside = strata__teardown_is_releasing(&strand->teardown);
    strata__strand_unlock(strand);
    return inside;
}

bool strata__strand_is_closed(const strata_strand *strand)
{
    return __atomic_load_n(&strand->closed, __ATOMIC_RELAXED);
}

uint32_t strata__strand_depth(const strata_strand *strand)
{
    return __atomic_load_n(&strand->depth, __ATOMIC_RELAXED);
}

void strata__strand_set_depth(strata_strand *strand, uint32_t depth)
{
    __atomic_store_n(&strand->depth, depth, __ATOMIC_RELAXED);
}

void strata__strand_close_scopes(strata_strand *strand)
{
    strata__strand_set_depth(strand, 0);
    __atomic_store_n(&strand->closed, true, __ATOMIC_RELAXED);
}

static strata_status closed(const strata_strand *strand, strata_error *err)
{
    return strata_error_set(err, STRATA_CLOSED, "model \"%s\" has been released",
                            strand->model->config.label);
}

strata_status strata_strand_push(strata_strand *strand, strata_resource *resource)
{
    if (strata__strand_is_closed(strand)) {
        return STRATA_CLOSED;
    }
    if (resource->release == NULL || strata_resource_is_pushed(resource)) {
        return STRATA_INVALID;
    }
    strata_status status = strata__process_is_ours(strand->model->process, NULL);
    if (status != STRATA_OK) {
        return status;
    }
    strata__strand_lock(strand);
    if (strata__strand_is_closed(strand)) {
        status = STRATA_CLOSED; /* a release was quicker */
    } else {
        strata_teardown_push(&strand->teardown, resource);
    }
    strata__strand_unlock(strand);
    return status;
}

strata_status strata_strand_forget(strata_strand *strand, strata_resource *resource)
{
    strata_status status = strata__process_is_ours(strand->model->process, NULL);
    if (status == STRATA_OK) {
        strata__strand_lock(strand);
        strata_teardown_forget(resource);
        strata__strand_unlock(strand);
    }
    return status;
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
    bool released = model->released;
    bool refused = released || model->sweeping;
    if (!refused) {
        strand->older = model->strands;
        model->strands = strand;
    }
    (void)pthread_mutex_unlock(&model->mutex);
    if (refused) {
        status = released ? closed(strand, err)
                          : strata_error_set(err, STRATA_BUSY, "the model is being released");
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

/* The model stays as long as it counts a strand that closes, so this comes last. */
static void end_close(strata_model *model)
{
    (void)pthread_mutex_lock(&model->mutex);
    model->closing--;
    (void)pthread_mutex_unlock(&model->mutex);
}

static void discard(strata_model *model, strata_strand *strand)
{
    (void)pthread_mutex_lock(&model->mutex);
    strata_strand **at = &model->strands;
    while (*at != strand) {
        at = &(*at)->older;
    }
    *at = strand->older;
    (void)pthread_mutex_unlock(&model->mutex);
    strata__strand_free(strand);
}

/* pre: the strand is locked, and no scope is open. */
static strata_status release_strand(strata_strand *strand, strata_report *out)
{
    const strata_mark all = {.serial = 0};
    strata__account account;
    strata__account_begin(&account, strand->model);
    strata_status status = strata__strand_release_to(strand, all, out);
    strata__left left = {.count = 0};
    strata__left_add(&left, &strand->teardown, all);
    strata__account_end(&account, strand->model, &left, out);
    return status;
}

static strata_status may_close(strata_strand *strand)
{
    strata_status status = strata__process_is_ours(strand->model->process, NULL);
    if (status != STRATA_OK) {
        return status;
    }
    if (strand == strand->model->root) {
        return STRATA_INVALID;
    }
    bool in_order = strata__strand_depth(strand) == 0 &&
                    !strata__strand_is_inside_a_release(strand);
    return in_order ? STRATA_OK : STRATA_ORDER;
}

strata_status strata_strand_close(strata_strand **strand, strata_report *out)
{
    strata_strand *closing = *strand;
    if (closing == NULL) {
        return STRATA_OK;
    }
    strata_model *model = closing->model;
    strata_status status = may_close(closing);
    if (status != STRATA_OK) {
        return status;
    }
    if (!begin_close(model)) {
        return STRATA_BUSY;
    }
    bool empty = false;
    status = STRATA_BUSY; /* another thread asks it; waiting here could be for each other */
    if (strata__strand_try_lock(closing)) {
        status = release_strand(closing, out);
        empty = strata_teardown_is_empty(&closing->teardown);
        strata__strand_unlock(closing);
    }
    if (empty) {
        discard(model, closing);
        *strand = NULL;
    }
    end_close(model);
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
    strata_resource_set_held(self, area->ops->held(area));
    return STRATA_OK;
}

/* CORRUPT means that everything was returned and damage was found: nothing is left to try again. */
static strata_status area_release(strata_resource *self, void *context, strata_error *error)
{
    (void)context;
    strata_area *area = area_of(self);
    strata_status status =
        area->ops->close(area, strata_teardown_report(&area->strand_->teardown), error);
    strata_resource_set_stays(self, status != STRATA_CORRUPT);
    return status;
}

/* Whether anything that was pushed after the mark returns memory, and so needs the gate. */
static bool holds_memory(const strata_strand *strand, strata_mark mark)
{
    for (const strata_resource *r = strata_teardown_newest(&strand->teardown);
         r != NULL && r->serial_ > mark.serial; r = strata_resource_older(r)) {
        if (r->release == area_release) {
            return true;
        }
    }
    return false;
}

strata_status strata__strand_release_to(strata_strand *strand, strata_mark mark, strata_report *out)
{
    strata_status status = strata_teardown_ready_to(&strand->teardown, mark, NULL, out);
    if (status != STRATA_OK) {
        return status;
    }
    strata_process *process = strand->model->process;
    strata_gate *gate = strata_process_gate(process);
    strata_pass pass;
    bool mine = holds_memory(strand, mark) && !strata_gate_is_closer(gate);
    if (mine) {
        strata_error error;
        status = strata_gate_close(gate, &pass, "end of a scope or strand",
                                   strata_deadline_in(process->config.gate_wait_ns), &error);
        if (status != STRATA_OK) {
            strata__report_attempt(out, STRATA_PHASE_READY, "gate", 0, &error);
            return status;
        }
    }
    status = strata__teardown_sweep_to(&strand->teardown, mark, NULL, out);
    if (mine) {
        strata_gate_open(gate, &pass);
    }
    return status;
}

static strata_status unknown_memory(strata_strand *strand, const char *label, const char *name,
                                    strata_error *err)
{
    strata_process *process = strand->model->process;
    strata_status status = strata_error_set(
        err, STRATA_INVALID, "%s.memory: nothing is called \"%.40s\" here; known are", label, name);
    (void)pthread_mutex_lock(&process->mutex);
    for (size_t i = 0; i < process->backend_count; i++) {
        strata_error_append(err, "%s %s", i > 0 ? "," : "", process->backends[i]->ops->name);
    }
    (void)pthread_mutex_unlock(&process->mutex);
    strata__config_memory_context(&strand->model->config, label, err);
    return status;
}

strata_status strata_strand_source(strata_strand *strand, const char *label,
                                   strata_backend *backend, const char *memory,
                                   strata_area_source *out, strata_error *err)
{
    strata_process *process = strand->model->process;
    strata_status ours = strata__process_is_ours(process, err);
    if (ours != STRATA_OK) {
        return ours;
    }
    if (strata__strand_is_closed(strand)) {
        return closed(strand, err);
    }
    const char *name = memory != NULL ? memory : "host";
    strata_backend *chosen = backend != NULL ? backend : strata_process_backend(process, name);
    if (chosen == NULL) {
        return unknown_memory(strand, label, name, err);
    }
    strata__process_adopt(process, chosen);
    *out = (strata_area_source){.backend = chosen,
                                .ledger = &strand->model->ledger,
                                .memory = strata_process_memory(process)};
    return STRATA_OK;
}

strata_status strata_strand_add(strata_strand *strand, strata_area *area, const char *label)
{
    strata__label_copy(area->label_, label);
    strata_resource_init(&area->resource_, area->label_, area_release, area_ready);
    strata_resource_set_stays(&area->resource_, true);
    area->strand_ = strand;
    strata__strand_lock(strand);
    if (strata__strand_is_closed(strand)) {
        strata__strand_unlock(strand);
        return STRATA_CLOSED; /* a release was quicker */
    }
    area->born_depth_ = strata__strand_depth(strand);
    (void)pthread_mutex_lock(&strand->model->mutex);
    area->older_ = strand->areas;
    strand->areas = area;
    (void)pthread_mutex_unlock(&strand->model->mutex);
    strata_teardown_push(&strand->teardown, &area->resource_);
    strata__strand_unlock(strand);
    return STRATA_OK;
}

/* model.c - one model load, and the release of everything in it.
 *
 * The release in four steps, so that a refusal comes before anything is touched:
 *   1. ask all strands, newest first; the gate is open, others go on
 *   2. lock all strands and close the gate: nobody registers, maps or commits from here on
 *   3. ask again: what became busy meanwhile still refuses
 *   4. release all strands, newest first; every failure is recorded, none stops the rest
 * Steps 1 to 3 do not wait, but for a moment at the gate: a refusal gives everything back, and the
 * whole is tried again until the deadline. What failed stays in its strand's teardown, in its original
 * place; the next release finds it there. Nothing on this path allocates. */
#include <strata/model.h>

#include "internal.h"

#include "teardown/src/internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_NS     UINT64_C(1000000)
#define GATE_MAX_NS UINT64_C(128000000)

/* --- opening and destroying --------------------------------------------------------------------*/

static strata_status check_open(const strata_process *process, const strata_model_config *config,
                                strata_error *err)
{
    strata_status status = strata__process_is_ours(process, err);
    return status == STRATA_OK ? strata_model_config_check(config, err) : status;
}

strata_status strata_model_open(strata_model **out, strata_process *process,
                                const strata_model_config *config, strata_error *err)
{
    strata_model_config defaults;
    strata_model_config_init(&defaults);
    const strata_model_config *chosen = config != NULL ? config : &defaults;
    strata_status status = check_open(process, chosen, err);
    if (status != STRATA_OK) {
        return status;
    }
    const strata_host_memory *memory = strata_process_memory(process);
    strata_model *model = strata_host_memory_allocate(memory, sizeof *model);
    if (model == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a model object");
    }
    memset(model, 0, sizeof *model);
    model->process = process;
    model->config = *chosen;
    strata_ledger_init(&model->ledger, &process->ledger, model->config.label,
                       model->config.budget_bytes);
    status = strata__strand_new(&model->root, model, "root", err);
    if (status != STRATA_OK) {
        strata_host_memory_free(memory, model);
        return status;
    }
    model->strands = model->root;
    (void)pthread_mutex_init(&model->mutex, NULL);
    (void)__atomic_add_fetch(&process->models, 1, __ATOMIC_RELAXED);
    *out = model;
    return STRATA_OK;
}

/* Over all strands. pre: the mutex is held. */
static size_t count_resources(const strata_model *model)
{
    size_t count = 0;
    for (const strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        count += strata_teardown_len(&strand->teardown);
    }
    return count;
}

/* Whether anything is going on, or left. */
static bool is_in_use(strata_model *model)
{
    strata_ledger_counts counts;
    strata_ledger_read(&model->ledger, &counts);
    (void)pthread_mutex_lock(&model->mutex);
    bool in_use = model->releasing || model->closing > 0 || counts.committed_bytes > 0 ||
                  count_resources(model) > 0;
    for (const strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        in_use = in_use || strata__teardown_is_releasing(&strand->teardown);
    }
    (void)pthread_mutex_unlock(&model->mutex);
    return in_use;
}

strata_status strata_model_destroy(strata_model **model)
{
    strata_model *old = *model;
    if (old == NULL) {
        return STRATA_OK;
    }
    strata_status status = strata__process_is_ours(old->process, NULL);
    if (status != STRATA_OK) {
        return status;
    }
    if (is_in_use(old)) {
        return STRATA_BUSY;
    }
    while (old->strands != NULL) {
        strata_strand *strand = old->strands;
        old->strands = strand->older;
        strata__strand_free(strand);
    }
    (void)pthread_mutex_destroy(&old->mutex);
    strata_process *process = old->process;
    strata_host_memory_free(strata_process_memory(process), old);
    (void)__atomic_sub_fetch(&process->models, 1, __ATOMIC_RELEASE);
    *model = NULL;
    return STRATA_OK;
}

/* --- the account of a release ------------------------------------------------------------------*/

void strata__account_begin(strata__account *account, const strata_model *model)
{
    strata_ledger_read(&model->ledger, &account->before);
    account->begin_ns = strata_now_ns();
}

void strata__left_add(strata__left *left, const strata_teardown *teardown, strata_mark mark)
{
    for (const strata_resource *r = strata_teardown_newest(teardown);
         r != NULL && r->serial_ > mark.serial; r = strata_resource_older(r)) {
        left->count++;
        left->bytes += r->held_bytes;
    }
}

void strata__account_end(const strata__account *account, const strata_model *model,
                         const strata__left *left, strata_report *out)
{
    if (out == NULL) {
        return;
    }
    strata_ledger_counts after;
    strata_ledger_read(&model->ledger, &after);
    const strata_ledger_counts *before = &account->before;
    out->bytes_held_before = before->committed_bytes;
    out->bytes_held_after = after.committed_bytes;
    out->mappings = before->mappings_made - before->mappings_torn_down;
    out->unmaps = after.mappings_torn_down - before->mappings_torn_down;
    out->elapsed_ns = strata_now_ns() - account->begin_ns;
    out->stranded = out->failed > 0 ? left->count : 0;
    out->stranded_bytes = out->failed > 0 ? left->bytes : 0;
}

/* --- release -----------------------------------------------------------------------------------*/

/* The list grows at its head only, and nothing leaves it during a release: from a head that was
 * read under the lock, the walk needs none. */
static strata_strand *newest_strand(strata_model *model)
{
    (void)pthread_mutex_lock(&model->mutex);
    strata_strand *newest = model->strands;
    (void)pthread_mutex_unlock(&model->mutex);
    return newest;
}

/* In one step, so that no strand joins between the end of the sweep and the model being released. */
static void set_sweeping(strata_model *model, bool sweeping, bool released)
{
    (void)pthread_mutex_lock(&model->mutex);
    model->sweeping = sweeping;
    model->released = model->released || released;
    (void)pthread_mutex_unlock(&model->mutex);
}

/* A strand that its own thread is changing at this moment is not ready. */
static strata_status strand_in_use(const strata_strand *strand, strata_report *out)
{
    strata_error error;
    (void)strata_error_set(&error, STRATA_BUSY, "its thread is releasing or registering something");
    strata__report_attempt(out, STRATA_PHASE_READY, strand->label, 0, &error);
    return STRATA_BUSY;
}

/* Questions never wait: who asks asks again. So no lock is ever held for long. */
static strata_status ask_strand(strata_strand *strand, strata_report *out)
{
    if (!strata__strand_try_lock(strand)) {
        return strand_in_use(strand, out);
    }
    strata_release_options now = {.deadline_ns = STRATA_DEADLINE_NOW};
    strata_status status =
        strata_teardown_ready_to(&strand->teardown, (strata_mark){.serial = 0}, &now, out);
    strata__strand_unlock(strand);
    return status;
}

/* All are asked, so that everyone who refuses is named. ORDER, from inside a callback of one of them,
 * is the last word. */
static strata_status ask_strands(strata_model *model, strata_report *out)
{
    strata_status first = STRATA_OK;
    for (strata_strand *strand = newest_strand(model); strand != NULL; strand = strand->older) {
        strata_status status = ask_strand(strand, out);
        if (status == STRATA_ORDER) {
            return status;
        }
        first = first == STRATA_OK ? status : first;
    }
    return first;
}

/* Asks without a record; only a refusal is recorded, by asking once more. */
static strata_status ask_and_name(strata_model *model, strata_report *refusals)
{
    strata_status status = ask_strands(model, NULL);
    return status == STRATA_BUSY || status == STRATA_TIMEOUT ? ask_strands(model, refusals)
                                                             : status;
}

static void sleep_until(uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(ns % UINT64_C(1000000000))};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void unlock_strands(strata_model *model, const strata_strand *end)
{
    for (strata_strand *strand = model->strands; strand != end; strand = strand->older) {
        strata__strand_unlock(strand);
    }
}

/* All or none, without waiting. Before the gate, in the order in which a scope takes the two. */
static strata_status lock_strands(strata_model *model, strata_report *out)
{
    for (strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        if (!strata__strand_try_lock(strand)) {
            unlock_strands(model, strand);
            return strand_in_use(strand, out);
        }
    }
    return STRATA_OK;
}

static strata_status sweep_strands(strata_model *model, const strata_release_options *options,
                                   strata_report *out)
{
    strata_status first = STRATA_OK;
    for (strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        strata_status status = strata__teardown_sweep_to(
            &strand->teardown, (strata_mark){.serial = 0}, (void *)options, out);
        first = first == STRATA_OK ? status : first;
        strata__strand_close_scopes(strand);
    }
    return first;
}

/* Behind the closed gate: asks a last time, and sweeps. pre: all strands are locked. */
static strata_status release_alone(strata_model *model, const strata_release_options *options,
                                   strata_report *refusals, strata_report *out, bool *swept)
{
    strata_status status = ask_and_name(model, refusals);
    if (status != STRATA_OK) {
        return status;
    }
    status = ask_strands(model, out); /* this one is the release's own, and recorded */
    if (status != STRATA_OK) {
        return status;
    }
    *swept = true;
    return sweep_strands(model, options, out);
}

/* pre: all strands are locked. */
static void count_left(const strata_model *model, strata__left *left)
{
    for (const strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        strata__left_add(left, &strand->teardown, (strata_mark){.serial = 0});
    }
}

/* Waits for traffic to leave, a moment: waiting keeps new traffic out, without which a busy server
 * would never let a release in, and the strands are locked meanwhile, so it must not be long. Each try
 * may take twice as long as the one before, because traffic may be long. */
static strata_status close_gate(strata_gate *gate, strata_pass *pass, uint64_t deadline_ns,
                                strata_report *refusals)
{
    strata_error error;
    strata_status status = strata_gate_close(gate, pass, "release of a model", deadline_ns, &error);
    if (status == STRATA_BUSY || status == STRATA_TIMEOUT) {
        strata__report_attempt(refusals, STRATA_PHASE_READY, "gate", 0, &error);
    }
    return status;
}

/* One try at all four steps. Nothing is held when it returns: a release that waited with strands in
 * its hands until its deadline could wait for a thread that needs just one of them. */
static strata_status try_release(strata_model *model, const strata_release_options *options,
                                 uint64_t gate_deadline_ns, strata_report *refusals,
                                 strata_report *out, strata__left *left, bool *swept)
{
    *left = (strata__left){.count = 0};
    strata_status status = ask_and_name(model, refusals);
    if (status != STRATA_OK) {
        return status;
    }
    set_sweeping(model, true, false);
    status = lock_strands(model, refusals);
    if (status == STRATA_OK) {
        strata_gate *gate = strata_process_gate(model->process);
        strata_pass pass;
        status = close_gate(gate, &pass, gate_deadline_ns, refusals);
        if (status == STRATA_OK) {
            status = release_alone(model, options, refusals, out, swept);
            strata_gate_open(gate, &pass);
        }
        count_left(model, left);
        unlock_strands(model, NULL);
    }
    set_sweeping(model, false, *swept);
    return status;
}

static uint64_t at_most(uint64_t ns, uint64_t limit_ns)
{
    return ns < limit_ns ? ns : limit_ns;
}

/* Tries until the deadline. Refusals on the way are not recorded; the last one is. */
static strata_status try_until(strata_model *model, const strata_release_options *options,
                               strata_report *out, strata__left *left, bool *swept)
{
    uint64_t moment_ns = POLL_NS;
    while (strata_now_ns() < options->deadline_ns) {
        uint64_t gate_deadline_ns = at_most(strata_deadline_in(moment_ns), options->deadline_ns);
        strata_status status =
            try_release(model, options, gate_deadline_ns, NULL, out, left, swept);
        if (*swept || (status != STRATA_BUSY && status != STRATA_TIMEOUT)) {
            return status;
        }
        sleep_until(at_most(strata_deadline_in(POLL_NS), options->deadline_ns));
        moment_ns = at_most(moment_ns * 2, GATE_MAX_NS);
    }
    return try_release(model, options, STRATA_DEADLINE_NOW, out, out, left, swept);
}

static strata_status release_model(strata_model *model, const strata_release_options *options,
                                   strata_report *out)
{
    strata__account account;
    strata__account_begin(&account, model);
    bool swept = false;
    strata__left left = {.count = 0};
    strata_status status = try_until(model, options, out, &left, &swept);
    strata__account_end(&account, model, &left, out);
    return status;
}

/* What an operator should see even where the program ignores the report. */
static void log_release(const strata_model *model, const strata_report *report)
{
    const strata_process_config *config = &model->process->config;
    bool remarkable = report->failed > 0 || report->refused > 0 ||
                      report->verdict == STRATA_VERDICT_SHORT;
    if (config->log == NULL || !remarkable) {
        return;
    }
    char text[STRATA_TEXT_MAX];
    (void)strata_report_format(report, text, sizeof text);
    char line[STRATA_LABEL_MAX + STRATA_TEXT_MAX + 16];
    (void)snprintf(line, sizeof line, "release of %s: %s", model->config.label, text);
    config->log(config->log_user, line);
}

/* One release at a time, and none in a forked child. */
static strata_status begin_release(strata_model *model, strata_report *out)
{
    strata_status status = strata__process_is_ours(model->process, NULL);
    if (status != STRATA_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&model->mutex);
    if (model->releasing) {
        status = STRATA_ORDER; /* from a callback of the release itself, or a second thread */
    } else if (model->closing > 0) {
        status = STRATA_BUSY;
    } else {
        model->releasing = true;
    }
    (void)pthread_mutex_unlock(&model->mutex);
    if (status == STRATA_BUSY) {
        strata_error error;
        (void)strata_error_set(&error, status, "another thread is closing it; try again");
        strata__report_attempt(out, STRATA_PHASE_READY, "strand", 0, &error);
    }
    return status;
}

strata_status strata_model_release(strata_model *model, const strata_release_options *options,
                                   strata_report *out)
{
    strata_status status = begin_release(model, out);
    if (status != STRATA_OK) {
        return status;
    }
    strata_release_options effective = options != NULL ? *options : (strata_release_options){0};
    if (effective.deadline_ns == 0) {
        effective.deadline_ns = strata_deadline_in(model->config.release_wait_ns);
    }
    strata_report own;
    strata_report *report = out;
    if (report == NULL) {
        strata_report_init(&own, NULL, NULL);
        report = &own;
    }
    status = release_model(model, &effective, report);
    log_release(model, report);
    (void)pthread_mutex_lock(&model->mutex);
    model->releasing = false;
    (void)pthread_mutex_unlock(&model->mutex);
    return status;
}

/* --- figures -----------------------------------------------------------------------------------*/

strata_strand *strata_model_root(strata_model *model)
{
    return model->root;
}

const strata_model_config *strata_model_get_config(const strata_model *model)
{
    return &model->config;
}

strata_ledger *strata_model_ledger(strata_model *model)
{
    return &model->ledger;
}

strata_process *strata_model_process(strata_model *model)
{
    return model->process;
}

static size_t count_areas(const strata_strand *strand)
{
    size_t count = 0;
    for (const strata_area *area = strand->areas; area != NULL; area = area->older_) {
        count++;
    }
    return count;
}

void strata_model_read(strata_model *model, strata_model_info *out)
{
    *out = (strata_model_info){.areas = 0};
    strata__label_copy(out->label, model->config.label);
    strata_ledger_read(&model->ledger, &out->ledger);
    if (strata__process_is_ours(model->process, NULL) != STRATA_OK) {
        return; /* the lock may be held by a thread that does not exist here */
    }
    (void)pthread_mutex_lock(&model->mutex);
    out->released = model->released;
    out->resources = count_resources(model);
    for (const strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        out->areas += count_areas(strand);
    }
    (void)pthread_mutex_unlock(&model->mutex);
    if (out->released) {
        out->stranded = out->resources;
        out->stranded_bytes = out->ledger.committed_bytes;
    }
}

static void read_area(strata_area *area, strata_area_info *out)
{
    area->ops->read(area, out);
    strata__label_copy(out->label, area->label_);
    strata__label_copy(out->strand, area->strand_->label);
}

/* Fills out[offset .. offset + count) oldest first from a list that is newest first. */
static void read_areas(const strata_strand *strand, size_t count, size_t offset,
                       strata_area_info *out, size_t capacity)
{
    size_t at = offset + count;
    for (strata_area *area = strand->areas; area != NULL; area = area->older_) {
        at--;
        if (at < capacity) {
            read_area(area, &out[at]);
        }
    }
}

/* The list of strands is newest first too: the root is read first by walking to it, and so on. */
static size_t read_strands(const strata_strand *strand, strata_area_info *out, size_t capacity)
{
    size_t total = 0;
    for (const strata_strand *s = strand; s != NULL; s = s->older) {
        total += count_areas(s);
    }
    size_t end = total;
    for (const strata_strand *s = strand; s != NULL; s = s->older) {
        size_t count = count_areas(s);
        read_areas(s, count, end - count, out, capacity);
        end -= count;
    }
    return total;
}

size_t strata_model_areas(strata_model *model, strata_area_info *out, size_t capacity)
{
    if (strata__process_is_ours(model->process, NULL) != STRATA_OK) {
        return 0;
    }
    (void)pthread_mutex_lock(&model->mutex);
    size_t total = read_strands(model->strands, out, capacity);
    (void)pthread_mutex_unlock(&model->mutex);
    return total;
}

bool strata_model_area(strata_model *model, const char *label, strata_area_info *out)
{
    strata_area *found = NULL;
    if (strata__process_is_ours(model->process, NULL) != STRATA_OK) {
        return false;
    }
    (void)pthread_mutex_lock(&model->mutex);
    /* The last match of a newest-first walk is the oldest. */
    for (strata_strand *strand = model->strands; strand != NULL; strand = strand->older) {
        for (strata_area *area = strand->areas; area != NULL; area = area->older_) {
            found = strcmp(area->label_, label) == 0 ? area : found;
        }
    }
    if (found != NULL) {
        read_area(found, out);
    }
    (void)pthread_mutex_unlock(&model->mutex);
    return found != NULL;
}

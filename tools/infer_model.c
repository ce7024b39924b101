/* infer_model.c - load, rounds, release of one model. See infer_model.h. */
#include "infer_model.h"

#include <strata/gate.h>

#include <malloc.h>
#include <stdio.h>

const char *const infer_area_names[INFER_AREAS] = {"weights", "run"};

size_t infer_malloc_bytes(void)
{
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

size_t infer_malloc_free_bytes(void)
{
    return mallinfo2().fordblks;
}

/* --- load --------------------------------------------------------------------------------------*/

static strata_status open_memory(infer_model *model, strata_error *err)
{
    const infer_setting *setting = model->setting;
    strata_ort_session_config config;
    strata_ort_session_config_init(&config);
    config.label = model->label;
    return strata_ort_session_open(&model->memory, setting->env, strata_model_root(model->model),
                                   &config, err);
}

static strata_status load_session(infer_model *model, strata_error *err)
{
    strata_status status = open_memory(model, err);
    if (status != STRATA_OK) {
        return status;
    }
    size_t before = infer_malloc_bytes();
    status = strata_ort_session_load(model->memory, model->path, model->setting->options,
                                     &model->session, err);
    size_t after = infer_malloc_bytes();
    model->outside_bytes = after > before ? after - before : 0;
    return status;
}

/* The adapter undoes what it began, and says so in *err; said again only where more was left. */
static strata_status undo(infer_model *model, strata_scope *scope, strata_error *err)
{
    strata_error more = *err;
    model->undone = true;
    strata_report_init(&model->release, NULL, NULL);
    strata_status status = strata_scope_undo(scope, &model->release, &more);
    bool nothing = model->release.attempted == 0 && model->release.refused == 0;
    if (!nothing || model->release.status != STRATA_OK) {
        *err = more;
    }
    return status;
}

strata_status infer_model_load(infer_model *model, strata_error *err)
{
    const infer_setting *setting = model->setting;
    strata_model_config config = *setting->config;
    (void)snprintf(config.label, sizeof config.label, "%s", model->label);
    uint64_t began = strata_now_ns();
    strata_status status = strata_model_open(&model->model, setting->process, &config, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_scope scope;
    status = strata_scope_open(&scope, strata_model_root(model->model));
    if (status != STRATA_OK) {
        return strata_error_set(err, status, "%s", strata_status_text(status));
    }
    status = load_session(model, err);
    model->load_ns = strata_now_ns() - began;
    if (status == STRATA_OK) {
        model->loaded = true;
        return strata_scope_keep(&scope);
    }
    return undo(model, &scope, err);
}

strata_status infer_model_make_inputs(infer_model *model, strata_error *err)
{
    const infer_setting *setting = model->setting;
    for (size_t i = 0; i < setting->picture_count; i++) {
        strata_status status = infer_inputs_make(setting->runtime, model->session,
                                                 setting->pictures[i], &model->inputs[i], err);
        if (status != STRATA_OK) {
            strata_error_context(err, "%s", model->label);
            return status;
        }
        model->shape_count = i + 1;
        (void)snprintf(model->shapes[i], sizeof model->shapes[i], "%s", model->inputs[i].shape);
    }
    return STRATA_OK;
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* The runtime says std::bad_alloc; the allocator knows why. */
static void explain_run(infer_model *model)
{
    strata_ort_session_info info;
    strata_ort_session_read(model->memory, &info);
    if (info.failed_allocations == 0) {
        strata_error_context(&model->run_error, "%s", model->label);
        return;
    }
    model->run_error = info.last_failure;
    strata_error_context(&model->run_error, "%s: out of memory in a run", model->label);
}

/* The first output for a shape is what the later ones are compared with. */
static strata_status run_shape(infer_model *model, size_t shape, infer_output *scratch)
{
    bool first = model->own[shape].bytes == NULL;
    infer_output *into = first ? &model->own[shape] : scratch;
    uint64_t took = 0;
    strata_status status = infer_run(model->setting->runtime, model->session, &model->inputs[shape],
                                     into, NULL, &took, &model->run_error);
    if (status != STRATA_OK) {
        explain_run(model);
        return status;
    }
    if (!first && !infer_output_same(&model->own[shape], scratch)) {
        model->differing++;
    }
    if (model->run_count < STATISTICS_VALUES_MAX) {
        model->run_ms[model->run_count++] = (double)took / 1e6;
    }
    return STRATA_OK;
}

void *infer_model_rounds(void *user)
{
    infer_model *model = user;
    infer_output scratch = {0};
    strata_status status = STRATA_OK;
    for (uint64_t round = 0; status == STRATA_OK; round++) {
        bool stop = __atomic_load_n(&model->stop, __ATOMIC_ACQUIRE) != 0;
        if (round >= model->setting->rounds && (!model->endless || stop)) {
            break;
        }
        for (size_t shape = 0; shape < model->shape_count && status == STRATA_OK; shape++) {
            status = run_shape(model, shape, &scratch);
        }
        if (status == STRATA_OK) {
            __atomic_store_n(&model->rounds_done, round + 1, __ATOMIC_RELEASE);
        }
    }
    infer_output_free(&scratch);
    model->own_hash = infer_model_hash(model->own, model->shape_count);
    return NULL;
}

uint64_t infer_model_hash(const infer_output *outputs, size_t count)
{
    uint64_t hash = INFER_HASH_SEED;
    for (size_t i = 0; i < count; i++) {
        hash = infer_output_hash(&outputs[i], hash);
    }
    return hash;
}

/* --- release -----------------------------------------------------------------------------------*/

/* A release that is expected to be refused: an output is still held. */
static strata_status show_refusal(infer_model *model, struct OrtValue *held, strata_error *err)
{
    strata_report_init(&model->refusal, NULL, NULL);
    strata_status status = strata_model_release(model->model, NULL, &model->refusal);
    model->refused = status == STRATA_BUSY && model->refusal.attempted == 0;
    infer_value_release(model->setting->runtime, held);
    if (!model->refused) {
        return strata_error_set(err, STRATA_CORRUPT,
                                "%s: the release did not refuse while an output was held: %s",
                                model->label, strata_status_text(status));
    }
    return STRATA_OK;
}

static void read_figures(infer_model *model)
{
    strata_ort_session_read(model->memory, &model->memory_info);
    model->area_count = strata_model_areas(model->model, model->areas, INFER_AREAS);
    if (model->area_count > INFER_AREAS) {
        model->area_count = INFER_AREAS;
    }
}

/* Also the outputs, whose hashes are known: what is left in malloc afterwards is the runtime's. */
static void free_inputs(infer_model *model)
{
    for (size_t i = 0; i < INFER_SHAPES_MAX; i++) {
        infer_output_free(&model->own[i]);
    }
    for (size_t i = 0; i < model->shape_count; i++) {
        infer_inputs_free(model->setting->runtime, &model->inputs[i]);
    }
    model->shape_count = 0;
}

strata_status infer_model_release(infer_model *model, bool hold, strata_error *err)
{
    infer_runtime *runtime = model->setting->runtime;
    struct OrtValue *held = NULL;
    strata_status status = STRATA_OK;
    if (hold) {
        status = infer_run(runtime, model->session, &model->inputs[0], NULL, &held, NULL, err);
    }
    read_figures(model);
    free_inputs(model);
    uint64_t began = strata_now_ns();
    infer_runtime_release(runtime, model->session);
    uint64_t session_ns = strata_now_ns() - began;
    model->session = NULL;
    if (held != NULL) {
        status = show_refusal(model, held, err);
    }
    strata_report_init(&model->release, NULL, NULL);
    machine_count tlb = machine_tlb_shootdowns();
    uint64_t ours = strata_now_ns();
    strata_status released = strata_model_release(model->model, NULL, &model->release);
    model->release_ns = strata_now_ns() - ours;
    model->unload_ns = session_ns + model->release_ns;
    model->release_tlb = machine_difference(tlb, machine_tlb_shootdowns());
    model->released = released == STRATA_OK;
    strata_ort_session_info after;
    strata_ort_session_read(model->memory, &after);
    model->memory_info.frees = after.frees; /* those of the unload too */
    model->memory_info.refused_frees = after.refused_frees;
    model->memory_info.late_calls = after.late_calls;
    if (status == STRATA_OK && released != STRATA_OK) {
        status = strata_error_set(err, released, "%s: the release failed: %s", model->label,
                                  strata_status_text(released));
    }
    return status;
}

/* After a failure the runtime's session may still be there, and the model with it. */
bool infer_model_close(infer_model *model)
{
    if (model->setting != NULL) {
        infer_runtime_release(model->setting->runtime, model->session);
        model->session = NULL;
        free_inputs(model);
    }
    bool good = true;
    if (model->model != NULL) {
        good = strata_model_release(model->model, NULL, NULL) == STRATA_OK;
    }
    good = strata_ort_session_destroy(&model->memory) == STRATA_OK && good;
    return strata_model_destroy(&model->model) == STRATA_OK && good;
}

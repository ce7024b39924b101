/* infer_compare.c - pairs of measurements, ours and stock's. See infer_compare.h. */
#include "infer_compare.h"

#include <strata/gate.h>

#include <stdlib.h>
#include <string.h>

#define WARM_UP_RUNS 3

/* One side of the pairs, as measured. */
typedef struct series {
    double values[STATISTICS_VALUES_MAX];
    size_t count;
} series;

typedef struct comparing {
    infer_model *model;
    infer_runtime *runtime;
    struct OrtSessionOptions *default_options;
    struct OrtSession *stock; /* the same options, its own allocator */
    struct OrtSession *plain; /* its default options */
    infer_output stock_output[INFER_SHAPES_MAX];
    infer_output scratch;
    progress *bar;
    series ours, theirs, plains;       /* ms */
    series ours_load, theirs_load;     /* ms */
    series ours_unload, theirs_unload; /* ms */
    series release;                    /* ms, ours alone */
} comparing;

static void add(series *to, uint64_t ns)
{
    if (to->count < STATISTICS_VALUES_MAX) {
        to->values[to->count++] = (double)ns / 1e6;
    }
}

static statistics_interval ratio(const series *a, const series *b)
{
    double ratios[STATISTICS_VALUES_MAX];
    size_t count = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < count; i++) {
        ratios[i] = a->values[i] / b->values[i];
    }
    return statistics_median_interval(ratios, count);
}

static double median(const series *of)
{
    return statistics_median(of->values, of->count);
}

/* --- outputs -----------------------------------------------------------------------------------*/

static strata_status run_once(comparing *c, struct OrtSession *session, size_t shape,
                              infer_output *copy, series *into, strata_error *err)
{
    uint64_t took = 0;
    strata_status status =
        infer_run(c->runtime, session, &c->model->inputs[shape], copy, NULL, &took, err);
    if (status == STRATA_OK && into != NULL) {
        add(into, took);
    }
    return status;
}

/* Also the warm-up: every session has seen every shape afterwards, more than once, because the
 * runtime plans its memory in the first run of a shape and uses the plan from the second on. */
static strata_status compare_outputs(comparing *c, strata_error *err)
{
    infer_model *model = c->model;
    infer_comparison *out = &model->comparison;
    strata_status status = STRATA_OK;
    out->same = true;
    out->same_default = true;
    for (size_t i = 0; i < model->shape_count * WARM_UP_RUNS && status == STRATA_OK; i++) {
        size_t shape = i % model->shape_count;
        status = run_once(c, c->stock, shape, &c->stock_output[shape], NULL, err);
        if (status == STRATA_OK) {
            status = run_once(c, model->session, shape, &model->own[shape], NULL, err);
        }
        if (status == STRATA_OK) {
            status = run_once(c, c->plain, shape, &c->scratch, NULL, err);
        }
        if (status == STRATA_OK) {
            out->same = out->same && infer_output_same(&c->stock_output[shape], &model->own[shape]);
            out->same_default = out->same_default &&
                                infer_output_same(&c->scratch, &model->own[shape]);
        }
    }
    out->stock_hash = infer_model_hash(c->stock_output, model->shape_count);
    return status;
}

/* --- runs --------------------------------------------------------------------------------------*/

/* Every output of a timed run is compared as well; copying it is outside the timed part. */
static strata_status timed_run(comparing *c, struct OrtSession *session, size_t shape, series *into,
                               bool compared, strata_error *err)
{
    strata_status status = run_once(c, session, shape, compared ? &c->scratch : NULL, into, err);
    if (status == STRATA_OK && compared &&
        !infer_output_same(&c->scratch, &c->stock_output[shape])) {
        c->model->comparison.same = false;
    }
    return status;
}

/* Who goes first alternates, so that neither side always finds the other's cache. */
static strata_status run_pair(comparing *c, size_t pair, strata_error *err)
{
    infer_model *model = c->model;
    size_t shape = pair % model->shape_count;
    bool ours_first = pair % 2 == 0;
    strata_status status = STRATA_OK;
    for (int turn = 0; turn < 2 && status == STRATA_OK; turn++) {
        bool ours = ours_first == (turn == 0);
        status = ours ? timed_run(c, model->session, shape, &c->ours, true, err)
                      : timed_run(c, c->stock, shape, &c->theirs, true, err);
    }
    if (status == STRATA_OK) {
        status = timed_run(c, c->plain, shape, &c->plains, false, err);
    }
    progress_add(c->bar, 1);
    return status;
}

static strata_status compare_runs(comparing *c, uint64_t pairs, strata_error *err)
{
    strata_status status = STRATA_OK;
    for (uint64_t i = 0; i < pairs && status == STRATA_OK; i++) {
        status = run_pair(c, i, err);
    }
    infer_comparison *out = &c->model->comparison;
    out->run_ms = median(&c->ours);
    out->stock_run_ms = median(&c->theirs);
    out->default_run_ms = median(&c->plains);
    out->run_ratio = ratio(&c->ours, &c->theirs);
    out->default_run_ratio = ratio(&c->ours, &c->plains);
    return status;
}

/* --- loads and unloads -------------------------------------------------------------------------*/

/* A whole life of the model in Strata, in a struct of its own. */
static strata_status our_life(comparing *c, machine_count *tlb, strata_error *err)
{
    infer_model *life = calloc(1, sizeof *life);
    if (life == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a comparison");
    }
    life->setting = c->model->setting;
    life->path = c->model->path;
    memcpy(life->label, c->model->label, sizeof life->label);
    strata_status status = infer_model_load(life, err);
    if (status == STRATA_OK) {
        status = run_once(c, life->session, 0, NULL, NULL, err);
    }
    if (status == STRATA_OK) {
        status = infer_model_release(life, false, err);
    }
    if (status == STRATA_OK && tlb == NULL) {
        add(&c->ours_load, life->load_ns);
        add(&c->ours_unload, life->unload_ns);
        add(&c->release, life->release_ns);
    }
    if (tlb != NULL) {
        *tlb = life->release_tlb;
    }
    (void)infer_model_close(life);
    free(life);
    return status;
}

static strata_status stock_life(comparing *c, machine_count *tlb, strata_error *err)
{
    struct OrtSession *session = NULL;
    uint64_t began = strata_now_ns();
    strata_status status =
        infer_runtime_create(c->runtime, c->model->path, c->model->setting->options, &session, err);
    uint64_t load_ns = strata_now_ns() - began;
    if (status != STRATA_OK) {
        return status;
    }
    status = run_once(c, session, 0, NULL, NULL, err);
    machine_count before = machine_tlb_shootdowns();
    began = strata_now_ns();
    infer_runtime_release(c->runtime, session);
    uint64_t unload_ns = strata_now_ns() - began;
    if (tlb != NULL) {
        *tlb = machine_difference(before, machine_tlb_shootdowns());
    } else {
        add(&c->theirs_load, load_ns);
        add(&c->theirs_unload, unload_ns);
    }
    return status;
}

static strata_status life_pair(comparing *c, bool ours_first, machine_count *ours,
                               machine_count *theirs, strata_error *err)
{
    strata_status status = ours_first ? our_life(c, ours, err) : stock_life(c, theirs, err);
    if (status == STRATA_OK) {
        status = ours_first ? stock_life(c, theirs, err) : our_life(c, ours, err);
    }
    progress_add(c->bar, 1);
    return status;
}

/* The last pair is not timed: a neighbour runs, so that there is somebody to interrupt. */
static strata_status compare_lives(comparing *c, uint64_t pairs, strata_error *err)
{
    infer_comparison *out = &c->model->comparison;
    strata_status status = STRATA_OK;
    for (uint64_t i = 0; i < pairs && status == STRATA_OK; i++) {
        status = life_pair(c, i % 2 == 0, NULL, NULL, err);
    }
    machine_neighbour neighbour;
    bool beside = machine_neighbour_start(&neighbour);
    if (status == STRATA_OK && beside) {
        status = life_pair(c, true, &out->tlb, &out->stock_tlb, err);
    }
    machine_neighbour_stop(&neighbour);
    out->load_ms = median(&c->ours_load);
    out->stock_load_ms = median(&c->theirs_load);
    out->load_ratio = ratio(&c->ours_load, &c->theirs_load);
    out->unload_ms = median(&c->ours_unload);
    out->stock_unload_ms = median(&c->theirs_unload);
    out->unload_ratio = ratio(&c->ours_unload, &c->theirs_unload);
    out->release_ms = median(&c->release);
    return status;
}

/* --- together ----------------------------------------------------------------------------------*/

static strata_status open_stock(comparing *c, unsigned threads, strata_error *err)
{
    c->default_options = infer_runtime_options(c->runtime, threads, NULL, err);
    if (c->default_options == NULL) {
        return STRATA_RESOURCE;
    }
    strata_status status = infer_runtime_create(c->runtime, c->model->path,
                                                c->model->setting->options, &c->stock, err);
    if (status == STRATA_OK) {
        status =
            infer_runtime_create(c->runtime, c->model->path, c->default_options, &c->plain, err);
    }
    return status;
}

static void close_stock(comparing *c)
{
    infer_runtime_release(c->runtime, c->stock);
    infer_runtime_release(c->runtime, c->plain);
    infer_runtime_options_release(c->runtime, c->default_options);
    for (size_t i = 0; i < INFER_SHAPES_MAX; i++) {
        infer_output_free(&c->stock_output[i]);
    }
    infer_output_free(&c->scratch);
}

strata_status infer_compare(infer_model *model, unsigned threads, uint64_t pairs, progress *bar,
                            strata_error *err)
{
    comparing *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a comparison");
    }
    c->model = model;
    c->runtime = model->setting->runtime;
    c->bar = bar;
    strata_status status = open_stock(c, threads, err);
    if (status == STRATA_OK) {
        status = compare_outputs(c, err);
    }
    if (status == STRATA_OK) {
        status = compare_runs(c, pairs, err);
    }
    if (status == STRATA_OK) {
        status = compare_lives(c, pairs, err);
    }
    close_stock(c);
    free(c);
    model->comparison.done = status == STRATA_OK;
    return status;
}

/* infer_model.h - one model file, run by the runtime inside one Strata model.
 *
 * Load, rounds on a thread of its own, release; the figures of each are fields of one struct, which
 * infer_compare.c adds to and infer_report.c prints. It prints nothing and parses nothing.
 *
 * Thread rule: one thread a model. `stop` and `rounds_done` are the two words that the main thread
 * shares with a model's thread while that runs. */
#ifndef STRATA_TOOL_INFER_MODEL_H
#define STRATA_TOOL_INFER_MODEL_H

#include "infer_runtime.h"
#include "machine.h"
#include "statistics.h"

#include <strata/model.h>
#include <strata/onnxruntime.h>

/* The areas that a load creates; what a configuration may name beside `all`. */
#define INFER_AREAS 2
extern const char *const infer_area_names[INFER_AREAS]; /* "weights", "run" */

/* What all models of one command share. */
typedef struct infer_setting {
    infer_runtime *runtime;
    strata_process *process;
    strata_ort_env *env;
    struct OrtSessionOptions *options; /* prepared for the adapter */
    const strata_model_config *config;
    uint64_t rounds;
    infer_picture pictures[INFER_SHAPES_MAX];
    size_t picture_count;
} infer_setting;

/* The figures of a comparison with the stock allocator, where there was one. */
typedef struct infer_comparison {
    bool done;
    bool same;         /* all outputs, bit for bit, same session options */
    bool same_default; /* and against the stock session with its default options */
    uint64_t stock_hash;
    double run_ms;
    double stock_run_ms;
    double default_run_ms;
    statistics_interval run_ratio;
    statistics_interval default_run_ratio;
    double load_ms;
    double stock_load_ms;
    statistics_interval load_ratio;
    double unload_ms; /* the runtime's part and ours */
    double stock_unload_ms;
    statistics_interval unload_ratio;
    double release_ms; /* ours alone */
    machine_count tlb;
    machine_count stock_tlb;
} infer_comparison;

typedef struct infer_model {
    const infer_setting *setting;
    const char *path;
    char label[STRATA_LABEL_MAX];

    strata_model *model;
    strata_ort_session *memory;
    struct OrtSession *session;
    infer_inputs inputs[INFER_SHAPES_MAX];
    size_t shape_count;
    char shapes[INFER_SHAPES_MAX][64];  /* of the first input, "1x3x48x320" */
    infer_output own[INFER_SHAPES_MAX]; /* of the first round */
    uint64_t own_hash;

    /* rounds */
    uint32_t stop;        /* atomic: leave after the round under way */
    bool endless;         /* go on after the rounds until told to stop */
    uint64_t rounds_done; /* atomic */
    uint64_t differing;   /* runs whose output was not that of the first round */
    double run_ms[STATISTICS_VALUES_MAX];
    size_t run_count;
    strata_error run_error; /* OK, or why the rounds ended early */

    /* figures */
    uint64_t load_ns;
    uint64_t unload_ns;     /* ReleaseSession and ours */
    uint64_t release_ns;    /* ours alone */
    uint64_t outside_bytes; /* growth of the process's malloc around the session's creation */
    strata_ort_session_info memory_info;
    strata_area_info areas[INFER_AREAS];
    size_t area_count;
    infer_comparison comparison;

    bool loaded;
    bool undone; /* the load failed: `release` says what was given back */
    bool released;
    bool refused; /* an output was held: `refusal` says what the release answered */
    strata_report refusal;
    strata_report release;
    machine_count release_tlb; /* around the model's release, after the runtime's own */
} infer_model;

/* The model, its memory, the runtime's session. On failure everything is given back, *err says why
 * and what was undone, and `release` holds the report. */
strata_status infer_model_load(infer_model *model, strata_error *err);
strata_status infer_model_make_inputs(infer_model *model, strata_error *err);

/* All rounds (and more, where `endless`); a pthread entry over an infer_model *. */
void *infer_model_rounds(void *user);

/* ReleaseSession, then the model. With `hold` one output is kept past its session first: the
 * release refuses, the output is let go, and the release is repeated. */
strata_status infer_model_release(infer_model *model, bool hold, strata_error *err);

/* What is left of it, whatever state it is in. False: something could not be freed. */
bool infer_model_close(infer_model *model);

/* Over the outputs of the shapes, in their order. */
uint64_t infer_model_hash(const infer_output *outputs, size_t count);

size_t infer_malloc_bytes(void);      /* in use by the process's malloc, all its arenas */
size_t infer_malloc_free_bytes(void); /* free in them, for the next who asks */

#endif

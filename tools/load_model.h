/* load_model.h - one model file in one Strata model, as a runtime would have it.
 *
 * Weights in an arena that is planned from the file's exact bytes and filled by large reads, or the
 * mapped file itself; an arena for KV; a scratch arena for steps. Everything that a load creates is
 * inside one scope, kept when it succeeds and undone when it fails. It prints nothing and parses
 * nothing: load.c does. One thread. */
#ifndef STRATA_TOOL_LOAD_MODEL_H
#define STRATA_TOOL_LOAD_MODEL_H

#include "machine.h"
#include "progress.h"

#include <modelfile.h>
#include <strata/host.h>
#include <strata/model.h>

/* The areas that a load creates; what a configuration may name beside `all`. */
#define LOAD_AREAS 3
extern const char *const load_area_names[LOAD_AREAS]; /* "weights", "kv", "scratch" */

/* What every tensor's copy is aligned to, whatever its type and its place in the file. */
#define LOAD_TENSOR_ALIGN 64

/* All fields may be read; load_model_* write them. */
typedef struct load_model {
    const char *path;
    char label[STRATA_LABEL_MAX];
    modelfile *file;
    bool mapped; /* the weights are the mapped file, not copies */

    strata_model *model;
    strata_arena *weights;
    strata_arena *kv;
    strata_arena *scratch;
    strata_file_backend backend;   /* where `mapped` */
    const unsigned char **tensors; /* where each lies; NULL for one of no bytes */

    uint64_t load_ns;    /* creating the areas, faulting in, reading */
    uint64_t read_calls; /* runs of adjacent tensors that were read as one */
    size_t misaligned;   /* tensors in place at an address that their element type does not allow */
    size_t verified;
    uint64_t steps;
    strata_area_info areas[LOAD_AREAS];
    size_t area_count;

    bool undone; /* the load failed: `undo` says what was given back */
    strata_report undo;
    strata_report release;
    machine_count release_tlb;
} load_model;

/* Opens and checks the file; reserves nothing. `path` must outlive the model. */
strata_status load_model_open(load_model *load, const char *path, strata_error *err);

/* Creates the areas and fills the weights. On failure everything is given back and the text says
 * what; load_model_release and _close are still due. `bar` has been begun. */
strata_status load_model_fill(load_model *load, strata_process *process,
                              const strata_model_config *config, bool mapped, progress *bar,
                              strata_error *err);

/* Reads the file again and compares. CORRUPT names the tensor; SYSTEM where the file cannot be read
 * any more or has become shorter, which never is a signal. */
strata_status load_model_verify(load_model *load, progress *bar, strata_error *err);

/* Scoped steps: blocks of the scratch arena, written and checked, dropped at the step's end. */
strata_status load_model_step(load_model *load, uint64_t steps, strata_error *err);

/* Returns what the load holds and reports it in load->release. No model: OK. */
strata_status load_model_release(load_model *load);

/* Frees the handles. BUSY where memory is still held: then the model leaks, and the report has said
 * why. */
strata_status load_model_close(load_model *load);

/* Fills the tensors' memory from the file once more: what reading costs by itself, for the bench.
 */
strata_status load_model_read(load_model *load, progress *bar, strata_error *err);

#endif

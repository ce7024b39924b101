/* strata/model.h - the outermost owner for one model load.
 *
 * Configuration, budget, a root strand for loading, strands for request threads. Releasing a model
 * asks everything in it whether it may go, and if so closes the gate, releases all strands newest
 * first, attempts everything, and reports every failure; what failed stays with the model and is
 * tried again by the next release. A released model is a valid, closed object whose statistics can
 * be read until it is destroyed.
 *
 * Thread rule: open, release and destroy by one thread at a time, not necessarily the same; asking
 * for a release beside serving strands is fine (strand.h). Figures by any thread until destroy; a
 * forked child sees the ledger's alone. */
#ifndef STRATA_MODEL_H
#define STRATA_MODEL_H

#include <strata/config.h>
#include <strata/strand.h>

STRATA_BEGIN_DECLS

typedef struct strata_release_options {
    /* Of CLOCK_MONOTONIC, for everything that may wait: ready questions, the gate. 0: as configured
     * (release_wait), which by default does not wait. See strata_deadline_in. */
    uint64_t deadline_ns;
} strata_release_options;

typedef struct strata_model_info {
    char label[STRATA_LABEL_MAX];
    strata_ledger_counts ledger;
    size_t areas;
    size_t resources; /* pushed and not yet released, over all strands */
    size_t stranded;  /* of those, what a release left behind */
    size_t stranded_bytes;
    bool released;
} strata_model_info;

/* config NULL: the defaults. INVALID (strata_model_config_check), NO_MEMORY, UNSUPPORTED in a
 * forked child. *out is untouched on failure. */
STRATA_API strata_status strata_model_open(strata_model **out, strata_process *process,
                                           const strata_model_config *config, strata_error *err);

STRATA_API strata_strand *strata_model_root(strata_model *model);
STRATA_API const strata_model_config *strata_model_get_config(const strata_model *model);
STRATA_API strata_ledger *strata_model_ledger(strata_model *model);
STRATA_API strata_process *strata_model_process(strata_model *model);

/* See the top. options NULL: as configured.
 * BUSY, TIMEOUT  something is not ready, the gate is held, or a strand is being closed: zero
 *                attempted, nothing touched
 * ORDER          from inside a release of the same model; UNSUPPORTED in a forked child: the report
 *                is left alone
 * OK             everything was released, or had been (zero attempted then)
 * other          the first failure's status; everything was attempted */
STRATA_API strata_status strata_model_release(strata_model *model,
                                              const strata_release_options *options,
                                              strata_report *out);

/* Frees the handle. BUSY while bytes, resources or stranded resources remain; then nothing changes.
 * *model becomes NULL; NULL inside: OK. */
STRATA_API strata_status strata_model_destroy(strata_model **model);

STRATA_API void strata_model_read(strata_model *model, strata_model_info *out);

/* Figures of every arena and heap, oldest first within a strand, the root's first. Returns how many
 * there are and fills at most `capacity`. Released ones stay listed until destroy. */
STRATA_API size_t strata_model_areas(strata_model *model, strata_area_info *out, size_t capacity);

/* By label, the first in that order. False where there is none. */
STRATA_API bool strata_model_area(strata_model *model, const char *label, strata_area_info *out);

STRATA_END_DECLS

#endif

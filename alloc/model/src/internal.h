/* internal.h - what the files of alloc/model share with each other. Not installed. */
#ifndef STRATA_MODEL_INTERNAL_H
#define STRATA_MODEL_INTERNAL_H

#include <strata/model.h>

#include <pthread.h>

/* --- config.c ----------------------------------------------------------------------------------*/

bool strata__config_name_is_valid(const char *name);

/* strata_model_config_set with the section apart and the place where it was written. */
strata_status strata__config_set_at(strata_model_config *config, const char *section,
                                    const char *word, const char *value, strata_config_place place,
                                    strata_error *err);

/* Whether this source has set the key before, and in which line. */
bool strata__config_was_set(const strata_model_config *config, const char *section,
                            const char *word, uint16_t source, uint32_t *line);

/* Puts "FILE:LINE: " before an error, where the value came from a text. */
void strata__config_place_context(const strata_model_config *config, strata_config_place place,
                                  strata_error *err);

/* The same for the `memory` of an arena or heap, where it is configured. */
void strata__config_memory_context(const strata_model_config *config, const char *label,
                                   strata_error *err);

/* --- process.c ---------------------------------------------------------------------------------*/

struct strata_process {
    strata_process_config config;
    strata_gate gate;
    strata_ledger ledger;
    strata_host_backend host;
    pthread_mutex_t mutex; /* backends */
    strata_backend *backends[STRATA_BACKENDS_MAX];
    size_t backend_count;
    size_t models; /* atomic */
};

/* Gives a backend without a gate the process's. */
void strata__process_adopt(strata_process *process, strata_backend *backend);

/* UNSUPPORTED in a forked child. Asked before any lock is taken. */
strata_status strata__process_is_ours(const strata_process *process, strata_error *err);

/* --- strand.c ----------------------------------------------------------------------------------*/

struct strata_strand {
    strata_model *model;
    char label[STRATA_LABEL_MAX];
    strata_teardown teardown;
    pthread_mutex_t mutex; /* the teardown; recursive */
    strata_area *areas;    /* newest first; changes under the model's mutex as well */
    uint32_t depth;        /* atomic: scopes open */
    bool closed;           /* atomic: the model was released, which ends all scopes at once */
    strata_strand *older;  /* the model's list, newest first, the root last; under its mutex */
};

strata_status strata__strand_new(strata_strand **out, strata_model *model, const char *label,
                                 strata_error *err);
void strata__strand_free(strata_strand *strand); /* pre: its teardown is empty */

void strata__strand_lock(strata_strand *strand);
bool strata__strand_try_lock(strata_strand *strand);
void strata__strand_unlock(strata_strand *strand);
bool strata__strand_is_closed(const strata_strand *strand);
uint32_t strata__strand_depth(const strata_strand *strand);
void strata__strand_set_depth(strata_strand *strand, uint32_t depth);

/* Whether the calling thread is in a callback of this strand's release. */
bool strata__strand_is_inside_a_release(strata_strand *strand);

/* Asks, closes the gate where memory is to be returned, releases what is younger than the mark.
 * BUSY, TIMEOUT and ORDER: nothing was touched. pre: the strand is locked. */
strata_status strata__strand_release_to(strata_strand *strand, strata_mark mark,
                                        strata_report *out);

/* After a release: no scope is open any more, nothing can be added. */
void strata__strand_close_scopes(strata_strand *strand);

/* --- model.c -----------------------------------------------------------------------------------*/

struct strata_model {
    strata_process *process;
    strata_model_config config;
    strata_ledger ledger;
    pthread_mutex_t mutex;  /* the lists of strands and areas, and `releasing` */
    strata_strand *strands; /* newest first; the root is the last */
    strata_strand *root;
    size_t closing; /* strands that other threads are closing; a release waits its turn */
    bool releasing; /* one release at a time; strands stay while it walks their list */
    bool sweeping;  /* the release is past asking; no strand joins any more */
    bool released;
};

/* The figures around a release: begin before it, end after it. NULL reports are allowed. */
typedef struct strata__account {
    strata_ledger_counts before;
    uint64_t begin_ns;
} strata__account;

/* What is still in a teardown after a mark: resources, and the bytes that they said they hold. */
typedef struct strata__left {
    size_t count;
    size_t bytes;
} strata__left;

void strata__left_add(strata__left *left, const strata_teardown *teardown, strata_mark mark);

void strata__account_begin(strata__account *account, const strata_model *model);
void strata__account_end(const strata__account *account, const strata_model *model,
                         const strata__left *left, strata_report *out);

#endif

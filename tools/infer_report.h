/* infer_report.h - what `strata infer` prints: the document and the tables. Computes nothing. */
#ifndef STRATA_TOOL_INFER_REPORT_H
#define STRATA_TOOL_INFER_REPORT_H

#include "infer_model.h"

#include <jansson.h>

#include <stdio.h>

/* Whether a model kept every promise: outputs equal, nothing refused to the runtime's frees,
 * released whole and verified. */
bool infer_model_is_good(const infer_model *model);

/* The whole command's outcome. */
typedef struct infer_result {
    const infer_runtime *runtime;
    const char *library;
    const infer_model *const *models;
    size_t count;
    bool ok;
    /* What the runtime itself keeps: from before the first load to after the last release. */
    int64_t kept_bytes; /* in use in the process's malloc */
    machine_count resident_before;
    machine_count resident_after;
    uint64_t malloc_free_bytes; /* what malloc has free at the end and has not given back */
} infer_result;

/* A new reference; NULL: out of memory. */
json_t *infer_document(const infer_result *result);

void infer_text(FILE *to, const infer_result *result);

#endif

/* ort_bench.h - what the adapter's tests share: a process whose system calls and control blocks are
 * counted and can fail, a model in it, and the account at the end. */
#ifndef STRATA_TESTS_ADAPTERS_ORT_BENCH_H
#define STRATA_TESTS_ADAPTERS_ORT_BENCH_H

#include <strata/model.h>
#include <strata/onnxruntime.h>

#include "fake_system.h"

#include <support/check_main.h>

/* The head of an OrtAllocator as the runtime sees it, for tests that call it themselves. */
typedef struct hook {
    uint32_t version;
    void *(*allocate)(struct hook *self, size_t bytes);
    void (*free)(struct hook *self, void *block);
    const void *(*info)(const struct hook *self);
    void *(*reserve)(struct hook *self, size_t bytes);
    void *(*get_statistics)(const struct hook *self, void **out);
    void *allocate_on_stream;
} hook;

typedef struct ort_bench {
    fake_system system;
    fake_memory memory;
    strata_process *process;
    strata_ort_env *env;
    strata_model *model;
    strata_ort_session *session;
    hook *hook;
    strata_report report;
    strata_error err;
} ort_bench;

/* Process and environment. pre: *b is zeroed. Must succeed. */
void ort_bench_begin(ort_bench *b, const struct OrtApiBase *base, void *ort_env);

/* A model called "rec" with a session's memory in it; overrides may be NULL. Must succeed. */
void ort_bench_open(ort_bench *b, const char *overrides);

/* The same, and may fail: then everything of it is closed, and *err says why. */
strata_status ort_bench_try_open(ort_bench *b, const char *overrides);

/* Releases the model into b->report. */
strata_status ort_bench_release(ort_bench *b);

/* Destroys session and model, which must be released. */
void ort_bench_close(ort_bench *b);

/* The rest, and the account: no mapping, no control block left. */
void ort_bench_end(ort_bench *b);

strata_ort_session_info ort_bench_read(ort_bench *b);

#endif

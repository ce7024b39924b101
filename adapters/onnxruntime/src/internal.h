/* internal.h - what the adapter's files share: the objects behind the opaque types.
 *
 * env.c owns the environment and its lock, session.c the life of one session's memory, hook.c what
 * the runtime calls. Includes public headers of Strata and abi.h only. */
#ifndef STRATA_ADAPTERS_ONNXRUNTIME_INTERNAL_H
#define STRATA_ADAPTERS_ONNXRUNTIME_INTERNAL_H

#include "abi.h"

#include <strata/onnxruntime.h>

#include <pthread.h>

/* What the runtime's kernels assume of every block; its own allocator gives the same. */
#define STRATA__ORT_ALIGN ((size_t)64)

struct strata_ort_env {
    strata_host_memory memory;
    strata__ort_api api;
    const char *runtime_version;
    struct OrtEnv *ort_env;
    struct OrtMemoryInfo *memory_info;
    struct OrtAllocator *stock;   /* the runtime's own, which knows how to throw */
    pthread_mutex_t registration; /* register, create, unregister: one load at a time */
    strata_ort_session *stuck;    /* under the lock: could not be unregistered */
    size_t sessions;              /* atomic */
};

/* Moved by the runtime's threads without a lock. */
typedef struct strata__ort_counts {
    uint64_t allocations;
    uint64_t reserves;
    uint64_t frees;
    uint64_t failed_allocations;
    uint64_t refused_frees;
    uint64_t late_calls;
    uint64_t total_bytes;
    size_t live_bytes;
    size_t peak_bytes;
    size_t largest_bytes;
    size_t weight_blocks;
    size_t weight_bytes;
} strata__ort_counts;

struct strata_ort_session {
    struct OrtAllocator allocator; /* first: the runtime hands its address back to the hook */
    strata_ort_env *env;
    char label[STRATA_LABEL_MAX];
    strata_resource resource;
    strata_arena *weights;
    strata_heap *run;
    pthread_mutex_t weights_lock; /* an arena is for one thread at a time; only loads come here */
    uint64_t inside;              /* atomic: hook calls under way; the top bit closes the door */
    strata__ort_counts counts;
    pthread_mutex_t failure_lock;
    strata_error last_failure;
    bool registered; /* under the environment's lock */
};

/* The bit of `inside` that refuses newcomers. */
#define STRATA__ORT_CLOSED (UINT64_C(1) << 63)

/* Turns a status of the runtime into an error and releases it. `call` is the function's name. */
strata_status strata__ort_error(const strata__ort_api *api, struct OrtStatus *status,
                                const char *call, strata_error *err);

/* Takes a stuck registration back. pre: the environment's lock is held. */
strata_status strata__ort_unregister(strata_ort_env *env, strata_ort_session *session,
                                     strata_error *err);

/* Fills in session->allocator for the environment's version. */
void strata__ort_hook_init(strata_ort_session *session);

/* Closes the door and waits for the calls that are inside. TIMEOUT after ten seconds. */
strata_status strata__ort_hook_close(strata_ort_session *session, strata_error *err);

/* How many blocks the runtime holds. */
size_t strata__ort_live_blocks(const strata_ort_session *session);

#endif

/* session.c - the memory of one session: made in a strand, lent to the runtime for a load, ended by
 * the model's release.
 *
 * Owns the order of things: what may fail comes before what was acquired, and the resource that
 * refuses a release is pushed last, so that it is asked and released first. Serves no allocation;
 * hook.c does. */
#include "internal.h"

#include <strata/model.h>

#include <stdio.h>
#include <string.h>

/* Addresses, not memory. Large, because a heap or arena cannot outgrow its reservation. */
#define RESERVE_BYTES ((size_t)4 << 30)

void strata_ort_session_config_init(strata_ort_session_config *config)
{
    memset(config, 0, sizeof *config);
    config->label = "session";
    strata_arena_config_init(&config->weights);
    config->weights.region.label = "weights";
    config->weights.region.reserve_bytes = RESERVE_BYTES;
    strata_heap_config_init(&config->run);
    config->run.region.label = "run";
    config->run.region.reserve_bytes = RESERVE_BYTES;
}

/* --- the release -------------------------------------------------------------------------------*/

static strata_ort_session *of_resource(strata_resource *self)
{
    return (strata_ort_session *)(void *)((char *)self - offsetof(strata_ort_session, resource));
}

/* Says whose the blocks are as well as the allocator can know: while weights are live the session
 * itself is; after that only values that outlived it can hold a block. */
static strata_status session_ready(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    strata_ort_session *session = of_resource(self);
    strata_ort_session_info info;
    strata_ort_session_read(session, &info);
    self->held_bytes = info.live_bytes;
    if (info.live_blocks == 0) {
        return STRATA_OK;
    }
    if (session->allocator.reserve == NULL) { /* weights are run blocks, not to be told apart */
        return strata_error_set(err, STRATA_BUSY,
                                "the runtime holds %zu block(s) of %zu bytes: release the session "
                                "and every value that came from it",
                                info.live_blocks, info.live_bytes);
    }
    if (info.weight_blocks > 0) {
        return strata_error_set(err, STRATA_BUSY,
                                "the session has not been released: the runtime holds %zu block(s) "
                                "of %zu bytes, weights among them",
                                info.live_blocks, info.live_bytes);
    }
    return strata_error_set(err, STRATA_BUSY,
                            "%zu output(s) or other block(s) of %zu bytes are still held: release "
                            "every value that came from the session",
                            info.live_blocks, info.live_bytes);
}

/* From here on the runtime's calls are refused. The memory itself goes with the arena and the heap,
 * which are older resources of the same strand. */
static strata_status session_release(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    strata_ort_session *session = of_resource(self);
    strata_status status = strata__ort_hook_close(session, err);
    if (status != STRATA_OK) {
        return status;
    }
    uint64_t refused = __atomic_load_n(&session->counts.refused_frees, __ATOMIC_RELAXED);
    if (refused > 0) {
        return strata_error_set(err, STRATA_FOREIGN,
                                "%llu free(s) by the runtime were refused: not its block, inside "
                                "one, or freed already",
                                (unsigned long long)refused);
    }
    return STRATA_OK;
}

/* --- opening -----------------------------------------------------------------------------------*/

static strata_status expect_host_memory(strata_strand *strand, const strata_region_info *region,
                                        strata_error *err)
{
    strata_process *process = strata_model_process(strata_strand_model(strand));
    const strata_backend *backend = strata_process_backend(process, region->backend);
    if (backend != NULL && !backend->ops->host_accessible) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s: memory '%s' cannot be read by the host; the runtime's CPU "
                                "kernels need host memory",
                                region->label, region->backend);
    }
    return STRATA_OK;
}

static strata_status create_areas(strata_ort_session *session, strata_strand *strand,
                                  const strata_ort_session_config *config, strata_error *err)
{
    strata_status status = strata_arena_create(&session->weights, strand, &config->weights, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_arena_info weights;
    strata_arena_read(session->weights, &weights);
    status = expect_host_memory(strand, &weights.region, err);
    if (status != STRATA_OK) {
        return status;
    }
    status = strata_heap_create(&session->run, strand, &config->run, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_heap_info run;
    strata_heap_read(session->run, &run);
    return expect_host_memory(strand, &run.region, err);
}

/* Both areas or neither, and then the resource in front of them. */
static strata_status settle(strata_ort_session *session, strata_strand *strand,
                            const strata_ort_session_config *config, strata_error *err)
{
    strata_scope scope;
    strata_status status = strata_scope_open(&scope, strand);
    if (status != STRATA_OK) {
        return strata_error_set(err, status, "no scope can be opened for the session's memory: %s",
                                strata_status_text(status));
    }
    strata_error own = {0};
    status = create_areas(session, strand, config, &own);
    if (status == STRATA_OK) {
        status = strata_strand_push(strand, &session->resource);
        if (status != STRATA_OK) {
            (void)strata_error_set(&own, status, "%s", strata_status_text(status));
        }
    }
    if (status == STRATA_OK) {
        (void)strata_scope_keep(&scope); /* it is the innermost: it was opened above */
        return STRATA_OK;
    }
    strata_error_context(&own, "%s", session->label);
    (void)strata_scope_undo(&scope, NULL, &own);
    if (err != NULL) {
        *err = own;
    }
    return status;
}

static strata_ort_session *session_new(strata_ort_env *env, const char *label)
{
    strata_ort_session *session = strata_host_memory_allocate(&env->memory, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    memset(session, 0, sizeof *session);
    session->env = env;
    (void)snprintf(session->label, sizeof session->label, "%s", label == NULL ? "session" : label);
    (void)pthread_mutex_init(&session->weights_lock, NULL);
    (void)pthread_mutex_init(&session->failure_lock, NULL);
    strata_resource_init(&session->resource, session->label, session_release, session_ready);
    strata__ort_hook_init(session);
    return session;
}

static void session_delete(strata_ort_session *session)
{
    (void)pthread_mutex_destroy(&session->weights_lock);
    (void)pthread_mutex_destroy(&session->failure_lock);
    strata_host_memory_free(&session->env->memory, session);
}

strata_status strata_ort_session_open(strata_ort_session **out, strata_ort_env *env,
                                      strata_strand *strand,
                                      const strata_ort_session_config *config, strata_error *err)
{
    if (out == NULL || env == NULL || strand == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "a session's memory needs an environment and a strand");
    }
    strata_ort_session_config defaults;
    strata_ort_session_config_init(&defaults);
    if (config == NULL) {
        config = &defaults;
    }
    strata_ort_session *session = session_new(env, config->label);
    if (session == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a session's %zu bytes",
                                sizeof *session);
    }
    strata_status status = settle(session, strand, config, err);
    if (status != STRATA_OK) {
        session_delete(session);
        return status;
    }
    (void)__atomic_add_fetch(&env->sessions, 1, __ATOMIC_RELEASE);
    *out = session;
    return STRATA_OK;
}

/* --- loading -----------------------------------------------------------------------------------*/

/* A model as a path or as bytes: what the two calls of the runtime differ in. */
typedef struct source {
    const char *path;
    const void *bytes;
    size_t length;
} source;

static struct OrtStatus *create(const strata_ort_env *env, const source *from,
                                const struct OrtSessionOptions *options, struct OrtSession **out)
{
    if (from->path != NULL) {
        return env->api.create_session(env->ort_env, from->path, options, out);
    }
    return env->api.create_session_from_array(env->ort_env, from->bytes, from->length, options,
                                              out);
}

/* Where the allocator refused during the load, that is the reason, and the runtime's message is
 * only how it took it. */
static strata_status explain(strata_ort_session *session, uint64_t failures_before,
                             strata_error *err)
{
    strata_ort_session_info info;
    strata_ort_session_read(session, &info);
    if (info.failed_allocations == failures_before) {
        return STRATA_RESOURCE;
    }
    if (err != NULL) {
        *err = info.last_failure;
        strata_error_context(err, "%s: out of memory while loading", session->label);
    }
    return info.last_failure.status;
}

static strata_status load_registered(strata_ort_session *session, const source *from,
                                     const struct OrtSessionOptions *options,
                                     struct OrtSession **out, strata_error *err)
{
    strata_ort_env *env = session->env;
    uint64_t failures = __atomic_load_n(&session->counts.failed_allocations, __ATOMIC_RELAXED);
    struct OrtSession *made = NULL;
    struct OrtStatus *answer = create(env, from, options, &made);
    strata_status status = strata__ort_error(
        &env->api, answer, from->path != NULL ? "CreateSession" : "CreateSessionFromArray", err);
    if (status != STRATA_OK) {
        status = explain(session, failures, err);
        made = NULL;
    }
    strata_error unregister = {0};
    strata_status given_back = strata__ort_unregister(env, session, &unregister);
    if (status == STRATA_OK && given_back != STRATA_OK) {
        env->api.release_session(made);
        if (err != NULL) {
            *err = unregister;
        }
        return given_back;
    }
    if (given_back != STRATA_OK) {
        strata_error_append(err, "; and %s", unregister.text);
    }
    if (status == STRATA_OK) {
        *out = made;
    }
    return status;
}

static strata_status load_locked(strata_ort_session *session, const source *from,
                                 const struct OrtSessionOptions *options, struct OrtSession **out,
                                 strata_error *err)
{
    strata_ort_env *env = session->env;
    if (env->stuck != NULL) {
        strata_status status = strata__ort_unregister(env, env->stuck, err);
        if (status != STRATA_OK) {
            strata_error_append(err, "; no session can be loaded before that succeeds");
            return status;
        }
    }
    struct OrtStatus *answer = env->api.register_allocator(env->ort_env, &session->allocator);
    if (answer != NULL) {
        strata_status status = strata__ort_error(&env->api, answer, "RegisterAllocator", err);
        strata_error_append(err, "; another CPU allocator must be unregistered first");
        return status;
    }
    __atomic_store_n(&session->registered, true, __ATOMIC_RELEASE);
    return load_registered(session, from, options, out, err);
}

static strata_status load(strata_ort_session *session, const source *from,
                          const struct OrtSessionOptions *options, struct OrtSession **out,
                          strata_error *err)
{
    strata_ort_session_info info;
    strata_ort_session_read(session, &info);
    if (info.released) {
        return strata_error_set(err, STRATA_CLOSED, "%s: the model has been released",
                                session->label);
    }
    if (info.live_blocks > 0) {
        return strata_error_set(err, STRATA_ORDER,
                                "%s: the last session loaded still holds %zu block(s) of %zu bytes",
                                session->label, info.live_blocks, info.live_bytes);
    }
    (void)pthread_mutex_lock(&session->env->registration);
    strata_status status = load_locked(session, from, options, out, err);
    (void)pthread_mutex_unlock(&session->env->registration);
    return status;
}

strata_status strata_ort_session_load(strata_ort_session *session, const char *model_path,
                                      const struct OrtSessionOptions *options,
                                      struct OrtSession **out, strata_error *err)
{
    if (session == NULL || model_path == NULL || options == NULL || out == NULL) {
        return strata_error_set(err, STRATA_INVALID, "a load needs a path, options and a place");
    }
    return load(session, &(source){.path = model_path}, options, out, err);
}

strata_status strata_ort_session_load_bytes(strata_ort_session *session, const void *model,
                                            size_t model_bytes,
                                            const struct OrtSessionOptions *options,
                                            struct OrtSession **out, strata_error *err)
{
    if (session == NULL || model == NULL || options == NULL || out == NULL) {
        return strata_error_set(err, STRATA_INVALID, "a load needs bytes, options and a place");
    }
    return load(session, &(source){.bytes = model, .length = model_bytes}, options, out, err);
}

struct OrtAllocator *strata_ort_session_allocator(strata_ort_session *session)
{
    return &session->allocator;
}

/* --- the end -----------------------------------------------------------------------------------*/

strata_status strata_ort_session_destroy(strata_ort_session **session)
{
    if (session == NULL || *session == NULL) {
        return STRATA_OK;
    }
    strata_ort_session *going = *session;
    strata_ort_env *env = going->env;
    if (strata_resource_is_pushed(&going->resource)) {
        return STRATA_BUSY;
    }
    (void)pthread_mutex_lock(&env->registration);
    bool stuck = env->stuck == going && strata__ort_unregister(env, going, NULL) != STRATA_OK;
    (void)pthread_mutex_unlock(&env->registration);
    if (stuck) {
        return STRATA_BUSY;
    }
    session_delete(going);
    (void)__atomic_sub_fetch(&env->sessions, 1, __ATOMIC_RELEASE);
    *session = NULL;
    return STRATA_OK;
}

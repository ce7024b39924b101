/* env.c - one environment of ONNX Runtime: its table of functions, and the lock under which
 * sessions are created.
 *
 * Resolves the slots once, so that the rest of the adapter calls typed members. Loads no library:
 * whoever has the runtime hands in OrtGetApiBase(). Allocates nothing of a model's. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* GetApi prints a complaint for a version that it does not have, so the runtime's own version is
 * read first: "1.28.2" offers API 28. Returns 0 for a text that does not look like that. */
static uint32_t offered_version(const char *text)
{
    if (text == NULL || strncmp(text, "1.", 2) != 0) {
        return 0;
    }
    char *end;
    unsigned long minor = strtoul(text + 2, &end, 10);
    return end == text + 2 || minor > 9999 ? 0 : (uint32_t)minor;
}

static void resolve(strata__ort_api *api, strata__ort_slot *const *table, uint32_t version)
{
    api->version = version;
#define TAKE(slot, member, result, arguments) api->member = (result(*) arguments)table[slot];
    STRATA__ORT_SLOT_MAP(TAKE)
    if (version >= 22) {
        STRATA__ORT_SLOT_22_MAP(TAKE)
    }
#undef TAKE
}

static strata_status find_api(strata_ort_env *env, const struct OrtApiBase *base, strata_error *err)
{
    env->runtime_version = base->get_version_string();
    uint32_t offered = offered_version(env->runtime_version);
    if (offered != 0 && offered < STRATA_ORT_API_VERSION_MIN) {
        (void)strata_error_set(err, STRATA_UNSUPPORTED,
                               "ONNX Runtime %s is too old: 1.%d or later is needed",
                               env->runtime_version, STRATA_ORT_API_VERSION_MIN);
        return STRATA_UNSUPPORTED;
    }
    if (offered == 0 || offered > STRATA_ORT_API_VERSION_MAX) {
        offered = STRATA_ORT_API_VERSION_MAX;
    }
    for (uint32_t version = offered; version >= STRATA_ORT_API_VERSION_MIN; version--) {
        strata__ort_slot *const *table = base->get_api(version);
        if (table != NULL) {
            resolve(&env->api, table, version);
            return STRATA_OK;
        }
    }
    (void)strata_error_set(
        err, STRATA_UNSUPPORTED,
        "ONNX Runtime %s offers no API between %d and %d: 1.%d or later is needed",
        env->runtime_version == NULL ? "?" : env->runtime_version, STRATA_ORT_API_VERSION_MIN,
        STRATA_ORT_API_VERSION_MAX, STRATA_ORT_API_VERSION_MIN);
    return STRATA_UNSUPPORTED;
}

strata_status strata__ort_error(const strata__ort_api *api, struct OrtStatus *status,
                                const char *call, strata_error *err)
{
    if (status == NULL) {
        return STRATA_OK;
    }
    int code = api->get_error_code(status);
    const char *message = api->get_error_message(status);
    (void)strata_error_set(err, STRATA_RESOURCE, "%s: %d: %s", call, code,
                           message == NULL ? "" : message);
    if (err != NULL) {
        err->origin = STRATA_ORIGIN_RESOURCE;
        err->native = code;
    }
    api->release_status(status);
    return STRATA_RESOURCE;
}

/* Everything that the runtime has to give before anything else may fail. The name and the numbers
 * are how the runtime's CPU allocator is called: device allocator, device 0, default memory. */
static strata_status take_from_runtime(strata_ort_env *env, strata_error *err)
{
    struct OrtStatus *status = env->api.get_default_allocator(&env->stock);
    if (status != NULL) {
        return strata__ort_error(&env->api, status, "GetAllocatorWithDefaultOptions", err);
    }
    status = env->api.create_memory_info("Cpu", 0, 0, 0, &env->memory_info);
    return strata__ort_error(&env->api, status, "CreateMemoryInfo", err);
}

strata_status strata_ort_env_create(strata_ort_env **out, const struct OrtApiBase *api_base,
                                    struct OrtEnv *ort_env, const strata_host_memory *memory,
                                    strata_error *err)
{
    if (out == NULL || api_base == NULL || ort_env == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "an environment needs OrtGetApiBase() and an OrtEnv");
    }
    strata_host_memory from = {0};
    if (memory != NULL) {
        from = *memory;
    }
    strata_ort_env *env = strata_host_memory_allocate(&from, sizeof *env);
    if (env == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for an environment's %zu bytes",
                                sizeof *env);
    }
    *env = (strata_ort_env){.memory = from, .ort_env = ort_env};
    strata_status status = find_api(env, api_base, err);
    if (status == STRATA_OK) {
        status = take_from_runtime(env, err);
    }
    if (status != STRATA_OK) {
        strata_host_memory_free(&from, env);
        return status;
    }
    (void)pthread_mutex_init(&env->registration, NULL); /* cannot fail without attributes */
    *out = env;
    return STRATA_OK;
}

strata_status strata_ort_env_destroy(strata_ort_env **env)
{
    if (env == NULL || *env == NULL) {
        return STRATA_OK;
    }
    strata_ort_env *going = *env;
    if (__atomic_load_n(&going->sessions, __ATOMIC_ACQUIRE) != 0) {
        return STRATA_BUSY;
    }
    going->api.release_memory_info(going->memory_info);
    (void)pthread_mutex_destroy(&going->registration);
    strata_host_memory from = going->memory;
    strata_host_memory_free(&from, going);
    *env = NULL;
    return STRATA_OK;
}

uint32_t strata_ort_env_api_version(const strata_ort_env *env)
{
    return env->api.version;
}

const char *strata_ort_env_runtime_version(const strata_ort_env *env)
{
    return env->runtime_version == NULL ? "?" : env->runtime_version;
}

strata_status strata_ort_options_prepare(strata_ort_env *env, struct OrtSessionOptions *options,
                                         strata_error *err)
{
    static const char *const keys[] = {"session.use_env_allocators", "session.disable_prepacking"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct OrtStatus *status = env->api.add_session_config_entry(options, keys[i], "1");
        if (status != NULL) {
            return strata__ort_error(&env->api, status, "AddSessionConfigEntry", err);
        }
    }
    return STRATA_OK;
}

strata_status strata__ort_unregister(strata_ort_env *env, strata_ort_session *session,
                                     strata_error *err)
{
    struct OrtStatus *status = env->api.unregister_allocator(env->ort_env, env->memory_info);
    if (status != NULL) {
        env->stuck = session;
        return strata__ort_error(&env->api, status, "UnregisterAllocator", err);
    }
    env->stuck = NULL;
    __atomic_store_n(&session->registered, false, __ATOMIC_RELEASE);
    return STRATA_OK;
}

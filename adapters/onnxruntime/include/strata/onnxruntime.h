/* strata/onnxruntime.h - ONNX Runtime's memory, model by model.
 *
 * Gives one session of ONNX Runtime an allocator of its own: weights go into an arena, the stream
 * of inference into a heap, both of one Strata model, so that releasing the model returns the
 * session's memory whole. No header of the runtime is needed, here or to build the adapter: its
 * objects are named by their tags only, which agree with onnxruntime_c_api.h where that is included
 * as well. API 17 and later.
 *
 * The order of a load and its end:
 *
 *   strata_ort_env_create      once, over the loaded runtime's OrtGetApiBase() and its OrtEnv
 *   strata_ort_options_prepare the session options without which weights stay outside
 *   strata_ort_session_open    arena and heap in a strand of the model
 *   strata_ort_session_load    register, CreateSession, unregister, under the environment's lock
 *   ... Run ...                the caller's, with the runtime's own API
 *   ReleaseSession, ReleaseValue of every output
 *   strata_model_release       refuses with BUSY while the runtime still holds a block
 *   strata_ort_session_destroy the control block
 *   strata_ort_env_destroy     before ReleaseEnv
 *
 * When memory cannot be had, the runtime gets its own std::bad_alloc, because it does not survive
 * a NULL (README.md here): so the allocator is for the runtime to call, not for a C program.
 *
 * Thread rule: an environment: any thread. A session's allocator: any thread, as the runtime likes.
 * Opening, loading, destroying one session: one thread at a time, the strand's rule. */
#ifndef STRATA_ONNXRUNTIME_H
#define STRATA_ONNXRUNTIME_H

#include <strata/heap.h>
#include <strata/strand.h>

struct OrtAllocator;
struct OrtApiBase;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;

STRATA_BEGIN_DECLS

#define STRATA_ORT_API_VERSION_MIN 17
/* The newest layout of OrtAllocator that is filled in, whatever the runtime offers. */
#define STRATA_ORT_API_VERSION_MAX 23

/* What strata_ort_options_prepare sets, as text for logs and reports. */
#define STRATA_ORT_OPTIONS "session.use_env_allocators=1,session.disable_prepacking=1"

/* --- the environment ---------------------------------------------------------------------------*/

/* One for each OrtEnv, and the runtime has one OrtEnv a process: CreateEnv twice gives the same.
 * Owns the lock under which an allocator is registered, used by a CreateSession and unregistered,
 * which is how each session comes by its own. */
typedef struct strata_ort_env strata_ort_env;

/* `api_base` is what OrtGetApiBase() returned; `ort_env` must outlive the object. memory NULL:
 * malloc. UNSUPPORTED for a runtime below API 17; INVALID for a NULL; NO_MEMORY; RESOURCE with the
 * runtime's error code and message. *out is untouched on failure. */
STRATA_API strata_status strata_ort_env_create(strata_ort_env **out,
                                               const struct OrtApiBase *api_base,
                                               struct OrtEnv *ort_env,
                                               const strata_host_memory *memory, strata_error *err);

/* BUSY while a session is open; then nothing changes. *env becomes NULL; NULL inside: OK. */
STRATA_API strata_status strata_ort_env_destroy(strata_ort_env **env);

STRATA_API uint32_t strata_ort_env_api_version(const strata_ort_env *env);
STRATA_API const char *strata_ort_env_runtime_version(const strata_ort_env *env); /* "1.28.2" */

/* Adds STRATA_ORT_OPTIONS to the caller's session options. RESOURCE with the runtime's message. */
STRATA_API strata_status strata_ort_options_prepare(strata_ort_env *env,
                                                    struct OrtSessionOptions *options,
                                                    strata_error *err);

/* --- one session's memory ----------------------------------------------------------------------*/

typedef struct strata_ort_session strata_ort_session;

typedef struct strata_ort_session_config {
    const char *label; /* who is named when the release refuses; copied; NULL: "session" */
    strata_arena_config weights; /* host memory; region.label "weights" */
    strata_heap_config run;      /* host memory; region.label "run" */
} strata_ort_session_config;

/* 4 GiB of addresses each, nothing committed; README.md argues the rest. */
STRATA_API void strata_ort_session_config_init(strata_ort_session_config *config);

/* Creates arena and heap in the strand, laying the model's configuration of these names over
 * `config` (NULL: the defaults), and pushes a resource that refuses the release while the runtime
 * holds a block. Errors: theirs; INVALID for memory that the host cannot touch; LIMIT where the
 * strand has no scope left; on failure nothing is held. */
STRATA_API strata_status strata_ort_session_open(strata_ort_session **out, strata_ort_env *env,
                                                 strata_strand *strand,
                                                 const strata_ort_session_config *config,
                                                 strata_error *err);

/* Creates the runtime's session with this allocator. *out is the caller's, to be given to
 * ReleaseSession. Waits for other loads of the environment.
 * ORDER     the last session loaded still holds blocks
 * CLOSED    the model was released
 * RESOURCE  the runtime's error code and message; where an allocation failed during the load, that
 *           failure's status and text instead. What the runtime took is back then, or the release
 *           refuses; close the scope around the load, or release the model.
 * Where unregistering fails the new session is released again, and it is tried anew before the next
 * load and by destroy. */
STRATA_API strata_status strata_ort_session_load(strata_ort_session *session,
                                                 const char *model_path,
                                                 const struct OrtSessionOptions *options,
                                                 struct OrtSession **out, strata_error *err);
STRATA_API strata_status strata_ort_session_load_bytes(strata_ort_session *session,
                                                       const void *model, size_t model_bytes,
                                                       const struct OrtSessionOptions *options,
                                                       struct OrtSession **out, strata_error *err);

/* The hook itself, for calls of the runtime that take an allocator (IoBinding, CreateTensorAsOrt-
 * Value). Valid until destroy; after the model's release it refuses and counts every call. */
STRATA_API struct OrtAllocator *strata_ort_session_allocator(strata_ort_session *session);

typedef struct strata_ort_session_info {
    char label[STRATA_LABEL_MAX];
    uint64_t allocations;        /* that succeeded, weights and run together */
    uint64_t reserves;           /* of those, weights (Reserve) */
    uint64_t frees;              /* that succeeded */
    uint64_t failed_allocations; /* the runtime was told: std::bad_alloc */
    uint64_t refused_frees;      /* foreign, interior or double; the release reports them */
    uint64_t late_calls;         /* after the release; refused */
    uint64_t total_bytes;        /* handed out over time; run blocks by their usable size */
    size_t live_blocks;
    size_t live_bytes;
    size_t peak_bytes;         /* of live_bytes */
    size_t largest_bytes;      /* the largest single block */
    size_t weight_blocks;      /* live */
    size_t weight_bytes;       /* live */
    strata_error last_failure; /* why the last allocation failed; OK: none did */
    bool released;
    bool registered; /* unregistering failed: the runtime still points here */
} strata_ort_session_info;

/* Any thread, also after the release. Figures are each exact, not of one instant. Where the run
 * heap is configured as unchecked, its blocks are counted but their bytes are 0, and a double free
 * of them is not noticed. */
STRATA_API void strata_ort_session_read(strata_ort_session *session, strata_ort_session_info *out);

/* Frees the control block. BUSY while its resource is pushed (release the model first), or while
 * the runtime will not unregister it; then nothing changes. pre: every value that the runtime took
 * from it is gone. *session becomes NULL; NULL inside: OK. */
STRATA_API strata_status strata_ort_session_destroy(strata_ort_session **session);

STRATA_END_DECLS

#endif

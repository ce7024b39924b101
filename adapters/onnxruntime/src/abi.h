/* abi.h - the part of ONNX Runtime's C ABI that the adapter uses, declared by hand.
 *
 * OrtApi is a table of function pointers that only ever grows at its end, so a slot number is as
 * stable as a symbol; the numbers below hold from API 17 on, those for statistics from API 22 on.
 * The tests call each of them in the runtime that they are given. OrtAllocator grows at its end
 * likewise; its `version` says how far it is filled in.
 *
 * Only src/ includes this: the public header names the runtime's objects by their tags. It must not
 * be included together with the runtime's own header. */
#ifndef STRATA_ADAPTERS_ONNXRUNTIME_ABI_H
#define STRATA_ADAPTERS_ONNXRUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

struct OrtAllocator;
struct OrtEnv;
struct OrtKeyValuePairs;
struct OrtMemoryInfo;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus; /* NULL: success */

typedef void strata__ort_slot(void);

struct OrtApiBase {
    strata__ort_slot *const *(*get_api)(uint32_t version); /* NULL: that version is not offered */
    const char *(*get_version_string)(void);
};

struct OrtAllocator {
    uint32_t version;
    void *(*allocate)(struct OrtAllocator *self, size_t bytes);
    void (*free)(struct OrtAllocator *self, void *block);
    const struct OrtMemoryInfo *(*info)(const struct OrtAllocator *self);
    /* from version 18 on */
    void *(*reserve)(struct OrtAllocator *self, size_t bytes);
    /* from version 23 on; the second may be NULL */
    struct OrtStatus *(*get_statistics)(const struct OrtAllocator *self,
                                        struct OrtKeyValuePairs **out);
    void *(*allocate_on_stream)(struct OrtAllocator *self, size_t bytes, void *stream);
};

/* The slots by name: X(slot, member, result, arguments). */
#define STRATA__ORT_SLOT_MAP(X)                                                              \
    X(1, get_error_code, int, (const struct OrtStatus *))                                    \
    X(2, get_error_message, const char *, (const struct OrtStatus *))                        \
    X(7, create_session, struct OrtStatus *,                                                 \
      (const struct OrtEnv *, const char *, const struct OrtSessionOptions *,                \
       struct OrtSession **))                                                                \
    X(8, create_session_from_array, struct OrtStatus *,                                      \
      (const struct OrtEnv *, const void *, size_t, const struct OrtSessionOptions *,        \
       struct OrtSession **))                                                                \
    X(68, create_memory_info, struct OrtStatus *,                                            \
      (const char *, int, int, int, struct OrtMemoryInfo **))                                \
    X(78, get_default_allocator, struct OrtStatus *, (struct OrtAllocator **))               \
    X(93, release_status, void, (struct OrtStatus *))                                        \
    X(94, release_memory_info, void, (struct OrtMemoryInfo *))                               \
    X(95, release_session, void, (struct OrtSession *))                                      \
    X(130, add_session_config_entry, struct OrtStatus *,                                     \
      (struct OrtSessionOptions *, const char *, const char *))                              \
    X(176, register_allocator, struct OrtStatus *, (struct OrtEnv *, struct OrtAllocator *)) \
    X(177, unregister_allocator, struct OrtStatus *,                                         \
      (struct OrtEnv *, const struct OrtMemoryInfo *))

/* For an allocator's statistics; read from API 22 on only, where the table is that long. */
#define STRATA__ORT_SLOT_22_MAP(X)                                     \
    X(295, create_key_value_pairs, void, (struct OrtKeyValuePairs **)) \
    X(296, add_key_value_pair, void, (struct OrtKeyValuePairs *, const char *, const char *))

typedef struct strata__ort_api {
    uint32_t version;
#define STRATA__ORT_SLOT_MEMBER(slot, member, result, arguments) result(*member) arguments;
    STRATA__ORT_SLOT_MAP(STRATA__ORT_SLOT_MEMBER)
    STRATA__ORT_SLOT_22_MAP(STRATA__ORT_SLOT_MEMBER)
#undef STRATA__ORT_SLOT_MEMBER
} strata__ort_api;

#define STRATA__ORT_STATISTICS_VERSION 23
#define STRATA__ORT_RESERVE_VERSION    18

#endif

/* infer_runtime.c - ONNX Runtime by its table of functions. See infer_runtime.h.
 *
 * The slot numbers hold from STRATA_ORT_API_VERSION_MIN on: the table only grows at its end. */
#include "infer_runtime.h"

#include <strata/gate.h>
#include <strata/size.h>

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct OrtAllocator;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;

typedef void slot(void);
typedef struct OrtStatus status_t; /* NULL: success */

/* X(slot, member, result, arguments) */
#define SLOT_MAP(X)                                                                                \
    X(1, error_code, int, (const status_t *))                                                      \
    X(2, error_message, const char *, (const status_t *))                                          \
    X(3, create_env, status_t *, (int, const char *, struct OrtEnv **))                            \
    X(7, create_session, status_t *,                                                               \
      (const struct OrtEnv *, const char *, const struct OrtSessionOptions *,                      \
       struct OrtSession **))                                                                      \
    X(9, run, status_t *,                                                                          \
      (struct OrtSession *, const struct OrtRunOptions *, const char *const *,                     \
       const struct OrtValue *const *, size_t, const char *const *, size_t, struct OrtValue **))   \
    X(10, create_options, status_t *, (struct OrtSessionOptions **))                               \
    X(24, set_threads, status_t *, (struct OrtSessionOptions *, int))                              \
    X(30, input_count, status_t *, (const struct OrtSession *, size_t *))                          \
    X(31, output_count, status_t *, (const struct OrtSession *, size_t *))                         \
    X(33, input_type, status_t *, (const struct OrtSession *, size_t, struct OrtTypeInfo **))      \
    X(34, output_type, status_t *, (const struct OrtSession *, size_t, struct OrtTypeInfo **))     \
    X(36, input_name, status_t *,                                                                  \
      (const struct OrtSession *, size_t, struct OrtAllocator *, char **))                         \
    X(37, output_name, status_t *,                                                                 \
      (const struct OrtSession *, size_t, struct OrtAllocator *, char **))                         \
    X(49, create_tensor, status_t *,                                                               \
      (const struct OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, int,                 \
       struct OrtValue **))                                                                        \
    X(51, tensor_data, status_t *, (struct OrtValue *, void **))                                   \
    X(55, as_tensor, status_t *,                                                                   \
      (const struct OrtTypeInfo *, const struct OrtTensorTypeAndShapeInfo **))                     \
    X(60, element_type, status_t *, (const struct OrtTensorTypeAndShapeInfo *, int *))             \
    X(61, rank, status_t *, (const struct OrtTensorTypeAndShapeInfo *, size_t *))                  \
    X(62, dimensions, status_t *, (const struct OrtTensorTypeAndShapeInfo *, int64_t *, size_t))   \
    X(64, element_count, status_t *, (const struct OrtTensorTypeAndShapeInfo *, size_t *))         \
    X(65, tensor_type, status_t *, (const struct OrtValue *, struct OrtTensorTypeAndShapeInfo **)) \
    X(68, create_memory_info, status_t *, (const char *, int, int, int, struct OrtMemoryInfo **))  \
    X(76, allocator_free, status_t *, (struct OrtAllocator *, void *))                             \
    X(78, default_allocator, status_t *, (struct OrtAllocator **))                                 \
    X(92, release_env, void, (struct OrtEnv *))                                                    \
    X(93, release_status, void, (status_t *))                                                      \
    X(94, release_memory_info, void, (struct OrtMemoryInfo *))                                     \
    X(95, release_session, void, (struct OrtSession *))                                            \
    X(96, release_value, void, (struct OrtValue *))                                                \
    X(98, release_type, void, (struct OrtTypeInfo *))                                              \
    X(99, release_tensor_type, void, (struct OrtTensorTypeAndShapeInfo *))                         \
    X(100, release_options, void, (struct OrtSessionOptions *))

typedef struct table {
#define MEMBER(number, member, result, arguments) result(*member) arguments;
    SLOT_MAP(MEMBER)
#undef MEMBER
} table;

/* The head of the runtime's OrtApiBase. */
typedef struct api_base {
    slot *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} api_base;

struct infer_runtime {
    void *library;
    const api_base *base;
    table api;
    struct OrtEnv *env;
    struct OrtMemoryInfo *memory;
    struct OrtAllocator *names; /* what the runtime's strings are freed with */
};

/* Element types of the runtime that inputs are made for. */
enum { TYPE_FLOAT = 1, TYPE_INT32 = 6, TYPE_INT64 = 7 };

/* As the adapter reports what the runtime refuses: with its code, for load_failed in infer.c. */
static strata_status refused(const table *api, status_t *status, const char *call,
                             strata_error *err)
{
    if (status == NULL) {
        return STRATA_OK;
    }
    int code = api->error_code(status);
    (void)strata_error_set(err, STRATA_RESOURCE, "%s: %d: %s", call, code,
                           api->error_message(status));
    err->origin = STRATA_ORIGIN_RESOURCE;
    err->native = code;
    api->release_status(status);
    return STRATA_RESOURCE;
}

/* --- the library -------------------------------------------------------------------------------*/

/* GetApi complains on stderr about a version that it does not have, so the runtime's own is read
 * first: "1.28.2" has API 28. A text that does not look like that is left to GetApi. */
static bool is_too_old(const char *version)
{
    char *end;
    if (version == NULL || strncmp(version, "1.", 2) != 0) {
        return false;
    }
    unsigned long minor = strtoul(version + 2, &end, 10);
    return end != version + 2 && minor < STRATA_ORT_API_VERSION_MIN;
}

static strata_status take_table(infer_runtime *runtime, const char *library, strata_error *err)
{
    const char *version = runtime->base->version();
    slot *const *slots = NULL;
    if (!is_too_old(version)) {
        slots = runtime->base->get_api(STRATA_ORT_API_VERSION_MIN);
    }
    if (slots == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s is ONNX Runtime %s and has no API %d; name 1.%d or later",
                                library, version == NULL ? "?" : version,
                                STRATA_ORT_API_VERSION_MIN, STRATA_ORT_API_VERSION_MIN);
    }
#define TAKE(number, member, result, arguments) \
    runtime->api.member = (result(*) arguments)slots[number];
    SLOT_MAP(TAKE)
#undef TAKE
    return STRATA_OK;
}

static strata_status load_library(infer_runtime *runtime, const char *library, strata_error *err)
{
    runtime->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (runtime->library == NULL) {
        return strata_error_set(err, STRATA_INVALID, "%s; name ONNX Runtime's libonnxruntime.so",
                                dlerror());
    }
    void *found = dlsym(runtime->library, "OrtGetApiBase");
    if (found == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "%s exports no OrtGetApiBase; name ONNX Runtime's "
                                "libonnxruntime.so",
                                library);
    }
    const api_base *(*get)(void);
    memcpy(&get, &found, sizeof get); /* C has no cast from void * to a function */
    runtime->base = get();
    return take_table(runtime, library, err);
}

static strata_status take_from_library(infer_runtime *runtime, strata_error *err)
{
    const table *api = &runtime->api;
    assert(api->create_env != NULL); /* take_table has filled it, or failed */
    /* 4: only what is fatal is logged; errors come back as statuses and are ours to print. */
    strata_status status =
        refused(api, api->create_env(4, "strata", &runtime->env), "CreateEnv", err);
    if (status == STRATA_OK) {
        status = refused(api, api->create_memory_info("Cpu", 0, 0, 0, &runtime->memory),
                         "CreateMemoryInfo", err);
    }
    if (status == STRATA_OK) {
        status = refused(api, api->default_allocator(&runtime->names),
                         "GetAllocatorWithDefaultOptions", err);
    }
    return status;
}

strata_status infer_runtime_open(infer_runtime **out, const char *library, strata_error *err)
{
    infer_runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for the runtime");
    }
    strata_status status = load_library(runtime, library, err);
    if (status == STRATA_OK) {
        status = take_from_library(runtime, err);
    }
    if (status != STRATA_OK) {
        infer_runtime_close(runtime);
        return status;
    }
    *out = runtime;
    return STRATA_OK;
}

/* The library stays loaded: its threads and thread-local destructors may outlive the last call. */
void infer_runtime_close(infer_runtime *runtime)
{
    if (runtime == NULL) {
        return;
    }
    if (runtime->memory != NULL) {
        runtime->api.release_memory_info(runtime->memory);
    }
    if (runtime->env != NULL) {
        runtime->api.release_env(runtime->env);
    }
    free(runtime);
}

const struct OrtApiBase *infer_runtime_base(const infer_runtime *runtime)
{
    return (const struct OrtApiBase *)(const void *)runtime->base;
}

struct OrtEnv *infer_runtime_env(const infer_runtime *runtime)
{
    return runtime->env;
}

const char *infer_runtime_version(const infer_runtime *runtime)
{
    return runtime->base->version();
}

/* --- sessions ----------------------------------------------------------------------------------*/

struct OrtSessionOptions *infer_runtime_options(infer_runtime *runtime, unsigned threads,
                                                strata_ort_env *prepared, strata_error *err)
{
    const table *api = &runtime->api;
    struct OrtSessionOptions *options = NULL;
    strata_status status = refused(api, api->create_options(&options), "CreateSessionOptions", err);
    if (status == STRATA_OK) {
        status = refused(api, api->set_threads(options, (int)threads), "SetIntraOpNumThreads", err);
    }
    if (status == STRATA_OK && prepared != NULL) {
        status = strata_ort_options_prepare(prepared, options, err);
    }
    if (status == STRATA_OK) {
        return options;
    }
    infer_runtime_options_release(runtime, options);
    return NULL;
}

void infer_runtime_options_release(infer_runtime *runtime, struct OrtSessionOptions *options)
{
    if (options != NULL) {
        runtime->api.release_options(options);
    }
}

strata_status infer_runtime_create(infer_runtime *runtime, const char *path,
                                   const struct OrtSessionOptions *options, struct OrtSession **out,
                                   strata_error *err)
{
    const table *api = &runtime->api;
    return refused(api, api->create_session(runtime->env, path, options, out), "CreateSession",
                   err);
}

void infer_runtime_release(infer_runtime *runtime, struct OrtSession *session)
{
    if (session != NULL) {
        runtime->api.release_session(session);
    }
}

void infer_value_release(infer_runtime *runtime, struct OrtValue *value)
{
    if (value != NULL) {
        runtime->api.release_value(value);
    }
}

/* --- inputs ------------------------------------------------------------------------------------*/

typedef struct tensor_type {
    int element;
    size_t rank;
    int64_t dimensions[INFER_RANK_MAX];
} tensor_type;

static strata_status read_type(const table *api, const struct OrtTypeInfo *type, tensor_type *out,
                               strata_error *err)
{
    const struct OrtTensorTypeAndShapeInfo *tensor = NULL;
    strata_status status = refused(api, api->as_tensor(type, &tensor), "CastTypeInfo", err);
    if (status != STRATA_OK) {
        return status;
    }
    if (tensor == NULL) {
        return strata_error_set(err, STRATA_INVALID, "an input or output is no tensor");
    }
    status = refused(api, api->element_type(tensor, &out->element), "GetTensorElementType", err);
    if (status == STRATA_OK) {
        status = refused(api, api->rank(tensor, &out->rank), "GetDimensionsCount", err);
    }
    if (status == STRATA_OK && out->rank > INFER_RANK_MAX) {
        return strata_error_set(err, STRATA_LIMIT, "a tensor of rank %zu; the most is %d",
                                out->rank, INFER_RANK_MAX);
    }
    if (status == STRATA_OK) {
        status =
            refused(api, api->dimensions(tensor, out->dimensions, out->rank), "GetDimensions", err);
    }
    return status;
}

static strata_status port_type(infer_runtime *runtime, struct OrtSession *session, bool input,
                               size_t index, tensor_type *out, strata_error *err)
{
    const table *api = &runtime->api;
    struct OrtTypeInfo *type = NULL;
    status_t *answer = input ? api->input_type(session, index, &type)
                             : api->output_type(session, index, &type);
    strata_status status = refused(api, answer, "GetTypeInfo", err);
    if (status == STRATA_OK) {
        status = read_type(api, type, out, err);
        api->release_type(type);
    }
    return status;
}

/* What a dynamic dimension becomes: a batch of one; pictures as asked, otherwise by what the model
 * looks like. A classifier, which answers with one row, reads narrow strips; a model with a fixed
 * height reads lines; the rest read whole pictures. */
static void settle_dimensions(tensor_type *type, size_t output_rank, infer_picture picture)
{
    bool is_picture = type->rank == 4;
    bool free_height = is_picture && type->dimensions[2] < 0;
    bool strips = free_height && output_rank == 2;
    for (size_t i = 0; i < type->rank; i++) {
        if (type->dimensions[i] >= 0) {
            continue;
        }
        if (is_picture && i == 2) {
            type->dimensions[i] = picture.height > 0 ? picture.height : (strips ? 48 : 320);
        } else if (is_picture && i == 3) {
            type->dimensions[i] = picture.width > 0 ? picture.width : (strips ? 192 : 320);
        } else {
            type->dimensions[i] = 1;
        }
    }
}

/* The same bytes for the same shape, on every machine: a linear congruential sequence. */
static void fill(void *data, const tensor_type *type, size_t count)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        if (type->element == TYPE_FLOAT) {
            ((float *)data)[i] = (float)(state >> 8) / 16777216.0F;
        } else if (type->element == TYPE_INT64) {
            ((int64_t *)data)[i] = (int64_t)(state >> 16) % 100;
        } else {
            ((int32_t *)data)[i] = (int32_t)(state >> 16) % 100;
        }
    }
}

static size_t element_bytes(int element)
{
    switch (element) {
    case TYPE_FLOAT:
    case TYPE_INT32:
        return 4;
    case TYPE_INT64:
        return 8;
    default:
        return 0;
    }
}

static strata_status make_value(infer_runtime *runtime, const tensor_type *type,
                                infer_inputs *inputs, size_t index, strata_error *err)
{
    size_t count = 1;
    size_t bytes = 0;
    for (size_t i = 0; i < type->rank; i++) {
        if (!strata_size_multiply(count, (size_t)type->dimensions[i], &count)) {
            return strata_error_set(err, STRATA_INVALID, "the shape of input %zu is too large",
                                    index);
        }
    }
    size_t each = element_bytes(type->element);
    if (each == 0 || !strata_size_multiply(count, each, &bytes)) {
        return strata_error_set(err, STRATA_UNSUPPORTED,
                                "input %zu has elements of type %d; float, int32 and int64 can be "
                                "made",
                                index, type->element);
    }
    inputs->data[index] = malloc(bytes + 1);
    if (inputs->data[index] == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for %zu bytes of input", bytes);
    }
    fill(inputs->data[index], type, count);
    return refused(&runtime->api,
                   runtime->api.create_tensor(runtime->memory, inputs->data[index], bytes,
                                              type->dimensions, type->rank, type->element,
                                              &inputs->values[index]),
                   "CreateTensorWithDataAsOrtValue", err);
}

static void describe_shape(const tensor_type *type, char *text, size_t capacity)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < type->rank && at < capacity; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "%s%" PRId64, i == 0 ? "" : "x",
                               type->dimensions[i]);
    }
}

static strata_status count_ports(infer_runtime *runtime, struct OrtSession *session,
                                 infer_inputs *out, strata_error *err)
{
    const table *api = &runtime->api;
    strata_status status =
        refused(api, api->input_count(session, &out->count), "SessionGetInputCount", err);
    if (status == STRATA_OK) {
        status = refused(api, api->output_count(session, &out->output_count),
                         "SessionGetOutputCount", err);
    }
    if (status == STRATA_OK && (out->count > INFER_NAMES_MAX ||
                                out->output_count > INFER_NAMES_MAX || out->output_count == 0)) {
        status = strata_error_set(err, STRATA_LIMIT, "%zu inputs and %zu outputs; the most is %d",
                                  out->count, out->output_count, INFER_NAMES_MAX);
        out->count = 0;
        out->output_count = 0;
    }
    return status;
}

static strata_status make_inputs(infer_runtime *runtime, struct OrtSession *session,
                                 infer_picture picture, infer_inputs *out, strata_error *err)
{
    const table *api = &runtime->api;
    tensor_type output = {0};
    strata_status status = port_type(runtime, session, false, 0, &output, err);
    for (size_t i = 0; i < out->output_count && status == STRATA_OK; i++) {
        status = refused(api, api->output_name(session, i, runtime->names, &out->output_names[i]),
                         "SessionGetOutputName", err);
    }
    for (size_t i = 0; i < out->count && status == STRATA_OK; i++) {
        tensor_type type = {0};
        status = refused(api, api->input_name(session, i, runtime->names, &out->names[i]),
                         "SessionGetInputName", err);
        if (status == STRATA_OK) {
            status = port_type(runtime, session, true, i, &type, err);
        }
        if (status == STRATA_OK) {
            settle_dimensions(&type, output.rank, picture);
            status = make_value(runtime, &type, out, i, err);
        }
        if (status == STRATA_OK && i == 0) {
            describe_shape(&type, out->shape, sizeof out->shape);
        }
    }
    return status;
}

strata_status infer_inputs_make(infer_runtime *runtime, struct OrtSession *session,
                                infer_picture picture, infer_inputs *out, strata_error *err)
{
    memset(out, 0, sizeof *out);
    strata_status status = count_ports(runtime, session, out, err);
    if (status == STRATA_OK) {
        status = make_inputs(runtime, session, picture, out, err);
    }
    if (status != STRATA_OK) {
        infer_inputs_free(runtime, out);
    }
    return status;
}

static void free_name(infer_runtime *runtime, char *name)
{
    if (name != NULL) {
        status_t *status = runtime->api.allocator_free(runtime->names, name);
        if (status != NULL) {
            runtime->api.release_status(status);
        }
    }
}

void infer_inputs_free(infer_runtime *runtime, infer_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        infer_value_release(runtime, inputs->values[i]);
        free(inputs->data[i]);
        free_name(runtime, inputs->names[i]);
    }
    for (size_t i = 0; i < inputs->output_count; i++) {
        free_name(runtime, inputs->output_names[i]);
    }
    memset(inputs, 0, sizeof *inputs);
}

/* --- a run -------------------------------------------------------------------------------------*/

static strata_status output_bytes(infer_runtime *runtime, struct OrtValue *value, const void **data,
                                  size_t *bytes, strata_error *err)
{
    const table *api = &runtime->api;
    struct OrtTensorTypeAndShapeInfo *type = NULL;
    int element = 0;
    size_t count = 0;
    void *at = NULL;
    strata_status status =
        refused(api, api->tensor_type(value, &type), "GetTensorTypeAndShape", err);
    if (status != STRATA_OK) {
        return status;
    }
    status = refused(api, api->element_type(type, &element), "GetTensorElementType", err);
    if (status == STRATA_OK) {
        status = refused(api, api->element_count(type, &count), "GetTensorShapeElementCount", err);
    }
    api->release_tensor_type(type);
    if (status == STRATA_OK) {
        status = refused(api, api->tensor_data(value, &at), "GetTensorMutableData", err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    if (element_bytes(element) == 0 ||
        !strata_size_multiply(count, element_bytes(element), bytes)) {
        return strata_error_set(err, STRATA_UNSUPPORTED, "an output has elements of type %d",
                                element);
    }
    *data = at;
    return STRATA_OK;
}

static strata_status append(infer_output *output, const void *data, size_t bytes, strata_error *err)
{
    if (output->length + bytes > output->capacity) {
        unsigned char *grown = realloc(output->bytes, output->length + bytes);
        if (grown == NULL) {
            return strata_error_set(err, STRATA_NO_MEMORY, "no memory for %zu bytes of output",
                                    bytes);
        }
        output->bytes = grown;
        output->capacity = output->length + bytes;
    }
    if (bytes > 0) {
        memcpy(output->bytes + output->length, data, bytes);
        output->length += bytes;
    }
    return STRATA_OK;
}

static strata_status copy_outputs(infer_runtime *runtime, struct OrtValue *const *values,
                                  size_t count, infer_output *copy, strata_error *err)
{
    copy->length = 0;
    for (size_t i = 0; i < count; i++) {
        const void *data = NULL;
        size_t bytes = 0;
        strata_status status = output_bytes(runtime, values[i], &data, &bytes, err);
        if (status == STRATA_OK) {
            status = append(copy, data, bytes, err);
        }
        if (status != STRATA_OK) {
            return status;
        }
    }
    return STRATA_OK;
}

/* The time is that of the run and of giving its outputs back: what a serving loop pays, and both
 * allocators' whole share of it. */
strata_status infer_run(infer_runtime *runtime, struct OrtSession *session,
                        const infer_inputs *inputs, infer_output *copy, struct OrtValue **held,
                        uint64_t *elapsed_ns, strata_error *err)
{
    const table *api = &runtime->api;
    struct OrtValue *outputs[INFER_NAMES_MAX] = {0};
    uint64_t began = strata_now_ns();
    status_t *answer = api->run(session, NULL, (const char *const *)inputs->names,
                                (const struct OrtValue *const *)inputs->values, inputs->count,
                                (const char *const *)inputs->output_names, inputs->output_count,
                                outputs);
    uint64_t took = strata_now_ns() - began;
    strata_status status = refused(api, answer, "Run", err);
    if (status == STRATA_OK && copy != NULL) {
        status = copy_outputs(runtime, outputs, inputs->output_count, copy, err);
    }
    if (status == STRATA_OK && held != NULL) {
        *held = outputs[0];
        outputs[0] = NULL;
    }
    began = strata_now_ns();
    for (size_t i = 0; i < inputs->output_count; i++) {
        infer_value_release(runtime, outputs[i]);
    }
    if (elapsed_ns != NULL) {
        *elapsed_ns = took + (strata_now_ns() - began);
    }
    return status;
}

bool infer_output_same(const infer_output *a, const infer_output *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

uint64_t infer_output_hash(const infer_output *output, uint64_t seed)
{
    uint64_t hash = seed;
    for (size_t i = 0; i < output->length; i++) {
        hash = (hash ^ output->bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

void infer_output_free(infer_output *output)
{
    free(output->bytes);
    memset(output, 0, sizeof *output);
}

/* infer_runtime.h - ONNX Runtime as an application uses it: the library, options, inputs, a run.
 *
 * Loads the library with dlopen and calls it by its table of functions, so that no header of theirs
 * is needed. The table here is the application's, not a second one of the adapter's: what an
 * application calls (Run, values, types) the adapter never does, and the adapter's own table is
 * private to it. Sessions in Strata's memory come from the adapter, through its public header;
 * those with the runtime's own allocator from infer_runtime_create. Runs do not tell them apart.
 *
 * Errors: RESOURCE carries the runtime's code and message, with its origin; *err is set wherever a
 * function does not return OK.
 *
 * Thread rule: opening and closing by one thread; sessions are used by one thread each. */
#ifndef STRATA_TOOL_INFER_RUNTIME_H
#define STRATA_TOOL_INFER_RUNTIME_H

#include <strata/error.h>
#include <strata/onnxruntime.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFER_SHAPES_MAX 8
#define INFER_RANK_MAX   8
#define INFER_NAMES_MAX  8 /* inputs and outputs of a model */

struct OrtValue;

typedef struct infer_runtime infer_runtime;

/* INVALID: no library that can be used, with the remedy; RESOURCE: it refused. */
strata_status infer_runtime_open(infer_runtime **out, const char *library, strata_error *err);
void infer_runtime_close(infer_runtime *runtime); /* NULL allowed */

const struct OrtApiBase *infer_runtime_base(const infer_runtime *runtime);
struct OrtEnv *infer_runtime_env(const infer_runtime *runtime);
const char *infer_runtime_version(const infer_runtime *runtime);

/* Session options with `threads` threads inside an operator; `prepared` sets what Strata's adapter
 * needs, which has the same meaning without it. NULL: *err is set. */
struct OrtSessionOptions *infer_runtime_options(infer_runtime *runtime, unsigned threads,
                                                strata_ort_env *prepared, strata_error *err);
void infer_runtime_options_release(infer_runtime *runtime, struct OrtSessionOptions *options);

/* A session with the runtime's own allocator. */
strata_status infer_runtime_create(infer_runtime *runtime, const char *path,
                                   const struct OrtSessionOptions *options, struct OrtSession **out,
                                   strata_error *err);
void infer_runtime_release(infer_runtime *runtime, struct OrtSession *session);

/* Width and height for the dynamic dimensions of a picture; 0: by the model. */
typedef struct infer_picture {
    int64_t width;
    int64_t height;
} infer_picture;

/* One set of inputs: seeded-random, the same for the same shape. */
typedef struct infer_inputs {
    size_t count;
    char *names[INFER_NAMES_MAX];
    struct OrtValue *values[INFER_NAMES_MAX];
    void *data[INFER_NAMES_MAX];
    size_t output_count;
    char *output_names[INFER_NAMES_MAX];
    char shape[64]; /* of the first input, "1x3x48x320" */
} infer_inputs;

strata_status infer_inputs_make(infer_runtime *runtime, struct OrtSession *session,
                                infer_picture picture, infer_inputs *out, strata_error *err);
void infer_inputs_free(infer_runtime *runtime, infer_inputs *inputs);

/* What a run gave, copied out of the runtime's memory: bytes of all outputs one after another. */
typedef struct infer_output {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
} infer_output;

/* One run. Where `copy` is not NULL the outputs are copied into it, which is not timed. Where
 * `held` is not NULL the first output is handed over instead of being released. *elapsed_ns may be
 * NULL. */
strata_status infer_run(infer_runtime *runtime, struct OrtSession *session,
                        const infer_inputs *inputs, infer_output *copy, struct OrtValue **held,
                        uint64_t *elapsed_ns, strata_error *err);
void infer_value_release(infer_runtime *runtime, struct OrtValue *value);

bool infer_output_same(const infer_output *a, const infer_output *b);
uint64_t infer_output_hash(const infer_output *output, uint64_t seed); /* FNV-1a */
#define INFER_HASH_SEED UINT64_C(14695981039346656037)
void infer_output_free(infer_output *output);

#endif

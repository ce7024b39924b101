/* fake_onnxruntime.c - the stand-in runtime. See fake_onnxruntime.h.
 *
 * Written against the layout that the runtime documents, not against the adapter's own header, so
 * that a slip in the one does not hide in the other. */
#include "fake_onnxruntime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))

typedef struct OrtStatus {
    int code;
    char text[128];
} OrtStatus;

typedef struct OrtMemoryInfo {
    char name[16];
} OrtMemoryInfo;

typedef struct OrtKeyValuePairs {
    size_t count;
    char keys[32][32];
    char values[32][32];
} OrtKeyValuePairs;

typedef struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(struct OrtAllocator *self, size_t size);
    void (*Free)(struct OrtAllocator *self, void *block);
    const OrtMemoryInfo *(*Info)(const struct OrtAllocator *self);
    void *(*Reserve)(struct OrtAllocator *self, size_t size);
    OrtStatus *(*GetStats)(const struct OrtAllocator *self, OrtKeyValuePairs **out);
    void *(*AllocOnStream)(struct OrtAllocator *self, size_t size, void *stream);
} OrtAllocator;

typedef struct OrtSession {
    OrtAllocator *allocator;
    void *blocks[FAKE_ORT_BLOCKS_MAX * 2];
    size_t count;
} OrtSession;

typedef void slot(void);

static fake_ort_control control = {.version = "1.28.2", .newest_api = 28};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int creating;

API fake_ort_control *fake_ort_get_control(void);
fake_ort_control *fake_ort_get_control(void)
{
    return &control;
}

/* --- statuses and small objects ----------------------------------------------------------------*/

static void count(size_t *counter, long by)
{
    pthread_mutex_lock(&mutex);
    *counter += (size_t)by;
    pthread_mutex_unlock(&mutex);
}

static OrtStatus *fail(int code, const char *text)
{
    OrtStatus *status = calloc(1, sizeof(*status));
    if (status == NULL) {
        abort();
    }
    status->code = code;
    (void)snprintf(status->text, sizeof(status->text), "%s", text);
    count(&control.live_statuses, 1);
    return status;
}

static int error_code(const OrtStatus *status)
{
    return status->code;
}

static const char *error_message(const OrtStatus *status)
{
    return status->text;
}

static void release_status(OrtStatus *status)
{
    count(&control.live_statuses, -1);
    free(status);
}

static OrtStatus *create_memory_info(const char *name, int type, int device, int memory,
                                     OrtMemoryInfo **out)
{
    (void)type;
    (void)device;
    (void)memory;
    if (control.fail_memory_info) {
        return fail(1, "no memory info today");
    }
    OrtMemoryInfo *info = calloc(1, sizeof(*info));
    if (info == NULL) {
        abort();
    }
    (void)snprintf(info->name, sizeof(info->name), "%s", name);
    count(&control.live_memory_infos, 1);
    *out = info;
    return NULL;
}

static void release_memory_info(OrtMemoryInfo *info)
{
    count(&control.live_memory_infos, -1);
    free(info);
}

static void create_pairs(OrtKeyValuePairs **out)
{
    *out = calloc(1, sizeof(**out));
    count(&control.live_pairs, 1);
}

static void add_pair(OrtKeyValuePairs *pairs, const char *key, const char *value)
{
    (void)snprintf(pairs->keys[pairs->count], sizeof(pairs->keys[0]), "%s", key);
    (void)snprintf(pairs->values[pairs->count], sizeof(pairs->values[0]), "%s", value);
    pairs->count += 1;
}

static const char *get_pair(const OrtKeyValuePairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; ++i) {
        if (strcmp(pairs->keys[i], key) == 0) {
            return pairs->values[i];
        }
    }
    return NULL;
}

static void release_pairs(OrtKeyValuePairs *pairs)
{
    count(&control.live_pairs, -1);
    free(pairs);
}

static OrtStatus *add_entry(void *options, const char *key, const char *value)
{
    (void)options;
    const size_t used = strlen(control.options);
    (void)snprintf(control.options + used, sizeof(control.options) - used, "%s%s=%s",
                   used == 0 ? "" : ",", key, value);
    return NULL;
}

/* --- the stock allocator: what the hook asks for its exception
 * ----------------------------------*/

static void *stock_allocate(OrtAllocator *self, size_t size)
{
    (void)self;
    if (size > (size_t)PTRDIFF_MAX) {
        pthread_mutex_lock(&mutex);
        control.stock_calls += 1;
        pthread_mutex_unlock(&mutex);
        return NULL; /* where the real one throws */
    }
    return malloc(size);
}

static void stock_free(OrtAllocator *self, void *block)
{
    (void)self;
    free(block);
}

static OrtAllocator stock = {.version = 28, .Alloc = stock_allocate, .Free = stock_free};

static OrtStatus *default_allocator(OrtAllocator **out)
{
    if (control.fail_default_allocator) {
        return fail(1, "no default allocator today");
    }
    *out = &stock;
    return NULL;
}

/* --- registering and sessions ------------------------------------------------------------------*/

static OrtStatus *register_allocator(void *env, OrtAllocator *allocator)
{
    (void)env;
    control.registers += 1;
    if (control.fail_register) {
        return fail(1, "registering is refused");
    }
    if (control.registered != NULL) {
        return fail(2, "an allocator for this device has been registered already");
    }
    control.registered = allocator;
    return NULL;
}

static OrtStatus *unregister_allocator(void *env, const OrtMemoryInfo *info)
{
    (void)env;
    (void)info;
    control.unregisters += 1;
    if (control.fail_unregister) {
        return fail(1, "unregistering is refused");
    }
    if (control.registered == NULL) {
        return fail(2, "nothing is registered");
    }
    control.registered = NULL;
    return NULL;
}

static void give_back(OrtSession *session)
{
    while (session->count > 0) {
        session->allocator->Free(session->allocator, session->blocks[--session->count]);
    }
}

/* As the real one: Reserve where the allocator is new enough to have it, else Alloc. */
static void *take_weight(OrtAllocator *allocator, size_t bytes)
{
    if (allocator->version >= 18 && allocator->Reserve != NULL) {
        return allocator->Reserve(allocator, bytes);
    }
    return allocator->Alloc(allocator, bytes);
}

static bool follow_script(OrtSession *session)
{
    OrtAllocator *allocator = session->allocator;
    for (size_t i = 0; i < control.reserve_count + control.allocate_count; ++i) {
        void *block = i < control.reserve_count
                          ? take_weight(allocator, control.reserve_bytes)
                          : allocator->Alloc(allocator, control.allocate_bytes);
        if (block == NULL) {
            return false;
        }
        session->blocks[session->count++] = block;
    }
    return true;
}

/* Long enough for another thread to come in between, if nothing keeps it out. */
static void linger(void)
{
    const int inside = __atomic_add_fetch(&creating, 1, __ATOMIC_ACQ_REL);
    if (inside > 1) {
        control.overlapping += 1;
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    __atomic_sub_fetch(&creating, 1, __ATOMIC_ACQ_REL);
}

static OrtStatus *make_session(OrtSession **out)
{
    control.creates += 1;
    linger();
    if (control.registered == NULL) {
        return fail(1, "no allocator is registered");
    }
    OrtSession *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        abort();
    }
    session->allocator = control.registered;
    const bool served = follow_script(session);
    if (served && !control.fail_create) {
        *out = session;
        return NULL;
    }
    if (control.leak_on_failed_create) {
        memcpy(control.leaked, session->blocks, sizeof(control.leaked));
        control.leaked_count = session->count;
    } else {
        give_back(session);
    }
    free(session);
    return served ? fail(7, "the model\ncannot be parsed") : fail(6, "std::bad_alloc");
}

static OrtStatus *create_session(const void *env, const char *path, const void *options,
                                 OrtSession **out)
{
    (void)env;
    (void)path;
    (void)options;
    return make_session(out);
}

static OrtStatus *create_session_from_array(const void *env, const void *bytes, size_t length,
                                            const void *options, OrtSession **out)
{
    (void)env;
    (void)options;
    return bytes == NULL || length == 0 ? fail(2, "no bytes") : make_session(out);
}

static void release_session(OrtSession *session)
{
    pthread_mutex_lock(&mutex);
    control.releases += 1;
    pthread_mutex_unlock(&mutex);
    give_back(session);
    free(session);
}

/* --- the table ---------------------------------------------------------------------------------*/

static void unexpected(void)
{
    (void)fprintf(stderr, "fake onnxruntime: a slot that the adapter has no use for was called\n");
    abort();
}

#define SLOTS 320

static slot *const *get_api(uint32_t version)
{
    static slot *table[SLOTS];
    if (control.asked_count < sizeof(control.asked_versions) / sizeof(control.asked_versions[0])) {
        control.asked_versions[control.asked_count++] = version;
    }
    if (version > control.newest_api) {
        return NULL;
    }
    for (size_t i = 0; i < SLOTS; ++i) {
        table[i] = unexpected;
    }
    table[1] = (slot *)error_code;
    table[2] = (slot *)error_message;
    table[7] = (slot *)create_session;
    table[8] = (slot *)create_session_from_array;
    table[68] = (slot *)create_memory_info;
    table[78] = (slot *)default_allocator;
    table[93] = (slot *)release_status;
    table[94] = (slot *)release_memory_info;
    table[95] = (slot *)release_session;
    table[130] = (slot *)add_entry;
    table[176] = (slot *)register_allocator;
    table[177] = (slot *)unregister_allocator;
    table[295] = (slot *)create_pairs;
    table[296] = (slot *)add_pair;
    table[297] = (slot *)get_pair;
    table[300] = (slot *)release_pairs;
    return table;
}

static const char *get_version(void)
{
    return control.version;
}

typedef struct OrtApiBase {
    slot *const *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

API const OrtApiBase *OrtGetApiBase(void);
const OrtApiBase *OrtGetApiBase(void)
{
    static const OrtApiBase base = {.GetApi = get_api, .GetVersionString = get_version};
    return &base;
}

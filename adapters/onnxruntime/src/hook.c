/* hook.c - what the runtime calls: an allocation from an arena or a heap, a free by address.
 *
 * Which of the two memories a block came from is decided by its address, never remembered by the
 * caller. Nothing here creates or returns memory as a whole; session.c does.
 *
 * A weight block has a word of its own in front, because an arena knows no blocks and a free that
 * comes twice must be refused. A heap knows its blocks itself. */
#include "internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* In the STRATA__ORT_ALIGN bytes before a weight block. The seal depends on the address and the
 * session: a pointer into a block must not find a header in the weights themselves. */
typedef struct weight_header {
    uint64_t seal;
    size_t bytes;
    uint64_t live;
} weight_header;

#define CLOSE_WAIT_NS UINT64_C(10000000000)

static strata_ort_session *of(const struct OrtAllocator *self)
{
    return (strata_ort_session *)(uintptr_t)self;
}

static void add(uint64_t *count, uint64_t by)
{
    (void)__atomic_add_fetch(count, by, __ATOMIC_RELAXED);
}

/* --- the door ----------------------------------------------------------------------------------*/

/* A call is counted while it is inside, so that the release can wait for it; one that comes after
 * the door was closed turns round without touching memory that may be gone. */
static bool enter(strata_ort_session *session)
{
    if ((__atomic_add_fetch(&session->inside, 1, __ATOMIC_ACQUIRE) & STRATA__ORT_CLOSED) == 0) {
        return true;
    }
    (void)__atomic_sub_fetch(&session->inside, 1, __ATOMIC_RELEASE);
    add(&session->counts.late_calls, 1);
    return false;
}

static void leave(strata_ort_session *session)
{
    (void)__atomic_sub_fetch(&session->inside, 1, __ATOMIC_RELEASE);
}

strata_status strata__ort_hook_close(strata_ort_session *session, strata_error *err)
{
    (void)__atomic_or_fetch(&session->inside, STRATA__ORT_CLOSED, __ATOMIC_ACQ_REL);
    uint64_t deadline = strata_deadline_in(CLOSE_WAIT_NS);
    while (__atomic_load_n(&session->inside, __ATOMIC_ACQUIRE) != STRATA__ORT_CLOSED) {
        if (strata_now_ns() > deadline) {
            return strata_error_set(err, STRATA_TIMEOUT,
                                    "a call of the runtime is still inside the allocator");
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return STRATA_OK;
}

size_t strata__ort_live_blocks(const strata_ort_session *session)
{
    /* Frees first: a block taken and freed in between must not make the difference negative. */
    uint64_t frees = __atomic_load_n(&session->counts.frees, __ATOMIC_ACQUIRE);
    return (size_t)(__atomic_load_n(&session->counts.allocations, __ATOMIC_ACQUIRE) - frees);
}

/* --- failing -----------------------------------------------------------------------------------*/

static void note_failure(strata_ort_session *session, const strata_error *err)
{
    add(&session->counts.failed_allocations, 1);
    (void)pthread_mutex_lock(&session->failure_lock);
    session->last_failure = *err;
    (void)pthread_mutex_unlock(&session->failure_lock);
}

/* The contract of OrtAllocator says NULL, and the runtime (seen in 1.28.2) crashes on it in a Run.
 * Its own allocator throws std::bad_alloc instead, which the runtime turns into an error; so that
 * one is asked for more than an address space holds, and its exception passes through this frame.
 * It is the last thing done: no lock is held, nothing of ours is unfinished. A runtime that answers
 * NULL instead is passed on as it is. */
static void *refuse(const strata_ort_env *env)
{
    void *block = env->stock->allocate(env->stock, (size_t)PTRDIFF_MAX + 1);
    if (block != NULL) {
        env->stock->free(env->stock, block);
    }
    return NULL;
}

/* --- taking ------------------------------------------------------------------------------------*/

static uint64_t seal_of(const strata_ort_session *session, const void *block)
{
    return ((uint64_t)(uintptr_t)block ^ UINT64_C(0x5354524154415754)) *
               UINT64_C(0x9E3779B97F4A7C15) ^
           (uint64_t)(uintptr_t)session;
}

static void raise_to(size_t *highest, size_t value)
{
    size_t seen = __atomic_load_n(highest, __ATOMIC_RELAXED);
    while (value > seen && !__atomic_compare_exchange_n(highest, &seen, value, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static void count_taken(strata_ort_session *session, size_t bytes)
{
    strata__ort_counts *counts = &session->counts;
    add(&counts->total_bytes, bytes);
    raise_to(&counts->largest_bytes, bytes);
    raise_to(&counts->peak_bytes, __atomic_add_fetch(&counts->live_bytes, bytes, __ATOMIC_RELAXED));
    (void)__atomic_add_fetch(&counts->allocations, 1, __ATOMIC_RELEASE);
}

static void *take_weight_locked(strata_ort_session *session, size_t bytes, strata_error *err)
{
    size_t whole;
    if (!strata_size_add(bytes, STRATA__ORT_ALIGN, &whole)) {
        (void)strata_error_set(err, STRATA_INVALID, "%s: %zu bytes and their header wrap around",
                               session->label, bytes);
        return NULL;
    }
    char *at = strata_arena_alloc(session->weights, whole, STRATA__ORT_ALIGN);
    if (at == NULL) {
        *err = *strata_arena_error(session->weights);
        return NULL;
    }
    weight_header *header = (weight_header *)(void *)at;
    void *block = at + STRATA__ORT_ALIGN;
    *header = (weight_header){.seal = seal_of(session, block), .bytes = bytes, .live = 1};
    session->counts.weight_blocks++;
    session->counts.weight_bytes += bytes;
    return block;
}

static void *take_weight(strata_ort_session *session, size_t bytes, strata_error *err)
{
    (void)pthread_mutex_lock(&session->weights_lock);
    void *block = take_weight_locked(session, bytes, err);
    (void)pthread_mutex_unlock(&session->weights_lock);
    if (block != NULL) {
        add(&session->counts.reserves, 1);
        count_taken(session, bytes);
    }
    return block;
}

static void *take_run(strata_ort_session *session, size_t bytes, strata_error *err)
{
    void *block = strata_heap_alloc(session->run, bytes, STRATA__ORT_ALIGN, err);
    if (block != NULL) {
        count_taken(session, strata_heap_usable(session->run, block));
    }
    return block;
}

typedef void *take_fn(strata_ort_session *session, size_t bytes, strata_error *err);

static void *take(struct OrtAllocator *self, size_t bytes, take_fn *from)
{
    strata_ort_session *session = of(self);
    strata_error err = {0};
    void *block = NULL;
    if (enter(session)) {
        block = from(session, bytes, &err);
        leave(session);
    } else {
        (void)strata_error_set(&err, STRATA_CLOSED, "%s: the model has been released",
                               session->label);
    }
    if (block != NULL) {
        return block;
    }
    note_failure(session, &err);
    return refuse(session->env);
}

static void *hook_allocate(struct OrtAllocator *self, size_t bytes)
{
    return take(self, bytes, take_run);
}

static void *hook_reserve(struct OrtAllocator *self, size_t bytes)
{
    return take(self, bytes, take_weight);
}

/* --- giving back -------------------------------------------------------------------------------*/

static void count_given(strata_ort_session *session, size_t bytes)
{
    (void)__atomic_sub_fetch(&session->counts.live_bytes, bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&session->counts.frees, 1, __ATOMIC_RELEASE);
}

static bool give_run(strata_ort_session *session, void *block)
{
    size_t bytes = strata_heap_usable(session->run, block);
    if (strata_heap_free(session->run, block) != STRATA_OK) {
        return false;
    }
    count_given(session, bytes);
    return true;
}

/* With the last weight the arena is empty again, so that a set whose load failed can be loaded
 * anew without growing. */
static bool give_weight_locked(strata_ort_session *session, void *block, size_t *bytes)
{
    char *at = (char *)block - STRATA__ORT_ALIGN;
    if ((uintptr_t)block % STRATA__ORT_ALIGN != 0 || !strata_arena_owns(session->weights, at)) {
        return false;
    }
    weight_header *header = (weight_header *)(void *)at;
    if (header->seal != seal_of(session, block) || header->live != 1) {
        return false;
    }
    header->live = 0;
    *bytes = header->bytes;
    session->counts.weight_bytes -= header->bytes;
    session->counts.weight_blocks--;
    if (session->counts.weight_blocks == 0) {
        header->seal = 0;
        (void)strata_arena_clear(session->weights); /* damage shows when the arena is closed */
    }
    return true;
}

static bool give_weight(strata_ort_session *session, void *block)
{
    size_t bytes = 0;
    (void)pthread_mutex_lock(&session->weights_lock);
    bool given = give_weight_locked(session, block, &bytes);
    (void)pthread_mutex_unlock(&session->weights_lock);
    if (given) {
        count_given(session, bytes);
    }
    return given;
}

/* A free cannot fail towards the runtime: what is refused is counted, and the release says so. */
static void hook_free(struct OrtAllocator *self, void *block)
{
    strata_ort_session *session = of(self);
    if (block == NULL || !enter(session)) {
        return;
    }
    bool given = strata_heap_owns(session->run, block) ? give_run(session, block)
                                                       : give_weight(session, block);
    if (!given) {
        add(&session->counts.refused_frees, 1);
    }
    leave(session);
}

/* --- the rest of the table ---------------------------------------------------------------------*/

static const struct OrtMemoryInfo *hook_info(const struct OrtAllocator *self)
{
    return of(self)->env->memory_info;
}

static void add_number(const strata__ort_api *api, struct OrtKeyValuePairs *pairs, const char *key,
                       uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    api->add_key_value_pair(pairs, key, text);
}

/* Under the keys that the runtime documents for its own arenas. */
static struct OrtStatus *hook_statistics(const struct OrtAllocator *self,
                                         struct OrtKeyValuePairs **out)
{
    strata_ort_session *session = of(self);
    const strata__ort_api *api = &session->env->api;
    strata_ort_session_info info;
    strata_ort_session_read(session, &info);
    struct OrtKeyValuePairs *pairs = NULL;
    api->create_key_value_pairs(&pairs);
    api->add_key_value_pair(pairs, "Limit", "-1");
    add_number(api, pairs, "InUse", info.live_bytes);
    add_number(api, pairs, "TotalAllocated", info.total_bytes);
    add_number(api, pairs, "MaxInUse", info.peak_bytes);
    add_number(api, pairs, "NumAllocs", info.allocations);
    add_number(api, pairs, "NumReserves", info.reserves);
    add_number(api, pairs, "NumArenaExtensions", 0);
    add_number(api, pairs, "NumArenaShrinkages", 0);
    add_number(api, pairs, "MaxAllocSize", info.largest_bytes);
    *out = pairs;
    return NULL;
}

void strata__ort_hook_init(strata_ort_session *session)
{
    uint32_t version = session->env->api.version;
    session->allocator = (struct OrtAllocator){
        .version = version,
        .allocate = hook_allocate,
        .free = hook_free,
        .info = hook_info,
        .reserve = version >= STRATA__ORT_RESERVE_VERSION ? hook_reserve : NULL,
        .get_statistics = version >= STRATA__ORT_STATISTICS_VERSION ? hook_statistics : NULL,
        .allocate_on_stream = NULL, /* then the runtime calls allocate */
    };
}

void strata_ort_session_read(strata_ort_session *session, strata_ort_session_info *out)
{
    strata__ort_counts *counts = &session->counts;
    memset(out, 0, sizeof *out);
    memcpy(out->label, session->label, sizeof out->label);
    out->live_blocks = strata__ort_live_blocks(session);
    out->allocations = __atomic_load_n(&counts->allocations, __ATOMIC_RELAXED);
    out->reserves = __atomic_load_n(&counts->reserves, __ATOMIC_RELAXED);
    out->frees = __atomic_load_n(&counts->frees, __ATOMIC_RELAXED);
    out->failed_allocations = __atomic_load_n(&counts->failed_allocations, __ATOMIC_RELAXED);
    out->refused_frees = __atomic_load_n(&counts->refused_frees, __ATOMIC_RELAXED);
    out->late_calls = __atomic_load_n(&counts->late_calls, __ATOMIC_RELAXED);
    out->total_bytes = __atomic_load_n(&counts->total_bytes, __ATOMIC_RELAXED);
    out->live_bytes = __atomic_load_n(&counts->live_bytes, __ATOMIC_RELAXED);
    out->peak_bytes = __atomic_load_n(&counts->peak_bytes, __ATOMIC_RELAXED);
    out->largest_bytes = __atomic_load_n(&counts->largest_bytes, __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&session->weights_lock);
    out->weight_blocks = counts->weight_blocks;
    out->weight_bytes = counts->weight_bytes;
    (void)pthread_mutex_unlock(&session->weights_lock);
    (void)pthread_mutex_lock(&session->failure_lock);
    out->last_failure = session->last_failure;
    (void)pthread_mutex_unlock(&session->failure_lock);
    out->released = (__atomic_load_n(&session->inside, __ATOMIC_ACQUIRE) & STRATA__ORT_CLOSED) != 0;
    out->registered = __atomic_load_n(&session->registered, __ATOMIC_ACQUIRE);
}

/* test_ort_hook.c - the adapter's promises against a runtime that behaves oddly on purpose.
 *
 * The stand-in (fakes/fake_onnxruntime.h) is loaded as the real one would be; this runs for
 * everybody. What only the real runtime can show is in test_ort_real.c. */
#include "ort_bench.h"

#include "fake_onnxruntime.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static fake_ort_control *control;
static const struct OrtApiBase *base;
static int env_object; /* the stand-in never looks at it */
static int options_object;
#define ENV     ((void *)&env_object)
#define OPTIONS ((struct OrtSessionOptions *)(void *)&options_object)

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    ck_assert_msg(found != NULL, "%s", dlerror());
    return found;
}

static void load_fake(void)
{
    void *library = dlopen(FAKE_ORT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    fake_ort_get_control_fn *get_control;
    const struct OrtApiBase *(*get_base)(void);
    void *found = symbol(library, "fake_ort_get_control");
    memcpy(&get_control, &found, sizeof get_control);
    found = symbol(library, "OrtGetApiBase");
    memcpy(&get_base, &found, sizeof get_base);
    control = get_control();
    base = get_base();
}

/* The table as the runtime's own users see it. */
typedef struct api_base {
    void (*const *(*get_api)(uint32_t))(void);
    const char *(*version)(void);
} api_base;

static void (*slot_of(size_t index))(void)
{
    const api_base *table = (const api_base *)(const void *)base;
    return table->get_api(17)[index];
}

static void (*release)(struct OrtSession *session); /* taken once: threads call it */

static void reset(void)
{
    if (control == NULL) {
        load_fake();
    }
    *control = (fake_ort_control){.version = "1.28.2",
                                  .newest_api = 28,
                                  .reserve_count = 5,
                                  .reserve_bytes = 1000,
                                  .allocate_count = 3,
                                  .allocate_bytes = 500};
    release = (void (*)(struct OrtSession *))slot_of(95);
    control->asked_count = 0;
}

static bool is_aligned(const void *block)
{
    return block != NULL && (uintptr_t)block % 64 == 0;
}

static strata_status load(ort_bench *b, struct OrtSession **out)
{
    return strata_ort_session_load(b->session, "model.onnx", OPTIONS, out, &b->err);
}

/* --- blocks ------------------------------------------------------------------------------------*/

/* Promise (case 53): odd sizes and no size at all give unique blocks, 64-byte aligned, that can be
 * written to their end and are freed by address alone, weights and run blocks alike. */
START_TEST(odd_sizes_are_served)
{
    static const size_t sizes[] = {0, 1, 3, 7, 63, 64, 65, 127, 4095, 4097, 65535, 1000003, 0};
    size_t count = sizeof sizes / sizeof sizes[0];
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    unsigned char *blocks[sizeof sizes / sizeof sizes[0] * 2];
    for (size_t i = 0; i < count * 2; i++) {
        size_t bytes = sizes[i % count];
        blocks[i] = i < count ? b.hook->allocate(b.hook, bytes) : b.hook->reserve(b.hook, bytes);
        ck_assert(is_aligned(blocks[i]));
        memset(blocks[i], (int)i + 1, bytes);
        for (size_t k = 0; k < i; k++) {
            ck_assert_ptr_ne(blocks[i], blocks[k]);
        }
    }
    for (size_t i = 0; i < count * 2; i++) {
        for (size_t k = 0; k < sizes[i % count]; k++) {
            ck_assert_uint_eq(blocks[i][k], i + 1);
        }
        b.hook->free(b.hook, blocks[i]);
    }
    strata_ort_session_info info = ort_bench_read(&b);
    ck_assert_uint_eq(info.allocations, count * 2);
    ck_assert_uint_eq(info.reserves, count);
    ck_assert_uint_eq(info.frees, count * 2);
    ck_assert_uint_eq(info.live_bytes, 0);
    ck_assert_uint_eq(info.weight_blocks, 0);
    ck_assert_uint_eq(info.refused_frees, 0);
    ck_assert_uint_ge(info.peak_bytes, (size_t)2 * 1000003);
    ck_assert_uint_eq(info.failed_allocations, 0);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: sizes that wrap around or that no reservation holds are refused through the runtime's
 * own allocator, and say why. */
START_TEST(impossible_sizes_are_refused)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 64, (size_t)1 << 63,
                                   (size_t)5 << 30};
    uint64_t refused = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_ptr_null(b.hook->allocate(b.hook, sizes[i]));
        ck_assert_ptr_null(b.hook->reserve(b.hook, sizes[i]));
        refused += 2;
        ck_assert_uint_eq(control->stock_calls, refused);
    }
    strata_ort_session_info info = ort_bench_read(&b);
    ck_assert_uint_eq(info.failed_allocations, refused);
    ck_assert_int_eq(info.last_failure.status, STRATA_LIMIT);
    ck_assert_uint_eq(info.live_blocks, 0);
    void *block = b.hook->allocate(b.hook, 100); /* and it goes on serving */
    ck_assert(is_aligned(block));
    b.hook->free(b.hook, block);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise (case 9): a free of what is not ours, of an address inside a block, or a second free
 * changes nothing, is counted, and makes the release say so while everything is returned. */
START_TEST(bad_frees_are_refused_and_reported)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    unsigned char *weight = b.hook->reserve(b.hook, 4096);
    unsigned char *other = b.hook->reserve(b.hook, 4096);
    unsigned char *run = b.hook->allocate(b.hook, 4096);
    memset(weight, 0xAB, 4096);
    memset(run, 0xCD, 4096);
    memcpy(weight + 64, weight - 64, 64); /* a copy of a header inside a block is no header */
    int foreign = 0;
    b.hook->free(b.hook, NULL); /* allowed, not counted */
    b.hook->free(b.hook, &foreign);
    b.hook->free(b.hook, weight + 128);
    b.hook->free(b.hook, weight + 1);
    b.hook->free(b.hook, run + 64);
    ck_assert_uint_eq(ort_bench_read(&b).refused_frees, 4);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 3);
    ck_assert_uint_eq(weight[4095], 0xAB);
    ck_assert_uint_eq(run[4095], 0xCD);
    b.hook->free(b.hook, weight);
    b.hook->free(b.hook, run);
    b.hook->free(b.hook, weight);
    b.hook->free(b.hook, run);
    ck_assert_uint_eq(ort_bench_read(&b).refused_frees, 6);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 1);
    b.hook->free(b.hook, other);
    b.hook->free(b.hook, other); /* now the arena is empty */
    ck_assert_uint_eq(ort_bench_read(&b).refused_frees, 7);

    assert_status(ort_bench_release(&b), STRATA_FOREIGN);
    ck_assert_uint_eq(b.report.failed, 1);
    ck_assert_str_eq(b.report.details[0].label, "rec");
    ck_assert_ptr_nonnull(strstr(b.report.details[0].error.text, "7 free(s)"));
    ck_assert_uint_eq(b.report.bytes_held_after, 0);
    assert_status(ort_bench_release(&b), STRATA_OK); /* said once */
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: while the runtime holds a block the release refuses with label and bytes and touches
 * nothing; it says whether the session or only an output is left; letting go lets it succeed. */
START_TEST(held_blocks_refuse_the_release)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    struct OrtSession *session = NULL;
    assert_ok(load(&b, &session), b.err);
    unsigned char *output = b.hook->allocate(b.hook, 409600);
    memset(output, 7, 409600);
    uint64_t unmaps = fake_system_calls(&b.system, FAKE_UNMAP);

    assert_status(ort_bench_release(&b), STRATA_BUSY);
    ck_assert_uint_eq(b.report.attempted, 0);
    ck_assert_uint_eq(b.report.refused, 1);
    ck_assert_str_eq(b.report.details[0].label, "rec");
    ck_assert_ptr_nonnull(strstr(b.report.details[0].error.text, "session has not been released"));
    release(session);

    assert_status(ort_bench_release(&b), STRATA_BUSY);
    char held[64]; /* by the heap's size classes, so not less than was asked for */
    size_t bytes = ort_bench_read(&b).live_bytes;
    (void)snprintf(held, sizeof held, "1 output(s) or other block(s) of %zu bytes", bytes);
    ck_assert_uint_ge(bytes, 409600);
    ck_assert_ptr_nonnull(strstr(b.report.details[0].error.text, held));
    ck_assert_uint_eq(b.report.details[0].held_bytes, bytes);
    ck_assert_uint_eq(fake_system_calls(&b.system, FAKE_UNMAP), unmaps);
    ck_assert_uint_eq(output[409599], 7);
    assert_status(strata_ort_session_destroy(&b.session), STRATA_BUSY);
    ck_assert_ptr_nonnull(b.session);

    b.hook->free(b.hook, output);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ck_assert_str_eq(b.report.order[0], "rec");
    ck_assert_str_eq(b.report.order[1], "run");
    ck_assert_str_eq(b.report.order[2], "weights");
    ck_assert_int_eq(b.report.verdict, STRATA_VERDICT_VERIFIED);
    ck_assert_uint_eq(b.report.bytes_held_after, 0);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: calls that come after the release are refused and counted, and touch no memory. */
START_TEST(late_calls_are_refused)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    void *block = b.hook->allocate(b.hook, 100);
    b.hook->free(b.hook, block);
    assert_status(ort_bench_release(&b), STRATA_OK);
    strata_ort_session_info before = ort_bench_read(&b);
    b.hook->free(b.hook, block);
    ck_assert_ptr_null(b.hook->allocate(b.hook, 100));
    ck_assert_ptr_null(b.hook->reserve(b.hook, 100));
    strata_ort_session_info after = ort_bench_read(&b);
    ck_assert_uint_eq(before.late_calls, 0);
    ck_assert_uint_eq(after.late_calls, 3);
    ck_assert(after.released);
    ck_assert_int_eq(after.last_failure.status, STRATA_CLOSED);
    ck_assert_uint_eq(after.allocations, before.allocations);
    struct OrtSession *session = NULL;
    assert_status(load(&b, &session), STRATA_CLOSED);
    ck_assert_uint_eq(control->registers, 0);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- loading -----------------------------------------------------------------------------------*/

/* Promise: a load registers, creates and unregisters, in this order; weights come from the arena
 * and the rest from the heap; the session keeps its allocator when the next one is registered. */
START_TEST(each_session_keeps_its_own)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    struct OrtSession *first = NULL;
    assert_ok(load(&b, &first), b.err);
    ck_assert_ptr_null(control->registered);
    ck_assert_uint_eq(control->registers, 1);
    ck_assert_uint_eq(control->unregisters, 1);
    strata_ort_session_info loaded = ort_bench_read(&b);
    ck_assert_uint_eq(loaded.weight_blocks, 5);
    ck_assert_uint_eq(loaded.weight_bytes, 5000);
    ck_assert_uint_eq(loaded.live_blocks, 8);
    assert_status(load(&b, &first), STRATA_ORDER); /* one session at a time in one memory */

    ort_bench other = {.process = b.process, .env = b.env};
    ort_bench_open(&other, NULL);
    struct OrtSession *second = NULL;
    assert_ok(
        strata_ort_session_load_bytes(other.session, "model", 5, OPTIONS, &second, &other.err),
        other.err);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 8);
    ck_assert_uint_eq(ort_bench_read(&other).live_blocks, 8);

    assert_status(strata_ort_env_destroy(&b.env), STRATA_BUSY);
    release(first);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ck_assert_uint_eq(ort_bench_read(&other).live_blocks, 8);
    release(second);
    assert_status(ort_bench_release(&other), STRATA_OK);
    ort_bench_close(&other);
    ort_bench_end(&b);
    ck_assert_uint_eq(control->live_statuses, 0);
    ck_assert_uint_eq(control->live_memory_infos, 0);
}
END_TEST

typedef struct loader {
    ort_bench bench;
    strata_status status;
} loader;

static void *load_in_a_thread(void *user)
{
    loader *l = user;
    for (int i = 0; i < 20; i++) {
        struct OrtSession *session = NULL;
        l->status = load(&l->bench, &session);
        if (l->status != STRATA_OK) {
            return NULL;
        }
        if (ort_bench_read(&l->bench).live_blocks != 8) {
            l->status = STRATA_CORRUPT; /* somebody else's session took its blocks here */
            return NULL;
        }
        release(session);
    }
    return NULL;
}

/* Promise: loads on several threads take turns, and none gets another's allocator. */
START_TEST(loads_take_turns)
{
    enum { THREADS = 4 };
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    loader loaders[THREADS] = {0};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        loaders[i].bench = (ort_bench){.process = b.process, .env = b.env};
        ort_bench_open(&loaders[i].bench, NULL);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_in_a_thread, &loaders[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_ok(loaders[i].status, loaders[i].bench.err);
        assert_status(ort_bench_release(&loaders[i].bench), STRATA_OK);
        ort_bench_close(&loaders[i].bench);
    }
    ck_assert_uint_eq(control->overlapping, 0);
    ck_assert_uint_eq(control->creates, 80);
    ort_bench_end(&b);
}
END_TEST

/* Promise: a runtime that will not register, create or unregister leaves nothing half done, and the
 * error carries its code and message in one line. */
START_TEST(failing_steps_of_a_load)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    struct OrtSession *session = NULL;

    control->fail_register = true;
    assert_status(load(&b, &session), STRATA_RESOURCE);
    ck_assert_int_eq(b.err.origin, STRATA_ORIGIN_RESOURCE);
    ck_assert_int_eq(b.err.native, 1);
    ck_assert_ptr_nonnull(strstr(b.err.text, "RegisterAllocator: 1: registering is refused"));
    ck_assert_uint_eq(control->creates, 0);
    control->fail_register = false;

    control->fail_create = true;
    assert_status(load(&b, &session), STRATA_RESOURCE);
    ck_assert_str_eq(b.err.text, "CreateSession: 7: the model cannot be parsed");
    ck_assert_ptr_null(control->registered);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 0);
    control->fail_create = false;
    ck_assert_ptr_null(session);

    assert_ok(load(&b, &session), b.err); /* the same memory serves the next try */
    release(session);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
    ck_assert_uint_eq(control->live_statuses, 0);
}
END_TEST

/* Promise: a registration that the runtime will not take back costs the new session, keeps the
 * allocator's control block alive, and is tried again by the next load and by destroy. */
START_TEST(unregistering_fails)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    struct OrtSession *session = NULL;
    control->fail_unregister = true;
    assert_status(load(&b, &session), STRATA_RESOURCE);
    ck_assert_ptr_null(session);
    ck_assert_uint_eq(control->releases, 1);
    ck_assert(ort_bench_read(&b).registered);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 0);
    assert_status(load(&b, &session), STRATA_RESOURCE);
    ck_assert_ptr_nonnull(strstr(b.err.text, "no session can be loaded"));
    ck_assert_uint_eq(control->creates, 1);

    assert_status(ort_bench_release(&b), STRATA_OK);
    assert_status(strata_ort_session_destroy(&b.session), STRATA_BUSY);
    ck_assert_ptr_nonnull(b.session);
    ck_assert_ptr_null(b.hook->allocate(b.hook, 1)); /* the runtime may still call: it is refused */
    control->fail_unregister = false;
    ort_bench_close(&b);
    ck_assert_ptr_null(control->registered);
    ort_bench_end(&b);
}
END_TEST

/* Promise: a runtime that keeps blocks of a load that failed is found out: the scope around the
 * load refuses to close, with label and bytes. */
START_TEST(a_runtime_that_leaks_is_named)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    control->fail_create = true;
    control->leak_on_failed_create = true;
    struct OrtSession *session = NULL;
    assert_status(load(&b, &session), STRATA_RESOURCE);
    assert_status(ort_bench_release(&b), STRATA_BUSY);
    ck_assert_str_eq(b.report.details[0].label, "rec");
    ck_assert_uint_ge(b.report.details[0].held_bytes, 5000 + 1500);
    while (control->leaked_count > 0) {
        b.hook->free(b.hook, control->leaked[--control->leaked_count]);
    }
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- versions ----------------------------------------------------------------------------------*/

static strata_status create_env(const char *version, uint32_t newest, strata_ort_env **env,
                                strata_error *err)
{
    control->version = version;
    control->newest_api = newest;
    return strata_ort_env_create(env, base, ENV, NULL, err);
}

/* Promise: the newest layout that both know is used; no version is asked for that the runtime
 * lacks, because it complains on stderr; below 17 there is one clear line. */
START_TEST(versions)
{
    static const struct {
        const char *text;
        uint32_t newest, expected;
    } known[] = {{"1.17.1", 17, 17}, {"1.18.0", 18, 18}, {"1.22.0", 22, 22},
                 {"1.23.2", 23, 23}, {"1.30.0", 30, 23}, {"2.0.0", 30, 23}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        strata_ort_env *env = NULL;
        strata_error err = {0};
        control->asked_count = 0;
        assert_ok(create_env(known[i].text, known[i].newest, &env, &err), err);
        ck_assert_uint_eq(strata_ort_env_api_version(env), known[i].expected);
        ck_assert_str_eq(strata_ort_env_runtime_version(env), known[i].text);
        ck_assert_uint_eq(control->asked_count, 1);
        assert_status(strata_ort_env_destroy(&env), STRATA_OK);
    }
    strata_ort_env *env = NULL;
    strata_error err = {0};
    assert_status(create_env("1.16.3", 16, &env, &err), STRATA_UNSUPPORTED);
    ck_assert_str_eq(err.text, "ONNX Runtime 1.16.3 is too old: 1.17 or later is needed");
    assert_status(create_env("what", 16, &env, &err), STRATA_UNSUPPORTED);
    assert_status(strata_ort_env_create(&env, NULL, ENV, NULL, &err), STRATA_INVALID);
    assert_status(strata_ort_env_create(&env, base, NULL, NULL, &err), STRATA_INVALID);
    ck_assert_ptr_null(env);
}
END_TEST

static void check_version(uint32_t version, const char *text, bool reserve, bool statistics)
{
    control->version = text;
    control->newest_api = version;
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    ck_assert_uint_eq(b.hook->version, version);
    ck_assert_int_eq(b.hook->reserve != NULL, reserve);
    ck_assert_int_eq(b.hook->get_statistics != NULL, statistics);
    ck_assert_ptr_null(b.hook->allocate_on_stream);
    struct OrtSession *session = NULL;
    assert_ok(load(&b, &session), b.err);
    ck_assert_uint_eq(ort_bench_read(&b).weight_blocks, reserve ? 5 : 0);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 8);
    release(session);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}

/* Promise: no version is claimed beyond what is filled in; without Reserve, weights go into the
 * heap and everything else holds. */
START_TEST(layouts)
{
    check_version(17, "1.17.3", false, false);
    check_version(18, "1.18.1", true, false);
    check_version(22, "1.22.2", true, false);
    check_version(23, "1.23.0", true, true);
}
END_TEST

static uint64_t statistic(const void *pairs, const char *key)
{
    const char *(*get)(const void *, const char *) =
        (const char *(*)(const void *, const char *))slot_of(297);
    const char *text = get(pairs, key);
    ck_assert_msg(text != NULL, "%s is missing", key);
    return strtoull(text, NULL, 10);
}

/* Promise: the statistics are there under the runtime's own keys, and are the adapter's counts. */
START_TEST(statistics)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    struct OrtSession *session = NULL;
    assert_ok(load(&b, &session), b.err);
    void *pairs = NULL;
    ck_assert_ptr_null(b.hook->get_statistics(b.hook, &pairs));
    strata_ort_session_info info = ort_bench_read(&b);
    ck_assert_uint_eq(statistic(pairs, "InUse"), info.live_bytes);
    ck_assert_uint_eq(statistic(pairs, "MaxInUse"), info.peak_bytes);
    ck_assert_uint_eq(statistic(pairs, "NumAllocs"), 8);
    ck_assert_uint_eq(statistic(pairs, "NumReserves"), 5);
    ck_assert_uint_eq(statistic(pairs, "MaxAllocSize"), 1000);
    ck_assert_uint_eq(statistic(pairs, "TotalAllocated"), info.total_bytes);
    ((void (*)(void *))slot_of(300))(pairs);
    ck_assert_uint_eq(control->live_pairs, 0);
    release(session);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: the options that the documentation names are the ones that are set. */
START_TEST(options)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    assert_ok(strata_ort_options_prepare(b.env, OPTIONS, &b.err), b.err);
    ck_assert_str_eq(control->options, STRATA_ORT_OPTIONS);
    ort_bench_end(&b);
}
END_TEST

/* --- failing -----------------------------------------------------------------------------------*/

/* Promise: an environment whose runtime refuses what it needs, or that gets no memory, is not half
 * made. */
START_TEST(an_environment_that_fails)
{
    strata_ort_env *env = NULL;
    strata_error err = {0};
    control->fail_default_allocator = true;
    assert_status(strata_ort_env_create(&env, base, ENV, NULL, &err), STRATA_RESOURCE);
    control->fail_default_allocator = false;
    control->fail_memory_info = true;
    assert_status(strata_ort_env_create(&env, base, ENV, NULL, &err), STRATA_RESOURCE);
    ck_assert_str_eq(err.text, "CreateMemoryInfo: 1: no memory info today");
    control->fail_memory_info = false;
    fake_memory memory;
    fake_memory_init(&memory);
    fake_memory_fail(&memory, 1, false);
    assert_status(strata_ort_env_create(&env, base, ENV, &memory.memory, &err), STRATA_NO_MEMORY);
    ck_assert_uint_eq(fake_memory_live(&memory), 0);
    fake_memory_fini(&memory);
    ck_assert_ptr_null(env);
    ck_assert_uint_eq(control->live_statuses, 0);
    ck_assert_uint_eq(control->live_memory_infos, 0);
}
END_TEST

/* One load in a scope, as a program would write it. *failed: it did, and was undone. */
static void load_in_a_scope(ort_bench *b, bool *failed)
{
    *failed = false;
    b->err = (strata_error){0};
    if (ort_bench_try_open(b, NULL) != STRATA_OK) {
        *failed = true;
        return;
    }
    struct OrtSession *session = NULL;
    if (load(b, &session) != STRATA_OK) {
        *failed = true;
        ck_assert_ptr_null(session);
        ck_assert(b->err.text[0] != '\0');
    } else {
        release(session);
    }
    assert_status(ort_bench_release(b), STRATA_OK);
    ck_assert_uint_eq(b->report.bytes_held_after, 0);
    ort_bench_close(b);
}

static void check_given_back(ort_bench *b, size_t mappings, size_t blocks, uint64_t nth)
{
    strata_ledger_counts counts;
    strata_ledger_read(strata_process_ledger(b->process), &counts);
    ck_assert_msg(counts.committed_bytes == 0, "call %llu: %llu bytes held",
                  (unsigned long long)nth, (unsigned long long)counts.committed_bytes);
    ck_assert_msg(fake_system_live(&b->system) == mappings, "call %llu: mappings left",
                  (unsigned long long)nth);
    ck_assert_msg(fake_memory_live(&b->memory) == blocks, "call %llu: control blocks left",
                  (unsigned long long)nth);
    ck_assert_ptr_null(control->registered);
    ck_assert_uint_eq(control->live_statuses, 0);
}

/* Promise (case 12): a load whose k-th system call or control block fails, for every k, gives
 * everything back. Calls that return memory are not failed here: then nothing could be given back;
 * those are the region's and the model's tests. */
START_TEST(every_kth_failure_of_a_load)
{
    static const fake_call calls[] = {FAKE_MAP, FAKE_PROTECT, FAKE_ADVISE, FAKE_CALL_COUNT_};
    control->reserve_count = 20;
    control->reserve_bytes = 300000; /* several extents */
    control->allocate_count = 10;
    control->allocate_bytes = 700000;
    for (size_t kind = 0; kind < 8; kind++) {
        fake_call call = calls[kind / 2];
        bool from_then_on = kind % 2 == 1;
        ort_bench b = {0};
        ort_bench_begin(&b, base, ENV);
        size_t blocks = fake_memory_live(&b.memory);
        size_t mappings = fake_system_live(&b.system);
        uint64_t failures = 0;
        uint64_t injected = 1;
        for (uint64_t nth = 1; injected > 0; nth++) {
            if (call == FAKE_CALL_COUNT_) {
                fake_memory_fail(&b.memory, nth, from_then_on);
            } else {
                fake_system_fail(&b.system, call, nth, from_then_on, ENOMEM);
            }
            bool failed;
            load_in_a_scope(&b, &failed);
            injected = call == FAKE_CALL_COUNT_ ? fake_memory_injected(&b.memory)
                                                : fake_system_injected(&b.system);
            failures += failed;
            fake_memory_heal(&b.memory);
            fake_system_heal(&b.system);
            check_given_back(&b, mappings, blocks, nth);
            ck_assert_uint_lt(nth, 1000);
        }
        /* Advice is a wish: a system that refuses it serves plain pages. */
        ck_assert_msg(failures > 0 || call == FAKE_ADVISE, "kind %zu: nothing failed", kind);
        ort_bench_end(&b);
    }
}
END_TEST

/* Promise: a set that cannot be opened leaves its strand as it was, at once and not only when the
 * model goes: nothing mapped, nothing committed, and the error says what was undone. */
START_TEST(a_set_that_cannot_be_opened)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    assert_ok(strata_model_open(&b.model, b.process, NULL, &b.err), b.err);
    size_t mappings = fake_system_live(&b.system);
    size_t undone = 0;
    strata_status status = STRATA_NO_MEMORY;
    for (uint64_t nth = 1; status != STRATA_OK; nth++) {
        b.err = (strata_error){0};
        fake_system_fail(&b.system, FAKE_MAP, nth, true, ENOMEM);
        status =
            strata_ort_session_open(&b.session, b.env, strata_model_root(b.model), NULL, &b.err);
        fake_system_heal(&b.system);
        if (status != STRATA_OK) {
            ck_assert_ptr_null(b.session);
            ck_assert_uint_eq(fake_system_live(&b.system), mappings);
            ck_assert_ptr_nonnull(strstr(b.err.text, "session: "));
            undone += strstr(b.err.text, "undone: 1 resource(s): weights") != NULL;
        }
        ck_assert_uint_lt(nth, 100);
    }
    ck_assert_uint_ge(undone, 1);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: weights that are all back leave their arena empty: loading again does not grow it. */
START_TEST(loading_again_does_not_grow)
{
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    strata_area_info weights;
    for (int i = 0; i < 50; i++) {
        struct OrtSession *session = NULL;
        assert_ok(load(&b, &session), b.err);
        release(session);
        ck_assert(strata_model_area(b.model, "weights", &weights));
        ck_assert_uint_eq(weights.used_bytes, 0);
    }
    ck_assert_uint_le(weights.used_peak_bytes, UINTMAX_C(5) * (1000 + 256));
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: where the budget ends a load, the error is the allocator's and names it, not only the
 * runtime's "bad_alloc". */
START_TEST(a_budget_is_named)
{
    control->reserve_count = 10;
    control->reserve_bytes = 1 << 20;
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, "model.budget:6MiB");
    struct OrtSession *session = NULL;
    assert_status(load(&b, &session), STRATA_BUDGET);
    ck_assert_ptr_nonnull(strstr(b.err.text, "rec: out of memory while loading"));
    ck_assert_ptr_nonnull(strstr(b.err.text, "budget"));
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, 0);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- threads -----------------------------------------------------------------------------------*/

typedef struct worker {
    hook *hook;
    unsigned seed;
    size_t damaged;
} worker;

static void *churn(void *user)
{
    worker *w = user;
    unsigned char *blocks[32] = {0};
    size_t sizes[32] = {0};
    unsigned state = w->seed;
    for (int i = 0; i < 20000; i++) {
        state = state * 1664525U + 1013904223U;
        size_t at = (state >> 8) % 32;
        if (blocks[at] != NULL) {
            w->damaged += blocks[at][0] != (unsigned char)w->seed ||
                          blocks[at][sizes[at] - 1] != (unsigned char)w->seed;
            w->hook->free(w->hook, blocks[at]);
            blocks[at] = NULL;
            continue;
        }
        sizes[at] = 1 + (state >> 16) % 5000;
        bool weight = i % 16 == 0;
        blocks[at] = weight ? w->hook->reserve(w->hook, sizes[at])
                            : w->hook->allocate(w->hook, sizes[at]);
        w->damaged += !is_aligned(blocks[at]);
        if (blocks[at] != NULL) {
            blocks[at][0] = (unsigned char)w->seed;
            blocks[at][sizes[at] - 1] = (unsigned char)w->seed;
        }
    }
    for (size_t i = 0; i < 32; i++) {
        w->hook->free(w->hook, blocks[i]);
    }
    return NULL;
}

/* Promise: the runtime may call from all its threads at once; every block is one thread's, and the
 * counts come out even. */
START_TEST(many_threads)
{
    enum { THREADS = 4 };
    ort_bench b = {0};
    ort_bench_begin(&b, base, ENV);
    ort_bench_open(&b, NULL);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){.hook = b.hook, .seed = i + 1};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(workers[i].damaged, 0);
    }
    strata_ort_session_info info = ort_bench_read(&b);
    ck_assert_uint_eq(info.live_blocks, 0);
    ck_assert_uint_eq(info.live_bytes, 0);
    ck_assert_uint_eq(info.refused_frees, 0);
    ck_assert_uint_gt(info.allocations, 10000);
    assert_status(ort_bench_release(&b), STRATA_OK);
    ort_bench_close(&b);
    ort_bench_end(&b);
}
END_TEST

static void *call_until_refused(void *user)
{
    worker *w = user;
    for (;;) {
        void *block = w->hook->allocate(w->hook, 100);
        if (block == NULL) {
            return NULL;
        }
        w->hook->free(w->hook, block);
    }
}

/* Promise: a release beside a runtime that still calls either refuses or shuts the door first; no
 * call touches memory that is gone. */
START_TEST(a_release_beside_calls)
{
    for (int round = 0; round < 20; round++) {
        ort_bench b = {0};
        ort_bench_begin(&b, base, ENV);
        ort_bench_open(&b, NULL);
        worker w = {.hook = b.hook};
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, call_until_refused, &w), 0);
        strata_status status;
        do {
            status = ort_bench_release(&b);
        } while (status == STRATA_BUSY ||
                 status == STRATA_TIMEOUT); /* a block, or the gate, is held */
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        /* A block that was taken between question and release dies with the heap; its free came
         * late and is counted, nothing worse. */
        ck_assert_msg(status == STRATA_OK, "%s: %s", strata_status_name(status),
                      b.report.details[0].error.text);
        ck_assert_uint_eq(b.report.bytes_held_after, 0);
        ort_bench_close(&b);
        ort_bench_end(&b);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onnxruntime hook");
    TCase *tests = add_case(suite, "hook");
    tcase_add_checked_fixture(tests, reset, NULL);
    tcase_add_test(tests, odd_sizes_are_served);
    tcase_add_test(tests, impossible_sizes_are_refused);
    tcase_add_test(tests, bad_frees_are_refused_and_reported);
    tcase_add_test(tests, held_blocks_refuse_the_release);
    tcase_add_test(tests, late_calls_are_refused);
    tcase_add_test(tests, each_session_keeps_its_own);
    tcase_add_test(tests, loads_take_turns);
    tcase_add_test(tests, failing_steps_of_a_load);
    tcase_add_test(tests, unregistering_fails);
    tcase_add_test(tests, a_runtime_that_leaks_is_named);
    tcase_add_test(tests, versions);
    tcase_add_test(tests, layouts);
    tcase_add_test(tests, statistics);
    tcase_add_test(tests, options);
    tcase_add_test(tests, an_environment_that_fails);
    tcase_add_test(tests, every_kth_failure_of_a_load);
    tcase_add_test(tests, a_set_that_cannot_be_opened);
    tcase_add_test(tests, loading_again_does_not_grow);
    tcase_add_test(tests, a_budget_is_named);
    tcase_add_test(tests, many_threads);
    tcase_add_test(tests, a_release_beside_calls);
    return run_suite(suite);
}

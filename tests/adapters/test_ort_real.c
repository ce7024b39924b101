/* test_ort_real.c - the adapter's promises with the real runtime and real models.
 *
 * The build says where they are: ORT_LIBRARY and ORT_MODELS, the folder with the PP-OCRv4 models;
 * empty where nobody named them, and then the program says that it skips. Outputs are compared
 * within one process, never with a stored value: another machine computes other bits. */
#include "ort_bench.h"

#include <infer_runtime.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define MODELS 3

static const char *const model_names[MODELS] = {"ch_PP-OCRv4_det_infer.onnx",
                                                "ch_PP-OCRv4_rec_infer.onnx",
                                                "ch_ppocr_mobile_v2.0_cls_infer.onnx"};
/* Width and height; a model with a fixed height keeps it. Multiples of 32: det's steps. */
static const infer_picture pictures[] = {{320, 320}, {192, 96}, {640, 64}};
#define PICTURES (sizeof pictures / sizeof pictures[0])

static char paths[MODELS][1024];
static infer_runtime *runtime;

/* The runtime has one environment a process: opened once, before the first test. */
static void open_runtime(void)
{
    if (runtime == NULL) {
        strata_error err = {0};
        assert_ok(infer_runtime_open(&runtime, ORT_LIBRARY, &err), err);
    }
}

static void begin(ort_bench *b)
{
    ort_bench_begin(b, infer_runtime_base(runtime), infer_runtime_env(runtime));
}

static struct OrtSessionOptions *options_of(ort_bench *b, unsigned threads)
{
    struct OrtSessionOptions *options = infer_runtime_options(runtime, threads, b->env, &b->err);
    ck_assert_msg(options != NULL, "%s", b->err.text);
    return options;
}

static struct OrtSession *load(ort_bench *b, size_t model, const struct OrtSessionOptions *options)
{
    struct OrtSession *session = NULL;
    assert_ok(strata_ort_session_load(b->session, paths[model], options, &session, &b->err),
              b->err);
    return session;
}

static struct OrtSession *load_stock(size_t model, const struct OrtSessionOptions *options)
{
    struct OrtSession *session = NULL;
    strata_error err = {0};
    assert_ok(infer_runtime_create(runtime, paths[model], options, &session, &err), err);
    return session;
}

static infer_inputs inputs_of(struct OrtSession *session, infer_picture picture)
{
    infer_inputs inputs;
    strata_error err = {0};
    assert_ok(infer_inputs_make(runtime, session, picture, &inputs, &err), err);
    return inputs;
}

static void run(struct OrtSession *session, const infer_inputs *inputs, infer_output *output)
{
    strata_error err = {0};
    assert_ok(infer_run(runtime, session, inputs, output, NULL, NULL, &err), err);
}

static void release_and_close(ort_bench *b)
{
    assert_status(ort_bench_release(b), STRATA_OK);
    ck_assert_uint_eq(b->report.bytes_held_after, 0);
    ck_assert_int_eq(b->report.verdict, STRATA_VERDICT_VERIFIED);
    strata_ort_session_info info = ort_bench_read(b);
    ck_assert_uint_eq(info.allocations, info.frees);
    ck_assert_uint_eq(info.refused_frees, 0);
    ck_assert_uint_eq(info.late_calls, 0);
    ort_bench_close(b);
}

/* --- outputs -----------------------------------------------------------------------------------*/

static void check_same_outputs(size_t model, unsigned threads)
{
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    struct OrtSessionOptions *options = options_of(&b, threads);
    struct OrtSession *stock = load_stock(model, options);
    struct OrtSession *ours = load(&b, model, options);
    infer_output expected = {0};
    infer_output got = {0};
    for (size_t i = 0; i < PICTURES * 2; i++) {
        infer_inputs inputs = inputs_of(ours, pictures[i % PICTURES]);
        run(stock, &inputs, &expected);
        run(ours, &inputs, &got);
        ck_assert_uint_gt(got.length, 0);
        ck_assert_msg(infer_output_same(&expected, &got), "%s %s, %u thread(s): other output",
                      model_names[model], inputs.shape, threads);
        infer_inputs_free(runtime, &inputs);
    }
    infer_output_free(&expected);
    infer_output_free(&got);
    infer_runtime_release(runtime, stock);
    infer_runtime_release(runtime, ours);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}

/* Promise: outputs equal the stock allocator's bit for bit with the same session options, for three
 * models, several shapes, first and later runs, one thread and two; and everything taken through
 * the hook came back by itself. */
START_TEST(outputs_are_the_stock_allocators)
{
    check_same_outputs((size_t)_i / 2, 1 + (unsigned)_i % 2);
}
END_TEST

static bool lies_in(const strata_area_info *area, const void *address)
{
    const char *base = area->region.base;
    return (const char *)address >= base &&
           (const char *)address < base + area->region.committed_bytes;
}

typedef struct probe {
    ort_bench *bench;
    hook original;
    uint64_t calls;
    uint64_t fail_at; /* of these calls; 0: none */
    uint64_t outside; /* blocks that lie in neither of the model's regions */
} probe;

static probe watched; /* the hook's functions are handed no user pointer */

static void *checked(void *block, bool weight)
{
    strata_area_info area;
    ck_assert(strata_model_area(watched.bench->model, weight ? "weights" : "run", &area));
    watched.outside += !lies_in(&area, block);
    return block;
}

/* The k-th call asks for more than any region holds, so that what fails is the adapter itself. */
static void *watching_allocate(hook *self, size_t bytes)
{
    bool fail = ++watched.calls == watched.fail_at;
    void *block = watched.original.allocate(self, fail ? SIZE_MAX / 4 : bytes);
    return watched.fail_at != 0 ? block : checked(block, false);
}

static void *watching_reserve(hook *self, size_t bytes)
{
    bool fail = ++watched.calls == watched.fail_at;
    void *block = watched.original.reserve(self, fail ? SIZE_MAX / 4 : bytes);
    return watched.fail_at != 0 ? block : checked(block, true);
}

static void watch(ort_bench *b)
{
    watched = (probe){.bench = b, .original = *b->hook};
    b->hook->allocate = watching_allocate;
    b->hook->reserve = b->hook->reserve == NULL ? NULL : watching_reserve;
}

/* Promise: every weight that comes through the hook lies in the arena's region and every block of
 * inference in the heap's; with the prepared options the arena has all weights of the file. */
START_TEST(blocks_lie_in_the_models_regions)
{
    static const size_t weights_least[MODELS] = {4000000, 10000000, 500000};
    size_t model = (size_t)_i;
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    watch(&b);
    struct OrtSessionOptions *options = options_of(&b, 1);
    struct OrtSession *session = load(&b, model, options);
    strata_ort_session_info loaded = ort_bench_read(&b);
    ck_assert_uint_ge(loaded.live_bytes, weights_least[model]);
    if (b.hook->reserve != NULL) {
        ck_assert_uint_eq(loaded.weight_blocks, loaded.live_blocks);
    }
    infer_inputs inputs = inputs_of(session, pictures[0]);
    run(session, &inputs, NULL);
    run(session, &inputs, NULL);
    ck_assert_uint_gt(watched.calls, loaded.allocations);
    ck_assert_uint_eq(watched.outside, 0);
    ck_assert_uint_eq(ort_bench_read(&b).live_blocks, loaded.live_blocks); /* outputs are back */
    infer_inputs_free(runtime, &inputs);
    infer_runtime_release(runtime, session);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* The table as the runtime's own users see it; from API 23 on. */
typedef void (*slot)(void);

static slot slot_of(size_t index)
{
    typedef struct api_base {
        const slot *(*get_api)(uint32_t version);
    } api_base;
    return ((const api_base *)(const void *)infer_runtime_base(runtime))->get_api(23)[index];
}

static void ask_statistics(ort_bench *b)
{
    void *pairs = NULL;
    void *status = ((void *(*)(const void *, void **))slot_of(319))(b->hook, &pairs);
    ck_assert_ptr_null(status);
    strata_ort_session_info info = ort_bench_read(b);
    const char *(*get)(const void *, const char *) =
        (const char *(*)(const void *, const char *))slot_of(297);
    ck_assert_ptr_nonnull(get(pairs, "InUse"));
    ck_assert_uint_eq(strtoull(get(pairs, "InUse"), NULL, 10), info.live_bytes);
    ck_assert_uint_eq(strtoull(get(pairs, "NumReserves"), NULL, 10), info.reserves);
    ck_assert_uint_gt(info.reserves, 0);
    ((void (*)(void *))slot_of(300))(pairs);
}

/* Promise: asked through the runtime's own AllocatorGetStats, the statistics are the adapter's
 * counts, in an object that the runtime made and frees. */
START_TEST(statistics_through_the_runtime)
{
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    struct OrtSessionOptions *options = options_of(&b, 1);
    struct OrtSession *session = load(&b, 2, options);
    if (strata_ort_env_api_version(b.env) >= 23) {
        ask_statistics(&b);
    } else {
        ck_assert(b.hook->get_statistics == NULL);
    }
    infer_runtime_release(runtime, session);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- three at once -----------------------------------------------------------------------------*/

typedef struct serving {
    ort_bench bench;
    struct OrtSession *session;
    infer_inputs inputs;
    infer_output expected;
    pthread_t thread;
    uint32_t stop;
    uint64_t rounds; /* atomic */
    uint64_t wrong;
    strata_error err;
} serving;

static void *serve(void *user)
{
    serving *s = user;
    infer_output got = {0};
    while (__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) == 0 && s->err.status == STRATA_OK) {
        if (infer_run(runtime, s->session, &s->inputs, &got, NULL, NULL, &s->err) == STRATA_OK) {
            s->wrong += !infer_output_same(&got, &s->expected);
            (void)__atomic_add_fetch(&s->rounds, 1, __ATOMIC_RELEASE);
        }
    }
    infer_output_free(&got);
    return NULL;
}

static void wait_for_rounds(serving *s, size_t from, uint64_t more)
{
    for (size_t i = from; i < MODELS; i++) {
        uint64_t had = __atomic_load_n(&s[i].rounds, __ATOMIC_ACQUIRE);
        while (__atomic_load_n(&s[i].rounds, __ATOMIC_ACQUIRE) < had + more &&
               __atomic_load_n(&s[i].err.status, __ATOMIC_RELAXED) == STRATA_OK) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
}

/* Promise: three models run at once on three threads, and are released one by one while the others
 * go on, whose outputs stay right. */
START_TEST(released_one_by_one)
{
    ort_bench shared = {0};
    begin(&shared);
    struct OrtSessionOptions *options = options_of(&shared, 1);
    serving s[MODELS] = {0};
    for (size_t i = 0; i < MODELS; i++) {
        s[i].bench = (ort_bench){.process = shared.process, .env = shared.env};
        ort_bench_open(&s[i].bench, NULL);
        s[i].session = load(&s[i].bench, i, options);
        s[i].inputs = inputs_of(s[i].session, pictures[1]);
        struct OrtSession *stock = load_stock(i, options);
        run(stock, &s[i].inputs, &s[i].expected);
        infer_runtime_release(runtime, stock);
    }
    for (size_t i = 0; i < MODELS; i++) {
        ck_assert_int_eq(pthread_create(&s[i].thread, NULL, serve, &s[i]), 0);
    }
    for (size_t i = 0; i < MODELS; i++) {
        wait_for_rounds(s, i, 3);
        __atomic_store_n(&s[i].stop, 1U, __ATOMIC_RELEASE);
        ck_assert_int_eq(pthread_join(s[i].thread, NULL), 0);
        infer_inputs_free(runtime, &s[i].inputs);
        infer_runtime_release(runtime, s[i].session);
        release_and_close(&s[i].bench);
        assert_ok(s[i].err.status, s[i].err);
        ck_assert_uint_eq(s[i].wrong, 0);
        ck_assert_uint_ge(s[i].rounds, 3);
        infer_output_free(&s[i].expected);
    }
    infer_runtime_options_release(runtime, options);
    ort_bench_end(&shared);
}
END_TEST

/* --- held outputs ------------------------------------------------------------------------------*/

/* Promise: an output held past its session makes the release refuse with the owner's label and
 * bytes, nothing touched; letting it go and releasing again succeeds. */
START_TEST(a_held_output_refuses_the_release)
{
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    struct OrtSessionOptions *options = options_of(&b, 1);
    struct OrtSession *session = load(&b, 1, options);
    infer_inputs inputs = inputs_of(session, pictures[0]);
    struct OrtValue *held = NULL;
    assert_ok(infer_run(runtime, session, &inputs, NULL, &held, NULL, &b.err), b.err);
    bool told_apart = b.hook->reserve != NULL;
    assert_status(ort_bench_release(&b), STRATA_BUSY);
    ck_assert_ptr_nonnull(
        strstr(b.report.details[0].error.text,
               told_apart ? "session has not been released" : "release the session and every"));
    infer_inputs_free(runtime, &inputs);
    infer_runtime_release(runtime, session);
    infer_runtime_options_release(runtime, options);

    uint64_t calls = fake_system_calls(&b.system, FAKE_UNMAP);
    assert_status(ort_bench_release(&b), STRATA_BUSY);
    ck_assert_uint_eq(b.report.attempted, 0);
    ck_assert_str_eq(b.report.details[0].label, "rec");
    ck_assert_uint_ge(b.report.details[0].held_bytes, 1060000); /* 265,000 floats */
    ck_assert_ptr_nonnull(
        strstr(b.report.details[0].error.text, told_apart ? "1 output(s)" : "holds 1 block(s)"));
    ck_assert_uint_eq(fake_system_calls(&b.system, FAKE_UNMAP), calls);

    infer_value_release(runtime, held);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- failures ----------------------------------------------------------------------------------*/

/* The error says why, the report what was undone, newest first, and nothing is held. */
static void check_undone(ort_bench *b, strata_scope *scope, bool opened)
{
    if (opened) {
        ck_assert_ptr_nonnull(strstr(b->err.text, "session: out of memory while loading"));
        ck_assert_uint_eq(ort_bench_read(b).live_blocks, 0);
    }
    strata_status before = b->err.status;
    strata_report_init(&b->report, NULL, NULL);
    ck_assert_int_eq(strata_scope_undo(scope, &b->report, &b->err), before);
    ck_assert_uint_eq(b->report.failed, 0);
    ck_assert_uint_eq(b->report.refused, 0);
    if (opened) {
        ck_assert_uint_eq(b->report.attempted, 3);
        ck_assert_str_eq(b->report.order[0], "session");
        ck_assert_str_eq(b->report.order[2], "weights");
    }
    strata_ledger_counts counts;
    strata_ledger_read(strata_model_ledger(b->model), &counts);
    ck_assert_uint_eq(counts.committed_bytes, 0);
    ck_assert_uint_eq(counts.mappings_made, counts.mappings_torn_down);
}

/* A load as a program would write it: in a scope, which is undone where it fails and kept where it
 * succeeds. *allocations: how many it made, failed ones not counted. */
static bool load_once(ort_bench *b, size_t model, const struct OrtSessionOptions *options,
                      uint64_t fail_at, uint64_t *allocations)
{
    struct OrtSession *session = NULL;
    strata_scope scope;
    b->err = (strata_error){0};
    if (strata_model_open(&b->model, b->process, NULL, &b->err) != STRATA_OK) {
        return false;
    }
    assert_status(strata_scope_open(&scope, strata_model_root(b->model)), STRATA_OK);
    strata_status status =
        strata_ort_session_open(&b->session, b->env, strata_model_root(b->model), NULL, &b->err);
    bool opened = status == STRATA_OK;
    if (opened) {
        b->hook = (hook *)(void *)strata_ort_session_allocator(b->session);
        if (fail_at != 0) {
            watch(b);
            watched.fail_at = fail_at;
        }
        status = strata_ort_session_load(b->session, paths[model], options, &session, &b->err);
    }
    if (status == STRATA_OK) {
        *allocations = ort_bench_read(b).allocations;
        assert_status(strata_scope_keep(&scope), STRATA_OK);
        infer_runtime_release(runtime, session);
    } else {
        check_undone(b, &scope, opened);
        ck_assert_ptr_null(session);
    }
    assert_status(ort_bench_release(b), STRATA_OK);
    ck_assert_uint_eq(b->report.bytes_held_after, 0);
    ort_bench_close(b);
    return status == STRATA_OK;
}

/* Promise (case 12): the k-th allocation of a load fails, for every k: an error that says why, all
 * given back, and the process lives and loads again. */
START_TEST(every_kth_allocation_of_a_load)
{
    size_t model = (size_t)_i;
    ort_bench b = {0};
    begin(&b);
    struct OrtSessionOptions *options = options_of(&b, 1);
    uint64_t failures = 0;
    uint64_t allocations = 0;
    bool loaded = false;
    for (uint64_t nth = 1; !loaded; nth++) {
        loaded = load_once(&b, model, options, nth, &allocations);
        failures += !loaded;
        ck_assert_uint_eq(fake_system_live(&b.system), 0);
        ck_assert_uint_lt(nth, 2000);
    }
    ck_assert_uint_eq(failures, allocations); /* each of them failed once */
    ck_assert_uint_gt(failures, 0);
    infer_runtime_options_release(runtime, options);
    ort_bench_end(&b);
}
END_TEST

/* Promise: the same for each system call and control block of a load, once and from then on. */
START_TEST(every_kth_system_call_of_a_load)
{
    static const fake_call calls[] = {FAKE_MAP, FAKE_PROTECT, FAKE_ADVISE, FAKE_CALL_COUNT_};
    fake_call call = calls[_i / 2];
    ort_bench b = {0};
    begin(&b);
    struct OrtSessionOptions *options = options_of(&b, 1);
    size_t blocks = fake_memory_live(&b.memory);
    uint64_t failures = 0;
    uint64_t injected = 1;
    for (uint64_t nth = 1; injected > 0; nth++) {
        if (call == FAKE_CALL_COUNT_) {
            fake_memory_fail(&b.memory, nth, _i % 2 == 1);
        } else {
            fake_system_fail(&b.system, call, nth, _i % 2 == 1, ENOMEM);
        }
        uint64_t allocations = 0;
        failures += !load_once(&b, 2, options, 0, &allocations);
        injected = call == FAKE_CALL_COUNT_ ? fake_memory_injected(&b.memory)
                                            : fake_system_injected(&b.system);
        fake_memory_heal(&b.memory);
        fake_system_heal(&b.system);
        ck_assert_uint_eq(fake_system_live(&b.system), 0);
        ck_assert_uint_eq(fake_memory_live(&b.memory), blocks);
        ck_assert_uint_lt(nth, 1000);
    }
    /* Advice is a wish, and growth that fails once is tried again with what is needed. */
    ck_assert(failures > 0 || call == FAKE_ADVISE || _i % 2 == 0);
    infer_runtime_options_release(runtime, options);
    ort_bench_end(&b);
}
END_TEST

/* Promise (case 19): the k-th allocation of a run fails, for every k of the first run of a shape
 * and of a later one: Run answers with an error, the process lives, and the next run is right. */
START_TEST(every_kth_allocation_of_a_run)
{
    size_t model = _i / 2 == 0 ? 2 : 1;
    unsigned threads = 1 + (unsigned)_i % 2;
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    struct OrtSessionOptions *options = options_of(&b, threads);
    struct OrtSession *session = load(&b, model, options);
    infer_output expected = {0};
    infer_output got = {0};
    infer_inputs small = inputs_of(session, pictures[1]);
    run(session, &small, &expected);
    watch(&b);
    /* A shape that the session has not finished a run of: it has no plan of its memory for it yet,
     * and allocates hundreds of times. */
    infer_inputs fresh = inputs_of(session, (infer_picture){224, 64});
    uint64_t failures = 0;
    bool went_well = false;
    for (uint64_t nth = 1; !went_well; nth++) {
        watched.calls = 0;
        watched.fail_at = nth;
        strata_error err = {0};
        went_well = infer_run(runtime, session, &fresh, NULL, NULL, NULL, &err) == STRATA_OK;
        failures += !went_well;
        watched.fail_at = UINT64_MAX;
        if (nth % 16 == 1) {
            run(session, &small, &got);
            ck_assert(infer_output_same(&expected, &got));
        }
        ck_assert_uint_lt(nth, 2000);
    }
    ck_assert_uint_gt(failures, 100);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* and with the plan: one block, and the output */
        strata_error err = {0};
        watched.calls = 0;
        watched.fail_at = nth;
        assert_status(infer_run(runtime, session, &fresh, NULL, NULL, NULL, &err), STRATA_RESOURCE);
        watched.fail_at = UINT64_MAX;
        run(session, &small, &got);
        ck_assert(infer_output_same(&expected, &got));
    }
    infer_inputs_free(runtime, &fresh);
    infer_inputs_free(runtime, &small);
    infer_output_free(&expected);
    infer_output_free(&got);
    infer_runtime_release(runtime, session);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise (case 19): the budget ends a run that grew too large; the error reaches the caller, and a
 * smaller run works again in the same session. */
START_TEST(a_budget_ends_a_run)
{
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, "model.budget:20MiB");
    struct OrtSessionOptions *options = options_of(&b, 1);
    struct OrtSession *session = load(&b, 1, options);
    infer_inputs small = inputs_of(session, (infer_picture){64, 48});
    infer_inputs large = inputs_of(session, (infer_picture){4096, 48});
    infer_output first = {0};
    infer_output again = {0};
    strata_error err = {0};
    run(session, &small, &first);
    assert_status(infer_run(runtime, session, &large, NULL, NULL, NULL, &err), STRATA_RESOURCE);
    ck_assert_int_eq(ort_bench_read(&b).last_failure.status, STRATA_BUDGET);
    run(session, &small, &again);
    ck_assert(infer_output_same(&first, &again));
    infer_output_free(&first);
    infer_output_free(&again);
    infer_inputs_free(runtime, &small);
    infer_inputs_free(runtime, &large);
    infer_runtime_release(runtime, session);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* Promise: files that are no models are refused with the runtime's code, and nothing is held. */
START_TEST(no_model)
{
    ort_bench b = {0};
    begin(&b);
    ort_bench_open(&b, NULL);
    struct OrtSessionOptions *options = options_of(&b, 1);
    struct OrtSession *session = NULL;
    assert_status(
        strata_ort_session_load(b.session, "/nonexistent/model.onnx", options, &session, &b.err),
        STRATA_RESOURCE);
    ck_assert_int_eq(b.err.native, 3); /* NO_SUCHFILE */
    assert_status(
        strata_ort_session_load_bytes(b.session, "no model", 8, options, &session, &b.err),
        STRATA_RESOURCE);
    ck_assert_int_eq(b.err.native, 7); /* INVALID_PROTOBUF */
    ck_assert_ptr_null(session);
    infer_runtime_options_release(runtime, options);
    release_and_close(&b);
    ort_bench_end(&b);
}
END_TEST

/* --- the program -------------------------------------------------------------------------------*/

static Suite *make_suite(void)
{
    Suite *suite = suite_create("onnxruntime real");
    TCase *tests = add_case(suite, "real");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, open_runtime, NULL);
    tcase_add_loop_test(tests, outputs_are_the_stock_allocators, 0, MODELS * 2);
    tcase_add_loop_test(tests, blocks_lie_in_the_models_regions, 0, MODELS);
    tcase_add_test(tests, statistics_through_the_runtime);
    tcase_add_test(tests, released_one_by_one);
    tcase_add_test(tests, a_held_output_refuses_the_release);
    tcase_add_loop_test(tests, every_kth_allocation_of_a_load, 0, MODELS);
    tcase_add_loop_test(tests, every_kth_system_call_of_a_load, 0, 8);
    tcase_add_loop_test(tests, every_kth_allocation_of_a_run, 0, 4);
    tcase_add_test(tests, a_budget_ends_a_run);
    tcase_add_test(tests, no_model);
    return suite;
}

/* The runtime's own allocator is asked for the impossible when memory runs out (hook.c); under
 * AddressSanitizer its answer must be a failure, not a report. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

int main(void)
{
    static const char *const configured[] = {ORT_LIBRARY, ORT_MODELS};
    if (configured[0][0] == '\0' || configured[1][0] == '\0') {
        return skip_program("no real runtime: configure with -DSTRATA_ORT_LIBRARY=FILE and "
                            "-DSTRATA_OCR_MODELS=FOLDER");
    }
    for (size_t i = 0; i < MODELS; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", ORT_MODELS, model_names[i]);
    }
    return run_suite(make_suite());
}

/* test_model.c - the whole line without a runtime: open, load, release, destroy; every call fails
 * in turn; refusals touch nothing; what fails is stranded and tried again; other models go on. */
#include <strata/model.h>

#include "fakes/fake_system.h"
#include "support/check_main.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static fake_system fake;
static fake_memory memory;
static strata_process *process;
static strata_error error;
static strata_report report;

static strata_process_config process_config(void)
{
    strata_process_config config;
    strata_process_config_init(&config);
    config.system = &fake.system;
    config.memory = memory.memory;
    return config;
}

static void setup(void)
{
    fake_system_init(&fake);
    fake_memory_init(&memory);
    strata_process_config config = process_config();
    assert_ok(strata_process_create(&process, &config, &error), error);
    strata_report_init(&report, NULL, NULL);
}

static void end_process(void)
{
    assert_status(strata_process_destroy(&process), STRATA_OK);
    ck_assert_ptr_null(process);
    ck_assert(fake_system_is_clean(&fake));
    ck_assert_uint_eq(fake_memory_live(&memory), 0);
}

static strata_model *open_model(const char *label)
{
    strata_model_config config;
    strata_model_config_init(&config);
    (void)snprintf(config.label, sizeof config.label, "%s", label);
    strata_model *model = NULL;
    assert_ok(strata_model_open(&model, process, &config, &error), error);
    return model;
}

static strata_arena *create_arena(strata_strand *strand, const char *label, size_t first)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = label;
    config.region.first_bytes = first;
    config.guard = STRATA_GUARD_OFF; /* its tails would make the sizes here inexact */
    strata_arena *arena = NULL;
    assert_ok(strata_arena_create(&arena, strand, &config, &error), error);
    return arena;
}

static void release_and_destroy(strata_model *model)
{
    assert_status(strata_model_release(model, NULL, &report), STRATA_OK);
    assert_status(strata_model_destroy(&model), STRATA_OK);
}

static uint64_t committed(strata_model *model)
{
    strata_model_info info;
    strata_model_read(model, &info);
    return info.ledger.committed_bytes;
}

static bool is_filled(const unsigned char *block, size_t bytes, unsigned char with)
{
    for (size_t i = 0; i < bytes; i++) {
        if (block[i] != with) {
            return false;
        }
    }
    return true;
}

/* A resource that answers as told. */
typedef struct owner {
    strata_resource resource;
    strata_status ready;
    strata_status release;
    int released;
} owner;

static uint64_t deadlines[2]; /* of the last two questions */
static int deadline_count;

static strata_status owner_ready(strata_resource *self, void *context, strata_error *err)
{
    const strata_release_options *options = context;
    deadlines[deadline_count++ % 2] = options != NULL ? options->deadline_ns : 1;
    owner *o = (owner *)(void *)self;
    return o->ready == STRATA_OK ? STRATA_OK
                                 : strata_error_set(err, o->ready, "an output is still held");
}

static strata_status owner_release(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    owner *o = (owner *)(void *)self;
    o->released++;
    return o->release == STRATA_OK ? STRATA_OK : strata_error_set(err, o->release, "will not go");
}

static void push_owner(strata_strand *strand, owner *o, const char *label)
{
    *o = (owner){.ready = STRATA_OK};
    strata_resource_init(&o->resource, label, owner_release, owner_ready);
    o->resource.held_bytes = 409600;
    assert_status(strata_strand_push(strand, &o->resource), STRATA_OK);
}

START_TEST(a_release_pops_newest_first_and_gives_every_byte_back)
{
    strata_model *model = open_model("rec");
    strata_strand *root = strata_model_root(model);
    (void)create_arena(root, "weights", 8 * MIB);
    owner o;
    push_owner(root, &o, "graph");
    strata_arena *kv = create_arena(root, "kv", 2 * MIB);
    (void)create_arena(root, "scratch", 0);
    for (int i = 0; i < 10000; i++) {
        ck_assert_ptr_nonnull(strata_arena_alloc(kv, 1000, 64));
    }
    uint64_t held = committed(model);
    assert_status(strata_model_release(model, NULL, &report), STRATA_OK);
    static const char *const order[] = {"scratch", "kv", "graph", "weights"};
    ck_assert_uint_eq(report.attempted, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(report.order[i], order[i]);
    }
    ck_assert_uint_eq(report.bytes_held_before, held);
    ck_assert_uint_eq(report.bytes_held_after, 0);
    ck_assert_uint_eq(report.mappings, 3);
    ck_assert_uint_eq(report.unmaps, 3); /* once a region, whatever the number of allocations */
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_VERIFIED);
    /* Again: nothing is attempted; figures stay readable. */
    strata_report second;
    strata_report_init(&second, NULL, NULL);
    assert_status(strata_model_release(model, NULL, &second), STRATA_OK);
    ck_assert_uint_eq(second.attempted, 0);
    strata_area_info area;
    ck_assert(strata_model_area(model, "kv", &area));
    ck_assert_uint_ge(area.used_peak_bytes, UINTMAX_C(10000000));
    ck_assert_uint_eq(area.region.committed_bytes, 0);
    ck_assert(!strata_model_area(model, "nothing", &area));
    ck_assert_ptr_null(strata_arena_alloc(kv, 1, 1));
    assert_status(strata_strand_push(root, &o.resource), STRATA_CLOSED);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    ck_assert_ptr_null(model);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

START_TEST(one_that_is_not_ready_refuses_all_and_touches_nothing)
{
    static const strata_status refusals[] = {STRATA_BUSY, STRATA_TIMEOUT};
    for (int kind = 0; kind < 2; kind++) {
        strata_model *model = open_model("rec");
        strata_strand *request = NULL;
        assert_ok(strata_strand_open(&request, model, "request", &error), error);
        strata_arena *weights = create_arena(strata_model_root(model), "weights", 4 * MIB);
        memset(strata_arena_alloc(weights, MIB, 64), 3, MIB);
        (void)create_arena(request, "scratch", 2 * MIB);
        owner o;
        push_owner(strata_model_root(model), &o, "rec-output");
        o.ready = refusals[kind];
        uint64_t held = committed(model);
        uint64_t calls = fake_system_calls(&fake, FAKE_ANY);
        strata_report_init(&report, NULL, NULL);
        assert_status(strata_model_release(model, NULL, &report), refusals[kind]);
        ck_assert_uint_eq(report.attempted, 0);
        ck_assert_uint_eq(report.refused, 1);
        ck_assert_str_eq(report.details[0].label, "rec-output");
        ck_assert_uint_eq(report.details[0].held_bytes, 409600);
        ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), calls);
        ck_assert_uint_eq(committed(model), held);
        assert_status(strata_model_destroy(&model), STRATA_BUSY);
        ck_assert_ptr_nonnull(strata_arena_alloc(weights, MIB, 64)); /* still serves */
        o.ready = STRATA_OK;
        strata_report_init(&report, NULL, NULL);
        release_and_destroy(model);
        ck_assert_uint_eq(report.attempted, 3);
        ck_assert_str_eq(report.order[0], "scratch"); /* the younger strand goes first */
    }
    end_process();
}
END_TEST

START_TEST(it_waits_to_the_deadline_at_most_and_is_let_go_earlier)
{
    strata_model *model = open_model("rec");
    owner o;
    push_owner(strata_model_root(model), &o, "stream");
    o.ready = STRATA_BUSY;
    strata_release_options options = {.deadline_ns = strata_deadline_in(20000000)};
    assert_status(strata_model_release(model, &options, &report), STRATA_BUSY);
    ck_assert_uint_ge(report.elapsed_ns, 19000000);
    ck_assert_uint_eq(report.refused, 1); /* polls in between are not recorded */
    o.ready = STRATA_OK;
    options.deadline_ns = strata_deadline_in(UINT64_C(60000000000));
    strata_report_init(&report, NULL, NULL);
    assert_status(strata_model_release(model, &options, &report), STRATA_OK);
    ck_assert_uint_lt(report.elapsed_ns, UINT64_C(30000000000));
    /* It is asked for an answer now, however long the deadline, and counted once. */
    ck_assert_uint_eq(deadlines[0], STRATA_DEADLINE_NOW);
    ck_assert_uint_eq(deadlines[1], STRATA_DEADLINE_NOW);
    ck_assert_uint_eq(report.asked, 1);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static void *hold_the_gate(void *argument)
{
    int *state = argument;
    strata_pass pass;
    (void)strata_gate_enter(strata_process_gate(process), &pass, "a copy", STRATA_DEADLINE_NEVER,
                            NULL);
    __atomic_store_n(state, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != 2) {
        usleep(100);
    }
    strata_gate_leave(strata_process_gate(process), &pass);
    return NULL;
}

START_TEST(nothing_is_returned_while_memory_is_being_asked_for)
{
    strata_model *model = open_model("rec");
    (void)create_arena(strata_model_root(model), "weights", 2 * MIB);
    int state = 0;
    pthread_t thread;
    (void)pthread_create(&thread, NULL, hold_the_gate, &state);
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1) {
        usleep(100);
    }
    uint64_t calls = fake_system_calls(&fake, FAKE_ANY);
    strata_release_options options = {.deadline_ns = strata_deadline_in(5000000)};
    assert_status(strata_model_release(model, &options, &report), STRATA_BUSY);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_str_eq(report.details[0].label, "gate");
    ck_assert_ptr_nonnull(strstr(report.details[0].error.text, "a copy"));
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), calls);
    __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
    (void)pthread_join(thread, NULL);
    release_and_destroy(model);
    end_process();
}
END_TEST

START_TEST(what_fails_is_stranded_counted_and_retried_in_its_order)
{
    strata_model *model = open_model("rec");
    strata_strand *root = strata_model_root(model);
    for (int i = 0; i < 4; i++) {
        char label[16];
        (void)snprintf(label, sizeof label, "a%d", i);
        (void)create_arena(root, label, 2 * MIB);
    }
    owner o;
    push_owner(root, &o, "user");
    o.release = STRATA_RESOURCE;
    fake_system_fail(&fake, FAKE_UNMAP, 2, false, ENOMEM);
    assert_status(strata_model_release(model, NULL, &report), STRATA_RESOURCE);
    ck_assert_uint_eq(report.attempted, 5);
    ck_assert_uint_eq(report.failed, 2);
    ck_assert_uint_eq(report.stranded, 1); /* the user's own node has left the list */
    ck_assert_uint_eq(report.stranded_bytes, 2 * MIB);
    ck_assert_uint_eq(report.bytes_held_after, 2 * MIB);
    ck_assert_str_eq(report.details[1].label, "a2");
    ck_assert_str_eq(report.details[1].error.text, "munmap: 12 ENOMEM");
    assert_status(strata_model_destroy(&model), STRATA_BUSY);
    strata_model_info info;
    strata_model_read(model, &info);
    ck_assert(info.released);
    ck_assert_uint_eq(info.stranded, 1);
    ck_assert_uint_eq(info.stranded_bytes, 2 * MIB);
    strata_report_init(&report, NULL, NULL);
    assert_status(strata_model_release(model, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 1);
    ck_assert_int_eq(o.released, 1);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static int stop_serving;

static char logged[512];
static int log_lines;

static void log_line(void *user, const char *line)
{
    ck_assert_ptr_eq(user, &log_lines);
    log_lines++;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

START_TEST(what_an_operator_should_see_is_logged_once_even_without_a_report)
{
    assert_status(strata_process_destroy(&process), STRATA_OK);
    strata_process_config config = process_config();
    config.log = log_line;
    config.log_user = &log_lines;
    assert_ok(strata_process_create(&process, &config, &error), error);
    strata_model *model = open_model("rec");
    (void)create_arena(strata_model_root(model), "w", 2 * MIB);
    owner o;
    push_owner(strata_model_root(model), &o, "output");
    o.ready = STRATA_BUSY;
    assert_status(strata_model_release(model, NULL, NULL), STRATA_BUSY);
    ck_assert_str_eq(logged,
                     "release of rec: refused, 1 resource(s) not ready: output: an output is "
                     "still held");
    o.ready = STRATA_OK;
    fake_system_fail(&fake, FAKE_UNMAP, 1, false, ENOMEM);
    assert_status(strata_model_release(model, NULL, NULL), STRATA_NO_MEMORY);
    ck_assert_str_eq(logged,
                     "release of rec: 1 resource(s) failed to release: w: munmap: 12 ENOMEM");
    assert_status(strata_model_release(model, NULL, NULL), STRATA_OK);
    ck_assert_int_eq(log_lines, 2); /* a release that went well is no news */
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static void *open_and_close_strands(void *argument)
{
    strata_model *model = argument;
    for (int i = 0; i < 2000; i++) {
        strata_strand *strand = NULL;
        if (strata_strand_open(&strand, model, "t", NULL) != STRATA_OK) {
            continue; /* a release is under way, or over */
        }
        while (strand != NULL) {
            strata_status status = strata_strand_close(&strand, NULL);
            ck_assert(status == STRATA_OK || status == STRATA_BUSY);
        }
    }
    return NULL;
}

START_TEST(strands_come_and_go_beside_releases_that_are_refused)
{
    strata_model *model = open_model("rec");
    owner o;
    push_owner(strata_model_root(model), &o, "output");
    o.ready = STRATA_BUSY;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        (void)pthread_create(&threads[i], NULL, open_and_close_strands, model);
    }
    for (int i = 0; i < 1000; i++) {
        assert_status(strata_model_release(model, NULL, NULL), STRATA_BUSY);
    }
    for (int i = 0; i < 3; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    o.ready = STRATA_OK;
    release_and_destroy(model);
    end_process();
}
END_TEST

/* A request thread that serves in its own strand, with scopes that register and release. */
typedef struct server {
    pthread_t thread;
    strata_model *model;
    int served;
} server;

static strata_status quiet_release(strata_resource *self, void *context, strata_error *err)
{
    (void)self;
    (void)context;
    (void)err;
    return STRATA_OK;
}

static void *serve_requests(void *argument)
{
    server *s = argument;
    strata_strand *strand = NULL;
    ck_assert_int_eq(strata_strand_open(&strand, s->model, "request", NULL), STRATA_OK);
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.guard = STRATA_GUARD_OFF;
    strata_arena *arena = NULL;
    ck_assert_int_eq(strata_arena_create(&arena, strand, &config, NULL), STRATA_OK);
    while (__atomic_load_n(&stop_serving, __ATOMIC_ACQUIRE) == 0) {
        strata_scope scope;
        strata_resource resource;
        strata_resource_init(&resource, "buffer", quiet_release, NULL);
        ck_assert_int_eq(strata_scope_open(&scope, strand), STRATA_OK);
        ck_assert_ptr_nonnull(strata_arena_alloc(arena, 1000, 64));
        if (s->served % 2 == 0) {
            ck_assert_int_eq(strata_strand_push(strand, &resource), STRATA_OK);
        }
        ck_assert_int_eq(strata_scope_close(&scope, NULL), STRATA_OK);
        s->served++;
    }
    return NULL;
}

START_TEST(asking_for_a_release_does_not_disturb_strands_that_serve)
{
    strata_model *model = open_model("rec");
    owner o;
    push_owner(strata_model_root(model), &o, "output");
    o.ready = STRATA_BUSY;
    server servers[2];
    for (int i = 0; i < 2; i++) {
        servers[i] = (server){.model = model};
        (void)pthread_create(&servers[i].thread, NULL, serve_requests, &servers[i]);
    }
    for (int i = 0; i < 300; i++) {
        strata_release_options options = {.deadline_ns = strata_deadline_in(100000)};
        assert_status(strata_model_release(model, i % 2 == 0 ? NULL : &options, NULL), STRATA_BUSY);
    }
    __atomic_store_n(&stop_serving, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(servers[i].thread, NULL);
        ck_assert_int_gt(servers[i].served, 0);
    }
    o.ready = STRATA_OK;
    release_and_destroy(model);
    end_process();
}
END_TEST

/* Another thread's moments, for the tests below. */
static int moment;

static void wait_for_moment(int expected)
{
    while (__atomic_load_n(&moment, __ATOMIC_ACQUIRE) != expected) {
        (void)usleep(100);
    }
}

static strata_status ready_at_moment_two(strata_resource *self, void *context, strata_error *err)
{
    (void)self;
    (void)context;
    return __atomic_load_n(&moment, __ATOMIC_ACQUIRE) == 2
               ? STRATA_OK
               : strata_error_set(err, STRATA_BUSY, "a request is running");
}

static void *finish_the_request(void *argument)
{
    strata_strand *strand = argument;
    wait_for_moment(1);
    (void)usleep(5000); /* well inside the release's deadline */
    for (int i = 0; i < 10; i++) {
        strata_scope scope;
        ck_assert_int_eq(strata_scope_open(&scope, strand), STRATA_OK);
        ck_assert_int_eq(strata_scope_close(&scope, NULL), STRATA_OK);
    }
    __atomic_store_n(&moment, 2, __ATOMIC_RELEASE);
    return NULL;
}

START_TEST(a_release_that_waits_does_not_hold_up_what_it_waits_for)
{
    strata_model *model = open_model("rec");
    strata_strand *strand = NULL;
    assert_ok(strata_strand_open(&strand, model, "request", &error), error);
    strata_resource idle;
    strata_resource_init(&idle, "idle", quiet_release, ready_at_moment_two);
    assert_status(strata_strand_push(strand, &idle), STRATA_OK);
    pthread_t thread;
    (void)pthread_create(&thread, NULL, finish_the_request, strand);
    __atomic_store_n(&moment, 1, __ATOMIC_RELEASE);
    strata_release_options options = {.deadline_ns = strata_deadline_in(UINT64_C(30000000000))};
    assert_status(strata_model_release(model, &options, &report), STRATA_OK);
    ck_assert_uint_lt(report.elapsed_ns, UINT64_C(15000000000));
    (void)pthread_join(thread, NULL);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static void *push_from_inside_the_gate(void *argument)
{
    strata_strand *strand = argument;
    static strata_resource resource;
    strata_resource_init(&resource, "copy", quiet_release, NULL);
    strata_pass pass;
    ck_assert_int_eq(strata_gate_enter(strata_process_gate(process), &pass, "a copy",
                                       STRATA_DEADLINE_NEVER, NULL),
                     STRATA_OK);
    __atomic_store_n(&moment, 1, __ATOMIC_RELEASE);
    (void)usleep(5000); /* the release is trying meanwhile */
    ck_assert_int_eq(strata_strand_push(strand, &resource), STRATA_OK);
    strata_gate_leave(strata_process_gate(process), &pass);
    return NULL;
}

START_TEST(traffic_may_register_while_a_release_waits_for_it)
{
    strata_model *model = open_model("rec");
    pthread_t thread;
    (void)pthread_create(&thread, NULL, push_from_inside_the_gate, strata_model_root(model));
    wait_for_moment(1);
    strata_release_options options = {.deadline_ns = strata_deadline_in(UINT64_C(30000000000))};
    assert_status(strata_model_release(model, &options, &report), STRATA_OK);
    ck_assert_uint_lt(report.elapsed_ns, UINT64_C(15000000000));
    (void)pthread_join(thread, NULL);
    ck_assert_uint_eq(report.attempted, 1); /* it came in time */
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

/* Commits that overlap without a gap: somebody is inside at every moment. */
static void *overlap(void *argument)
{
    strata_model *model = argument;
    strata_strand *strand = NULL;
    ck_assert_int_eq(strata_strand_open(&strand, model, "traffic", NULL), STRATA_OK);
    while (__atomic_load_n(&stop_serving, __ATOMIC_ACQUIRE) == 0) {
        strata_pass pass;
        if (strata_gate_enter(strata_process_gate(process), &pass, "a long commit",
                              STRATA_DEADLINE_NEVER, NULL) == STRATA_OK) {
            (void)usleep(3000);
            strata_gate_leave(strata_process_gate(process), &pass);
        }
    }
    return NULL;
}

START_TEST(a_release_gets_in_however_dense_the_traffic)
{
    strata_model *serving = open_model("serving");
    strata_model *model = open_model("rec");
    (void)create_arena(strata_model_root(model), "w", MIB);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        (void)pthread_create(&threads[i], NULL, overlap, serving);
        (void)usleep(700);
    }
    strata_release_options options = {.deadline_ns = strata_deadline_in(UINT64_C(30000000000))};
    assert_status(strata_model_release(model, &options, &report), STRATA_OK);
    __atomic_store_n(&stop_serving, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_status(strata_model_destroy(&model), STRATA_OK);
    strata_report_init(&report, NULL, NULL);
    release_and_destroy(serving);
    end_process();
}
END_TEST

/* Ready, busy, ready: busy in the very moment when the gate was closed. */
static int questions;

static strata_status busy_the_second_time(strata_resource *self, void *context, strata_error *err)
{
    (void)self;
    (void)context;
    return ++questions == 2 ? strata_error_set(err, STRATA_BUSY, "a late call") : STRATA_OK;
}

START_TEST(what_is_busy_for_a_moment_is_asked_again_until_the_deadline)
{
    strata_model *model = open_model("rec");
    strata_resource late;
    strata_resource_init(&late, "late", quiet_release, busy_the_second_time);
    assert_status(strata_strand_push(strata_model_root(model), &late), STRATA_OK);
    strata_release_options options = {.deadline_ns = strata_deadline_in(UINT64_C(30000000000))};
    assert_status(strata_model_release(model, &options, &report), STRATA_OK);
    ck_assert_uint_eq(report.refused, 0);
    ck_assert_uint_eq(report.attempted, 1);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static void *push_and_forget(void *argument)
{
    strata_strand *strand = argument;
    while (__atomic_load_n(&stop_serving, __ATOMIC_ACQUIRE) == 0) {
        strata_resource *resource = malloc(sizeof *resource);
        strata_resource_init(resource, "short", quiet_release, NULL);
        ck_assert_int_eq(strata_strand_push(strand, resource), STRATA_OK);
        strata_resource_set_held(resource, 100);
        ck_assert_int_eq(strata_strand_forget(strand, resource), STRATA_OK);
        ck_assert_int_eq(strata_strand_forget(strand, resource), STRATA_OK);
        free(resource);
    }
    return NULL;
}

START_TEST(resources_that_are_forgotten_early_may_be_freed_at_once)
{
    strata_model *model = open_model("rec");
    owner o;
    push_owner(strata_model_root(model), &o, "output");
    o.ready = STRATA_BUSY;
    strata_strand *strand = NULL;
    assert_ok(strata_strand_open(&strand, model, "request", &error), error);
    pthread_t thread;
    (void)pthread_create(&thread, NULL, push_and_forget, strand);
    for (int i = 0; i < 500; i++) {
        assert_status(strata_model_release(model, NULL, NULL), STRATA_BUSY);
    }
    __atomic_store_n(&stop_serving, 1, __ATOMIC_RELEASE);
    (void)pthread_join(thread, NULL);
    o.ready = STRATA_OK;
    release_and_destroy(model);
    end_process();
}
END_TEST

START_TEST(a_resource_that_is_busy_only_at_its_release_is_a_failure_not_a_refusal)
{
    static const strata_status answers[] = {STRATA_BUSY, STRATA_TIMEOUT};
    for (int i = 0; i < 2; i++) {
        strata_model *model = open_model("rec");
        (void)create_arena(strata_model_root(model), "w", MIB);
        owner o;
        push_owner(strata_model_root(model), &o, "late");
        o.release = answers[i];
        strata_report_init(&report, NULL, NULL);
        assert_status(strata_model_release(model, NULL, &report), STRATA_RESOURCE);
        ck_assert_uint_eq(report.attempted, 2);
        ck_assert_str_eq(report.details[0].error.text, "will not go");
        assert_status(strata_model_destroy(&model), STRATA_OK);
    }
    end_process();
}
END_TEST

/* Case 12: a load in a scope, every system call and every control block failing in turn. */
static strata_status load(strata_model *model, strata_error *err)
{
    strata_scope scope;
    strata_status status = strata_scope_open(&scope, strata_model_root(model));
    static const char *const labels[] = {"weights", "kv", "scratch"};
    for (int i = 0; i < 3 && status == STRATA_OK; i++) {
        strata_arena_config config;
        strata_arena_config_init(&config);
        config.region.label = labels[i];
        config.region.first_bytes = 2 * MIB;
        config.region.prefault = true;
        strata_arena *arena = NULL;
        status = strata_arena_create(&arena, strata_model_root(model), &config, err);
        for (int k = 0; k < 5 && status == STRATA_OK; k++) {
            if (strata_arena_alloc(arena, MIB, 64) == NULL) {
                *err = *strata_arena_error(arena);
                status = err->status;
            }
        }
    }
    if (status != STRATA_OK) {
        return strata_scope_undo(&scope, &report, err);
    }
    return strata_scope_keep(&scope);
}

START_TEST(a_load_that_fails_at_any_call_gives_everything_back_and_says_what_it_undid)
{
    for (int kind = 0; kind < 2; kind++) {
        uint64_t injected = 1;
        int failures = 0;
        for (uint64_t n = 1; injected > 0; n++) {
            ck_assert_uint_lt(n, 300);
            strata_model *model = open_model("rec");
            strata_report_init(&report, NULL, NULL);
            if (kind == 0) {
                fake_system_fail(&fake, FAKE_ANY, n, false, ENOMEM);
            } else {
                fake_memory_fail(&memory, n, false);
            }
            strata_error why = {.status = STRATA_OK};
            strata_status status = load(model, &why);
            injected = kind == 0 ? fake_system_injected(&fake) : fake_memory_injected(&memory);
            fake_system_heal(&fake);
            fake_memory_heal(&memory);
            if (status != STRATA_OK) {
                failures++;
                ck_assert_ptr_nonnull(strstr(why.text, "undone: "));
                ck_assert_uint_eq(committed(model), 0);
                ck_assert_uint_eq(report.bytes_held_after, 0);
                ck_assert_uint_eq(report.failed, 0);
                ck_assert_uint_eq(report.unmaps, report.attempted);
                ck_assert_uint_eq(fake_system_live(&fake), 0);
                /* The process lives: the same model loads at the second try. */
                assert_ok(load(model, &why), why);
            }
            release_and_destroy(model);
        }
        ck_assert_int_gt(failures, 5);
    }
    end_process();
}
END_TEST

START_TEST(opening_fails_at_any_control_block_and_leaves_nothing)
{
    for (uint64_t n = 1; n <= 2; n++) {
        strata_model *model = NULL;
        fake_memory_fail(&memory, n, false);
        assert_status(strata_model_open(&model, process, NULL, &error), STRATA_NO_MEMORY);
        ck_assert_ptr_null(model);
    }
    fake_memory_heal(&memory);
    end_process();
    fake_memory_fail(&memory, 1, false);
    strata_process_config config = process_config();
    assert_status(strata_process_create(&process, &config, &error), STRATA_NO_MEMORY);
}
END_TEST

/* Case 6 and 8: cycles leave counters flat and neighbours intact; a big model fits again. */
START_TEST(cycles_leave_the_counters_flat_and_the_neighbour_intact)
{
    assert_status(strata_process_destroy(&process), STRATA_OK);
    strata_process_config config = process_config();
    config.budget_bytes = 100 * MIB;
    assert_ok(strata_process_create(&process, &config, &error), error);
    strata_model *neighbour = open_model("neighbour");
    strata_arena *arena = create_arena(strata_model_root(neighbour), "weights", 10 * MIB);
    unsigned char *block = strata_arena_alloc(arena, 10 * MIB, 64);
    memset(block, 0x5A, 10 * MIB);
    size_t mappings = fake_system_live(&fake);
    size_t blocks = fake_memory_live(&memory);
    for (int i = 0; i < 20; i++) {
        strata_model *big = open_model("big");
        (void)create_arena(strata_model_root(big), "a", 50 * MIB); /* fits only into an empty one */
        strata_arena_config over;
        strata_arena_config_init(&over);
        over.region.label = "b";
        over.region.first_bytes = 50 * MIB;
        strata_arena *none = NULL;
        assert_status(strata_arena_create(&none, strata_model_root(big), &over, &error),
                      STRATA_BUDGET);
        strata_report_init(&report, NULL, NULL);
        release_and_destroy(big);
        ck_assert_uint_eq(report.bytes_held_after, 0);
        ck_assert_uint_eq(fake_system_live(&fake), mappings);
        ck_assert_uint_eq(fake_memory_live(&memory), blocks);
    }
    ck_assert(is_filled(block, 10 * MIB, 0x5A));
    release_and_destroy(neighbour);
    end_process();
}
END_TEST

START_TEST(budgets_hold_for_model_and_process_and_come_back)
{
    strata_model_config config;
    strata_model_config_init(&config);
    config.budget_bytes = 4 * MIB;
    strata_model *model = NULL;
    assert_ok(strata_model_open(&model, process, &config, &error), error);
    strata_arena *arena = create_arena(strata_model_root(model), "w", 4 * MIB);
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, 4 * MIB, 1));
    ck_assert_ptr_null(strata_arena_alloc(arena, 1, 1));
    ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_BUDGET);
    assert_status(strata_arena_clear(arena), STRATA_OK);
    assert_ok(strata_arena_trim(arena, &error), error);
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, MIB, 1));
    release_and_destroy(model);
    config.budget_bytes = MIB;
    assert_ok(strata_model_config_set(&config, "w.first", "2MiB", &error), error);
    model = NULL;
    assert_status(strata_model_open(&model, process, &config, &error), STRATA_INVALID);
    ck_assert_ptr_null(model);
    end_process();
}
END_TEST

/* Case 4: memory taken outside any scope: the report names it and its bytes. */
START_TEST(memory_taken_outside_any_scope_is_named_with_its_bytes)
{
    strata_model *model = open_model("rec");
    strata_scope scope;
    assert_status(strata_scope_open(&scope, strata_model_root(model)), STRATA_OK);
    (void)create_arena(strata_model_root(model), "inside", 2 * MIB);
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    (void)create_arena(strata_model_root(model), "outside", 6 * MIB);
    strata_area_info areas[4];
    ck_assert_uint_eq(strata_model_areas(model, areas, 4), 2);
    ck_assert_str_eq(areas[0].label, "inside");
    ck_assert_uint_eq(areas[0].region.committed_bytes, 0);
    ck_assert_str_eq(areas[1].label, "outside");
    ck_assert_str_eq(areas[1].strand, "root");
    ck_assert_uint_eq(areas[1].region.committed_bytes, 6 * MIB);
    ck_assert_uint_eq(strata_model_areas(model, NULL, 0), 2);
    strata_report_init(&report, NULL, NULL);
    release_and_destroy(model);
    ck_assert_uint_eq(report.attempted, 1);
    ck_assert_str_eq(report.order[0], "outside");
    ck_assert_uint_eq(report.bytes_held_before, 6 * MIB);
    end_process();
}
END_TEST

START_TEST(a_model_closes_what_is_still_open)
{
    strata_model *model = open_model("rec");
    strata_scope outer;
    strata_scope inner;
    strata_strand *root = strata_model_root(model);
    strata_strand *request = NULL;
    assert_ok(strata_strand_open(&request, model, "request", &error), error);
    assert_status(strata_scope_open(&outer, root), STRATA_OK);
    (void)create_arena(root, "w", MIB);
    assert_status(strata_scope_open(&inner, root), STRATA_OK);
    assert_status(strata_model_release(model, NULL, &report), STRATA_OK);
    assert_status(strata_scope_close(&inner, NULL), STRATA_CLOSED);
    assert_status(strata_scope_keep(&outer), STRATA_CLOSED);
    assert_status(strata_scope_open(&outer, root), STRATA_CLOSED);
    strata_strand *late = NULL;
    assert_status(strata_strand_open(&late, model, "late", &error), STRATA_CLOSED);
    strata_arena_config config;
    strata_arena_config_init(&config);
    strata_arena *arena = NULL;
    assert_status(strata_arena_create(&arena, request, &config, &error), STRATA_CLOSED);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    end_process();
}
END_TEST

static strata_model *nested_model;
static strata_status nested_release_status;
static void *nested_block;

static strata_status nested_release(strata_resource *self, void *context, strata_error *err)
{
    (void)self;
    (void)context;
    (void)err;
    nested_release_status = strata_model_release(nested_model, NULL, NULL);
    strata_arena *arena = strata_strand_arena(strata_model_root(nested_model), "w");
    nested_block = strata_arena_alloc(arena, 64 * MIB, 1); /* would grow: the gate is closed */
    return STRATA_OK;
}

START_TEST(a_release_callback_can_neither_release_nor_grow)
{
    nested_model = open_model("rec");
    (void)create_arena(strata_model_root(nested_model), "w", MIB);
    strata_resource nested;
    strata_resource_init(&nested, "nested", nested_release, NULL);
    assert_status(strata_strand_push(strata_model_root(nested_model), &nested), STRATA_OK);
    release_and_destroy(nested_model);
    assert_status(nested_release_status, STRATA_ORDER);
    ck_assert_ptr_null(nested_block);
    end_process();
}
END_TEST

START_TEST(strands_close_alone_and_the_root_does_not)
{
    strata_model *model = open_model("rec");
    strata_strand *root = strata_model_root(model);
    strata_strand *a = NULL;
    strata_strand *b = NULL;
    assert_ok(strata_strand_open(&a, model, "a", &error), error);
    assert_ok(strata_strand_open(&b, model, "b", &error), error);
    (void)create_arena(a, "scratch-a", MIB);
    (void)create_arena(b, "scratch-b", MIB);
    strata_scope scope;
    assert_status(strata_scope_open(&scope, a), STRATA_OK);
    assert_status(strata_strand_close(&a, NULL), STRATA_ORDER);
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    assert_status(strata_strand_close(&root, NULL), STRATA_INVALID);
    fake_system_fail(&fake, FAKE_UNMAP, 1, false, ENOMEM);
    assert_status(strata_strand_close(&a, &report), STRATA_NO_MEMORY);
    ck_assert_ptr_nonnull(a); /* stays, with what is stranded in it */
    ck_assert_uint_eq(report.stranded, 1);
    assert_status(strata_strand_close(&a, NULL), STRATA_OK);
    ck_assert_ptr_null(a);
    assert_status(strata_strand_close(&a, NULL), STRATA_OK);
    strata_model_info info;
    strata_model_read(model, &info);
    ck_assert_uint_eq(info.areas, 1);
    release_and_destroy(model);
    end_process();
}
END_TEST

START_TEST(handles_are_refused_while_they_are_in_use)
{
    strata_model *model = open_model("rec");
    assert_status(strata_process_destroy(&process), STRATA_BUSY);
    ck_assert_ptr_nonnull(process);
    (void)create_arena(strata_model_root(model), "w", MIB);
    assert_status(strata_model_destroy(&model), STRATA_BUSY);
    release_and_destroy(model);
    end_process();
    assert_status(strata_process_destroy(&process), STRATA_OK);
}
END_TEST

/* A backend of the program's own: what makes it known, and what refuses it. */
START_TEST(backends_join_by_name_and_once)
{
    strata_host_backend own;
    strata_host_backend_init(&own, NULL, &fake.system);
    strata_backend_ops ops = *own.backend.ops;
    own.backend.ops = &ops;
    assert_status(strata_process_add_backend(process, &own.backend, &error), STRATA_INVALID);
    ops.name = "own";
    ops.version++;
    assert_status(strata_process_add_backend(process, &own.backend, &error), STRATA_UNSUPPORTED);
    ops.version--;
    assert_ok(strata_process_add_backend(process, &own.backend, &error), error);
    ck_assert_ptr_eq(strata_process_backend(process, "own"), &own.backend);
    ck_assert_ptr_eq(own.backend.gate, strata_process_gate(process));
    strata_host_backend more[STRATA_BACKENDS_MAX];
    strata_backend_ops more_ops[STRATA_BACKENDS_MAX];
    char names[STRATA_BACKENDS_MAX][8];
    for (int i = 0; i < STRATA_BACKENDS_MAX; i++) {
        strata_host_backend_init(&more[i], NULL, &fake.system);
        more_ops[i] = ops;
        (void)snprintf(names[i], sizeof names[i], "m%d", i % 100);
        more_ops[i].name = names[i];
        more[i].backend.ops = &more_ops[i];
        assert_status(strata_process_add_backend(process, &more[i].backend, &error),
                      i < STRATA_BACKENDS_MAX - 2 ? STRATA_OK : STRATA_LIMIT);
    }
    strata_model_config config;
    strata_model_config_init(&config);
    assert_ok(strata_model_config_set(&config, "w.memory", "own", &error), error);
    strata_model *model = NULL;
    assert_ok(strata_model_open(&model, process, &config, &error), error);
    (void)create_arena(strata_model_root(model), "w", MIB);
    strata_area_info area;
    ck_assert(strata_model_area(model, "w", &area));
    ck_assert_str_eq(area.region.backend, "own");
    release_and_destroy(model);
    end_process();
}
END_TEST

START_TEST(unknown_memory_is_refused_with_what_there_is)
{
    strata_model_config config;
    strata_model_config_init(&config);
    assert_ok(strata_model_config_set(&config, "w.memory", "device", &error), error);
    strata_model *model = NULL;
    assert_ok(strata_model_open(&model, process, &config, &error), error);
    strata_arena_config arena_config;
    strata_arena_config_init(&arena_config);
    arena_config.region.label = "w";
    strata_arena *arena = NULL;
    assert_status(strata_arena_create(&arena, strata_model_root(model), &arena_config, &error),
                  STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "device"));
    ck_assert_ptr_nonnull(strstr(error.text, "host"));
    release_and_destroy(model);
    end_process();
}
END_TEST

/* Case 30, models: fork beside threads that allocate and grow. */
static int stop_threads;

static void *grow_and_shrink(void *argument)
{
    strata_model *model = argument;
    strata_strand *strand = NULL;
    while (__atomic_load_n(&stop_threads, __ATOMIC_ACQUIRE) == 0) {
        ck_assert_int_eq(strata_strand_open(&strand, model, "t", NULL), STRATA_OK);
        strata_arena_config config;
        strata_arena_config_init(&config);
        strata_arena *arena = NULL;
        ck_assert_int_eq(strata_arena_create(&arena, strand, &config, NULL), STRATA_OK);
        ck_assert_ptr_nonnull(strata_arena_alloc(arena, MIB, 1));
        ck_assert_int_eq(strata_strand_close(&strand, NULL), STRATA_OK);
    }
    return NULL;
}

START_TEST(a_forked_child_neither_hangs_nor_takes_the_parents_memory)
{
    strata_model *model = open_model("rec");
    strata_arena *arena = create_arena(strata_model_root(model), "w", 2 * MIB);
    unsigned char *block = strata_arena_alloc(arena, MIB, 1);
    memset(block, 9, MIB);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        (void)pthread_create(&threads[i], NULL, grow_and_shrink, model);
    }
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            (void)alarm(10);
            memset(block, 1, MIB);
            strata_model *other = NULL;
            strata_strand *strand = NULL;
            bool good = strata_arena_alloc(arena, 100, 1) != NULL;
            good = good && strata_arena_alloc(arena, 32 * MIB, 1) == NULL;
            good = good && strata_arena_error(arena)->status == STRATA_UNSUPPORTED;
            good = good && strata_model_release(model, NULL, NULL) == STRATA_UNSUPPORTED;
            good = good && strata_model_destroy(&model) == STRATA_UNSUPPORTED;
            good = good && strata_model_open(&other, process, NULL, NULL) == STRATA_UNSUPPORTED;
            good = good && strata_strand_open(&strand, model, "c", NULL) == STRATA_UNSUPPORTED;
            _exit(good ? 0 : 1);
        }
        int status = 0;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    __atomic_store_n(&stop_threads, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    ck_assert(is_filled(block, MIB, 9));
    release_and_destroy(model);
    end_process();
}
END_TEST

static void *serve(void *argument)
{
    strata_model *model = argument;
    while (__atomic_load_n(&stop_threads, __ATOMIC_ACQUIRE) == 0) {
        strata_arena *arena = strata_strand_arena(strata_model_root(model), "w");
        unsigned char *block = strata_arena_alloc(arena, 3 * MIB, 64);
        ck_assert_ptr_nonnull(block);
        memset(block, 1, 4096);
        ck_assert_int_eq(strata_arena_clear(arena), STRATA_OK);
        ck_assert_int_eq(strata_arena_trim(arena, NULL), STRATA_OK);
        strata_model_info info;
        strata_model_read(model, &info);
    }
    return NULL;
}

START_TEST(other_models_go_on_while_one_is_released)
{
    strata_model *serving[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        serving[i] = open_model("serving");
        (void)create_arena(strata_model_root(serving[i]), "w", MIB);
        (void)pthread_create(&threads[i], NULL, serve, serving[i]);
    }
    for (int i = 0; i < 100; i++) {
        strata_model *model = open_model("swapped");
        (void)create_arena(strata_model_root(model), "w", 4 * MIB);
        strata_release_options options = {.deadline_ns = strata_deadline_in(UINT64_C(20000000000))};
        assert_status(strata_model_release(model, &options, NULL), STRATA_OK);
        assert_status(strata_model_destroy(&model), STRATA_OK);
    }
    __atomic_store_n(&stop_threads, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        strata_report_init(&report, NULL, NULL);
        release_and_destroy(serving[i]);
    }
    end_process();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model");
    TCase *tests = add_case(suite, "model");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_release_pops_newest_first_and_gives_every_byte_back);
    tcase_add_test(tests, one_that_is_not_ready_refuses_all_and_touches_nothing);
    tcase_add_test(tests, it_waits_to_the_deadline_at_most_and_is_let_go_earlier);
    tcase_add_test(tests, nothing_is_returned_while_memory_is_being_asked_for);
    tcase_add_test(tests, what_fails_is_stranded_counted_and_retried_in_its_order);
    tcase_add_test(tests,
                   a_load_that_fails_at_any_call_gives_everything_back_and_says_what_it_undid);
    tcase_add_test(tests, what_an_operator_should_see_is_logged_once_even_without_a_report);
    tcase_add_test(tests, strands_come_and_go_beside_releases_that_are_refused);
    tcase_add_test(tests, asking_for_a_release_does_not_disturb_strands_that_serve);
    tcase_add_test(tests, a_release_that_waits_does_not_hold_up_what_it_waits_for);
    tcase_add_test(tests, traffic_may_register_while_a_release_waits_for_it);
    tcase_add_test(tests, a_release_gets_in_however_dense_the_traffic);
    tcase_add_test(tests, what_is_busy_for_a_moment_is_asked_again_until_the_deadline);
    tcase_add_test(tests, resources_that_are_forgotten_early_may_be_freed_at_once);
    tcase_add_test(tests, a_resource_that_is_busy_only_at_its_release_is_a_failure_not_a_refusal);
    tcase_add_test(tests, opening_fails_at_any_control_block_and_leaves_nothing);
    tcase_add_test(tests, cycles_leave_the_counters_flat_and_the_neighbour_intact);
    tcase_add_test(tests, budgets_hold_for_model_and_process_and_come_back);
    tcase_add_test(tests, memory_taken_outside_any_scope_is_named_with_its_bytes);
    tcase_add_test(tests, a_model_closes_what_is_still_open);
    tcase_add_test(tests, a_release_callback_can_neither_release_nor_grow);
    tcase_add_test(tests, strands_close_alone_and_the_root_does_not);
    tcase_add_test(tests, handles_are_refused_while_they_are_in_use);
    tcase_add_test(tests, backends_join_by_name_and_once);
    tcase_add_test(tests, unknown_memory_is_refused_with_what_there_is);
    tcase_add_test(tests, a_forked_child_neither_hangs_nor_takes_the_parents_memory);
    tcase_add_test(tests, other_models_go_on_while_one_is_released);
    return run_suite(suite);
}

/* test_scope.c - scopes nest, close in order, undo what came since and rewind what was there. */
#include <strata/model.h>

#include "fakes/fake_system.h"
#include "support/check_main.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static fake_system fake;
static strata_process *process;
static strata_model *model;
static strata_strand *root;
static strata_error error;
static strata_report report;

static void setup(void)
{
    fake_system_init(&fake);
    strata_process_config config;
    strata_process_config_init(&config);
    config.system = &fake.system;
    assert_ok(strata_process_create(&process, &config, &error), error);
    assert_ok(strata_model_open(&model, process, NULL, &error), error);
    root = strata_model_root(model);
    strata_report_init(&report, NULL, NULL);
}

static void end(void)
{
    strata_report_init(&report, NULL, NULL);
    assert_status(strata_model_release(model, NULL, &report), STRATA_OK);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    assert_status(strata_process_destroy(&process), STRATA_OK);
    ck_assert(fake_system_is_clean(&fake));
}

static strata_arena *create(const char *label)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = label;
    config.region.first_bytes = 2 * MIB;
    strata_arena *arena = NULL;
    assert_ok(strata_arena_create(&arena, root, &config, &error), error);
    return arena;
}

static size_t used(const strata_arena *arena)
{
    strata_arena_info info;
    strata_arena_read(arena, &info);
    return info.used_bytes;
}

static strata_status count_release(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    self->held_bytes++;
    return self->label[0] == 'f' ? strata_error_set(err, STRATA_RESOURCE, "fails") : STRATA_OK;
}

static strata_status busy_ready(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    return self->held_bytes == 1000 ? strata_error_set(err, STRATA_BUSY, "held") : STRATA_OK;
}

START_TEST(closing_undoes_what_came_since_and_rewinds_what_was_there)
{
    strata_arena *weights = create("weights");
    ck_assert_ptr_nonnull(strata_arena_alloc(weights, 1000, 1));
    size_t before = used(weights);
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    (void)strata_arena_alloc(weights, 5 * MIB, 1);
    strata_arena *scratch = create("scratch");
    strata_resource r;
    strata_resource_init(&r, "user", count_release, NULL);
    assert_status(strata_strand_push(root, &r), STRATA_OK);
    (void)strata_arena_alloc(scratch, 100, 1);
    uint64_t unmaps = fake_system_calls(&fake, FAKE_UNMAP);
    assert_status(strata_scope_close(&scope, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 2);
    ck_assert_str_eq(report.order[0], "user");
    ck_assert_str_eq(report.order[1], "scratch");
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_UNMAP), unmaps + 1);
    ck_assert_uint_eq(used(weights), before);
    ck_assert_ptr_null(strata_arena_alloc(scratch, 1, 1)); /* gone */
    assert_status(strata_scope_close(&scope, NULL), STRATA_INVALID);
    assert_status(strata_scope_keep(&scope), STRATA_INVALID);
    end();
}
END_TEST

START_TEST(keeping_commits_to_the_scope_around_it)
{
    strata_arena *weights = create("weights");
    strata_scope outer;
    strata_scope inner;
    assert_status(strata_scope_open(&outer, root), STRATA_OK);
    size_t before = used(weights);
    assert_status(strata_scope_open(&inner, root), STRATA_OK);
    strata_arena *kv = create("kv");
    (void)strata_arena_alloc(weights, 1000, 1);
    assert_status(strata_scope_keep(&inner), STRATA_OK);
    ck_assert_uint_ge(used(weights), before + 1000);
    /* kept by the inner one, so a later scope of the same depth must rewind it, not release it */
    size_t kv_used = used(kv);
    assert_status(strata_scope_open(&inner, root), STRATA_OK);
    (void)strata_arena_alloc(kv, 1000, 1);
    assert_status(strata_scope_close(&inner, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_uint_eq(used(kv), kv_used);
    assert_status(strata_scope_close(&outer, &report), STRATA_OK);
    ck_assert_uint_eq(report.attempted, 1); /* kv belongs to the outer one now */
    ck_assert_uint_eq(used(weights), before);
    end();
}
END_TEST

START_TEST(out_of_order_changes_nothing)
{
    strata_arena *weights = create("weights");
    strata_scope outer;
    strata_scope inner;
    assert_status(strata_scope_open(&outer, root), STRATA_OK);
    assert_status(strata_scope_open(&inner, root), STRATA_OK);
    (void)strata_arena_alloc(weights, 1000, 1);
    size_t before = used(weights);
    assert_status(strata_scope_close(&outer, &report), STRATA_ORDER);
    assert_status(strata_scope_keep(&outer), STRATA_ORDER);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_uint_eq(used(weights), before);
    assert_status(strata_scope_close(&inner, NULL), STRATA_OK);
    assert_status(strata_scope_close(&outer, NULL), STRATA_OK);
    end();
}
END_TEST

START_TEST(depth_is_limited_and_opening_makes_no_call)
{
    (void)create("weights");
    strata_scope scopes[STRATA_SCOPE_DEPTH_MAX + 1];
    uint64_t calls = fake_system_calls(&fake, FAKE_ANY);
    for (int i = 0; i < STRATA_SCOPE_DEPTH_MAX; i++) {
        assert_status(strata_scope_open(&scopes[i], root), STRATA_OK);
    }
    assert_status(strata_scope_open(&scopes[STRATA_SCOPE_DEPTH_MAX], root), STRATA_LIMIT);
    for (int i = STRATA_SCOPE_DEPTH_MAX - 1; i >= 0; i--) {
        assert_status(strata_scope_close(&scopes[i], NULL), STRATA_OK);
    }
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), calls);
    end();
}
END_TEST

START_TEST(a_refused_close_leaves_the_scope_open)
{
    strata_arena *weights = create("weights");
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    (void)strata_arena_alloc(weights, 1000, 1);
    strata_resource r;
    strata_resource_init(&r, "output", count_release, busy_ready);
    r.held_bytes = 1000;
    assert_status(strata_strand_push(root, &r), STRATA_OK);
    assert_status(strata_scope_close(&scope, &report), STRATA_BUSY);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_uint_ge(used(weights), 1000);
    r.held_bytes = 1;
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    ck_assert_uint_eq(used(weights), 0);
    end();
}
END_TEST

START_TEST(a_failing_close_attempts_everything_ends_the_scope_and_strands)
{
    strata_arena *weights = create("weights");
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    (void)strata_arena_alloc(weights, 1000, 1);
    (void)create("a");
    strata_resource r;
    strata_resource_init(&r, "fails", count_release, NULL);
    assert_status(strata_strand_push(root, &r), STRATA_OK);
    (void)create("b");
    fake_system_fail(&fake, FAKE_UNMAP, 1, false, ENOMEM);
    assert_status(strata_scope_close(&scope, &report), STRATA_NO_MEMORY);
    ck_assert_uint_eq(report.attempted, 3);
    ck_assert_uint_eq(report.failed, 2);
    ck_assert_uint_eq(report.stranded, 1);
    ck_assert_uint_eq(report.stranded_bytes, 2 * MIB); /* of what failed, not of the whole model */
    ck_assert_uint_eq(used(weights), 0);
    assert_status(strata_scope_close(&scope, NULL), STRATA_INVALID);
    fake_system_heal(&fake);
    end(); /* the model's release finds what was stranded */
    ck_assert_uint_eq(report.attempted, 2);
    ck_assert_str_eq(report.order[0], "b");
}
END_TEST

/* Case 27 for scopes: every order of close and keep over three levels returns nothing twice. */
START_TEST(any_mix_of_keep_and_close_returns_everything_once)
{
    end();
    for (unsigned choice = 0; choice < 8; choice++) {
        setup();
        strata_scope scopes[3];
        for (int i = 0; i < 3; i++) {
            assert_status(strata_scope_open(&scopes[i], root), STRATA_OK);
            (void)strata_arena_alloc(create("x"), 1000, 1);
        }
        for (int i = 2; i >= 0; i--) {
            assert_status((choice >> i & 1) != 0 ? strata_scope_keep(&scopes[i])
                                                 : strata_scope_close(&scopes[i], NULL),
                          STRATA_OK);
        }
        end();
        ck_assert_uint_eq(fake.stray_unmaps, 0);
    }
}
END_TEST

/* What the callbacks of a closing scope may try with their own scope, strand and model. */
typedef struct meddler {
    strata_resource resource;
    strata_scope *scope;
    strata_strand *strand;
    strata_status scope_keep, scope_close, scope_open, strand_close, destroy, release;
    strata_arena *late;
} meddler;

static strata_status meddle(strata_resource *self, void *context, strata_error *err)
{
    (void)context;
    meddler *m = (meddler *)(void *)self;
    strata_scope inner;
    strata_strand *strand = m->strand;
    strata_model *own = model;
    m->scope_keep = strata_scope_keep(m->scope);
    m->scope_close = strata_scope_close(m->scope, NULL);
    m->scope_open = strata_scope_open(&inner, strand);
    m->strand_close = strata_strand_close(&strand, NULL);
    m->destroy = strata_model_destroy(&own);
    m->release = strata_model_release(own, NULL, NULL);
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = "late";
    return strata_arena_create(&m->late, m->strand, &config, err);
}

START_TEST(a_callback_cannot_end_what_is_being_ended)
{
    strata_strand *request = NULL;
    assert_ok(strata_strand_open(&request, model, "request", &error), error);
    strata_strand *strands[] = {root, request};
    for (int i = 0; i < 2; i++) {
        strata_scope scope;
        meddler m = {.scope = &scope, .strand = strands[i]};
        strata_resource_init(&m.resource, "meddler", meddle, NULL);
        assert_status(strata_scope_open(&scope, strands[i]), STRATA_OK);
        assert_status(strata_strand_push(strands[i], &m.resource), STRATA_OK);
        assert_status(strata_scope_close(&scope, &report), STRATA_OK);
        assert_status(m.scope_keep, STRATA_ORDER);
        assert_status(m.scope_close, STRATA_ORDER);
        assert_status(m.scope_open, STRATA_ORDER);
        assert_status(m.strand_close, i == 0 ? STRATA_INVALID : STRATA_ORDER);
        assert_status(m.destroy, STRATA_BUSY);
        assert_status(m.release, STRATA_ORDER);
        /* What it made belongs to the strand, and later scopes rewind it. */
        assert_status(strata_scope_open(&scope, strands[i]), STRATA_OK);
        ck_assert_ptr_nonnull(strata_arena_alloc(m.late, 1000, 1));
        assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
        ck_assert_uint_eq(used(m.late), 0);
    }
    end();
}
END_TEST

START_TEST(a_callback_of_a_strands_end_cannot_end_it_again)
{
    strata_strand *request = NULL;
    strata_scope none = {.strand_ = NULL};
    assert_ok(strata_strand_open(&request, model, "request", &error), error);
    meddler m = {.scope = &none, .strand = request};
    strata_resource_init(&m.resource, "meddler", meddle, NULL);
    assert_status(strata_strand_push(request, &m.resource), STRATA_OK);
    assert_status(strata_strand_close(&request, &report), STRATA_OK);
    ck_assert_ptr_nonnull(request); /* what the callback made is still in it */
    assert_status(m.strand_close, STRATA_ORDER);
    assert_status(m.destroy, STRATA_BUSY);
    assert_status(strata_strand_close(&request, &report), STRATA_OK);
    ck_assert_ptr_null(request);
    end();
}
END_TEST

START_TEST(scopes_are_exact_however_often_something_above_was_rewound)
{
    strata_arena *weights = create("weights");
    for (size_t layer = 1; layer <= 500; layer++) {
        strata_scope scope;
        ck_assert_ptr_nonnull(strata_arena_alloc(weights, 1000, 1)); /* kept */
        size_t before = used(weights);
        assert_status(strata_scope_open(&scope, root), STRATA_OK);
        (void)strata_arena_alloc(weights, 100, 1);
        strata_arena_mark mark = strata_arena_get_mark(weights);
        (void)strata_arena_alloc(weights, 500, 1);
        assert_status(strata_arena_rewind(weights, mark), STRATA_OK);
        assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
        ck_assert_uint_eq(used(weights), before);
    }
    end();
}
END_TEST

START_TEST(a_scope_whose_arena_was_cleared_ends_at_the_lowest_point)
{
    strata_arena *weights = create("weights");
    ck_assert_ptr_nonnull(strata_arena_alloc(weights, 1000, 1));
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    assert_status(strata_arena_clear(weights), STRATA_OK);
    (void)strata_arena_alloc(weights, 5000, 1);
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    ck_assert_uint_eq(used(weights), 0);
    end();
}
END_TEST

START_TEST(an_arena_that_was_stranded_or_closed_early_does_not_fail_later_scopes)
{
    strata_scope outer;
    strata_scope inner;
    strata_arena *early = create("early");
    assert_status(strata_scope_open(&outer, root), STRATA_OK);
    (void)create("stranded");
    fake_system_fail(&fake, FAKE_UNMAP, 1, false, ENOMEM);
    assert_status(strata_scope_close(&outer, NULL), STRATA_NO_MEMORY);
    assert_ok(strata_arena_close(early, NULL, &error), error);
    assert_status(strata_scope_open(&outer, root), STRATA_OK);
    assert_status(strata_scope_open(&inner, root), STRATA_OK);
    assert_status(strata_scope_close(&inner, NULL), STRATA_OK);
    assert_status(strata_scope_close(&outer, NULL), STRATA_OK);
    fake_system_heal(&fake);
    end();
}
END_TEST

static void *hold_the_gate(void *argument)
{
    int *state = argument;
    strata_pass pass;
    strata_gate *gate = strata_process_gate(process);
    (void)strata_gate_enter(gate, &pass, "a copy", STRATA_DEADLINE_NEVER, NULL);
    __atomic_store_n(state, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != 2) {
        (void)usleep(100);
    }
    strata_gate_leave(gate, &pass);
    return NULL;
}

START_TEST(a_close_that_finds_the_gate_held_touches_nothing)
{
    end();
    fake_system_init(&fake);
    strata_process_config config;
    strata_process_config_init(&config);
    config.system = &fake.system;
    config.gate_wait_ns = 5000000;
    assert_ok(strata_process_create(&process, &config, &error), error);
    assert_ok(strata_model_open(&model, process, NULL, &error), error);
    root = strata_model_root(model);
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    strata_arena *arena = create("inside");
    int state = 0;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_the_gate, &state), 0);
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1) {
        (void)usleep(100);
    }
    strata_report_init(&report, NULL, NULL);
    assert_status(strata_scope_close(&scope, &report), STRATA_TIMEOUT);
    ck_assert_uint_eq(report.attempted, 0);
    ck_assert_str_eq(report.details[0].label, "gate");
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, 100, 1));
    __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
    (void)pthread_join(thread, NULL);
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    end();
}
END_TEST

START_TEST(damage_that_a_rewind_finds_is_reported_by_its_arena)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = "weights";
    config.guard = STRATA_GUARD_ON;
    strata_arena *weights = NULL;
    assert_ok(strata_arena_create(&weights, root, &config, &error), error);
    for (int undo = 0; undo < 2; undo++) {
        strata_scope scope;
        assert_status(strata_scope_open(&scope, root), STRATA_OK);
        volatile unsigned char *block = strata_arena_alloc(weights, 10, 1);
        block[10] = 1;
        strata_report_init(&report, NULL, NULL);
        if (undo == 0) {
            assert_status(strata_scope_close(&scope, &report), STRATA_CORRUPT);
        } else {
            strata_error why;
            (void)strata_error_set(&why, STRATA_BUDGET, "too large");
            assert_status(strata_scope_undo(&scope, &report, &why), STRATA_BUDGET);
            ck_assert_ptr_nonnull(strstr(why.text, "weights: something wrote past the end"));
        }
        ck_assert_uint_eq(report.failed, 1);
        ck_assert_str_eq(report.details[0].label, "weights");
        assert_status(strata_scope_close(&scope, NULL), STRATA_INVALID); /* it has ended */
        ck_assert_uint_eq(used(weights), 0);
    }
    /* Damage found at the very end: everything was returned, so nothing is stranded. */
    volatile unsigned char *block = strata_arena_alloc(weights, 10, 1);
    block[10] = 1;
    strata_report_init(&report, NULL, NULL);
    assert_status(strata_model_release(model, NULL, &report), STRATA_CORRUPT);
    ck_assert_uint_eq(report.stranded, 0);
    ck_assert_uint_eq(report.bytes_held_after, 0);
    assert_status(strata_model_destroy(&model), STRATA_OK);
    assert_status(strata_process_destroy(&process), STRATA_OK);
}
END_TEST

START_TEST(a_forked_child_cannot_release_what_a_scope_holds)
{
    strata_arena *weights = create("weights");
    strata_scope scope;
    strata_resource r;
    strata_resource_init(&r, "user", count_release, NULL);
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    assert_status(strata_strand_push(root, &r), STRATA_OK);
    pid_t child = fork();
    if (child == 0) {
        strata_arena *none = NULL;
        strata_scope plain;
        bool good = strata_scope_close(&scope, NULL) == STRATA_UNSUPPORTED && r.held_bytes == 0;
        good = good && strata_arena_close(weights, NULL, NULL) == STRATA_UNSUPPORTED;
        good = good && strata_arena_alloc(weights, 100, 1) != NULL; /* it is still open */
        good = good && strata_arena_create(&none, root, NULL, NULL) == STRATA_UNSUPPORTED;
        /* A scope over inherited memory alone is fine. */
        good = good && strata_scope_open(&plain, root) == STRATA_OK;
        good = good && strata_scope_close(&plain, NULL) == STRATA_OK;
        _exit(good ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    assert_status(strata_scope_close(&scope, NULL), STRATA_OK);
    end();
}
END_TEST

START_TEST(undo_carries_what_failed_and_what_was_undone)
{
    strata_scope scope;
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    (void)create("weights");
    (void)create("kv");
    strata_error why;
    (void)strata_error_set(&why, STRATA_BUDGET, "scratch does not fit");
    assert_status(strata_scope_undo(&scope, NULL, &why), STRATA_BUDGET);
    ck_assert_str_eq(why.text, "scratch does not fit; undone: 2 resource(s): kv, weights");
    (void)strata_error_set(&why, STRATA_BUDGET, "again");
    assert_status(strata_scope_undo(&scope, &report, &why), STRATA_BUDGET);
    ck_assert_ptr_nonnull(strstr(why.text, "not undone"));
    assert_status(strata_scope_open(&scope, root), STRATA_OK);
    (void)create("x");
    fake_system_fail(&fake, FAKE_UNMAP, 1, false, ENOMEM);
    (void)strata_error_set(&why, STRATA_BUDGET, "third");
    assert_status(strata_scope_undo(&scope, NULL, &why), STRATA_BUDGET);
    ck_assert_str_eq(why.text,
                     "third; undone: 1 resource(s) failed to release: x: munmap: 12 ENOMEM");
    fake_system_heal(&fake);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scope");
    TCase *tests = add_case(suite, "scope");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, closing_undoes_what_came_since_and_rewinds_what_was_there);
    tcase_add_test(tests, keeping_commits_to_the_scope_around_it);
    tcase_add_test(tests, out_of_order_changes_nothing);
    tcase_add_test(tests, depth_is_limited_and_opening_makes_no_call);
    tcase_add_test(tests, a_refused_close_leaves_the_scope_open);
    tcase_add_test(tests, a_failing_close_attempts_everything_ends_the_scope_and_strands);
    tcase_add_test(tests, any_mix_of_keep_and_close_returns_everything_once);
    tcase_add_test(tests, a_callback_cannot_end_what_is_being_ended);
    tcase_add_test(tests, a_callback_of_a_strands_end_cannot_end_it_again);
    tcase_add_test(tests, scopes_are_exact_however_often_something_above_was_rewound);
    tcase_add_test(tests, a_scope_whose_arena_was_cleared_ends_at_the_lowest_point);
    tcase_add_test(tests, an_arena_that_was_stranded_or_closed_early_does_not_fail_later_scopes);
    tcase_add_test(tests, a_close_that_finds_the_gate_held_touches_nothing);
    if (!memory_is_watched()) {
        tcase_add_test(tests, damage_that_a_rewind_finds_is_reported_by_its_arena);
    }
    tcase_add_test(tests, a_forked_child_cannot_release_what_a_scope_holds);
    tcase_add_test(tests, undo_carries_what_failed_and_what_was_undone);
    return run_suite(suite);
}

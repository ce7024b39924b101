/* test_scope.c - scopes nest, close in order, undo what came since and rewind what was there. */
#include <strata/model.h>

#include "fakes/fake_system.h"
#include "support/check_main.h"

#include <errno.h>
#include <string.h>

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
    ck_assert_ptr_nonnull(strstr(why.text, "could not be undone"));
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
    tcase_add_test(tests, undo_carries_what_failed_and_what_was_undone);
    return run_suite(suite);
}

/* test_strand.c - a heap as a resource of a model. */
#include "support.h"

#include <strata/model.h>

#include <errno.h>
#include <string.h>

typedef struct loaded {
    fake_system system;
    fake_memory memory;
    strata_process *process;
    strata_model *model;
} loaded;

static void load(loaded *l, const char *overrides)
{
    fake_system_init(&l->system);
    fake_memory_init(&l->memory);
    strata_process_config process_config;
    strata_process_config_init(&process_config);
    process_config.memory = l->memory.memory;
    process_config.system = &l->system.system;
    l->process = NULL;
    ck_assert_int_eq(strata_process_create(&l->process, &process_config, NULL), STRATA_OK);
    strata_model_config config;
    strata_model_config_init(&config);
    strata_error err = {.status = STRATA_OK};
    if (overrides != NULL) {
        ck_assert_msg(strata_model_config_set_line(&config, overrides, &err) == STRATA_OK, "%s",
                      err.text);
    }
    l->model = NULL;
    ck_assert_msg(strata_model_open(&l->model, l->process, &config, &err) == STRATA_OK, "%s",
                  err.text);
}

static void unload(loaded *l)
{
    ck_assert_int_eq(strata_model_destroy(&l->model), STRATA_OK);
    ck_assert_int_eq(strata_process_destroy(&l->process), STRATA_OK);
    ck_assert(fake_system_is_clean(&l->system));
    ck_assert_uint_eq(fake_memory_live(&l->memory), 0);
    fake_memory_fini(&l->memory);
    fake_system_fini(&l->system);
}

/* Promise (case 4): every byte that the ledger holds has an owner with a label and a strand:
 * arenas, heaps and their bookkeeping, in the root and in a request's strand, in a scope and
 * outside. */
START_TEST(the_areas_add_up_to_the_ledger)
{
    loaded l;
    load(&l, NULL);
    strata_strand *request = NULL;
    strata_error err = {.status = STRATA_OK};
    ck_assert_int_eq(strata_strand_open(&request, l.model, "request", &err), STRATA_OK);
    strata_strand *strands[] = {strata_model_root(l.model), request};
    strata_scope scopes[2];
    for (int i = 0; i < 4; i++) {
        strata_strand *strand = strands[i % 2];
        if (i == 2) {
            ck_assert_int_eq(strata_scope_open(&scopes[0], strands[0]), STRATA_OK);
            ck_assert_int_eq(strata_scope_open(&scopes[1], strands[1]), STRATA_OK);
        }
        strata_heap *heap = NULL;
        strata_arena *arena = NULL;
        ck_assert_int_eq(strata_heap_create(&heap, strand, NULL, &err), STRATA_OK);
        ck_assert_int_eq(strata_arena_create(&arena, strand, NULL, &err), STRATA_OK);
        (void)must_alloc(heap, MIB * (size_t)(i + 1), 16);
        ck_assert_ptr_nonnull(strata_arena_alloc(arena, 3 * MIB, 64));
    }
    strata_area_info areas[16];
    size_t count = strata_model_areas(l.model, areas, 16);
    ck_assert_uint_eq(count, 8);
    size_t sum = 0;
    size_t in_request = 0;
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_gt(areas[i].region.committed_bytes, 0);
        sum += areas[i].region.committed_bytes + areas[i].bookkeeping_bytes;
        in_request += strcmp(areas[i].strand, "request") == 0;
    }
    strata_model_info info;
    strata_model_read(l.model, &info);
    ck_assert_uint_eq(sum, info.ledger.committed_bytes);
    ck_assert_uint_eq(in_request, 4);
    ck_assert_int_eq(strata_model_release(l.model, NULL, NULL), STRATA_OK);
    unload(&l);
}
END_TEST

/* Promise: the operator's values are laid over the code's; the model's release returns heap and
 * bits whatever is live, counts two unmaps, and the heap then answers CLOSED. */
START_TEST(a_model_returns_its_heap)
{
    loaded l;
    load(&l, "run.reserve:32MiB,run.pages:default");
    strata_heap_config config;
    strata_heap_config_init(&config);
    config.region.label = "run";
    strata_heap *heap = NULL;
    strata_error err = {.status = STRATA_OK};
    strata_strand *root = strata_model_root(l.model);
    ck_assert_msg(strata_heap_create(&heap, root, &config, &err) == STRATA_OK, "%s", err.text);
    for (size_t i = 0; i < 100; i++) {
        void *block = must_alloc(heap, 10000, 16);
        fill(block, 10000);
    }
    strata_area_info area;
    ck_assert(strata_model_area(l.model, "run", &area));
    ck_assert_str_eq(area.kind, "heap");
    ck_assert_uint_eq(area.region.reserve_bytes, 32 * MIB);
    ck_assert_uint_eq(area.allocations, 100);
    ck_assert_uint_ge(area.used_bytes, UINTMAX_C(1000000));

    strata_report report;
    strata_report_init(&report, NULL, NULL);
    ck_assert_int_eq(strata_model_release(l.model, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.failed, 0);
    ck_assert_uint_eq(report.bytes_held_after, 0);
    ck_assert_uint_eq(report.unmaps, 2);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_VERIFIED);
    ck_assert_ptr_null(strata_heap_alloc(heap, 10, 16, &err));
    ck_assert_int_eq(err.status, STRATA_CLOSED);
    unload(&l);
}
END_TEST

/* Promise: `checked = no` keeps no bits; what the heap commits is charged to the model's budget. */
START_TEST(configuration_reaches_the_heap)
{
    loaded l;
    load(&l, "run.checked:no,run.pages:default,model.budget:4MiB");
    strata_heap_config config = small_config();
    strata_heap *heap = NULL;
    ck_assert_int_eq(strata_heap_create(&heap, strata_model_root(l.model), &config, NULL),
                     STRATA_OK);
    ck_assert_uint_eq(fake_system_live(&l.system), 1);
    strata_error err = {.status = STRATA_OK};
    ck_assert_ptr_null(strata_heap_alloc(heap, 6 * MIB, 16, &err));
    ck_assert_int_eq(err.status, STRATA_BUDGET);
    ck_assert_ptr_nonnull(strstr(err.text, "run"));
    ck_assert_ptr_nonnull(must_alloc(heap, MIB, 16));
    ck_assert_int_eq(strata_model_release(l.model, NULL, NULL), STRATA_OK);
    unload(&l);
}
END_TEST

/* Promise: a heap opened in a scope goes with it, whole; what was allocated in an older heap
 * survives. */
START_TEST(scopes_and_heaps)
{
    loaded l;
    load(&l, NULL);
    strata_heap_config config = small_config();
    strata_strand *root = strata_model_root(l.model);
    strata_heap *older = NULL;
    ck_assert_int_eq(strata_heap_create(&older, root, &config, NULL), STRATA_OK);
    strata_scope scope;
    ck_assert_int_eq(strata_scope_open(&scope, root), STRATA_OK);
    config.region.label = "scratch";
    strata_heap *inner = NULL;
    ck_assert_int_eq(strata_heap_create(&inner, root, &config, NULL), STRATA_OK);
    void *kept = must_alloc(older, 3000, 16);
    fill(kept, 3000);
    fill(must_alloc(inner, 3000, 16), 3000);
    ck_assert_uint_eq(fake_system_live(&l.system), 4);
    ck_assert_int_eq(strata_scope_close(&scope, NULL), STRATA_OK);
    ck_assert_uint_eq(fake_system_live(&l.system), 2);
    ck_assert(is_filled(kept, 3000));
    ck_assert_int_eq(strata_heap_free(older, kept), STRATA_OK);
    ck_assert_int_eq(strata_model_release(l.model, NULL, NULL), STRATA_OK);
    unload(&l);
}
END_TEST

/* Promise: creating fails cleanly for every n-th system call and control block; a return that fails
 * is stranded, reported by label, and succeeds at the next release. */
START_TEST(creation_and_return_fail)
{
    loaded l;
    load(&l, NULL);
    strata_heap_config config = small_config();
    config.region.first_bytes = MIB;
    strata_strand *root = strata_model_root(l.model);
    strata_heap *heap = NULL;
    size_t blocks = fake_memory_live(&l.memory);
    for (uint64_t n = 1; heap == NULL; n++) {
        strata_error err = {.status = STRATA_OK};
        fake_memory_fail(&l.memory, n, false);
        strata_status status = strata_heap_create(&heap, root, &config, &err);
        fake_memory_heal(&l.memory);
        ck_assert_int_eq(status, heap == NULL ? STRATA_NO_MEMORY : STRATA_OK);
        if (heap == NULL) {
            ck_assert_uint_eq(fake_memory_live(&l.memory), blocks);
            ck_assert_uint_eq(fake_system_live(&l.system), 0);
        } else {
            ck_assert_uint_ge(n, 4);
        }
    }
    fake_system_fail(&l.system, FAKE_UNMAP, 1, false, ENOMEM);
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    ck_assert_int_ne(strata_model_release(l.model, NULL, &report), STRATA_OK);
    ck_assert_uint_eq(report.failed, 1);
    ck_assert_str_eq(report.details[0].label, "run");
    ck_assert_int_eq(strata_model_destroy(&l.model), STRATA_BUSY);
    fake_system_heal(&l.system);
    ck_assert_int_eq(strata_model_release(l.model, NULL, NULL), STRATA_OK);
    unload(&l);
}
END_TEST

Suite *strand_suite(void)
{
    Suite *suite = suite_create("heap in a model");
    TCase *tests = tcase_create("strand");
    tcase_set_timeout(tests, TEST_TIMEOUT_S);
    tcase_add_test(tests, the_areas_add_up_to_the_ledger);
    tcase_add_test(tests, a_model_returns_its_heap);
    tcase_add_test(tests, configuration_reaches_the_heap);
    tcase_add_test(tests, scopes_and_heaps);
    tcase_add_test(tests, creation_and_return_fail);
    suite_add_tcase(suite, tests);
    return suite;
}

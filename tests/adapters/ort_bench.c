/* ort_bench.c - see ort_bench.h. */
#include "ort_bench.h"

void ort_bench_begin(ort_bench *b, const struct OrtApiBase *base, void *ort_env)
{
    fake_system_init(&b->system);
    fake_memory_init(&b->memory);
    strata_process_config config;
    strata_process_config_init(&config);
    config.memory = b->memory.memory;
    config.system = &b->system.system;
    assert_ok(strata_process_create(&b->process, &config, &b->err), b->err);
    assert_ok(strata_ort_env_create(&b->env, base, ort_env, &b->memory.memory, &b->err), b->err);
}

static void configure(strata_model_config *config, const char *overrides)
{
    strata_error err = {0};
    strata_model_config_init(config);
    assert_ok(strata_model_config_set_line(config, "model.label:rec", &err), err);
    if (overrides != NULL) {
        assert_ok(strata_model_config_set_line(config, overrides, &err), err);
    }
}

strata_status ort_bench_try_open(ort_bench *b, const char *overrides)
{
    strata_model_config config;
    configure(&config, overrides);
    strata_status status = strata_model_open(&b->model, b->process, &config, &b->err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_ort_session_config session;
    strata_ort_session_config_init(&session);
    session.label = "rec";
    status = strata_ort_session_open(&b->session, b->env, strata_model_root(b->model), &session,
                                     &b->err);
    if (status == STRATA_OK) {
        b->hook = (hook *)(void *)strata_ort_session_allocator(b->session);
        return STRATA_OK;
    }
    ck_assert_ptr_null(b->session);
    assert_status(ort_bench_release(b), STRATA_OK);
    ort_bench_close(b);
    return status;
}

void ort_bench_open(ort_bench *b, const char *overrides)
{
    strata_status status = ort_bench_try_open(b, overrides);
    ck_assert_msg(status == STRATA_OK, "open: %s", b->err.text);
}

strata_status ort_bench_release(ort_bench *b)
{
    strata_report_init(&b->report, NULL, NULL);
    return strata_model_release(b->model, NULL, &b->report);
}

void ort_bench_close(ort_bench *b)
{
    assert_status(strata_ort_session_destroy(&b->session), STRATA_OK);
    assert_status(strata_model_destroy(&b->model), STRATA_OK);
    b->hook = NULL;
}

void ort_bench_end(ort_bench *b)
{
    assert_status(strata_ort_env_destroy(&b->env), STRATA_OK);
    assert_status(strata_process_destroy(&b->process), STRATA_OK);
    ck_assert_msg(fake_system_is_clean(&b->system), "%zu mappings of %zu bytes are left",
                  b->system.live_mappings, b->system.live_bytes);
    ck_assert_uint_eq(fake_memory_live(&b->memory), 0);
    fake_memory_fini(&b->memory);
    fake_system_fini(&b->system);
}

strata_ort_session_info ort_bench_read(ort_bench *b)
{
    strata_ort_session_info info;
    strata_ort_session_read(b->session, &info);
    return info;
}

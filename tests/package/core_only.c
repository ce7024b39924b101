/* core_only.c - the README's example as a whole program, as an outside program writes it: a load in a
 * scope, kept or undone whole; a request in a scope of its own; a release that is refused while
 * something is held, and then succeeds. */
#include <strata/model.h>

#include <stdio.h>

static strata_status load(strata_model *model, size_t bytes, strata_error *error)
{
    strata_scope scope;
    strata_status status = strata_scope_open(&scope, strata_model_root(model));
    if (status != STRATA_OK) {
        return strata_error_set(error, status, "no scope: %s", strata_status_text(status));
    }
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = "weights";
    strata_arena *weights = NULL;
    if (strata_arena_create(&weights, strata_model_root(model), &config, error) != STRATA_OK) {
        return strata_scope_undo(&scope, NULL, error);
    }
    if (strata_arena_alloc(weights, bytes, 64) == NULL) {
        *error = *strata_arena_error(weights);
        return strata_scope_undo(&scope, NULL, error);
    }
    return strata_scope_keep(&scope);
}

/* A resource of the program's own: an output that somebody still holds. */
static bool held = true;

static strata_status output_ready(strata_resource *self, void *context, strata_error *error)
{
    (void)self;
    (void)context;
    return held ? strata_error_set(error, STRATA_BUSY, "an output is still held") : STRATA_OK;
}

static strata_status output_release(strata_resource *self, void *context, strata_error *error)
{
    (void)self;
    (void)context;
    (void)error;
    return STRATA_OK;
}

static strata_status release(strata_model *model)
{
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    strata_status status = strata_model_release(model, NULL, &report);
    char text[512];
    (void)strata_report_format(&report, text, sizeof text);
    (void)puts(text);
    return status;
}

static int fail(const strata_error *error)
{
    (void)fprintf(stderr, "%s\n", error->text);
    return 1;
}

int main(void)
{
    strata_error error = {.status = STRATA_OK};
    strata_process *process = NULL;
    strata_model *model = NULL;
    if (strata_process_create(&process, NULL, &error) != STRATA_OK ||
        strata_model_open(&model, process, NULL, &error) != STRATA_OK) {
        return fail(&error);
    }
    /* More than the default reservation: undone, with the key to raise. */
    if (load(model, (size_t)1 << 40, &error) == STRATA_OK) {
        return 1;
    }
    (void)puts(error.text);
    if (load(model, 1000, &error) != STRATA_OK) {
        return fail(&error);
    }
    strata_resource output;
    strata_resource_init(&output, "output", output_release, output_ready);
    if (strata_strand_push(strata_model_root(model), &output) != STRATA_OK ||
        release(model) != STRATA_BUSY) {
        return 1;
    }
    held = false;
    return release(model) == STRATA_OK && strata_model_destroy(&model) == STRATA_OK &&
                   strata_process_destroy(&process) == STRATA_OK
               ? 0
               : 1;
}

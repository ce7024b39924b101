/* core_only.c - the shortest whole use of the core, as an outside program writes it. */
#include <strata/model.h>

#include <stdio.h>

int main(void)
{
    strata_error error;
    strata_process *process = NULL;
    strata_model *model = NULL;
    if (strata_process_create(&process, NULL, &error) != STRATA_OK ||
        strata_model_open(&model, process, NULL, &error) != STRATA_OK) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.label = "weights";
    strata_arena *weights = NULL;
    if (strata_arena_create(&weights, strata_model_root(model), &config, &error) != STRATA_OK ||
        strata_arena_alloc(weights, 1000, 64) == NULL) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    strata_status status = strata_model_release(model, NULL, &report);
    char text[256];
    (void)strata_report_format(&report, text, sizeof text);
    (void)puts(text);
    return status == STRATA_OK && strata_model_destroy(&model) == STRATA_OK &&
                   strata_process_destroy(&process) == STRATA_OK
               ? 0
               : 1;
}

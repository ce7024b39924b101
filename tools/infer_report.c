/* infer_report.c - documents through jansson, tables through output.h. See infer_report.h. */
#include "infer_report.h"

#include "output.h"

#include <strata/units.h>

#include <inttypes.h>
#include <math.h>

bool infer_model_is_good(const infer_model *model)
{
    const infer_comparison *comparison = &model->comparison;
    return model->loaded && model->run_error.status == STRATA_OK && model->differing == 0 &&
           (!comparison->done || comparison->same) && model->released &&
           output_release_is_good(&model->release) && model->memory_info.refused_frees == 0 &&
           model->memory_info.late_calls == 0 &&
           model->memory_info.allocations == model->memory_info.frees;
}

static bool outputs_same(const infer_model *model)
{
    return model->differing == 0 && (!model->comparison.done || model->comparison.same);
}

/* --- the document ------------------------------------------------------------------------------*/

static json_t *hash_text(uint64_t hash)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

static json_t *interval_document(const statistics_interval *interval)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:b}", "median", output_real(interval->median), "low95",
                     output_real(interval->low95), "high95", output_real(interval->high95), "pairs",
                     output_bytes(interval->values), "covered", (int)interval->covered);
}

static double run_ms(const infer_model *model)
{
    return model->comparison.done ? model->comparison.run_ms
                                  : statistics_median(model->run_ms, model->run_count);
}

/* Everything that the promise about speed rests on; null without --compare-stock. */
static bool add_comparison(json_t *document, const infer_comparison *comparison)
{
    json_t *part;
    if (comparison->done) {
        part = json_pack(
            "{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
            "stock_output_hash", hash_text(comparison->stock_hash), "stock_run_ms_median",
            output_real(comparison->stock_run_ms), "run_ratio",
            interval_document(&comparison->run_ratio), "default_run_ms_median",
            output_real(comparison->default_run_ms), "default_run_ratio",
            interval_document(&comparison->default_run_ratio), "stock_load_ms",
            output_real(comparison->stock_load_ms), "same_default_output",
            (int)comparison->same_default, "load_ratio", interval_document(&comparison->load_ratio),
            "stock_unload_ms", output_real(comparison->stock_unload_ms), "unload_ratio",
            interval_document(&comparison->unload_ratio), "load_ms_median",
            output_real(comparison->load_ms), "unload_ms_median",
            output_real(comparison->unload_ms), "release_ms_median",
            output_real(comparison->release_ms), "compared_tlb_shootdowns",
            output_count(comparison->tlb), "stock_tlb_shootdowns",
            output_count(comparison->stock_tlb));
    } else {
        part = json_pack("{s:n, s:n, s:n, s:n, s:n}", "stock_output_hash", "stock_run_ms_median",
                         "run_ratio", "stock_unload_ms", "stock_tlb_shootdowns");
    }
    bool added = part != NULL && json_object_update(document, part) == 0;
    json_decref(part);
    return added;
}

static json_t *shapes_document(const infer_model *model)
{
    json_t *shapes = json_array();
    for (size_t i = 0; i < model->setting->picture_count; i++) {
        output_append(&shapes, output_text(model->shapes[i]));
    }
    return shapes;
}

static json_t *model_document(const infer_model *model)
{
    const strata_ort_session_info *info = &model->memory_info;
    json_t *document = json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
        "label", output_text(model->label), "file", output_text(model->path), "rounds",
        output_bytes(model->rounds_done), "output_hash", hash_text(model->own_hash), "same_output",
        (int)outputs_same(model), "allocations", output_bytes(info->allocations), "frees",
        output_bytes(info->frees), "bytes_peak", output_bytes(info->peak_bytes), "bytes_outside",
        output_bytes(model->outside_bytes), "run_ms_median", output_real(run_ms(model)),
        "session_options", STRATA_ORT_OPTIONS, "load_ms", output_real((double)model->load_ns / 1e6),
        "unload_ms", output_real((double)model->unload_ns / 1e6), "release_ms",
        output_real((double)model->release_ns / 1e6), "regions",
        output_regions(model->areas, model->area_count), "shapes", shapes_document(model),
        "release", output_release(model->label, &model->release, model->release_tlb));
    if (document == NULL || !add_comparison(document, &model->comparison)) {
        json_decref(document);
        return NULL;
    }
    if (model->refused) {
        json_t *refusal = output_release(model->label, &model->refusal, (machine_count){0});
        if (refusal == NULL || json_object_set_new(document, "refusal", refusal) != 0) {
            json_decref(document);
            return NULL;
        }
    }
    return document;
}

json_t *infer_document(const infer_result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < result->count; i++) {
        output_append(&list, model_document(result->models[i]));
    }
    return json_pack("{s:{s:s, s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:b}", "runtime", "name",
                     "onnxruntime", "version", output_text(infer_runtime_version(result->runtime)),
                     "library", output_text(result->library), "models", list, "runtime_kept_bytes",
                     json_integer(result->kept_bytes), "resident_before",
                     output_count(result->resident_before), "resident_after",
                     output_count(result->resident_after), "malloc_free_bytes",
                     output_bytes(result->malloc_free_bytes), "ok", (int)result->ok);
}

/* --- for people --------------------------------------------------------------------------------*/

typedef char cell[OUTPUT_CELL_MAX];

static const char *count_cell(uint64_t value, cell into)
{
    (void)snprintf(into, sizeof(cell), "%" PRIu64, value);
    return into;
}

static const char *ms_cell(double value, cell into)
{
    if (isnan(value)) {
        return NULL; /* no run, no figure */
    }
    (void)snprintf(into, sizeof(cell), "%.3f", value);
    return into;
}

static const char *ratio_cell(const statistics_interval *interval, cell into)
{
    (void)snprintf(into, sizeof(cell), "%.3f [%.3f, %.3f]", interval->median, interval->low95,
                   interval->high95);
    return into;
}

static void print_runs(FILE *to, const infer_model *const *models, size_t count)
{
    output_table table;
    output_table_init(&table, 9);
    output_table_row(&table, (const char *[]){"model", "shape", "output", "rounds", "run ms",
                                              "allocations", "frees", "peak", "outside"});
    for (size_t i = 0; i < count; i++) {
        const infer_model *model = models[i];
        const char *same = !outputs_same(model)     ? "DIFFERENT"
                           : model->comparison.done ? "as stock's"
                                                    : "steady";
        cell rounds, ms, allocations, frees;
        char peak[STRATA_UNITS_TEXT_MAX];
        char outside[STRATA_UNITS_TEXT_MAX];
        output_table_row(&table,
                         (const char *[]){model->label, model->shapes[0], same,
                                          count_cell(model->rounds_done, rounds),
                                          ms_cell(run_ms(model), ms),
                                          count_cell(model->memory_info.allocations, allocations),
                                          count_cell(model->memory_info.frees, frees),
                                          strata_size_show(model->memory_info.peak_bytes, peak),
                                          strata_size_show(model->outside_bytes, outside)});
    }
    output_table_print(&table, to, 3);
}

static void compared_row(output_table *table, const char *label, const char *what, double ours,
                         double theirs, const statistics_interval *of)
{
    cell mine, stock, pairs, interval;
    output_table_row(table,
                     (const char *[]){label, what, ms_cell(ours, mine), ms_cell(theirs, stock),
                                      ratio_cell(of, interval), count_cell(of->values, pairs)});
}

static void print_comparison(FILE *to, const infer_model *const *models, size_t count)
{
    output_table table;
    output_table_init(&table, 6);
    output_table_row(&table, (const char *[]){"model", "compared with stock", "ours ms", "stock ms",
                                              "ratio [95 %]", "pairs"});
    for (size_t i = 0; i < count; i++) {
        const infer_comparison *c = &models[i]->comparison;
        if (!c->done) {
            continue;
        }
        const char *label = models[i]->label;
        compared_row(&table, label, "run", c->run_ms, c->stock_run_ms, &c->run_ratio);
        compared_row(&table, label,
                     c->same_default ? "run, its default options"
                                     : "run, its default options (other output)",
                     c->run_ms, c->default_run_ms, &c->default_run_ratio);
        compared_row(&table, label, "load", c->load_ms, c->stock_load_ms, &c->load_ratio);
        compared_row(&table, label, "unload", c->unload_ms, c->stock_unload_ms, &c->unload_ratio);
        cell ours;
        output_table_row(&table, (const char *[]){label, "unload, Strata's part",
                                                  ms_cell(c->release_ms, ours), NULL, NULL, NULL});
    }
    output_table_print(&table, to, 2);
}

/* What the tables' words mean. */
static void print_legend(FILE *to, bool compared)
{
    (void)fputs("\noutside: what the runtime took from malloc while it created the session, beside "
                "Strata's memory\n",
                to);
    if (!compared) {
        (void)fputs("steady: every round's output is the first one's, bit for bit\n", to);
        return;
    }
    (void)fputs(
        "as stock's: bit for bit the output of the runtime with its own allocator\n"
        "ratio: the median of the pairs' ratios and its interval, not the quotient of the two "
        "medians\n"
        "its default options: stock without the session options above; other kernels may give "
        "(other output)\n"
        "unload: the runtime's ReleaseSession and then the model's release; Strata's part is the "
        "latter\n",
        to);
}

static void print_kept(FILE *to, const infer_result *result)
{
    char kept[STRATA_UNITS_TEXT_MAX];
    char before[STRATA_UNITS_TEXT_MAX];
    char after[STRATA_UNITS_TEXT_MAX];
    char unused[STRATA_UNITS_TEXT_MAX];
    int64_t bytes = result->kept_bytes;
    (void)fprintf(to, "\nthe runtime itself keeps %s%s of malloc's memory", bytes < 0 ? "-" : "",
                  strata_size_show((uint64_t)(bytes < 0 ? -bytes : bytes), kept));
    if (result->resident_before.known && result->resident_after.known) {
        (void)fprintf(to,
                      ";\nresident %s before the first load, %s after the last release: the "
                      "difference is mostly the runtime's code\nand what malloc has free for "
                      "whoever asks next (%s)",
                      strata_size_show(result->resident_before.value, before),
                      strata_size_show(result->resident_after.value, after),
                      strata_size_show(result->malloc_free_bytes, unused));
    }
    (void)fputc('\n', to);
}

static void print_model(FILE *to, const infer_model *model)
{
    (void)fputc('\n', to);
    if (model->area_count > 0) {
        output_regions_text(to, model->areas, model->area_count);
    }
    if (model->refused) {
        (void)fprintf(to, "%s: an output is held past its session: ", model->label);
        char text[1024];
        (void)strata_report_format(&model->refusal, text, sizeof text);
        (void)fprintf(to, "%s; let go, and released again\n", text);
    }
    if (model->released || model->release.asked > 0 || model->release.attempted > 0) {
        output_release_text(to, model->label, &model->release, model->release_tlb);
    } else {
        (void)fprintf(to, "%s: not released by a step of its own; given back at the end\n",
                      model->label);
    }
    if (model->memory_info.refused_frees > 0 || model->memory_info.late_calls > 0) {
        (void)fprintf(
            to, "%s: %" PRIu64 " free(s) refused, %" PRIu64 " call(s) after the release\n",
            model->label, model->memory_info.refused_frees, model->memory_info.late_calls);
    }
}

void infer_text(FILE *to, const infer_result *result)
{
    bool compared = false;
    uint64_t returned = 0;
    size_t released = 0;
    for (size_t i = 0; i < result->count; i++) {
        const infer_model *model = result->models[i];
        compared = compared || model->comparison.done;
        released += model->released;
        returned += model->release.bytes_held_before - model->release.bytes_held_after;
    }
    (void)fprintf(to, "onnxruntime %s (%s), session options %s\n\n",
                  infer_runtime_version(result->runtime), result->library, STRATA_ORT_OPTIONS);
    print_runs(to, result->models, result->count);
    if (compared) {
        (void)fputc('\n', to);
        print_comparison(to, result->models, result->count);
    }
    print_legend(to, compared);
    for (size_t i = 0; i < result->count; i++) {
        print_model(to, result->models[i]);
    }
    if (released == result->count) {
        print_kept(to, result);
    }
    char text[STRATA_UNITS_TEXT_MAX];
    (void)fprintf(to, "%s %zu model(s) released, %s returned\n",
                  result->ok ? "ok:" : "FAILED (see above);", released,
                  strata_size_show(returned, text));
}

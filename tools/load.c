/* load.c - `strata load`: model files into arenas and back, with an account.
 *
 * The order of work: every file is opened and checked before anything is reserved, so that a file
 * which is not usable costs nothing; then each is loaded, verified and stepped; then all are
 * released, newest first, whatever happened before. load_model.c does the work on one model. */
#include "cli.h"
#include "load_model.h"
#include "message.h"
#include "output.h"
#include "tool.h"

#include <strata/units.h>

#include <stdlib.h>
#include <string.h>

#define NAME          "strata load"
#define MODELS_MAX    64
#define STEPS_DEFAULT 4
#define STEPS_MAX     1000000

typedef struct request {
    const char *memory;
    cli_texts configs;
    cli_texts sets;
    uint64_t steps;
    bool verify;
    bool json;
} request;

typedef struct session {
    request asked;
    strata_model_config config;
    bool mapped;
    strata_process *process;
    load_model *loads;
    size_t count;  /* files opened */
    size_t begun;  /* models that a load was begun for */
    size_t failed; /* index of the load that failed; == begun - 1 if any did */
    bool has_failed;
    strata_error error;
    uint64_t held_after;
    uint64_t mapping_operations;
    machine_count resident_after;
} session;

/* --- arguments ---------------------------------------------------------------------------------*/

static bool choose_memory(session *now, int *status)
{
    static const char *const later[] = {"device", "pinned", "managed"};
    const char *memory = now->asked.memory;
    now->mapped = strcmp(memory, "file") == 0;
    if (now->mapped || strcmp(memory, "host") == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(memory, later[i]) == 0) {
            *status =
                message_refuse(NAME,
                               "--memory: %s: unsupported in this build: comes with CUDA; use "
                               "host or file",
                               memory);
            return false;
        }
    }
    *status =
        message_refuse(NAME, "--memory: \"%.96s\" is no kind of memory; use host or file", memory);
    return false;
}

/* The library knows no memory called "file", because only a load has a file: what the operator
 * wants is this command's option. */
static bool check_weights_memory(const session *now, int *status)
{
    strata_region_config region;
    const char *memory = NULL;
    strata_error error;
    strata_region_config_init(&region);
    region.label = load_area_names[0];
    if (strata_model_config_region(&now->config, &region, NULL, &memory, &error) != STRATA_OK ||
        memory == NULL || strcmp(memory, "file") != 0) {
        return true;
    }
    *status = message_refuse(NAME, "weights.memory: a file is not configured by name; write "
                                   "--memory file and leave the key out");
    return false;
}

/* A file that another command takes. */
static const char *hint(const char *path)
{
    size_t length = strlen(path);
    bool onnx = length >= 5 && strcmp(path + length - 5, ".onnx") == 0;
    return onnx ? "; for ONNX models use `strata infer`" : "";
}

/* Opens all files. A file that cannot be used is the input's fault, whatever the reason. */
static int open_files(session *now, const cli_line *line)
{
    now->loads = calloc(line->argument_count, sizeof *now->loads);
    if (now->loads == NULL) {
        return message_fail(NAME, "no memory for %zu models", line->argument_count);
    }
    for (size_t i = 0; i < line->argument_count; i++) {
        strata_error error;
        now->count = i + 1; /* counted first: a load that failed to open is closed as well */
        strata_status status = load_model_open(&now->loads[i], line->arguments[i], &error);
        if (status == STRATA_NO_MEMORY) {
            return message_fail(NAME, "%s: %s", line->arguments[i], error.text);
        }
        if (status != STRATA_OK) {
            return message_refuse(NAME, "%s: %s%s", line->arguments[i], error.text,
                                  status == STRATA_SYSTEM ? "" : hint(line->arguments[i]));
        }
    }
    return TOOL_DONE;
}

/* --- the work ----------------------------------------------------------------------------------*/

static strata_status load_one(session *now, load_model *load)
{
    progress bar;
    progress_begin(&bar, load->label, NULL, load->file->weight_bytes);
    strata_status status =
        load_model_fill(load, now->process, &now->config, now->mapped, &bar, &now->error);
    progress_end(&bar);
    if (status == STRATA_OK && now->asked.verify) {
        progress_begin(&bar, "verify", NULL, load->file->weight_bytes);
        status = load_model_verify(load, &bar, &now->error);
        progress_end(&bar);
    }
    return status == STRATA_OK ? load_model_step(load, now->asked.steps, &now->error) : status;
}

static int load_all(session *now)
{
    for (size_t i = 0; i < now->count; i++) {
        now->begun = i + 1;
        strata_status status = load_one(now, &now->loads[i]);
        if (status != STRATA_OK) {
            now->has_failed = true;
            now->failed = i;
            return message_status(NAME, status, "%s: %s", now->loads[i].path, now->error.text);
        }
    }
    return TOOL_DONE;
}

/* Newest first; every model is attempted. */
static int release_all(session *now, int status)
{
    for (size_t i = now->begun; i > 0; i--) {
        load_model *load = &now->loads[i - 1];
        (void)load_model_release(load);
        if (!output_release_is_good(&load->release)) {
            char text[1024];
            (void)strata_report_format(&load->release, text, sizeof text);
            int failed = message_fail(NAME, "%s: release: %s", load->path, text);
            status = status == TOOL_DONE ? failed : status;
        }
    }
    strata_ledger_counts counts;
    strata_ledger_read(strata_process_ledger(now->process), &counts);
    now->held_after = counts.committed_bytes;
    now->mapping_operations = counts.mapping_operations;
    now->resident_after = machine_resident_bytes();
    return status;
}

static int close_all(session *now, int status)
{
    for (size_t i = now->count; i > 0; i--) {
        if (load_model_close(&now->loads[i - 1]) != STRATA_OK) {
            int failed =
                message_fail(NAME, "%s: the model still holds memory", now->loads[i - 1].path);
            status = status == TOOL_DONE ? failed : status;
        }
    }
    free(now->loads);
    now->loads = NULL;
    if (strata_process_destroy(&now->process) != STRATA_OK && status == TOOL_DONE) {
        status = message_fail(NAME, "a model is left over at the end");
    }
    return status;
}

/* --- what it says ------------------------------------------------------------------------------*/

static double seconds_of(const load_model *load)
{
    return (double)load->load_ns / 1e9;
}

static json_t *error_document(const session *now, size_t index)
{
    if (!now->has_failed || now->failed != index) {
        return json_null();
    }
    return json_pack("{s:s, s:o}", "status", strata_status_name(now->error.status), "text",
                     output_text(now->error.text));
}

static json_t *model_document(const session *now, size_t index)
{
    const load_model *load = &now->loads[index];
    bool loaded = load->load_ns != 0;
    machine_count nothing = {0};
    return json_pack(
        "{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "label",
        output_text(load->label), "file", output_text(load->path), "format",
        modelfile_format_name(load->file->format), "memory", load->mapped ? "file" : "host",
        "tensors", output_bytes(load->file->tensor_count), "weight_bytes",
        output_bytes(load->file->weight_bytes), "load_seconds",
        loaded ? output_real(seconds_of(load)) : json_null(), "load_bytes_per_second",
        loaded ? output_real((double)load->file->weight_bytes / seconds_of(load)) : json_null(),
        "reads", output_bytes(load->read_calls), "misaligned_tensors",
        output_bytes(load->misaligned), "verified_tensors", output_bytes(load->verified), "steps",
        output_bytes(load->steps), "regions", output_regions(load->areas, load->area_count),
        "error", error_document(now, index), "undo",
        load->undone ? output_release(load->label, &load->undo, nothing) : json_null(), "release",
        output_release(load->label, &load->release, load->release_tlb));
}

static json_t *session_document(const session *now, bool ok)
{
    json_t *models = json_array();
    for (size_t i = 0; i < now->begun; i++) {
        output_append(&models, model_document(now, i));
    }
    return json_pack("{s:o, s:[{s:o, s:o, s:o}], s:b}", "models", models, "cycles", "held_after",
                     output_bytes(now->held_after), "resident_after",
                     output_count(now->resident_after), "mapping_operations",
                     output_bytes(now->mapping_operations), "ok", (int)ok);
}

static void print_load(const session *now, const load_model *load)
{
    char bytes[STRATA_UNITS_TEXT_MAX];
    char took[STRATA_UNITS_TEXT_MAX];
    char rate[STRATA_UNITS_TEXT_MAX];
    (void)printf("%s: %s, %zu tensors, %s of weights", load->label,
                 modelfile_format_name(load->file->format), load->file->tensor_count,
                 strata_size_show(load->file->weight_bytes, bytes));
    if (load->load_ns != 0) {
        double per_second = (double)load->file->weight_bytes / seconds_of(load);
        (void)printf(", loaded in %s (%s/s, %llu reads)", strata_time_show(load->load_ns, took),
                     strata_size_show((uint64_t)per_second, rate),
                     (unsigned long long)load->read_calls);
    }
    (void)printf("; %llu steps\n", (unsigned long long)load->steps);
    if (load->misaligned != 0) {
        (void)printf("%s: %zu tensors lie in the file at addresses that their type does not allow; "
                     "use --memory host to copy them\n",
                     load->label, load->misaligned);
    }
    if (now->asked.verify) {
        (void)printf("%s: %zu tensors read again, equal\n", load->label, load->verified);
    }
}

/* A load that failed has no table: the line on stderr has said why, and this says what it undid. */
static void print_failed(const load_model *load)
{
    machine_count nothing = {0};
    if (load->undone) {
        output_release_text(stdout, load->label, &load->undo, nothing);
    }
}

static void print_session(const session *now)
{
    for (size_t i = 0; i < now->begun; i++) {
        const load_model *load = &now->loads[i];
        if (load->load_ns == 0) {
            print_failed(load);
            continue;
        }
        print_load(now, load);
        output_regions_text(stdout, load->areas, load->area_count);
        output_release_text(stdout, load->label, &load->release, load->release_tlb);
    }
}

/* --- the command -------------------------------------------------------------------------------*/

static int work(session *now, const cli_line *line)
{
    int status;
    strata_error error;
    if (!choose_memory(now, &status)) {
        return status;
    }
    strata_model_config_init(&now->config);
    if (!cli_configure(NAME, &now->asked.configs, &now->asked.sets, load_area_names, LOAD_AREAS,
                       &now->config, &status) ||
        !check_weights_memory(now, &status)) {
        return status;
    }
    status = open_files(now, line);
    if (status != TOOL_DONE) {
        return status;
    }
    if (strata_process_create(&now->process, NULL, &error) != STRATA_OK) {
        return message_fail(NAME, "%s", error.text);
    }
    status = release_all(now, load_all(now));
    if (now->asked.json) {
        return output_document(NAME, session_document(now, status == TOOL_DONE), status);
    }
    print_session(now);
    return output_finish(NAME, status);
}

static int parse_and_work(session *now, cli_line *line, int argc, const char **argv)
{
    const cli_option options[] = {
        CLI_TEXT("memory", "KIND", &now->asked.memory, "where the weights go: host, file"),
        CLI_TEXTS("config", "FILE", &now->asked.configs, "INI file; sections weights, kv, scratch"),
        CLI_TEXTS("set", "KEY:VALUE,...", &now->asked.sets, "the same on the command line"),
        CLI_COUNT("steps", &now->asked.steps, 0, STEPS_MAX, "scoped steps to take (4)"),
        CLI_FLAG("verify", &now->asked.verify, "read the file again and compare each tensor"),
        CLI_FLAG("json", &now->asked.json, "one JSON document on stdout"),
    };
    cli_command command = {
        .name = NAME,
        .arguments = "MODEL...",
        .about = "Reads GGUF and safetensors files into arenas as a runtime would, takes steps in\n"
                 "scopes, releases everything and says what came back. --memory file maps the\n"
                 "file instead of copying it; tensors then lie where the file has them.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .arguments_least = 1,
        .arguments_most = MODELS_MAX,
    };
    int status;
    return cli_parse(line, &command, argc, argv, &status) ? work(now, line) : status;
}

int strata_tool_load(int argc, const char **argv)
{
    session *now = calloc(1, sizeof *now);
    if (now == NULL) {
        return message_fail(NAME, "out of memory");
    }
    now->asked.memory = "host";
    now->asked.steps = STEPS_DEFAULT;
    cli_line line;
    int status = close_all(now, parse_and_work(now, &line, argc, argv));
    cli_finish(&line);
    free(now);
    return status;
}

/* infer.c - `strata infer`: a real runtime, one Strata model for each file.
 *
 * Reads the command line and puts the steps in order: load all, compare one by one while nothing
 * else runs, rounds of all at once on a thread each, release, report. infer_runtime.c knows the
 * runtime, infer_model.c one model, infer_compare.c the measurements, infer_report.c the text. */
#include "cli.h"
#include "infer_compare.h"
#include "infer_report.h"
#include "message.h"
#include "output.h"
#include "text.h"
#include "tool.h"

#include <strata/gate.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME            "strata infer"
#define MODELS_MAX      16
#define DEFAULT_LIBRARY "libonnxruntime.so"
#define RELEASE_ORDER_HELP                                                                        \
    "newest: after the rounds, newest model first; interleaved: one by one, while the others go " \
    "on running"

typedef struct arguments {
    const char *runtime;
    const char *library;
    const char *shapes;
    const char *order;
    cli_texts files;
    cli_texts sets;
    uint64_t threads;
    uint64_t pairs;
    bool compare;
    bool hold;
    bool interleaved;
    bool json;
} arguments;

typedef struct command {
    arguments given;
    strata_model_config config;
    infer_setting setting;
    infer_model *models[MODELS_MAX];
    size_t model_count;
    pthread_t threads[MODELS_MAX];
    bool running[MODELS_MAX];
    int status;
    size_t malloc_before; /* before the first load */
    machine_count resident_before;
} command;

/* The codes with which the runtime says that a file is no model it can use. */
enum {
    CODE_INVALID_ARGUMENT = 2,
    CODE_NO_FILE = 3,
    CODE_INVALID_PROTOBUF = 7,
    CODE_INVALID_GRAPH = 10
};

/* --- the command line --------------------------------------------------------------------------*/

/* One "WIDTHxHEIGHT". */
static bool parse_picture(const char *text, size_t length, infer_picture *picture)
{
    char copy[32];
    if (length == 0 || length >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end;
    errno = 0;
    long width = strtol(copy, &end, 10);
    if (*end != 'x' || width < 1 || copy[0] < '0' || copy[0] > '9') {
        return false;
    }
    const char *rest = end + 1;
    long height = strtol(rest, &end, 10);
    if (*end != '\0' || height < 1 || rest[0] < '0' || rest[0] > '9' || errno != 0 ||
        width > 16384 || height > 16384) {
        return false;
    }
    *picture = (infer_picture){.width = width, .height = height};
    return true;
}

static int parse_shapes(const char *text, infer_setting *setting)
{
    setting->picture_count = 0;
    if (text == NULL) {
        setting->picture_count = 1; /* zeros: by the model */
        return TOOL_DONE;
    }
    for (const char *at = text; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t length = comma == NULL ? strlen(at) : (size_t)(comma - at);
        if (setting->picture_count == INFER_SHAPES_MAX) {
            return message_refuse(NAME, "--shapes: more than %d; leave some out", INFER_SHAPES_MAX);
        }
        if (!parse_picture(at, length, &setting->pictures[setting->picture_count])) {
            return message_refuse(NAME,
                                  "--shapes: \"%.64s\" is no list of shapes; write WIDTHxHEIGHT "
                                  "up to 16384, as in 320x48,640x48",
                                  text);
        }
        setting->picture_count++;
        at = comma == NULL ? NULL : comma + 1;
    }
    return TOOL_DONE;
}

static int check_arguments(command *c)
{
    arguments *given = &c->given;
    if (strcmp(given->runtime, "llama") == 0) {
        return message_refuse(NAME, "--runtime: llama is not built in yet; write onnxruntime");
    }
    if (strcmp(given->runtime, "onnxruntime") != 0) {
        return message_refuse(NAME, "--runtime: \"%.64s\" is not known; write onnxruntime",
                              given->runtime);
    }
    if (strcmp(given->order, "newest") != 0 && strcmp(given->order, "interleaved") != 0) {
        return message_refuse(NAME,
                              "--release-order: \"%.64s\" is not known; write newest or "
                              "interleaved",
                              given->order);
    }
    given->interleaved = strcmp(given->order, "interleaved") == 0;
    return parse_shapes(given->shapes, &c->setting);
}

static int check_files(const cli_line *line)
{
    for (size_t i = 0; i < line->argument_count; i++) {
        if (access(line->arguments[i], R_OK) != 0) {
            return message_refuse(NAME, "%s: %s; name a readable ONNX file", line->arguments[i],
                                  strerror(errno));
        }
    }
    return TOOL_DONE;
}

/* --- setting up --------------------------------------------------------------------------------*/

static int open_runtime(command *c)
{
    infer_setting *setting = &c->setting;
    strata_error err = {0};
    const char *library = c->given.library;
    if (library == NULL) {
        library = DEFAULT_LIBRARY;
    }
    strata_status status = infer_runtime_open(&setting->runtime, library, &err);
    if (status != STRATA_OK) {
        (void)message_refuse(NAME, "--library: %s", err.text);
        return status == STRATA_INVALID ? TOOL_UNUSABLE : TOOL_FAILED;
    }
    status = strata_process_create(&setting->process, NULL, &err);
    if (status == STRATA_OK) {
        status = strata_ort_env_create(&setting->env, infer_runtime_base(setting->runtime),
                                       infer_runtime_env(setting->runtime), NULL, &err);
    }
    if (status != STRATA_OK) {
        return message_status(NAME, status, "%s", err.text);
    }
    setting->options =
        infer_runtime_options(setting->runtime, (unsigned)c->given.threads, setting->env, &err);
    return setting->options != NULL ? TOOL_DONE : message_fail(NAME, "%s", err.text);
}

/* The file's name; a number behind it where earlier models have that. */
static void name_model(const command *c, infer_model *model)
{
    char name[sizeof model->label - 4]; /* room for "#16" */
    char other[sizeof name];
    size_t same = 1;
    text_label(name, sizeof name, model->path);
    for (size_t i = 0; i < c->model_count; i++) {
        text_label(other, sizeof other, c->models[i]->path);
        same += strcmp(other, name) == 0;
    }
    if (same > 1) {
        (void)snprintf(model->label, sizeof model->label, "%.*s#%zu", (int)strlen(name), name,
                       same);
    } else {
        (void)snprintf(model->label, sizeof model->label, "%s", name);
    }
}

static int load_failed(const infer_model *model, const strata_error *err)
{
    int64_t code = err->native;
    bool no_model = err->status == STRATA_RESOURCE &&
                    (code == CODE_INVALID_ARGUMENT || code == CODE_NO_FILE ||
                     code == CODE_INVALID_PROTOBUF || code == CODE_INVALID_GRAPH);
    return message_status(NAME, no_model ? STRATA_INVALID : err->status, "%s: %s", model->path,
                          err->text);
}

static int load_models(command *c, const cli_line *line)
{
    progress bar;
    int status = TOOL_DONE;
    strata_error err = {0};
    c->malloc_before = infer_malloc_bytes();
    c->resident_before = machine_resident_bytes();
    progress_begin(&bar, "load", "models", line->argument_count);
    for (size_t i = 0; i < line->argument_count && status == TOOL_DONE; i++) {
        infer_model *model = calloc(1, sizeof *model);
        if (model == NULL) {
            progress_end(&bar);
            return message_fail(NAME, "out of memory");
        }
        model->setting = &c->setting;
        model->path = line->arguments[i];
        model->endless = c->given.interleaved;
        name_model(c, model);
        c->models[c->model_count++] = model;
        if (infer_model_load(model, &err) != STRATA_OK ||
            infer_model_make_inputs(model, &err) != STRATA_OK) {
            progress_end(&bar);
            status = load_failed(model, &err);
        }
        progress_add(&bar, 1);
    }
    progress_end(&bar);
    return status;
}

/* --- the work ----------------------------------------------------------------------------------*/

static int compare_models(command *c)
{
    progress bar;
    strata_error err = {0};
    strata_status status = STRATA_OK;
    progress_begin(&bar, "compare", "pairs", c->given.pairs * 2 * c->model_count);
    for (size_t i = 0; i < c->model_count && status == STRATA_OK; i++) {
        status =
            infer_compare(c->models[i], (unsigned)c->given.threads, c->given.pairs, &bar, &err);
    }
    progress_end(&bar);
    return status == STRATA_OK ? TOOL_DONE : message_status(NAME, status, "%s", err.text);
}

static void join(command *c, size_t index)
{
    if (c->running[index]) {
        __atomic_store_n(&c->models[index]->stop, 1U, __ATOMIC_RELEASE);
        (void)pthread_join(c->threads[index], NULL);
        c->running[index] = false;
    }
}

static int start_rounds(command *c)
{
    for (size_t i = 0; i < c->model_count; i++) {
        if (pthread_create(&c->threads[i], NULL, infer_model_rounds, c->models[i]) != 0) {
            return message_fail(NAME, "%s: no thread for it", c->models[i]->label);
        }
        c->running[i] = true;
    }
    return TOOL_DONE;
}

static uint64_t rounds_done(const infer_model *model)
{
    return __atomic_load_n(&model->rounds_done, __ATOMIC_ACQUIRE);
}

/* Until every model that still runs has done a round more than it had, or has failed: proof that
 * the others went on. Bounded, because a thread may have ended with an error. */
static bool others_go_on(const command *c, const uint64_t *had)
{
    uint64_t deadline = strata_deadline_in(UINT64_C(60000000000));
    for (size_t i = 0; i < c->model_count; i++) {
        while (c->running[i] && rounds_done(c->models[i]) <= had[i]) {
            if (strata_now_ns() > deadline) {
                return false;
            }
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    return true;
}

/* The first thing that went wrong is what the command returns; the rest is done all the same. */
static void note_status(command *c, int status)
{
    if (c->status == TOOL_DONE) {
        c->status = status;
    }
}

static void release_one(command *c, size_t index, bool hold)
{
    strata_error err = {0};
    join(c, index);
    infer_model *model = c->models[index];
    if (model->run_error.status != STRATA_OK) {
        note_status(c, message_status(NAME, model->run_error.status, "%s", model->run_error.text));
    }
    if (infer_model_release(model, hold, &err) != STRATA_OK) {
        note_status(c, message_fail(NAME, "%s", err.text));
    }
}

/* In the order of loading, one by one, while the models that are left go on running. */
static int release_interleaved(command *c)
{
    for (size_t i = 0; i < c->model_count; i++) {
        while (c->running[i] && rounds_done(c->models[i]) < c->setting.rounds &&
               c->models[i]->run_error.status == STRATA_OK) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        uint64_t had[MODELS_MAX] = {0};
        for (size_t k = 0; k < c->model_count; k++) {
            had[k] = rounds_done(c->models[k]);
        }
        release_one(c, i, c->given.hold && i == 0);
        if (!others_go_on(c, had)) {
            return message_fail(NAME, "a model stopped while another was released");
        }
    }
    return TOOL_DONE;
}

/* A neighbour runs, so that the shootdowns of a release can be counted: an idle core gets none. */
static int release_newest(command *c)
{
    for (size_t i = 0; i < c->model_count; i++) {
        join(c, i);
    }
    machine_neighbour neighbour;
    (void)machine_neighbour_start(&neighbour);
    for (size_t i = c->model_count; i-- > 0;) {
        release_one(c, i, c->given.hold && i == 0);
    }
    machine_neighbour_stop(&neighbour);
    return TOOL_DONE;
}

static int run_and_release(command *c)
{
    int status = c->given.compare ? compare_models(c) : TOOL_DONE;
    if (status == TOOL_DONE) {
        status = start_rounds(c);
    }
    if (status == TOOL_DONE) {
        status = c->given.interleaved ? release_interleaved(c) : release_newest(c);
    }
    return status == TOOL_DONE ? c->status : status;
}

static int report(command *c)
{
    infer_result result = {
        .runtime = c->setting.runtime,
        .library = c->given.library == NULL ? DEFAULT_LIBRARY : c->given.library,
        .models = (const infer_model *const *)c->models,
        .count = c->model_count,
        .ok = c->status == TOOL_DONE,
        .kept_bytes = (int64_t)infer_malloc_bytes() - (int64_t)c->malloc_before,
        .resident_before = c->resident_before,
        .resident_after = machine_resident_bytes(),
        .malloc_free_bytes = infer_malloc_free_bytes(),
    };
    for (size_t i = 0; i < c->model_count; i++) {
        result.ok = result.ok && infer_model_is_good(c->models[i]);
    }
    if (!result.ok) {
        note_status(c, TOOL_FAILED);
    }
    if (c->given.json) {
        return output_document(NAME, infer_document(&result), c->status);
    }
    infer_text(stdout, &result);
    return output_finish(NAME, c->status);
}

/* --- the end -----------------------------------------------------------------------------------*/

static int close_all(command *c, int status)
{
    bool good = true;
    for (size_t i = c->model_count; i-- > 0;) {
        join(c, i);
        good = infer_model_close(c->models[i]) && good;
        free(c->models[i]);
    }
    infer_setting *setting = &c->setting;
    if (setting->runtime != NULL) {
        infer_runtime_options_release(setting->runtime, setting->options);
    }
    good = strata_ort_env_destroy(&setting->env) == STRATA_OK && good;
    good = strata_process_destroy(&setting->process) == STRATA_OK && good;
    infer_runtime_close(setting->runtime);
    return good || status != TOOL_DONE ? status
                                       : message_fail(NAME, "something was not given back");
}

static int work(command *c, const cli_line *line)
{
    int status = check_arguments(c);
    if (status == TOOL_DONE && !cli_configure(NAME, &c->given.files, &c->given.sets,
                                              infer_area_names, INFER_AREAS, &c->config, &status)) {
        return status;
    }
    if (status == TOOL_DONE) {
        status = check_files(line);
    }
    if (status != TOOL_DONE) {
        return status;
    }
    status = open_runtime(c);
    if (status == TOOL_DONE) {
        status = load_models(c, line);
    }
    if (status == TOOL_DONE) {
        c->status = run_and_release(c);
        status = report(c);
    }
    return close_all(c, status);
}

static int parse_and_work(command *c, cli_line *line, int argc, const char **argv)
{
    arguments *given = &c->given;
    const cli_option options[] = {
        CLI_TEXT("runtime", "NAME", &given->runtime,
                 "onnxruntime, the default (llama is not built in yet)"),
        CLI_TEXT("library", "FILE", &given->library, "the runtime's library; " DEFAULT_LIBRARY),
        CLI_COUNT("rounds", &c->setting.rounds, 1, 1000000, "runs of every shape; 8"),
        CLI_COUNT("threads", &given->threads, 1, 256, "threads inside an operator; 1"),
        CLI_TEXT("shapes", "LIST", &given->shapes,
                 "width x height of the pictures, as in 320x48,640x48; by the model"),
        CLI_FLAG("compare-stock", &given->compare,
                 "measure the runtime's own allocator beside ours, in alternation"),
        CLI_COUNT("pairs", &given->pairs, INFER_PAIRS_LEAST, 2000,
                  "pairs of measurements with --compare-stock; 41"),
        CLI_TEXT("release-order", "ORDER", &given->order, RELEASE_ORDER_HELP),
        CLI_FLAG("hold-output", &given->hold,
                 "keep an output of the first model past its session: the release refuses"),
        CLI_TEXTS("config", "FILE", &given->files, "configuration of every model; may be repeated"),
        CLI_TEXTS("set", "K:V,...", &given->sets, "overrides, as in run.reserve:8GiB"),
        CLI_FLAG("json", &given->json, "print one JSON document"),
    };
    cli_command about = {
        .name = NAME,
        .arguments = "MODEL...",
        .about =
            "Runs each ONNX file in a Strata model of its own, all at once, releases them,\n"
            "and reports what came back. A configuration may name the areas weights and run.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .arguments_least = 1,
        .arguments_most = MODELS_MAX,
    };
    int status;
    return cli_parse(line, &about, argc, argv, &status) ? work(c, line) : status;
}

int strata_tool_infer(int argc, const char **argv)
{
    command *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return message_fail(NAME, "out of memory");
    }
    c->given = (arguments){.runtime = "onnxruntime", .threads = 1, .pairs = 41, .order = "newest"};
    c->setting.rounds = 8;
    c->setting.config = &c->config;
    strata_model_config_init(&c->config);
    cli_line line;
    int status = parse_and_work(c, &line, argc, argv);
    cli_finish(&line);
    free(c);
    return status;
}

/* replay.c - `strata replay`: a recorded stream against an allocator, timed and then checked.
 *
 * Two kinds of passes, because checking costs more than allocating: timed ones, which touch each
 * block's first byte and nothing else, and one that fills every byte of every block, looks whether
 * two live blocks overlap, and compares each block when it is freed. What the checked pass leaves
 * behind is what the teardown is measured on. */
#include "cli.h"
#include "message.h"
#include "output.h"
#include "progress.h"
#include "statistics.h"
#include "tool.h"
#include "trace.h"

#include <strata/heap.h>
#include <strata/model.h>
#include <strata/units.h>

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define NAME         "strata replay"
#define TRACES_MAX   64
#define TIMED_PASSES 3
#define BAR_EVENTS   4096 /* events between two looks at the bar */

typedef struct block {
    unsigned char *base;
    uint64_t size;
    uint32_t align;
    uint8_t model;
    uint8_t kind;
} block;

/* One model of the trace in a Strata model of its own. */
typedef struct player_model {
    strata_model *model;
    strata_heap *heap;
    strata_arena *reserves;
    strata_report release;
} player_model;

/* Everything that one pass has in use. */
typedef struct player {
    const trace *events;
    bool strata;
    strata_process *process;
    player_model models[TRACE_MODELS_MAX];
    block *blocks; /* by object */
    void *live;    /* tsearch's tree of live blocks; checked pass only */
    uint64_t bad;
    strata_error error;
} player;

/* A model's release; `label` has the number that the trace gives the model. */
typedef struct model_release {
    char label[STRATA_LABEL_MAX];
    strata_report report;
} model_release;

/* What is reported of one trace. */
typedef struct result {
    const char *path;
    const trace *events;
    bool strata;
    uint64_t bad;
    double ns_per_event;
    machine_count resident_peak;
    machine_cost teardown;
    size_t release_count;
    model_release releases[TRACE_MODELS_MAX];
} result;

/* --- the allocators ----------------------------------------------------------------------------*/

static void name_model(char label[STRATA_LABEL_MAX], size_t number)
{
    (void)snprintf(label, STRATA_LABEL_MAX, "model %zu", number);
}

static strata_status open_model(player *now, size_t index)
{
    player_model *mine = &now->models[index];
    const trace_model *wanted = &now->events->models[index];
    strata_model_config config;
    strata_model_config_init(&config);
    name_model(config.label, index);
    strata_status status = strata_model_open(&mine->model, now->process, &config, &now->error);
    if (status == STRATA_OK && wanted->reserve_bytes > 0) {
        strata_arena_config arena;
        strata_arena_config_init(&arena);
        arena.region.label = "reserves";
        /* A guard, where there is one, needs room behind each block: addresses are free. */
        arena.region.reserve_bytes = wanted->reserve_bytes * 2 + ((size_t)1 << 20);
        status = strata_arena_create(&mine->reserves, strata_model_root(mine->model), &arena,
                                     &now->error);
    }
    if (status == STRATA_OK && wanted->live_peak_blocks > 0) {
        strata_heap_config heap;
        strata_heap_config_init(&heap);
        heap.region.label = "blocks";
        /* Fragmentation takes a fifth in the streams that we know; four times is a lot. */
        size_t room = wanted->live_peak_bytes * 4 + wanted->live_peak_blocks * 64;
        if (room > heap.region.reserve_bytes) {
            heap.region.reserve_bytes = room;
        }
        status =
            strata_heap_create(&mine->heap, strata_model_root(mine->model), &heap, &now->error);
    }
    return status;
}

static void *allocate_plain(const trace_event *event)
{
    size_t size = event->size == 0 ? 1 : event->size;
    if (event->align <= TRACE_ALIGN_BLOCK) {
        return malloc(size);
    }
    void *got = NULL;
    return posix_memalign(&got, event->align, size) == 0 ? got : NULL;
}

static void *allocate(player *now, const trace_event *event)
{
    if (!now->strata) {
        return allocate_plain(event);
    }
    player_model *mine = &now->models[event->model];
    if (event->kind != TRACE_RESERVE) {
        return strata_heap_alloc(mine->heap, event->size, event->align, &now->error);
    }
    void *got = strata_arena_alloc(mine->reserves, event->size, event->align);
    if (got == NULL) {
        now->error = *strata_arena_error(mine->reserves);
    }
    return got;
}

/* Reserves stay where they are: their arena goes whole. */
static bool give_back(player *now, const block *gone)
{
    if (!now->strata) {
        free(gone->base);
        return true;
    }
    return gone->kind == TRACE_RESERVE ||
           strata_heap_free(now->models[gone->model].heap, gone->base) == STRATA_OK;
}

/* --- passes ------------------------------------------------------------------------------------*/

static strata_status begin_pass(player *now, const trace *events, bool strata)
{
    *now = (player){.events = events, .strata = strata};
    now->blocks = calloc(events->object_count + 1, sizeof *now->blocks);
    if (now->blocks == NULL) {
        return strata_error_set(&now->error, STRATA_NO_MEMORY, "no memory for %zu objects",
                                events->object_count);
    }
    for (size_t i = 0; i < TRACE_MODELS_MAX; i++) {
        strata_report_init(&now->models[i].release, NULL, NULL);
    }
    if (!strata) {
        return STRATA_OK;
    }
    strata_status status = strata_process_create(&now->process, NULL, &now->error);
    for (size_t i = 0; i < TRACE_MODELS_MAX && status == STRATA_OK; i++) {
        status = events->models[i].used ? open_model(now, i) : STRATA_OK;
    }
    return status;
}

/* Frees or releases all that is left. The first failure's status. */
static strata_status tear_down(player *now)
{
    strata_status first = STRATA_OK;
    bool plain = !now->strata && now->blocks != NULL;
    for (size_t i = 0; plain && i < now->events->object_count; i++) {
        free(now->blocks[i].base);
    }
    for (size_t i = TRACE_MODELS_MAX; i > 0; i--) {
        player_model *mine = &now->models[i - 1];
        if (mine->model == NULL) {
            continue;
        }
        strata_status status = strata_model_release(mine->model, NULL, &mine->release);
        first = first == STRATA_OK ? status : first;
    }
    return first;
}

static void end_pass(player *now)
{
    for (size_t i = 0; i < TRACE_MODELS_MAX; i++) {
        (void)strata_model_destroy(&now->models[i].model);
    }
    (void)strata_process_destroy(&now->process);
    free(now->blocks);
    now->blocks = NULL;
}

static strata_status failed_at(player *now, size_t index)
{
    const trace_event *event = &now->events->events[index];
    if (now->error.status == STRATA_OK) {
        (void)strata_error_set(&now->error, STRATA_NO_MEMORY, "malloc answered NULL");
    }
    strata_error_context(&now->error, "event %zu of %zu, %llu bytes", index + 1,
                         now->events->event_count, (unsigned long long)event->size);
    return now->error.status;
}

/* --- the timed pass ----------------------------------------------------------------------------*/

static strata_status play_timed(player *now)
{
    for (size_t i = 0; i < now->events->event_count; i++) {
        const trace_event *event = &now->events->events[i];
        block *mine = &now->blocks[event->object];
        if (event->kind == TRACE_FREE) {
            now->bad += !give_back(now, mine);
            mine->base = NULL;
            continue;
        }
        mine->base = allocate(now, event);
        mine->kind = event->kind;
        mine->model = event->model;
        if (mine->base == NULL) {
            return failed_at(now, i);
        }
        if (event->size > 0) {
            *(volatile unsigned char *)mine->base = 1;
        }
    }
    return STRATA_OK;
}

/* --- the checked pass --------------------------------------------------------------------------*/

static uint64_t pattern_of(uint32_t object)
{
    return (object + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static void fill(const block *mine, uint32_t object)
{
    uint64_t word = pattern_of(object);
    uint64_t at = 0;
    for (; at + sizeof word <= mine->size; at += sizeof word) {
        memcpy(mine->base + at, &word, sizeof word);
    }
    memcpy(mine->base + at, &word, mine->size - at);
}

static bool is_intact(const block *mine, uint32_t object)
{
    uint64_t word = pattern_of(object);
    uint64_t differs = 0;
    uint64_t at = 0;
    for (; at + sizeof word <= mine->size; at += sizeof word) {
        uint64_t have;
        memcpy(&have, mine->base + at, sizeof have);
        differs |= have ^ word;
    }
    return differs == 0 && memcmp(mine->base + at, &word, mine->size - at) == 0;
}

/* Two blocks that overlap are equal, so that the tree refuses the second. A block of no bytes takes
 * one: its address must be its own. */
static int order_blocks(const void *left, const void *right)
{
    const block *a = left;
    const block *b = right;
    uintptr_t a_end = (uintptr_t)a->base + (a->size == 0 ? 1 : a->size);
    uintptr_t b_end = (uintptr_t)b->base + (b->size == 0 ? 1 : b->size);
    if (a_end <= (uintptr_t)b->base) {
        return -1;
    }
    return b_end <= (uintptr_t)a->base ? 1 : 0;
}

static strata_status check_allocation(player *now, const trace_event *event, block *mine)
{
    *mine = (block){
        .base = allocate(now, event),
        .size = event->size,
        .align = event->align,
        .model = event->model,
        .kind = event->kind,
    };
    if (mine->base == NULL) {
        return STRATA_NO_MEMORY;
    }
    now->bad += (uintptr_t)mine->base % mine->align != 0;
    const block *const *found = tsearch(mine, &now->live, order_blocks);
    if (found == NULL) {
        return strata_error_set(&now->error, STRATA_NO_MEMORY, "no memory for the check");
    }
    now->bad += *found != mine;
    fill(mine, event->object);
    return STRATA_OK;
}

static void check_free(player *now, uint32_t object)
{
    block *mine = &now->blocks[object];
    now->bad += !is_intact(mine, object);
    const block *const *found = tfind(mine, &now->live, order_blocks);
    if (found != NULL && *found == mine) {
        (void)tdelete(mine, &now->live, order_blocks);
    }
    now->bad += !give_back(now, mine);
    mine->base = NULL;
}

static void check_what_is_left(player *now)
{
    for (size_t i = 0; i < now->events->object_count; i++) {
        if (now->blocks[i].base != NULL) {
            now->bad += !is_intact(&now->blocks[i], (uint32_t)i);
        }
    }
}

static void drop_nothing(void *node)
{
    (void)node; /* nodes are blocks, which the pass owns */
}

static strata_status play_checked(player *now, progress *bar)
{
    strata_status status = STRATA_OK;
    for (size_t i = 0; i < now->events->event_count && status == STRATA_OK; i++) {
        const trace_event *event = &now->events->events[i];
        if (event->kind == TRACE_FREE) {
            check_free(now, event->object);
        } else if (check_allocation(now, event, &now->blocks[event->object]) != STRATA_OK) {
            status = failed_at(now, i);
        }
        if (i % BAR_EVENTS == 0) {
            progress_set(bar, i);
        }
    }
    if (status == STRATA_OK) {
        check_what_is_left(now);
    }
    tdestroy(now->live, drop_nothing);
    now->live = NULL;
    return status;
}

/* --- one trace ---------------------------------------------------------------------------------*/

/* A pass that failed: says so, gives everything back. */
static int abandon(player *now, const char *path)
{
    int status = message_status(NAME, now->error.status, "%s: %s", path, now->error.text);
    (void)tear_down(now);
    end_pass(now);
    return status;
}

static int run_timed(result *out)
{
    double ns[TIMED_PASSES];
    for (size_t pass = 0; pass < TIMED_PASSES; pass++) {
        player now;
        if (begin_pass(&now, out->events, out->strata) != STRATA_OK) {
            return abandon(&now, out->path);
        }
        uint64_t began_ns = strata_now_ns();
        if (play_timed(&now) != STRATA_OK) {
            return abandon(&now, out->path);
        }
        ns[pass] = (double)(strata_now_ns() - began_ns) / (double)out->events->event_count;
        out->bad += now.bad;
        (void)tear_down(&now);
        end_pass(&now);
    }
    out->ns_per_event = statistics_median(ns, TIMED_PASSES);
    return TOOL_DONE;
}

/* Shootdowns need somebody to interrupt: a neighbour runs while the teardown is measured. */
static void measure_teardown(player *now, result *out)
{
    machine_neighbour neighbour;
    bool beside = machine_neighbour_start(&neighbour);
    machine_window window;
    machine_window_begin(&window);
    (void)tear_down(now); /* its failures are in the reports */
    out->teardown = machine_window_end(&window);
    out->teardown.tlb_shootdowns.known = out->teardown.tlb_shootdowns.known && beside;
    machine_neighbour_stop(&neighbour);
}

/* A trace may number its models with gaps: each report keeps its model's number beside it. */
static int keep_reports(const player *now, result *out)
{
    int status = TOOL_DONE;
    for (size_t i = 0; i < TRACE_MODELS_MAX; i++) {
        if (now->models[i].model == NULL) {
            continue;
        }
        model_release *kept = &out->releases[out->release_count++];
        kept->report = now->models[i].release;
        name_model(kept->label, i);
        if (!output_release_is_good(&kept->report)) {
            char text[1024];
            (void)strata_report_format(&kept->report, text, sizeof text);
            status = message_fail(NAME, "%s: %s: release: %s", out->path, kept->label, text);
        }
    }
    return status;
}

static int run_checked(result *out)
{
    player now;
    bool peak_known = machine_resident_peak_reset();
    machine_count before = machine_resident_bytes();
    if (begin_pass(&now, out->events, out->strata) != STRATA_OK) {
        return abandon(&now, out->path);
    }
    progress bar;
    progress_begin(&bar, "replay", "events", out->events->event_count);
    strata_status played = play_checked(&now, &bar);
    progress_end(&bar);
    if (played != STRATA_OK) {
        return abandon(&now, out->path);
    }
    if (peak_known) {
        out->resident_peak = machine_difference(before, machine_resident_peak_bytes());
    }
    out->bad += now.bad;
    measure_teardown(&now, out);
    int status = keep_reports(&now, out);
    end_pass(&now);
    if (out->bad != 0) {
        status = message_fail(NAME,
                              "%s: %llu blocks were bad: misaligned, overlapping, changed, or "
                              "refused when freed",
                              out->path, (unsigned long long)out->bad);
    }
    return status;
}

/* The checked pass fills every byte: what the machine does not have is refused beforehand. */
static int check_fits(const result *out)
{
    machine_count available = machine_memory_available_bytes();
    if (available.known && out->events->live_peak_bytes > available.value / 4 * 3) {
        char need[STRATA_UNITS_TEXT_MAX];
        char have[STRATA_UNITS_TEXT_MAX];
        return message_refuse(NAME,
                              "%s: needs %s at once, and %s are available; use a machine with "
                              "more memory",
                              out->path, strata_size_show(out->events->live_peak_bytes, need),
                              strata_size_show(available.value, have));
    }
    return TOOL_DONE;
}

static int run(result *out)
{
    int status = check_fits(out);
    if (status == TOOL_DONE) {
        status = run_timed(out);
    }
    return status == TOOL_DONE ? run_checked(out) : status;
}

/* --- what it says ------------------------------------------------------------------------------*/

static json_t *result_document(const result *from)
{
    json_t *releases = json_array();
    for (size_t i = 0; i < from->release_count; i++) {
        const model_release *kept = &from->releases[i];
        output_append(&releases, output_release(kept->label, &kept->report, (machine_count){0}));
    }
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "trace",
                     output_text(from->path), "allocator", from->strata ? "strata" : "glibc",
                     "events", output_bytes(from->events->event_count), "bad",
                     output_bytes(from->bad), "ns_per_event", output_real(from->ns_per_event),
                     "peak_live_bytes", output_bytes(from->events->live_peak_bytes),
                     "peak_resident_bytes", output_count(from->resident_peak), "left_live",
                     output_bytes(from->events->left_live), "teardown_seconds",
                     output_real((double)from->teardown.elapsed_ns / 1e9), "tlb_shootdowns",
                     output_count(from->teardown.tlb_shootdowns), "releases", releases);
}

static void print_result(const result *from)
{
    char live[STRATA_UNITS_TEXT_MAX];
    char resident[STRATA_UNITS_TEXT_MAX];
    char took[STRATA_UNITS_TEXT_MAX];
    (void)printf("%s: %s, %zu events, %llu bad, %.1f ns an event; at most %s live, %s resident; "
                 "teardown %s\n",
                 from->path, from->strata ? "strata" : "glibc", from->events->event_count,
                 (unsigned long long)from->bad, from->ns_per_event,
                 strata_size_show(from->events->live_peak_bytes, live),
                 from->resident_peak.known ? strata_size_show(from->resident_peak.value, resident)
                                           : "an unknown amount",
                 strata_time_show(from->teardown.elapsed_ns, took));
    for (size_t i = 0; i < from->release_count; i++) {
        const model_release *kept = &from->releases[i];
        output_release_text(stdout, kept->label, &kept->report, (machine_count){0});
    }
}

/* --- the command -------------------------------------------------------------------------------*/

static int replay_file(const char *path, bool strata, bool json, json_t **documents)
{
    trace events;
    strata_error error;
    strata_status read = trace_read(&events, path, &error);
    if (read != STRATA_OK) {
        return read == STRATA_NO_MEMORY ? message_fail(NAME, "%s: %s", path, error.text)
                                        : message_refuse(NAME, "%s: %s", path, error.text);
    }
    result *out = calloc(1, sizeof *out);
    int status = TOOL_FAILED;
    if (out == NULL) {
        status = message_fail(NAME, "%s: out of memory", path);
    } else {
        out->path = path;
        out->events = &events;
        out->strata = strata;
        status = run(out);
        /* A trace that was refused or abandoned has no figures. */
        if (out->teardown.elapsed_ns != 0 && json) {
            output_append(documents, result_document(out));
        } else if (out->teardown.elapsed_ns != 0) {
            print_result(out);
        }
    }
    free(out);
    trace_free(&events);
    return status;
}

/* One trace: its document. Several: an array of them. None where there is no figure at all: the
 * line on stderr has said why. */
static int finish(json_t *documents, size_t traces, bool json, int status)
{
    if (!json || status == TOOL_UNUSABLE || json_array_size(documents) == 0) {
        json_decref(documents);
        return output_finish(NAME, status);
    }
    if (traces == 1 && json_array_size(documents) == 1) {
        json_t *only = json_incref(json_array_get(documents, 0));
        json_decref(documents);
        documents = only;
    }
    return output_document(NAME, documents, status);
}

static int replay_all(const cli_line *line, const char *allocator, bool json)
{
    bool strata = strcmp(allocator, "strata") == 0;
    if (!strata && strcmp(allocator, "glibc") != 0) {
        return message_refuse(NAME, "--allocator: \"%.96s\" is not known here; use strata or glibc",
                              allocator);
    }
    json_t *documents = json_array();
    int status = TOOL_DONE;
    for (size_t i = 0; i < line->argument_count && status != TOOL_UNUSABLE; i++) {
        int one = replay_file(line->arguments[i], strata, json, &documents);
        status = one == TOOL_DONE ? status : one;
    }
    return finish(documents, line->argument_count, json, status);
}

int strata_tool_replay(int argc, const char **argv)
{
    const char *allocator = "strata";
    bool json = false;
    const cli_option options[] = {
        CLI_TEXT("allocator", "NAME", &allocator, "strata (the default) or glibc"),
        CLI_FLAG("json", &json, "one JSON document on stdout; an array for several traces"),
    };
    cli_command command = {
        .name = NAME,
        .arguments = "TRACE...",
        .about =
            "Replays recorded allocations (.csv or .csv.gz), one model for each model number,\n"
            "fills and compares every block, and releases what is left.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .arguments_least = 1,
        .arguments_most = TRACES_MAX,
    };
    cli_line line;
    int status;
    if (cli_parse(&line, &command, argc, argv, &status)) {
        status = replay_all(&line, allocator, json);
    }
    cli_finish(&line);
    return status;
}

/* trace.c - reads a trace through zlib, which passes plain text through. See trace.h. */
#include "trace.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define FIELDS_MAX 5

/* What is known of an object while the file is read. */
typedef struct object {
    uint64_t size;
    uint8_t model;
    uint8_t kind;
    bool live;
} object;

typedef struct reading {
    trace *into;
    size_t event_capacity;
    object *objects;
    size_t object_capacity;
    uint64_t live_bytes;
    uint64_t model_live_bytes[TRACE_MODELS_MAX];
    uint64_t model_live_blocks[TRACE_MODELS_MAX];
    size_t line;
} reading;

/* The fields of one line, cut in place; absent ones are empty. */
typedef struct fields {
    const char *text[FIELDS_MAX];
} fields;

/* --- fields ------------------------------------------------------------------------------------*/

static bool split(char *line, fields *out)
{
    for (size_t i = 0; i < FIELDS_MAX; i++) {
        out->text[i] = "";
    }
    for (size_t i = 0; line != NULL; i++) {
        if (i == FIELDS_MAX) {
            return false;
        }
        char *comma = strchr(line, ',');
        out->text[i] = line;
        if (comma != NULL) {
            *comma++ = '\0';
        }
        line = comma;
    }
    return true;
}

/* A field that is left out is 0. */
static bool number(const char *text, uint64_t most, uint64_t *value)
{
    *value = 0;
    return *text == '\0' || text_number(text, most, value);
}

/* --- growing lists -----------------------------------------------------------------------------*/

/* Makes room for one more; `most` is the limit. */
static strata_status grow(void **list, size_t *capacity, size_t count, size_t item_bytes,
                          strata_error *err)
{
    if (count < *capacity) {
        return STRATA_OK;
    }
    if (count >= TRACE_EVENTS_MAX) {
        return strata_error_set(err, STRATA_LIMIT,
                                "more than %zu events; replay a part of the trace",
                                TRACE_EVENTS_MAX);
    }
    size_t wanted = *capacity == 0 ? 4096 : *capacity * 2;
    void *grown = realloc(*list, wanted * item_bytes);
    if (grown == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for %zu events", wanted);
    }
    *list = grown;
    *capacity = wanted;
    return STRATA_OK;
}

static strata_status add_event(reading *now, trace_event event, strata_error *err)
{
    void *list = now->into->events;
    strata_status status =
        grow(&list, &now->event_capacity, now->into->event_count, sizeof event, err);
    now->into->events = list;
    if (status == STRATA_OK) {
        now->into->events[now->into->event_count++] = event;
    }
    return status;
}

static strata_status add_object(reading *now, object added, strata_error *err)
{
    void *list = now->objects;
    strata_status status =
        grow(&list, &now->object_capacity, now->into->object_count, sizeof added, err);
    now->objects = list;
    if (status == STRATA_OK) {
        now->objects[now->into->object_count++] = added;
    }
    return status;
}

/* --- accounts ----------------------------------------------------------------------------------*/

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void account_allocation(reading *now, const trace_event *event)
{
    trace_model *model = &now->into->models[event->model];
    model->used = true;
    now->into->left_live++;
    now->live_bytes += event->size;
    now->into->live_peak_bytes = larger(now->into->live_peak_bytes, now->live_bytes);
    if (event->kind == TRACE_RESERVE) {
        model->reserve_bytes += event->size + event->align;
        return;
    }
    now->model_live_bytes[event->model] += event->size;
    now->model_live_blocks[event->model]++;
    model->live_peak_bytes = larger(model->live_peak_bytes, now->model_live_bytes[event->model]);
    model->live_peak_blocks = larger(model->live_peak_blocks, now->model_live_blocks[event->model]);
}

static void account_free(reading *now, const object *gone)
{
    now->into->left_live--;
    now->live_bytes -= gone->size;
    if (gone->kind == TRACE_ALLOCATE) {
        now->model_live_bytes[gone->model] -= gone->size;
        now->model_live_blocks[gone->model]--;
    }
}

/* --- lines -------------------------------------------------------------------------------------*/

/* The alignment and the model of an allocation: `a` has the one in its last field, the others the
 * other. */
static strata_status take_argument(trace_event *event, char op, const char *text, strata_error *err)
{
    uint64_t value;
    if (op == 'a') {
        if (!number(text, TRACE_ALIGN_MAX, &value) || value == 0 || (value & (value - 1)) != 0) {
            return strata_error_set(err, STRATA_INVALID,
                                    "alignment \"%.32s\"; write a power of two up to %llu", text,
                                    (unsigned long long)TRACE_ALIGN_MAX);
        }
        event->align = (uint32_t)value;
        return STRATA_OK;
    }
    if (!number(text, TRACE_MODELS_MAX - 1, &value)) {
        return strata_error_set(err, STRATA_INVALID,
                                "model \"%.32s\"; write a number from 0 to %d, or leave it out",
                                text, TRACE_MODELS_MAX - 1);
    }
    event->model = (uint8_t)value;
    return STRATA_OK;
}

static strata_status take_allocation(reading *now, char op, const fields *line, strata_error *err)
{
    trace_event event = {
        .object = (uint32_t)now->into->object_count,
        .kind = op == 'v' ? TRACE_RESERVE : TRACE_ALLOCATE,
        .align = op == 'v' ? TRACE_ALIGN_RESERVE : TRACE_ALIGN_BLOCK,
    };
    if (line->text[3][0] == '\0' || !number(line->text[3], TRACE_SIZE_MAX, &event.size)) {
        return strata_error_set(err, STRATA_INVALID, "size \"%.32s\"; write bytes from 0 to %llu",
                                line->text[3], (unsigned long long)TRACE_SIZE_MAX);
    }
    strata_status status = take_argument(&event, op, line->text[4], err);
    if (status == STRATA_OK) {
        object added = {.size = event.size, .model = event.model, .kind = event.kind, .live = true};
        status = add_object(now, added, err);
    }
    if (status == STRATA_OK) {
        status = add_event(now, event, err);
    }
    if (status == STRATA_OK) {
        account_allocation(now, &event);
    }
    return status;
}

static strata_status take_free(reading *now, const fields *line, strata_error *err)
{
    size_t count = now->into->object_count;
    uint64_t back;
    if (!number(line->text[3], count, &back) || back == 0 || now->objects == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "object \"%.32s\" back; write 1 (the newest) to %zu", line->text[3],
                                count);
    }
    object *gone = &now->objects[count - back];
    if (!gone->live) {
        return strata_error_set(err, STRATA_INVALID,
                                "object %llu back has been freed before; name one that is live",
                                (unsigned long long)back);
    }
    gone->live = false;
    account_free(now, gone);
    return add_event(now,
                     (trace_event){.size = gone->size,
                                   .object = (uint32_t)(count - back),
                                   .kind = TRACE_FREE,
                                   .model = gone->model},
                     err);
}

static strata_status take_line(reading *now, char *text, strata_error *err)
{
    fields line;
    uint64_t ignored;
    if (!split(text, &line)) {
        return strata_error_set(err, STRATA_INVALID, "more than %d fields; see the format's README",
                                FIELDS_MAX);
    }
    char op = line.text[0][0];
    if (strlen(line.text[0]) != 1 || strchr("KmcaRvfAFU", op) == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "operation \"%.32s\"; write one of K m c a R v f A F U",
                                line.text[0]);
    }
    if (!number(line.text[1], UINT32_MAX, &ignored) ||
        !number(line.text[2], UINT64_MAX, &ignored)) {
        return strata_error_set(err, STRATA_INVALID,
                                "thread \"%.32s\" and time \"%.32s\"; write whole numbers",
                                line.text[1], line.text[2]);
    }
    switch (op) {
    case 'K': /* marks of phases, and mappings that have no object: nothing to replay */
    case 'A':
    case 'F':
    case 'U':
        return STRATA_OK;
    case 'f':
        return take_free(now, &line, err);
    default:
        return take_allocation(now, op, &line, err);
    }
}

/* Cuts the newline. INVALID for a line that is too long, or that has a NUL inside. */
static strata_status trim_line(char *text, bool at_end, strata_error *err)
{
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
        return STRATA_OK;
    }
    if (length + 1 < TRACE_LINE_MAX && at_end) {
        return STRATA_OK; /* the last line needs no newline */
    }
    return strata_error_set(err, STRATA_INVALID,
                            "longer than %d bytes or not text; is this a trace?",
                            TRACE_LINE_MAX - 1);
}

static strata_status read_error(gzFile file, strata_error *err)
{
    int code;
    const char *text = gzerror(file, &code);
    if (code == Z_OK || code == Z_STREAM_END) {
        return STRATA_OK;
    }
    if (code == Z_ERRNO) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "read");
    }
    return strata_error_set(err, STRATA_INVALID, "%.96s; the file is damaged or cut short", text);
}

static strata_status read_lines(reading *now, gzFile file, strata_error *err)
{
    char text[TRACE_LINE_MAX];
    strata_status status = STRATA_OK;
    while (status == STRATA_OK && gzgets(file, text, sizeof text) != NULL) {
        now->line++;
        status = trim_line(text, gzeof(file) != 0, err);
        if (status == STRATA_OK) {
            status = take_line(now, text, err);
        }
        if (status != STRATA_OK) {
            strata_error_context(err, "line %zu", now->line);
        }
    }
    if (status == STRATA_OK) {
        status = read_error(file, err);
        if (status != STRATA_OK) {
            strata_error_context(err, "after line %zu", now->line);
        }
    }
    return status;
}

/* --- the file ----------------------------------------------------------------------------------*/

/* Without blocking on a pipe that nobody writes to. */
static strata_status open_file(const char *path, gzFile *file, strata_error *err)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "open");
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        (void)close(fd);
        return strata_error_set(err, STRATA_INVALID, "no regular file; name a trace");
    }
    *file = gzdopen(fd, "r");
    if (*file == NULL) {
        (void)close(fd);
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory to unpack it");
    }
    return STRATA_OK;
}

strata_status trace_read(trace *out, const char *path, strata_error *err)
{
    *out = (trace){0};
    gzFile file = NULL;
    strata_status status = open_file(path, &file, err);
    if (file == NULL) {
        return status;
    }
    reading now = {.into = out};
    status = read_lines(&now, file, err);
    (void)gzclose(file);
    out->lines = now.line;
    free(now.objects);
    if (status == STRATA_OK && out->event_count == 0) {
        status = strata_error_set(err, STRATA_INVALID,
                                  "no allocation in %zu lines; name a trace that has some",
                                  now.line);
    }
    if (status != STRATA_OK) {
        trace_free(out);
    }
    return status;
}

void trace_free(trace *loaded)
{
    free(loaded->events);
    *loaded = (trace){0};
}

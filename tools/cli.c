/* cli.c - one command's line through libpopt. See cli.h.
 *
 * popt finds the options and prints the help; its own conversions are not used, because they accept
 * what we refuse (a sign, trailing text, octal) and their messages name no remedy. */
#include "cli.h"

#include "message.h"
#include "output.h"
#include "text.h"
#include "tool.h"

#include <strata/units.h>

#include <errno.h>
#include <fcntl.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPTIONS_MAX 32
#define SHOWN_MAX   96 /* bytes of a refused value that are shown */

/* popt's val of our i-th option is i + 1: 0 means "stored by popt itself". */
#define VALUE_HELP (OPTIONS_MAX + 1)

typedef struct line_state {
    poptContext context;
    struct poptOption table[OPTIONS_MAX + 2];
    const char **argv; /* with the command's full name in front */
    char *kept[CLI_TEXTS_MAX * 2];
    size_t kept_count;
} line_state;

/* --- values ------------------------------------------------------------------------------------*/

static int store_count(const cli_command *command, const cli_option *option, const char *text)
{
    uint64_t value;
    if (!text_number(text, option->most, &value) || value < option->least) {
        return message_refuse(command->name,
                              "--%s: \"%.*s\" is no number it takes; write one from %llu to %llu",
                              option->name, SHOWN_MAX, text, (unsigned long long)option->least,
                              (unsigned long long)option->most);
    }
    *(uint64_t *)option->into = value;
    return TOOL_DONE;
}

static int store_size(const cli_command *command, const cli_option *option, const char *text)
{
    uint64_t value;
    strata_error error;
    if (strata_size_parse(text, &value, &error) != STRATA_OK) {
        return message_refuse(command->name, "--%s: %s", option->name, error.text);
    }
    if (value < option->least || value > option->most) {
        char least[STRATA_UNITS_TEXT_MAX];
        char most[STRATA_UNITS_TEXT_MAX];
        return message_refuse(command->name, "--%s: \"%.*s\" is out of range; write %s to %s",
                              option->name, SHOWN_MAX, text, strata_size_show(option->least, least),
                              strata_size_show(option->most, most));
    }
    *(uint64_t *)option->into = value;
    return TOOL_DONE;
}

static int store_text(const cli_command *command, const cli_option *option, const char *text)
{
    if (option->kind == CLI_KIND_TEXT) {
        *(const char **)option->into = text;
        return TOOL_DONE;
    }
    cli_texts *texts = option->into;
    if (texts->count == CLI_TEXTS_MAX) {
        return message_refuse(command->name, "--%s: given more than %d times; leave some out",
                              option->name, CLI_TEXTS_MAX);
    }
    texts->items[texts->count++] = text;
    return TOOL_DONE;
}

/* `text` is NULL for a flag. */
static int store(const cli_command *command, const cli_option *option, const char *text)
{
    switch (option->kind) {
    case CLI_KIND_FLAG:
        *(bool *)option->into = true;
        return TOOL_DONE;
    case CLI_KIND_COUNT:
        return store_count(command, option, text);
    case CLI_KIND_SIZE:
        return store_size(command, option, text);
    case CLI_KIND_TEXT:
    case CLI_KIND_TEXTS:
    default:
        return store_text(command, option, text);
    }
}

/* --- popt --------------------------------------------------------------------------------------*/

static void build_table(line_state *state, const cli_command *command)
{
    size_t at = 0;
    for (; at < command->option_count && at < OPTIONS_MAX; at++) {
        const cli_option *option = &command->options[at];
        state->table[at] = (struct poptOption){
            .longName = option->name,
            .argInfo = option->kind == CLI_KIND_FLAG ? POPT_ARG_NONE : POPT_ARG_STRING,
            .val = (int)at + 1,
            .descrip = option->help,
            .argDescrip = option->value_name,
        };
    }
    state->table[at] = (struct poptOption){
        .longName = "help",
        .shortName = 'h',
        .argInfo = POPT_ARG_NONE,
        .val = VALUE_HELP,
        .descrip = "show this and exit",
    };
}

static bool make_context(line_state *state, const cli_command *command, int argc, const char **argv)
{
    state->argv = calloc((size_t)argc + 1, sizeof *state->argv);
    if (state->argv == NULL) {
        return false;
    }
    memcpy(state->argv, argv, (size_t)argc * sizeof *argv);
    state->argv[0] = command->name; /* what the usage line opens with */
    state->context = poptGetContext(NULL, argc, state->argv, state->table,
                                    command->stop_early ? POPT_CONTEXT_POSIXMEHARDER : 0);
    return state->context != NULL;
}

static int print_help(line_state *state, const cli_command *command)
{
    char usage[256];
    (void)snprintf(usage, sizeof usage, "[OPTION...]%s%s", command->arguments == NULL ? "" : " ",
                   command->arguments == NULL ? "" : command->arguments);
    poptSetOtherOptionHelp(state->context, usage);
    poptPrintHelp(state->context, stdout, 0);
    if (command->about != NULL) {
        (void)printf("\n%s", command->about);
    }
    return output_finish(command->name, TOOL_DONE);
}

/* popt hands out copies of values that it never frees: they live as long as the line. */
static int take_value(line_state *state, const cli_command *command, const cli_option *option)
{
    char *text = poptGetOptArg(state->context);
    if (option->kind != CLI_KIND_FLAG) {
        if (text == NULL) {
            return message_fail(command->name, "--%s: out of memory", option->name);
        }
        if (state->kept_count == sizeof state->kept / sizeof state->kept[0]) {
            free(text);
            return message_refuse(command->name, "--%s: too many options; leave some out",
                                  option->name);
        }
        state->kept[state->kept_count++] = text;
    }
    return store(command, option, text);
}

static int refuse_option(const line_state *state, const cli_command *command, int error)
{
    const char *bad = poptBadOption(state->context, POPT_BADOPTION_NOALIAS);
    const char *reason = error == POPT_ERROR_BADOPT ? "unknown option" : poptStrerror(error);
    bool before_command = command->stop_early && error == POPT_ERROR_BADOPT;
    return message_refuse(
        command->name, "%.*s: %s%s; see `%s --help`", SHOWN_MAX, bad == NULL ? "?" : bad, reason,
        before_command ? "; a command's options come after the command" : "", command->name);
}

static int check_arguments(const cli_line *line, const cli_command *command)
{
    if (line->argument_count < command->arguments_least) {
        return message_refuse(command->name, "%s is missing; see `%s --help`", command->arguments,
                              command->name);
    }
    if (line->argument_count > command->arguments_most) {
        return message_refuse(command->name,
                              "%.*s: one argument too many (it takes %zu); leave it out", SHOWN_MAX,
                              line->arguments[command->arguments_most], command->arguments_most);
    }
    return TOOL_DONE;
}

/* False: *status is set. */
static bool take_options(line_state *state, const cli_command *command, int *status)
{
    int next;
    while ((next = poptGetNextOpt(state->context)) > 0) {
        if (next == VALUE_HELP) {
            *status = print_help(state, command);
            return false;
        }
        *status = take_value(state, command, &command->options[next - 1]);
        if (*status != TOOL_DONE) {
            return false;
        }
    }
    if (next != -1) {
        *status = refuse_option(state, command, next);
        return false;
    }
    return true;
}

bool cli_parse(cli_line *line, const cli_command *command, int argc, const char **argv, int *status)
{
    static const char *const nothing[] = {NULL};
    *line = (cli_line){.arguments = nothing};
    line_state *state = calloc(1, sizeof *state);
    line->ours_ = state;
    if (state == NULL) {
        *status = message_fail(command->name, "out of memory");
        return false;
    }
    build_table(state, command);
    if (!make_context(state, command, argc, argv)) {
        *status = message_fail(command->name, "out of memory");
        return false;
    }
    if (!take_options(state, command, status)) {
        return false;
    }
    const char *const *rest = poptGetArgs(state->context);
    line->arguments = rest == NULL ? nothing : rest;
    while (line->arguments[line->argument_count] != NULL) {
        line->argument_count++;
    }
    *status = check_arguments(line, command);
    return *status == TOOL_DONE;
}

void cli_finish(cli_line *line)
{
    line_state *state = line->ours_;
    if (state == NULL) {
        return;
    }
    if (state->context != NULL) {
        poptFreeContext(state->context);
    }
    for (size_t i = 0; i < state->kept_count; i++) {
        free(state->kept[i]);
    }
    free(state->argv);
    free(state);
    *line = (cli_line){0};
}

/* --- configuration -----------------------------------------------------------------------------*/

/* The whole file, or NULL after a line. Any file may be named, also a pipe: read to the cap. */
static char *read_text(const char *name, const char *path, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)message_refuse(name, "--config: %s: %s; name a readable file", path, strerror(errno));
        return NULL;
    }
    char *text = malloc(CLI_CONFIG_BYTES_MAX + 1);
    size_t have = 0;
    ssize_t got = 1;
    while (text != NULL && have <= CLI_CONFIG_BYTES_MAX && got > 0) {
        got = read(fd, text + have, CLI_CONFIG_BYTES_MAX + 1 - have);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    int code = errno;
    (void)close(fd);
    if (text == NULL || got < 0) {
        (void)message_refuse(name, "--config: %s: %s; name a readable file", path,
                             text == NULL ? "out of memory" : strerror(code));
    } else if (have > CLI_CONFIG_BYTES_MAX) {
        (void)message_refuse(name, "--config: %s: larger than %zu bytes; that is no configuration",
                             path, CLI_CONFIG_BYTES_MAX);
    } else {
        *length = have;
        return text;
    }
    free(text);
    return NULL;
}

/* What may be configured: NULL for whatever is written. */
typedef struct known_names {
    const char *const *names;
    size_t count;
} known_names;

/* Asked after each source, so that the line on stderr opens with the one that has the name. */
static strata_status expect_names(const strata_model_config *config, known_names known,
                                  strata_error *err)
{
    return known.names == NULL ? STRATA_OK
                               : strata_model_config_expect(config, known.names, known.count, err);
}

static bool read_file(const char *name, const char *path, known_names known,
                      strata_model_config *config)
{
    size_t length = 0;
    char *text = read_text(name, path, &length);
    if (text == NULL) {
        return false;
    }
    strata_error error;
    strata_status status = strata_model_config_read(config, text, length, path, &error);
    free(text);
    if (status == STRATA_OK) {
        status = expect_names(config, known, &error);
    }
    if (status != STRATA_OK) {
        (void)message_refuse(name, "--config: %s", error.text);
        return false;
    }
    return true;
}

bool cli_configure(const char *name, const cli_texts *files, const cli_texts *sets,
                   const char *const *names, size_t name_count, strata_model_config *config,
                   int *status)
{
    strata_error error;
    known_names known = {names, name_count};
    *status = TOOL_UNUSABLE;
    for (size_t i = 0; i < files->count; i++) {
        if (!read_file(name, files->items[i], known, config)) {
            return false;
        }
    }
    for (size_t i = 0; i < sets->count; i++) {
        if (strata_model_config_set_line(config, sets->items[i], &error) != STRATA_OK ||
            expect_names(config, known, &error) != STRATA_OK) {
            (void)message_refuse(name, "--set: %s", error.text);
            return false;
        }
    }
    if (strata_model_config_check(config, &error) != STRATA_OK) {
        (void)message_refuse(name, "%s", error.text);
        return false;
    }
    *status = TOOL_DONE;
    return true;
}

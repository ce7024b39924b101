/* main.c - the `strata` command: finds the command that the first argument names and runs it.
 *
 * What the process as a whole owes its caller is arranged here: the three standard descriptors are
 * open, and a reader that goes away is a failed write (exit status 1, with a line) instead of a
 * signal that leaves no word. */
#include "cli.h"
#include "message.h"
#include "output.h"
#include "tool.h"

#include <strata/api.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "strata"
#define HELP    "help" /* stands where a command does */

typedef struct command {
    const char *name;
    const char *about;
    int (*run)(int argc, const char **argv);
} command;

static const command commands[] = {
    {"infer", "run a real runtime with its models in Strata's memory", strata_tool_infer},
    {"load", "read model files into arenas, take steps, release", strata_tool_load},
    {"replay", "replay recorded allocations and check every block", strata_tool_replay},
    {"bench", "measure, beside the least that the machine can do", strata_tool_bench},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

/* A descriptor of the standard three that is closed would be given to the next file that is opened,
 * and our own output would be written into it. Opened the wrong way round, so that a read or write
 * fails as it would have. */
static void open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            int direction = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
            (void)open("/dev/null", direction); /* the lowest free one: fd */
        }
    }
}

static const command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int refuse_command(const char *name)
{
    char list[128];
    size_t at = 0;
    for (size_t i = 0; i < COMMAND_COUNT && at < sizeof list; i++) {
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ",
                               commands[i].name);
    }
    return message_refuse(PROGRAM, "%.96s: unknown command; there are: %s", name, list);
}

static void describe_commands(char *text, size_t capacity)
{
    size_t at = (size_t)snprintf(text, capacity, "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT && at < capacity; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "  %-8s  %s\n", commands[i].name,
                               commands[i].about);
    }
    if (at < capacity) {
        (void)snprintf(text + at, capacity - at,
                       "  %-8s  %s\n\nA command's options come after it. `" PROGRAM
                       " COMMAND --help` tells more. Exit status:\n0 done, 1 the work failed, 2 "
                       "unusable arguments, configuration or input.\n",
                       HELP, "show this, or the help of the command that follows");
    }
}

/* `strata help [COMMAND]` is `strata [COMMAND] --help`. */
static int help(const cli_command *top, const char *const *names, size_t count)
{
    const char *asked[] = {PROGRAM, "--help", NULL};
    if (count > 1) {
        return message_refuse(PROGRAM, "%.96s: one argument too many (help takes 1); leave it out",
                              names[1]);
    }
    if (count == 1 && strcmp(names[0], HELP) != 0) {
        const command *found = find(names[0]);
        asked[0] = names[0];
        return found == NULL ? refuse_command(names[0]) : found->run(2, asked);
    }
    cli_line line;
    int status;
    (void)cli_parse(&line, top, 2, asked, &status);
    cli_finish(&line);
    return status;
}

static int run(cli_line *line, const cli_command *top, int argc, const char **argv, bool *version)
{
    int status;
    if (!cli_parse(line, top, argc, argv, &status)) {
        return status;
    }
    if (*version) {
        (void)printf(PROGRAM " " STRATA_VERSION_STRING "\n");
        return output_finish(PROGRAM, TOOL_DONE);
    }
    if (line->argument_count == 0) {
        return message_refuse(PROGRAM, "COMMAND is missing; see `" PROGRAM " --help`");
    }
    if (strcmp(line->arguments[0], HELP) == 0) {
        return help(top, line->arguments + 1, line->argument_count - 1);
    }
    const command *found = find(line->arguments[0]);
    if (found == NULL) {
        return refuse_command(line->arguments[0]);
    }
    /* The command gets its part of the line as it was written. */
    int rest = (int)line->argument_count;
    return found->run(rest, argv + (argc - rest));
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 1) {
        return message_refuse(PROGRAM, "no arguments at all; see `" PROGRAM " --help`");
    }

    bool version = false;
    const cli_option options[] = {CLI_FLAG("version", &version, "show the version and exit")};
    char about[1024];
    describe_commands(about, sizeof about);
    cli_command top = {
        .name = PROGRAM,
        .arguments = "COMMAND [ARGUMENT...]",
        .about = about,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .arguments_most = SIZE_MAX,
        .stop_early = true,
    };
    cli_line line;
    int status = run(&line, &top, argc, (const char **)argv, &version);
    cli_finish(&line);
    return status;
}

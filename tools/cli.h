/* cli.h - the command line of one command.
 *
 * A thin layer over libpopt: a table of options in, values in the caller's variables out, with
 * `--help` (`-h`) generated from the same table. Every value is taken from popt as text and parsed
 * here, strictly, so that whatever is not usable ends in one line on stderr (message.h) and in exit
 * status 2. Reads the files that `--config` names, because the library reads none. It
 * knows nothing of what a command does. One thread. */
#ifndef STRATA_TOOL_CLI_H
#define STRATA_TOOL_CLI_H

#include <strata/config.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_TEXTS_MAX        32
#define CLI_CONFIG_BYTES_MAX ((size_t)1 << 20) /* of one --config file */

/* An option that may be given several times. */
typedef struct cli_texts {
    const char *items[CLI_TEXTS_MAX];
    size_t count;
} cli_texts;

typedef enum cli_kind {
    CLI_KIND_FLAG,  /* bool: no value, true where given */
    CLI_KIND_COUNT, /* uint64_t: decimal, from `least` to `most` */
    CLI_KIND_SIZE,  /* uint64_t: bytes, as strata/units.h reads them, from `least` to `most` */
    CLI_KIND_TEXT,  /* const char *: the last one given wins */
    CLI_KIND_TEXTS  /* cli_texts: all of them, in order */
} cli_kind;

/* `into` keeps its value, the default, where the option is not given. */
typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_kind kind;
    const char *value_name; /* "FILE"; NULL for a flag */
    const char *help;
    void *into;
    uint64_t least;
    uint64_t most;
} cli_option;

#define CLI_FLAG(name, into, help)                  \
    {                                               \
        name, CLI_KIND_FLAG, NULL, help, into, 0, 0 \
    }
#define CLI_TEXT(name, value_name, into, help)            \
    {                                                     \
        name, CLI_KIND_TEXT, value_name, help, into, 0, 0 \
    }
#define CLI_TEXTS(name, value_name, into, help)            \
    {                                                      \
        name, CLI_KIND_TEXTS, value_name, help, into, 0, 0 \
    }
#define CLI_COUNT(name, into, least, most, help)           \
    {                                                      \
        name, CLI_KIND_COUNT, "N", help, into, least, most \
    }
#define CLI_SIZE(name, into, least, most, help)              \
    {                                                        \
        name, CLI_KIND_SIZE, "SIZE", help, into, least, most \
    }

typedef struct cli_command {
    const char *name;      /* "strata load": opens every line on stderr */
    const char *arguments; /* "MODEL...", what follows the options; NULL: nothing does */
    const char *about;     /* below the options in --help, lines with their newlines; may be NULL */
    const cli_option *options;
    size_t option_count;
    size_t arguments_least;
    size_t arguments_most;
    bool stop_early; /* the first argument ends the options: it is a command's name */
} cli_command;

typedef struct cli_line {
    const char *const *arguments; /* NULL-terminated */
    size_t argument_count;
    void *ours_;
} cli_line;

/* True: go on. False: *status is what the command returns, after --help (0, or 1 where stdout did
 * not take it) or a line that was refused (2). Values point into *line: cli_finish when done with
 * them, also after false. */
bool cli_parse(cli_line *line, const cli_command *command, int argc, const char **argv,
               int *status);
void cli_finish(cli_line *line);

/* The configuration that `--config` files and then `--set` lines give, over what *config holds.
 * `names` are those that the command creates (NULL: whatever is configured is accepted). False:
 * refused, the line has been printed and *status set. */
bool cli_configure(const char *name, const cli_texts *files, const cli_texts *sets,
                   const char *const *names, size_t name_count, strata_model_config *config,
                   int *status);

#endif

/* tool.h - the commands of `strata`, and what their exit statuses mean.
 *
 * Each command is one file with one entry, called by main.c with argv[0] being its own name. A
 * command parses its line through cli.h, prints through output.h, and returns one of the statuses
 * below; it never calls exit(), so that everything it holds is given back by itself. */
#ifndef STRATA_TOOL_H
#define STRATA_TOOL_H

/* The contract with scripts; the values are part of it. */
#define TOOL_DONE     0
#define TOOL_FAILED   1 /* the work failed; a release that failed or fell short is a failure */
#define TOOL_UNUSABLE 2 /* arguments, configuration or input: one line on stderr, with a remedy */

int strata_tool_infer(int argc, const char **argv);
int strata_tool_load(int argc, const char **argv);
int strata_tool_replay(int argc, const char **argv);
int strata_tool_bench(int argc, const char **argv);

#endif

/* message.h - the one line on stderr with which a command refuses or fails.
 *
 *     strata load: --steps: "x" is no number; write one from 0 to 1000000
 *
 * Every command's line has this shape and goes through here, together with the exit status that
 * belongs to it (tool.h). Knows no options and no documents. Any thread. */
#ifndef STRATA_TOOL_MESSAGE_H
#define STRATA_TOOL_MESSAGE_H

#include <strata/status.h>

/* "NAME: ..." on stderr; control characters become '?'. Return TOOL_UNUSABLE and TOOL_FAILED. */
int message_refuse(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int message_fail(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same line for work that ended in `status`. INVALID, LIMIT, BUDGET and UNSUPPORTED are the
 * input's or the configuration's fault, because another one would do: TOOL_UNUSABLE. The rest is
 * work that failed: TOOL_FAILED. pre: not OK. */
int message_status(const char *name, strata_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

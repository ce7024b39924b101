/* message.c - see message.h. */
#include "message.h"

#include "text.h"
#include "tool.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES_MAX 1024

static void say(const char *name, const char *format, va_list list)
{
    char text[LINE_BYTES_MAX];
    (void)vsnprintf(text, sizeof text, format, list);
    text_make_plain(text);
    (void)fprintf(stderr, "%s: %s\n", name, text);
}

int message_refuse(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(name, format, list);
    va_end(list);
    return TOOL_UNUSABLE;
}

int message_fail(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(name, format, list);
    va_end(list);
    return TOOL_FAILED;
}

int message_status(const char *name, strata_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(name, format, list);
    va_end(list);
    switch (status) {
    case STRATA_INVALID:
    case STRATA_LIMIT:
    case STRATA_BUDGET:
    case STRATA_UNSUPPORTED:
        return TOOL_UNUSABLE;
    default:
        return TOOL_FAILED;
    }
}

/* error.c - filling in one failure. Formats into the caller's value; never allocates. */
#include <strata/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *strata_origin_name(strata_origin origin)
{
    switch (origin) {
    case STRATA_ORIGIN_NONE:
        return "none";
    case STRATA_ORIGIN_ERRNO:
        return "errno";
    case STRATA_ORIGIN_CURESULT:
        return "curesult";
    case STRATA_ORIGIN_RESOURCE:
        return "resource";
    case STRATA_ORIGIN_COUNT_:
        break;
    }
    return "unknown";
}

/* Texts quote what came from outside. Whatever that was, an error stays one line of printable text.
 */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '\r' || *text == '\t') {
            *text = ' ';
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

strata_status strata_error_set(strata_error *err, strata_status status, const char *format, ...)
{
    if (err != NULL) {
        *err = (strata_error){.status = status};
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
        make_printable(err->text);
    }
    return status;
}

/* strerrorname_np is a table lookup without a lock or allocation; an errno it does not know keeps
 * its number alone. */
strata_status strata_error_native(strata_error *err, strata_status status, strata_origin origin,
                                  int64_t native, const char *call)
{
    if (err == NULL) {
        return status;
    }
    const char *name = NULL;
    if (origin == STRATA_ORIGIN_ERRNO) {
        name = strerrorname_np((int)native);
    }
    *err = (strata_error){.status = status, .origin = origin, .native = native};
    (void)snprintf(err->text, sizeof err->text, "%s: %lld%s%s", call, (long long)native,
                   name != NULL ? " " : "", name != NULL ? name : "");
    return status;
}

void strata_error_context(strata_error *err, const char *format, ...)
{
    if (err == NULL || err->status == STRATA_OK) {
        return;
    }
    char before[STRATA_TEXT_MAX];
    (void)snprintf(before, sizeof before, "%s", err->text);

    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    strata_error_append(err, ": %s", before); /* makes the whole printable */
}

void strata_error_append(strata_error *err, const char *format, ...)
{
    if (err == NULL || err->status == STRATA_OK) {
        return;
    }
    size_t used = strlen(err->text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->text + used, sizeof err->text - used, format, arguments);
    va_end(arguments);
    make_printable(err->text);
}

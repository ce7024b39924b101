/* refusal.c - how a refusal is worded: what is wrong, then what to do about it.
 *
 * The only file here that writes STRATA_INVALID, so that no refusal can lack a remedy: it is an
 * argument that nobody can leave out. Also what makes foreign text fit to stand in a line. Knows
 * neither formats nor files. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

strata_status modelfile__refuse(strata_error *err, const char *remedy, const char *format, ...)
{
    char what[STRATA_TEXT_MAX];
    size_t room = sizeof what - strlen(": ") - strlen(remedy); /* remedies are short constants */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, room, format, arguments);
    va_end(arguments);
    return strata_error_set(err, STRATA_INVALID, "%s: %s", what, remedy);
}

strata_status modelfile__no_memory(strata_error *err, size_t bytes, const char *what)
{
    return strata_error_set(err, STRATA_NO_MEMORY,
                            "no memory for %zu bytes of %s: free some or raise the limit", bytes,
                            what);
}

/* The length of the sequence at `text`, 0 where it is none: overlong forms, surrogates and what
 * lies past U+10FFFF are none (RFC 3629, section 4). */
static size_t utf8_sequence(const unsigned char *text, size_t left)
{
    unsigned char first = text[0];
    if (first < 0x80) {
        return 1;
    }
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || length > left) {
        return 0;
    }
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

bool modelfile__is_utf8(const char *text, size_t bytes)
{
    const unsigned char *next = (const unsigned char *)text;
    while (bytes > 0) {
        size_t length = utf8_sequence(next, bytes);
        if (length == 0) {
            return false;
        }
        next += length;
        bytes -= length;
    }
    return true;
}

/* At most `limit` bytes of the name, and "..." where that is not all of it. */
static modelfile_quoted quote(const char *name, size_t limit)
{
    modelfile_quoted quoted;
    size_t bytes = strlen(name);
    const unsigned char *next = (const unsigned char *)name;
    size_t used = 0;
    while (bytes > 0) {
        size_t length = utf8_sequence(next, bytes);
        if (used + (length == 0 ? 1 : length) > limit) {
            memcpy(quoted.text + used, "...", 3);
            used += 3;
            break;
        }
        if (length == 0) {
            quoted.text[used] = '?';
            length = 1;
        } else {
            memcpy(quoted.text + used, next, length);
        }
        used += length;
        next += length;
        bytes -= length;
    }
    quoted.text[used] = '\0';
    return quoted;
}

modelfile_quoted modelfile__quoted(const char *name)
{
    return quote(name, MODELFILE_QUOTED_MAX);
}

void modelfile__context(strata_error *err, const char *what, const char *name)
{
    if (err == NULL) {
        return;
    }
    size_t taken = strlen(err->text) + strlen(what) + strlen(" '...': ");
    size_t room = taken < STRATA_TEXT_MAX - 1 ? STRATA_TEXT_MAX - 1 - taken : 0;
    size_t limit = room < MODELFILE_QUOTED_MAX ? room : MODELFILE_QUOTED_MAX;
    strata_error_context(err, "%s '%s'", what, quote(name, limit).text);
}

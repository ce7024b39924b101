/* ini.c - a strict reader of INI text into a configuration.
 *
 * Our own and small because the packaged readers are lenient where an operator needs strictness:
 * Debian's inih 55 cuts long lines silently and then misreports the line. Here every line is a
 * section, a key with a value, a comment, empty, or an error with its number. Never reads a file.
 */
#include <strata/config.h>

#include "internal.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 1024

typedef struct reader {
    strata_model_config *config;
    uint16_t source;
    uint32_t line;
    char section[STRATA_LABEL_MAX];
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts white space at both ends, in place. */
static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && is_blank(text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

/* A comment starts with # or ; at the beginning or after white space. */
static void cut_comment(char *line)
{
    for (char *at = line; *at != '\0'; at++) {
        if ((*at == '#' || *at == ';') && (at == line || is_blank(at[-1]))) {
            *at = '\0';
            return;
        }
    }
}

static strata_status read_section(reader *r, char *line, strata_error *err)
{
    size_t length = strlen(line);
    if (line[length - 1] != ']') {
        return strata_error_set(err, STRATA_INVALID, "a section ends with ]: [weights]");
    }
    line[length - 1] = '\0';
    const char *name = trim(line + 1);
    if (!strata__config_name_is_valid(name)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no section name; use letters, digits, _ and -", name);
    }
    (void)snprintf(r->section, sizeof r->section, "%s", name);
    return STRATA_OK;
}

static strata_status read_value(reader *r, char *line, strata_error *err)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "expected `key = value` or a [section], found \"%.40s\"", line);
    }
    *equals = '\0';
    const char *key = trim(line);
    const char *value = trim(equals + 1);
    if (r->section[0] == '\0') {
        return strata_error_set(err, STRATA_INVALID, "\"%.40s\" stands before the first [section]",
                                key);
    }
    if (*key == '\0' || *value == '\0') {
        return strata_error_set(err, STRATA_INVALID, "a key and a value are needed around =");
    }
    uint32_t before = 0;
    if (strata__config_was_set(r->config, r->section, key, r->source, &before)) {
        return strata_error_set(err, STRATA_INVALID, "%s.%.40s is given twice, first in line %u",
                                r->section, key, (unsigned)before);
    }
    return strata__config_set_at(r->config, r->section, key, value,
                                 (strata_config_place){r->source, r->line}, err);
}

static strata_status read_line(reader *r, const char *text, size_t length, strata_error *err)
{
    char buffer[LINE_MAX_BYTES];
    if (length >= sizeof buffer) {
        return strata_error_set(err, STRATA_INVALID, "the line is longer than %d bytes",
                                LINE_MAX_BYTES - 1);
    }
    if (memchr(text, '\0', length) != NULL) {
        return strata_error_set(err, STRATA_INVALID, "the line has a NUL byte; this is no text");
    }
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    cut_comment(buffer);
    char *line = trim(buffer);
    if (*line == '\0') {
        return STRATA_OK;
    }
    return *line == '[' ? read_section(r, line, err) : read_value(r, line, err);
}

static strata_status add_source(strata_model_config *config, const char *source, uint16_t *out,
                                strata_error *err)
{
    if (config->source_count_ == STRATA_CONFIG_SOURCES_MAX) {
        return strata_error_set(err, STRATA_LIMIT, "more than %d configurations were read",
                                STRATA_CONFIG_SOURCES_MAX);
    }
    (void)snprintf(config->sources_[config->source_count_], sizeof config->sources_[0], "%s",
                   source);
    *out = (uint16_t)++config->source_count_;
    return STRATA_OK;
}

strata_status strata_model_config_read(strata_model_config *config, const char *text, size_t length,
                                       const char *source, strata_error *err)
{
    strata_model_config changed = *config;
    reader r = {.config = &changed};
    strata_status status = add_source(&changed, source, &r.source, err);
    size_t at = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (status == STRATA_OK && at < length) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - (text + at)) : length - at;
        r.line++;
        status = read_line(&r, text + at, line, err);
        at += line + 1;
    }
    if (status != STRATA_OK) {
        strata_error_context(err, "%s:%u", source, (unsigned)r.line);
        return status;
    }
    status = strata_model_config_check(&changed, err);
    if (status == STRATA_OK) {
        *config = changed;
    }
    return status;
}

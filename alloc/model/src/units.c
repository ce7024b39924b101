/* units.c - reading and showing sizes and times. No locale, no floating point on the way in. */
#include <strata/units.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static const unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

static const unit time_units[] = {
    {"ns", 1},
    {"us", UINT64_C(1000)},
    {"ms", UINT64_C(1000000)},
    {"s", UINT64_C(1000000000)},
};

/* Digits from *at on into *value; false where there are none or they do not fit. */
static bool read_digits(const char **at, uint64_t *value, unsigned *count)
{
    *value = 0;
    *count = 0;
    while (**at >= '0' && **at <= '9') {
        uint64_t digit = (uint64_t)(**at - '0');
        if (*value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *value = *value * 10 + digit;
        (*at)++;
        (*count)++;
    }
    return *count > 0;
}

static const unit *find_unit(const unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].name, name) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

/* whole.fraction units, exactly: false where the result is no whole number or does not fit. */
static bool combine(uint64_t whole, uint64_t fraction, unsigned digits, uint64_t factor,
                    uint64_t *out)
{
    uint64_t scale = 1;
    for (unsigned i = 0; i < digits; i++) {
        scale *= 10;
    }
    /* fraction < 10^6 and factor <= 2^40: below 2^60. */
    uint64_t part = fraction * factor;
    if (part % scale != 0 || (whole != 0 && factor > UINT64_MAX / whole)) {
        return false;
    }
    uint64_t product = whole * factor;
    if (product > UINT64_MAX - part / scale) {
        return false;
    }
    *out = product + part / scale;
    return true;
}

#define FRACTION_DIGITS_MAX 6

static bool parse(const char *text, const unit *units, size_t count, uint64_t *out)
{
    const char *at = text;
    uint64_t whole = 0;
    uint64_t fraction = 0;
    unsigned digits = 0;
    unsigned fraction_digits = 0;
    if (!read_digits(&at, &whole, &digits)) {
        return false;
    }
    if (*at == '.') {
        at++;
        if (!read_digits(&at, &fraction, &fraction_digits) ||
            fraction_digits > FRACTION_DIGITS_MAX) {
            return false;
        }
    }
    const unit *found = find_unit(units, count, at);
    return found != NULL && combine(whole, fraction, fraction_digits, found->factor, out);
}

strata_status strata_size_parse(const char *text, uint64_t *bytes, strata_error *err)
{
    if (!parse(text, size_units, sizeof size_units / sizeof *size_units, bytes)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no size; write a number of bytes, or one with KiB, "
                                "MiB, GiB or TiB, such as 1.5GiB",
                                text);
    }
    return STRATA_OK;
}

strata_status strata_time_parse(const char *text, uint64_t *ns, strata_error *err)
{
    if (strcmp(text, "0") == 0) {
        *ns = 0;
        return STRATA_OK;
    }
    if (!parse(text, time_units, sizeof time_units / sizeof *time_units, ns)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no time; write a number with ns, us, ms or s, such "
                                "as 250ms",
                                text);
    }
    return STRATA_OK;
}

strata_status strata_bool_parse(const char *text, bool *value, strata_error *err)
{
    static const char *const yes[] = {"yes", "true", "on"};
    static const char *const no[] = {"no", "false", "off"};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, yes[i]) == 0) {
            *value = true;
            return STRATA_OK;
        }
        if (strcmp(text, no[i]) == 0) {
            *value = false;
            return STRATA_OK;
        }
    }
    return strata_error_set(err, STRATA_INVALID, "\"%.40s\" is neither yes nor no", text);
}

/* The largest unit that leaves at least 1; one decimal unless it is exact. */
static const char *show(uint64_t value, const unit *units, size_t count,
                        char buffer[STRATA_UNITS_TEXT_MAX])
{
    const unit *best = &units[0];
    for (size_t i = 1; i < count; i++) {
        if (value >= units[i].factor) {
            best = &units[i];
        }
    }
    if (value % best->factor == 0) {
        (void)snprintf(buffer, STRATA_UNITS_TEXT_MAX, "%" PRIu64 "%s", value / best->factor,
                       best->name);
    } else {
        (void)snprintf(buffer, STRATA_UNITS_TEXT_MAX, "%.1f%s",
                       (double)value / (double)best->factor, best->name);
    }
    return buffer;
}

const char *strata_size_show(uint64_t bytes, char buffer[STRATA_UNITS_TEXT_MAX])
{
    return show(bytes, size_units + 1, sizeof size_units / sizeof *size_units - 1, buffer);
}

const char *strata_time_show(uint64_t ns, char buffer[STRATA_UNITS_TEXT_MAX])
{
    return show(ns, time_units, sizeof time_units / sizeof *time_units, buffer);
}

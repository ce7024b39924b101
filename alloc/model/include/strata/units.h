/* strata/units.h - sizes and times as people write them.
 *
 * Reads `4096`, `64KiB`, `1.5GiB`, `250ms`, `5s`; shows the same way. Strict: a bare unit, a sign,
 * a space inside, or a fraction that is no whole number of bytes is refused with what would be
 * right. Pure functions; any thread. */
#ifndef STRATA_UNITS_H
#define STRATA_UNITS_H

#include <strata/error.h>

STRATA_BEGIN_DECLS

#define STRATA_UNITS_TEXT_MAX 32

/* Units: none or B (bytes), KiB, MiB, GiB, TiB. INVALID; *bytes is untouched then. */
STRATA_API strata_status strata_size_parse(const char *text, uint64_t *bytes, strata_error *err);

/* Units: ns, us, ms, s; none is refused, except for 0. */
STRATA_API strata_status strata_time_parse(const char *text, uint64_t *ns, strata_error *err);

/* "yes", "no", "true", "false", "on", "off". */
STRATA_API strata_status strata_bool_parse(const char *text, bool *value, strata_error *err);

/* "512B", "64KiB", "13.2MiB": one decimal, none where it is exact; what is exact reads back.
 * "250us", "13.2ms", "5s". Returns `buffer`. */
STRATA_API const char *strata_size_show(uint64_t bytes, char buffer[STRATA_UNITS_TEXT_MAX]);
STRATA_API const char *strata_time_show(uint64_t ns, char buffer[STRATA_UNITS_TEXT_MAX]);

STRATA_END_DECLS

#endif

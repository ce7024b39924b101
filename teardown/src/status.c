/* status.c - the texts of the status list. No state; the list itself is in status.h. */
#include <strata/status.h>

/* One switch a question instead of two arrays: an out-of-range value falls out at the end, and
 * nothing needs to be in step with the enumeration. */
const char *strata_status_name(strata_status status)
{
    switch (status) {
#define CASE(name, word, text) \
    case STRATA_##name:        \
        return word;
        STRATA_STATUS_MAP(CASE)
#undef CASE
    case STRATA_STATUS_COUNT_:
        break;
    }
    return "unknown";
}

const char *strata_status_text(strata_status status)
{
    switch (status) {
#define CASE(name, word, text) \
    case STRATA_##name:        \
        return text;
        STRATA_STATUS_MAP(CASE)
#undef CASE
    case STRATA_STATUS_COUNT_:
        break;
    }
    return "unknown status";
}

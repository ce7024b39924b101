/* marks.c - which marks of an arena are still good, without a list of marks.
 *
 * A mark is good while nothing below it has been dropped since it was taken. So for a mark one has
 * to know the lowest offset that any later rewind went to. A rewind makes all earlier rewinds to
 * the same or a higher offset irrelevant; what remains is a stack whose moments and offsets rise
 * together, and the answer for a mark is the first entry younger than it.
 *
 * The stack is bounded. When it is full, its two oldest entries become one with the lower offset
 * and the later moment: some old marks may then be refused that are good, none is accepted that is
 * stale, and young marks, which loops take and use, stay exact. */
#include "internal.h"

#include <string.h>

bool strata__marks_is_good(const strata__marks *marks, uint64_t moment, size_t offset)
{
    if (moment > marks->moment) {
        return false;
    }
    for (size_t i = 0; i < marks->count; i++) {
        if (marks->rewinds[i].moment > moment) {
            return marks->rewinds[i].offset >= offset;
        }
    }
    return true;
}

void strata__marks_rewound(strata__marks *marks, size_t offset)
{
    marks->moment++;
    while (marks->count > 0 && marks->rewinds[marks->count - 1].offset >= offset) {
        marks->count--;
    }
    if (marks->count == STRATA__REWINDS_MAX) {
        marks->rewinds[1].offset = marks->rewinds[0].offset;
        memmove(&marks->rewinds[0], &marks->rewinds[1],
                (marks->count - 1) * sizeof marks->rewinds[0]);
        marks->count--;
    }
    marks->rewinds[marks->count++] =
        (struct strata__rewind){.moment = marks->moment, .offset = offset};
}

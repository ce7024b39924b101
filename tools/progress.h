/* progress.h - a bar on stderr while something long runs: share, amount, rate, time left.
 *
 * Only where stderr is a terminal; everywhere else every call is a no-op, so that logs and scripts
 * see nothing. Redrawn ten times a second at most. One thread; worker threads report through the
 * one that draws. */
#ifndef STRATA_TOOL_PROGRESS_H
#define STRATA_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct progress {
    /* ours */
    char label_[48];
    const char *unit_; /* NULL: bytes */
    uint64_t total_;
    uint64_t done_;
    uint64_t began_ns_;
    uint64_t drawn_ns_;
    bool shown_;
} progress;

/* `unit` is a static word for what is counted ("rounds"), NULL for bytes. A total of 0 draws no
 * share and no time left. `label` is copied and cut. */
void progress_begin(progress *bar, const char *label, const char *unit, uint64_t total);
void progress_set(progress *bar, uint64_t done);
void progress_add(progress *bar, uint64_t more);
/* Wipes the bar. Must come before anything else is written to stderr or stdout. */
void progress_end(progress *bar);

/* The text of the bar, without the carriage return; for the tests. snprintf's contract. */
size_t progress_format(const progress *bar, uint64_t now_ns, char *buffer, size_t capacity);

#endif

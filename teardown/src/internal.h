/* internal.h - what the files of teardown/ share with each other and with the layers above inside
 * the core. Not installed. */
#ifndef STRATA_TEARDOWN_INTERNAL_H
#define STRATA_TEARDOWN_INTERNAL_H

#include <strata/teardown.h>

/* Copies at most STRATA_LABEL_MAX - 1 bytes; NULL becomes "(unnamed)". */
void strata__label_copy(char into[STRATA_LABEL_MAX], const char *label);

/* Records one attempt: counts, keeps what fits, calls `each`. error is NULL where it succeeded.
 * report may be NULL. */
void strata__report_attempt(strata_report *report, strata_phase phase, const char *label,
                            size_t held_bytes, const strata_error *error);

/* Whether callbacks of this teardown are being called, by whatever thread. */
bool strata__teardown_is_releasing(const strata_teardown *teardown);

/* strata_teardown_release_to without asking. pre: everything after the mark has just been asked and
 * nothing refused; the caller must not let a refusal happen halfway through several lists. */
strata_status strata__teardown_sweep_to(strata_teardown *teardown, strata_mark mark, void *context,
                                        strata_report *out);

#endif

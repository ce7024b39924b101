/* strata/report.h - what one release attempted and how each attempt ended.
 *
 * Exact counts, a bounded number of details, and a callback that sees every attempt, so that
 * nothing depends on how large the bound is. Lives in the caller's storage; never allocates, never
 * takes a lock. Counts and details accumulate until it is initialised again. Everywhere a report is
 * taken, NULL is allowed and means that only the returned status is wanted.
 *
 * When not to use it: as a log. It describes one release, not a history. */
#ifndef STRATA_REPORT_H
#define STRATA_REPORT_H

#include <strata/error.h>

STRATA_BEGIN_DECLS

#define STRATA_REPORT_DETAILS_MAX 16 /* failures and refusals kept with their text */
#define STRATA_REPORT_ORDER_MAX   64 /* labels kept, in the order in which they were attempted */

/* What a check of the returned memory found. The order is the order of severity: of several
 * regions, the worst verdict is the release's. */
typedef enum strata_verdict {
    STRATA_VERDICT_NONE,         /* nothing that holds memory was released */
    STRATA_VERDICT_VERIFIED,     /* every range was seen to be gone */
    STRATA_VERDICT_UNVERIFIABLE, /* returned without an error, but it cannot be seen; see reason */
    STRATA_VERDICT_SHORT         /* less came back than was released, by short_bytes */
} strata_verdict;

/* Which question a detail answers. */
typedef enum strata_phase {
    STRATA_PHASE_READY,  /* "may this be released now?" */
    STRATA_PHASE_RELEASE /* the release itself */
} strata_phase;

typedef struct strata_detail {
    char label[STRATA_LABEL_MAX]; /* copied: the resource may be gone */
    size_t held_bytes;            /* what the resource said it holds */
    strata_phase phase;
    strata_error error;
} strata_detail;

/* Called for every attempt, in order; `error` is NULL where it succeeded. Called for a refusal as
 * well. Must not release anything itself. */
typedef void strata_report_fn(void *user, strata_phase phase, const char *label,
                              const strata_error *error);

/* All fields may be read; none is to be written by the caller. */
typedef struct strata_report {
    strata_status status; /* the first failure's, or the first refusal's */
    size_t attempted;     /* releases called, and rewinds of a scope that failed */
    size_t failed;        /* of those, how many failed */
    size_t asked;         /* ready questions asked */
    size_t refused;       /* of those, how many said BUSY or TIMEOUT: then attempted is 0 */
    size_t ready_failed;  /* ready questions that failed otherwise: reported, not obeyed */
    size_t held_bytes;    /* of the resources that failed or refused */

    size_t detail_count; /* details kept; exact count: failed + refused + ready_failed */
    strata_detail details[STRATA_REPORT_DETAILS_MAX];
    size_t order_count; /* labels kept; exact count: attempted */
    char order[STRATA_REPORT_ORDER_MAX][STRATA_LABEL_MAX];

    /* Of the model whose memory it was, written anew by each release of it, of a scope or of a
     * strand; a bare teardown leaves them 0. */
    size_t bytes_held_before;
    size_t bytes_held_after;
    size_t stranded_bytes; /* of those that stay */
    size_t stranded;       /* resources that stay with their owner, to be tried again */
    uint64_t unmaps;       /* mappings torn down, by the ledger */
    uint64_t mappings;     /* mappings that existed before */
    uint64_t elapsed_ns;
    strata_verdict verdict;
    size_t short_bytes;
    char verdict_reason[STRATA_TEXT_MAX];

    strata_report_fn *each; /* ours */
    void *user;             /* ours */
} strata_report;

/* Must come before the first use. `each` may be NULL. */
STRATA_API void strata_report_init(strata_report *report, strata_report_fn *each, void *user);

/* One line, snprintf's contract: returns the length that the whole text needs, without the
 * terminator, and writes at most `capacity` bytes. buffer may be NULL when capacity is 0.
 *   4 resource(s) released
 *   2 resource(s) failed to release: kv: munmap: 12 ENOMEM; weights: ...
 *   refused, 1 resource(s) not ready: rec: 1 output of 409600 bytes is still held */
STRATA_API size_t strata_report_format(const strata_report *report, char *buffer, size_t capacity);

STRATA_API const char *strata_verdict_name(strata_verdict verdict); /* "verified", "short", ... */

/* For owners of memory that run a release of their own: records what a check found, keeping the
 * worst. reason may be NULL. */
STRATA_API void strata_report_verdict(strata_report *report, strata_verdict verdict,
                                      size_t short_bytes, const char *reason);

STRATA_END_DECLS

#endif

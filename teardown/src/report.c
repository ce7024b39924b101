/* report.c - counting, keeping and printing the attempts of a release.
 *
 * Knows nothing of teardowns: it is handed one attempt at a time. Copies what it keeps, since the
 * resource may be gone by the time the report is read. */
#include <strata/report.h>

#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void strata_report_init(strata_report *report, strata_report_fn *each, void *user)
{
    *report = (strata_report){.each = each, .user = user};
}

void strata__label_copy(char into[STRATA_LABEL_MAX], const char *label)
{
    (void)snprintf(into, STRATA_LABEL_MAX, "%s", label != NULL ? label : "(unnamed)");
}

/* Ready questions that failed are remarks; they make room for releases that failed. */
static bool drop_a_remark(strata_report *report)
{
    for (size_t i = report->detail_count; i > 0; i--) {
        if (report->details[i - 1].phase == STRATA_PHASE_READY) {
            memmove(&report->details[i - 1], &report->details[i],
                    (report->detail_count - i) * sizeof report->details[0]);
            report->detail_count--;
            return true;
        }
    }
    return false;
}

static void keep_detail(strata_report *report, strata_phase phase, const char *label,
                        size_t held_bytes, const strata_error *error)
{
    if (report->detail_count == STRATA_REPORT_DETAILS_MAX &&
        (phase == STRATA_PHASE_READY || !drop_a_remark(report))) {
        return;
    }
    strata_detail *detail = &report->details[report->detail_count++];
    strata__label_copy(detail->label, label);
    detail->held_bytes = held_bytes;
    detail->phase = phase;
    detail->error = *error;
}

static void count_ready(strata_report *report, size_t held_bytes, const strata_error *error)
{
    report->asked++;
    if (error == NULL) {
        return;
    }
    if (error->status == STRATA_BUSY || error->status == STRATA_TIMEOUT) {
        report->refused++;
        report->held_bytes += held_bytes;
        if (report->status == STRATA_OK) {
            report->status = error->status;
        }
    } else {
        report->ready_failed++;
    }
}

static void count_release(strata_report *report, const char *label, size_t held_bytes,
                          const strata_error *error)
{
    report->attempted++;
    if (report->order_count < STRATA_REPORT_ORDER_MAX) {
        strata__label_copy(report->order[report->order_count++], label);
    }
    if (error != NULL) {
        report->failed++;
        report->held_bytes += held_bytes;
        if (report->status == STRATA_OK) {
            report->status = error->status;
        }
    }
}

void strata__report_attempt(strata_report *report, strata_phase phase, const char *label,
                            size_t held_bytes, const strata_error *error)
{
    if (report == NULL) {
        return;
    }
    if (phase == STRATA_PHASE_READY) {
        count_ready(report, held_bytes, error);
    } else {
        count_release(report, label, held_bytes, error);
    }
    if (error != NULL) {
        keep_detail(report, phase, label, held_bytes, error);
    }
    if (report->each != NULL) {
        report->each(report->user, phase, label != NULL ? label : "(unnamed)", error);
    }
}

const char *strata_verdict_name(strata_verdict verdict)
{
    switch (verdict) {
    case STRATA_VERDICT_NONE:
        return "none";
    case STRATA_VERDICT_VERIFIED:
        return "verified";
    case STRATA_VERDICT_UNVERIFIABLE:
        return "unverifiable";
    case STRATA_VERDICT_SHORT:
        return "short";
    }
    return "unknown";
}

void strata_report_verdict(strata_report *report, strata_verdict verdict, size_t short_bytes,
                           const char *reason)
{
    if (report == NULL) {
        return;
    }
    report->short_bytes += short_bytes;
    if (verdict > report->verdict) {
        report->verdict = verdict;
        (void)snprintf(report->verdict_reason, sizeof report->verdict_reason, "%s",
                       reason != NULL ? reason : "");
    }
}

/* Where a text is written, and how long it would be without the limit. */
typedef struct text_out {
    char *buffer;
    size_t capacity;
    size_t length;
} text_out;

static void put(text_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(text_out *out, const char *format, ...)
{
    size_t used = out->length < out->capacity ? out->length : out->capacity;
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(out->capacity == used ? NULL : out->buffer + used, out->capacity - used,
                         format, arguments);
    va_end(arguments);
    out->length += more > 0 ? (size_t)more : 0;
}

static void put_details(text_out *out, const strata_report *report, strata_phase phase,
                        size_t exact_count)
{
    const char *separator = ": ";
    size_t shown = 0;
    for (size_t i = 0; i < report->detail_count; i++) {
        const strata_detail *detail = &report->details[i];
        if (detail->phase != phase) {
            continue;
        }
        put(out, "%s%s: %s", separator, detail->label, detail->error.text);
        separator = "; ";
        shown++;
    }
    if (shown < exact_count) {
        put(out, "%sand %zu more", separator, exact_count - shown);
    }
}

size_t strata_report_format(const strata_report *report, char *buffer, size_t capacity)
{
    text_out out = {.buffer = buffer, .capacity = capacity, .length = 0};
    if (capacity > 0) {
        buffer[0] = '\0';
    }
    if (report == NULL) {
        return 0;
    }
    if (report->refused > 0) {
        put(&out, "refused, %zu resource(s) not ready", report->refused);
        put_details(&out, report, STRATA_PHASE_READY, report->refused + report->ready_failed);
    } else if (report->failed > 0) {
        put(&out, "%zu resource(s) failed to release", report->failed);
        put_details(&out, report, STRATA_PHASE_RELEASE, report->failed);
    } else {
        put(&out, "%zu resource(s) released", report->attempted);
    }
    if (report->refused == 0 && report->ready_failed > 0) {
        put(&out, "; %zu could not say whether they were ready", report->ready_failed);
        put_details(&out, report, STRATA_PHASE_READY, report->ready_failed);
    }
    if (report->verdict > STRATA_VERDICT_VERIFIED) {
        put(&out, "; %s", strata_verdict_name(report->verdict));
        if (report->verdict == STRATA_VERDICT_SHORT) {
            put(&out, " by %zu bytes", report->short_bytes);
        }
        if (report->verdict_reason[0] != '\0') {
            put(&out, ": %s", report->verdict_reason);
        }
    }
    return out.length;
}

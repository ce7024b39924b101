/* output.c - documents through jansson, tables through printf. See output.h. */
#include "output.h"

#include "message.h"
#include "tool.h"

#include <strata/api.h>
#include <strata/units.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Nine digits are more than any clock here gives, and read better than 0.10000000000000001. */
#define DOCUMENT_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(9))

/* --- figures -----------------------------------------------------------------------------------*/

json_t *output_bytes(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *output_count(machine_count count)
{
    return count.known ? output_bytes(count.value) : json_null();
}

json_t *output_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *output_text(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL) {
        return string;
    }
    char *plain = strdup(text);
    if (plain == NULL) {
        return NULL;
    }
    for (char *at = plain; *at != '\0'; at++) {
        if ((unsigned char)*at >= 0x80) {
            *at = '?';
        }
    }
    string = json_string(plain);
    free(plain);
    return string;
}

void output_append(json_t **array, json_t *value)
{
    if (*array == NULL) {
        json_decref(value);
        return;
    }
    if (value == NULL || json_array_append_new(*array, value) != 0) {
        json_decref(*array);
        *array = NULL;
    }
}

/* --- a release ---------------------------------------------------------------------------------*/

static json_t *failure_document(const strata_detail *detail)
{
    return json_pack("{s:o, s:s, s:I, s:o, s:s, s:s, s:o}", "label", output_text(detail->label),
                     "status", strata_status_name(detail->error.status), "native",
                     (json_int_t)detail->error.native, "text", output_text(detail->error.text),
                     "phase", detail->phase == STRATA_PHASE_READY ? "ready" : "release", "origin",
                     strata_origin_name(detail->error.origin), "held_bytes",
                     output_bytes(detail->held_bytes));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static json_t *failures_document(const strata_report *report)
{
    json_t *failures = json_array();
    size_t kept = least(report->detail_count, STRATA_REPORT_DETAILS_MAX);
    for (size_t i = 0; i < kept; i++) {
        output_append(&failures, failure_document(&report->details[i]));
    }
    return failures;
}

static json_t *order_document(const strata_report *report)
{
    json_t *order = json_array();
    size_t kept = least(report->order_count, STRATA_REPORT_ORDER_MAX);
    for (size_t i = 0; i < kept; i++) {
        output_append(&order, output_text(report->order[i]));
    }
    return order;
}

json_t *output_release(const char *label, const strata_report *report, machine_count tlb)
{
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}",
        "label", output_text(label), "status", strata_status_name(report->status), "attempted",
        output_bytes(report->attempted), "failed", output_bytes(report->failed), "refused",
        output_bytes(report->refused), "order", order_document(report), "failures",
        failures_document(report), "bytes_held_before", output_bytes(report->bytes_held_before),
        "bytes_held_after", output_bytes(report->bytes_held_after), "stranded_bytes",
        output_bytes(report->stranded_bytes), "unmaps", output_bytes(report->unmaps), "mappings",
        output_bytes(report->mappings), "tlb_shootdowns", output_count(tlb), "seconds",
        output_real((double)report->elapsed_ns / 1e9), "verdict",
        strata_verdict_name(report->verdict), "verdict_reason", output_text(report->verdict_reason),
        "short_bytes", output_bytes(report->short_bytes));
}

bool output_release_is_good(const strata_report *report)
{
    return report->status == STRATA_OK && report->failed == 0 && report->refused == 0 &&
           report->verdict != STRATA_VERDICT_SHORT && report->stranded_bytes == 0 &&
           report->bytes_held_after == 0;
}

static json_t *region_document(const strata_area_info *area)
{
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "label",
                     output_text(area->label), "memory", area->region.backend, "reserve_bytes",
                     output_bytes(area->region.reserve_bytes), "committed_bytes",
                     output_bytes(area->region.committed_bytes), "used_bytes",
                     output_bytes(area->used_bytes), "extents", output_bytes(area->region.extents),
                     "pages", strata_pages_name(area->region.pages), "kind", area->kind,
                     "bookkeeping_bytes", output_bytes(area->bookkeeping_bytes));
}

json_t *output_regions(const strata_area_info *areas, size_t count)
{
    json_t *regions = json_array();
    for (size_t i = 0; i < count; i++) {
        output_append(&regions, region_document(&areas[i]));
    }
    return regions;
}

/* --- the machine -------------------------------------------------------------------------------*/

static json_t *known_text(bool known, const char *text)
{
    return known ? output_text(text) : json_null();
}

json_t *output_machine(void)
{
    char cpu[MACHINE_TEXT_MAX];
    char huge_pages[MACHINE_TEXT_MAX];
    struct utsname system;
    if (uname(&system) != 0) {
        (void)snprintf(system.release, sizeof system.release, "unknown");
        (void)snprintf(system.machine, sizeof system.machine, "unknown");
    }
    bool cpu_known = machine_processor(cpu);
    bool huge_pages_known = machine_huge_pages(huge_pages);
    return json_pack("{s:o, s:s, s:o, s:s, s:o, s:o, s:o, s:b, s:s}", "cpu",
                     known_text(cpu_known, cpu), "architecture", system.machine, "cores",
                     output_bytes(machine_cores(NULL, 0)), "kernel", system.release, "page_bytes",
                     output_bytes((uint64_t)sysconf(_SC_PAGESIZE)), "memory_bytes",
                     output_count(machine_memory_bytes()), "thp",
                     known_text(huge_pages_known, huge_pages), "tlb_shootdowns_known",
                     (int)machine_tlb_shootdowns().known, "library", STRATA_VERSION_STRING);
}

/* --- printing ----------------------------------------------------------------------------------*/

int output_finish(const char *name, int status)
{
    errno = 0;
    bool flushed = fflush(stdout) == 0;
    if (flushed && ferror(stdout) == 0) {
        return status;
    }
    return message_fail(name, "stdout: %s; the output is incomplete",
                        errno == 0 ? "a write failed" : strerror(errno));
}

int output_document(const char *name, json_t *document, int status)
{
    if (document == NULL) {
        return message_fail(name, "out of memory for the JSON document");
    }
    (void)json_dumpf(document, stdout, DOCUMENT_FLAGS);
    (void)putchar('\n');
    json_decref(document);
    return output_finish(name, status);
}

/* Text of this length is cut nowhere in practice; a report has at most 16 details. */
#define REPORT_TEXT_MAX 8192

/* Names what was released, in the order of the attempts: directly behind the count, or behind
 * whatever else the report had to say. */
static void print_order(FILE *to, const strata_report *report)
{
    bool plain = report->failed == 0 && report->refused == 0 && report->ready_failed == 0 &&
                 report->verdict <= STRATA_VERDICT_VERIFIED;
    const char *separator = plain ? ": " : "; in this order: ";
    for (size_t i = 0; i < report->order_count; i++) {
        (void)fprintf(to, "%s%s", separator, report->order[i]);
        separator = ", ";
    }
    if (report->order_count < report->attempted) {
        (void)fprintf(to, " and %zu more", report->attempted - report->order_count);
    }
    (void)fputc('\n', to);
}

void output_release_text(FILE *to, const char *label, const strata_report *report,
                         machine_count tlb)
{
    char text[REPORT_TEXT_MAX];
    char held[STRATA_UNITS_TEXT_MAX];
    char left[STRATA_UNITS_TEXT_MAX];
    char took[STRATA_UNITS_TEXT_MAX];
    if (report->status == STRATA_OK && report->attempted == 0 && report->asked == 0 &&
        report->bytes_held_before == 0) {
        (void)fprintf(to, "%s: nothing had to be released\n", label);
        return;
    }
    (void)strata_report_format(report, text, sizeof text);
    (void)fprintf(to, "%s: %s", label, text);
    print_order(to, report);
    (void)fprintf(to, "%s: %s held before, %s after; %llu of %llu mappings torn down in %s; ",
                  label, strata_size_show(report->bytes_held_before, held),
                  strata_size_show(report->bytes_held_after, left),
                  (unsigned long long)report->unmaps, (unsigned long long)report->mappings,
                  strata_time_show(report->elapsed_ns, took));
    if (tlb.known) {
        (void)fprintf(to, "%llu TLB shootdowns on the whole machine; ",
                      (unsigned long long)tlb.value);
    }
    (void)fprintf(to, "%s%s%s\n", strata_verdict_name(report->verdict),
                  report->verdict_reason[0] == '\0' ? "" : ": ", report->verdict_reason);
}

/* A heap's start bitmap: a mapping of its own, named as its region is. */
static void bookkeeping_row(output_table *table, const strata_area_info *area)
{
    char label[STRATA_LABEL_MAX + sizeof ".starts"];
    char committed[STRATA_UNITS_TEXT_MAX];
    if (area->bookkeeping_bytes == 0) {
        return;
    }
    (void)snprintf(label, sizeof label, "%s.starts", area->label);
    output_table_row(table, (const char *[]){label, "bookkeeping", area->region.backend, NULL, NULL,
                                             strata_size_show(area->bookkeeping_bytes, committed),
                                             NULL, NULL});
}

void output_regions_text(FILE *to, const strata_area_info *areas, size_t count)
{
    output_table table;
    output_table_init(&table, 8);
    output_table_row(&table, (const char *[]){"area", "kind", "memory", "pages", "reserved",
                                              "committed", "used", "extents"});
    for (size_t i = 0; i < count; i++) {
        const strata_area_info *area = &areas[i];
        char reserved[STRATA_UNITS_TEXT_MAX];
        char committed[STRATA_UNITS_TEXT_MAX];
        char used[STRATA_UNITS_TEXT_MAX];
        char extents[STRATA_UNITS_TEXT_MAX];
        (void)snprintf(extents, sizeof extents, "%zu", area->region.extents);
        output_table_row(&table,
                         (const char *[]){area->label, area->kind, area->region.backend,
                                          strata_pages_name(area->region.pages),
                                          strata_size_show(area->region.reserve_bytes, reserved),
                                          strata_size_show(area->region.committed_bytes, committed),
                                          strata_size_show(area->used_bytes, used), extents});
        bookkeeping_row(&table, area);
    }
    output_table_print(&table, to, 4);
}

/* --- tables ------------------------------------------------------------------------------------*/

void output_table_init(output_table *table, size_t columns)
{
    *table = (output_table){.columns = least(columns, OUTPUT_TABLE_COLUMNS_MAX)};
}

void output_table_row(output_table *table, const char *const *cells)
{
    size_t had = table->rows * table->columns;
    char(*grown)[OUTPUT_CELL_MAX] =
        realloc(table->cells, (had + table->columns) * sizeof *table->cells);
    if (grown == NULL) {
        table->failed = true;
        return;
    }
    table->cells = grown;
    for (size_t i = 0; i < table->columns; i++) {
        (void)snprintf(grown[had + i], OUTPUT_CELL_MAX, "%s", cells[i] == NULL ? "-" : cells[i]);
    }
    table->rows++;
}

static void print_row(const output_table *table, FILE *to, size_t row, const int *widths,
                      size_t left)
{
    for (size_t i = 0; i < table->columns; i++) {
        const char *cell = table->cells[row * table->columns + i];
        const char *gap = i == 0 ? "" : "  ";
        if (i < left && i + 1 == table->columns) {
            (void)fprintf(to, "%s%s", gap, cell);
        } else {
            (void)fprintf(to, "%s%*s", gap, i < left ? -widths[i] : widths[i], cell);
        }
    }
    (void)fputc('\n', to);
}

void output_table_print(output_table *table, FILE *to, size_t left)
{
    int widths[OUTPUT_TABLE_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        int width = (int)strlen(table->cells[i]);
        int *widest = &widths[i % table->columns];
        *widest = width > *widest ? width : *widest;
    }
    for (size_t row = 0; row < table->rows; row++) {
        print_row(table, to, row, widths, left);
    }
    if (table->failed) {
        (void)fprintf(to, "(rows are missing: out of memory)\n");
    }
    free(table->cells);
    *table = (output_table){0};
}

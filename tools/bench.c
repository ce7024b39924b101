/* bench.c - `strata bench`: the command, and what the benches share. See bench.h. */
#include "bench.h"

#include "cli.h"
#include "message.h"
#include "output.h"
#include "progress.h"
#include "statistics.h"
#include "tool.h"

#include <strata/units.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* --- rows --------------------------------------------------------------------------------------*/

bench *bench_create(const char *name, const bench_options *options, size_t runs)
{
    bench *now = calloc(1, sizeof *now);
    if (now == NULL) {
        (void)message_fail(BENCH_NAME, "%s: out of memory", name);
        return NULL;
    }
    now->name = name;
    now->runs = options->runs == 0 ? runs : (size_t)options->runs;
    return now;
}

void bench_destroy(bench *now)
{
    free(now);
}

int bench_add(bench *now, const char *workload, const char *allocator, double operations, int limit,
              int strata)
{
    now->rows[now->row_count] = (bench_row){
        .workload = workload,
        .allocator = allocator,
        .operations = operations,
        .limit = limit,
        .strata = strata,
    };
    return (int)now->row_count++;
}

void bench_note_shootdowns(bench_row *row, machine_count count)
{
    if (count.known && row->shootdown_count < BENCH_RUNS_MAX) {
        row->shootdowns[row->shootdown_count++] = (double)count.value;
    }
}

static int measure_round(bench *now, bench_run_fn *run, void *user, size_t round, progress *bar)
{
    for (size_t i = 0; i < now->row_count; i++) {
        double seconds = NAN;
        int status = run(user, i, &now->rows[i], &seconds);
        if (status != TOOL_DONE) {
            return status;
        }
        now->rows[i].seconds[round] = seconds;
        progress_add(bar, 1);
    }
    return TOOL_DONE;
}

/* What the warm-up round left in the rows is not to be reported. */
static void forget_warm_up(bench *now)
{
    for (size_t i = 0; i < now->row_count; i++) {
        now->rows[i].shootdown_count = 0;
    }
}

int bench_measure(bench *now, bench_run_fn *run, void *user)
{
    progress bar;
    progress_begin(&bar, now->name, "runs", (now->runs + 1) * now->row_count);
    int status = measure_round(now, run, user, 0, &bar);
    forget_warm_up(now);
    for (size_t round = 0; status == TOOL_DONE && round < now->runs; round++) {
        status = measure_round(now, run, user, round, &bar);
    }
    progress_end(&bar);
    return status;
}

/* --- plain memory ------------------------------------------------------------------------------*/

int bench_map(bench_mapping *out, const char *name, size_t bytes, bool huge)
{
    size_t whole = bytes + HUGE_PAGE_BYTES;
    unsigned char *mapping = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *out = (bench_mapping){0};
    if (mapping == MAP_FAILED) {
        return message_refuse(BENCH_NAME, "%s: mmap of %zu bytes: %s; use a smaller --bytes", name,
                              whole, strerror(errno));
    }
    (void)madvise(mapping, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)mapping % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    *out = (bench_mapping){.base = mapping + skip, .mapping_ = mapping, .mapping_bytes_ = whole};
    return TOOL_DONE;
}

bool bench_unmap(bench_mapping *mapping)
{
    if (mapping->base == NULL) {
        return true;
    }
    mapping->base = NULL;
    return munmap(mapping->mapping_, mapping->mapping_bytes_) == 0;
}

/* --- figures -----------------------------------------------------------------------------------*/

/* Seconds of one operation; of the run, where it has none to count. */
static double cost(const bench_row *row, size_t run)
{
    return row->operations > 0.0 ? row->seconds[run] / row->operations : row->seconds[run];
}

/* The median of the ratios of runs that were neighbours in time. NaN for no such row. */
static double ratio(const bench *now, const bench_row *row, int other)
{
    double ratios[BENCH_RUNS_MAX];
    if (other < 0) {
        return NAN;
    }
    for (size_t i = 0; i < now->runs; i++) {
        ratios[i] = cost(row, i) / cost(&now->rows[other], i);
    }
    return statistics_median(ratios, now->runs);
}

static double nanoseconds(const bench *now, const bench_row *row)
{
    if (row->operations <= 0.0) {
        return NAN;
    }
    return statistics_median(row->seconds, now->runs) / row->operations * 1e9;
}

static double shootdowns(const bench_row *row)
{
    return statistics_median(row->shootdowns, row->shootdown_count);
}

static json_t *row_document(const bench *now, const bench_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "bench",
                     now->name, "workload", row->workload, "allocator", row->allocator, "ns_per_op",
                     output_real(nanoseconds(now, row)), "seconds",
                     output_real(statistics_median(row->seconds, now->runs)), "tlb_shootdowns",
                     output_real(shootdowns(row)), "unmaps", output_count(row->unmaps),
                     "bytes_returned", output_count(row->bytes_returned), "peak_bytes",
                     output_count(row->peak_bytes), "ratio_to_limit",
                     output_real(ratio(now, row, row->limit)), "ratio_to_strata",
                     output_real(ratio(now, row, row->strata)), "runs", output_bytes(now->runs),
                     "spread", output_real(statistics_spread(row->seconds, now->runs)));
}

/* A number for a table; "-" where there is none. */
static const char *show(char buffer[32], const char *format, double value)
{
    if (!isfinite(value)) {
        return "-";
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(buffer, 32, format, value);
#pragma GCC diagnostic pop
    return buffer;
}

static double counted(machine_count count)
{
    return count.known ? (double)count.value : NAN;
}

static void print_row(const bench *now, const bench_row *row, output_table *table)
{
    char cells[7][32];
    double seconds = statistics_median(row->seconds, now->runs);
    output_table_row(
        table,
        (const char *[]){
            row->workload, row->allocator, show(cells[0], "%.2f", nanoseconds(now, row)),
            show(cells[1], "%.3f", seconds * 1e3),
            show(cells[2], "%.3f", ratio(now, row, row->limit)),
            show(cells[3], "%.3f", ratio(now, row, row->strata)),
            show(cells[4], "%.0f", shootdowns(row)), show(cells[5], "%.0f", counted(row->unmaps)),
            show(cells[6], "%.1f %%", statistics_spread(row->seconds, now->runs) * 100)});
}

/* From here a row's median moves from one call of the command to the next. */
#define SPREAD_MOST 0.20

/* What the columns mean, and which rows not to believe. */
static void print_notes(const bench *now)
{
    (void)printf("to limit, to strata: median ratio to that row's neighbouring runs; spread: "
                 "interquartile range / median\n");
    const char *separator = "warning: a spread above 20 %, measure again on a quiet machine: ";
    bool any = false;
    for (size_t i = 0; i < now->row_count; i++) {
        const bench_row *row = &now->rows[i];
        if (statistics_spread(row->seconds, now->runs) > SPREAD_MOST) {
            (void)printf("%s%s (%s)", separator, row->allocator, row->workload);
            separator = "; ";
            any = true;
        }
    }
    (void)fputs(any ? "\n" : "", stdout);
}

void bench_report(const bench *now, json_t **documents)
{
    if (documents != NULL) {
        for (size_t i = 0; i < now->row_count; i++) {
            output_append(documents, row_document(now, &now->rows[i]));
        }
        return;
    }
    output_table table;
    output_table_init(&table, 9);
    output_table_row(&table, (const char *[]){"workload", "allocator", "ns/op", "ms", "to limit",
                                              "to strata", "shootdowns", "unmaps", "spread"});
    for (size_t i = 0; i < now->row_count; i++) {
        print_row(now, &now->rows[i], &table);
    }
    (void)printf("bench %s, medians of %zu runs\n", now->name, now->runs);
    output_table_print(&table, stdout, 2);
    print_notes(now);
}

/* --- the command -------------------------------------------------------------------------------*/

typedef struct bench_entry {
    const char *name;
    int (*run)(const bench_options *options, json_t **documents);
} bench_entry;

static const bench_entry entries[] = {
    {"alloc", bench_alloc},
    {"load", bench_load},
    {"release", bench_release},
};
#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

static const bench_entry *find(const char *name)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

/* The rows of all benches that were named; all names are known. */
static int run_all(const cli_line *line, const bench_options *options, bool json)
{
    json_t *rows = json ? json_array() : NULL;
    int status = TOOL_DONE;
    for (size_t i = 0; i < line->argument_count && status == TOOL_DONE; i++) {
        status = find(line->arguments[i])->run(options, json ? &rows : NULL);
    }
    if (!json || status != TOOL_DONE) {
        json_decref(rows);
        return output_finish(BENCH_NAME, status);
    }
    json_t *document = json_pack("{s:o, s:o}", "machine", output_machine(), "rows", rows);
    return output_document(BENCH_NAME, document, status);
}

static int check_and_run(const cli_line *line, const bench_options *options, bool json)
{
    for (size_t i = 0; i < line->argument_count; i++) {
        if (find(line->arguments[i]) == NULL) {
            return message_refuse(BENCH_NAME,
                                  "%.96s: unknown bench; there are: alloc, load, release",
                                  line->arguments[i]);
        }
    }
    return run_all(line, options, json);
}

int strata_tool_bench(int argc, const char **argv)
{
    const char *folder = getenv("TMPDIR");
    bench_options asked = {.folder = folder == NULL || *folder == '\0' ? "/tmp" : folder};
    bool json = false;
    const cli_option options[] = {
        CLI_COUNT("runs", &asked.runs, 1, BENCH_RUNS_MAX, "runs of each row (each bench its own)"),
        CLI_SIZE("bytes", &asked.bytes, UINT64_C(1) << 20, UINT64_C(1) << 40,
                 "how much load and release work on (1GiB, 256MiB)"),
        CLI_TEXT("folder", "DIR", &asked.folder, "where load makes its file ($TMPDIR, or /tmp)"),
        CLI_FLAG("json", &json, "one JSON document on stdout"),
    };
    cli_command command = {
        .name = BENCH_NAME,
        .arguments = "NAME...",
        .about =
            "Benches:\n"
            "  alloc    what an allocation costs beside a bare pointer bump\n"
            "  load     reading a file of weights into memory, with and without faulting it in\n"
            "  release  what giving memory back costs, with its translation shootdowns\n\n"
            "Rows are measured in turn after a warm-up round. `limit` is the least that the\n"
            "machine can do; a ratio is the median over runs that were neighbours in time.\n"
            "`limit-again` is the limit measured once more: how far its ratio is from 1 is what\n"
            "any ratio of that call is worth.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .arguments_least = 1,
        .arguments_most = 16,
    };
    cli_line line;
    int status;
    if (cli_parse(&line, &command, argc, argv, &status)) {
        status = check_and_run(&line, &asked, json);
    }
    cli_finish(&line);
    return status;
}

/* bench.h - what the benches share: options, rows, and the order of measuring.
 *
 * A bench measures its rows in turn, A B A B, after a warm-up round, so that whatever the machine
 * does meanwhile meets all of them; figures are medians, and a ratio is the median of the ratios of
 * neighbours in time. Every bench has a row `limit`: the least that the machine can do for that
 * workload, written as plainly as possible. One thread. */
#ifndef STRATA_TOOL_BENCH_H
#define STRATA_TOOL_BENCH_H

#include "machine.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_NAME     "strata bench" /* opens every line on stderr */
#define BENCH_RUNS_MAX 1001
#define BENCH_ROWS_MAX 16

typedef struct bench_options {
    uint64_t runs;      /* 0: as each bench finds right */
    uint64_t bytes;     /* size of what is loaded or released; 0: as each bench finds right */
    const char *folder; /* for files */
} bench_options;

/* A row while it is measured. */
typedef struct bench_row {
    const char *workload;
    const char *allocator;
    double operations;
    int limit;
    int strata;
    double seconds[BENCH_RUNS_MAX];
    double shootdowns[BENCH_RUNS_MAX];
    size_t shootdown_count; /* runs in which they could be had */
    machine_count bytes_returned;
    machine_count peak_bytes;
    machine_count unmaps;
} bench_row;

typedef struct bench {
    const char *name; /* "alloc" */
    size_t runs;
    size_t row_count;
    bench_row rows[BENCH_ROWS_MAX];
} bench;

/* One run of one row: measures, stores figures of its own in *into, and what it took in *seconds.
 * Returns TOOL_DONE, or another exit status after a line on stderr. */
typedef int bench_run_fn(void *user, size_t row, bench_row *into, double *seconds);

/* Takes the number of runs from the options, or `runs`. NULL: no memory, said so on stderr. */
bench *bench_create(const char *name, const bench_options *options, size_t runs);
void bench_destroy(bench *now);

/* Rows are added in the order in which they are measured. `operations` is how many one run does; 0
 * where only seconds mean something. `limit` and `strata` are the indices of the rows that ratios
 * are taken to; -1: no ratio. Returns the index. */
int bench_add(bench *now, const char *workload, const char *allocator, double operations, int limit,
              int strata);

/* Notes what a run saw of translation shootdowns; an unknown count is left out. */
void bench_note_shootdowns(bench_row *row, machine_count count);

/* A warm-up round, which counts for nothing, then the runs. The first status that is not TOOL_DONE
 * ends it. */
int bench_measure(bench *now, bench_run_fn *run, void *user);

/* Appends the rows' documents to *documents; where that is NULL, prints the table for people. */
void bench_report(const bench *now, json_t **documents);

/* Plain memory, for the rows beside Strata's: `bytes` at `base`, which a huge page may begin at. */
typedef struct bench_mapping {
    unsigned char *base; /* NULL: none */
    void *mapping_;
    size_t mapping_bytes_;
} bench_mapping;

/* Maps memory that nobody has touched, with or without huge pages. Not TOOL_DONE after a line on
 * stderr, and then there is no mapping. */
int bench_map(bench_mapping *out, const char *name, size_t bytes, bool huge);
/* By one munmap. False where the system refuses; none: true. */
bool bench_unmap(bench_mapping *mapping);

/* The benches. Return an exit status; rows go to *documents, or to stdout where that is NULL. */
int bench_alloc(const bench_options *options, json_t **documents);
int bench_load(const bench_options *options, json_t **documents);
int bench_release(const bench_options *options, json_t **documents);

#endif

/* statistics.h - what a row of repeated measurements amounts to.
 *
 * Medians and order statistics only: run times have no shape worth a model, and one interrupt is
 * enough to spoil a mean. Pure functions; the values are not reordered. At most
 * STATISTICS_VALUES_MAX values are taken, more are a programmer's error. */
#ifndef STRATA_TOOL_STATISTICS_H
#define STRATA_TOOL_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

#define STATISTICS_VALUES_MAX 4096

typedef struct statistics_interval {
    double median;
    double low95; /* the median of what was measured lies between these with 95 %, */
    double high95;
    size_t values;
    bool covered; /* false for fewer than 6 values: no pair of them covers 95 % */
} statistics_interval;

/* NaN for no values. */
double statistics_median(const double *values, size_t count);

/* The distance between the quartiles as a share of the median; 0 for fewer than 2 values. */
double statistics_spread(const double *values, size_t count);

/* The order-statistics interval of the median: the innermost pair of sorted values between which
 * the true median lies with at least 95 %, by the binomial distribution. Where too few values were
 * taken, the smallest and the largest, and `covered` is false. */
statistics_interval statistics_median_interval(const double *values, size_t count);

#endif

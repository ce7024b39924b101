/* statistics.c - medians, quartiles and the order-statistics interval. See statistics.h. */
#include "statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int order(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Copies at most STATISTICS_VALUES_MAX values into `sorted`; returns how many. */
static size_t sort_into(double *sorted, const double *values, size_t count)
{
    assert(count <= STATISTICS_VALUES_MAX);
    if (count > STATISTICS_VALUES_MAX) {
        count = STATISTICS_VALUES_MAX;
    }
    if (count != 0) {
        memcpy(sorted, values, count * sizeof *values);
        qsort(sorted, count, sizeof *sorted, order);
    }
    return count;
}

/* Linear between the two neighbours, so that the half of an even number is the usual median. */
static double quantile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count) {
        return sorted[count - 1];
    }
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double statistics_median(const double *values, size_t count)
{
    double sorted[STATISTICS_VALUES_MAX];
    count = sort_into(sorted, values, count);
    return count == 0 ? NAN : quantile(sorted, count, 0.5);
}

double statistics_spread(const double *values, size_t count)
{
    double sorted[STATISTICS_VALUES_MAX];
    count = sort_into(sorted, values, count);
    if (count < 2) {
        return 0.0;
    }
    double middle = quantile(sorted, count, 0.5);
    double between = quantile(sorted, count, 0.75) - quantile(sorted, count, 0.25);
    return middle == 0.0 ? 0.0 : between / fabs(middle);
}

/* How many values may be dropped from each end: the largest d with 2 P(X <= d - 1) <= 5 % for X
 * binomial(count, 1/2). The probabilities are summed as logarithms, because 2^-count leaves the
 * range of a double for large counts. */
static size_t droppable(size_t count)
{
    double n = (double)count;
    double tail = 0.0;
    size_t drop = 0;
    for (size_t k = 0; k < count / 2; k++) {
        tail += exp(lgamma(n + 1.0) - lgamma((double)k + 1.0) - lgamma(n - (double)k + 1.0) -
                    n * log(2.0));
        if (2.0 * tail > 0.05) {
            break;
        }
        drop = k + 1;
    }
    return drop;
}

statistics_interval statistics_median_interval(const double *values, size_t count)
{
    double sorted[STATISTICS_VALUES_MAX];
    count = sort_into(sorted, values, count);
    if (count == 0) {
        return (statistics_interval){.median = NAN, .low95 = NAN, .high95 = NAN};
    }
    size_t drop = droppable(count);
    /* Dropping d values from each end leaves the d-th and the (count - d + 1)-th, counted from 1.
     */
    size_t low = drop == 0 ? 0 : drop - 1;
    return (statistics_interval){
        .median = quantile(sorted, count, 0.5),
        .low95 = sorted[low],
        .high95 = sorted[count - 1 - low],
        .values = count,
        .covered = drop != 0,
    };
}

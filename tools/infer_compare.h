/* infer_compare.h - the runtime in Strata's memory beside the runtime with its own allocator.
 *
 * In one process, one run, the same session options: pairs of measurements in alternation, so that
 * what disturbs the machine disturbs both. The figures are ratios of pairs, their median and its
 * interval. A third session with the runtime's default options is shown beside it.
 *
 * One thread; nothing else should run in the process meanwhile. */
#ifndef STRATA_TOOL_INFER_COMPARE_H
#define STRATA_TOOL_INFER_COMPARE_H

#include "infer_model.h"
#include "progress.h"

#define INFER_PAIRS_LEAST 15

/* Fills model->comparison and model->own. pre: the model is loaded and has its inputs. `threads` is
 * that of the model's own session options. `bar` counts pairs. */
strata_status infer_compare(infer_model *model, unsigned threads, uint64_t pairs, progress *bar,
                            strata_error *err);

#endif

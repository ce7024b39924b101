/* scope.c - a mark in a strand: close to undo, keep to commit.
 *
 * A scope owns no memory and no list. Opening one saves the cursors of the strand's arenas in the
 * arenas themselves (a slot for each depth) and remembers the teardown's serial number; closing
 * releases what is younger than that and goes back to the cursors. */
#include <strata/strand.h>

#include "internal.h"

#include "teardown/src/internal.h"

enum { SCOPE_OPEN = 0x53C0, SCOPE_ENDED = 0x53CE };

strata_status strata_scope_open(strata_scope *scope, strata_strand *strand)
{
    if (strand->closed) {
        return STRATA_CLOSED;
    }
    if (strand->depth == STRATA_SCOPE_DEPTH_MAX) {
        return STRATA_LIMIT;
    }
    for (strata_area *area = strand->areas; area != NULL; area = area->older_) {
        if (area->ops->save != NULL) {
            area->ops->save(area, strand->depth);
        }
    }
    strand->depth++;
    *scope = (strata_scope){.strand_ = strand,
                            .mark_ = strata_teardown_mark(&strand->teardown),
                            .depth_ = strand->depth,
                            .state_ = SCOPE_OPEN,
                            .generation_ = strand->generation};
    return STRATA_OK;
}

/* Whether this scope is the innermost open one. */
static strata_status may_end(const strata_scope *scope)
{
    if (scope->state_ != SCOPE_OPEN) {
        return STRATA_INVALID;
    }
    if (scope->strand_->closed || scope->generation_ != scope->strand_->generation) {
        return STRATA_CLOSED;
    }
    return scope->depth_ == scope->strand_->depth ? STRATA_OK : STRATA_ORDER;
}

static void end(strata_scope *scope)
{
    scope->state_ = SCOPE_ENDED;
    scope->strand_->depth--;
}

strata_status strata_scope_keep(strata_scope *scope)
{
    strata_status status = may_end(scope);
    if (status != STRATA_OK) {
        return status;
    }
    for (strata_area *area = scope->strand_->areas; area != NULL; area = area->older_) {
        if (area->born_depth_ == scope->depth_) {
            area->born_depth_--; /* from now on it was there before its outer scope closes */
        }
    }
    end(scope);
    return STRATA_OK;
}

/* Goes back to the saved cursors of all areas that are older than the scope. */
static strata_status rewind_older(const strata_scope *scope)
{
    strata_status first = STRATA_OK;
    for (strata_area *area = scope->strand_->areas; area != NULL; area = area->older_) {
        if (area->born_depth_ >= scope->depth_ || area->ops->rewind == NULL ||
            !strata_resource_is_pushed(&area->resource_)) {
            continue;
        }
        strata_status status = area->ops->rewind(area, scope->depth_ - 1);
        first = first == STRATA_OK ? status : first;
    }
    return first;
}

strata_status strata_scope_close(strata_scope *scope, strata_report *out)
{
    strata_status status = may_end(scope);
    if (status != STRATA_OK) {
        return status;
    }
    strata_strand *strand = scope->strand_;
    strata__account account;
    strata__account_begin(&account, strand->model);
    status = strata_teardown_ready_to(&strand->teardown, scope->mark_, NULL, out);
    if (status == STRATA_OK) {
        status = strata__teardown_sweep_to(&strand->teardown, scope->mark_, NULL, out);
        strata_status rewound = rewind_older(scope);
        status = status == STRATA_OK ? rewound : status;
        end(scope);
    }
    strata__left left = {.count = 0};
    strata__left_add(&left, &strand->teardown, scope->mark_);
    strata__account_end(&account, strand->model, &left, out);
    return status;
}

strata_status strata_scope_undo(strata_scope *scope, strata_report *out, strata_error *err)
{
    strata_report own;
    strata_report *report = out;
    if (report == NULL) {
        strata_report_init(&own, NULL, NULL);
        report = &own;
    }
    strata_status status = strata_scope_close(scope, report);
    if (status != STRATA_OK && report->attempted == 0 && report->refused == 0) {
        strata_error_append(err, "; could not be undone: %s", strata_status_text(status));
    } else if (report->refused > 0 || report->failed > 0) {
        char text[STRATA_TEXT_MAX];
        (void)strata_report_format(report, text, sizeof text);
        strata_error_append(err, "; undone: %s", text);
    } else {
        strata_error_append(err, "; undone: %zu resource(s)", report->attempted);
        for (size_t i = 0; i < report->order_count; i++) {
            strata_error_append(err, "%s %s", i > 0 ? "," : ":", report->order[i]);
        }
    }
    return err != NULL ? err->status : STRATA_OK;
}

/* scope.c - a mark in a strand: close to undo, keep to commit.
 *
 * A scope owns no memory and no list. Opening one saves the cursors of the strand's arenas in the
 * arenas themselves (a slot for each depth) and remembers the teardown's serial number; closing
 * releases what is younger than that and goes back to the cursors.
 *
 * A scope in which nothing was registered is the common case and the cheap one: no lock, no gate,
 * no system call. */
#include <strata/strand.h>

#include "internal.h"

#include "teardown/src/internal.h"

enum { SCOPE_OPEN = 0x53C0, SCOPE_ENDED = 0x53CE };

strata_status strata_scope_open(strata_scope *scope, strata_strand *strand)
{
    uint32_t depth = strata__strand_depth(strand);
    if (strata__strand_is_closed(strand)) {
        return STRATA_CLOSED;
    }
    if (strata__strand_is_inside_a_release(strand)) {
        return STRATA_ORDER;
    }
    if (depth == STRATA_SCOPE_DEPTH_MAX) {
        return STRATA_LIMIT;
    }
    for (strata_area *area = strand->areas; area != NULL; area = area->older_) {
        if (area->ops->save != NULL) {
            area->ops->save(area, depth);
        }
    }
    strata__strand_set_depth(strand, depth + 1);
    *scope = (strata_scope){.strand_ = strand,
                            .mark_ = strata_teardown_mark(&strand->teardown),
                            .depth_ = depth + 1,
                            .state_ = SCOPE_OPEN};
    return STRATA_OK;
}

/* Whether this scope is the innermost open one, and nobody is in the middle of releasing. */
static strata_status may_end(const strata_scope *scope)
{
    if (scope->state_ != SCOPE_OPEN) {
        return STRATA_INVALID;
    }
    if (strata__strand_is_closed(scope->strand_)) {
        return STRATA_CLOSED;
    }
    bool in_order = scope->depth_ == strata__strand_depth(scope->strand_) &&
                    !strata__strand_is_inside_a_release(scope->strand_);
    return in_order ? STRATA_OK : STRATA_ORDER;
}

/* What is left of the scope belongs to the one around it: kept areas, and those that a callback
 * made or that are stranded. */
static void end(strata_scope *scope)
{
    uint32_t depth = scope->depth_ - 1;
    for (strata_area *area = scope->strand_->areas; area != NULL; area = area->older_) {
        if (area->born_depth_ > depth) {
            area->born_depth_ = depth;
        }
    }
    scope->state_ = SCOPE_ENDED;
    if (!strata__strand_is_closed(scope->strand_)) {
        strata__strand_set_depth(scope->strand_, depth);
    }
}

strata_status strata_scope_keep(strata_scope *scope)
{
    strata_status status = may_end(scope);
    if (status == STRATA_OK) {
        end(scope);
    }
    return status;
}

/* Goes back to the saved cursors of all areas that are older than the scope. What fails is damage
 * that a guard found; the area is rewound all the same. */
static strata_status rewind_older(const strata_scope *scope, strata_report *out)
{
    strata_status first = STRATA_OK;
    for (strata_area *area = scope->strand_->areas; area != NULL; area = area->older_) {
        if (area->born_depth_ >= scope->depth_ || area->ops->rewind == NULL) {
            continue;
        }
        strata_error error = {.status = STRATA_OK};
        strata_status status = area->ops->rewind(area, scope->depth_ - 1, &error);
        if (status != STRATA_OK) {
            strata__report_attempt(out, STRATA_PHASE_RELEASE, area->label_, 0, &error);
            first = first == STRATA_OK ? status : first;
        }
    }
    return first;
}

/* Releases what was registered since. *refused: nothing was touched, the scope stays open. */
static strata_status release_since(strata_scope *scope, strata_report *out, bool *refused)
{
    strata_strand *strand = scope->strand_;
    strata_status status = strata__process_is_ours(strand->model->process, NULL);
    *refused = status != STRATA_OK;
    if (*refused) {
        return status;
    }
    strata__account account;
    strata__account_begin(&account, strand->model);
    strata__strand_lock(strand);
    status = strata__strand_is_closed(strand) /* a release was quicker */
                 ? STRATA_CLOSED
                 : strata__strand_release_to(strand, scope->mark_, out);
    *refused = status == STRATA_BUSY || status == STRATA_TIMEOUT || status == STRATA_ORDER ||
               status == STRATA_CLOSED;
    strata__left left = {.count = 0};
    strata__left_add(&left, &strand->teardown, scope->mark_);
    strata__strand_unlock(strand);
    strata__account_end(&account, strand->model, &left, out);
    return status;
}

strata_status strata_scope_close(strata_scope *scope, strata_report *out)
{
    strata_status status = may_end(scope);
    if (status != STRATA_OK) {
        return status;
    }
    bool refused = false;
    if (strata_teardown_mark(&scope->strand_->teardown).serial != scope->mark_.serial) {
        status = release_since(scope, out, &refused);
    }
    if (refused) {
        return status;
    }
    strata_status rewound = rewind_older(scope, out);
    end(scope);
    return status == STRATA_OK ? rewound : status;
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
    char text[STRATA_TEXT_MAX];
    (void)strata_report_format(report, text, sizeof text);
    if (status != STRATA_OK && report->failed == 0) {
        strata_error_append(err, "; not undone: %s",
                            report->refused > 0 ? text : strata_status_text(status));
    } else if (report->failed > 0) {
        strata_error_append(err, "; undone: %s", text);
    } else {
        strata_error_append(err, "; undone: %zu resource(s)", report->attempted);
        for (size_t i = 0; i < report->order_count; i++) {
            strata_error_append(err, "%s %s", i > 0 ? "," : ":", report->order[i]);
        }
    }
    return err != NULL ? err->status : STRATA_OK;
}

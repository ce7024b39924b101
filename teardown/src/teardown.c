/* teardown.c - the ordered release: ask all, then newest first, every one, whatever fails.
 *
 * A doubly linked list in the callers' nodes, newest at the head, serial numbers falling towards
 * the tail. It never allocates, never stops early and never touches a node after its release was
 * called, except one that stays with its owner by agreement.
 *
 * The one subtle thing is where a release continues after a callback, which may have pushed new
 * resources on top and forgotten others anywhere. A pointer to "the next one" could dangle, and a
 * search from the head would be quadratic. Instead the teardown keeps `boundary_`: the oldest node
 * that this release has already passed (pushed meanwhile, or failed and put back). The next
 * candidate is always the node below the boundary, or the head where there is none; push and forget
 * keep the boundary true. */
#include <strata/teardown.h>

#include "internal.h"

#include <assert.h>

void strata_resource_init(strata_resource *resource, const char *label, strata_resource_fn *release,
                          strata_resource_fn *ready)
{
    assert(release != NULL);
    *resource = (strata_resource){.label = label, .release = release, .ready = ready};
}

void strata_resource_set_stays(strata_resource *resource, bool stays)
{
    resource->stays_ = stays;
}

void strata_resource_set_held(strata_resource *resource, size_t held_bytes)
{
    __atomic_store_n(&resource->held_bytes, held_bytes, __ATOMIC_RELAXED);
}

static size_t held(const strata_resource *resource)
{
    return __atomic_load_n(&resource->held_bytes, __ATOMIC_RELAXED);
}

void strata_teardown_init(strata_teardown *teardown)
{
    *teardown = (strata_teardown)STRATA_TEARDOWN_INIT;
}

/* Written atomically because figures are read by other threads; the list itself has one thread. */
static void set_length(strata_teardown *teardown, size_t length)
{
    __atomic_store_n(&teardown->length_, length, __ATOMIC_RELAXED);
}

/* Links `resource` below `newer` (NULL: at the head). */
static void link_below(strata_teardown *teardown, strata_resource *newer, strata_resource *resource)
{
    strata_resource *older = newer != NULL ? newer->older_ : teardown->newest_;
    resource->teardown_ = teardown;
    resource->newer_ = newer;
    resource->older_ = older;
    if (newer != NULL) {
        newer->older_ = resource;
    } else {
        teardown->newest_ = resource;
    }
    if (older != NULL) {
        older->newer_ = resource;
    }
    set_length(teardown, teardown->length_ + 1);
}

void strata_teardown_push(strata_teardown *teardown, strata_resource *resource)
{
    assert(resource->teardown_ == NULL);
    resource->serial_ = ++teardown->serial_;
    link_below(teardown, NULL, resource);
    if (teardown->releasing_ && teardown->boundary_ == NULL) {
        teardown->boundary_ = resource;
    }
}

void strata_teardown_forget(strata_resource *resource)
{
    strata_teardown *teardown = resource->teardown_;
    if (teardown == NULL) {
        return;
    }
    if (teardown->boundary_ == resource) {
        teardown->boundary_ = resource->newer_;
    }
    if (resource->newer_ != NULL) {
        resource->newer_->older_ = resource->older_;
    } else {
        teardown->newest_ = resource->older_;
    }
    if (resource->older_ != NULL) {
        resource->older_->newer_ = resource->newer_;
    }
    resource->teardown_ = NULL;
    resource->newer_ = NULL;
    resource->older_ = NULL;
    set_length(teardown, teardown->length_ - 1);
}

bool strata_resource_is_pushed(const strata_resource *resource)
{
    return resource->teardown_ != NULL;
}

size_t strata_teardown_len(const strata_teardown *teardown)
{
    return __atomic_load_n(&teardown->length_, __ATOMIC_RELAXED);
}

bool strata_teardown_is_empty(const strata_teardown *teardown)
{
    return teardown->newest_ == NULL;
}

strata_mark strata_teardown_mark(const strata_teardown *teardown)
{
    return (strata_mark){.serial = teardown->serial_};
}

const strata_resource *strata_teardown_newest(const strata_teardown *teardown)
{
    return teardown->newest_;
}

const strata_resource *strata_resource_older(const strata_resource *resource)
{
    return resource->older_;
}

strata_report *strata_teardown_report(const strata_teardown *teardown)
{
    return teardown->report_;
}

/* Calls one of a resource's functions and makes the error complete: whatever the callback left out,
 * its status and a text are there. */
static strata_status call(strata_resource_fn *question, strata_resource *resource, void *context,
                          strata_error *error)
{
    *error = (strata_error){.status = STRATA_OK};
    strata_status status = question(resource, context, error);
    error->status = status;
    error->text[sizeof error->text - 1] = '\0'; /* whatever the callback did with it */
    if (status != STRATA_OK && error->text[0] == '\0') {
        strata_error_append(error, "%s", strata_status_text(status));
    }
    return status;
}

/* Asks one; true where it refuses. */
static bool refuses(strata_resource *resource, void *context, strata_report *out,
                    strata_status *first)
{
    strata_error error;
    strata_status status = call(resource->ready, resource, context, &error);
    strata__report_attempt(out, STRATA_PHASE_READY, resource->label, held(resource),
                           status == STRATA_OK ? NULL : &error);
    if (status != STRATA_BUSY && status != STRATA_TIMEOUT) {
        return false;
    }
    if (*first == STRATA_OK) {
        *first = status;
    }
    return true;
}

/* All are asked even after a refusal, so that the report names everyone who still holds memory. */
static strata_status ask_all(strata_teardown *teardown, strata_mark mark, void *context,
                             strata_report *out)
{
    strata_status first = STRATA_OK;
    for (strata_resource *r = teardown->newest_; r != NULL && r->serial_ > mark.serial;
         r = r->older_) {
        if (r->ready != NULL) {
            (void)refuses(r, context, out, &first);
        }
    }
    return first;
}

static strata_status release_one(strata_teardown *teardown, strata_resource *resource,
                                 void *context, strata_report *out)
{
    /* Everything that is needed after the call is copied before it: the node may be gone then. */
    char label[STRATA_LABEL_MAX];
    strata__label_copy(label, resource->label);
    size_t held_bytes = held(resource);
    bool stays = resource->stays_;

    strata_teardown_forget(resource);
    strata_error error;
    strata_status status = call(resource->release, resource, context, &error);
    if (status == STRATA_BUSY || status == STRATA_TIMEOUT) {
        /* To the caller these two mean that nothing was touched, which is no longer so. */
        status = STRATA_RESOURCE;
        error.status = status;
    }
    if (status != STRATA_OK && stays && resource->stays_ && resource->teardown_ == NULL) {
        link_below(teardown, teardown->boundary_, resource);
        teardown->boundary_ = resource;
    }
    strata__report_attempt(out, STRATA_PHASE_RELEASE, label, held_bytes,
                           status == STRATA_OK ? NULL : &error);
    return status;
}

/* The release without the question, for owners who have asked already (a model asks all its strands
 * before it touches the first). */
static strata_status sweep(strata_teardown *teardown, strata_mark mark, void *context,
                           strata_report *out)
{
    strata_status first = STRATA_OK;
    for (;;) {
        strata_resource *next = teardown->boundary_ != NULL ? teardown->boundary_->older_
                                                            : teardown->newest_;
        if (next == NULL || next->serial_ <= mark.serial) {
            return first;
        }
        strata_status status = release_one(teardown, next, context, out);
        if (first == STRATA_OK) {
            first = status;
        }
    }
}

bool strata__teardown_is_releasing(const strata_teardown *teardown)
{
    return __atomic_load_n(&teardown->releasing_, __ATOMIC_RELAXED);
}

static strata_status may_begin(const strata_teardown *teardown, strata_mark mark)
{
    if (strata__teardown_is_releasing(teardown)) {
        return STRATA_ORDER;
    }
    return mark.serial > teardown->serial_ ? STRATA_INVALID : STRATA_OK;
}

static void begin(strata_teardown *teardown, strata_report *out)
{
    __atomic_store_n(&teardown->releasing_, true, __ATOMIC_RELAXED);
    teardown->report_ = out;
    teardown->boundary_ = NULL;
}

static void end(strata_teardown *teardown)
{
    __atomic_store_n(&teardown->releasing_, false, __ATOMIC_RELAXED);
    teardown->report_ = NULL;
    teardown->boundary_ = NULL;
}

typedef enum part { ASK = 1, SWEEP = 2 } part;

static strata_status run(unsigned parts, strata_teardown *teardown, strata_mark mark, void *context,
                         strata_report *out)
{
    strata_status status = may_begin(teardown, mark);
    if (status != STRATA_OK) {
        return status;
    }
    begin(teardown, out);
    if ((parts & ASK) != 0) {
        status = ask_all(teardown, mark, context, out);
    }
    if ((parts & SWEEP) != 0 && status == STRATA_OK) {
        status = sweep(teardown, mark, context, out);
    }
    end(teardown);
    return status;
}

strata_status strata_teardown_ready_to(strata_teardown *teardown, strata_mark mark, void *context,
                                       strata_report *out)
{
    return run(ASK, teardown, mark, context, out);
}

strata_status strata_teardown_release_to(strata_teardown *teardown, strata_mark mark, void *context,
                                         strata_report *out)
{
    return run(ASK | SWEEP, teardown, mark, context, out);
}

strata_status strata__teardown_sweep_to(strata_teardown *teardown, strata_mark mark, void *context,
                                        strata_report *out)
{
    return run(SWEEP, teardown, mark, context, out);
}

strata_status strata_teardown_release_all(strata_teardown *teardown, void *context,
                                          strata_report *out)
{
    return strata_teardown_release_to(teardown, (strata_mark){.serial = 0}, context, out);
}

bool strata_teardown_is_valid(const strata_teardown *teardown)
{
    size_t count = 0;
    uint64_t above = teardown->serial_ + 1;
    const strata_resource *newer = NULL;
    for (const strata_resource *r = teardown->newest_; r != NULL; r = r->older_) {
        if (r->teardown_ != teardown || r->newer_ != newer || r->serial_ >= above ||
            r->release == NULL) {
            return false;
        }
        above = r->serial_;
        newer = r;
        count++;
    }
    return count == teardown->length_;
}

/* strata/teardown.h - resources, and the ordered list that releases them newest first.
 *
 * A resource is anything with a label and a fallible release. A teardown releases what was pushed,
 * newest first: all are asked whether they are ready, and if one is not, nothing at all happens.
 * Past that point every one is attempted and every failure is reported; no failure stops the rest.
 *
 * Nodes live in the caller's storage, so pushing cannot fail, and the release path allocates
 * nothing. A node must lie outside the memory that its teardown returns.
 *
 * Thread rule: none of its own. One thread at a time; a strand (strand.h) owns one.
 *
 * When not to use it: for memory. Allocations belong in an arena or a heap, which are one resource
 * however many allocations they serve. */
#ifndef STRATA_TEARDOWN_H
#define STRATA_TEARDOWN_H

#include <strata/report.h>

STRATA_BEGIN_DECLS

typedef struct strata_resource strata_resource;
typedef struct strata_teardown strata_teardown;

/* Both questions have this shape. `context` is what the caller of the release handed in (for a
 * model: its `const strata_release_options *`). On failure, return a status other than OK and
 * describe it in *error, which is never NULL here and arrives cleared.
 *
 * release  ends the resource. It is called once for each push; the node is already unlinked, so it
 *          may be freed or pushed anew from inside. It must be idempotent where its own caller may
 *          repeat it. BUSY and TIMEOUT are answers to the other question: from here they are reported
 *          as RESOURCE, with their text.
 * ready    changes nothing, does not wait, and answers OK when releasing is safe now. BUSY or TIMEOUT
 *          refuse the whole release; a model asks again until its deadline, so waiting inside would
 *          only hold up others. Any other failure is reported and does not stand in the way: a lost
 *          device must not make a release impossible. */
typedef strata_status strata_resource_fn(strata_resource *self, void *context, strata_error *error);

struct strata_resource {
    const char *label;           /* borrowed for as long as it is pushed; copied into reports */
    strata_resource_fn *release; /* never NULL */
    strata_resource_fn *ready;   /* NULL: always ready */
    size_t held_bytes;           /* for reports: what releasing this gives back; see set_held */

    /* ours */
    strata_teardown *teardown_; /* NULL: not pushed */
    strata_resource *older_;
    strata_resource *newer_;
    uint64_t serial_;
    bool stays_; /* on failure it goes back to its place (see strata_resource_set_stays) */
};

struct strata_teardown {
    /* ours */
    strata_resource *newest_;
    size_t length_;
    uint64_t serial_;       /* of the newest push ever */
    strata_report *report_; /* of the release in progress */
    strata_resource *boundary_;
    bool releasing_;
};

/* A moment in a teardown's life: a serial number, never a pointer, so that a mark outlives what it
 * marked. Compare with nothing; hand it back to the teardown it came from. */
typedef struct strata_mark {
    uint64_t serial;
} strata_mark;

#define STRATA_TEARDOWN_INIT \
    {                        \
        0                    \
    }

STRATA_API void strata_resource_init(strata_resource *resource, const char *label,
                                     strata_resource_fn *release, strata_resource_fn *ready);

/* A failed resource normally leaves the list for good: its owner has been told. One that *stays*
 * goes back to its place instead and is tried again by the next release. For owners who keep the
 * node alive until it has succeeded; the arenas and heaps of a strand do. */
STRATA_API void strata_resource_set_stays(strata_resource *resource, bool stays);

/* Brings held_bytes up to date while the resource is pushed; any thread. */
STRATA_API void strata_resource_set_held(strata_resource *resource, size_t held_bytes);

STRATA_API void strata_teardown_init(strata_teardown *teardown);

/* pre: the resource was initialised and is not pushed anywhere. */
STRATA_API void strata_teardown_push(strata_teardown *teardown, strata_resource *resource);

/* Unlinks a resource that its owner has released early. A resource that is not pushed is left
 * alone, so this may be called twice. */
STRATA_API void strata_teardown_forget(strata_resource *resource);

STRATA_API bool strata_resource_is_pushed(const strata_resource *resource);
STRATA_API size_t strata_teardown_len(const strata_teardown *teardown);
STRATA_API bool strata_teardown_is_empty(const strata_teardown *teardown);
STRATA_API strata_mark strata_teardown_mark(const strata_teardown *teardown);

/* The newest resource, or NULL; and the next older one. For listings; the list must not change
 * meanwhile. */
STRATA_API const strata_resource *strata_teardown_newest(const strata_teardown *teardown);
STRATA_API const strata_resource *strata_resource_older(const strata_resource *resource);

/* Asks all resources pushed after the mark. OK, or the first refusal's status. INVALID for a mark
 * from the future; ORDER from inside a release of the same teardown. */
STRATA_API strata_status strata_teardown_ready_to(strata_teardown *teardown, strata_mark mark,
                                                  void *context, strata_report *out);

/* Asks all resources pushed after the mark, then releases them, newest first. Resources that a
 * callback pushes meanwhile stay for the next release; so does one that it pushes anew. Returns the
 * first failure's status after having attempted everything; the refusal's where one was not ready;
 * OK with zero attempts where there is nothing to do. INVALID, ORDER as above. */
STRATA_API strata_status strata_teardown_release_to(strata_teardown *teardown, strata_mark mark,
                                                    void *context, strata_report *out);

STRATA_API strata_status strata_teardown_release_all(strata_teardown *teardown, void *context,
                                                     strata_report *out);

/* From inside a resource's callback: the report of the release in progress, so that a resource
 * which is itself a list of resources can report each of them. NULL where none is wanted. */
STRATA_API strata_report *strata_teardown_report(const strata_teardown *teardown);

/* Walks the list and checks its invariants (order of serials, links, length). For tests and debug
 * builds. */
STRATA_API bool strata_teardown_is_valid(const strata_teardown *teardown);

STRATA_END_DECLS

#endif

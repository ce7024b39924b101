/* strata/strand.h - what one thread of a model owns: a teardown, its arenas and heaps, its scopes.
 *
 * A model has a root strand for loading, and one for each request thread that wants scopes of its
 * own. Whatever is created in a strand is a resource of its teardown; closing a scope, or releasing
 * the model, releases newest first.
 *
 * Control blocks of arenas and heaps live until their strand is closed or the model destroyed, so
 * that a late call is answered CLOSED. Make them once, not in every scope.
 *
 * A scope is a mark: closing it releases what came since and rewinds the arenas that were there
 * before; keeping it commits. Opening one allocates nothing.
 *
 * Thread rule: a strand, its scopes and its arenas are for one thread at a time; handing over is
 * allowed. Another thread may ask the model to be released meanwhile: while something is not ready
 * it is refused and the strand goes on. Its own thread must have stopped using memory by the time
 * everything says that it is ready. A callback may use its own strand; it keeps its hands off those of
 * other threads, which may be waiting for it. */
#ifndef STRATA_STRAND_H
#define STRATA_STRAND_H

#include <strata/arena.h>
#include <strata/process.h>
#include <strata/teardown.h>

STRATA_BEGIN_DECLS

typedef struct strata_model strata_model;
typedef struct strata_strand strata_strand;

#define STRATA_SCOPE_DEPTH_MAX 8

/* --- resources ---------------------------------------------------------------------------------*/

/* Pushes a resource of the caller's. Its callbacks get the release's `const
 * strata_release_options *` as context (NULL for a scope). CLOSED after the model's release. */
STRATA_API strata_status strata_strand_push(strata_strand *strand, strata_resource *resource);

/* Unlinks a resource that its owner has released early; one that is not pushed is left alone. (Not
 * strata_teardown_forget: another thread may be asking.) UNSUPPORTED in a forked child. */
STRATA_API strata_status strata_strand_forget(strata_strand *strand, strata_resource *resource);

/* config NULL: the defaults, called "arena". What the model's configuration says under the label is
 * laid over it. Errors: strata_model_config_arena's, strata_strand_source's, strata_arena_open's.
 */
STRATA_API strata_status strata_arena_create(strata_arena **out, strata_strand *strand,
                                             const strata_arena_config *config, strata_error *err);

/* The arena of this label in the strand, or NULL; the newest where there are several. */
STRATA_API strata_arena *strata_strand_arena(const strata_strand *strand, const char *label);

STRATA_API strata_model *strata_strand_model(const strata_strand *strand);

/* --- strands -----------------------------------------------------------------------------------*/

/* A strand for another thread. May be called from any thread. CLOSED; BUSY at the moment of a
 * release (which may yet be refused); NO_MEMORY; UNSUPPORTED in a forked child. */
STRATA_API strata_status strata_strand_open(strata_strand **out, strata_model *model,
                                            const char *label, strata_error *err);

/* Releases what the strand owns and frees it; the model's release does the same for those that are
 * left. Callbacks get NULL as context, as in a scope. *strand becomes NULL once nothing is left in
 * it, whatever the status; where something is stranded it stays, to be closed again.
 * INVALID for the root; ORDER while a scope of it is open; BUSY while the model is being released;
 * UNSUPPORTED in a forked child. pre: the model has not been destroyed, which frees its strands. */
STRATA_API strata_status strata_strand_close(strata_strand **strand, strata_report *out);

/* --- scopes ------------------------------------------------------------------------------------*/

/* In the caller's storage. All fields are ours. */
typedef struct strata_scope {
    strata_strand *strand_;
    strata_mark mark_;
    uint32_t depth_;
    uint32_t state_;
} strata_scope;

/* LIMIT past STRATA_SCOPE_DEPTH_MAX; CLOSED; ORDER from a callback of the strand's own release. */
STRATA_API strata_status strata_scope_open(strata_scope *scope, strata_strand *strand);

/* Ends the scope and keeps what came: it belongs to the scope around it, or to the strand. ORDER
 * where an inner scope is open, nothing changed; CLOSED after the model's release; INVALID where
 * the scope has ended already. */
STRATA_API strata_status strata_scope_keep(strata_scope *scope);

/* Asks, releases newest first what came since the scope was opened, rewinds older arenas. Where
 * nothing was registered since, it is a few stores for each arena.
 *
 * BUSY, TIMEOUT  something is not ready, or the gate is held: refused, the scope is still open
 * ORDER          an inner scope is open, or it is called from a callback of the strand's own release,
 *                or inside the gate: nothing changed
 * CLOSED         after the model's release; INVALID: the scope has ended already
 * UNSUPPORTED    in a forked child, where something would have to be released
 * other          the first failure's status: everything was attempted, the scope has ended, and what
 *                failed to return memory is stranded in the strand. CORRUPT: a guard found damage */
STRATA_API strata_status strata_scope_close(strata_scope *scope, strata_report *out);

/* For a load that failed with *err: closes the scope and adds to the text what was undone. Returns
 * err->status, so that a failing path is one statement; with NULL there is none, and it is OK. */
STRATA_API strata_status strata_scope_undo(strata_scope *scope, strata_report *out,
                                           strata_error *err);

/* --- areas: an arena or a heap as its strand sees it -------------------------------------------*/

/* For those who add a kind of allocator (heap.h does); others need not look. */

typedef struct strata_area strata_area;

typedef struct strata_area_info {
    char label[STRATA_LABEL_MAX];
    char strand[STRATA_LABEL_MAX]; /* whose it is: "root", or a request strand's label */
    const char *kind;              /* "arena", "heap" */
    strata_region_info region;
    size_t used_bytes;      /* arena: below the cursor; heap: live bytes */
    size_t used_peak_bytes; /* arenas */
    uint64_t allocations;   /* heaps; arenas do not count */
    uint64_t frees;
    /* Committed beside the region, charged to the same budget: a heap's start bitmap. Over all
     * areas, region.committed_bytes and this add up to what the model's ledger holds. */
    size_t bookkeeping_bytes;
} strata_area_info;

typedef struct strata_area_ops {
    const char *kind;
    /* Returns all memory; idempotent, may be repeated on failure. */
    strata_status (*close)(strata_area *area, strata_report *out, strata_error *err);
    /* Remembers the state at a scope's opening, and goes back to it. NULL: allocations survive. */
    void (*save)(strata_area *area, uint32_t depth);
    strata_status (*rewind)(strata_area *area, uint32_t depth, strata_error *err);
    void (*read)(strata_area *area, strata_area_info *out); /* all but the labels */
    size_t (*held)(const strata_area *area); /* committed bytes; asked before every release */
    void (*destroy)(strata_area *area);      /* frees the control block; pre: closed */
} strata_area_ops;

struct strata_area {
    const strata_area_ops *ops;
    strata_resource resource_;
    char label_[STRATA_LABEL_MAX];
    strata_strand *strand_;
    strata_area *older_;
    uint32_t born_depth_; /* scopes open at its creation, less those kept since */
};

/* Where an area's memory comes from: the backend by name, the model's ledger. */
typedef struct strata_area_source {
    strata_backend *backend;
    strata_ledger *ledger;
    const strata_host_memory *memory;
} strata_area_source;

/* Resolves where the area `label` of this strand takes its memory. INVALID for an unknown backend,
 * listing the known ones, with the place where it was configured; CLOSED; UNSUPPORTED in a forked
 * child. A backend of the caller's without a gate gets the process's, and so must not be used with
 * another process. */
STRATA_API strata_status strata_strand_source(strata_strand *strand, const char *label,
                                              strata_backend *backend, const char *memory,
                                              strata_area_source *out, strata_error *err);

/* Registers an area that is ready. CLOSED where a release was quicker: then the caller closes it.
 * pre: area->ops is set; label is copied. */
STRATA_API strata_status strata_strand_add(strata_strand *strand, strata_area *area,
                                           const char *label);

STRATA_END_DECLS

#endif

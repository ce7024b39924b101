/* strata/backend.h - a kind of memory of a device, as a table of functions.
 *
 * The one contract between regions and whatever gives them memory: host pages, a mapped file, later
 * a device. A new backend is one file and one such table. A backend keeps no list of its ranges and
 * no account: regions do that, once for all kinds.
 *
 * Thread rule: all functions may be called from any thread, for different ranges at the same time;
 * calls for one range are serialised by its region. */
#ifndef STRATA_BACKEND_H
#define STRATA_BACKEND_H

#include <strata/gate.h>
#include <strata/report.h>

#include <sys/types.h>

STRATA_BEGIN_DECLS

/* Raised whenever the table below changes its meaning; a region refuses any other. */
#define STRATA_BACKEND_VERSION 1

#define STRATA_GATE_WAIT_NS         UINT64_C(5000000000) /* unless said otherwise */
#define STRATA_PREFAULT_THREADS_MAX 64

typedef enum strata_pages {
    STRATA_PAGES_DEFAULT, /* as the system is set: base pages, unless it gives huge ones to all */
    STRATA_PAGES_THP,     /* transparent huge pages where the system has them */
    STRATA_PAGES_HUGETLB  /* pages of the reserved pool, 2 MiB */
} strata_pages;

STRATA_API const char *strata_pages_name(strata_pages pages); /* "default", "thp", "hugetlb" */

/* What a region wants of its addresses. */
typedef struct strata_reserve_request {
    size_t bytes; /* pre: a multiple of the backend's granularity */
    strata_pages pages;
    bool pages_fallback; /* take the next smaller pages where the kind asked for is not to be had */
    bool prefault;       /* fault pages in at commit */
    unsigned prefault_threads;
} strata_reserve_request;

/* One range of addresses as its backend sees it. The region owns the struct; the backend fills it
 * at reserve and reads it afterwards. */
typedef struct strata_range {
    void *base;             /* aligned as the backend promises */
    size_t reserve_bytes;   /* usable bytes */
    size_t committed_bytes; /* kept by the region */
    strata_pages pages;     /* what it got */
    bool prefault;
    unsigned prefault_threads;
    bool whole_only;      /* backend's own: this range cannot be trimmed */
    void *mapping;        /* backend's own: where the kernel's mapping begins, */
    size_t mapping_bytes; /* and its length with slack and guard */
    bool pages_fallback;
} strata_range;

typedef struct strata_backend strata_backend;

typedef struct strata_backend_ops {
    uint32_t version;     /* STRATA_BACKEND_VERSION */
    bool host_accessible; /* the host may read and write committed bytes */
    bool can_grow;        /* false: commit is called once, for the whole reservation */
    const char *name;     /* "host", "file": what configurations call it */

    /* Commit and reserve sizes are multiples of this, a power of two. */
    size_t (*granularity)(strata_backend *self, strata_pages pages);

    /* Takes addresses, no memory. On failure nothing is held. */
    strata_status (*reserve)(strata_backend *self, strata_range *range,
                             const strata_reserve_request *request, strata_error *err);

    /* Backs [from, from + bytes) of the range with memory.
     * pre: from is the end of what is committed. On failure nothing more is committed. */
    strata_status (*commit)(strata_backend *self, strata_range *range, size_t from, size_t bytes,
                            strata_error *err);

    /* Gives the memory of [from, from + bytes) back, keeps the addresses. NULL: cannot trim. */
    strata_status (*decommit)(strata_backend *self, strata_range *range, size_t from, size_t bytes,
                              strata_error *err);

    /* Returns the whole range, addresses and memory. On failure the range is as it was and the call
     * may be repeated. */
    strata_status (*release)(strata_backend *self, strata_range *range, strata_error *err);

    /* After a release that succeeded: is it gone? Fills *short_bytes for SHORT, and writes a reason
     * of at most `capacity` bytes for anything but VERIFIED. */
    strata_verdict (*verify)(strata_backend *self, const strata_range *range, size_t *short_bytes,
                             char *reason, size_t capacity);
} strata_backend_ops;

/* The head of every backend; a backend with state of its own embeds it as its first member. */
struct strata_backend {
    const strata_backend_ops *ops;
    strata_gate *gate;     /* of its coherence domain; NULL: none */
    uint64_t gate_wait_ns; /* how long a commit or a single return waits at the gate */
    pid_t owner_;          /* the process that may map and return; a forked child may not */
};

/* Fills in the head. For those who write a backend. */
STRATA_API void strata_backend_init(strata_backend *backend, const strata_backend_ops *ops,
                                    strata_gate *gate);

/* UNSUPPORTED for a table of another version. */
STRATA_API strata_status strata_backend_check(const strata_backend *backend, strata_error *err);

/* UNSUPPORTED in a forked child: its copy of a range is its own and goes when it exits, but locks
 * may have been held by threads that it does not have. */
STRATA_API strata_status strata_backend_may_map(const strata_backend *backend, strata_error *err);

STRATA_END_DECLS

#endif

/* trace.h - recorded allocation streams, read and checked.
 *
 * One event a line, `op,thread,dt_us,x[,arg]`, plain or gzipped; tests/traces/README.md describes
 * the format. What comes out is ready to be replayed without any further check: every free names an
 * object that is live, every size and alignment is one that an allocator may be asked for. Knows
 * nothing of allocators. One thread. */
#ifndef STRATA_TOOL_TRACE_H
#define STRATA_TOOL_TRACE_H

#include <strata/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LINE_MAX   256                 /* bytes, newline included */
#define TRACE_EVENTS_MAX ((size_t)16 << 20)  /* allocations and frees */
#define TRACE_MODELS_MAX 16                  /* model numbers 0 to 15 */
#define TRACE_SIZE_MAX   ((uint64_t)1 << 38) /* bytes of one block; no sum of them can wrap */
#define TRACE_ALIGN_MAX  ((uint64_t)1 << 30)

typedef enum trace_kind {
    TRACE_ALLOCATE,
    TRACE_RESERVE, /* lives as long as its model: ONNX Runtime's Reserve */
    TRACE_FREE
} trace_kind;

typedef struct trace_event {
    uint64_t size;   /* bytes; of a free: those of its object */
    uint32_t object; /* from 0 in the order of allocation */
    uint32_t align;
    uint8_t kind;  /* trace_kind */
    uint8_t model; /* of a free: its object's */
} trace_event;

typedef struct trace_model {
    uint64_t live_peak_bytes; /* blocks alone, no reserves */
    uint64_t live_peak_blocks;
    uint64_t reserve_bytes; /* all reserves together, each rounded up to its alignment */
    bool used;
} trace_model;

typedef struct trace {
    trace_event *events;
    size_t event_count;
    size_t object_count;
    size_t left_live; /* objects never freed */
    size_t lines;
    uint64_t live_peak_bytes; /* everything together */
    trace_model models[TRACE_MODELS_MAX];
} trace;

/* What a block of `m`, `c` and `R` is aligned to, and a reserve. */
#define TRACE_ALIGN_BLOCK   16
#define TRACE_ALIGN_RESERVE 64

/* INVALID as "line N: what is wrong; what would be right"; LIMIT for too much of something; SYSTEM
 * where the file cannot be read; NO_MEMORY. *out is empty unless OK. */
strata_status trace_read(trace *out, const char *path, strata_error *err);
void trace_free(trace *loaded);

#endif

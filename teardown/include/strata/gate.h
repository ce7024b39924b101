/* strata/gate.h - between returning memory and asking for it.
 *
 * Traffic (committing, mapping, our own copies) enters a gate shared; a teardown closes it and is
 * then alone. Closers have priority: once one waits, no more traffic gets in. Every wait ends at a
 * deadline of CLOCK_MONOTONIC. What a closer waits for can be named: each pass says what it is
 * doing and since when.
 *
 * It never sleeps while holding its own lock, calls nobody back, and allocates nothing: passes live
 * in the caller's storage. It is not reentrant on purpose: a thread that is inside and asks again
 * gets ORDER at once instead of a deadlock.
 *
 * Thread rule: any thread; a pass is left by the thread that entered with it. */
#ifndef STRATA_GATE_H
#define STRATA_GATE_H

#include <strata/error.h>

#include <pthread.h>

STRATA_BEGIN_DECLS

#define STRATA_DEADLINE_NOW   UINT64_C(0) /* do not wait */
#define STRATA_DEADLINE_NEVER UINT64_MAX  /* wait for ever; nothing of Strata's own does */

/* Nanoseconds of CLOCK_MONOTONIC, and the moment that lies `ns` ahead (saturating). */
STRATA_API uint64_t strata_now_ns(void);
STRATA_API uint64_t strata_deadline_in(uint64_t ns);

/* One stay inside a gate, in the caller's storage, usually on the stack. All fields are ours. */
typedef struct strata_pass {
    pthread_t thread_;
    const char *doing_;
    uint64_t since_ns_;
    struct strata_pass *next_;
    struct strata_pass *previous_;
} strata_pass;

/* All fields are ours; the struct is public so that a gate can be embedded. */
typedef struct strata_gate {
    pthread_mutex_t mutex_;
    pthread_cond_t changed_;
    strata_pass *inside_; /* traffic */
    strata_pass *closer_; /* the one that has it closed */
    size_t closers_waiting_;
} strata_gate;

STRATA_API strata_status strata_gate_init(strata_gate *gate, strata_error *err);
STRATA_API void strata_gate_fini(strata_gate *gate); /* pre: nobody inside, nobody waiting */

/* Enters with traffic. `doing` is a static string such as "commit of weights".
 * ORDER  the thread is inside already, with traffic or as the closer
 * BUSY   with STRATA_DEADLINE_NOW: closed, or a closer waits
 * TIMEOUT  the deadline passed; the text names who holds the gate, what it does and for how long */
STRATA_API strata_status strata_gate_enter(strata_gate *gate, strata_pass *pass, const char *doing,
                                           uint64_t deadline_ns, strata_error *err);
STRATA_API void strata_gate_leave(strata_gate *gate, strata_pass *pass);

/* Closes the gate: waits until the traffic has left and keeps new traffic out. Errors as above. */
STRATA_API strata_status strata_gate_close(strata_gate *gate, strata_pass *pass, const char *doing,
                                           uint64_t deadline_ns, strata_error *err);
STRATA_API void strata_gate_open(strata_gate *gate, strata_pass *pass);

/* Whether the calling thread is the one that has it closed. */
STRATA_API bool strata_gate_is_closer(strata_gate *gate);

STRATA_END_DECLS

#endif

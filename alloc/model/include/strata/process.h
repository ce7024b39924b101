/* strata/process.h - the one object that a program makes first and hands on.
 *
 * Backends with their gate, the ledger whose totals all models share, the memory for control blocks
 * and the log sink. There is no hidden one: two processes of this type in one program know nothing
 * of each other.
 *
 * After fork the child may go on using memory it inherited; every operation that would map, return
 * or wait answers UNSUPPORTED there and touches nothing.
 *
 * Thread rule: any thread, except create and destroy. */
#ifndef STRATA_PROCESS_H
#define STRATA_PROCESS_H

#include <strata/host.h>
#include <strata/region.h>

STRATA_BEGIN_DECLS

typedef struct strata_process strata_process;

#define STRATA_BACKENDS_MAX 16

typedef struct strata_process_config {
    uint64_t budget_bytes;            /* over all models; STRATA_UNLIMITED */
    uint64_t gate_wait_ns;            /* how long growth and single returns wait at the gate; 5 s */
    strata_host_memory memory;        /* control blocks; zeroed: malloc */
    const strata_host_system *system; /* NULL: the real system calls; copied */
    /* One line, no newline: releases that were refused, failed or fell short. NULL: silent. Called
     * by the releasing thread, outside the gate. */
    void (*log)(void *user, const char *line);
    void *log_user;
} strata_process_config;

STRATA_API void strata_process_config_init(strata_process_config *config);

/* config NULL: the defaults. NO_MEMORY, SYSTEM. */
STRATA_API strata_status strata_process_create(strata_process **out,
                                               const strata_process_config *config,
                                               strata_error *err);

/* BUSY while a model exists; then nothing changes. *process becomes NULL. NULL inside: OK. */
STRATA_API strata_status strata_process_destroy(strata_process **process);

/* Makes a backend known by its ops' name. It must outlive the process; its gate is set to the
 * process's host gate where it has none. LIMIT, INVALID for a name that is taken, UNSUPPORTED for
 * another version of the table. */
STRATA_API strata_status strata_process_add_backend(strata_process *process,
                                                    strata_backend *backend, strata_error *err);

/* NULL where the name is unknown. "host" is always there. */
STRATA_API strata_backend *strata_process_backend(const strata_process *process, const char *name);
STRATA_API strata_gate *strata_process_gate(strata_process *process);
STRATA_API strata_ledger *strata_process_ledger(strata_process *process);
STRATA_API const strata_host_memory *strata_process_memory(const strata_process *process);

STRATA_END_DECLS

#endif

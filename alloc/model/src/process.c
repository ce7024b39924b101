/* process.c - the object that holds what models share. Owns the host backend and its gate. */
#include <strata/process.h>

#include "internal.h"

#include <string.h>

void strata_process_config_init(strata_process_config *config)
{
    *config = (strata_process_config){.budget_bytes = STRATA_UNLIMITED,
                                      .gate_wait_ns = STRATA_GATE_WAIT_NS};
}

strata_status strata_process_create(strata_process **out, const strata_process_config *config,
                                    strata_error *err)
{
    strata_process_config defaults;
    strata_process_config_init(&defaults);
    const strata_process_config *chosen = config != NULL ? config : &defaults;

    strata_process *process = strata_host_memory_allocate(&chosen->memory, sizeof *process);
    if (process == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for the process object");
    }
    memset(process, 0, sizeof *process);
    process->config = *chosen;
    strata_status status = strata_gate_init(&process->gate, err);
    if (status != STRATA_OK) {
        strata_host_memory_free(&chosen->memory, process);
        return status;
    }
    (void)pthread_mutex_init(&process->mutex, NULL);
    strata_ledger_init(&process->ledger, NULL, "the process", chosen->budget_bytes);
    strata_host_backend_init(&process->host, &process->gate, chosen->system);
    process->host.backend.gate_wait_ns = chosen->gate_wait_ns;
    process->backends[process->backend_count++] = &process->host.backend;
    *out = process;
    return STRATA_OK;
}

strata_status strata_process_destroy(strata_process **process)
{
    strata_process *old = *process;
    if (old == NULL) {
        return STRATA_OK;
    }
    if (__atomic_load_n(&old->models, __ATOMIC_ACQUIRE) > 0) {
        return STRATA_BUSY;
    }
    (void)pthread_mutex_destroy(&old->mutex);
    strata_gate_fini(&old->gate);
    strata_host_memory memory = old->config.memory;
    strata_host_memory_free(&memory, old);
    *process = NULL;
    return STRATA_OK;
}

strata_status strata__process_is_ours(const strata_process *process, strata_error *err)
{
    return strata_backend_may_map(&process->host.backend, err);
}

/* pre: the mutex is held. */
static void give_gate(strata_process *process, strata_backend *backend)
{
    if (backend->gate == NULL) {
        backend->gate = &process->gate;
    }
}

void strata__process_adopt(strata_process *process, strata_backend *backend)
{
    (void)pthread_mutex_lock(&process->mutex);
    give_gate(process, backend);
    (void)pthread_mutex_unlock(&process->mutex);
}

/* pre: the mutex is held. */
static strata_backend *find_backend(const strata_process *process, const char *name)
{
    for (size_t i = 0; i < process->backend_count; i++) {
        if (strcmp(process->backends[i]->ops->name, name) == 0) {
            return process->backends[i];
        }
    }
    return NULL;
}

strata_status strata_process_add_backend(strata_process *process, strata_backend *backend,
                                         strata_error *err)
{
    strata_status status = strata_backend_check(backend, err);
    if (status != STRATA_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&process->mutex);
    if (find_backend(process, backend->ops->name) != NULL) {
        status = strata_error_set(err, STRATA_INVALID, "a backend \"%s\" is there already",
                                  backend->ops->name);
    } else if (process->backend_count == STRATA_BACKENDS_MAX) {
        status = strata_error_set(err, STRATA_LIMIT, "there are %d backends already",
                                  STRATA_BACKENDS_MAX);
    } else {
        give_gate(process, backend);
        process->backends[process->backend_count++] = backend;
    }
    (void)pthread_mutex_unlock(&process->mutex);
    return status;
}

strata_backend *strata_process_backend(const strata_process *process, const char *name)
{
    if (strata__process_is_ours(process, NULL) != STRATA_OK) {
        return find_backend(process,
                            name); /* alone in a forked child, where the lock may be held */
    }
    pthread_mutex_t *mutex = (pthread_mutex_t *)&process->mutex;
    (void)pthread_mutex_lock(mutex);
    strata_backend *found = find_backend(process, name);
    (void)pthread_mutex_unlock(mutex);
    return found;
}

strata_gate *strata_process_gate(strata_process *process)
{
    return &process->gate;
}

strata_ledger *strata_process_ledger(strata_process *process)
{
    return &process->ledger;
}

const strata_host_memory *strata_process_memory(const strata_process *process)
{
    return &process->config.memory;
}

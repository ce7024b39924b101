/* fake_system.h - the host's system calls and its malloc, counted and able to fail.
 *
 * Both hand through to the real thing, so what is built on them works; on the way they count, check
 * that what is returned was taken, and fail the n-th call once or from then on. A test fails every
 * n-th call in turn, until a run in which nothing was injected:
 *
 *     for (uint64_t n = 1, injected = 1; injected > 0; n++) {
 *         fake_system_fail(&fake, FAKE_ANY, n, false, ENOMEM);
 *         ... what is tested ...
 *         injected = fake_system_injected(&fake);
 *     }
 *
 * Knows the public headers only. Any thread. */
#ifndef STRATA_TESTS_FAKE_SYSTEM_H
#define STRATA_TESTS_FAKE_SYSTEM_H

#include <strata/host.h>
#include <strata/region.h>

#include <pthread.h>

/* --- which call fails --------------------------------------------------------------------------*/

/* Counts calls and says which of them fails. Not protected by itself: its owner has the lock. */
typedef struct fake_fault {
    uint64_t nth;      /* the first call to fail, from 1; 0: none */
    bool from_then_on; /* false: that one only */
    uint64_t seen;     /* calls since it was armed */
    uint64_t injected; /* failures since it was armed */
} fake_fault;

/* Counts one call; whether it is to fail. pre: the caller serialises. */
bool fake_fault_is_due(fake_fault *fault);

/* --- system calls ------------------------------------------------------------------------------*/

typedef enum fake_call {
    FAKE_MAP,
    FAKE_UNMAP,
    FAKE_PROTECT,
    FAKE_ADVISE,
    FAKE_RESIDENT,
    FAKE_CALL_COUNT_,
    FAKE_ANY = FAKE_CALL_COUNT_ /* for fake_system_fail: whichever call comes n-th */
} fake_call;

#define FAKE_MAPPINGS_MAX 1024

typedef struct fake_mapping {
    void *base;
    size_t bytes;
} fake_mapping;

typedef struct fake_system {
    strata_host_system
        system; /* hand out &fake->system; its users copy it, `fake` must outlive them */

    /* To be read through the functions below, or directly once all threads are joined. */
    uint64_t calls[FAKE_CALL_COUNT_]; /* attempts, failed ones included */
    size_t live_mappings;
    size_t live_bytes; /* mapped addresses */
    size_t live_mappings_peak;
    uint64_t partial_unmaps; /* of less than a whole mapping, which splits it */
    uint64_t stray_unmaps;   /* of what was not mapped here, or not any more */

    /* ours */
    pthread_mutex_t mutex;
    fake_fault fault;
    fake_call fault_call;
    int fault_errno;
    fake_mapping mappings[FAKE_MAPPINGS_MAX];
} fake_system;

void fake_system_init(fake_system *fake);
void fake_system_fini(fake_system *fake); /* unmaps what is left; ask fake_system_is_clean first */

/* The n-th `call` from now on fails with `error` before anything is done. n 0: none. */
void fake_system_fail(fake_system *fake, fake_call call, uint64_t nth, bool from_then_on,
                      int error);
void fake_system_heal(fake_system *fake);
uint64_t fake_system_injected(fake_system *fake); /* failures since the last fake_system_fail */
uint64_t fake_system_calls(fake_system *fake, fake_call call); /* FAKE_ANY: all of them */
size_t fake_system_live(fake_system *fake);
/* Everything mapped was unmapped, each mapping once and whole. */
bool fake_system_is_clean(fake_system *fake);

/* --- memory for control blocks -----------------------------------------------------------------*/

typedef struct fake_block fake_block;

typedef struct fake_memory {
    strata_host_memory memory; /* hand out &fake->memory */
    size_t live_blocks;
    uint64_t allocations; /* attempts */

    /* ours */
    pthread_mutex_t mutex;
    fake_fault fault;
    fake_block *blocks;
} fake_memory;

void fake_memory_init(fake_memory *fake);
void fake_memory_fini(fake_memory *fake); /* frees what is left; ask fake_memory_live first */
void fake_memory_fail(fake_memory *fake, uint64_t nth, bool from_then_on);
void fake_memory_heal(fake_memory *fake);
uint64_t fake_memory_injected(fake_memory *fake);
size_t fake_memory_live(fake_memory *fake);

#endif

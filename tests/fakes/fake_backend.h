/* fake_backend.h - a backend whose memory nobody on the host may touch.
 *
 * Stands for device memory: addresses are real and unique, committed memory stays PROT_NONE, so a
 * single byte read or written there by an allocator is a SIGSEGV in the test. Can fail its n-th
 * commit. Knows backend.h only. */
#ifndef STRATA_TESTS_FAKE_BACKEND_H
#define STRATA_TESTS_FAKE_BACKEND_H

#include <strata/backend.h>

#include "fake_system.h"

typedef struct fake_backend {
    strata_backend backend; /* hand out &fake->backend */
    size_t live_ranges;
    uint64_t commits;
    fake_fault fault; /* of commits; answers DEVICE_MEMORY. Set it directly */
} fake_backend;

void fake_backend_init(fake_backend *fake, strata_gate *gate);

#endif

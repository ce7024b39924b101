/* fake_backend.c - see the header. One mmap a range, never made accessible. */
#include "fake_backend.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define GRANULARITY ((size_t)2 << 20) /* a device's usual one */

static size_t fake_granularity(strata_backend *self, strata_pages pages)
{
    (void)self;
    (void)pages;
    return GRANULARITY;
}

static strata_status fake_reserve(strata_backend *self, strata_range *range,
                                  const strata_reserve_request *request, strata_error *err)
{
    fake_backend *fake = (fake_backend *)self;
    size_t bytes = request->bytes + GRANULARITY;
    void *mapping =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return strata_error_native(err, STRATA_NO_MEMORY, STRATA_ORIGIN_ERRNO, errno, "mmap");
    }
    uintptr_t base = ((uintptr_t)mapping + (GRANULARITY - 1)) & ~(uintptr_t)(GRANULARITY - 1);
    *range = (strata_range){.base = (void *)base,
                            .reserve_bytes = request->bytes,
                            .pages = request->pages,
                            .mapping = mapping,
                            .mapping_bytes = bytes};
    (void)__atomic_add_fetch(&fake->live_ranges, 1, __ATOMIC_RELAXED);
    return STRATA_OK;
}

static strata_status fake_commit(strata_backend *self, strata_range *range, size_t from,
                                 size_t bytes, strata_error *err)
{
    fake_backend *fake = (fake_backend *)self;
    (void)range;
    (void)from;
    (void)bytes;
    fake->commits++;
    if (fake_fault_is_due(&fake->fault)) {
        return strata_error_set(err, STRATA_DEVICE_MEMORY, "the fake device is full");
    }
    return STRATA_OK;
}

static strata_status fake_release(strata_backend *self, strata_range *range, strata_error *err)
{
    fake_backend *fake = (fake_backend *)self;
    if (munmap(range->mapping, range->mapping_bytes) != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "munmap");
    }
    (void)__atomic_sub_fetch(&fake->live_ranges, 1, __ATOMIC_RELAXED);
    return STRATA_OK;
}

static strata_verdict fake_verify(strata_backend *self, const strata_range *range,
                                  size_t *short_bytes, char *reason, size_t capacity)
{
    (void)self;
    (void)range;
    *short_bytes = 0;
    (void)snprintf(reason, capacity, "%s", "");
    return STRATA_VERDICT_VERIFIED;
}

static const strata_backend_ops fake_ops = {.version = STRATA_BACKEND_VERSION,
                                            .name = "untouchable",
                                            .host_accessible = false,
                                            .can_grow = true,
                                            .granularity = fake_granularity,
                                            .reserve = fake_reserve,
                                            .commit = fake_commit,
                                            .decommit = NULL,
                                            .release = fake_release,
                                            .verify = fake_verify};

void fake_backend_init(fake_backend *fake, strata_gate *gate)
{
    *fake = (fake_backend){.live_ranges = 0};
    strata_backend_init(&fake->backend, &fake_ops, gate);
}

/* starts.c - the region under the start bits. */
#include "starts.h"

#include <strata/size.h>

#include <stdio.h>

#define HEAP_BYTES_PER_BYTE (STRATA__GRAIN * 8)

/* Growth: each step covers 8 MiB of heap at first and 128 MiB at last, so that bits cost few system
 * calls beside the heap's own, and a small heap is charged little for them. */
#define STEP_BYTES     ((size_t)64 << 10)
#define STEP_MAX_BYTES ((size_t)1 << 20)

static size_t bytes_for(size_t heap_bytes)
{
    return heap_bytes / HEAP_BYTES_PER_BYTE + (heap_bytes % HEAP_BYTES_PER_BYTE != 0);
}

strata_status strata__starts_create(strata__starts *starts, strata_backend *host,
                                    strata_ledger *ledger, const strata_host_memory *memory,
                                    const char *heap_label, size_t heap_bytes, strata_error *err)
{
    char label[STRATA_LABEL_MAX];
    /* The ending survives where a long label is cut. */
    (void)snprintf(label, sizeof label, "%.*s.starts", (int)(sizeof label - sizeof ".starts"),
                   heap_label);
    strata_region_config config;
    strata_region_config_init(&config);
    config.label = label;
    config.reserve_bytes = bytes_for(heap_bytes);
    config.step_bytes = STEP_BYTES;
    config.step_max_bytes = STEP_MAX_BYTES;
    config.pages = STRATA_PAGES_DEFAULT;
    strata_status status =
        strata_region_create(&starts->region, host, ledger, memory, &config, err);
    if (status == STRATA_OK) {
        starts->words = strata_region_base(starts->region);
    }
    return status;
}

strata_status strata__starts_cover(strata__starts *starts, size_t heap_bytes, strata_error *err)
{
    if (starts->region == NULL || strata__starts_covered(starts) >= heap_bytes) {
        return STRATA_OK;
    }
    return strata_region_commit(starts->region, bytes_for(heap_bytes), err);
}

size_t strata__starts_covered(const strata__starts *starts)
{
    size_t covered;
    if (starts->region == NULL || !strata_size_multiply(strata_region_committed(starts->region),
                                                        HEAP_BYTES_PER_BYTE, &covered)) {
        return SIZE_MAX;
    }
    return covered;
}

strata_status strata__starts_release(strata__starts *starts, strata_report *out, strata_error *err)
{
    return starts->region == NULL ? STRATA_OK : strata_region_release(starts->region, out, err);
}

void strata__starts_destroy(strata__starts *starts)
{
    strata_region_destroy(starts->region);
    *starts = (strata__starts){.region = NULL};
}

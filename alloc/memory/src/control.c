/* control.c - where control blocks come from. The caller's functions, or malloc. */
#include <strata/region.h>

#include <stdlib.h>

void *strata_host_memory_allocate(const strata_host_memory *memory, size_t bytes)
{
    if (memory != NULL && memory->allocate != NULL) {
        return memory->allocate(memory->user, bytes);
    }
    return malloc(bytes);
}

void strata_host_memory_free(const strata_host_memory *memory, void *block)
{
    if (memory != NULL && memory->free != NULL) {
        memory->free(memory->user, block);
        return;
    }
    free(block);
}

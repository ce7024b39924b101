/* hostile_malloc.c - a malloc with faults that `strata replay` has to find, by LD_PRELOAD.
 *
 * Sizes that nobody asks for by accident are served from a block of our own:
 *   12341   at an odd address
 *   12342   the same block every time
 *   12343   a block that the next of 12344 bytes overwrites
 * Everything else goes to the real allocator. One thread. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STAGE_BYTES ((size_t)64 << 10)

typedef void *malloc_fn(size_t size);
typedef void free_fn(void *block);

/* State of a preloaded library: there is nobody to hand it on. */
static _Alignas(64) unsigned char stage[STAGE_BYTES];

static void next(const char *name, void *into)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(into, &symbol, sizeof symbol);
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    switch (size) {
    case 12341:
        return stage + 1;
    case 12342:
    case 12343:
        return stage;
    case 12344:
        stage[100] ^= 0xff; /* in the block before this one */
        return stage + STAGE_BYTES / 2;
    default:
        break;
    }
    malloc_fn *real;
    next("malloc", &real);
    return real(size);
}

__attribute__((visibility("default"))) void free(void *ptr)
{
    uintptr_t at = (uintptr_t)ptr;
    if (at >= (uintptr_t)stage && at < (uintptr_t)stage + STAGE_BYTES) {
        return;
    }
    free_fn *real;
    next("free", &real);
    real(ptr);
}

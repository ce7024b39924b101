/* host_system.c - the real system calls behind the host backend's table. Nothing else. */
#include "internal.h"

#include <sys/mman.h>

static void *map(void *user, void *hint, size_t bytes, int protection, int flags, int fd,
                 off_t offset)
{
    (void)user;
    return mmap(hint, bytes, protection, flags, fd, offset);
}

static int unmap(void *user, void *base, size_t bytes)
{
    (void)user;
    return munmap(base, bytes);
}

static int protect(void *user, void *base, size_t bytes, int protection)
{
    (void)user;
    return mprotect(base, bytes, protection);
}

static int advise(void *user, void *base, size_t bytes, int advice)
{
    (void)user;
    return madvise(base, bytes, advice);
}

static int resident(void *user, void *base, size_t bytes, unsigned char *pages)
{
    (void)user;
    return mincore(base, bytes, pages);
}

const strata_host_system strata__host_system = {
    .map = map,
    .unmap = unmap,
    .protect = protect,
    .advise = advise,
    .resident = resident,
};

/* isolation.c - what stands between the private jemalloc and the process around it.
 *
 * jemalloc takes options from MALLOC_CONF and /etc/malloc.conf, reads /proc and /sys, and may move
 * the program break. A library must not change with the environment of the program it is linked
 * into, so private_jemalloc.sh renames these calls (private_jemalloc.redirect) and they end here.
 * Knows libc only. */
#include "jemalloc.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Read once, by jemalloc's constructor. Each option is needed; README.md, "Why these options", says
 * what for, and strata__je_check refuses a jemalloc that did not take them. const, unlike
 * jemalloc's own declaration, which only ever reads it. */
const char *const strata__je_malloc_conf =
    "retain:false,narenas:1,tcache:false,dirty_decay_ms:-1,muzzy_decay_ms:-1,"
    "lg_extent_max_active_fit:40,background_thread:false,dss:disabled,junk:false,zero:false";

char *strata__je_no_getenv(const char *name)
{
    (void)name;
    return NULL;
}

char *strata__je_no_secure_getenv(const char *name)
{
    (void)name;
    return NULL;
}

ssize_t strata__je_no_readlink(const char *path, char *buffer, size_t capacity)
{
    (void)path;
    (void)buffer;
    (void)capacity;
    errno = ENOENT;
    return -1;
}

static int no_file(void)
{
    errno = ENOENT;
    return -1;
}

int strata__je_no_open(const char *path, int flags, ...)
{
    (void)path;
    (void)flags;
    return no_file();
}

int strata__je_no_open64(const char *path, int flags, ...)
{
    (void)path;
    (void)flags;
    return no_file();
}

int strata__je_no_openat(int folder, const char *path, int flags, ...)
{
    (void)folder;
    (void)path;
    (void)flags;
    return no_file();
}

int strata__je_no_creat(const char *path, mode_t mode)
{
    (void)path;
    (void)mode;
    return no_file();
}

void *strata__je_no_fopen(const char *path, const char *mode)
{
    (void)path;
    (void)mode;
    errno = ENOENT;
    return NULL;
}

void *strata__je_no_sbrk(intptr_t increment)
{
    (void)increment;
    errno = ENOMEM;
    return (void *)-1;
}

/* jemalloc opens, reads and closes files by system call numbers. Writing is let through: that is
 * how it says on standard error why it aborts. */
long strata__je_no_syscall(long number, ...)
{
    if (number != SYS_write) {
        errno = ENOSYS;
        return -1;
    }
    va_list arguments;
    va_start(arguments, number);
    int fd = va_arg(arguments, int);
    const void *bytes = va_arg(arguments, const void *);
    size_t length = va_arg(arguments, size_t);
    va_end(arguments);
    return fd == STDERR_FILENO ? write(fd, bytes, length) : no_file();
}

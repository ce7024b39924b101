/* hostile_system.c - pread and munmap as bad days have them, loaded into `strata` by LD_PRELOAD.
 *
 * HOSTILE_READ says how:
 *   seven      no answer is longer than 7 bytes (case 49)
 *   eintr      every other call answers EINTR
 *   shrink:N   before the N-th call (1 is the first) the file is cut to half of its length
 *   mapped:N   after the N-th call it is: what was read is right, what is mapped behind it is gone
 *   flip:N     one bit of the N-th answer is wrong
 *
 * HOSTILE_UNMAP says how ranges of 2 MiB or more, which are Strata's, are given back:
 *   fail       ENOMEM, as where the kernel is out of mappings
 *   lie        success, and nothing happens (case 20)
 *
 * Counts calls without a lock: the command reads files with one thread. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

typedef int munmap_fn(void *base, size_t bytes);
typedef ssize_t pread_fn(int fd, void *buffer, size_t bytes, off_t offset);

/* Not declared by our headers under this name; both are the same call here. */
ssize_t pread64(int fd, void *buf, size_t nbytes, off_t offset);

static unsigned long calls; /* state of a preloaded library: there is nobody to hand it on */

static void cut(int fd)
{
    char link[64];
    struct stat about;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &about) != 0 || truncate(link, about.st_size / 2) != 0) {
        abort(); /* a test that tests nothing */
    }
}

static unsigned long number_after(const char *how, const char *word)
{
    size_t length = strlen(word);
    return strncmp(how, word, length) == 0 ? strtoul(how + length, NULL, 10) : 0;
}

static ssize_t hostile(pread_fn *real, int fd, void *buffer, size_t bytes, off_t offset)
{
    const char *set = getenv("HOSTILE_READ");
    const char *how = set == NULL ? "" : set;
    calls++;
    if (strcmp(how, "seven") == 0 && bytes > 7) {
        bytes = 7;
    }
    if (strcmp(how, "eintr") == 0 && calls % 2 == 1) {
        errno = EINTR;
        return -1;
    }
    if (calls == number_after(how, "shrink:")) {
        cut(fd);
    }
    ssize_t got = real(fd, buffer, bytes, offset);
    if (calls == number_after(how, "mapped:")) {
        cut(fd);
    }
    if (calls == number_after(how, "flip:") && got > 0) {
        ((unsigned char *)buffer)[got / 2] ^= 1;
    }
    return got;
}

/* ISO C has no cast from an object to a function: `into` is a pointer to one. */
static void next(const char *name, void *into)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(into, &symbol, sizeof symbol);
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset)
{
    pread_fn *real;
    next("pread", &real);
    return hostile(real, fd, buf, nbytes, offset);
}

__attribute__((visibility("default"))) ssize_t pread64(int fd, void *buf, size_t nbytes,
                                                       off_t offset)
{
    pread_fn *real;
    next("pread64", &real);
    return hostile(real, fd, buf, nbytes, offset);
}

__attribute__((visibility("default"))) int munmap(void *addr, size_t len)
{
    const char *set = getenv("HOSTILE_UNMAP");
    const char *how = set == NULL || len < ((size_t)2 << 20) ? "" : set;
    if (strcmp(how, "fail") == 0) {
        errno = ENOMEM;
        return -1;
    }
    munmap_fn *real;
    next("munmap", &real);
    return strcmp(how, "lie") == 0 ? 0 : real(addr, len);
}

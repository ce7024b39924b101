/* prefault.c - faulting a range in before it is used, on several threads.
 *
 * MADV_POPULATE_WRITE does in one call what a loop of touches does in one fault a page, and answers
 * an error where a touch would be a SIGBUS (an empty huge page pool, a cgroup at its limit). It
 * walks one range at a time, so several threads share the range in pieces of 2 MiB. Threads are
 * helpers only: one that cannot be started costs time, never correctness. */
#include "internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define THREADS_MAX STRATA_PREFAULT_THREADS_MAX

#define TRIES_MAX 100 /* of what the kernel asks to be tried again */

typedef struct slice {
    const strata_host_system *system;
    char *base;
    size_t bytes;
    int error; /* errno, 0: done */
} slice;

/* A kernel older than 5.14: one write a page. Only ever called for memory that was committed a
 * moment ago, whose contents are zero. */
static void touch(char *base, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page) {
        *(volatile char *)(base + at) = 0;
    }
}

static void populate(slice *s)
{
    int rc = -1;
    for (int tries = 0; tries < TRIES_MAX && rc != 0; tries++) {
        rc = s->system->advise(s->system->user, s->base, s->bytes, MADV_POPULATE_WRITE);
        if (rc != 0 && errno != EAGAIN && errno != EINTR) {
            break;
        }
    }
    if (rc != 0 && errno == EINVAL) {
        touch(s->base, s->bytes);
        rc = 0;
    }
    s->error = rc == 0 ? 0 : errno;
}

static void *populate_thread(void *argument)
{
    populate(argument);
    return NULL;
}

/* Cuts the range into `count` slices at multiples of 2 MiB; the last takes the rest. */
static void cut(slice *slices, unsigned count, const strata_host_system *system, char *base,
                size_t bytes)
{
    size_t share = bytes / count / STRATA__HUGE_BYTES * STRATA__HUGE_BYTES;
    for (unsigned i = 0; i < count; i++) {
        size_t from = share * i;
        slices[i] = (slice){
            .system = system, .base = base + from, .bytes = i + 1 == count ? bytes - from : share};
    }
}

/* Helpers run with all signals blocked, so that none of the program's handlers runs on them. */
static void populate_all(slice *slices, unsigned count)
{
    pthread_t threads[THREADS_MAX];
    bool started[THREADS_MAX] = {false};
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 1; i < count; i++) {
        started[i] = pthread_create(&threads[i], NULL, populate_thread, &slices[i]) == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);

    populate(&slices[0]);
    for (unsigned i = 1; i < count; i++) {
        if (started[i]) {
            (void)pthread_join(threads[i], NULL);
        } else {
            populate(&slices[i]);
        }
    }
}

strata_status strata__prefault(const strata_host_system *system, void *base, size_t bytes,
                               unsigned threads, strata_error *err)
{
    size_t useful = bytes / STRATA__HUGE_BYTES;
    unsigned count = threads < THREADS_MAX ? threads : THREADS_MAX;
    count = count < useful ? count : (unsigned)useful;
    count = count > 0 ? count : 1;

    slice slices[THREADS_MAX];
    cut(slices, count, system, base, bytes);
    populate_all(slices, count);
    for (unsigned i = 0; i < count; i++) {
        if (slices[i].error != 0) {
            strata_status status = slices[i].error == ENOMEM || slices[i].error == EFAULT
                                       ? STRATA_NO_MEMORY
                                       : STRATA_SYSTEM;
            return strata_error_native(err, status, STRATA_ORIGIN_ERRNO, slices[i].error,
                                       "madvise(MADV_POPULATE_WRITE)");
        }
    }
    return STRATA_OK;
}

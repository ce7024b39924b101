/* host.c - the host's own pages as a backend.
 *
 * One mmap a region: PROT_NONE and MAP_NORESERVE over everything, with the slack that alignment
 * needs in front and one guard page behind, so that the region is aligned without ever splitting a
 * mapping and is returned by exactly one munmap. Committing is mprotect over the next piece; the
 * kernel keeps it as two mappings (usable, not yet) whatever the number of commits, because advice
 * is given over the whole, guard included.
 *
 * Huge pages of the reserved pool cannot be had that way: there, committing maps the next piece of
 * the pool over the reservation, with the pool's own reservation and a populate, so that a pool
 * that is too small is an error now and never a SIGBUS later. */
#include <strata/host.h>

#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MINCORE_PAGES 4096

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26) /* linux/mman.h: log2 of the size, from bit 26 on */
#endif

static strata_host_backend *host_of(strata_backend *self)
{
    return (strata_host_backend *)(void *)self;
}

static size_t granularity(strata_backend *self, strata_pages pages)
{
    return pages == STRATA_PAGES_DEFAULT ? host_of(self)->page_bytes_ : STRATA__HUGE_BYTES;
}

static strata_status failed(strata_error *err, int error, const char *call)
{
    strata_status status = error == ENOMEM || error == EAGAIN ? STRATA_NO_MEMORY : STRATA_SYSTEM;
    return strata_error_native(err, status, STRATA_ORIGIN_ERRNO, error, call);
}

/* Names the limit that most likely refused to commit `bytes`, and what to do. */
static strata_status commit_refused(strata_error *err, int error, const char *call, size_t bytes)
{
    strata_status status = failed(err, error, call);
    if (status != STRATA_NO_MEMORY) {
        strata_error_append(err, " to commit %zu bytes", bytes);
        return status;
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        status = STRATA_LIMIT; /* the same request would succeed with another setting */
        if (err != NULL) {
            err->status = status;
        }
        strata_error_append(err,
                            " to commit %zu bytes; RLIMIT_DATA is %llu bytes: raise it (ulimit -d) "
                            "or lower `first` and `step`",
                            bytes, (unsigned long long)limit.rlim_cur);
    } else {
        strata_error_append(err,
                            " to commit %zu bytes; free memory, or look at vm.overcommit_memory "
                            "(2 counts every commit) and the container's limit",
                            bytes);
    }
    return status;
}

/* Names the limit that most likely refused `bytes` of addresses, and what to do. */
static strata_status reserve_refused(strata_error *err, int error, size_t bytes)
{
    strata_status status = failed(err, error, "mmap");
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        status = STRATA_LIMIT; /* the same request would succeed with another setting */
        if (err != NULL) {
            err->status = status;
        }
        strata_error_append(err,
                            " for %zu bytes of addresses; RLIMIT_AS is %llu bytes: raise it "
                            "(ulimit -v) or lower `reserve`",
                            bytes, (unsigned long long)limit.rlim_cur);
    } else {
        strata_error_append(err,
                            " for %zu bytes of addresses; lower `reserve`, or look at "
                            "vm.overcommit_memory and vm.max_map_count",
                            bytes);
    }
    return status;
}

/* Transparent huge pages are advice; where the kernel has none, the caller decides what follows. */
static strata_status advise_pages(strata_host_backend *host, strata_range *range, strata_error *err)
{
    const strata_host_system *system = &host->system_;
    if (range->pages != STRATA_PAGES_THP) {
        return STRATA_OK;
    }
    if (system->advise(system->user, range->mapping, range->mapping_bytes, MADV_HUGEPAGE) == 0) {
        return STRATA_OK;
    }
    int error = errno;
    if (range->pages_fallback && error == EINVAL) {
        range->pages = STRATA_PAGES_DEFAULT;
        return STRATA_OK;
    }
    strata_status status = failed(err, error, "madvise(MADV_HUGEPAGE)");
    if (error == EINVAL) {
        strata_error_append(err, "; this kernel has no transparent huge pages: set `pages = "
                                 "default` or `pages_fallback = yes`");
        status = STRATA_UNSUPPORTED;
        if (err != NULL) {
            err->status = status;
        }
    }
    return status;
}

static strata_status reserve(strata_backend *self, strata_range *range,
                             const strata_reserve_request *request, strata_error *err)
{
    strata_host_backend *host = host_of(self);
    const strata_host_system *system = &host->system_;
    size_t align = granularity(self, request->pages);
    size_t page = host->page_bytes_;
    size_t whole;
    if (!strata_size_add(request->bytes, align - page, &whole) ||
        !strata_size_add(whole, page, &whole)) {
        return strata_error_set(err, STRATA_INVALID, "a reservation of %zu bytes wraps around",
                                request->bytes);
    }
    void *mapping = system->map(system->user, NULL, whole, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return reserve_refused(err, errno, whole);
    }
    uintptr_t base = ((uintptr_t)mapping + (align - 1)) & ~(uintptr_t)(align - 1);
    *range = (strata_range){.base = (void *)base,
                            .reserve_bytes = request->bytes,
                            .pages = request->pages,
                            .prefault = request->prefault,
                            .prefault_threads = request->prefault_threads,
                            .whole_only = request->pages == STRATA_PAGES_HUGETLB,
                            .mapping = mapping,
                            .mapping_bytes = whole,
                            .pages_fallback = request->pages_fallback};
    strata_status status = advise_pages(host, range, err);
    if (status != STRATA_OK && system->unmap(system->user, mapping, whole) != 0) {
        strata_error_append(err, "; and its addresses could not be returned: munmap: %d", errno);
    }
    return status;
}

/* What a commit that failed after the memory was there does: takes it away again. The addresses
 * stay, unusable. Best effort: what cannot be taken away is not counted as committed either, and
 * goes with the region. */
static void uncommit(strata_host_backend *host, void *at, size_t bytes)
{
    const strata_host_system *system = &host->system_;
    (void)system->map(system->user, at, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static strata_status commit_hugetlb(strata_host_backend *host, void *at, size_t bytes,
                                    unsigned threads, strata_error *err)
{
    const strata_host_system *system = &host->system_;
    void *got = system->map(system->user, at, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | MAP_HUGE_2MB,
                            -1, 0);
    strata_status status = STRATA_OK;
    if (got == MAP_FAILED) {
        status = failed(err, errno, "mmap(MAP_HUGETLB)");
        /* A failed MAP_FIXED may have unmapped what was there; put the reservation back. */
        uncommit(host, at, bytes);
    } else {
        status = strata__prefault(system, at, bytes, threads, err);
        if (status != STRATA_OK) {
            uncommit(host, at, bytes);
        }
    }
    if (status != STRATA_OK) {
        strata_error_append(err,
                            " for %zu bytes of the huge page pool; raise vm.nr_hugepages, or "
                            "set `pages = thp` or `pages_fallback = yes`",
                            bytes);
    }
    return status;
}

static strata_status commit_pages(strata_host_backend *host, strata_range *range, void *at,
                                  size_t bytes, strata_error *err)
{
    const strata_host_system *system = &host->system_;
    if (system->protect(system->user, at, bytes, PROT_READ | PROT_WRITE) != 0) {
        return commit_refused(err, errno, "mprotect", bytes);
    }
    if (!range->prefault) {
        return STRATA_OK;
    }
    strata_status status = strata__prefault(system, at, bytes, range->prefault_threads, err);
    if (status != STRATA_OK) {
        strata_error_append(err, " to fault in %zu bytes; free memory, or set `prefault = no`",
                            bytes);
        (void)system->advise(system->user, at, bytes, MADV_DONTNEED);
        (void)system->protect(system->user, at, bytes, PROT_NONE);
    }
    return status;
}

static strata_status commit(strata_backend *self, strata_range *range, size_t from, size_t bytes,
                            strata_error *err)
{
    strata_host_backend *host = host_of(self);
    void *at = (char *)range->base + from;
    if (range->pages != STRATA_PAGES_HUGETLB) {
        return commit_pages(host, range, at, bytes, err);
    }
    strata_status status = commit_hugetlb(host, at, bytes, range->prefault_threads,
                                          range->pages_fallback ? NULL : err);
    if (status == STRATA_OK || !range->pages_fallback) {
        return status;
    }
    range->pages = STRATA_PAGES_THP;
    status = advise_pages(host, range, err);
    return status == STRATA_OK ? commit_pages(host, range, at, bytes, err) : status;
}

static strata_status decommit(strata_backend *self, strata_range *range, size_t from, size_t bytes,
                              strata_error *err)
{
    const strata_host_system *system = &host_of(self)->system_;
    void *at = (char *)range->base + from;
    if (range->whole_only) {
        return strata_error_set(err, STRATA_UNSUPPORTED,
                                "pages of the reserved pool go back whole only");
    }
    if (system->protect(system->user, at, bytes, PROT_NONE) != 0) {
        return failed(err, errno, "mprotect");
    }
    if (system->advise(system->user, at, bytes, MADV_DONTNEED) != 0) {
        int error = errno;
        (void)system->protect(system->user, at, bytes, PROT_READ | PROT_WRITE);
        strata_status status = failed(err, error, "madvise(MADV_DONTNEED)");
        if (error == EINVAL) {
            strata_error_append(err, "; locked pages cannot be given back: munlock them first");
        }
        return status;
    }
    return STRATA_OK;
}

static strata_status release(strata_backend *self, strata_range *range, strata_error *err)
{
    const strata_host_system *system = &host_of(self)->system_;
    if (system->unmap(system->user, range->mapping, range->mapping_bytes) != 0) {
        return failed(err, errno, "munmap");
    }
    return STRATA_OK;
}

/* mincore answers ENOMEM for a piece that holds an unmapped page. A piece that is still mapped
 * whole was either not returned or taken by another thread meanwhile; what tells them apart is
 * whether its pages are still there. */
strata_verdict strata__verify_unmapped(const strata_host_system *system, const strata_range *range,
                                       size_t page_bytes, size_t *short_bytes, char *reason,
                                       size_t capacity)
{
    unsigned char pages[MINCORE_PAGES];
    size_t bytes = range->committed_bytes > 0 ? range->committed_bytes : page_bytes;
    size_t gone = 0;
    size_t resident_bytes = 0;
    for (size_t at = 0; at < bytes; at += MINCORE_PAGES * page_bytes) {
        size_t piece = bytes - at < MINCORE_PAGES * page_bytes ? bytes - at
                                                               : MINCORE_PAGES * page_bytes;
        char *from = (char *)range->base + at;
        if (system->resident(system->user, from, piece, pages) != 0) {
            if (errno != ENOMEM) {
                strata_error why;
                (void)strata_error_native(&why, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno,
                                          "mincore");
                (void)snprintf(reason, capacity, "%s", why.text);
                return STRATA_VERDICT_UNVERIFIABLE;
            }
            gone++;
            continue;
        }
        for (size_t i = 0; i < (piece + page_bytes - 1) / page_bytes; i++) {
            resident_bytes += (pages[i] & 1) != 0 ? page_bytes : 0;
        }
    }
    if (gone * MINCORE_PAGES * page_bytes >= bytes) {
        return STRATA_VERDICT_VERIFIED;
    }
    if (resident_bytes > 0) {
        *short_bytes = resident_bytes;
        (void)snprintf(reason, capacity, "pages are still there after a munmap that succeeded");
        return STRATA_VERDICT_SHORT;
    }
    (void)snprintf(reason, capacity, "the addresses are in use again, by somebody else or still");
    return STRATA_VERDICT_UNVERIFIABLE;
}

static strata_verdict verify(strata_backend *self, const strata_range *range, size_t *short_bytes,
                             char *reason, size_t capacity)
{
    strata_host_backend *host = host_of(self);
    return strata__verify_unmapped(&host->system_, range, host->page_bytes_, short_bytes, reason,
                                   capacity);
}

static const strata_backend_ops host_ops = {
    .version = STRATA_BACKEND_VERSION,
    .name = "host",
    .host_accessible = true,
    .can_grow = true,
    .granularity = granularity,
    .reserve = reserve,
    .commit = commit,
    .decommit = decommit,
    .release = release,
    .verify = verify,
};

void strata_host_backend_init(strata_host_backend *host, strata_gate *gate,
                              const strata_host_system *system)
{
    strata_backend_init(&host->backend, &host_ops, gate);
    host->system_ = system != NULL ? *system : strata__host_system;
    host->page_bytes_ = (size_t)sysconf(_SC_PAGESIZE);
}

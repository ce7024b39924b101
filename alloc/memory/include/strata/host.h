/* strata/host.h - the host's own pages as a backend, and mapped files as another.
 *
 * Host ranges are reserved once with PROT_NONE and MAP_NORESERVE, so that neither overcommit nor
 * fork counts them, aligned to 2 MiB inside one mapping with a guard page behind it. That mapping
 * is never split by us: it is returned by a single munmap, which also works at vm.max_map_count
 * (unless neighbours were never committed either: the kernel may have made one mapping of them).
 *
 * Never reads the environment or /proc; every call that maps, protects, advises or looks goes
 * through a table, which tests and sandboxed programs may replace. */
#ifndef STRATA_HOST_H
#define STRATA_HOST_H

#include <strata/backend.h>

#include <sys/types.h>

STRATA_BEGIN_DECLS

/* The system calls that the host backend makes. Each has the contract of the call it is named
 * after, errno included. `user` comes first. */
typedef struct strata_host_system {
    void *user;
    void *(*map)(void *user, void *hint, size_t bytes, int protection, int flags, int fd,
                 off_t offset);
    int (*unmap)(void *user, void *base, size_t bytes);
    int (*protect)(void *user, void *base, size_t bytes, int protection);
    int (*advise)(void *user, void *base, size_t bytes, int advice);
    int (*resident)(void *user, void *base, size_t bytes, unsigned char *pages); /* mincore */
} strata_host_system;

typedef struct strata_host_backend {
    strata_backend backend; /* hand out &host->backend */
    strata_host_system system_;
    size_t page_bytes_;
} strata_host_backend;

/* `system` NULL: the real ones. The gate is the caller's and may be NULL. Cannot fail. */
STRATA_API void strata_host_backend_init(strata_host_backend *host, strata_gate *gate,
                                         const strata_host_system *system);

/* A file's contents as memory: mapped privately and read-only, whole, by one mapping. The
 * descriptor stays the caller's and may be closed once a region exists. Truncating the file behind
 * a mapping makes later touches fail with SIGBUS; that is the kernel's contract, not ours. */
typedef struct strata_file_backend {
    strata_backend backend;
    strata_host_system system_;
    size_t page_bytes_;
    int fd_;
    uint64_t file_bytes_;
} strata_file_backend;

/* INVALID for a descriptor that is no regular file or is empty; SYSTEM with errno. */
STRATA_API strata_status strata_file_backend_init(strata_file_backend *file, int fd,
                                                  strata_gate *gate,
                                                  const strata_host_system *system,
                                                  strata_error *err);

/* What a region over it has to reserve: exactly this. */
STRATA_API size_t strata_file_backend_bytes(const strata_file_backend *file);

STRATA_END_DECLS

#endif

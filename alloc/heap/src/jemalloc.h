/* jemalloc.h - the private jemalloc as the rest of the heap sees it.
 *
 * Declarations of our own for the five symbols that the private copy keeps, the types that its
 * hooks have, and small typed questions over mallctl. The distribution's <jemalloc/jemalloc.h> is
 * not used: it declares the names that were renamed away. Knows nothing of heaps. */
#ifndef STRATA_HEAP_JEMALLOC_H
#define STRATA_HEAP_JEMALLOC_H

#include <strata/error.h>

#include <sys/types.h>

/* Hidden by declaration: the most restrictive visibility among references and definitions wins, so
 * the copy does not show even in a shared object that links our static library. */
#pragma GCC visibility push(hidden)

/* --- what the copy keeps -----------------------------------------------------------------------*/

extern const char *const strata__je_malloc_conf;

void *strata__je_mallocx(size_t size, int flags);
void strata__je_dallocx(void *block, int flags);
size_t strata__je_sallocx(const void *block, int flags);
int strata__je_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value,
                       size_t new_bytes);

/* extent_hooks_t of jemalloc 5. true means failure where a bool is returned. */
typedef struct strata__je_hooks strata__je_hooks;
struct strata__je_hooks {
    void *(*alloc)(strata__je_hooks *self, void *at, size_t bytes, size_t align, bool *zero,
                   bool *commit, unsigned arena);
    bool (*dalloc)(strata__je_hooks *self, void *extent, size_t bytes, bool committed,
                   unsigned arena);
    void (*destroy)(strata__je_hooks *self, void *extent, size_t bytes, bool committed,
                    unsigned arena);
    bool (*commit)(strata__je_hooks *self, void *extent, size_t bytes, size_t offset, size_t length,
                   unsigned arena);
    bool (*decommit)(strata__je_hooks *self, void *extent, size_t bytes, size_t offset,
                     size_t length, unsigned arena);
    bool (*purge_lazy)(strata__je_hooks *self, void *extent, size_t bytes, size_t offset,
                       size_t length, unsigned arena);
    bool (*purge_forced)(strata__je_hooks *self, void *extent, size_t bytes, size_t offset,
                         size_t length, unsigned arena);
    bool (*split)(strata__je_hooks *self, void *extent, size_t bytes, size_t first_bytes,
                  size_t second_bytes, bool committed, unsigned arena);
    bool (*merge)(strata__je_hooks *self, void *first, size_t first_bytes, void *second,
                  size_t second_bytes, bool committed, unsigned arena);
};

/* --- flags of mallocx and dallocx --------------------------------------------------------------*/

/* log2 of the alignment in bits 0-5, tcache + 2 in bits 8-19 (so "none" is 1), arena + 1 in bits
 * 20-31. Built as unsigned: arena 2,047 reaches the sign bit. */
#define STRATA__JE_TCACHE_NONE ((unsigned)1 << 8)

static inline unsigned strata__je_flag_tcache(unsigned tcache)
{
    return (tcache + 2) << 8;
}

static inline unsigned strata__je_flag_arena(unsigned arena)
{
    return (arena + 1) << 20;
}

/* pre: align is a power of two. */
static inline unsigned strata__je_flag_align(size_t align)
{
    return (unsigned)__builtin_ctzl(align);
}

/* --- questions ---------------------------------------------------------------------------------*/

/* UNSUPPORTED unless the linked jemalloc has the options that hooks.c depends on, and statistics.
 */
strata_status strata__je_check(strata_error *err);

/* LIMIT when no index is left, NO_MEMORY when jemalloc gets no memory for its bookkeeping. */
strata_status strata__je_arena_create(unsigned *arena, strata__je_hooks *hooks, strata_error *err);
/* pre: no call for the arena is in progress and its tcaches are gone. */
strata_status strata__je_arena_destroy(unsigned arena, strata_error *err);
/* Merges free extents that jemalloc keeps apart, to make the largest possible ones. */
void strata__je_arena_purge(unsigned arena);

strata_status strata__je_tcache_create(unsigned *tcache, strata_error *err);
void strata__je_tcache_destroy(unsigned tcache);

typedef struct strata__je_counts {
    size_t live_bytes;
    uint64_t allocations;
    uint64_t frees;
} strata__je_counts;

void strata__je_arena_counts(unsigned arena, strata__je_counts *out);

/* --- what the copy asks instead of libc (isolation.c) ------------------------------------------*/

char *strata__je_no_getenv(const char *name);
char *strata__je_no_secure_getenv(const char *name);
ssize_t strata__je_no_readlink(const char *path, char *buffer, size_t capacity);
int strata__je_no_open(const char *path, int flags, ...);
int strata__je_no_open64(const char *path, int flags, ...);
int strata__je_no_openat(int folder, const char *path, int flags, ...);
int strata__je_no_creat(const char *path, mode_t mode);
void *strata__je_no_fopen(const char *path, const char *mode);
void *strata__je_no_sbrk(intptr_t increment);
long strata__je_no_syscall(long number, ...);

#pragma GCC visibility pop

#endif

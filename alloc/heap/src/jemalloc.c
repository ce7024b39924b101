/* jemalloc.c - typed questions to the private jemalloc, over its mallctl.
 *
 * The one place that spells mallctl names. Nothing here is on an allocation's path. */
#include "jemalloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 64
#define ARENAS_MAX     4095 /* MALLOCX_ARENA_LIMIT: indices 0 to 4,094 */

/* Reads a value of exactly `bytes` bytes; false where jemalloc has no such name or type. */
static bool ask(const char *name, void *value, size_t bytes)
{
    size_t got = bytes;
    return strata__je_mallctl(name, value, &got, NULL, 0) == 0 && got == bytes;
}

/* --- options -----------------------------------------------------------------------------------*/

static bool bool_is(const char *name, bool wanted)
{
    bool value = !wanted;
    return ask(name, &value, sizeof value) && value == wanted;
}

static bool ssize_is(const char *name, ssize_t wanted)
{
    ssize_t value = 0;
    return ask(name, &value, sizeof value) && value == wanted;
}

static bool unsigned_is(const char *name, unsigned wanted)
{
    unsigned value = 0;
    return ask(name, &value, sizeof value) && value == wanted;
}

static bool size_is(const char *name, size_t wanted)
{
    size_t value = 0;
    return ask(name, &value, sizeof value) && value == wanted;
}

static bool text_is(const char *name, const char *wanted)
{
    const char *value = NULL;
    return ask(name, &value, sizeof value) && value != NULL && strcmp(value, wanted) == 0;
}

/* A build without junk filling has no such option, which is as good as one that is off. */
static bool fills_nothing(void)
{
    return bool_is("config.fill", false) ||
           (text_is("opt.junk", "false") && bool_is("opt.zero", false));
}

/* The first option that is not as it must be, or NULL. */
static const char *wrong_option(void)
{
    if (!bool_is("config.stats", true)) {
        return "config.stats";
    }
    if (!bool_is("opt.retain", false)) {
        return "opt.retain";
    }
    if (!bool_is("opt.tcache", false)) {
        return "opt.tcache";
    }
    if (!unsigned_is("opt.narenas", 1)) {
        return "opt.narenas";
    }
    if (!ssize_is("opt.dirty_decay_ms", -1)) {
        return "opt.dirty_decay_ms";
    }
    if (!ssize_is("opt.muzzy_decay_ms", -1)) {
        return "opt.muzzy_decay_ms";
    }
    if (!size_is("opt.lg_extent_max_active_fit", 40)) {
        return "opt.lg_extent_max_active_fit";
    }
    if (!bool_is("opt.background_thread", false)) {
        return "opt.background_thread";
    }
    if (!fills_nothing()) {
        return "opt.junk";
    }
    return NULL;
}

strata_status strata__je_check(strata_error *err)
{
    const char *wrong = wrong_option();
    if (wrong == NULL) {
        return STRATA_OK;
    }
    return strata_error_set(err, STRATA_UNSUPPORTED,
                            "the jemalloc that strata-heap was built with does not have %s as "
                            "needed; build it from an unmodified jemalloc 5.3",
                            wrong);
}

/* --- arenas ------------------------------------------------------------------------------------*/

static strata_status no_arena(int rc, strata_error *err)
{
    unsigned count = 0;
    if (rc == EAGAIN && ask("arenas.narenas", &count, sizeof count) && count >= ARENAS_MAX) {
        return strata_error_set(err, STRATA_LIMIT,
                                "all %u jemalloc arenas of this process are in use: close a heap",
                                count);
    }
    return strata_error_native(err, STRATA_NO_MEMORY, STRATA_ORIGIN_ERRNO, rc,
                               "jemalloc arenas.create");
}

/* Created bare and hooked afterwards: jemalloc then takes the memory for its own bookkeeping of the
 * arena from the system, not from our hooks. */
strata_status strata__je_arena_create(unsigned *arena, strata__je_hooks *hooks, strata_error *err)
{
    unsigned index = 0;
    size_t bytes = sizeof index;
    int rc = strata__je_mallctl("arenas.create", &index, &bytes, NULL, 0);
    if (rc != 0) {
        return no_arena(rc, err);
    }
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "arena.%u.extent_hooks", index);
    rc = strata__je_mallctl(name, NULL, NULL, &hooks,
                            sizeof hooks); // NOLINT(bugprone-sizeof-expression): of the pointer
    if (rc != 0) {
        (void)strata__je_arena_destroy(index, NULL);
        return strata_error_native(err, STRATA_UNSUPPORTED, STRATA_ORIGIN_ERRNO, rc,
                                   "jemalloc extent_hooks");
    }
    *arena = index;
    return STRATA_OK;
}

strata_status strata__je_arena_destroy(unsigned arena, strata_error *err)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "arena.%u.destroy", arena);
    int rc = strata__je_mallctl(name, NULL, NULL, NULL, 0);
    if (rc != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, rc,
                                   "jemalloc arena destroy");
    }
    return STRATA_OK;
}

void strata__je_arena_purge(unsigned arena)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "arena.%u.purge", arena);
    (void)strata__je_mallctl(name, NULL, NULL, NULL, 0);
}

/* --- tcaches -----------------------------------------------------------------------------------*/

/* jemalloc answers EFAULT both when all indices are taken and when it has no memory for one. The
 * second takes an address space that is full; the first is what a caller can do something about. */
strata_status strata__je_tcache_create(unsigned *tcache, strata_error *err)
{
    unsigned index = 0;
    size_t bytes = sizeof index;
    int rc = strata__je_mallctl("tcache.create", &index, &bytes, NULL, 0);
    if (rc != 0) {
        (void)strata_error_native(err, STRATA_LIMIT, STRATA_ORIGIN_ERRNO, rc,
                                  "jemalloc tcache.create");
        strata_error_append(err, "; a process has at most 4,094 heap lanes: close some");
        return STRATA_LIMIT;
    }
    *tcache = index;
    return STRATA_OK;
}

void strata__je_tcache_destroy(unsigned tcache)
{
    (void)strata__je_mallctl("tcache.destroy", NULL, NULL, &tcache, sizeof tcache);
}

/* --- statistics --------------------------------------------------------------------------------*/

static uint64_t arena_figure(unsigned arena, const char *figure)
{
    char name[NAME_MAX_BYTES];
    uint64_t value = 0; /* size_t and uint64_t are one width on every 64-bit target */
    (void)snprintf(name, sizeof name, "stats.arenas.%u.%s", arena, figure);
    return ask(name, &value, sizeof value) ? value : 0;
}

void strata__je_arena_counts(unsigned arena, strata__je_counts *out)
{
    uint64_t epoch = 1;
    size_t bytes = sizeof epoch;
    (void)strata__je_mallctl("epoch", &epoch, &bytes, &epoch, sizeof epoch);
    out->live_bytes =
        (size_t)(arena_figure(arena, "small.allocated") + arena_figure(arena, "large.allocated"));
    out->allocations = arena_figure(arena, "small.nmalloc") + arena_figure(arena, "large.nmalloc");
    out->frees = arena_figure(arena, "small.ndalloc") + arena_figure(arena, "large.ndalloc");
}

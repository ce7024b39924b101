/* fake_system.c - see the header. Every call is made under one lock, so that the table of mappings
 * and the kernel's never disagree. */
#include "fake_system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool fake_fault_is_due(fake_fault *fault)
{
    fault->seen++;
    bool due = fault->nth != 0 &&
               (fault->from_then_on ? fault->seen >= fault->nth : fault->seen == fault->nth);
    fault->injected += due;
    return due;
}

/* Counts the call; true where it is to fail, errno set. */
static bool system_call_fails(fake_system *fake, fake_call call)
{
    fake->calls[call]++;
    if (fake->fault_call != FAKE_ANY && fake->fault_call != call) {
        return false;
    }
    if (!fake_fault_is_due(&fake->fault)) {
        return false;
    }
    errno = fake->fault_errno;
    return true;
}

static void note_mapped(fake_system *fake, void *base, size_t bytes)
{
    for (size_t i = 0; i < FAKE_MAPPINGS_MAX; i++) {
        if (fake->mappings[i].base == NULL) {
            fake->mappings[i] = (fake_mapping){base, bytes};
            fake->live_mappings++;
            fake->live_bytes += bytes;
            if (fake->live_mappings > fake->live_mappings_peak) {
                fake->live_mappings_peak = fake->live_mappings;
            }
            return;
        }
    }
    abort(); /* raise FAKE_MAPPINGS_MAX */
}

static void note_unmapped(fake_system *fake, void *base, size_t bytes)
{
    uintptr_t from = (uintptr_t)base;
    for (size_t i = 0; i < FAKE_MAPPINGS_MAX; i++) {
        fake_mapping *mapping = &fake->mappings[i];
        uintptr_t start = (uintptr_t)mapping->base;
        if (mapping->base == base && mapping->bytes == bytes) {
            *mapping = (fake_mapping){NULL, 0};
            fake->live_mappings--;
            fake->live_bytes -= bytes;
            return;
        }
        if (mapping->base != NULL && from < start + mapping->bytes && start < from + bytes) {
            fake->partial_unmaps++;
            return;
        }
    }
    fake->stray_unmaps++;
}

static void *fake_map(void *user, void *hint, size_t bytes, int protection, int flags, int fd,
                      off_t offset)
{
    fake_system *fake = user;
    void *base = MAP_FAILED;
    (void)pthread_mutex_lock(&fake->mutex);
    if (!system_call_fails(fake, FAKE_MAP)) {
        base = mmap(hint, bytes, protection, flags, fd, offset);
        if (base != MAP_FAILED && (flags & MAP_FIXED) == 0) {
            note_mapped(fake, base, bytes);
        }
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return base;
}

static int fake_unmap(void *user, void *base, size_t bytes)
{
    fake_system *fake = user;
    int rc = -1;
    (void)pthread_mutex_lock(&fake->mutex);
    if (!system_call_fails(fake, FAKE_UNMAP)) {
        rc = munmap(base, bytes);
        if (rc == 0) {
            note_unmapped(fake, base, bytes);
        }
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return rc;
}

static int fake_protect(void *user, void *base, size_t bytes, int protection)
{
    fake_system *fake = user;
    (void)pthread_mutex_lock(&fake->mutex);
    int rc = system_call_fails(fake, FAKE_PROTECT) ? -1 : mprotect(base, bytes, protection);
    (void)pthread_mutex_unlock(&fake->mutex);
    return rc;
}

static int fake_advise(void *user, void *base, size_t bytes, int advice)
{
    fake_system *fake = user;
    (void)pthread_mutex_lock(&fake->mutex);
    int rc = system_call_fails(fake, FAKE_ADVISE) ? -1 : madvise(base, bytes, advice);
    (void)pthread_mutex_unlock(&fake->mutex);
    return rc;
}

static int fake_resident(void *user, void *base, size_t bytes, unsigned char *pages)
{
    fake_system *fake = user;
    (void)pthread_mutex_lock(&fake->mutex);
    int rc = system_call_fails(fake, FAKE_RESIDENT) ? -1 : mincore(base, bytes, pages);
    (void)pthread_mutex_unlock(&fake->mutex);
    return rc;
}

void fake_system_init(fake_system *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->system = (strata_host_system){.user = fake,
                                        .map = fake_map,
                                        .unmap = fake_unmap,
                                        .protect = fake_protect,
                                        .advise = fake_advise,
                                        .resident = fake_resident};
    fake->fault_call = FAKE_ANY;
    (void)pthread_mutex_init(&fake->mutex, NULL);
}

void fake_system_fini(fake_system *fake)
{
    for (size_t i = 0; i < FAKE_MAPPINGS_MAX; i++) {
        if (fake->mappings[i].base != NULL) {
            (void)munmap(fake->mappings[i].base, fake->mappings[i].bytes);
        }
    }
    (void)pthread_mutex_destroy(&fake->mutex);
}

void fake_system_fail(fake_system *fake, fake_call call, uint64_t nth, bool from_then_on, int error)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->fault = (fake_fault){.nth = nth, .from_then_on = from_then_on};
    fake->fault_call = call;
    fake->fault_errno = error;
    (void)pthread_mutex_unlock(&fake->mutex);
}

/* Keeps what was counted: a test heals first and asks afterwards. */
void fake_system_heal(fake_system *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->fault.nth = 0;
    (void)pthread_mutex_unlock(&fake->mutex);
}

uint64_t fake_system_injected(fake_system *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    uint64_t injected = fake->fault.injected;
    (void)pthread_mutex_unlock(&fake->mutex);
    return injected;
}

uint64_t fake_system_calls(fake_system *fake, fake_call call)
{
    (void)pthread_mutex_lock(&fake->mutex);
    uint64_t count = 0;
    for (int i = 0; i < FAKE_CALL_COUNT_; i++) {
        count += call == FAKE_ANY || call == (fake_call)i ? fake->calls[i] : 0;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return count;
}

size_t fake_system_live(fake_system *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    size_t live = fake->live_mappings;
    (void)pthread_mutex_unlock(&fake->mutex);
    return live;
}

bool fake_system_is_clean(fake_system *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    bool clean = fake->live_mappings == 0 && fake->partial_unmaps == 0 && fake->stray_unmaps == 0;
    (void)pthread_mutex_unlock(&fake->mutex);
    return clean;
}

/* Precedes every block, so that what a test leaks on purpose can be freed at its end. */
struct fake_block {
    fake_block *next;
    fake_block *previous;
    max_align_t block[];
};

static void *fake_allocate(void *user, size_t bytes)
{
    fake_memory *fake = user;
    fake_block *head = NULL;
    (void)pthread_mutex_lock(&fake->mutex);
    fake->allocations++;
    if (!fake_fault_is_due(&fake->fault)) {
        head = malloc(sizeof *head + bytes);
    }
    if (head != NULL) {
        head->next = fake->blocks;
        head->previous = NULL;
        if (fake->blocks != NULL) {
            fake->blocks->previous = head;
        }
        fake->blocks = head;
        fake->live_blocks++;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return head != NULL ? head->block : NULL;
}

static void fake_free(void *user, void *block)
{
    fake_memory *fake = user;
    if (block == NULL) {
        return;
    }
    fake_block *head = (fake_block *)(void *)((char *)block - offsetof(fake_block, block));
    (void)pthread_mutex_lock(&fake->mutex);
    if (head->previous != NULL) {
        head->previous->next = head->next;
    } else {
        fake->blocks = head->next;
    }
    if (head->next != NULL) {
        head->next->previous = head->previous;
    }
    fake->live_blocks--;
    (void)pthread_mutex_unlock(&fake->mutex);
    free(head);
}

void fake_memory_init(fake_memory *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->memory = (strata_host_memory){.user = fake, .allocate = fake_allocate, .free = fake_free};
    (void)pthread_mutex_init(&fake->mutex, NULL);
}

void fake_memory_fini(fake_memory *fake)
{
    while (fake->blocks != NULL) {
        fake_block *next = fake->blocks->next;
        free(fake->blocks);
        fake->blocks = next;
    }
    (void)pthread_mutex_destroy(&fake->mutex);
}

void fake_memory_fail(fake_memory *fake, uint64_t nth, bool from_then_on)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->fault = (fake_fault){.nth = nth, .from_then_on = from_then_on};
    (void)pthread_mutex_unlock(&fake->mutex);
}

void fake_memory_heal(fake_memory *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->fault.nth = 0;
    (void)pthread_mutex_unlock(&fake->mutex);
}

uint64_t fake_memory_injected(fake_memory *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    uint64_t injected = fake->fault.injected;
    (void)pthread_mutex_unlock(&fake->mutex);
    return injected;
}

size_t fake_memory_live(fake_memory *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    size_t live = fake->live_blocks;
    (void)pthread_mutex_unlock(&fake->mutex);
    return live;
}

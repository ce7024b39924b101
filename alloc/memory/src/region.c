/* region.c - the account and the growth of one range; the backend does the work.
 *
 * Order in every operation that takes memory: fork rule, gate, the region's lock, budget, backend;
 * and everything undone the other way round where a step fails. Returning takes the gate as its
 * closer, unless whoever tears down has closed it already.
 *
 * Never hands out allocations, never touches the range. */
#include <strata/region.h>

#include "internal.h"

#include <assert.h>
#include <stdio.h>

struct strata_region {
    strata_backend *backend;
    strata_ledger *ledger;
    const strata_host_memory *memory;
    char label[STRATA_LABEL_MAX];
    strata_range range;
    size_t granularity;
    size_t step_bytes; /* of the next growth */
    size_t step_max_bytes;
    size_t committed; /* atomic: read without the lock */
    size_t committed_peak;
    size_t extents;
    uint32_t pages;        /* atomic: what the range got; a commit may change it */
    bool released;         /* atomic */
    bool stranded;         /* atomic */
    pthread_mutex_t mutex; /* growth and trim */
};

void strata_region_config_init(strata_region_config *config)
{
    *config = (strata_region_config){
        .label = "region",
        .reserve_bytes = (size_t)64 << 20,
        .step_bytes = (size_t)2 << 20,
        .step_max_bytes = (size_t)64 << 20,
        .pages = STRATA_PAGES_THP,
        .pages_fallback = true,
        .prefault_threads = 1,
    };
}

/* --- creation ----------------------------------------------------------------------------------*/

/* Rounds the configured sizes into the region. */
static strata_status plan(strata_region *region, const strata_region_config *config, size_t *first,
                          size_t *reserve, strata_error *err)
{
    size_t grain = region->backend->ops->granularity(region->backend, config->pages);
    if (config->reserve_bytes == 0) {
        return strata_error_set(err, STRATA_INVALID,
                                "`reserve` is 0; give the largest size that "
                                "this region may reach");
    }
    if (!strata_size_align_up(config->reserve_bytes, grain, reserve) ||
        !strata_size_align_up(config->first_bytes, grain, first) ||
        *reserve > (size_t)INTPTR_MAX / 2) {
        return strata_error_set(err, STRATA_INVALID,
                                "`reserve` of %zu bytes is more than addresses can hold; lower it",
                                config->reserve_bytes);
    }
    if (*first > *reserve) {
        return strata_error_set(err, STRATA_INVALID,
                                "`first` (%zu bytes) is larger than `reserve` (%zu bytes)",
                                config->first_bytes, config->reserve_bytes);
    }
    if (!region->backend->ops->can_grow) {
        *first = *reserve;
    }
    size_t step = config->step_bytes > 0 ? config->step_bytes : grain;
    size_t step_max = config->step_max_bytes > step ? config->step_max_bytes : step;
    region->granularity = grain;
    if (!strata_size_align_up(step, grain, &region->step_bytes) ||
        !strata_size_align_up(step_max, grain, &region->step_max_bytes)) {
        return strata_error_set(err, STRATA_INVALID, "`step` or `step_max` wraps around");
    }
    return STRATA_OK;
}

/* Enters the gate for one operation that asks for memory. A backend without a gate has none. */
static strata_status enter(strata_region *region, strata_pass *pass, strata_error *err)
{
    strata_backend *backend = region->backend;
    if (backend->gate == NULL) {
        return STRATA_OK;
    }
    return strata_gate_enter(backend->gate, pass, "growth of a region",
                             strata_deadline_in(backend->gate_wait_ns), err);
}

static void leave(strata_region *region, strata_pass *pass)
{
    if (region->backend->gate != NULL) {
        strata_gate_leave(region->backend->gate, pass);
    }
}

/* Commits exactly `bytes` behind what is there; refunds them where that fails.
 * pre: inside the gate, the lock is held, the bytes are charged. */
static strata_status commit_charged(strata_region *region, size_t bytes, strata_error *err)
{
    strata_status status = region->backend->ops->commit(region->backend, &region->range,
                                                        region->committed, bytes, err);
    strata_ledger_operation(region->ledger);
    if (status != STRATA_OK) {
        strata_ledger_refund(region->ledger, bytes);
        return status;
    }
    __atomic_store_n(&region->pages, (uint32_t)region->range.pages, __ATOMIC_RELAXED);
    size_t committed = region->committed + bytes;
    region->range.committed_bytes = committed;
    __atomic_store_n(&region->extents, region->extents + 1, __ATOMIC_RELAXED);
    if (committed > region->committed_peak) {
        __atomic_store_n(&region->committed_peak, committed, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&region->committed, committed, __ATOMIC_RELEASE);
    return STRATA_OK;
}

static strata_status commit_extent(strata_region *region, size_t bytes, strata_error *err)
{
    strata_status status = strata_ledger_charge(region->ledger, bytes, err);
    return status == STRATA_OK ? commit_charged(region, bytes, err) : status;
}

static strata_status reserve_range(strata_region *region, const strata_region_config *config,
                                   size_t reserve, strata_error *err)
{
    strata_reserve_request request = {
        .bytes = reserve,
        .pages = config->pages,
        .pages_fallback = config->pages_fallback,
        .prefault = config->prefault,
        .prefault_threads = config->prefault_threads > 0 ? config->prefault_threads : 1,
    };
    strata_status status =
        region->backend->ops->reserve(region->backend, &region->range, &request, err);
    if (status == STRATA_OK) {
        region->pages = (uint32_t)region->range.pages;
        strata_ledger_reserved(region->ledger, reserve, 1);
    }
    return status;
}

/* Gives the addresses of a region back that could not be completed. */
static void unreserve(strata_region *region, strata_error *err)
{
    strata_error second = {.status = STRATA_OK};
    if (region->backend->ops->release(region->backend, &region->range, &second) == STRATA_OK) {
        strata_ledger_returned(region->ledger, region->range.reserve_bytes, 1);
    } else {
        strata_error_append(err, "; and its addresses could not be returned: %s", second.text);
    }
}

static strata_status acquire(strata_region *region, const strata_region_config *config,
                             size_t first, size_t reserve, strata_error *err)
{
    strata_pass pass;
    strata_status status = enter(region, &pass, err);
    if (status != STRATA_OK) {
        return status;
    }
    status = strata_ledger_charge(region->ledger, first, err);
    if (status == STRATA_OK) {
        status = reserve_range(region, config, reserve, err);
        if (status != STRATA_OK) {
            strata_ledger_refund(region->ledger, first);
        } else if (first > 0) {
            status = commit_charged(region, first, err);
            if (status != STRATA_OK) {
                unreserve(region, err);
            }
        }
    }
    leave(region, &pass);
    return status;
}

strata_status strata_region_create(strata_region **out, strata_backend *backend,
                                   strata_ledger *ledger, const strata_host_memory *memory,
                                   const strata_region_config *config, strata_error *err)
{
    strata_status status = strata_backend_check(backend, err);
    if (status == STRATA_OK) {
        status = strata_backend_may_map(backend, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    strata_region *region = strata_host_memory_allocate(memory, sizeof *region);
    if (region == NULL) {
        return strata_error_set(err, STRATA_NO_MEMORY, "no memory for a region's control block");
    }
    *region = (strata_region){.backend = backend, .ledger = ledger, .memory = memory};
    (void)snprintf(region->label, sizeof region->label, "%s",
                   config->label != NULL ? config->label : "region");
    (void)pthread_mutex_init(&region->mutex, NULL);

    size_t first = 0;
    size_t reserve = 0;
    status = plan(region, config, &first, &reserve, err);
    if (status == STRATA_OK) {
        status = acquire(region, config, first, reserve, err);
    }
    if (status != STRATA_OK) {
        strata_error_context(err, "%s", region->label);
        (void)pthread_mutex_destroy(&region->mutex);
        strata_host_memory_free(memory, region);
        return status;
    }
    *out = region;
    return STRATA_OK;
}

/* --- growth ------------------------------------------------------------------------------------*/

static strata_status grow_to(strata_region *region, size_t bytes, strata_error *err)
{
    size_t committed = region->committed;
    size_t room = region->range.reserve_bytes - committed;
    if (bytes <= committed) {
        return STRATA_OK; /* another thread was first */
    }
    size_t need;
    if (!strata_size_align_up(bytes - committed, region->granularity, &need) || need > room) {
        return strata_error_set(err, STRATA_LIMIT,
                                "%s: %zu bytes are needed and %zu are reserved; raise `%s.reserve`",
                                region->label, bytes, region->range.reserve_bytes, region->label);
    }
    size_t want = need > region->step_bytes ? need : region->step_bytes;
    want = want < room ? want : room;
    /* The step is a wish; what is needed may fit where it does not. */
    strata_status status = commit_extent(region, want, want > need ? NULL : err);
    if (status != STRATA_OK && want > need) {
        status = commit_extent(region, need, err);
    }
    if (status != STRATA_OK) {
        strata_error_context(err, "%s", region->label);
        return status;
    }
    if (region->step_bytes < region->step_max_bytes) {
        size_t next = region->step_bytes * 2;
        region->step_bytes = next < region->step_max_bytes ? next : region->step_max_bytes;
    }
    return STRATA_OK;
}

static strata_status closed(const strata_region *region, strata_error *err)
{
    return strata_error_set(err, STRATA_CLOSED, "%s: the region has been returned", region->label);
}

strata_status strata_region_commit(strata_region *region, size_t bytes, strata_error *err)
{
    if (__atomic_load_n(&region->released, __ATOMIC_ACQUIRE)) {
        return closed(region, err);
    }
    if (bytes <= __atomic_load_n(&region->committed, __ATOMIC_ACQUIRE)) {
        return STRATA_OK;
    }
    strata_status status = strata_backend_may_map(region->backend, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_pass pass;
    status = enter(region, &pass, err);
    if (status != STRATA_OK) {
        strata_error_context(err, "%s", region->label);
        return status;
    }
    (void)pthread_mutex_lock(&region->mutex);
    status = region->released ? closed(region, err) : grow_to(region, bytes, err);
    (void)pthread_mutex_unlock(&region->mutex);
    leave(region, &pass);
    return status;
}

/* --- returning ---------------------------------------------------------------------------------*/

/* Closes the gate for one return, unless this thread has it closed. *mine: to be opened again. */
static strata_status close_gate(strata_region *region, strata_pass *pass, bool *mine,
                                const char *doing, strata_error *err)
{
    strata_backend *backend = region->backend;
    *mine = backend->gate != NULL && !strata_gate_is_closer(backend->gate);
    if (!*mine) {
        return STRATA_OK;
    }
    return strata_gate_close(backend->gate, pass, doing, strata_deadline_in(backend->gate_wait_ns),
                             err);
}

static void open_gate(strata_region *region, strata_pass *pass, bool mine)
{
    if (mine) {
        strata_gate_open(region->backend->gate, pass);
    }
}

static strata_status trim_to(strata_region *region, size_t keep, strata_error *err)
{
    if (keep >= region->committed) {
        return STRATA_OK;
    }
    size_t bytes = region->committed - keep;
    strata_status status =
        region->backend->ops->decommit(region->backend, &region->range, keep, bytes, err);
    strata_ledger_operation(region->ledger);
    if (status != STRATA_OK) {
        strata_error_context(err, "%s", region->label);
        return status;
    }
    region->range.committed_bytes = keep;
    __atomic_store_n(&region->committed, keep, __ATOMIC_RELEASE);
    strata_ledger_refund(region->ledger, bytes);
    return STRATA_OK;
}

strata_status strata_region_trim(strata_region *region, size_t keep_bytes, strata_error *err)
{
    size_t keep;
    if (!strata_size_align_up(keep_bytes, region->granularity, &keep)) {
        return STRATA_OK; /* more than there can be: nothing lies behind it */
    }
    if (region->backend->ops->decommit == NULL) {
        return strata_error_set(err, STRATA_UNSUPPORTED, "%s: %s memory goes back whole only",
                                region->label, region->backend->ops->name);
    }
    strata_status status = strata_backend_may_map(region->backend, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_pass pass;
    bool mine;
    status = close_gate(region, &pass, &mine, "trim of a region", err);
    if (status != STRATA_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&region->mutex);
    status = region->released ? closed(region, err) : trim_to(region, keep, err);
    (void)pthread_mutex_unlock(&region->mutex);
    open_gate(region, &pass, mine);
    return status;
}

/* The range is gone, or stays as it was; the account follows. */
static strata_status return_range(strata_region *region, strata_report *out, strata_error *err)
{
    strata_status status = region->backend->ops->release(region->backend, &region->range, err);
    if (status != STRATA_OK) {
        strata_ledger_operation(region->ledger);
        __atomic_store_n(&region->stranded, true, __ATOMIC_RELAXED);
        return status;
    }
    size_t short_bytes = 0;
    char reason[STRATA_TEXT_MAX] = "";
    strata_verdict verdict = region->backend->ops->verify(region->backend, &region->range,
                                                          &short_bytes, reason, sizeof reason);
    strata_report_verdict(out, verdict, short_bytes, reason);

    strata_ledger_refund(region->ledger, region->committed);
    strata_ledger_returned(region->ledger, region->range.reserve_bytes, 1);
    __atomic_store_n(&region->committed, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&region->stranded, false, __ATOMIC_RELAXED);
    __atomic_store_n(&region->released, true, __ATOMIC_RELEASE);
    return STRATA_OK;
}

strata_status strata_region_release(strata_region *region, strata_report *out, strata_error *err)
{
    if (__atomic_load_n(&region->released, __ATOMIC_ACQUIRE)) {
        return STRATA_OK;
    }
    strata_status status = strata_backend_may_map(region->backend, err);
    if (status != STRATA_OK) {
        return status;
    }
    strata_pass pass;
    bool mine;
    status = close_gate(region, &pass, &mine, "return of a region", err);
    if (status != STRATA_OK) {
        return status;
    }
    status = return_range(region, out, err);
    open_gate(region, &pass, mine);
    return status;
}

void strata_region_destroy(strata_region *region)
{
    if (region == NULL) {
        return;
    }
    assert(region->released);
    (void)pthread_mutex_destroy(&region->mutex);
    strata_host_memory_free(region->memory, region);
}

/* --- figures -----------------------------------------------------------------------------------*/

void *strata_region_base(const strata_region *region)
{
    return region->range.base;
}

size_t strata_region_committed(const strata_region *region)
{
    return __atomic_load_n(&region->committed, __ATOMIC_ACQUIRE);
}

void strata_region_read(const strata_region *region, strata_region_info *out)
{
    *out = (strata_region_info){
        .label = region->label,
        .backend = region->backend->ops->name,
        .base = region->range.base,
        .reserve_bytes = region->range.reserve_bytes,
        .committed_bytes = strata_region_committed(region),
        .committed_peak_bytes = __atomic_load_n(&region->committed_peak, __ATOMIC_RELAXED),
        .extents = __atomic_load_n(&region->extents, __ATOMIC_RELAXED),
        .pages = (strata_pages)__atomic_load_n(&region->pages, __ATOMIC_RELAXED),
        .released = __atomic_load_n(&region->released, __ATOMIC_ACQUIRE),
        .stranded = __atomic_load_n(&region->stranded, __ATOMIC_RELAXED),
    };
}

/* support.c - see the header. */
#include "support.h"

#include <string.h>

void bench_begin(bench *b, uint64_t limit_bytes)
{
    fake_system_init(&b->system);
    fake_memory_init(&b->memory);
    ck_assert_int_eq(strata_gate_init(&b->gate, NULL), STRATA_OK);
    strata_host_backend_init(&b->host, &b->gate, &b->system.system);
    b->host.backend.gate_wait_ns = 5000000000U;
    strata_ledger_init(&b->ledger, NULL, "test", limit_bytes);
}

bool bench_is_empty(bench *b)
{
    strata_ledger_counts counts;
    strata_ledger_read(&b->ledger, &counts);
    return counts.committed_bytes == 0 && counts.reserved_bytes == 0 &&
           counts.mappings_made == counts.mappings_torn_down && fake_system_is_clean(&b->system) &&
           fake_memory_live(&b->memory) == 0;
}

void bench_end(bench *b)
{
    strata_ledger_counts counts;
    strata_ledger_read(&b->ledger, &counts);
    ck_assert_uint_eq(counts.committed_bytes, 0);
    ck_assert_uint_eq(counts.reserved_bytes, 0);
    ck_assert_uint_eq(counts.mappings_made, counts.mappings_torn_down);
    ck_assert(fake_system_is_clean(&b->system));
    ck_assert_uint_eq(fake_memory_live(&b->memory), 0);
    bench_abandon(b);
}

void bench_abandon(bench *b)
{
    strata_gate_fini(&b->gate);
    fake_memory_fini(&b->memory);
    fake_system_fini(&b->system);
}

strata_heap_config small_config(void)
{
    strata_heap_config config;
    strata_heap_config_init(&config);
    config.region.label = "run";
    config.region.reserve_bytes = 64 * MIB;
    config.region.step_bytes = 2 * MIB;
    config.region.step_max_bytes = 2 * MIB;
    config.region.pages = STRATA_PAGES_DEFAULT;
    return config;
}

strata_heap *bench_heap(bench *b, const strata_heap_config *config)
{
    strata_heap *heap = NULL;
    strata_error err = {.status = STRATA_OK};
    strata_status status =
        strata_heap_open(&heap, &b->host.backend, &b->ledger, &b->memory.memory, config, &err);
    ck_assert_msg(status == STRATA_OK, "%s", err.text);
    return heap;
}

void bench_heap_end(strata_heap *heap)
{
    strata_error err = {.status = STRATA_OK};
    strata_status status = strata_heap_close(heap, NULL, &err);
    ck_assert_msg(status == STRATA_OK, "%s", err.text);
    strata_heap_destroy(heap);
}

void *must_alloc(strata_heap *heap, size_t size, size_t align)
{
    strata_error err = {.status = STRATA_OK};
    void *block = strata_heap_alloc(heap, size, align, &err);
    ck_assert_msg(block != NULL, "%zu bytes: %s", size, err.text);
    return block;
}

static unsigned char pattern(const void *block)
{
    uintptr_t address = (uintptr_t)block;
    return (unsigned char)((address >> 4) * 37 + 1);
}

void fill(void *block, size_t bytes)
{
    memset(block, pattern(block), bytes);
}

/* Every byte equals the next one, and the first is right. */
bool is_filled(const void *block, size_t bytes)
{
    const unsigned char *at = block;
    return bytes == 0 || (at[0] == pattern(block) && memcmp(at, at + 1, bytes - 1) == 0);
}

uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

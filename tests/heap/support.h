/* support.h - what the heap's tests share: one heap over fakes that count everything. */
#ifndef STRATA_TESTS_HEAP_SUPPORT_H
#define STRATA_TESTS_HEAP_SUPPORT_H

#include <strata/heap.h>

#include "fake_backend.h"
#include "fake_system.h"

#include <check.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

/* Check's default of 4 s is short for sanitizers on a busy machine. */
#define TEST_TIMEOUT_S 60

/* A host backend, a ledger and control-block memory, all of which can be made to fail. */
typedef struct bench {
    fake_system system;
    fake_memory memory;
    strata_gate gate;
    strata_host_backend host;
    strata_ledger ledger;
} bench;

void bench_begin(bench *b, uint64_t limit_bytes);
/* Fails the test unless everything was given back: bytes, mappings, control blocks. */
void bench_end(bench *b);
/* The same question without failing. */
bool bench_is_empty(bench *b);
/* Ends a bench in which something is kept on purpose. */
void bench_abandon(bench *b);

/* 64 MiB, checked, steps of 2 MiB, plain pages. */
strata_heap_config small_config(void);

strata_heap *bench_heap(bench *b, const strata_heap_config *config); /* must succeed */
void bench_heap_end(strata_heap *heap);                              /* must succeed */

/* Must succeed. */
void *must_alloc(strata_heap *heap, size_t size, size_t align);

/* A pattern that depends on the address, and whether it is all there. */
void fill(void *block, size_t bytes);
bool is_filled(const void *block, size_t bytes);

/* xorshift: the same stream on every machine. */
uint64_t next_random(uint64_t *state);

Suite *alloc_suite(void);
Suite *environment_suite(void);
Suite *faults_suite(void);
Suite *fork_suite(void);
Suite *lane_suite(void);
Suite *refusal_suite(void);
Suite *strand_suite(void);
Suite *threads_suite(void);
Suite *untouchable_suite(void);

/* What main does when it is started as the child of the environment test. */
int environment_child(void);
#define ENVIRONMENT_CHILD "--environment-child"

#endif

/* fake_onnxruntime.h - an ONNX Runtime that does nothing but call its allocator, as told.
 *
 * A shared library with OrtGetApiBase, so that the adapter meets it as it meets the real one: by a
 * table of functions, without a header. What a session does to the allocator while it is created is
 * a script of the test's; registering, creating and unregistering fail on request. It checks the
 * order of the calls as the real one does, and counts them.
 *
 * One fake a process; the control below is its only interface beside the table. */
#ifndef STRATA_TESTS_FAKE_ONNXRUNTIME_H
#define STRATA_TESTS_FAKE_ONNXRUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_ORT_BLOCKS_MAX 64

struct OrtAllocator;
struct OrtSession;

typedef struct fake_ort_control {
    /* set by the test */
    const char *version; /* "1.28.2" */
    uint32_t newest_api; /* GetApi answers up to this */
    bool fail_default_allocator;
    bool fail_memory_info;
    bool fail_register;
    bool fail_create;           /* after the script, giving back what it took */
    bool leak_on_failed_create; /* keeps what it took: a runtime that leaks */
    bool fail_unregister;
    size_t reserve_count; /* weights that a session takes */
    size_t reserve_bytes;
    size_t allocate_count; /* and run blocks */
    size_t allocate_bytes;

    /* read by the test */
    struct OrtAllocator *registered;
    uint32_t asked_versions[32]; /* of GetApi, in order */
    size_t asked_count;
    uint64_t registers, unregisters, creates, releases;
    uint64_t overlapping; /* creates that ran at the same time: the lock is missing */
    void *leaked[FAKE_ORT_BLOCKS_MAX * 2]; /* what leak_on_failed_create kept */
    size_t leaked_count;
    uint64_t stock_calls; /* of the stock allocator, with sizes that nobody can serve */
    size_t live_statuses, live_memory_infos, live_pairs;
    char options[256]; /* "key=value,..." of AddSessionConfigEntry */
} fake_ort_control;

/* dlsym("fake_ort_get_control"). */
typedef fake_ort_control *fake_ort_get_control_fn(void);

#endif

/* support.h - what the tests of the model file readers share: opening a made file, expecting a
 * refusal, hostile ways of reading, and an allocator that fails on request. */
#ifndef STRATA_TEST_MODELFILE_SUPPORT_H
#define STRATA_TEST_MODELFILE_SUPPORT_H

#include "makers.h"

#include <modelfile.h>

#include <stdbool.h>

/* A folder of its own for each test; in Check's fork mode they never meet. */
void support_setup(void);
void support_teardown(void);
char *support_path(const char *name); /* in that folder; free() it */

/* Writes the bytes (and frees them), opens the file and returns the status; the error is kept for
 * support_text(). *file is NULL unless OK. */
strata_status support_open(modelfile **file, maker_bytes bytes, const modelfile_io *io);
const char *support_text(void);
strata_status support_status(void);

/* One line, and what follows its last colon is a remedy, whole. */
void support_check_remedy(const char *text);

/* The file is refused as INVALID; the one line has every one of the (NULL-terminated) words, and
 * ends with a remedy. */
#define support_refused(bytes, ...) support_refused_with(bytes, (const char *const[]){__VA_ARGS__})
void support_refused_with(maker_bytes bytes, const char *const *words);

/* Opens, fails the test where that is refused. */
modelfile *support_opened(maker_bytes bytes);

/* The promises that hold for every file that opens, whatever is in it. */
void support_check_file(const modelfile *file);

const modelfile_tensor *support_tensor(const modelfile *file, const char *name);

/* Descriptors open in this process. */
int support_descriptors(void);

/* ---- hostile reading ---- */

typedef struct support_pread {
    size_t bytes_max;      /* of one answer; 0: all that is asked */
    bool interrupt;        /* EINTR before every answer */
    uint64_t shrunk_bytes; /* the file ends here; 0: where it does */
    size_t shrink_after;   /* so many answers from now on */
    bool shrink_to_zeros;  /* the file is really truncated, and what is gone reads as zeros: once */
    int fail_errno;        /* answers this instead; 0: never */
    bool shrank;           /* somebody asked for bytes that are gone */
    size_t answers;        /* ours */
    bool interrupted;      /* ours */
} support_pread;

modelfile_io support_io(support_pread *how);

/* Opens the (valid) file again and again, and lets it become shorter before every read in its turn.
 * It must open, or say so as SYSTEM; never INVALID. Returns how many reads there were. Frees. */
size_t support_shrink_at_every_read(maker_bytes whole);

/* ---- memory ---- */

/* Between begin and end, which must have no check of the framework between them (it allocates):
 * allocations of the readers and of jansson fail from the nth (1 is the first; 0: none)
 * until fail_count have failed. Counts what is asked and what is alive. */
typedef struct support_memory {
    size_t fail_at, fail_count;
    size_t calls, live_bytes, peak_bytes, live_blocks;
} support_memory;

extern support_memory support_allocations;

void support_memory_begin(size_t fail_at, size_t fail_count);
void support_memory_end(void);

#endif

/* modelfile.h - what a GGUF or safetensors file says about its tensors, checked.
 *
 * Opens a file, validates its header against the file's real size and gives a list of tensors with
 * absolute offsets and exact byte counts. It never reads tensor data on open, never maps the file,
 * and knows nothing of arenas: whoever loads decides where the bytes go. One thread at a time.
 *
 * Everything a header claims is checked before it is believed: products and sums against overflow,
 * counts against the bytes that could hold them, ranges against the end of the file and against
 * each other. A refused file leaves nothing open and allocates no more than its own header could
 * need. The error names the tensor or key; the caller adds the file's name.
 *
 * Formats: GGUF v2 and v3, little-endian (ggml's gguf.md); safetensors (its README's format
 * section: 8 bytes header length, at most 100,000,000, then JSON). */
#ifndef STRATA_MODELFILE_H
#define STRATA_MODELFILE_H

#include <strata/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODELFILE_RANK_MAX 8

typedef enum modelfile_format { MODELFILE_GGUF, MODELFILE_SAFETENSORS } modelfile_format;

typedef struct modelfile_tensor {
    const char *name;                   /* owned by the modelfile, UTF-8, terminated */
    const char *type;                   /* "F32", "Q6_K", "BF16": the format's own word, static */
    uint32_t rank;                      /* 0 is a scalar; GGUF has at most 4 */
    uint64_t shape[MODELFILE_RANK_MAX]; /* as written in the file: GGUF fastest first */
    uint64_t offset;                    /* bytes from the start of the file */
    uint64_t bytes;                     /* exact, 0 where a dimension is 0 */
} modelfile_tensor;

typedef struct modelfile {
    modelfile_format format;
    uint32_t version; /* GGUF: 2 or 3; safetensors: 0 */
    uint64_t file_bytes;
    uint64_t data_offset;    /* where tensor data begins */
    uint64_t alignment;      /* GGUF general.alignment, 1 for safetensors */
    uint64_t metadata_count; /* keys of the file beside its tensors */
    uint64_t weight_bytes;   /* the sum of all tensors' bytes */
    size_t tensor_count;
    const modelfile_tensor *tensors; /* in file order of their offsets */
    int fd; /* open for reading, owned; for the loader's own pread or mmap */
} modelfile;

/* How bytes come from a descriptor; the seam for tests (short reads, EINTR, a file that shrinks).
 * NULL means pread(2). */
typedef struct modelfile_io {
    ssize_t (*pread)(void *user, int fd, void *buffer, size_t bytes, off_t offset);
    void *user;
} modelfile_io;

/* INVALID with one line, "where: what is wrong: what to do about it"; SYSTEM with errno where the
 * file cannot be read, and without where it has become shorter meanwhile, which is never called
 * INVALID; NO_MEMORY. *out is untouched unless OK. The line is safe to print and ends with the
 * remedy: names are cut to 96 bytes or less and their control characters replaced. */
strata_status modelfile_open(modelfile **out, const char *path, const modelfile_io *io,
                             strata_error *err);

/* Reads [offset, offset + bytes) of the file into `into`, across short reads and EINTR. SYSTEM
 * with the byte count that was missing when the file has become shorter meanwhile; INVALID for a
 * range outside the file as it was opened. What `into` holds after a failure is unspecified. */
strata_status modelfile_read(const modelfile *file, const modelfile_io *io, void *into,
                             uint64_t offset, size_t bytes, strata_error *err);

/* The natural alignment of the tensor's type, in bytes: what its address has to be a multiple of
 * before somebody may read it through a pointer to its elements, or for a quantised type, to its
 * blocks. 1, 2, 4 or 8; a C64 has two floats and wants 4, a block what its largest member wants
 * (ggml-common.h: 2 for one f16 scale, 4 for the pair that is also read as one half2 or for an f32,
 * 1 where all is bytes). Neither format guarantees it: general.alignment may be 1, and safetensors
 * has none. 1 for a type that no file here can have. */
size_t modelfile_type_align(const modelfile_tensor *tensor);

/* The metadata of a file as far as a loader plans with it: GGUF integers and booleans that are not
 * negative, and strings of up to MODELFILE_TEXT_MAX bytes without a NUL (safetensors has strings
 * only). Arrays, floats and longer strings are checked and passed over: false or NULL, like a key
 * that is not there. A text is owned by the modelfile. */
#define MODELFILE_TEXT_MAX 4096

bool modelfile_find_uint(const modelfile *file, const char *key, uint64_t *value);
const char *modelfile_find_text(const modelfile *file, const char *key);

const char *modelfile_format_name(modelfile_format format); /* "gguf", "safetensors" */

void modelfile_close(modelfile *file); /* NULL allowed */

#ifdef __cplusplus
}
#endif

#endif

/* makers.h - makes GGUF and safetensors files, right and wrong ones, for tests and fuzzing.
 *
 * A file is built in memory and written in one go. The makers write what they are told, wherever
 * that is nonsense; they only keep the counts and lengths that nobody asked to falsify. A failure
 * of the maker itself (no memory, disk full) is a broken test and aborts with a message. Knows
 * nothing of the readers. */
#ifndef STRATA_TEST_MAKERS_H
#define STRATA_TEST_MAKERS_H

#include <stddef.h>
#include <stdint.h>

/* ---- bytes ---- */

typedef struct maker_bytes {
    unsigned char *data;
    size_t count, capacity;
} maker_bytes;

void maker_put(maker_bytes *bytes, const void *data, size_t count);
void maker_zeros(maker_bytes *bytes, size_t count);
void maker_u8(maker_bytes *bytes, uint8_t value);
void maker_u32(maker_bytes *bytes, uint32_t value);
void maker_u64(maker_bytes *bytes, uint64_t value);
void maker_string(maker_bytes *bytes, const char *text); /* GGUF's: length, then bytes */
void maker_pad(maker_bytes *bytes, size_t multiple);
void maker_write(const maker_bytes *bytes, const char *path);
void maker_free(maker_bytes *bytes);

/* Bytes that differ from place to place and from seed to seed, the same in every run. */
void maker_pattern(void *into, size_t count, uint64_t seed);

/* ---- a folder of its own ---- */

char *maker_directory(void);                               /* a new empty one; free() it */
char *maker_path(const char *directory, const char *name); /* free() it */
void maker_directory_remove(const char *directory);        /* with the files in it */

/* ---- GGUF ---- */

enum { MAKER_F32 = 0, MAKER_F16 = 1, MAKER_Q4_0 = 2, MAKER_Q6_K = 14, MAKER_I8 = 24 };

enum {
    MAKER_VALUE_UINT8 = 0,
    MAKER_VALUE_UINT32 = 4,
    MAKER_VALUE_INT32 = 5,
    MAKER_VALUE_STRING = 8,
    MAKER_VALUE_ARRAY = 9,
    MAKER_VALUE_UINT64 = 10
};

typedef struct maker_gguf {
    uint32_t version;
    uint64_t tensor_count, key_count;
    size_t alignment;
    maker_bytes keys, tensors, data;
} maker_gguf;

void maker_gguf_begin(maker_gguf *gguf, uint32_t version);
void maker_gguf_alignment(maker_gguf *gguf, uint32_t alignment); /* the key, and what is used */
void maker_gguf_key_u32(maker_gguf *gguf, const char *key, uint32_t value);
void maker_gguf_key_string(maker_gguf *gguf, const char *key, const char *value);
/* The value as it stands in the file, without its type. */
void maker_gguf_key_raw(maker_gguf *gguf, const char *key, uint32_t type, const void *value,
                        size_t count);
/* Appends the data at the next aligned offset, which is returned (relative to the data). */
uint64_t maker_gguf_add_tensor(maker_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                               const uint64_t *shape, const void *data, size_t count);
/* Only describes: no data, any offset. */
void maker_gguf_claim_tensor(maker_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                             const uint64_t *shape, uint64_t offset);
/* The whole file; the maker is empty afterwards. */
maker_bytes maker_gguf_finish(maker_gguf *gguf);

/* ---- safetensors ---- */

typedef struct maker_safetensors {
    maker_bytes members, data;
} maker_safetensors;

void maker_safetensors_begin(maker_safetensors *file);
/* A member of the header's object, as JSON text on both sides. */
void maker_safetensors_member(maker_safetensors *file, const char *key, const char *json);
void maker_safetensors_add_tensor(maker_safetensors *file, const char *name, const char *dtype,
                                  uint32_t rank, const uint64_t *shape, const void *data,
                                  size_t count);
/* Only describes: no data, any offsets. */
void maker_safetensors_claim_tensor(maker_safetensors *file, const char *name, const char *dtype,
                                    uint32_t rank, const uint64_t *shape, uint64_t begin,
                                    uint64_t end);
maker_bytes maker_safetensors_finish(maker_safetensors *file);
/* A file with this header and this many zeros of data. */
maker_bytes maker_safetensors_raw(const char *header, size_t data_bytes);

#endif

/* internal.h - what the readers of tools/modelfile share and nobody else sees.
 *
 * Two pieces stand between a format and the public structure: the reader (buffered bytes of the
 * file, none past its end) and the table (tensors, metadata and the text that they point to).
 * gguf.c and safetensors.c know both and nothing of each other. */
#ifndef STRATA_MODELFILE_INTERNAL_H
#define STRATA_MODELFILE_INTERNAL_H

#include "modelfile.h"

/* ---- what is said of a file that is refused: refusal.c ---- */

/* What a user can do about it; every refusal ends with one of these, or with a word on the one
 * mistake that modelfile.c knows. */
#define MODELFILE_DAMAGED          "damaged, fetch it again"
#define MODELFILE_CUT_SHORT        "cut short or damaged, fetch it again"
#define MODELFILE_CONVERT          "convert it again with a current tool"
#define MODELFILE_FETCH_OR_CONVERT "fetch it again, or convert it again with a current tool"
#define MODELFILE_OTHER_TYPE       "convert it to another type, or use a newer strata"
#define MODELFILE_QUANTISE         "quantise it again"
#define MODELFILE_SMALLER_BLOCKS   "quantise it to a type with smaller blocks"
#define MODELFILE_LITTLE_ENDIAN    "convert it to little-endian"
#define MODELFILE_SPLIT            "split the model into several files"

/* Not of a refusal, but of a file that changes under us (SYSTEM). */
#define MODELFILE_WAIT "wait for its writer, then try again"

/* INVALID, with "what is wrong: remedy" as its text. */
strata_status modelfile__refuse(strata_error *err, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* NO_MEMORY, with a remedy of its own. */
strata_status modelfile__no_memory(strata_error *err, size_t bytes, const char *what);

bool modelfile__is_utf8(const char *text, size_t bytes);

/* A name or a foreign message made fit for an error: cut, and what is no UTF-8 replaced. (Control
 * characters are strata_error_set's to replace.) By value, so that it can stand among printf's
 * arguments. */
#define MODELFILE_QUOTED_MAX 96

typedef struct modelfile_quoted {
    char text[MODELFILE_QUOTED_MAX + 4];
} modelfile_quoted;

modelfile_quoted modelfile__quoted(const char *name);

/* Puts "what 'name': " before the text of a set error. Where both do not fit, the name yields:
 * the remedy at the end is what the reader needs. */
void modelfile__context(strata_error *err, const char *what, const char *name);

/* ---- bytes: reader.c ---- */

typedef struct modelfile_reader {
    int fd;
    const modelfile_io *io;
    uint64_t end;           /* the file's size when it was opened */
    uint64_t position;      /* of the next byte to take; never past `end` */
    uint64_t buffer_offset; /* where in the file the buffer starts */
    size_t buffer_bytes;    /* how much of it is filled */
    size_t buffer_capacity; /* no more than the file has */
    unsigned char *buffer;
} modelfile_reader;

strata_status modelfile__reader_init(modelfile_reader *reader, int fd, const modelfile_io *io,
                                     uint64_t end, strata_error *err);
void modelfile__reader_fini(modelfile_reader *reader);

uint64_t modelfile__reader_left(const modelfile_reader *reader);

/* Take copies, skip does not even read. INVALID when the file has fewer bytes left. */
strata_status modelfile__reader_take(modelfile_reader *reader, void *into, uint64_t bytes,
                                     strata_error *err);
strata_status modelfile__reader_skip(modelfile_reader *reader, uint64_t bytes, strata_error *err);
strata_status modelfile__reader_u32(modelfile_reader *reader, uint32_t *value, strata_error *err);
strata_status modelfile__reader_u64(modelfile_reader *reader, uint64_t *value, strata_error *err);

/* Little-endian, whatever the machine; 1 to 8 bytes. */
uint64_t modelfile__little(const unsigned char *bytes, size_t count);

strata_status modelfile__pread(int fd, const modelfile_io *io, void *into, uint64_t offset,
                               size_t bytes, strata_error *err);

/* ---- what the file says: table.c ---- */

typedef enum modelfile_value_kind {
    MODELFILE_VALUE_OTHER, /* checked and passed over */
    MODELFILE_VALUE_UINT,
    MODELFILE_VALUE_TEXT
} modelfile_value_kind;

typedef struct modelfile_entry {
    const char *key;
    modelfile_value_kind kind;
    uint64_t number;
    const char *text;
} modelfile_entry;

typedef struct modelfile_block modelfile_block; /* of text: addresses stay when it grows */

/* `shown` comes first: the public pointer is a pointer to this. */
typedef struct modelfile_table {
    modelfile shown;
    modelfile_tensor *tensors;
    size_t tensor_capacity;
    modelfile_entry *entries; /* by key once settled */
    size_t entry_count, entry_capacity;
    modelfile_block *blocks;
} modelfile_table;

/* The tables grow as records are really read, never by what a count in the file claims. A pointer
 * from add is good until the next add. */
strata_status modelfile__tensor_add(modelfile_table *table, modelfile_tensor **tensor,
                                    strata_error *err);
strata_status modelfile__entry_add(modelfile_table *table, modelfile_entry **entry,
                                   strata_error *err);
/* Room for `bytes` of text and a terminator (set), at an address that stays until close. */
strata_status modelfile__text_add(modelfile_table *table, size_t bytes, char **text,
                                  strata_error *err);

/* Sort, then refuse what appears twice; in n log n. */
strata_status modelfile__entries_settle(modelfile_table *table, strata_error *err);
/* The same for tensor names; leaves the tensors in order of their offsets, and their sum. */
strata_status modelfile__tensors_settle(modelfile_table *table, strata_error *err);

/* Frees all but the table itself and the descriptor. */
void modelfile__table_fini(modelfile_table *table);

/* `tensor->bytes` and `tensor->offset` against the size of the file. */
strata_status modelfile__tensor_inside(const modelfile_table *table, const modelfile_tensor *tensor,
                                       strata_error *err);

/* What both formats refuse in the same words: a tensor that begins before `end`, and an offset that
 * has `more` behind it than 64 bits can count. */
strata_status modelfile__refuse_overlap(const modelfile_tensor *tensor, uint64_t end,
                                        strata_error *err);
strata_status modelfile__refuse_wrap(const modelfile_table *table, const modelfile_tensor *tensor,
                                     uint64_t offset, uint64_t more, strata_error *err);

/* The product of a shape, exact: 0 with any dimension 0, false where 64 bits do not hold it. */
bool modelfile__elements(const modelfile_tensor *tensor, uint64_t *elements);

/* ---- the formats ---- */

strata_status modelfile__gguf_read(modelfile_table *table, modelfile_reader *reader,
                                   strata_error *err);
strata_status modelfile__safetensors_read(modelfile_table *table, modelfile_reader *reader,
                                          strata_error *err);

/* The natural alignment of a type by its name, 0 where the format has none of that name. */
size_t modelfile__gguf_type_align(const char *type);
size_t modelfile__safetensors_type_align(const char *type);

#endif

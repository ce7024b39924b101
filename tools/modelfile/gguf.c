/* gguf.c - reads the header of a GGUF file, version 2 or 3, little-endian.
 *
 * The layout is ggml's docs/gguf.md: magic, version, the two counts, the keys with their values,
 * the tensors' descriptions, padding, data. Types and block sizes are those of ggml's type table.
 *
 * Three decisions. Nested arrays are walked with a small stack of counts, not by recursion: the
 * depth is the file's choice, the stack is ours. Space between tensors is allowed, since gguf.md
 * asks only for aligned offsets; overlap is not. A tensor without bytes needs none of the file, so
 * it may stand where the padded end of the file would be. */
#include "internal.h"

#include <inttypes.h>
#include <string.h>

#define VERSION_MIN       2
#define VERSION_MAX       3
#define RANK_MAX          4     /* ggml's GGML_MAX_DIMS */
#define NAME_BYTES_MAX    65535 /* gguf.md's limit for keys; names are shorter in practice */
#define KEYS_MAX          65536 /* real files have dozens */
#define TENSORS_MAX       (1u << 20)
#define ARRAY_DEPTH_MAX   16
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX     (1u << 30) /* the largest page of any machine we know */
#define KEY_ALIGNMENT     "general.alignment"

/* The least that one record can take of the file: what a count is compared with. */
#define KEY_BYTES_MIN    13 /* length 8, no name, type 4, value 1 */
#define TENSOR_BYTES_MIN 24 /* length 8, no name, rank 4, type 4, offset 8 */
#define ARRAY_BYTES_MIN  12 /* type 4, count 8 */
#define STRING_BYTES_MIN 8  /* length 8 */

typedef struct ggml_type {
    const char *name;
    uint32_t block_elements; /* 0: the number was given up, no file may use it */
    uint32_t block_bytes;
    uint32_t align; /* of the block's largest member; a pair of f16 is also read as one half2 */
} ggml_type;

static const ggml_type ggml_types[] = {
    {"F32", 1, 4, 4},        {"F16", 1, 2, 2},        {"Q4_0", 32, 18, 2},
    {"Q4_1", 32, 20, 4},     {"Q4_2", 0, 0, 0},       {"Q4_3", 0, 0, 0},
    {"Q5_0", 32, 22, 2},     {"Q5_1", 32, 24, 4},     {"Q8_0", 32, 34, 2},
    {"Q8_1", 32, 36, 4},     {"Q2_K", 256, 84, 4},    {"Q3_K", 256, 110, 2},
    {"Q4_K", 256, 144, 4},   {"Q5_K", 256, 176, 4},   {"Q6_K", 256, 210, 2},
    {"Q8_K", 256, 292, 4},   {"IQ2_XXS", 256, 66, 2}, {"IQ2_XS", 256, 74, 2},
    {"IQ3_XXS", 256, 98, 2}, {"IQ1_S", 256, 50, 2},   {"IQ4_NL", 32, 18, 2},
    {"IQ3_S", 256, 110, 2},  {"IQ2_S", 256, 82, 2},   {"IQ4_XS", 256, 136, 2},
    {"I8", 1, 1, 1},         {"I16", 1, 2, 2},        {"I32", 1, 4, 4},
    {"I64", 1, 8, 8},        {"F64", 1, 8, 8},        {"IQ1_M", 256, 56, 1},
    {"BF16", 1, 2, 2},       {"Q4_0_4_4", 0, 0, 0},   {"Q4_0_4_8", 0, 0, 0},
    {"Q4_0_8_8", 0, 0, 0},   {"TQ1_0", 256, 54, 2},   {"TQ2_0", 256, 66, 2},
    {"IQ4_NL_4_4", 0, 0, 0}, {"IQ4_NL_4_8", 0, 0, 0}, {"IQ4_NL_8_8", 0, 0, 0},
    {"MXFP4", 32, 17, 1},    {"NVFP4", 64, 36, 1},    {"Q1_0", 128, 18, 2},
    {"Q2_0", 64, 18, 2},
};

#define GGML_TYPE_COUNT (sizeof ggml_types / sizeof ggml_types[0])

size_t modelfile__gguf_type_align(const char *type)
{
    for (size_t i = 0; i < GGML_TYPE_COUNT; i++) {
        if (strcmp(ggml_types[i].name, type) == 0) {
            return ggml_types[i].align;
        }
    }
    return 0;
}

/* The value types of metadata, by number. */
enum { VALUE_BOOL = 7, VALUE_STRING = 8, VALUE_ARRAY = 9, VALUE_COUNT = 13, VALUE_UINT32 = 4 };

typedef struct value_type {
    const char *name;
    uint32_t bytes; /* 0: no fixed size */
    bool is_integer, is_signed;
} value_type;

static const value_type value_types[VALUE_COUNT] = {
    {"uint8", 1, true, false},   {"int8", 1, true, true},    {"uint16", 2, true, false},
    {"int16", 2, true, true},    {"uint32", 4, true, false}, {"int32", 4, true, true},
    {"float32", 4, false, true}, {"bool", 1, true, false},   {"string", 0, false, false},
    {"array", 0, false, false},  {"uint64", 8, true, false}, {"int64", 8, true, true},
    {"float64", 8, false, true},
};

/* ---- the fixed start ---- */

static strata_status check_version(uint32_t version, strata_error *err)
{
    uint32_t swapped = __builtin_bswap32(version);
    if (version > VERSION_MAX && swapped >= 1 && swapped <= UINT16_MAX) {
        return modelfile__refuse(err, MODELFILE_LITTLE_ENDIAN,
                                 "a big-endian GGUF file (version %" PRIu32 ")", swapped);
    }
    if (version < VERSION_MIN || version > VERSION_MAX) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "GGUF version %" PRIu32 ", versions 2 and 3 can be read", version);
    }
    return STRATA_OK;
}

static strata_status check_count(const modelfile_reader *reader, const char *what, uint64_t count,
                                 uint64_t bytes_min, uint64_t limit, strata_error *err)
{
    uint64_t left = modelfile__reader_left(reader);
    if (count > left / bytes_min) {
        return modelfile__refuse(err, MODELFILE_CUT_SHORT,
                                 "%" PRIu64 " %s announced at byte %" PRIu64
                                 ", the file has %" PRIu64,
                                 count, what, reader->position, reader->end);
    }
    if (count > limit) {
        return modelfile__refuse(err, MODELFILE_SPLIT,
                                 "%" PRIu64 " %s, at most %" PRIu64 " can be read", count, what,
                                 limit);
    }
    return STRATA_OK;
}

static strata_status read_start(modelfile_table *table, modelfile_reader *reader,
                                uint64_t *tensor_count, uint64_t *key_count, strata_error *err)
{
    unsigned char magic[4];
    strata_status status = modelfile__reader_take(reader, magic, sizeof magic, err);
    if (status == STRATA_OK && memcmp(magic, "FUGG", sizeof magic) == 0) {
        return modelfile__refuse(err, MODELFILE_LITTLE_ENDIAN, "a big-endian GGUF file");
    }
    if (status == STRATA_OK) {
        status = modelfile__reader_u32(reader, &table->shown.version, err);
    }
    if (status == STRATA_OK) {
        status = check_version(table->shown.version, err);
    }
    if (status == STRATA_OK) {
        status = modelfile__reader_u64(reader, tensor_count, err);
    }
    if (status == STRATA_OK) {
        status = modelfile__reader_u64(reader, key_count, err);
    }
    if (status == STRATA_OK) {
        status = check_count(reader, "tensors", *tensor_count, TENSOR_BYTES_MIN, TENSORS_MAX, err);
    }
    if (status == STRATA_OK) {
        status = check_count(reader, "keys", *key_count, KEY_BYTES_MIN, KEYS_MAX, err);
    }
    return status;
}

/* ---- names and values ---- */

/* A key or a tensor's name: terminated for the caller, hence without a NUL of its own. */
static strata_status read_name(modelfile_table *table, modelfile_reader *reader, const char **name,
                               strata_error *err)
{
    uint64_t bytes = 0;
    strata_status status = modelfile__reader_u64(reader, &bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    uint64_t position = reader->position;
    if (bytes > modelfile__reader_left(reader)) {
        return modelfile__reader_skip(reader, bytes, err); /* refuses with both sizes */
    }
    if (bytes > NAME_BYTES_MAX) {
        return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                                 "a name of %" PRIu64 " bytes at byte %" PRIu64 ", at most %d",
                                 bytes, position, NAME_BYTES_MAX);
    }
    char *text = NULL;
    status = modelfile__text_add(table, (size_t)bytes, &text, err);
    if (status == STRATA_OK) {
        status = modelfile__reader_take(reader, text, bytes, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    if (memchr(text, '\0', (size_t)bytes) != NULL || !modelfile__is_utf8(text, (size_t)bytes)) {
        return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                                 "the name '%s' at byte %" PRIu64 " is not UTF-8 without NUL",
                                 modelfile__quoted(text).text, position);
    }
    *name = text;
    return STRATA_OK;
}

static strata_status read_scalar(modelfile_reader *reader, const value_type *type,
                                 modelfile_entry *entry, strata_error *err)
{
    unsigned char bytes[8];
    strata_status status = modelfile__reader_take(reader, bytes, type->bytes, err);
    if (status != STRATA_OK || !type->is_integer) {
        return status;
    }
    bool is_negative = type->is_signed && (bytes[type->bytes - 1] & 0x80) != 0;
    if (!is_negative) {
        entry->kind = MODELFILE_VALUE_UINT;
        entry->number = modelfile__little(bytes, type->bytes);
    }
    return STRATA_OK;
}

static strata_status skip_string(modelfile_reader *reader, strata_error *err)
{
    uint64_t bytes = 0;
    strata_status status = modelfile__reader_u64(reader, &bytes, err);
    return status == STRATA_OK ? modelfile__reader_skip(reader, bytes, err) : status;
}

static strata_status read_string(modelfile_table *table, modelfile_reader *reader,
                                 modelfile_entry *entry, strata_error *err)
{
    uint64_t bytes = 0;
    strata_status status = modelfile__reader_u64(reader, &bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (bytes > MODELFILE_TEXT_MAX || bytes > modelfile__reader_left(reader)) {
        return modelfile__reader_skip(reader, bytes, err);
    }
    char *text = NULL;
    status = modelfile__text_add(table, (size_t)bytes, &text, err);
    if (status == STRATA_OK) {
        status = modelfile__reader_take(reader, text, bytes, err);
    }
    if (status == STRATA_OK && memchr(text, '\0', (size_t)bytes) == NULL) {
        entry->kind = MODELFILE_VALUE_TEXT;
        entry->text = text;
    }
    return status;
}

typedef struct array_level {
    uint32_t type;
    uint64_t left; /* elements not walked yet */
} array_level;

static strata_status check_value_type(uint32_t type, strata_error *err)
{
    if (type >= VALUE_COUNT) {
        return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                                 "value type %" PRIu32 " is unknown, 0 to %d are GGUF's", type,
                                 VALUE_COUNT - 1);
    }
    return STRATA_OK;
}

static strata_status enter_array(modelfile_reader *reader, array_level *level, strata_error *err)
{
    strata_status status = modelfile__reader_u32(reader, &level->type, err);
    if (status == STRATA_OK) {
        status = check_value_type(level->type, err);
    }
    if (status == STRATA_OK) {
        status = modelfile__reader_u64(reader, &level->left, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    uint64_t least = level->type == VALUE_STRING  ? STRING_BYTES_MIN
                     : level->type == VALUE_ARRAY ? ARRAY_BYTES_MIN
                                                  : value_types[level->type].bytes;
    return check_count(reader, "array elements", level->left, least, UINT64_MAX, err);
}

/* What one level has next: all its scalars at once, one string, or one array to enter. */
static strata_status walk_level(modelfile_reader *reader, array_level *level, bool *enter,
                                strata_error *err)
{
    *enter = false;
    if (level->type == VALUE_STRING) {
        level->left--;
        return skip_string(reader, err);
    }
    if (level->type == VALUE_ARRAY) {
        level->left--;
        *enter = true;
        return STRATA_OK;
    }
    uint64_t bytes = level->left * value_types[level->type].bytes; /* checked on entering */
    level->left = 0;
    return modelfile__reader_skip(reader, bytes, err);
}

static strata_status skip_array(modelfile_reader *reader, strata_error *err)
{
    array_level levels[ARRAY_DEPTH_MAX];
    size_t depth = 1;
    strata_status status = enter_array(reader, &levels[0], err);
    while (status == STRATA_OK && depth > 0) {
        if (levels[depth - 1].left == 0) {
            depth--;
            continue;
        }
        bool enter = false;
        status = walk_level(reader, &levels[depth - 1], &enter, err);
        if (status != STRATA_OK || !enter) {
            continue;
        }
        if (depth == ARRAY_DEPTH_MAX) {
            return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                                     "arrays nested deeper than %d at byte %" PRIu64,
                                     ARRAY_DEPTH_MAX, reader->position);
        }
        status = enter_array(reader, &levels[depth], err);
        depth++;
    }
    return status;
}

static strata_status read_value(modelfile_table *table, modelfile_reader *reader,
                                modelfile_entry *entry, strata_error *err)
{
    uint32_t type = 0;
    strata_status status = modelfile__reader_u32(reader, &type, err);
    if (status == STRATA_OK) {
        status = check_value_type(type, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    if (strcmp(entry->key, KEY_ALIGNMENT) == 0 && type != VALUE_UINT32) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "the value is of type %s, not uint32",
                                 value_types[type].name);
    }
    if (type == VALUE_STRING) {
        return read_string(table, reader, entry, err);
    }
    if (type == VALUE_ARRAY) {
        return skip_array(reader, err);
    }
    return read_scalar(reader, &value_types[type], entry, err);
}

static strata_status read_keys(modelfile_table *table, modelfile_reader *reader, uint64_t count,
                               strata_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        modelfile_entry *entry = NULL;
        strata_status status = modelfile__entry_add(table, &entry, err);
        if (status != STRATA_OK) {
            return status;
        }
        status = read_name(table, reader, &entry->key, err);
        if (status != STRATA_OK) {
            strata_error_context(err, "key %" PRIu64 " of %" PRIu64, i + 1, count);
            return status;
        }
        status = read_value(table, reader, entry, err);
        if (status != STRATA_OK) {
            modelfile__context(err, "key", entry->key);
            return status;
        }
    }
    return modelfile__entries_settle(table, err);
}

static strata_status take_alignment(modelfile_table *table, strata_error *err)
{
    uint64_t alignment = ALIGNMENT_DEFAULT;
    (void)modelfile_find_uint(&table->shown, KEY_ALIGNMENT, &alignment);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > ALIGNMENT_MAX) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "key '" KEY_ALIGNMENT "' is %" PRIu64
                                 ", not a power of two up to %u",
                                 alignment, ALIGNMENT_MAX);
    }
    table->shown.alignment = alignment;
    return STRATA_OK;
}

/* ---- tensors ---- */

static strata_status check_type(const modelfile_tensor *tensor, uint32_t number, strata_error *err)
{
    if (number >= GGML_TYPE_COUNT) {
        return modelfile__refuse(err, MODELFILE_OTHER_TYPE,
                                 "type %" PRIu32 " is unknown, the newest known is %zu (%s)",
                                 number, GGML_TYPE_COUNT - 1, ggml_types[GGML_TYPE_COUNT - 1].name);
    }
    const ggml_type *type = &ggml_types[number];
    if (type->block_elements == 0) {
        return modelfile__refuse(err, MODELFILE_QUANTISE,
                                 "type %" PRIu32 " (%s) was removed from GGUF", number, type->name);
    }
    uint64_t row = tensor->rank == 0 ? 1 : tensor->shape[0];
    if (row % type->block_elements != 0) {
        return modelfile__refuse(err, MODELFILE_SMALLER_BLOCKS,
                                 "a row of %" PRIu64 " is no multiple of the %" PRIu32
                                 " elements that a block of %s has",
                                 row, type->block_elements, type->name);
    }
    return STRATA_OK;
}

static strata_status measure(modelfile_tensor *tensor, uint32_t number, strata_error *err)
{
    strata_status status = check_type(tensor, number, err);
    if (status != STRATA_OK) {
        return status;
    }
    const ggml_type *type = &ggml_types[number];
    uint64_t elements = 0;
    tensor->type = type->name;
    if (!modelfile__elements(tensor, &elements) ||
        __builtin_mul_overflow(elements / type->block_elements, type->block_bytes,
                               &tensor->bytes)) {
        return modelfile__refuse(err, MODELFILE_DAMAGED,
                                 "the product of its dimensions does not fit into 64 bits");
    }
    return STRATA_OK;
}

static strata_status read_shape(modelfile_reader *reader, modelfile_tensor *tensor,
                                strata_error *err)
{
    strata_status status = modelfile__reader_u32(reader, &tensor->rank, err);
    if (status == STRATA_OK && tensor->rank > RANK_MAX) {
        return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                                 "%" PRIu32 " dimensions, at most %d", tensor->rank, RANK_MAX);
    }
    for (uint32_t i = 0; status == STRATA_OK && i < tensor->rank; i++) {
        status = modelfile__reader_u64(reader, &tensor->shape[i], err);
        if (status == STRATA_OK && tensor->shape[i] > INT64_MAX) {
            return modelfile__refuse(err, MODELFILE_DAMAGED,
                                     "dimension %" PRIu32 " is %" PRIu64 ", at most 2^63 - 1", i,
                                     tensor->shape[i]);
        }
    }
    return status;
}

/* All of a description but its name; `offset` stays relative until place() knows the start. */
static strata_status read_tensor(modelfile_reader *reader, modelfile_tensor *tensor,
                                 strata_error *err)
{
    uint32_t number = 0;
    strata_status status = read_shape(reader, tensor, err);
    if (status == STRATA_OK) {
        status = modelfile__reader_u32(reader, &number, err);
    }
    if (status == STRATA_OK) {
        status = measure(tensor, number, err);
    }
    if (status == STRATA_OK) {
        status = modelfile__reader_u64(reader, &tensor->offset, err);
    }
    return status;
}

static strata_status read_tensors(modelfile_table *table, modelfile_reader *reader, uint64_t count,
                                  strata_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        modelfile_tensor *tensor = NULL;
        strata_status status = modelfile__tensor_add(table, &tensor, err);
        if (status != STRATA_OK) {
            return status;
        }
        status = read_name(table, reader, &tensor->name, err);
        if (status != STRATA_OK) {
            strata_error_context(err, "tensor %" PRIu64 " of %" PRIu64, i + 1, count);
            return status;
        }
        status = read_tensor(reader, tensor, err);
        if (status != STRATA_OK) {
            modelfile__context(err, "tensor", tensor->name);
            return status;
        }
    }
    return STRATA_OK;
}

static uint64_t pad(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Turns a relative offset into one from the start of the file, and checks where it leads. */
static strata_status place(const modelfile_table *table, modelfile_tensor *tensor, uint64_t start,
                           strata_error *err)
{
    uint64_t relative = tensor->offset;
    if (relative % table->shown.alignment != 0) {
        return modelfile__refuse(
            err, MODELFILE_CONVERT,
            "tensor '%s' has offset %" PRIu64 ", no multiple of the alignment %" PRIu64,
            modelfile__quoted(tensor->name).text, relative, table->shown.alignment);
    }
    if (__builtin_add_overflow(relative, start, &tensor->offset)) {
        return modelfile__refuse_wrap(table, tensor, relative, start, err);
    }
    uint64_t file_bytes = table->shown.file_bytes;
    if (tensor->bytes == 0 && tensor->offset > file_bytes &&
        tensor->offset <= pad(file_bytes, table->shown.alignment)) {
        tensor->offset = file_bytes; /* the padding that a writer left out at the very end */
    }
    return modelfile__tensor_inside(table, tensor, err);
}

static strata_status place_tensors(modelfile_table *table, uint64_t header_end, strata_error *err)
{
    uint64_t start = pad(header_end, table->shown.alignment);
    uint64_t file_bytes = table->shown.file_bytes;
    table->shown.data_offset = start < file_bytes ? start : file_bytes;
    for (size_t i = 0; i < table->shown.tensor_count; i++) {
        strata_status status = place(table, &table->tensors[i], start, err);
        if (status != STRATA_OK) {
            return status;
        }
    }
    return modelfile__tensors_settle(table, err);
}

strata_status modelfile__gguf_read(modelfile_table *table, modelfile_reader *reader,
                                   strata_error *err)
{
    uint64_t tensor_count = 0;
    uint64_t key_count = 0;
    strata_status status = read_start(table, reader, &tensor_count, &key_count, err);
    if (status == STRATA_OK) {
        status = read_keys(table, reader, key_count, err);
    }
    if (status == STRATA_OK) {
        status = take_alignment(table, err);
    }
    if (status == STRATA_OK) {
        status = read_tensors(table, reader, tensor_count, err);
    }
    if (status == STRATA_OK) {
        status = place_tensors(table, reader->position, err);
    }
    return status;
}

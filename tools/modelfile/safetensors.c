/* safetensors.c - reads the header of a safetensors file.
 *
 * The layout is the format section of the safetensors README: 8 bytes of length, a JSON object of
 * that length, data. The JSON is jansson's business from the first byte to the last; it is fed from
 * the file piece by piece, so that the text of a header is never in memory as a whole. Why it
 * parses each header twice: load_tree().
 *
 * As the reference does, this refuses bytes that belong to no tensor: what nobody describes, nobody
 * checks. Members of a tensor that the format does not know are passed over, as there. */
#include "internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000 /* the reference's MAX_HEADER_SIZE */
#define LENGTH_BYTES     8
#define KEY_METADATA     "__metadata__"

typedef struct dtype {
    const char *name;
    uint32_t unit_elements; /* the fewest that fill whole bytes, */
    uint32_t unit_bytes;    /* and these bytes */
    uint32_t align;         /* of one element; a C64 is two floats */
} dtype;

/* The reference's Dtype; F4 and F6 fill whole bytes or are refused, as there. */
static const dtype dtypes[] = {
    {"BOOL", 1, 1, 1},    {"F4", 2, 1, 1},          {"F6_E2M3", 4, 3, 1},     {"F6_E3M2", 4, 3, 1},
    {"U8", 1, 1, 1},      {"I8", 1, 1, 1},          {"F8_E5M2", 1, 1, 1},     {"F8_E4M3", 1, 1, 1},
    {"F8_E8M0", 1, 1, 1}, {"F8_E4M3FNUZ", 1, 1, 1}, {"F8_E5M2FNUZ", 1, 1, 1}, {"I16", 1, 2, 2},
    {"U16", 1, 2, 2},     {"F16", 1, 2, 2},         {"BF16", 1, 2, 2},        {"I32", 1, 4, 4},
    {"U32", 1, 4, 4},     {"F32", 1, 4, 4},         {"C64", 1, 8, 4},         {"F64", 1, 8, 8},
    {"I64", 1, 8, 8},     {"U64", 1, 8, 8},
};

static const dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return &dtypes[i];
        }
    }
    return NULL;
}

size_t modelfile__safetensors_type_align(const char *type)
{
    const dtype *known = find_dtype(type);
    return known == NULL ? 0 : known->align;
}

/* ---- from the file to a tree ---- */

/* What can be said about a header before it is a tree, by counting brackets and commas outside of
 * strings. jansson spends a few hundred bytes on each container, so a header made of nothing else
 * costs it 75 times its size; one that describes tensors has a bracket in 16 bytes and a comma in 4
 * at the very most (`"":{"dtype":"I8","shape":[],"data_offsets":[0,0]},`), and never nests deeply.
 * What is denser is refused while it is read. This parses nothing: it is right about every header
 * that is JSON, and what is not is jansson's to refuse. */
typedef struct outline {
    bool in_string;
    bool escaped;
    uint64_t depth;
    uint64_t bytes;
    uint64_t containers;
    uint64_t commas;
} outline;

#define DEPTH_MAX           8
#define TENSORS_MAX         UINT64_C(1048576) /* as many as GGUF may have */
#define CONTAINERS_MAX      (3 * TENSORS_MAX + 2)
#define CONTAINER_BYTES_MIN 12
#define COMMA_BYTES_MIN     4
#define SMALL_HEADER_BYTES  65536 /* below it nobody needs protection */

static void outline_add(outline *seen, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (seen->in_string) {
            seen->in_string = c != '"' || seen->escaped;
            seen->escaped = c == '\\' && !seen->escaped;
            continue;
        }
        seen->in_string = c == '"';
        bool opens = c == '{' || c == '[';
        seen->containers += opens ? 1 : 0;
        seen->depth += opens ? 1 : 0;
        seen->depth -= (c == '}' || c == ']') && seen->depth > 0 ? 1 : 0;
        seen->commas += c == ',' ? 1 : 0;
    }
    seen->bytes += bytes;
}

static strata_status check_outline(const outline *seen, strata_error *err)
{
    uint64_t bytes = seen->bytes + SMALL_HEADER_BYTES;
    if (seen->depth > DEPTH_MAX || seen->containers * CONTAINER_BYTES_MIN > bytes ||
        seen->commas * COMMA_BYTES_MIN > bytes) {
        return modelfile__refuse(err, MODELFILE_DAMAGED,
                                 "the header has more or deeper brackets before byte %" PRIu64
                                 " than a description of tensors, as if made to use up memory",
                                 LENGTH_BYTES + seen->bytes);
    }
    if (seen->containers > CONTAINERS_MAX) {
        return modelfile__refuse(err, MODELFILE_SPLIT,
                                 "the header has more brackets than %" PRIu64 " tensors need",
                                 TENSORS_MAX);
    }
    return STRATA_OK;
}

typedef struct feeder {
    modelfile_reader *reader;
    uint64_t left;
    outline seen;
    strata_status status;
    strata_error *err;
} feeder;

static size_t feed(void *buffer, size_t capacity, void *user)
{
    feeder *self = user;
    size_t bytes = self->left < capacity ? (size_t)self->left : capacity;
    self->status = modelfile__reader_take(self->reader, buffer, bytes, self->err);
    if (self->status != STRATA_OK) {
        return (size_t)-1; /* jansson's word for a failed read */
    }
    self->left -= bytes;
    outline_add(&self->seen, buffer, bytes);
    self->status = check_outline(&self->seen, self->err);
    return self->status == STRATA_OK ? bytes : (size_t)-1;
}

/* The key that ends before byte `end` of the file, as written there, into `key`. jansson names a
 * token in its message only where it is at most 20 bytes long, and names of tensors are longer. */
static strata_status key_before(modelfile_reader *reader, uint64_t end, char *key, size_t capacity,
                                strata_error *err)
{
    char text[MODELFILE_QUOTED_MAX - 2] = ""; /* with "..." it just fits */
    size_t bytes = end - LENGTH_BYTES < sizeof text ? (size_t)(end - LENGTH_BYTES) : sizeof text;
    reader->position = end - bytes;
    strata_status status = modelfile__reader_take(reader, text, bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    size_t stop = bytes > 0 ? bytes - 1 : 0; /* the closing quote */
    size_t start = stop;
    while (start > 0 && (text[start - 1] != '"' || (start > 1 && text[start - 2] == '\\'))) {
        start--;
    }
    (void)snprintf(key, capacity, "%s%.*s", start == 0 ? "..." : "", (int)(stop - start),
                   text + start);
    return STRATA_OK;
}

/* jansson does not say how much it wanted; the tree is larger than what it was made of. */
static strata_status refuse_memory(const modelfile_reader *reader, strata_error *err)
{
    return modelfile__no_memory(err, (size_t)reader->position, "JSON and the tree of it");
}

static strata_status refuse_json(const json_error_t *error, modelfile_reader *reader,
                                 strata_error *err)
{
    enum json_error_code code = json_error_code(error);
    uint64_t position = LENGTH_BYTES + (error->position > 0 ? (uint64_t)error->position : 0);
    if (code == json_error_duplicate_key && position <= reader->end) {
        char key[MODELFILE_QUOTED_MAX + 8];
        strata_status status = key_before(reader, position, key, sizeof key, err);
        if (status != STRATA_OK) {
            return status;
        }
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "key '%s' is there twice, the second at byte %" PRIu64,
                                 modelfile__quoted(key).text, position);
    }
    /* Where it runs out of memory inside a value, jansson returns without a word. */
    if (code == json_error_out_of_memory || error->text[0] == '\0') {
        return refuse_memory(reader, err);
    }
    return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                             "the header is not valid JSON before byte %" PRIu64 ": %s", position,
                             modelfile__quoted(error->text).text);
}

static strata_status read_length(modelfile_reader *reader, uint64_t *bytes, strata_error *err)
{
    strata_status status = modelfile__reader_u64(reader, bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (*bytes > HEADER_BYTES_MAX) {
        bool is_there = *bytes <= modelfile__reader_left(reader);
        return modelfile__refuse(err, is_there ? MODELFILE_SPLIT : MODELFILE_DAMAGED,
                                 "a header of %" PRIu64 " bytes, the format's cap is %d", *bytes,
                                 HEADER_BYTES_MAX);
    }
    if (*bytes > modelfile__reader_left(reader)) {
        return modelfile__refuse(err, MODELFILE_CUT_SHORT,
                                 "the header ends at byte %" PRIu64 ", the file has %" PRIu64,
                                 LENGTH_BYTES + *bytes, reader->end);
    }
    return STRATA_OK;
}

typedef struct parse {
    json_t *tree; /* NULL where it failed */
    size_t bytes; /* of the tree written out: what a lost character changes */
    json_error_t error;
} parse;

static strata_status parse_once(parse *result, modelfile_reader *reader, uint64_t header_bytes,
                                strata_error *err)
{
    feeder source = {.reader = reader, .left = header_bytes, .status = STRATA_OK, .err = err};
    *result = (parse){.error = {.text = ""}};
    reader->position = LENGTH_BYTES;
    json_t *tree =
        json_load_callback(feed, &source, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &result->error);
    if (source.status != STRATA_OK) {
        json_decref(tree);
        return source.status;
    }
    result->tree = tree;
    result->bytes = tree == NULL ? 0 : json_dumpb(tree, NULL, 0, JSON_COMPACT);
    return STRATA_OK;
}

static bool agree(const parse *first, const parse *second)
{
    return first->bytes == second->bytes && (first->bytes == 0) == (second->tree == NULL) &&
           first->error.position == second->error.position &&
           strcmp(first->error.text, second->error.text) == 0;
}

/* Parses twice and believes what both say. Where jansson (2.14) cannot enlarge its token, it drops
 * the character and goes on: out of memory becomes a syntax error, or a tensor by a wrong name. A
 * shortage that passes makes the two differ; one that lasts stops the second at its first step. A
 * header takes milliseconds, so the certainty is cheap; the trees are never there both. */
static strata_status load_tree(json_t **tree, modelfile_reader *reader, uint64_t header_bytes,
                               strata_error *err)
{
    parse first;
    strata_status status = parse_once(&first, reader, header_bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    json_decref(first.tree);
    parse second;
    status = parse_once(&second, reader, header_bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    if (!agree(&first, &second)) {
        json_decref(second.tree);
        return refuse_memory(reader, err);
    }
    *tree = second.tree;
    return second.tree == NULL ? refuse_json(&second.error, reader, err) : STRATA_OK;
}

/* ---- from the tree to the table ---- */

static strata_status copy_text(modelfile_table *table, const char *from, size_t bytes,
                               const char **to, strata_error *err)
{
    char *text = NULL;
    strata_status status = modelfile__text_add(table, bytes, &text, err);
    if (status == STRATA_OK) {
        memcpy(text, from, bytes);
        *to = text;
    }
    return status;
}

static strata_status read_entry(modelfile_table *table, const char *key, const json_t *value,
                                strata_error *err)
{
    if (!json_is_string(value)) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 KEY_METADATA " key '%s' is not a string, as the format demands",
                                 modelfile__quoted(key).text);
    }
    modelfile_entry *entry = NULL;
    strata_status status = modelfile__entry_add(table, &entry, err);
    if (status == STRATA_OK) {
        status = copy_text(table, key, strlen(key), &entry->key, err);
    }
    size_t bytes = json_string_length(value);
    const char *text = json_string_value(value);
    if (status != STRATA_OK || bytes > MODELFILE_TEXT_MAX || strlen(text) != bytes) {
        return status;
    }
    entry->kind = MODELFILE_VALUE_TEXT;
    return copy_text(table, text, bytes, &entry->text, err);
}

static strata_status read_metadata(modelfile_table *table, json_t *metadata, strata_error *err)
{
    if (!json_is_object(metadata)) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "key '" KEY_METADATA "' is not an object");
    }
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(metadata, key, value)
    {
        strata_status status = read_entry(table, key, value, err);
        if (status != STRATA_OK) {
            return status;
        }
    }
    return STRATA_OK;
}

/* A JSON integer that is not negative; 1.0 and 1e3 are reals in JSON's own grammar. */
static bool take_integer(const json_t *value, uint64_t *integer)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *integer = (uint64_t)json_integer_value(value);
    return true;
}

static strata_status read_shape(const json_t *shape, modelfile_tensor *tensor, strata_error *err)
{
    if (!json_is_array(shape)) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "'shape' is missing or not an array");
    }
    size_t rank = json_array_size(shape);
    if (rank > MODELFILE_RANK_MAX) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "'shape' has %zu dimensions, at most %d",
                                 rank, MODELFILE_RANK_MAX);
    }
    tensor->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        if (!take_integer(json_array_get(shape, i), &tensor->shape[i])) {
            return modelfile__refuse(err, MODELFILE_CONVERT,
                                     "dimension %zu of 'shape' is no integer from 0 up", i);
        }
    }
    return STRATA_OK;
}

static strata_status measure(const json_t *type, modelfile_tensor *tensor, strata_error *err)
{
    if (!json_is_string(type)) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "'dtype' is missing or not a string");
    }
    const dtype *known = find_dtype(json_string_value(type));
    if (known == NULL) {
        return modelfile__refuse(err, MODELFILE_OTHER_TYPE, "dtype '%s' is unknown",
                                 modelfile__quoted(json_string_value(type)).text);
    }
    tensor->type = known->name;
    uint64_t elements = 0;
    if (!modelfile__elements(tensor, &elements) ||
        __builtin_mul_overflow(elements / known->unit_elements, known->unit_bytes,
                               &tensor->bytes)) {
        return modelfile__refuse(err, MODELFILE_DAMAGED,
                                 "the product of its dimensions does not fit into 64 bits");
    }
    if (elements % known->unit_elements != 0) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "%" PRIu64 " elements of %s do not fill whole bytes", elements,
                                 known->name);
    }
    return STRATA_OK;
}

static strata_status place(const modelfile_table *table, const json_t *offsets,
                           modelfile_tensor *tensor, strata_error *err)
{
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !take_integer(json_array_get(offsets, 0), &begin) ||
        !take_integer(json_array_get(offsets, 1), &end)) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "'data_offsets' are not two integers from 0 up");
    }
    if (begin > end) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "'data_offsets' begin at %" PRIu64 " and end before, at %" PRIu64,
                                 begin, end);
    }
    if (end - begin != tensor->bytes) {
        return modelfile__refuse(err, MODELFILE_CONVERT,
                                 "'data_offsets' %" PRIu64 " to %" PRIu64 " are %" PRIu64
                                 " bytes, dtype and shape need %" PRIu64,
                                 begin, end, end - begin, tensor->bytes);
    }
    tensor->offset = table->shown.data_offset + begin; /* at most 2^63 + 10^8 + 8 */
    return STRATA_OK;
}

static strata_status read_members(const modelfile_table *table, const json_t *value,
                                  modelfile_tensor *tensor, strata_error *err)
{
    if (!json_is_object(value)) {
        return modelfile__refuse(err, MODELFILE_CONVERT, "its description is not an object");
    }
    strata_status status = read_shape(json_object_get(value, "shape"), tensor, err);
    if (status == STRATA_OK) {
        status = measure(json_object_get(value, "dtype"), tensor, err);
    }
    if (status == STRATA_OK) {
        status = place(table, json_object_get(value, "data_offsets"), tensor, err);
    }
    return status;
}

static strata_status read_tensor(modelfile_table *table, const char *name, const json_t *value,
                                 strata_error *err)
{
    modelfile_tensor *tensor = NULL;
    strata_status status = modelfile__tensor_add(table, &tensor, err);
    if (status == STRATA_OK) {
        status = copy_text(table, name, strlen(name), &tensor->name, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    status = read_members(table, value, tensor, err);
    if (status != STRATA_OK) {
        modelfile__context(err, "tensor", name);
        return status;
    }
    return modelfile__tensor_inside(table, tensor, err);
}

static strata_status read_tree(modelfile_table *table, json_t *tree, strata_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(tree, key, value)
    {
        strata_status status = strcmp(key, KEY_METADATA) == 0 ? read_metadata(table, value, err)
                                                              : read_tensor(table, key, value, err);
        if (status != STRATA_OK) {
            return status;
        }
    }
    return modelfile__entries_settle(table, err);
}

static strata_status refuse_hole(uint64_t from, uint64_t to, strata_error *err)
{
    return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                             "bytes %" PRIu64 " to %" PRIu64
                             " belong to no tensor, the format allows no holes",
                             from, to);
}

/* The tensors are in order, disjoint and inside the file: what is left to find are holes, and
 * tensors without bytes in the middle of another, which the reference refuses too. */
static strata_status check_holes(const modelfile_table *table, strata_error *err)
{
    uint64_t covered = table->shown.data_offset;
    for (size_t i = 0; i < table->shown.tensor_count; i++) {
        const modelfile_tensor *tensor = &table->tensors[i];
        if (tensor->offset > covered) {
            return refuse_hole(covered, tensor->offset, err);
        }
        if (tensor->offset < covered) {
            return modelfile__refuse_overlap(tensor, covered, err);
        }
        covered = tensor->offset + tensor->bytes;
    }
    if (covered < table->shown.file_bytes) {
        return refuse_hole(covered, table->shown.file_bytes, err);
    }
    return STRATA_OK;
}

strata_status modelfile__safetensors_read(modelfile_table *table, modelfile_reader *reader,
                                          strata_error *err)
{
    uint64_t header_bytes = 0;
    strata_status status = read_length(reader, &header_bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    table->shown.alignment = 1;
    table->shown.data_offset = LENGTH_BYTES + header_bytes;
    json_t *tree = NULL;
    status = load_tree(&tree, reader, header_bytes, err);
    if (status == STRATA_OK) {
        status = read_tree(table, tree, err);
        json_decref(tree);
    }
    if (status == STRATA_OK) {
        status = modelfile__tensors_settle(table, err);
    }
    if (status == STRATA_OK) {
        status = check_holes(table, err);
    }
    return status;
}

/* table.c - the tensors and metadata of one file while they are collected, and their common checks.
 *
 * What both formats promise is settled here once: no name twice, exact sizes, nothing outside the
 * file. Knows no format and reads no file.
 *
 * Duplicates are found by sorting, not by hashing: the keys come from a stranger, who can choose
 * them so that a hash degenerates, and a sort of 100,000 names costs a few milliseconds. */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct modelfile_block {
    modelfile_block *next;
    size_t used, capacity;
    char text[];
};

#define BLOCK_BYTES 4000

static strata_status no_memory(size_t bytes, strata_error *err)
{
    return modelfile__no_memory(err, bytes, "the file's header");
}

/* Makes room for one element more; doubles, so that the table costs twice what was read at most. */
static strata_status grow(void **array, size_t count, size_t *capacity, size_t element_bytes,
                          strata_error *err)
{
    if (count < *capacity) {
        return STRATA_OK;
    }
    size_t wanted = *capacity == 0 ? 4 : *capacity * 2;
    if (wanted > SIZE_MAX / element_bytes) {
        return no_memory(SIZE_MAX, err);
    }
    void *grown = realloc(*array, wanted * element_bytes);
    if (grown == NULL) {
        return no_memory(wanted * element_bytes, err);
    }
    *array = grown;
    *capacity = wanted;
    return STRATA_OK;
}

strata_status modelfile__tensor_add(modelfile_table *table, modelfile_tensor **tensor,
                                    strata_error *err)
{
    void *array = table->tensors;
    strata_status status =
        grow(&array, table->shown.tensor_count, &table->tensor_capacity, sizeof **tensor, err);
    table->tensors = array;
    if (status == STRATA_OK) {
        *tensor = &table->tensors[table->shown.tensor_count];
        **tensor = (modelfile_tensor){.name = ""};
        table->shown.tensor_count++;
    }
    return status;
}

strata_status modelfile__entry_add(modelfile_table *table, modelfile_entry **entry,
                                   strata_error *err)
{
    void *array = table->entries;
    strata_status status =
        grow(&array, table->entry_count, &table->entry_capacity, sizeof **entry, err);
    table->entries = array;
    if (status == STRATA_OK) {
        *entry = &table->entries[table->entry_count];
        **entry = (modelfile_entry){.key = ""};
        table->entry_count++;
    }
    return status;
}

strata_status modelfile__text_add(modelfile_table *table, size_t bytes, char **text,
                                  strata_error *err)
{
    modelfile_block *block = table->blocks;
    if (bytes >= SIZE_MAX - sizeof *block) {
        return no_memory(bytes, err);
    }
    size_t need = bytes + 1;
    if (block == NULL || block->capacity - block->used < need) {
        size_t capacity = need < BLOCK_BYTES ? BLOCK_BYTES : need;
        block = malloc(sizeof *block + capacity);
        if (block == NULL) {
            return no_memory(sizeof *block + capacity, err);
        }
        block->next = table->blocks;
        block->used = 0;
        block->capacity = capacity;
        table->blocks = block;
    }
    *text = block->text + block->used;
    (*text)[bytes] = '\0';
    block->used += need;
    return STRATA_OK;
}

static int compare_entries(const void *left, const void *right)
{
    const modelfile_entry *a = left;
    const modelfile_entry *b = right;
    return strcmp(a->key, b->key);
}

strata_status modelfile__entries_settle(modelfile_table *table, strata_error *err)
{
    if (table->entry_count > 1) {
        qsort(table->entries, table->entry_count, sizeof *table->entries, compare_entries);
    }
    for (size_t i = 1; i < table->entry_count; i++) {
        if (strcmp(table->entries[i - 1].key, table->entries[i].key) == 0) {
            return modelfile__refuse(err, MODELFILE_CONVERT,
                                     "key '%s' is there twice, which of the two holds is undefined",
                                     modelfile__quoted(table->entries[i].key).text);
        }
    }
    table->shown.metadata_count = table->entry_count;
    return STRATA_OK;
}

static int compare_names(const void *left, const void *right)
{
    const modelfile_tensor *a = left;
    const modelfile_tensor *b = right;
    return strcmp(a->name, b->name);
}

/* By offset; at one offset those without bytes first, so that a later neighbour check sees them
 * before what really occupies the place. The name only makes the order the same everywhere. */
static int compare_offsets(const void *left, const void *right)
{
    const modelfile_tensor *a = left;
    const modelfile_tensor *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static void sort_tensors(modelfile_table *table, int (*compare)(const void *, const void *))
{
    if (table->shown.tensor_count > 1) {
        qsort(table->tensors, table->shown.tensor_count, sizeof *table->tensors, compare);
    }
}

strata_status modelfile__refuse_overlap(const modelfile_tensor *tensor, uint64_t end,
                                        strata_error *err)
{
    return modelfile__refuse(err, MODELFILE_FETCH_OR_CONVERT,
                             "tensor '%s' begins at byte %" PRIu64
                             ", inside what ends at byte %" PRIu64,
                             modelfile__quoted(tensor->name).text, tensor->offset, end);
}

strata_status modelfile__tensors_settle(modelfile_table *table, strata_error *err)
{
    sort_tensors(table, compare_names);
    for (size_t i = 1; i < table->shown.tensor_count; i++) {
        if (strcmp(table->tensors[i - 1].name, table->tensors[i].name) == 0) {
            return modelfile__refuse(err, MODELFILE_CONVERT, "tensor '%s' is there twice",
                                     modelfile__quoted(table->tensors[i].name).text);
        }
    }
    sort_tensors(table, compare_offsets);
    uint64_t end = table->shown.data_offset; /* of the bytes that are taken so far */
    uint64_t sum = 0;
    for (size_t i = 0; i < table->shown.tensor_count; i++) {
        const modelfile_tensor *tensor = &table->tensors[i];
        if (tensor->bytes == 0) {
            continue;
        }
        if (tensor->offset < end) {
            return modelfile__refuse_overlap(tensor, end, err);
        }
        end = tensor->offset + tensor->bytes;
        sum += tensor->bytes; /* cannot wrap: disjoint and inside the file */
    }
    table->shown.weight_bytes = sum;
    table->shown.tensors = table->tensors;
    return STRATA_OK;
}

void modelfile__table_fini(modelfile_table *table)
{
    free(table->tensors);
    free(table->entries);
    while (table->blocks != NULL) {
        modelfile_block *next = table->blocks->next;
        free(table->blocks);
        table->blocks = next;
    }
}

strata_status modelfile__refuse_wrap(const modelfile_table *table, const modelfile_tensor *tensor,
                                     uint64_t offset, uint64_t more, strata_error *err)
{
    return modelfile__refuse(
        err, MODELFILE_DAMAGED,
        "tensor '%s' ends past byte 2^64 - 1 (%" PRIu64 " + %" PRIu64 "), the file has %" PRIu64,
        modelfile__quoted(tensor->name).text, offset, more, table->shown.file_bytes);
}

strata_status modelfile__tensor_inside(const modelfile_table *table, const modelfile_tensor *tensor,
                                       strata_error *err)
{
    uint64_t end = 0;
    if (__builtin_add_overflow(tensor->offset, tensor->bytes, &end)) {
        return modelfile__refuse_wrap(table, tensor, tensor->offset, tensor->bytes, err);
    }
    if (end > table->shown.file_bytes) {
        return modelfile__refuse(
            err, MODELFILE_CUT_SHORT, "tensor '%s' ends at byte %" PRIu64 ", the file has %" PRIu64,
            modelfile__quoted(tensor->name).text, end, table->shown.file_bytes);
    }
    return STRATA_OK;
}

bool modelfile__elements(const modelfile_tensor *tensor, uint64_t *elements)
{
    uint64_t product = 1;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0) {
            *elements = 0;
            return true;
        }
        fits = fits && !__builtin_mul_overflow(product, tensor->shape[i], &product);
    }
    *elements = product;
    return fits;
}

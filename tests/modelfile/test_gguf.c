/* test_gguf.c - what the GGUF reader promises, and what it refuses.
 *
 * Each test states its promise in its name; the files come from makers.c. Numbers in comments
 * (case 37) are scenarios from users of comparable software. */
#include "support.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHAPE(...)     \
    (const uint64_t[]) \
    {                  \
        __VA_ARGS__    \
    }

static const struct {
    const char *name;
    uint32_t number, block_elements, block_bytes, align;
} types[] = {
    {"F32", 0, 1, 4, 4},         {"F16", 1, 1, 2, 2},         {"Q4_0", 2, 32, 18, 2},
    {"Q4_1", 3, 32, 20, 4},      {"Q5_0", 6, 32, 22, 2},      {"Q5_1", 7, 32, 24, 4},
    {"Q8_0", 8, 32, 34, 2},      {"Q8_1", 9, 32, 36, 4},      {"Q2_K", 10, 256, 84, 4},
    {"Q3_K", 11, 256, 110, 2},   {"Q4_K", 12, 256, 144, 4},   {"Q5_K", 13, 256, 176, 4},
    {"Q6_K", 14, 256, 210, 2},   {"Q8_K", 15, 256, 292, 4},   {"IQ2_XXS", 16, 256, 66, 2},
    {"IQ2_XS", 17, 256, 74, 2},  {"IQ3_XXS", 18, 256, 98, 2}, {"IQ1_S", 19, 256, 50, 2},
    {"IQ4_NL", 20, 32, 18, 2},   {"IQ3_S", 21, 256, 110, 2},  {"IQ2_S", 22, 256, 82, 2},
    {"IQ4_XS", 23, 256, 136, 2}, {"I8", 24, 1, 1, 1},         {"I16", 25, 1, 2, 2},
    {"I32", 26, 1, 4, 4},        {"I64", 27, 1, 8, 8},        {"F64", 28, 1, 8, 8},
    {"IQ1_M", 29, 256, 56, 1},   {"BF16", 30, 1, 2, 2},       {"TQ1_0", 34, 256, 54, 2},
    {"TQ2_0", 35, 256, 66, 2},   {"MXFP4", 39, 32, 17, 1},    {"NVFP4", 40, 64, 36, 1},
    {"Q1_0", 41, 128, 18, 2},    {"Q2_0", 42, 64, 18, 2},
};

static const uint32_t removed_types[] = {4, 5, 31, 32, 33, 36, 37, 38};

/* Keys of every kind, three tensors, one of them without bytes. */
static maker_bytes sample(uint32_t version)
{
    maker_gguf gguf;
    unsigned char data[512];
    maker_pattern(data, sizeof data, 7);
    maker_gguf_begin(&gguf, version);
    maker_gguf_key_string(&gguf, "general.architecture", "llama");
    maker_gguf_key_u32(&gguf, "llama.block_count", 12);
    maker_gguf_key_raw(&gguf, "llama.negative", MAKER_VALUE_INT32, "\xff\xff\xff\xff", 4);
    maker_gguf_key_raw(&gguf, "tokens", MAKER_VALUE_ARRAY, NULL, 0);
    maker_u32(&gguf.keys, MAKER_VALUE_STRING);
    maker_u64(&gguf.keys, 2);
    maker_string(&gguf.keys, "a");
    maker_string(&gguf.keys, "bc");
    maker_gguf_add_tensor(&gguf, "first", MAKER_F32, 2, SHAPE(4, 3), data, 48);
    maker_gguf_add_tensor(&gguf, "none", MAKER_F32, 2, SHAPE(4, 0), NULL, 0);
    maker_gguf_add_tensor(&gguf, "last", MAKER_Q6_K, 1, SHAPE(512), data, 420);
    return maker_gguf_finish(&gguf);
}

/* ---- what loads ---- */

START_TEST(versions_2_and_3_give_exact_tensors_and_metadata)
{
    modelfile *file = support_opened(sample((uint32_t)_i));
    ck_assert_int_eq(file->format, MODELFILE_GGUF);
    ck_assert_str_eq(modelfile_format_name(file->format), "gguf");
    ck_assert_uint_eq(file->version, (uint32_t)_i);
    ck_assert_uint_eq(file->alignment, 32);
    ck_assert_uint_eq(file->metadata_count, 4);
    ck_assert_uint_eq(file->tensor_count, 3);
    ck_assert_uint_eq(file->weight_bytes, 48 + 420);
    const modelfile_tensor *last = support_tensor(file, "last");
    ck_assert_str_eq(last->type, "Q6_K");
    ck_assert_uint_eq(last->rank, 1);
    ck_assert_uint_eq(last->shape[0], 512);
    ck_assert_uint_eq(last->bytes, 420);
    ck_assert_uint_eq(last->offset, file->data_offset + 64);
    ck_assert_uint_eq(support_tensor(file, "none")->bytes, 0);

    unsigned char expected[420];
    unsigned char got[420];
    maker_pattern(expected, sizeof expected, 7);
    ck_assert_int_eq(modelfile_read(file, NULL, got, last->offset, sizeof got, NULL), STRATA_OK);
    ck_assert_mem_eq(got, expected, sizeof got);
    modelfile_close(file);
}
END_TEST

START_TEST(metadata_is_found_by_key_and_kind)
{
    modelfile *file = support_opened(sample(3));
    uint64_t value = 99;
    ck_assert(modelfile_find_uint(file, "llama.block_count", &value));
    ck_assert_uint_eq(value, 12);
    ck_assert_str_eq(modelfile_find_text(file, "general.architecture"), "llama");
    ck_assert(!modelfile_find_uint(file, "llama.negative", &value));
    ck_assert(!modelfile_find_uint(file, "general.architecture", &value));
    ck_assert(!modelfile_find_uint(file, "absent", &value));
    ck_assert_uint_eq(value, 12);
    ck_assert_ptr_null(modelfile_find_text(file, "tokens"));
    ck_assert_ptr_null(modelfile_find_text(file, "llama.block_count"));
    modelfile_close(file);
}
END_TEST

START_TEST(each_type_has_its_exact_size)
{
    maker_gguf gguf;
    uint64_t row = (uint64_t)types[_i].block_elements * 3;
    size_t bytes = (size_t)types[_i].block_bytes * 3 * 5;
    void *data = calloc(1, bytes);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_add_tensor(&gguf, "t", types[_i].number, 2, SHAPE(row, 5), data, bytes);
    free(data);
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_str_eq(file->tensors[0].type, types[_i].name);
    ck_assert_uint_eq(file->tensors[0].bytes, bytes);
    ck_assert_uint_eq(file->tensors[0].offset + bytes, file->file_bytes);
    modelfile_close(file);
}
END_TEST

START_TEST(each_type_has_its_natural_alignment)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "t", types[_i].number, 1, SHAPE(0), 0);
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_uint_eq(modelfile_type_align(&file->tensors[0]), types[_i].align);
    ck_assert_uint_eq(types[_i].block_bytes % types[_i].align, 0); /* as of every C structure */
    modelfile_close(file);
}
END_TEST

START_TEST(a_type_of_no_format_has_no_alignment)
{
    modelfile_tensor tensor = {.type = "X99"};
    ck_assert_uint_eq(modelfile_type_align(&tensor), 1);
}
END_TEST

/* Case 36. Wherever the zero stands, whatever the other dimensions and the type. */
START_TEST(a_dimension_of_zero_loads_with_no_bytes)
{
    for (uint32_t rank = 1; rank <= 4; rank++) {
        for (uint32_t zero = 0; zero < rank; zero++) {
            maker_gguf gguf;
            uint64_t shape[4] = {512, 1u << 30, 1u << 30, 1u << 30};
            shape[zero] = 0;
            maker_gguf_begin(&gguf, 3);
            maker_gguf_add_tensor(&gguf, "before", MAKER_I8, 1, SHAPE(5), "12345", 5);
            maker_gguf_add_tensor(&gguf, "none", types[_i].number, rank, shape, NULL, 0);
            maker_gguf_add_tensor(&gguf, "after", MAKER_I8, 1, SHAPE(5), "12345", 5);
            modelfile *file = support_opened(maker_gguf_finish(&gguf));
            ck_assert_uint_eq(file->tensor_count, 3);
            ck_assert_uint_eq(support_tensor(file, "none")->bytes, 0);
            ck_assert_uint_eq(file->weight_bytes, 10);
            modelfile_close(file);
        }
    }
}
END_TEST

START_TEST(tensors_without_bytes_need_no_file_behind_them)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "none", MAKER_F32, 1, SHAPE(0), 0);
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_uint_eq(file->tensor_count, 1);
    modelfile_close(file);

    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "none", MAKER_F32, 1, SHAPE(0), 64);
    support_refused(maker_gguf_finish(&gguf), "none", NULL);
}
END_TEST

START_TEST(odd_but_valid_files_load)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3); /* no tensors, no keys */
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_uint_eq(file->tensor_count, 0);
    ck_assert_uint_eq(file->weight_bytes, 0);
    modelfile_close(file);

    maker_gguf_begin(&gguf, 3); /* a scalar; described backwards, with a gap between the data */
    unsigned char data[256] = {0};
    maker_gguf_claim_tensor(&gguf, "late", MAKER_F32, 1, SHAPE(8), 128);
    maker_gguf_claim_tensor(&gguf, "early", MAKER_F32, 0, NULL, 0);
    maker_put(&gguf.data, data, 160);
    file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_str_eq(file->tensors[0].name, "early");
    ck_assert_uint_eq(file->tensors[0].bytes, 4);
    ck_assert_uint_eq(file->tensors[1].offset, file->data_offset + 128);
    modelfile_close(file);

    maker_gguf_begin(&gguf, 3); /* arrays of arrays, empty ones too, which gguf.md allows */
    maker_gguf_key_raw(&gguf, "nested", MAKER_VALUE_ARRAY, NULL, 0);
    maker_u32(&gguf.keys, MAKER_VALUE_ARRAY);
    maker_u64(&gguf.keys, 2);
    maker_u32(&gguf.keys, MAKER_VALUE_UINT8);
    maker_u64(&gguf.keys, 3);
    maker_put(&gguf.keys, "abc", 3);
    maker_u32(&gguf.keys, MAKER_VALUE_STRING);
    maker_u64(&gguf.keys, 0);
    maker_gguf_key_u32(&gguf, "after", 5);
    file = support_opened(maker_gguf_finish(&gguf));
    uint64_t value = 0;
    ck_assert(modelfile_find_uint(file, "after", &value));
    ck_assert_uint_eq(value, 5);
    modelfile_close(file);
}
END_TEST

START_TEST(long_texts_are_checked_but_not_kept)
{
    maker_gguf gguf;
    char *text = malloc(200001);
    memset(text, 'x', 200000);
    text[200000] = '\0';
    maker_gguf_begin(&gguf, 3);
    maker_gguf_key_string(&gguf, "long", text);
    text[MODELFILE_TEXT_MAX] = '\0';
    maker_gguf_key_string(&gguf, "limit", text);
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    ck_assert_ptr_null(modelfile_find_text(file, "long"));
    ck_assert_uint_eq(strlen(modelfile_find_text(file, "limit")), MODELFILE_TEXT_MAX);
    modelfile_close(file);
    free(text);
}
END_TEST

/* ---- what is refused ---- */

/* Case 37: the product fits into 64 bits, the padded size does not. Also products that do not. */
START_TEST(products_and_sums_that_wrap_are_refused)
{
    static const uint64_t shapes[][4] = {
        {4, (1u << 30) - 1, (1u << 30) + 1, 1},
        {1ull << 62, 1, 1, 1},
        {1ull << 62, 4, 1, 1},
        {1ull << 32, 1ull << 32, 1, 1},
        {1ull << 31, 1ull << 31, 1ull << 31, 2},
        {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
        {3, 6148914691236517206ull, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, "huge", MAKER_F32, 4, shapes[i], 0);
        maker_zeros(&gguf.data, 64);
        support_refused(maker_gguf_finish(&gguf), "huge", NULL);
    }
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "negative", MAKER_F32, 2, SHAPE(4, UINT64_MAX), 0);
    support_refused(maker_gguf_finish(&gguf), "negative", "dimension 1", NULL);
}
END_TEST

/* Case 38 */
START_TEST(a_row_that_is_no_multiple_of_the_block_is_refused)
{
    if (types[_i].block_elements == 1) {
        return; /* nothing to get wrong: every row is a multiple of 1 */
    }
    maker_gguf gguf;
    uint64_t row = types[_i].block_elements + types[_i].block_elements / 2;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "odd", types[_i].number, 2, SHAPE(row, 64), 0);
    maker_zeros(&gguf.data, 65536);
    support_refused(maker_gguf_finish(&gguf), "odd", types[_i].name, "row", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "scalar", types[_i].number, 0, NULL, 0);
    maker_zeros(&gguf.data, 65536);
    support_refused(maker_gguf_finish(&gguf), "scalar", types[_i].name, NULL);
}
END_TEST

START_TEST(removed_and_unknown_types_are_refused_by_number)
{
    static const uint32_t unknown[] = {43, 97, 142, 255, 65535, INT32_MAX, UINT32_MAX};
    size_t removed_count = sizeof removed_types / sizeof removed_types[0];
    size_t count = removed_count + sizeof unknown / sizeof unknown[0];
    for (size_t i = 0; i < count; i++) {
        uint32_t number = i < removed_count ? removed_types[i] : unknown[i - removed_count];
        char text[32];
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, "typed", number, 1, SHAPE(256), 0);
        maker_zeros(&gguf.data, 4096);
        (void)snprintf(text, sizeof text, "type %u ", number);
        support_refused(maker_gguf_finish(&gguf), "typed", text,
                        i < removed_count ? "removed" : "unknown, the newest known is 42 (Q2_0)",
                        NULL);
    }
}
END_TEST

/* Case 39 */
START_TEST(alignment_is_a_power_of_two_and_is_obeyed)
{
    static const uint32_t good[] = {1, 2, 4, 8, 16, 64, 4096, 65536};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_alignment(&gguf, good[i]);
        maker_gguf_add_tensor(&gguf, "a", MAKER_I8, 1, SHAPE(3), "abc", 3);
        maker_gguf_add_tensor(&gguf, "b", MAKER_I8, 1, SHAPE(3), "def", 3);
        modelfile *file = support_opened(maker_gguf_finish(&gguf));
        char got[3];
        const modelfile_tensor *b = support_tensor(file, "b");
        ck_assert_uint_eq(file->alignment, good[i]);
        ck_assert_uint_eq(file->data_offset % good[i], 0);
        ck_assert_int_eq(modelfile_read(file, NULL, got, b->offset, 3, NULL), STRATA_OK);
        ck_assert_mem_eq(got, "def", 3);
        modelfile_close(file);
    }
    static const uint32_t bad[] = {0, 3, 12, 24, 48, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        maker_gguf gguf;
        char text[32];
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_u32(&gguf, "general.alignment", bad[i]);
        maker_gguf_add_tensor(&gguf, "a", MAKER_I8, 1, SHAPE(3), "abc", 3);
        (void)snprintf(text, sizeof text, "is %u", bad[i]);
        support_refused(maker_gguf_finish(&gguf), "general.alignment", text, NULL);
    }
}
END_TEST

START_TEST(alignment_of_another_value_type_is_refused)
{
    static const unsigned char value[16] = {32};
    for (uint32_t type = 0; type <= 12; type++) {
        if (type == MAKER_VALUE_UINT32) {
            continue;
        }
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_raw(&gguf, "general.alignment", type, value, sizeof value);
        maker_gguf_add_tensor(&gguf, "a", MAKER_I8, 1, SHAPE(3), "abc", 3);
        support_refused(maker_gguf_finish(&gguf), "general.alignment", "uint32", NULL);
    }
}
END_TEST

START_TEST(offsets_that_are_not_aligned_or_overlap_are_refused)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "crooked", MAKER_I8, 1, SHAPE(3), 8);
    maker_zeros(&gguf.data, 64);
    support_refused(maker_gguf_finish(&gguf), "crooked", "alignment 32", NULL);

    for (uint64_t at = 0; at <= 64; at += 32) { /* same start, inside, the last 32 bytes */
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, "over", MAKER_I8, 1, SHAPE(100), at);
        maker_gguf_claim_tensor(&gguf, "under", MAKER_I8, 1, SHAPE(65), 0);
        maker_zeros(&gguf.data, 256);
        support_refused(maker_gguf_finish(&gguf), "'over'", "inside", NULL);
    }
}
END_TEST

/* Case 40: counts are compared with what is left of the file before anything is allocated. */
static void refused_cheaply(maker_bytes bytes, size_t peak_max, const char *word)
{
    char *path = support_path("hostile");
    modelfile *file = NULL;
    strata_error err = {.text = ""};
    maker_write(&bytes, path);
    maker_free(&bytes);
    support_memory_begin(0, 0);
    strata_status status = modelfile_open(&file, path, NULL, &err);
    support_memory_end();
    free(path);
    ck_assert_int_eq(status, STRATA_INVALID);
    ck_assert_msg(strstr(err.text, word) != NULL, "%s", err.text);
    support_check_remedy(err.text);
    ck_assert_uint_eq(support_allocations.live_blocks, 0);
    ck_assert_msg(support_allocations.peak_bytes <= peak_max, "peak %zu bytes",
                  support_allocations.peak_bytes);
}

#define SMALL_PEAK ((size_t)80 * 1024) /* the reader's buffer of 64 KiB at most, and some text */

START_TEST(hostile_counts_cost_no_memory)
{
    static const uint64_t counts[] = {1u << 20,   1ull << 32, 1ull << 58,
                                      1ull << 61, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (uint32_t type = 0; type <= 12; type++) {
            maker_gguf gguf; /* an array of that many elements, of every type */
            maker_gguf_begin(&gguf, 3);
            maker_gguf_key_raw(&gguf, "array", MAKER_VALUE_ARRAY, NULL, 0);
            maker_u32(&gguf.keys, type);
            maker_u64(&gguf.keys, counts[i]);
            refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "array");
        }
        maker_gguf gguf; /* a string of that length: as value, as key, in an array, as a name */
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_raw(&gguf, "text", MAKER_VALUE_STRING, &counts[i], 8);
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "text");
        maker_gguf_begin(&gguf, 3);
        maker_u64(&gguf.keys, counts[i]);
        maker_zeros(&gguf.keys, 8);
        gguf.key_count = 1;
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "key 1");
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_raw(&gguf, "texts", MAKER_VALUE_ARRAY, NULL, 0);
        maker_u32(&gguf.keys, MAKER_VALUE_STRING);
        maker_u64(&gguf.keys, 1);
        maker_u64(&gguf.keys, counts[i]);
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "texts");
        maker_gguf_begin(&gguf, 3);
        maker_u64(&gguf.tensors, counts[i]);
        maker_zeros(&gguf.tensors, 32);
        gguf.tensor_count = 1;
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "tensor 1");
        maker_gguf_begin(&gguf, 3); /* that many tensors, that many keys */
        gguf.tensor_count = counts[i];
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "tensors");
        maker_gguf_begin(&gguf, 3);
        gguf.key_count = counts[i];
        refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "keys");
    }
}
END_TEST

START_TEST(nested_arrays_are_walked_without_recursion)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_key_raw(&gguf, "deep", MAKER_VALUE_ARRAY, NULL, 0);
    for (int i = 0; i < 100000; i++) {
        maker_u32(&gguf.keys, MAKER_VALUE_ARRAY);
        maker_u64(&gguf.keys, 1);
    }
    maker_u32(&gguf.keys, MAKER_VALUE_UINT8);
    maker_u64(&gguf.keys, 0);
    refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "deep");

    maker_gguf_begin(&gguf, 3); /* wide, not deep: a million empty arrays load in linear time */
    maker_gguf_key_raw(&gguf, "wide", MAKER_VALUE_ARRAY, NULL, 0);
    maker_u32(&gguf.keys, MAKER_VALUE_ARRAY);
    maker_u64(&gguf.keys, 1000000);
    for (int i = 0; i < 1000000; i++) {
        maker_u32(&gguf.keys, MAKER_VALUE_UINT8);
        maker_u64(&gguf.keys, 0);
    }
    modelfile_close(support_opened(maker_gguf_finish(&gguf)));
}
END_TEST

/* A count that the bytes could just hold must not be believed before the records are read. */
START_TEST(a_plausible_count_over_garbage_costs_no_memory)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_zeros(&gguf.tensors, (size_t)24 * 400000);
    memset(gguf.tensors.data, 0xff, gguf.tensors.count);
    gguf.tensor_count = 400000;
    refused_cheaply(maker_gguf_finish(&gguf), SMALL_PEAK, "tensor 1 of 400000");
}
END_TEST

/* The last count that is allowed, with its records, and one more. */
START_TEST(keys_are_limited_to_65536)
{
    for (unsigned count = 65536; count <= 65537; count++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        for (unsigned i = 0; i < count; i++) {
            char key[32];
            (void)snprintf(key, sizeof key, "k%u", i);
            maker_gguf_key_u32(&gguf, key, i);
        }
        maker_bytes bytes = maker_gguf_finish(&gguf);
        if (count > 65536) {
            support_refused(bytes, "65537 keys", "at most 65536", NULL);
            continue;
        }
        modelfile *file = support_opened(bytes);
        ck_assert_uint_eq(file->metadata_count, 65536);
        modelfile_close(file);
    }
}
END_TEST

START_TEST(tensors_are_limited_to_1048576)
{
    for (unsigned count = 1048576; count <= 1048577; count++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        for (unsigned i = 0; i < count; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "t%u", i);
            maker_gguf_claim_tensor(&gguf, name, MAKER_I8, 1, SHAPE(0), 0);
        }
        maker_bytes bytes = maker_gguf_finish(&gguf);
        if (count > 1048576) {
            support_refused(bytes, "1048577 tensors", "at most 1048576", NULL);
            continue;
        }
        modelfile *file = support_opened(bytes);
        ck_assert_uint_eq(file->tensor_count, 1048576);
        modelfile_close(file);
    }
}
END_TEST

/* Case 41 */
START_TEST(every_prefix_is_refused_with_the_end_and_the_size)
{
    maker_bytes whole = sample((uint32_t)_i);
    modelfile *file = NULL;
    maker_bytes copy = {.data = NULL};
    maker_put(&copy, whole.data, whole.count);
    file = support_opened(copy);
    uint64_t data_offset = file->data_offset;
    modelfile_close(file);
    for (size_t count = 0; count < whole.count; count++) {
        maker_bytes prefix = {.data = NULL};
        maker_put(&prefix, whole.data, count);
        char size[48];
        char end[48];
        (void)snprintf(size, sizeof size, "the file has %zu", count);
        (void)snprintf(end, sizeof end, "ends at byte %zu", whole.count);
        if (count < 4) {
            support_refused(prefix, count == 0 ? "empty" : "not a model file", NULL);
        } else if (count <= data_offset + 48) {
            support_refused(prefix, NULL);
        } else {
            support_refused(prefix, "tensor 'last'", end, size, NULL);
        }
    }
    maker_free(&whole);
}
END_TEST

START_TEST(offsets_past_the_file_are_refused_with_the_end_and_the_size)
{
    static const uint64_t offsets[] = {UINT64_MAX - 31, UINT64_MAX - 63, 1ull << 63, 1ull << 40,
                                       96};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, "far", MAKER_F32, 1, SHAPE(8), offsets[i]);
        maker_zeros(&gguf.data, 64);
        maker_bytes bytes = maker_gguf_finish(&gguf);
        char size[48];
        (void)snprintf(size, sizeof size, "the file has %zu", bytes.count);
        support_refused(bytes, "tensor 'far'", "ends", size, NULL);
    }
    maker_gguf gguf; /* no bytes, but an offset that wraps */
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "far", MAKER_F32, 1, SHAPE(0), UINT64_MAX - 31);
    support_refused(maker_gguf_finish(&gguf), "tensor 'far'", NULL);
}
END_TEST

/* Case 42's part that is a reader's: names that repeat, in no quadratic time. */
START_TEST(repeated_names_and_keys_are_refused_by_name)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_add_tensor(&gguf, "twin", MAKER_I8, 1, SHAPE(1), "a", 1);
    maker_gguf_add_tensor(&gguf, "other", MAKER_I8, 1, SHAPE(1), "a", 1);
    maker_gguf_add_tensor(&gguf, "twin", MAKER_I8, 1, SHAPE(1), "a", 1);
    support_refused(maker_gguf_finish(&gguf), "tensor 'twin'", "twice", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_alignment(&gguf, 32);
    maker_gguf_key_u32(&gguf, "between", 1);
    maker_gguf_alignment(&gguf, 64);
    support_refused(maker_gguf_finish(&gguf), "general.alignment", "twice", NULL);
}
END_TEST

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

START_TEST(a_hundred_thousand_names_take_no_quadratic_time)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    for (unsigned i = 0; i < 100000; i++) {
        char name[64]; /* the usual long common prefix */
        (void)snprintf(name, sizeof name, "model.language_model.layers.experts.%u.weight", i);
        maker_gguf_claim_tensor(&gguf, name, MAKER_I8, 1, SHAPE(1), (uint64_t)i * 32);
    }
    maker_zeros(&gguf.data, (size_t)100000 * 32);
    double before = seconds();
    modelfile *file = support_opened(maker_gguf_finish(&gguf));
    double spent = seconds() - before;
    ck_assert_uint_eq(file->tensor_count, 100000);
    modelfile_close(file);
    /* n log n needs about 0.1 s, 0.3 s with a sanitizer; all pairs would be 5e9 comparisons. */
    ck_assert_msg(spent < 5.0 || getenv("STRATA_TEST_SLOW") != NULL, "%.1f s", spent);
}
END_TEST

/* Case 43 */
START_TEST(big_endian_is_refused_as_big_endian)
{
    for (uint32_t version = 1; version <= 3; version++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, __builtin_bswap32(version));
        gguf.tensor_count = __builtin_bswap64(3);
        gguf.key_count = __builtin_bswap64(2);
        support_refused(maker_gguf_finish(&gguf), "big-endian", NULL);
        maker_gguf_begin(&gguf, __builtin_bswap32(version));
        maker_bytes bytes = maker_gguf_finish(&gguf);
        memcpy(bytes.data, "FUGG", 4);
        support_refused(bytes, "big-endian", NULL);
    }
}
END_TEST

START_TEST(other_versions_are_refused_by_number)
{
    static const uint32_t versions[] = {0, 1, 4, 5, 1000, 0x00030003, UINT32_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        maker_gguf gguf;
        char text[32];
        maker_gguf_begin(&gguf, versions[i]);
        (void)snprintf(text, sizeof text, "version %u", versions[i]);
        support_refused(maker_gguf_finish(&gguf), text, NULL);
    }
}
END_TEST

START_TEST(names_that_are_no_names_are_refused_and_printed_safely)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_u64(&gguf.tensors, 3);
    maker_put(&gguf.tensors, "a\0b", 3);
    maker_zeros(&gguf.tensors, 32);
    gguf.tensor_count = 1;
    support_refused(maker_gguf_finish(&gguf), "NUL", NULL);

    static const char *const broken[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                         "a\xe2\x82"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, broken[i], MAKER_I8, 1, SHAPE(0), 0);
        support_refused(maker_gguf_finish(&gguf), "UTF-8", NULL);
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_u32(&gguf, broken[i], 1);
        support_refused(maker_gguf_finish(&gguf), "UTF-8", NULL);
    }
    maker_gguf_begin(&gguf, 3); /* valid, but an error must stay one line without escapes */
    maker_gguf_claim_tensor(&gguf, "a\n\033[31mé", 99, 1, SHAPE(1), 0);
    support_refused(maker_gguf_finish(&gguf), "?[31mé'", NULL);
    ck_assert_ptr_null(strchr(support_text(), '\033'));

    char *longest = malloc(65537);
    memset(longest, 'n', 65536);
    longest[65536] = '\0';
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, longest, MAKER_I8, 1, SHAPE(0), 0);
    support_refused(maker_gguf_finish(&gguf), "65536 bytes", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, longest + 1, MAKER_I8, 1, SHAPE(0), 0);
    modelfile_close(support_opened(maker_gguf_finish(&gguf)));
    free(longest);
}
END_TEST

/* An error has 256 bytes: the name yields, what is wrong and the remedy do not. */
START_TEST(long_names_do_not_push_out_the_remedy)
{
    char name[400];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    static const struct {
        uint32_t type, rank;
        uint64_t shape[5], offset;
        const char *word;
    } tensors[] = {
        {99, 1, {1}, 0, "unknown"},
        {4, 1, {32}, 0, "removed"},
        {16, 1, {INT64_MAX}, 0, "no multiple of the 256"},
        {0, 3, {INT64_MAX, INT64_MAX, INT64_MAX}, 0, "does not fit"},
        {0, 5, {1, 1, 1, 1, 1}, 0, "5 dimensions"},
        {0, 1, {UINT64_MAX}, 0, "at most 2^63 - 1"},
        {24, 1, {1}, UINT64_MAX, "no multiple of the alignment"},
        {24, 1, {1}, UINT64_MAX - 31, "past byte 2^64 - 1"},
        {24, 1, {INT64_MAX}, 1ull << 63, "past byte 2^64 - 1"},
        {24, 1, {1}, 1ull << 63, "ends at byte"},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_claim_tensor(&gguf, name, tensors[i].type, tensors[i].rank, tensors[i].shape,
                                tensors[i].offset);
        maker_zeros(&gguf.data, 64);
        support_refused(maker_gguf_finish(&gguf), "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "...'",
                        tensors[i].word, NULL);
    }
    static const char *const values[] = {
        "\15\0\0\0\0\0\0\0\0\0\0\0",                /* no type of value */
        "\4\0\0\0\377\377\377\377\377\377\377\377", /* more than the file has */
        "\10\0\0\0\377\377\377\377\377\377\377\377",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        maker_gguf gguf;
        maker_gguf_begin(&gguf, 3);
        maker_gguf_key_raw(&gguf, name, MAKER_VALUE_ARRAY, values[i], 12);
        support_refused(maker_gguf_finish(&gguf), "key 'nnnnnnnnnnnnnnnnnnnnnnnnnnnn", "...'",
                        NULL);
    }
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_key_u32(&gguf, name, 1);
    maker_gguf_key_u32(&gguf, name, 1);
    support_refused(maker_gguf_finish(&gguf), "...' is there twice", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, name, MAKER_I8, 1, SHAPE(40), 0);
    maker_gguf_claim_tensor(&gguf, "under", MAKER_I8, 1, SHAPE(40), 0);
    maker_zeros(&gguf.data, 64);
    support_refused(maker_gguf_finish(&gguf), "inside", NULL);
    name[0] = '\xff';
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, name, MAKER_I8, 1, SHAPE(0), 0);
    support_refused(maker_gguf_finish(&gguf), "tensor 1 of 1", "...'", "UTF-8", NULL);
}
END_TEST

START_TEST(other_shapes_and_value_types_are_refused)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_claim_tensor(&gguf, "five", MAKER_I8, 5, SHAPE(1, 1, 1, 1, 1), 0);
    maker_zeros(&gguf.data, 64);
    support_refused(maker_gguf_finish(&gguf), "five", "5 dimensions", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_key_raw(&gguf, "strange", 13, "\0\0\0\0\0\0\0\0", 8);
    support_refused(maker_gguf_finish(&gguf), "strange", "value type 13", NULL);
    maker_gguf_begin(&gguf, 3);
    maker_gguf_key_raw(&gguf, "array", MAKER_VALUE_ARRAY, "\15\0\0\0\0\0\0\0\0\0\0\0", 12);
    support_refused(maker_gguf_finish(&gguf), "array", "value type 13", NULL);
}
END_TEST

/* ---- reading ---- */

/* Case 49 */
START_TEST(short_and_interrupted_reads_give_identical_bytes)
{
    for (size_t bytes_max = 1; bytes_max <= 7; bytes_max += 3) {
        support_pread how = {.bytes_max = bytes_max, .interrupt = true};
        modelfile_io io = support_io(&how);
        modelfile *file = NULL;
        ck_assert_int_eq(support_open(&file, sample(3), &io), STRATA_OK);
        support_check_file(file);
        const modelfile_tensor *last = support_tensor(file, "last");
        unsigned char got[420];
        unsigned char expected[420];
        maker_pattern(expected, sizeof expected, 7);
        ck_assert_int_eq(modelfile_read(file, &io, got, last->offset, sizeof got, NULL), STRATA_OK);
        ck_assert_mem_eq(got, expected, sizeof got);
        ck_assert_uint_eq(file->weight_bytes, 468);
        modelfile_close(file);
    }
}
END_TEST

START_TEST(a_file_that_shrinks_is_a_system_error_with_the_missing_bytes)
{
    maker_bytes whole = sample(3);
    size_t count = whole.count;
    for (size_t at = 1; at < count; at++) {
        support_pread how = {.bytes_max = 7, .shrunk_bytes = at};
        modelfile_io io = support_io(&how);
        modelfile *file = NULL;
        maker_bytes copy = {.data = NULL};
        maker_put(&copy, whole.data, count);
        int before = support_descriptors();
        if (support_open(&file, copy, &io) == STRATA_OK) {
            const modelfile_tensor *last = support_tensor(file, "last");
            unsigned char got[420];
            strata_error err;
            ck_assert_int_eq(modelfile_read(file, &io, got, last->offset, 420, &err),
                             STRATA_SYSTEM);
            ck_assert_ptr_nonnull(strstr(err.text, "missing"));
            modelfile_close(file);
        } else {
            ck_assert_int_eq(support_status(), STRATA_SYSTEM);
            ck_assert_ptr_nonnull(strstr(support_text(), "became shorter"));
            support_check_remedy(support_text());
        }
        ck_assert_int_eq(support_descriptors(), before);
    }
    maker_free(&whole);
}
END_TEST

/* A header of several buffers, so that there are reads between which the file can shrink. */
START_TEST(a_file_that_shrinks_between_reads_is_never_called_invalid)
{
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    for (unsigned i = 0; i < 4000; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "model.layers.%u.weight", i);
        maker_gguf_key_string(&gguf, name, "a text");
        maker_gguf_add_tensor(&gguf, name, MAKER_I8, 1, SHAPE(3), "abc", 3);
    }
    ck_assert_uint_gt(support_shrink_at_every_read(maker_gguf_finish(&gguf)), 15);
}
END_TEST

START_TEST(a_file_that_is_truncated_under_us_is_reported_by_the_real_pread)
{
    modelfile *file = support_opened(sample(3));
    const modelfile_tensor *last = support_tensor(file, "last");
    char *path = support_path("model");
    unsigned char got[420];
    strata_error err;
    ck_assert_int_eq(truncate(path, (off_t)last->offset + 20), 0);
    ck_assert_int_eq(modelfile_read(file, NULL, got, last->offset, 420, &err), STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "400 byte(s) missing"));
    support_check_remedy(err.text);
    modelfile_close(file);
    free(path);
}
END_TEST

START_TEST(an_error_of_the_disk_is_passed_on)
{
    support_pread how = {.fail_errno = EIO};
    modelfile_io io = support_io(&how);
    modelfile *file = NULL;
    ck_assert_int_eq(support_open(&file, sample(3), &io), STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(support_text(), "EIO"));
    support_check_remedy(support_text());
}
END_TEST

START_TEST(reads_outside_the_file_are_refused)
{
    modelfile *file = support_opened(sample(3));
    unsigned char got[8];
    uint64_t size = file->file_bytes;
    ck_assert_int_eq(modelfile_read(file, NULL, got, size - 8, 8, NULL), STRATA_OK);
    ck_assert_int_eq(modelfile_read(file, NULL, got, size, 0, NULL), STRATA_OK);
    strata_error err;
    ck_assert_int_eq(modelfile_read(file, NULL, got, size - 7, 8, &err), STRATA_INVALID);
    support_check_remedy(err.text);
    ck_assert_int_eq(modelfile_read(file, NULL, got, UINT64_MAX, 8, NULL), STRATA_INVALID);
    modelfile_close(file);
    modelfile_close(NULL);
}
END_TEST

/* ---- memory ---- */

START_TEST(every_allocation_may_fail)
{
    char *path = support_path("model");
    maker_bytes bytes = sample(3);
    maker_write(&bytes, path);
    maker_free(&bytes);
    size_t fail_count = _i == 0 ? 1 : SIZE_MAX;
    int before = support_descriptors();
    bool refused = true;
    size_t n = 0;
    while (refused) {
        n++;
        modelfile *file = NULL;
        strata_error err;
        support_memory_begin(n, fail_count);
        strata_status status = modelfile_open(&file, path, NULL, &err);
        refused = support_allocations.calls >= n;
        if (status == STRATA_OK) {
            modelfile_close(file);
        }
        support_memory_end();
        ck_assert_int_eq(status, refused ? STRATA_NO_MEMORY : STRATA_OK);
        if (refused) {
            support_check_remedy(err.text);
        }
        ck_assert_uint_eq(support_allocations.live_blocks, 0);
        ck_assert_int_eq(support_descriptors(), before);
    }
    ck_assert_msg(n > 4, "only %zu allocations were made to fail", n - 1);
    free(path);
}
END_TEST

int main(void)
{
    int type_count = (int)(sizeof types / sizeof types[0]);
    Suite *suite = suite_create("gguf");
    TCase *loads = tcase_create("loads");
    tcase_add_checked_fixture(loads, support_setup, support_teardown);
    tcase_add_loop_test(loads, versions_2_and_3_give_exact_tensors_and_metadata, 2, 4);
    tcase_add_test(loads, metadata_is_found_by_key_and_kind);
    tcase_add_loop_test(loads, each_type_has_its_exact_size, 0, type_count);
    tcase_add_loop_test(loads, each_type_has_its_natural_alignment, 0, type_count);
    tcase_add_test(loads, a_type_of_no_format_has_no_alignment);
    tcase_add_loop_test(loads, a_dimension_of_zero_loads_with_no_bytes, 0, type_count);
    tcase_add_test(loads, tensors_without_bytes_need_no_file_behind_them);
    tcase_add_test(loads, odd_but_valid_files_load);
    tcase_add_test(loads, long_texts_are_checked_but_not_kept);
    suite_add_tcase(suite, loads);

    TCase *refuses = tcase_create("refuses");
    tcase_set_timeout(refuses, 120);
    tcase_add_checked_fixture(refuses, support_setup, support_teardown);
    tcase_add_test(refuses, products_and_sums_that_wrap_are_refused);
    tcase_add_loop_test(refuses, a_row_that_is_no_multiple_of_the_block_is_refused, 0, type_count);
    tcase_add_test(refuses, removed_and_unknown_types_are_refused_by_number);
    tcase_add_test(refuses, alignment_is_a_power_of_two_and_is_obeyed);
    tcase_add_test(refuses, alignment_of_another_value_type_is_refused);
    tcase_add_test(refuses, offsets_that_are_not_aligned_or_overlap_are_refused);
    tcase_add_test(refuses, hostile_counts_cost_no_memory);
    tcase_add_test(refuses, nested_arrays_are_walked_without_recursion);
    tcase_add_test(refuses, a_plausible_count_over_garbage_costs_no_memory);
    tcase_add_test(refuses, keys_are_limited_to_65536);
    tcase_add_test(refuses, tensors_are_limited_to_1048576);
    tcase_add_loop_test(refuses, every_prefix_is_refused_with_the_end_and_the_size, 2, 4);
    tcase_add_test(refuses, offsets_past_the_file_are_refused_with_the_end_and_the_size);
    tcase_add_test(refuses, repeated_names_and_keys_are_refused_by_name);
    tcase_add_test(refuses, a_hundred_thousand_names_take_no_quadratic_time);
    tcase_add_test(refuses, big_endian_is_refused_as_big_endian);
    tcase_add_test(refuses, other_versions_are_refused_by_number);
    tcase_add_test(refuses, names_that_are_no_names_are_refused_and_printed_safely);
    tcase_add_test(refuses, long_names_do_not_push_out_the_remedy);
    tcase_add_test(refuses, other_shapes_and_value_types_are_refused);
    suite_add_tcase(suite, refuses);

    TCase *reads = tcase_create("reads");
    tcase_set_timeout(reads, 120);
    tcase_add_checked_fixture(reads, support_setup, support_teardown);
    tcase_add_test(reads, short_and_interrupted_reads_give_identical_bytes);
    tcase_add_test(reads, a_file_that_shrinks_is_a_system_error_with_the_missing_bytes);
    tcase_add_test(reads, a_file_that_shrinks_between_reads_is_never_called_invalid);
    tcase_add_test(reads, a_file_that_is_truncated_under_us_is_reported_by_the_real_pread);
    tcase_add_test(reads, an_error_of_the_disk_is_passed_on);
    tcase_add_test(reads, reads_outside_the_file_are_refused);
    tcase_add_loop_test(reads, every_allocation_may_fail, 0, 2);
    suite_add_tcase(suite, reads);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

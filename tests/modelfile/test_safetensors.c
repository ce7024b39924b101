/* test_safetensors.c - what the safetensors reader promises, and what it refuses; and what
 * opening says of files that are no model at all.
 *
 * Each test states its promise in its name; the files come from makers.c. Numbers in comments
 * (case 45) are scenarios from users of comparable software. */
#include "support.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHAPE(...)     \
    (const uint64_t[]) \
    {                  \
        __VA_ARGS__    \
    }

static const struct {
    const char *name;
    unsigned bits, align;
} dtypes[] = {
    {"BOOL", 8, 1},        {"F4", 4, 1},          {"F6_E2M3", 6, 1}, {"F6_E3M2", 6, 1},
    {"U8", 8, 1},          {"I8", 8, 1},          {"F8_E5M2", 8, 1}, {"F8_E4M3", 8, 1},
    {"F8_E8M0", 8, 1},     {"F8_E4M3FNUZ", 8, 1}, {"I16", 16, 2},    {"U16", 16, 2},
    {"F8_E5M2FNUZ", 8, 1}, {"F16", 16, 2},        {"BF16", 16, 2},   {"I32", 32, 4},
    {"U32", 32, 4},        {"F32", 32, 4},        {"C64", 64, 4},    {"F64", 64, 8},
    {"I64", 64, 8},        {"U64", 64, 8},
};

static maker_bytes sample(void)
{
    maker_safetensors file;
    unsigned char data[64];
    maker_pattern(data, sizeof data, 3);
    maker_safetensors_begin(&file);
    maker_safetensors_member(&file, "__metadata__", "{\"format\":\"pt\",\"\\u00e9\":\"x\"}");
    maker_safetensors_add_tensor(&file, "a.weight", "F32", 2, SHAPE(2, 3), data, 24);
    maker_safetensors_add_tensor(&file, "b.scale", "F16", 0, NULL, data, 2);
    maker_safetensors_add_tensor(&file, "c.empty", "I64", 2, SHAPE(7, 0), NULL, 0);
    maker_safetensors_add_tensor(&file, "d.weight", "BF16", 1, SHAPE(20), data, 40);
    return maker_safetensors_finish(&file);
}

/* One tensor whose description is this JSON, before `data_bytes` of data. */
static maker_bytes described_as(const char *name, const char *json, size_t data_bytes)
{
    maker_safetensors file;
    maker_safetensors_begin(&file);
    maker_safetensors_member(&file, name, json);
    maker_bytes bytes = maker_safetensors_finish(&file);
    maker_zeros(&bytes, data_bytes);
    return bytes;
}

static maker_bytes described(const char *json, size_t data_bytes)
{
    return described_as("only.weight", json, data_bytes);
}

/* ---- what loads ---- */

START_TEST(tensors_and_metadata_are_exact)
{
    modelfile *file = support_opened(sample());
    ck_assert_int_eq(file->format, MODELFILE_SAFETENSORS);
    ck_assert_str_eq(modelfile_format_name(file->format), "safetensors");
    ck_assert_uint_eq(file->version, 0);
    ck_assert_uint_eq(file->alignment, 1);
    ck_assert_uint_eq(file->tensor_count, 4);
    ck_assert_uint_eq(file->metadata_count, 2);
    ck_assert_uint_eq(file->weight_bytes, 66);
    ck_assert_str_eq(modelfile_find_text(file, "format"), "pt");
    ck_assert_str_eq(modelfile_find_text(file, "é"), "x");
    ck_assert_uint_eq(support_tensor(file, "b.scale")->rank, 0);
    ck_assert_uint_eq(support_tensor(file, "b.scale")->bytes, 2);
    ck_assert_uint_eq(support_tensor(file, "c.empty")->bytes, 0);
    const modelfile_tensor *last = support_tensor(file, "d.weight");
    ck_assert_str_eq(last->type, "BF16");
    ck_assert_uint_eq(last->offset, file->data_offset + 26);
    unsigned char got[40];
    unsigned char expected[40];
    maker_pattern(expected, sizeof expected, 3);
    ck_assert_int_eq(modelfile_read(file, NULL, got, last->offset, 40, NULL), STRATA_OK);
    ck_assert_mem_eq(got, expected, 40);
    modelfile_close(file);
}
END_TEST

/* Case 44, the half that loads */
START_TEST(headers_without_tensors_load)
{
    static const char *const headers[] = {"{}", "{\"__metadata__\":{}}", "{ } \t\r\n   ",
                                          "{\"__metadata__\":{\"a\":\"\\u0000\",\"b\":\"\"}}"};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        modelfile *file = support_opened(maker_safetensors_raw(headers[i], 0));
        ck_assert_uint_eq(file->tensor_count, 0);
        ck_assert_uint_eq(file->weight_bytes, 0);
        ck_assert_uint_eq(file->data_offset, file->file_bytes);
        modelfile_close(file);
    }
}
END_TEST

START_TEST(each_dtype_has_its_exact_size)
{
    maker_safetensors made;
    size_t bytes = (size_t)dtypes[_i].bits * 4 * 6 / 8;
    void *data = calloc(1, bytes);
    maker_safetensors_begin(&made);
    maker_safetensors_add_tensor(&made, "t", dtypes[_i].name, 2, SHAPE(4, 6), data, bytes);
    free(data);
    modelfile *file = support_opened(maker_safetensors_finish(&made));
    ck_assert_str_eq(file->tensors[0].type, dtypes[_i].name);
    ck_assert_uint_eq(modelfile_type_align(&file->tensors[0]), dtypes[_i].align);
    ck_assert_uint_eq(file->tensors[0].bytes, bytes);
    modelfile_close(file);
}
END_TEST

/* Case 36. In every place, beside dimensions whose product alone would not fit. */
START_TEST(a_dimension_of_zero_loads_with_no_bytes)
{
    for (uint32_t rank = 1; rank <= MODELFILE_RANK_MAX; rank++) {
        for (uint32_t zero = 0; zero < rank; zero++) {
            maker_safetensors made;
            uint64_t shape[MODELFILE_RANK_MAX];
            for (uint32_t i = 0; i < rank; i++) {
                shape[i] = i == zero ? 0 : INT64_MAX;
            }
            maker_safetensors_begin(&made);
            maker_safetensors_add_tensor(&made, "before", "U8", 1, SHAPE(3), "abc", 3);
            maker_safetensors_add_tensor(&made, "none", dtypes[_i].name, rank, shape, NULL, 0);
            maker_safetensors_add_tensor(&made, "after", "U8", 1, SHAPE(3), "def", 3);
            modelfile *file = support_opened(maker_safetensors_finish(&made));
            ck_assert_uint_eq(file->tensor_count, 3);
            ck_assert_uint_eq(support_tensor(file, "none")->bytes, 0);
            ck_assert_uint_eq(file->weight_bytes, 6);
            modelfile_close(file);
        }
    }
}
END_TEST

/* Case 46 */
START_TEST(data_at_offsets_that_are_not_aligned_loads)
{
    for (size_t odd = 1; odd < 8; odd++) {
        maker_safetensors made;
        unsigned char data[16];
        unsigned char got[16];
        maker_pattern(data, sizeof data, odd);
        maker_safetensors_begin(&made);
        maker_safetensors_add_tensor(&made, "odd", "U8", 1, SHAPE(odd), data, odd);
        maker_safetensors_add_tensor(&made, "floats", "F32", 1, SHAPE(4), data, 16);
        modelfile *file = support_opened(maker_safetensors_finish(&made));
        const modelfile_tensor *floats = support_tensor(file, "floats");
        ck_assert_uint_eq(floats->offset, file->data_offset + odd);
        ck_assert_int_eq(modelfile_read(file, NULL, got, floats->offset, 16, NULL), STRATA_OK);
        ck_assert_mem_eq(got, data, 16);
        modelfile_close(file);
    }
}
END_TEST

/* Case 45: positions past 2 and 4 GiB, in a sparse file. */
START_TEST(tensors_at_3_and_5_gib_are_exact)
{
    const uint64_t gib = 1ull << 30;
    maker_safetensors made;
    maker_safetensors_begin(&made);
    maker_safetensors_claim_tensor(&made, "low", "U8", 1, SHAPE(3 * gib), 0, 3 * gib);
    maker_safetensors_claim_tensor(&made, "three", "F32", 2, SHAPE(gib / 4, 2), 3 * gib, 5 * gib);
    maker_safetensors_claim_tensor(&made, "five", "F32", 1, SHAPE(16), 5 * gib, 5 * gib + 64);
    maker_bytes bytes = maker_safetensors_finish(&made);
    char *path = support_path("sparse");
    unsigned char expected[64];
    unsigned char got[64];
    maker_pattern(expected, sizeof expected, 5);
    maker_write(&bytes, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    off_t header = (off_t)bytes.count;
    ck_assert_int_eq(pwrite(fd, expected, 64, header + (off_t)(3 * gib)), 64);
    ck_assert_int_eq(pwrite(fd, expected, 64, header + (off_t)(5 * gib)), 64);
    (void)close(fd);
    maker_free(&bytes);

    modelfile *file = NULL;
    strata_error err = {.text = ""};
    ck_assert_msg(modelfile_open(&file, path, NULL, &err) == STRATA_OK, "%s", err.text);
    support_check_file(file);
    ck_assert_uint_eq(file->weight_bytes, 5 * gib + 64);
    ck_assert_uint_eq(support_tensor(file, "three")->offset, (uint64_t)header + 3 * gib);
    ck_assert_uint_eq(support_tensor(file, "five")->offset, (uint64_t)header + 5 * gib);
    for (size_t i = 1; i < 3; i++) {
        ck_assert_int_eq(modelfile_read(file, NULL, got, file->tensors[i].offset, 64, NULL),
                         STRATA_OK);
        ck_assert_mem_eq(got, expected, 64);
    }
    modelfile_close(file);
    free(path);
}
END_TEST

START_TEST(members_that_the_format_does_not_know_are_passed_over)
{
    modelfile_close(
        support_opened(described("{\"dtype\":\"U8\",\"shape\":[2],\"extra\":{\"a\":[1]},"
                                 "\"data_offsets\":[0,2]}",
                                 2)));
}
END_TEST

/* ---- what is refused ---- */

/* Case 44, the half that does not load */
START_TEST(metadata_that_is_no_text_is_refused_by_key)
{
    static const char *const values[] = {"1", "1.5", "true", "null", "[]", "{}"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char header[128];
        (void)snprintf(header, sizeof header,
                       "{\"__metadata__\":{\"fine\":\"x\",\"training_step\":%s}}", values[i]);
        support_refused(maker_safetensors_raw(header, 0), "training_step", NULL);
        (void)snprintf(header, sizeof header, "{\"__metadata__\":%s}",
                       strcmp(values[i], "{}") == 0 ? "\"text\"" : values[i]);
        support_refused(maker_safetensors_raw(header, 0), "__metadata__", NULL);
    }
}
END_TEST

/* jansson's own message leaves out what is longer than 20 bytes: short, long and escaped keys. */
START_TEST(duplicate_keys_are_refused_by_name)
{
    static const char *const keys[] = {"w", "model.layers.0.self_attn.q_proj.weight", "q\\\"uote",
                                       "\\u00e9", "back\\\\slash"};
    static const char tensor[] = "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        maker_safetensors made;
        maker_safetensors_begin(&made);
        maker_safetensors_member(&made, keys[i], tensor);
        maker_safetensors_member(&made, "between", tensor);
        maker_safetensors_member(&made, keys[i], tensor);
        maker_bytes bytes = maker_safetensors_finish(&made);
        maker_zeros(&bytes, 2);
        char quoted[80];
        (void)snprintf(quoted, sizeof quoted, "key '%s' is there twice", keys[i]);
        support_refused(bytes, quoted, NULL);
    }
    support_refused(maker_safetensors_raw("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0),
                    "key 'a'", "twice", NULL);
    support_refused(described("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
                              "\"shape\":[1]}",
                              1),
                    "key 'shape'", "twice", NULL);
    support_refused(maker_safetensors_raw("{\"__metadata__\":{},\"__metadata__\":{}}", 0),
                    "key '__metadata__'", "twice", NULL);

    maker_safetensors made; /* longer than what can be shown: its end is */
    char name[400];
    memset(name, 'x', sizeof name);
    (void)snprintf(name + 380, 20, ".the.end");
    maker_safetensors_begin(&made);
    maker_safetensors_member(&made, name, tensor);
    maker_safetensors_member(&made, name, tensor);
    maker_bytes bytes = maker_safetensors_finish(&made);
    support_refused(bytes, "...x", ".the.end' is there twice", NULL);
}
END_TEST

START_TEST(broken_json_is_refused_with_its_place)
{
    static const char *const headers[] = {
        "{",
        "{\"a\"",
        "{\"a\":}",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":1} {}",
        "{\"a\":01}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"\\u0000\":1}",
        "{\"a\":[1,2}",
        "{\"a\":NaN}",
        "{} x",
        "{\"a\":\"b\nc\"}",
        "{\"a\":123456789012345678901234567890}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        support_refused(maker_safetensors_raw(headers[i], 0), "not valid JSON", "byte", NULL);
    }
    maker_bytes zeros = {.data = NULL}; /* an object, then NULs where the padding is spaces */
    maker_u64(&zeros, 8);
    maker_put(&zeros, "{}\0\0\0\0\0\0", 8);
    support_refused(zeros, "not valid JSON", NULL);
    maker_bytes deep = {.data = NULL};
    maker_u64(&deep, 400000);
    for (int i = 0; i < 80000; i++) {
        maker_put(&deep, "{\"a\":", 5);
    }
    support_refused(deep, "deeper brackets", NULL);
}
END_TEST

START_TEST(descriptions_that_are_none_are_refused_by_tensor)
{
    static const char *const descriptions[] = {
        "1",
        "[]",
        "null",
        "{}",
        "{\"dtype\":\"U8\",\"shape\":[1]}",
        "{\"dtype\":\"U8\",\"data_offsets\":[0,1]}",
        "{\"shape\":[1],\"data_offsets\":[0,1]}",
        "{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}",
        "{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}",
        "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}",
        "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}",
        "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}",
        "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,\"1\"]}",
        "{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}",
    };
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++) {
        support_refused(described(descriptions[i], 1), "tensor 'only.weight'", NULL);
    }
}
END_TEST

/* An error has 256 bytes: the name yields, what is wrong and the remedy do not. */
START_TEST(long_names_do_not_push_out_the_remedy)
{
    static const char *const descriptions[] = {
        "[]",
        "{}",
        "{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}",
        "{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}",
        "{\"dtype\":\"F64\",\"shape\":[9223372036854775807],\"data_offsets\":[0,1]}",
        "{\"dtype\":\"F6_E2M3\",\"shape\":[9223372036854775807],\"data_offsets\":[0,1]}",
        "{\"dtype\":\"U8\",\"shape\":[9223372036854775806],"
        "\"data_offsets\":[1,9223372036854775806]}",
        "{\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
        "\"data_offsets\":[0,9223372036854775807]}",
        "{\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[9223372036854775807,9223372036854775806]}",
        "{\"dtype\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",\"shape\":[1],"
        "\"data_offsets\":[0,1]}",
    };
    char name[400];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++) {
        support_refused(described_as(name, descriptions[i], 1),
                        "tensor 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "...'", NULL);
    }
    char header[600];
    (void)snprintf(header, sizeof header, "{\"__metadata__\":{\"%s\":1}}", name);
    support_refused(maker_safetensors_raw(header, 0), "...' is not a string", NULL);
}
END_TEST

/* Case 45 */
START_TEST(numbers_that_are_no_counts_are_refused)
{
    static const char *const numbers[] = {"-1",    "1.5",  "1e3",  "1.0", "1e0",
                                          "\"1\"", "true", "null", "[1]", "-9223372036854775808"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char json[160];
        (void)snprintf(json, sizeof json,
                       "{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,1]}", numbers[i]);
        support_refused(described(json, 1), "only.weight", "shape", NULL);
        (void)snprintf(json, sizeof json,
                       "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%s,1]}", numbers[i]);
        support_refused(described(json, 1), "only.weight", "data_offsets", NULL);
        (void)snprintf(json, sizeof json,
                       "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,%s]}", numbers[i]);
        support_refused(described(json, 1), "only.weight", "data_offsets", NULL);
    }
}
END_TEST

START_TEST(offsets_are_exact_past_2_to_the_53)
{
    const uint64_t begin = (1ull << 53) + 1; /* a double would make 2^53 of it */
    maker_safetensors made;
    maker_safetensors_begin(&made);
    maker_safetensors_claim_tensor(&made, "far", "F32", 1, SHAPE(1), begin, begin + 4);
    maker_bytes bytes = maker_safetensors_finish(&made);
    char end[48];
    char size[48];
    (void)snprintf(end, sizeof end, "ends at byte %" PRIu64, bytes.count + begin + 4);
    (void)snprintf(size, sizeof size, "the file has %zu", bytes.count);
    support_refused(bytes, "tensor 'far'", end, size, NULL);

    maker_safetensors_begin(&made);
    maker_safetensors_claim_tensor(&made, "far", "F32", 1, SHAPE(1), begin, begin + 5);
    support_refused(maker_safetensors_finish(&made), "tensor 'far'", "5 bytes", "need 4", NULL);

    maker_safetensors_begin(&made);
    maker_safetensors_claim_tensor(&made, "far", "U8", 1, SHAPE(INT64_MAX), 0, INT64_MAX);
    support_refused(maker_safetensors_finish(&made), "tensor 'far'", "ends", NULL);
    maker_safetensors_begin(&made); /* case 41: JSON integers stop at 2^63 - 1 */
    maker_safetensors_claim_tensor(&made, "far", "U8", 1, SHAPE(8), UINT64_MAX - 31,
                                   UINT64_MAX - 23);
    support_refused(maker_safetensors_finish(&made), "too big integer", NULL);
}
END_TEST

START_TEST(sizes_that_do_not_agree_are_refused)
{
    support_refused(described("{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,0]}", 3),
                    "only.weight", "begin at 3", NULL);
    support_refused(described("{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,11]}", 11),
                    "only.weight", "11 bytes", "need 12", NULL);
    support_refused(described("{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}", 2),
                    "only.weight", "whole bytes", NULL);
    static const char *const shapes[] = {"4294967296,4294967296", "9223372036854775807,3",
                                         "2305843009213693952", "65536,65536,65536,65536",
                                         "1152921504606846976,8"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char json[160];
        (void)snprintf(json, sizeof json,
                       "{\"dtype\":\"F64\",\"shape\":[%s],\"data_offsets\":[0,0]}", shapes[i]);
        support_refused(described(json, 0), "only.weight", "64 bits", NULL);
    }
}
END_TEST

START_TEST(unknown_dtypes_are_refused_by_name)
{
    static const char *const names[] = {"", "f32", "F32 ", "F128", "Q4_K", "F8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char json[160];
        char quoted[32];
        (void)snprintf(json, sizeof json, "{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,4]}",
                       names[i]);
        (void)snprintf(quoted, sizeof quoted, "dtype '%s'", names[i]);
        support_refused(described(json, 4), "only.weight", quoted, NULL);
    }
}
END_TEST

START_TEST(overlaps_and_holes_are_refused_with_their_place)
{
    static const struct {
        uint64_t a_begin, a_end, b_begin, b_end;
        size_t data_bytes;
        const char *word;
    } cases[] = {
        {0, 4, 3, 7, 7, "inside"},       {0, 8, 2, 4, 8, "inside"},
        {0, 4, 0, 4, 4, "inside"},       {0, 4, 2, 2, 4, "inside"},
        {0, 4, 5, 9, 9, "belong to no"}, {1, 4, 4, 8, 8, "belong to no"},
        {0, 4, 4, 8, 9, "belong to no"}, {4, 8, 0, 3, 8, "belong to no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        maker_safetensors made;
        maker_safetensors_begin(&made);
        maker_safetensors_claim_tensor(&made, "a", "U8", 1,
                                       SHAPE(cases[i].a_end - cases[i].a_begin), cases[i].a_begin,
                                       cases[i].a_end);
        maker_safetensors_claim_tensor(&made, "b", "U8", 1,
                                       SHAPE(cases[i].b_end - cases[i].b_begin), cases[i].b_begin,
                                       cases[i].b_end);
        maker_bytes bytes = maker_safetensors_finish(&made);
        maker_zeros(&bytes, cases[i].data_bytes);
        support_refused(bytes, "byte", cases[i].word, NULL);
    }
    support_refused(maker_safetensors_raw("{}", 5), "bytes 10 to 15", "no tensor", NULL);
}
END_TEST

/* Case 41 */
START_TEST(every_prefix_is_refused_with_the_end_and_the_size)
{
    maker_bytes whole = sample();
    size_t header_end = whole.count - 66;
    for (size_t count = 0; count < whole.count; count++) {
        maker_bytes prefix = {.data = NULL};
        maker_put(&prefix, whole.data, count);
        char size[48];
        char end[48];
        size_t tensor_end = count < header_end        ? header_end
                            : count < header_end + 24 ? header_end + 24
                            : count < header_end + 26 ? header_end + 26
                                                      : whole.count;
        (void)snprintf(size, sizeof size, "the file has %zu", count);
        (void)snprintf(end, sizeof end, "ends at byte %zu", tensor_end);
        if (count < 9) {
            support_refused(prefix, count == 0 ? "empty" : "not a model file", NULL);
        } else {
            support_refused(prefix, end, size, NULL);
        }
    }
    maker_free(&whole);
}
END_TEST

/* Case 47 */
static maker_bytes padded_header(size_t header_bytes)
{
    maker_bytes bytes = {.data = NULL};
    static const char start[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
    maker_u64(&bytes, header_bytes);
    maker_put(&bytes, start, sizeof start - 1);
    size_t left = header_bytes - (sizeof start - 1);
    maker_zeros(&bytes, left);
    memset(bytes.data + bytes.count - left, ' ', left);
    maker_put(&bytes, "abc", 3);
    return bytes;
}

START_TEST(a_header_of_the_cap_loads_and_one_byte_more_does_not)
{
    modelfile *file = support_opened(padded_header(100000000));
    char got[3];
    ck_assert_uint_eq(file->data_offset, 100000008);
    ck_assert_int_eq(modelfile_read(file, NULL, got, file->tensors[0].offset, 3, NULL), STRATA_OK);
    ck_assert_mem_eq(got, "abc", 3);
    modelfile_close(file);
    support_refused(padded_header(100000001), "100000001", "cap is 100000000", NULL);
    maker_bytes huge = {.data = NULL};
    maker_u64(&huge, UINT64_MAX);
    maker_put(&huge, "{}", 2);
    support_refused(huge, "18446744073709551615", "cap is 100000000", NULL);
}
END_TEST

START_TEST(a_long_header_of_spaces_costs_no_memory)
{
    char *path = support_path("model");
    maker_bytes bytes = padded_header(20000000);
    modelfile *file = NULL;
    maker_write(&bytes, path);
    maker_free(&bytes);
    support_memory_begin(0, 0);
    strata_status status = modelfile_open(&file, path, NULL, NULL);
    modelfile_close(file);
    support_memory_end();
    ck_assert_int_eq(status, STRATA_OK);
    ck_assert_uint_eq(support_allocations.live_blocks, 0);
    ck_assert_msg(support_allocations.peak_bytes < 100000, "%zu", support_allocations.peak_bytes);
    free(path);
}
END_TEST

/* Case 40 for JSON: a header that only exists to be expensive. `piece` is repeated to 10 MB. */
static void expensive(const char *before, const char *piece)
{
    enum { HEADER_BYTES = 10000000 };
    maker_bytes bytes = {.data = NULL};
    char *path = support_path("model");
    maker_u64(&bytes, HEADER_BYTES);
    maker_put(&bytes, before, strlen(before));
    while (bytes.count < HEADER_BYTES) {
        maker_put(&bytes, piece, strlen(piece));
    }
    maker_put(&bytes, "        ", 8);
    maker_write(&bytes, path);
    maker_free(&bytes);
    modelfile *file = NULL;
    strata_error err;
    support_memory_begin(0, 0);
    strata_status status = modelfile_open(&file, path, NULL, &err);
    modelfile_close(file);
    support_memory_end();
    ck_assert_int_eq(status, STRATA_INVALID);
    support_check_remedy(err.text);
    ck_assert_uint_eq(support_allocations.live_blocks, 0);
    ck_assert_msg(support_allocations.peak_bytes < 30000000, "%s: %zu bytes", piece,
                  support_allocations.peak_bytes);
    free(path);
}

START_TEST(a_header_made_to_be_expensive_is_refused_while_it_is_read)
{
    expensive("[", "{},");
    expensive("{\"a\":", "[");
    expensive("{\"a\":", "{\"\":");
    expensive("{\"a\":[", "1,");
    expensive("{\"a\":[", "[],[\"]\\\"[\"],");
}
END_TEST

/* As many brackets as 1,048,576 tensors have, no denser than theirs: the last number that is read
 * to its end (and then refused for what it is), and one more. */
START_TEST(brackets_are_limited_to_those_of_1048576_tensors)
{
    for (unsigned count = 3 * 1048576; count <= 3 * 1048576 + 1; count++) {
        maker_bytes bytes = {.data = NULL};
        maker_put(&bytes, "        {\"a\":[[]", 8 + 8);
        for (unsigned i = 1; i < count; i++) {
            maker_put(&bytes, ",         []", 12);
        }
        maker_put(&bytes, "]}", 2);
        uint64_t header_bytes = bytes.count - 8;
        for (size_t i = 0; i < 8; i++) {
            bytes.data[i] = (unsigned char)(header_bytes >> (8 * i));
        }
        support_refused(bytes,
                        count == 3 * 1048576 ? "tensor 'a': its description is not an object"
                                             : "more brackets than 1048576 tensors",
                        NULL);
    }
}
END_TEST

START_TEST(brackets_in_texts_are_no_brackets)
{
    static const char brackets[] = {'[', '{', ',', '\\', '"'};
    char header[70000] = "{\"__metadata__\":{\"config\":\"";
    size_t at = strlen(header);
    while (at < sizeof header - 10) {
        memcpy(header + at, brackets, sizeof brackets);
        at += sizeof brackets;
    }
    (void)snprintf(header + at, sizeof header - at, "\"}}");
    modelfile_close(support_opened(maker_safetensors_raw(header, 0)));
}
END_TEST

START_TEST(a_hundred_thousand_names_take_no_quadratic_time)
{
    maker_safetensors made;
    struct timespec before;
    struct timespec after;
    maker_safetensors_begin(&made);
    for (unsigned i = 0; i < 100000; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "model.layers.experts.%u.weight", i);
        maker_safetensors_add_tensor(&made, name, "U8", 1, SHAPE(1), "x", 1);
    }
    maker_bytes bytes = maker_safetensors_finish(&made);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    modelfile *file = support_opened(bytes);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    ck_assert_uint_eq(file->tensor_count, 100000);
    modelfile_close(file);
    double spent = (double)(after.tv_sec - before.tv_sec) +
                   (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    ck_assert_msg(spent < 10.0 || getenv("STRATA_TEST_SLOW") != NULL, "%.1f s", spent);
}
END_TEST

/* ---- files that are no model ---- */

START_TEST(files_that_are_no_model_are_refused_with_a_remedy)
{
    static const struct {
        const char *content, *word, *remedy;
    } files[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
         "Git LFS pointer", "git lfs pull"},
        {"<!DOCTYPE html><html><body>404</body></html>", "web page", "fetch it again"},
        {"<html><head></head></html>", "web page", "fetch it again"},
        {"PK\003\004\024\1\1\1\1\1\1\1\1\1\1\1", "zip archive", "safetensors"},
        {"\200\002}q\1X\5", "pickle", "safetensors"},
        {"tjgg\3\1\1\1", "GGML", "GGUF"},
        {"{\"metadata\":{\"total_size\":1}}", "JSON", "safetensors"},
        {"{\"a\": {{{{{{{{{{{{{{", "JSON", "safetensors"},
        {"just some text that is long enough to be anything", "not a model file", "GGUF"},
        {"GGU", "not a model file", "fetch it again"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        maker_bytes bytes = {.data = NULL};
        maker_put(&bytes, files[i].content, strlen(files[i].content));
        support_refused(bytes, files[i].word, files[i].remedy, NULL);
    }
    maker_bytes empty = {.data = NULL};
    support_refused(empty, "empty", "fetch it again", NULL);
}
END_TEST

static strata_status open_path(const char *path, strata_error *err)
{
    modelfile *file = NULL;
    strata_status status = modelfile_open(&file, path, NULL, err);
    ck_assert_ptr_null(file);
    if (err != NULL) {
        support_check_remedy(err->text);
    }
    return status;
}

START_TEST(paths_that_are_no_file_are_refused_with_a_remedy)
{
    strata_error err;
    char *path = support_path("absent");
    ck_assert_int_eq(open_path(path, &err), STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "ENOENT"));
    ck_assert_ptr_nonnull(strstr(err.text, "check the path"));
    char long_path[6000]; /* an errno that has no words of its own */
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    ck_assert_int_eq(open_path(long_path, &err), STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "ENAMETOOLONG"));
    ck_assert_int_eq(open_path("/", &err), STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "directory"));
    ck_assert_int_eq(open_path("/dev/null", &err), STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "not a regular file"));
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* must not wait for a writer */
    ck_assert_int_eq(open_path(path, &err), STRATA_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "not a regular file"));
    ck_assert_int_eq(open_path(path, NULL), STRATA_INVALID);
    free(path);
}
END_TEST

START_TEST(a_file_that_may_not_be_read_is_refused_with_a_remedy)
{
    strata_error err;
    char *path = support_path("secret");
    maker_bytes bytes = sample();
    maker_write(&bytes, path);
    maker_free(&bytes);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0) { /* nothing is unreadable to root: become nobody in this child */
        char *folder = support_path(".");
        ck_assert_int_eq(chmod(folder, 0755), 0);
        ck_assert_int_eq(seteuid(65534), 0);
        free(folder);
    }
    strata_status status = open_path(path, &err);
    ck_assert_int_eq(geteuid() == 65534 ? seteuid(0) : 0, 0);
    ck_assert_int_eq(status, STRATA_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "EACCES"));
    ck_assert_ptr_nonnull(strstr(err.text, "owner and mode"));
    free(path);
}
END_TEST

/* ---- reading and memory ---- */

/* Case 49 */
START_TEST(short_and_interrupted_reads_give_identical_bytes)
{
    support_pread how = {.bytes_max = 7, .interrupt = true};
    modelfile_io io = support_io(&how);
    modelfile *file = NULL;
    ck_assert_msg(support_open(&file, sample(), &io) == STRATA_OK, "%s", support_text());
    support_check_file(file);
    unsigned char got[40];
    unsigned char expected[40];
    maker_pattern(expected, sizeof expected, 3);
    ck_assert_int_eq(
        modelfile_read(file, &io, got, support_tensor(file, "d.weight")->offset, 40, NULL),
        STRATA_OK);
    ck_assert_mem_eq(got, expected, 40);
    modelfile_close(file);
}
END_TEST

START_TEST(a_file_that_shrinks_is_a_system_error_with_the_missing_bytes)
{
    maker_bytes whole = sample();
    for (size_t at = 1; at < whole.count; at++) {
        support_pread how = {.bytes_max = 7, .shrunk_bytes = at};
        modelfile_io io = support_io(&how);
        modelfile *file = NULL;
        maker_bytes copy = {.data = NULL};
        maker_put(&copy, whole.data, whole.count);
        int before = support_descriptors();
        if (support_open(&file, copy, &io) == STRATA_OK) {
            unsigned char got[66];
            strata_error err;
            ck_assert_int_eq(modelfile_read(file, &io, got, file->data_offset, 66, &err),
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

/* A header of several buffers, which is read twice. */
START_TEST(a_file_that_shrinks_between_reads_is_never_called_invalid)
{
    maker_safetensors made;
    maker_safetensors_begin(&made);
    for (unsigned i = 0; i < 2500; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "model.layers.%u.weight", i);
        maker_safetensors_add_tensor(&made, name, "U8", 1, SHAPE(3), "abc", 3);
    }
    ck_assert_uint_gt(support_shrink_at_every_read(maker_safetensors_finish(&made)), 15);
}
END_TEST

/* Opens with the nth allocation failing (once, or from then on) until n is past the last. Out of
 * memory must be said as such: neither a syntax error nor a tensor by a wrong name. */
static size_t fail_every_allocation(maker_bytes bytes, size_t fail_count, const char *name)
{
    char *path = support_path("model");
    maker_write(&bytes, path);
    maker_free(&bytes);
    int before = support_descriptors();
    bool refused = true;
    size_t n = 0;
    while (refused) {
        n++;
        modelfile *file = NULL;
        strata_error err = {.text = ""};
        bool named = true;
        support_memory_begin(n, fail_count);
        strata_status status = modelfile_open(&file, path, NULL, &err);
        refused = support_allocations.calls >= n;
        if (status == STRATA_OK) {
            named = strcmp(file->tensors[0].name, name) == 0;
            modelfile_close(file);
        }
        support_memory_end();
        ck_assert_msg(status == (refused ? STRATA_NO_MEMORY : STRATA_OK), "allocation %zu: %s %s",
                      n, strata_status_name(status), err.text);
        if (refused) {
            support_check_remedy(err.text);
        }
        ck_assert(named);
        ck_assert_uint_eq(support_allocations.live_blocks, 0);
        ck_assert_int_eq(support_descriptors(), before);
    }
    free(path);
    return n - 1;
}

START_TEST(every_allocation_may_fail)
{
    size_t fail_count = _i == 0 ? 1 : SIZE_MAX;
    ck_assert_uint_gt(fail_every_allocation(sample(), fail_count, "a.weight"), 20);

    /* jansson's token grows at 16, 32 and 64 bytes; no quote may stand there (see README.md). */
    static const char name[] =
        "model.language_model.layers.10.mlp.experts.127.down_proj.weight_inv";
    maker_safetensors made;
    maker_safetensors_begin(&made);
    maker_safetensors_add_tensor(&made, name, "U8", 1, SHAPE(3), "abc", 3);
    ck_assert_uint_gt(fail_every_allocation(maker_safetensors_finish(&made), fail_count, name), 20);
}
END_TEST

int main(void)
{
    int dtype_count = (int)(sizeof dtypes / sizeof dtypes[0]);
    Suite *suite = suite_create("safetensors");
    TCase *loads = tcase_create("loads");
    tcase_set_timeout(loads, 120);
    tcase_add_checked_fixture(loads, support_setup, support_teardown);
    tcase_add_test(loads, tensors_and_metadata_are_exact);
    tcase_add_test(loads, headers_without_tensors_load);
    tcase_add_loop_test(loads, each_dtype_has_its_exact_size, 0, dtype_count);
    tcase_add_loop_test(loads, a_dimension_of_zero_loads_with_no_bytes, 0, dtype_count);
    tcase_add_test(loads, data_at_offsets_that_are_not_aligned_loads);
    tcase_add_test(loads, tensors_at_3_and_5_gib_are_exact);
    tcase_add_test(loads, members_that_the_format_does_not_know_are_passed_over);
    suite_add_tcase(suite, loads);

    TCase *refuses = tcase_create("refuses");
    tcase_set_timeout(refuses, 300); /* the header of 100 MB, under a sanitizer */
    tcase_add_checked_fixture(refuses, support_setup, support_teardown);
    tcase_add_test(refuses, metadata_that_is_no_text_is_refused_by_key);
    tcase_add_test(refuses, duplicate_keys_are_refused_by_name);
    tcase_add_test(refuses, broken_json_is_refused_with_its_place);
    tcase_add_test(refuses, descriptions_that_are_none_are_refused_by_tensor);
    tcase_add_test(refuses, long_names_do_not_push_out_the_remedy);
    tcase_add_test(refuses, numbers_that_are_no_counts_are_refused);
    tcase_add_test(refuses, offsets_are_exact_past_2_to_the_53);
    tcase_add_test(refuses, sizes_that_do_not_agree_are_refused);
    tcase_add_test(refuses, unknown_dtypes_are_refused_by_name);
    tcase_add_test(refuses, overlaps_and_holes_are_refused_with_their_place);
    tcase_add_test(refuses, every_prefix_is_refused_with_the_end_and_the_size);
    tcase_add_test(refuses, a_header_of_the_cap_loads_and_one_byte_more_does_not);
    tcase_add_test(refuses, a_long_header_of_spaces_costs_no_memory);
    tcase_add_test(refuses, a_header_made_to_be_expensive_is_refused_while_it_is_read);
    tcase_add_test(refuses, brackets_are_limited_to_those_of_1048576_tensors);
    tcase_add_test(refuses, brackets_in_texts_are_no_brackets);
    tcase_add_test(refuses, a_hundred_thousand_names_take_no_quadratic_time);
    tcase_add_test(refuses, files_that_are_no_model_are_refused_with_a_remedy);
    tcase_add_test(refuses, paths_that_are_no_file_are_refused_with_a_remedy);
    tcase_add_test(refuses, a_file_that_may_not_be_read_is_refused_with_a_remedy);
    suite_add_tcase(suite, refuses);

    TCase *reads = tcase_create("reads");
    tcase_set_timeout(reads, 120);
    tcase_add_checked_fixture(reads, support_setup, support_teardown);
    tcase_add_test(reads, short_and_interrupted_reads_give_identical_bytes);
    tcase_add_test(reads, a_file_that_shrinks_is_a_system_error_with_the_missing_bytes);
    tcase_add_test(reads, a_file_that_shrinks_between_reads_is_never_called_invalid);
    tcase_add_loop_test(reads, every_allocation_may_fail, 0, 2);
    suite_add_tcase(suite, reads);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

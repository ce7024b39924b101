/* make_model.c - writes one model file, right or wrong, for the scripts here.
 *
 *   make_model KIND PATH
 *
 * The kinds are the table at the end; numbers in comments (case 37) are scenarios that users of
 * comparable software met. What the bytes are is makers.c's business. */
#include "makers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHAPE(...) ((const uint64_t[]){__VA_ARGS__})
#define GIBIBYTE   (UINT64_C(1) << 30)

/* --- that load ---------------------------------------------------------------------------------*/

/* Twelve tensors of several types and odd sizes, one of no bytes (case 36), about 1.3 MB. */
static maker_bytes gguf_with_alignment(uint32_t alignment)
{
    static unsigned char data[1 << 17];
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    if (alignment != 0) {
        maker_gguf_alignment(&gguf, alignment);
    }
    maker_gguf_key_string(&gguf, "general.architecture", "llama");
    for (uint64_t i = 0; i < 10; i++) {
        char name[32];
        uint64_t elements = 32768 - 8 * i;
        (void)snprintf(name, sizeof name, "blk.%d.weight", (int)i);
        maker_pattern(data, sizeof data, i + 1);
        (void)maker_gguf_add_tensor(&gguf, name, MAKER_F32, 1, SHAPE(elements), data,
                                    (size_t)elements * 4);
    }
    (void)maker_gguf_add_tensor(&gguf, "empty.weight", MAKER_F32, 2, SHAPE(4, 0), data, 0);
    (void)maker_gguf_add_tensor(&gguf, "odd.weight", MAKER_I8, 1, SHAPE(77), data, 77);
    return maker_gguf_finish(&gguf);
}

static maker_bytes gguf(void)
{
    return gguf_with_alignment(0);
}

static maker_bytes gguf_align16(void) /* case 39 */
{
    return gguf_with_alignment(16);
}

static maker_bytes safetensors(void)
{
    static unsigned char data[1 << 16];
    maker_safetensors file;
    maker_safetensors_begin(&file);
    maker_pattern(data, sizeof data, 7);
    maker_safetensors_add_tensor(&file, "a.weight", "F32", 2, SHAPE(64, 256), data, sizeof data);
    maker_safetensors_add_tensor(&file, "b.empty", "F32", 2, SHAPE(0, 5), data, 0);
    maker_safetensors_add_tensor(&file, "c.weight", "BF16", 1, SHAPE(1001), data, 2002);
    return maker_safetensors_finish(&file);
}

/* F32 behind two bytes (case 46): no offset of it is a multiple of 4. */
static maker_bytes misaligned(void)
{
    unsigned char data[64];
    maker_safetensors file;
    maker_safetensors_begin(&file);
    maker_pattern(data, sizeof data, 3);
    maker_safetensors_add_tensor(&file, "a.half", "F16", 1, SHAPE(1), data, 2);
    maker_safetensors_add_tensor(&file, "b.weight", "F32", 1, SHAPE(4), data, 16);
    maker_bytes bytes = maker_safetensors_finish(&file);
    /* The header is padded by a space at a time until the data begins at a multiple of 4. */
    while (bytes.count % 4 != 2) {
        uint64_t header = 0;
        memcpy(&header, bytes.data, sizeof header);
        maker_u8(&bytes, 0);
        memmove(bytes.data + 8 + header + 1, bytes.data + 8 + header, bytes.count - 8 - header - 1);
        bytes.data[8 + header] = ' ';
        header++;
        memcpy(bytes.data, &header, sizeof header);
    }
    return bytes;
}

static maker_bytes empty_header(void) /* case 44 */
{
    return maker_safetensors_raw("{}", 0);
}

static maker_bytes empty_metadata(void)
{
    return maker_safetensors_raw("{\"__metadata__\":{}}", 0);
}

static maker_bytes large(void)
{
    return maker_safetensors_raw("{\"a.weight\":{\"dtype\":\"U8\",\"shape\":[8388608],"
                                 "\"data_offsets\":[0,8388608]}}",
                                 8388608);
}

/* --- that are refused --------------------------------------------------------------------------*/

static maker_bytes claimed(uint32_t type, uint32_t rank, const uint64_t *shape, uint64_t offset)
{
    maker_gguf gguf_file;
    maker_gguf_begin(&gguf_file, 3);
    maker_gguf_claim_tensor(&gguf_file, "blk.0.weight", type, rank, shape, offset);
    maker_bytes bytes = maker_gguf_finish(&gguf_file);
    maker_zeros(&bytes, 4096);
    return bytes;
}

static maker_bytes wraps(void) /* case 37 */
{
    return claimed(MAKER_F32, 3, SHAPE(4, (1 << 30) - 1, (1 << 30) + 1), 0);
}

static maker_bytes bad_row(void) /* case 38 */
{
    return claimed(MAKER_Q6_K, 2, SHAPE(8, 64), 0);
}

static maker_bytes removed_type(void)
{
    return claimed(4, 1, SHAPE(32), 0); /* Q4_2, gone from the format */
}

static maker_bytes far_offset(void) /* case 41 */
{
    return claimed(MAKER_F32, 1, SHAPE(16), UINT64_MAX - 31);
}

static maker_bytes align0(void) /* case 39 */
{
    uint32_t zero = 0;
    maker_gguf gguf_file;
    maker_gguf_begin(&gguf_file, 3);
    maker_gguf_key_raw(&gguf_file, "general.alignment", MAKER_VALUE_UINT32, &zero, sizeof zero);
    return maker_gguf_finish(&gguf_file);
}

static maker_bytes align12(void)
{
    uint32_t twelve = 12;
    maker_gguf gguf_file;
    maker_gguf_begin(&gguf_file, 3);
    maker_gguf_key_raw(&gguf_file, "general.alignment", MAKER_VALUE_UINT32, &twelve, sizeof twelve);
    return maker_gguf_finish(&gguf_file);
}

static maker_bytes long_array(void) /* case 40 */
{
    unsigned char value[12] = {MAKER_VALUE_UINT32, 0, 0, 0};
    uint64_t count = UINT64_C(1) << 58;
    memcpy(value + 4, &count, sizeof count);
    maker_gguf gguf_file;
    maker_gguf_begin(&gguf_file, 3);
    maker_gguf_key_raw(&gguf_file, "tokenizer.list", MAKER_VALUE_ARRAY, value, sizeof value);
    return maker_gguf_finish(&gguf_file);
}

static maker_bytes big_endian(void) /* case 43 */
{
    static const unsigned char head[24] = {'G', 'G', 'U', 'F', 0, 0, 0, 3};
    maker_bytes bytes = {0};
    maker_put(&bytes, head, sizeof head);
    return bytes;
}

static maker_bytes integer_metadata(void) /* case 44 */
{
    return maker_safetensors_raw("{\"__metadata__\":{\"epoch\":3}}", 0);
}

static maker_bytes duplicate_key(void)
{
    return maker_safetensors_raw("{\"same.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[0,1]},\"same.weight\":{\"dtype\":\"U8\","
                                 "\"shape\":[1],\"data_offsets\":[1,2]}}",
                                 2);
}

static maker_bytes broken_json(void)
{
    return maker_safetensors_raw("{\"a.weight\":{\"dtype\":", 16);
}

static maker_bytes negative_shape(void) /* case 45 */
{
    return maker_safetensors_raw("{\"a.weight\":{\"dtype\":\"U8\",\"shape\":[-1],"
                                 "\"data_offsets\":[0,1]}}",
                                 1);
}

static maker_bytes swapped_offsets(void)
{
    return maker_safetensors_raw("{\"a.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[2,1]}}",
                                 2);
}

static maker_bytes long_header(void) /* case 47 */
{
    maker_bytes bytes = {0};
    maker_u64(&bytes, 100000001);
    maker_put(&bytes, "{", 1);
    return bytes;
}

static maker_bytes lfs_pointer(void)
{
    static const char text[] = "version https://git-lfs.github.com/spec/v1\n"
                               "oid sha256:0000000000000000000000000000000000000000000000000000\n"
                               "size 4096\n";
    maker_bytes bytes = {0};
    maker_put(&bytes, text, sizeof text - 1);
    return bytes;
}

static maker_bytes noise(void)
{
    maker_bytes bytes = {0};
    maker_zeros(&bytes, 65536);
    maker_pattern(bytes.data, bytes.count, 99);
    return bytes;
}

/* --- sparse ------------------------------------------------------------------------------------*/

/* Two tensors of 4 KiB at 3 and 5 GiB of data, the rest holes (case 45). Their contents differ. */
static void write_sparse(const char *path)
{
    unsigned char data[4096];
    maker_gguf gguf_file;
    maker_gguf_begin(&gguf_file, 3);
    maker_gguf_claim_tensor(&gguf_file, "at3.weight", MAKER_F32, 1, SHAPE(1024), 3 * GIBIBYTE);
    maker_gguf_claim_tensor(&gguf_file, "at5.weight", MAKER_F32, 1, SHAPE(1024), 5 * GIBIBYTE);
    maker_bytes bytes = maker_gguf_finish(&gguf_file);
    off_t data_offset = (off_t)((bytes.count + 31) / 32 * 32);
    maker_write(&bytes, path);
    maker_free(&bytes);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (uint64_t at = 3; at <= 5; at += 2) {
        maker_pattern(data, sizeof data, at);
        if (fd < 0 || pwrite(fd, data, sizeof data, data_offset + (off_t)(at * GIBIBYTE)) !=
                          (ssize_t)sizeof data) {
            perror(path);
            exit(1);
        }
    }
    (void)close(fd);
}

/* --- the table ---------------------------------------------------------------------------------*/

static const struct {
    const char *kind;
    maker_bytes (*make)(void);
} kinds[] = {
    {"gguf", gguf},
    {"gguf-align16", gguf_align16},
    {"safetensors", safetensors},
    {"misaligned", misaligned},
    {"empty-header", empty_header},
    {"empty-metadata", empty_metadata},
    {"large", large},
    {"wraps", wraps},
    {"bad-row", bad_row},
    {"removed-type", removed_type},
    {"far-offset", far_offset},
    {"align0", align0},
    {"align12", align12},
    {"long-array", long_array},
    {"big-endian", big_endian},
    {"integer-metadata", integer_metadata},
    {"duplicate-key", duplicate_key},
    {"broken-json", broken_json},
    {"negative-shape", negative_shape},
    {"swapped-offsets", swapped_offsets},
    {"long-header", long_header},
    {"lfs-pointer", lfs_pointer},
    {"noise", noise},
};

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: make_model KIND PATH\n");
        return 2;
    }
    if (strcmp(argv[1], "sparse") == 0) {
        write_sparse(argv[2]);
        return 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, argv[1]) == 0) {
            maker_bytes bytes = kinds[i].make();
            maker_write(&bytes, argv[2]);
            maker_free(&bytes);
            return 0;
        }
    }
    (void)fprintf(stderr, "make_model: %s: unknown kind\n", argv[1]);
    return 2;
}

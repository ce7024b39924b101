/* makers.c - see makers.h. */
#include "makers.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    abort();
}

/* ---- bytes ---- */

static void reserve(maker_bytes *bytes, size_t count)
{
    if (bytes->capacity - bytes->count >= count) {
        return;
    }
    size_t capacity = bytes->capacity * 2 > bytes->count + count ? bytes->capacity * 2
                                                                 : bytes->count + count + 64;
    bytes->data = realloc(bytes->data, capacity);
    if (bytes->data == NULL) {
        fail("maker: realloc");
    }
    bytes->capacity = capacity;
}

void maker_put(maker_bytes *bytes, const void *data, size_t count)
{
    if (count > 0) {
        reserve(bytes, count);
        memcpy(bytes->data + bytes->count, data, count);
        bytes->count += count;
    }
}

void maker_zeros(maker_bytes *bytes, size_t count)
{
    if (count > 0) {
        reserve(bytes, count);
        memset(bytes->data + bytes->count, 0, count);
        bytes->count += count;
    }
}

static void put_little(maker_bytes *bytes, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)(value >> (8 * i));
        maker_put(bytes, &byte, 1);
    }
}

void maker_u8(maker_bytes *bytes, uint8_t value)
{
    put_little(bytes, value, 1);
}

void maker_u32(maker_bytes *bytes, uint32_t value)
{
    put_little(bytes, value, 4);
}

void maker_u64(maker_bytes *bytes, uint64_t value)
{
    put_little(bytes, value, 8);
}

void maker_string(maker_bytes *bytes, const char *text)
{
    maker_u64(bytes, strlen(text));
    maker_put(bytes, text, strlen(text));
}

void maker_pad(maker_bytes *bytes, size_t multiple)
{
    maker_zeros(bytes, (multiple - bytes->count % multiple) % multiple);
}

void maker_write(const maker_bytes *bytes, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fail(path);
    }
    if (bytes->count > 0 && fwrite(bytes->data, 1, bytes->count, file) != bytes->count) {
        fail(path);
    }
    if (fclose(file) != 0) {
        fail(path);
    }
}

void maker_free(maker_bytes *bytes)
{
    free(bytes->data);
    *bytes = (maker_bytes){.data = NULL};
}

void maker_pattern(void *into, size_t count, uint64_t seed)
{
    unsigned char *bytes = into;
    uint64_t state = seed * 2 + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
}

/* ---- a folder of its own ---- */

char *maker_path(const char *directory, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0) {
        fail("maker: asprintf");
    }
    return path;
}

char *maker_directory(void)
{
    const char *parent = getenv("TMPDIR");
    char *path = maker_path(parent != NULL ? parent : "/tmp", "strata-model-XXXXXX");
    if (mkdtemp(path) == NULL) {
        fail(path);
    }
    return path;
}

void maker_directory_remove(const char *directory)
{
    DIR *entries = opendir(directory);
    if (entries == NULL) {
        fail(directory);
    }
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(entries), entry->d_name, 0) != 0 &&
            unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR) != 0) {
            fail(entry->d_name);
        }
    }
    (void)closedir(entries);
    if (rmdir(directory) != 0) {
        fail(directory);
    }
}

/* ---- GGUF ---- */

void maker_gguf_begin(maker_gguf *gguf, uint32_t version)
{
    *gguf = (maker_gguf){.version = version, .alignment = 32};
}

void maker_gguf_key_raw(maker_gguf *gguf, const char *key, uint32_t type, const void *value,
                        size_t count)
{
    maker_string(&gguf->keys, key);
    maker_u32(&gguf->keys, type);
    maker_put(&gguf->keys, value, count);
    gguf->key_count++;
}

void maker_gguf_key_u32(maker_gguf *gguf, const char *key, uint32_t value)
{
    maker_gguf_key_raw(gguf, key, MAKER_VALUE_UINT32, NULL, 0);
    maker_u32(&gguf->keys, value);
}

void maker_gguf_key_string(maker_gguf *gguf, const char *key, const char *value)
{
    maker_gguf_key_raw(gguf, key, MAKER_VALUE_STRING, NULL, 0);
    maker_string(&gguf->keys, value);
}

void maker_gguf_alignment(maker_gguf *gguf, uint32_t alignment)
{
    maker_gguf_key_u32(gguf, "general.alignment", alignment);
    gguf->alignment = alignment;
}

void maker_gguf_claim_tensor(maker_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                             const uint64_t *shape, uint64_t offset)
{
    maker_string(&gguf->tensors, name);
    maker_u32(&gguf->tensors, rank);
    for (uint32_t i = 0; i < rank; i++) {
        maker_u64(&gguf->tensors, shape[i]);
    }
    maker_u32(&gguf->tensors, type);
    maker_u64(&gguf->tensors, offset);
    gguf->tensor_count++;
}

uint64_t maker_gguf_add_tensor(maker_gguf *gguf, const char *name, uint32_t type, uint32_t rank,
                               const uint64_t *shape, const void *data, size_t count)
{
    maker_pad(&gguf->data, gguf->alignment);
    uint64_t offset = gguf->data.count;
    maker_gguf_claim_tensor(gguf, name, type, rank, shape, offset);
    maker_put(&gguf->data, data, count);
    return offset;
}

maker_bytes maker_gguf_finish(maker_gguf *gguf)
{
    maker_bytes file = {.data = NULL};
    maker_put(&file, "GGUF", 4);
    maker_u32(&file, gguf->version);
    maker_u64(&file, gguf->tensor_count);
    maker_u64(&file, gguf->key_count);
    maker_put(&file, gguf->keys.data, gguf->keys.count);
    maker_put(&file, gguf->tensors.data, gguf->tensors.count);
    if (gguf->data.count > 0) {
        maker_pad(&file, gguf->alignment);
        maker_put(&file, gguf->data.data, gguf->data.count);
    }
    maker_free(&gguf->keys);
    maker_free(&gguf->tensors);
    maker_free(&gguf->data);
    return file;
}

/* ---- safetensors ---- */

static void put_text(maker_bytes *bytes, const char *text)
{
    maker_put(bytes, text, strlen(text));
}

void maker_safetensors_begin(maker_safetensors *file)
{
    *file = (maker_safetensors){.members = {.data = NULL}};
}

void maker_safetensors_member(maker_safetensors *file, const char *key, const char *json)
{
    put_text(&file->members, file->members.count > 0 ? ",\"" : "\"");
    put_text(&file->members, key);
    put_text(&file->members, "\":");
    put_text(&file->members, json);
}

void maker_safetensors_claim_tensor(maker_safetensors *file, const char *name, const char *dtype,
                                    uint32_t rank, const uint64_t *shape, uint64_t begin,
                                    uint64_t end)
{
    maker_bytes json = {.data = NULL};
    char number[64];
    put_text(&json, "{\"dtype\":\"");
    put_text(&json, dtype);
    put_text(&json, "\",\"shape\":[");
    for (uint32_t i = 0; i < rank; i++) {
        (void)snprintf(number, sizeof number, "%s%" PRIu64, i > 0 ? "," : "", shape[i]);
        put_text(&json, number);
    }
    (void)snprintf(number, sizeof number, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                   end);
    put_text(&json, number);
    maker_u8(&json, 0);
    maker_safetensors_member(file, name, (const char *)json.data);
    maker_free(&json);
}

void maker_safetensors_add_tensor(maker_safetensors *file, const char *name, const char *dtype,
                                  uint32_t rank, const uint64_t *shape, const void *data,
                                  size_t count)
{
    maker_safetensors_claim_tensor(file, name, dtype, rank, shape, file->data.count,
                                   file->data.count + count);
    maker_put(&file->data, data, count);
}

static maker_bytes assemble(const void *header, size_t header_bytes)
{
    maker_bytes file = {.data = NULL};
    maker_u64(&file, header_bytes);
    maker_put(&file, header, header_bytes);
    return file;
}

maker_bytes maker_safetensors_finish(maker_safetensors *file)
{
    maker_bytes header = {.data = NULL};
    put_text(&header, "{");
    maker_put(&header, file->members.data, file->members.count);
    put_text(&header, "}");
    maker_bytes whole = assemble(header.data, header.count);
    maker_put(&whole, file->data.data, file->data.count);
    maker_free(&header);
    maker_free(&file->members);
    maker_free(&file->data);
    return whole;
}

maker_bytes maker_safetensors_raw(const char *header, size_t data_bytes)
{
    maker_bytes file = assemble(header, strlen(header));
    maker_zeros(&file, data_bytes);
    return file;
}

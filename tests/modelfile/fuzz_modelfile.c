/* fuzz_modelfile.c - libFuzzer over both formats: whatever the bytes, open answers, and what it
 * accepts keeps every promise of modelfile.h.
 *
 * The bytes go into a file in memory, since the readers take a path. With STRATA_FUZZ_SEEDS naming
 * a folder, valid files of both formats are written there at the start, so that the search begins
 * behind the magic. Needs clang and -fsanitize=fuzzer-no-link,address,undefined over the whole
 * build; run with a corpus folder and -max_total_time=SECONDS. */
#include "makers.h"

#include <modelfile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

#define SHAPE(...)     \
    (const uint64_t[]) \
    {                  \
        __VA_ARGS__    \
    }

static void write_seed(const char *folder, const char *name, maker_bytes bytes)
{
    char *path = maker_path(folder, name);
    maker_write(&bytes, path);
    maker_free(&bytes);
    free(path);
}

static void write_seeds(const char *folder)
{
    unsigned char data[512] = {0};
    maker_gguf gguf;
    maker_gguf_begin(&gguf, 3);
    maker_gguf_alignment(&gguf, 16);
    maker_gguf_key_string(&gguf, "general.architecture", "llama");
    maker_gguf_key_raw(&gguf, "a", MAKER_VALUE_ARRAY, NULL, 0);
    maker_u32(&gguf.keys, MAKER_VALUE_ARRAY);
    maker_u64(&gguf.keys, 1);
    maker_u32(&gguf.keys, MAKER_VALUE_STRING);
    maker_u64(&gguf.keys, 1);
    maker_string(&gguf.keys, "x");
    maker_gguf_add_tensor(&gguf, "t", MAKER_Q6_K, 2, SHAPE(256, 2), data, 420);
    maker_gguf_add_tensor(&gguf, "u", MAKER_F32, 1, SHAPE(0), NULL, 0);
    maker_gguf_add_tensor(&gguf, "v", MAKER_F16, 1, SHAPE(3), data, 6);
    write_seed(folder, "gguf3", maker_gguf_finish(&gguf));
    maker_gguf_begin(&gguf, 2);
    write_seed(folder, "gguf2", maker_gguf_finish(&gguf));

    maker_safetensors file;
    maker_safetensors_begin(&file);
    maker_safetensors_member(&file, "__metadata__", "{\"format\":\"pt\"}");
    maker_safetensors_add_tensor(&file, "t", "F32", 2, SHAPE(2, 3), data, 24);
    maker_safetensors_add_tensor(&file, "u", "F4", 1, SHAPE(4), data, 2);
    maker_safetensors_add_tensor(&file, "v", "I64", 2, SHAPE(0, 9), NULL, 0);
    write_seed(folder, "safetensors", maker_safetensors_finish(&file));
    write_seed(folder, "empty-header", maker_safetensors_raw("{}", 0));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *folder = getenv("STRATA_FUZZ_SEEDS");
    if (folder != NULL) {
        write_seeds(folder);
    }
    return 0;
}

static void expect(int holds, const char *promise)
{
    if (!holds) {
        (void)fprintf(stderr, "broken promise: %s\n", promise);
        abort();
    }
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void check_names(const modelfile *file)
{
    const char **names = calloc(file->tensor_count + 1, sizeof *names);
    for (size_t i = 0; names != NULL && i < file->tensor_count; i++) {
        names[i] = file->tensors[i].name;
    }
    if (names != NULL && file->tensor_count > 1) {
        qsort(names, file->tensor_count, sizeof *names, compare_names);
        for (size_t i = 1; i < file->tensor_count; i++) {
            expect(strcmp(names[i - 1], names[i]) != 0, "no name twice");
        }
    }
    free(names);
}

static void check_file(const modelfile *file)
{
    uint64_t end = file->data_offset;
    uint64_t sum = 0;
    expect(file->data_offset <= file->file_bytes, "data begins inside the file");
    for (size_t i = 0; i < file->tensor_count; i++) {
        const modelfile_tensor *tensor = &file->tensors[i];
        expect(tensor->offset <= file->file_bytes &&
                   tensor->bytes <= file->file_bytes - tensor->offset,
               "tensors lie inside the file");
        expect(tensor->bytes == 0 || tensor->offset >= end, "tensors are in order and disjoint");
        expect(tensor->rank <= MODELFILE_RANK_MAX, "rank is limited");
        expect(tensor->type != NULL && tensor->name != NULL, "type and name are there");
        if (tensor->bytes > 0) {
            unsigned char byte = 0;
            end = tensor->offset + tensor->bytes;
            expect(modelfile_read(file, NULL, &byte, end - 1, 1, NULL) == STRATA_OK,
                   "the last byte can be read");
        }
        sum += tensor->bytes;
    }
    expect(sum == file->weight_bytes, "the sum is the sum");
    check_names(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static int fd = -1; /* one file for the whole run: the fuzzer is one thread */
    char path[32];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, count, 0) != (ssize_t)count) {
        abort();
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    modelfile *file = NULL;
    strata_error err = {.text = ""};
    strata_status status = modelfile_open(&file, path, NULL, &err);
    if (status == STRATA_OK) {
        check_file(file);
        modelfile_close(file);
        return 0;
    }
    expect(file == NULL, "nothing is handed out on failure");
    expect(status == STRATA_INVALID, "bytes of a stranger are invalid, nothing else");
    expect(err.text[0] != '\0' && strchr(err.text, '\n') == NULL, "one line says why");
    return 0;
}

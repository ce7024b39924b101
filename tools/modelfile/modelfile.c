/* modelfile.c - opens a model file, recognises what it is, and hands it to the reader of its
 * format.
 *
 * Recognition goes by content, never by the file's name. The files that people really pass by
 * mistake (a Git LFS pointer, an error page, a PyTorch archive) are told apart here, each with its
 * remedy; what a proper header says is the formats' business. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct mistake {
    const char *start;
    size_t bytes; /* of `start`: some have a NUL inside */
    const char *what, *remedy;
} mistake;

#define MISTAKE(start, what, remedy)           \
    {                                          \
        start, sizeof(start) - 1, what, remedy \
    }

static const mistake mistakes[] = {
    MISTAKE("version https://git-lfs", "a Git LFS pointer, not the model", "run git lfs pull"),
    MISTAKE("version https://hawser", "a Git LFS pointer, not the model", "run git lfs pull"),
    MISTAKE("<!DOCTYPE", "a web page, not a model", "the download failed, fetch it again"),
    MISTAKE("<!doctype", "a web page, not a model", "the download failed, fetch it again"),
    MISTAKE("<html", "a web page, not a model", "the download failed, fetch it again"),
    MISTAKE("PK\003\004", "a zip archive (PyTorch?), not a model", "convert it to safetensors"),
    MISTAKE("\200\002", "a Python pickle, not a model", "convert it to safetensors"),
    MISTAKE("tjgg", "a GGML file from before GGUF", "convert it to GGUF"),
    MISTAKE("lmgg", "a GGML file from before GGUF", "convert it to GGUF"),
    MISTAKE("fmgg", "a GGML file from before GGUF", "convert it to GGUF"),
    MISTAKE("algg", "a GGML file from before GGUF", "convert it to GGUF"),
    MISTAKE("{", "a JSON file, not a model", "name the .safetensors or .gguf files themselves"),
};

/* Long enough for every start in the table and for the ninth byte of a safetensors file. */
#define START_BYTES 32

static bool starts_with(const unsigned char *start, size_t bytes, const char *with, size_t length)
{
    return bytes >= length && memcmp(start, with, length) == 0;
}

static strata_status refuse_unknown(const unsigned char *start, size_t bytes, strata_error *err)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        if (starts_with(start, bytes, mistakes[i].start, mistakes[i].bytes)) {
            return modelfile__refuse(err, mistakes[i].remedy, "%s", mistakes[i].what);
        }
    }
    bool is_short = bytes < START_BYTES;
    return modelfile__refuse(err,
                             is_short ? MODELFILE_CUT_SHORT : "name a .gguf or .safetensors file",
                             "not a model file: it begins neither like GGUF nor like safetensors%s",
                             is_short ? ", and is very short" : "");
}

static strata_status read_format(modelfile_table *table, modelfile_reader *reader,
                                 strata_error *err)
{
    unsigned char start[START_BYTES];
    size_t bytes = reader->end < sizeof start ? (size_t)reader->end : sizeof start;
    strata_status status = modelfile__reader_take(reader, start, bytes, err);
    if (status != STRATA_OK) {
        return status;
    }
    reader->position = 0;
    if (starts_with(start, bytes, "GGUF", 4) || starts_with(start, bytes, "FUGG", 4)) {
        table->shown.format = MODELFILE_GGUF;
        return modelfile__gguf_read(table, reader, err);
    }
    /* Eight bytes of length, then the object that the format demands at once. A JSON text may have
     * a brace there too, and its first byte decides: as a length it would be far past the cap. */
    if (bytes > 8 && start[8] == '{' && start[0] != '{') {
        table->shown.format = MODELFILE_SAFETENSORS;
        return modelfile__safetensors_read(table, reader, err);
    }
    return refuse_unknown(start, bytes, err);
}

static strata_status open_failed(int code, strata_error *err)
{
    strata_status status =
        strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, code, "open");
    if (code == ENOENT || code == ENOTDIR) {
        strata_error_append(err, ": no such file, check the path");
    } else if (code == EACCES || code == EPERM) {
        strata_error_append(err, ": not allowed to read it, check its owner and mode");
    } else if (code == EMFILE || code == ENFILE) {
        strata_error_append(err, ": too many files are open, raise the limit (ulimit -n)");
    } else {
        strata_error_append(err, ": check the path and its file system");
    }
    return status;
}

static strata_status check_kind(const struct stat *about, strata_error *err)
{
    if (S_ISDIR(about->st_mode)) {
        return modelfile__refuse(err, "name the .gguf or .safetensors file in it", "a directory");
    }
    if (!S_ISREG(about->st_mode)) {
        return modelfile__refuse(err, "copy it to a file first",
                                 "not a regular file (a pipe or device)");
    }
    if (about->st_size <= 0) {
        return modelfile__refuse(err, "fetch it again", "an empty file");
    }
    return STRATA_OK;
}

/* A reader that loses a race against a truncation can be handed zeros, and refuse what was fine (or
 * find two parses that differ, and take it for a lack of memory). Where the file is shorter now
 * than when it was opened, that is therefore what is said. */
static strata_status blame_shrinking(int fd, uint64_t bytes, strata_status status,
                                     strata_error *err)
{
    struct stat now;
    if (fstat(fd, &now) != 0 || (uint64_t)now.st_size >= bytes) {
        return status;
    }
    return strata_error_set(err, STRATA_SYSTEM,
                            "the file became shorter while it was read: %" PRIu64
                            " byte(s) missing at byte %" PRIu64 ": " MODELFILE_WAIT,
                            bytes - (uint64_t)now.st_size, (uint64_t)now.st_size);
}

static strata_status read_descriptor(modelfile **out, int fd, const modelfile_io *io,
                                     strata_error *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "fstat");
    }
    strata_status status = check_kind(&about, err);
    if (status != STRATA_OK) {
        return status;
    }
    modelfile_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        return modelfile__no_memory(err, sizeof *table, "the file's description");
    }
    table->shown.file_bytes = (uint64_t)about.st_size;
    table->shown.fd = fd;
    modelfile_reader reader;
    status = modelfile__reader_init(&reader, fd, io, table->shown.file_bytes, err);
    if (status == STRATA_OK) {
        status = read_format(table, &reader, err);
        modelfile__reader_fini(&reader);
    }
    if (status == STRATA_INVALID || status == STRATA_NO_MEMORY) {
        status = blame_shrinking(fd, table->shown.file_bytes, status, err);
    }
    if (status != STRATA_OK) {
        modelfile__table_fini(table);
        free(table);
        return status;
    }
    *out = &table->shown;
    return STRATA_OK;
}

strata_status modelfile_open(modelfile **out, const char *path, const modelfile_io *io,
                             strata_error *err)
{
    /* O_NONBLOCK: opening a named pipe must not wait for somebody to write to it. It means nothing
     * for the regular files that get past the next check. */
    int fd = -1;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return open_failed(errno, err);
    }
    strata_status status = read_descriptor(out, fd, io, err);
    if (status != STRATA_OK) {
        (void)close(fd);
    }
    return status;
}

strata_status modelfile_read(const modelfile *file, const modelfile_io *io, void *into,
                             uint64_t offset, size_t bytes, strata_error *err)
{
    if (offset > file->file_bytes || bytes > file->file_bytes - offset) {
        return modelfile__refuse(err, "read what the list of tensors has",
                                 "%zu byte(s) at byte %" PRIu64 " lie outside the file's %" PRIu64,
                                 bytes, offset, file->file_bytes);
    }
    return modelfile__pread(file->fd, io, into, offset, bytes, err);
}

static const modelfile_entry *find_entry(const modelfile *file, const char *key)
{
    const modelfile_table *table = (const modelfile_table *)file;
    size_t low = 0;
    size_t high = table->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, table->entries[middle].key);
        if (order == 0) {
            return &table->entries[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

bool modelfile_find_uint(const modelfile *file, const char *key, uint64_t *value)
{
    const modelfile_entry *entry = find_entry(file, key);
    if (entry == NULL || entry->kind != MODELFILE_VALUE_UINT) {
        return false;
    }
    *value = entry->number;
    return true;
}

const char *modelfile_find_text(const modelfile *file, const char *key)
{
    const modelfile_entry *entry = find_entry(file, key);
    return entry != NULL && entry->kind == MODELFILE_VALUE_TEXT ? entry->text : NULL;
}

size_t modelfile_type_align(const modelfile_tensor *tensor)
{
    /* A name that both formats have means the same in both, so the file need not be asked. */
    size_t align = modelfile__gguf_type_align(tensor->type);
    if (align == 0) {
        align = modelfile__safetensors_type_align(tensor->type);
    }
    return align == 0 ? 1 : align;
}

const char *modelfile_format_name(modelfile_format format)
{
    return format == MODELFILE_GGUF          ? "gguf"
           : format == MODELFILE_SAFETENSORS ? "safetensors"
                                             : "unknown";
}

void modelfile_close(modelfile *file)
{
    if (file == NULL) {
        return;
    }
    modelfile_table *table = (modelfile_table *)file;
    (void)close(file->fd);
    modelfile__table_fini(table);
    free(table);
}

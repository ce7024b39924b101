/* support.c - see support.h.
 *
 * The readers' allocator is replaced at link time (--wrap), jansson's through its own hook, which
 * is process-wide and therefore something for tests only. Both count into one account. Blocks are
 * measured with malloc_usable_size, so that a block can be freed by either side. */
#include "support.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *directory;
static strata_error last_error;

void support_setup(void)
{
    directory = maker_directory();
}

void support_teardown(void)
{
    maker_directory_remove(directory);
    free(directory);
}

char *support_path(const char *name)
{
    return maker_path(directory, name);
}

strata_status support_open(modelfile **file, maker_bytes bytes, const modelfile_io *io)
{
    char *path = support_path("model");
    maker_write(&bytes, path);
    maker_free(&bytes);
    *file = NULL;
    last_error = (strata_error){.status = STRATA_OK};
    strata_status status = modelfile_open(file, path, io, &last_error);
    free(path);
    ck_assert_int_eq(status, last_error.status);
    ck_assert((status == STRATA_OK) == (*file != NULL));
    return status;
}

const char *support_text(void)
{
    return last_error.text;
}

strata_status support_status(void)
{
    return last_error.status;
}

/* What a user is told to do, by the test's own list: a new remedy has to be added here. */
static const char *const remedies[] = {
    "damaged, fetch it again",
    "cut short or damaged, fetch it again",
    "fetch it again",
    "the download failed, fetch it again",
    "fetch it again, or convert it again with a current tool",
    "convert it again with a current tool",
    "convert it to another type, or use a newer strata",
    "convert it to little-endian",
    "convert it to safetensors",
    "convert it to GGUF",
    "quantise it again",
    "quantise it to a type with smaller blocks",
    "split the model into several files",
    "run git lfs pull",
    "name the .safetensors or .gguf files themselves",
    "name a .gguf or .safetensors file",
    "name the .gguf or .safetensors file in it",
    "copy it to a file first",
    "wait for its writer, then try again",
    "reading failed, check the disk or network file system",
    "no such file, check the path",
    "not allowed to read it, check its owner and mode",
    "too many files are open, raise the limit (ulimit -n)",
    "check the path and its file system",
    "free some or raise the limit",
    "read what the list of tensors has",
};

void support_check_remedy(const char *text)
{
    ck_assert_msg(strchr(text, '\n') == NULL, "more than a line: %s", text);
    const char *colon = strrchr(text, ':');
    ck_assert_msg(colon != NULL && colon > text, "no remedy: %s", text);
    bool known = false;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++) {
        known = known || strcmp(colon + 1 + strspn(colon + 1, " "), remedies[i]) == 0;
    }
    ck_assert_msg(known, "no remedy: %s", text);
}

void support_refused_with(maker_bytes bytes, const char *const *words)
{
    int before = support_descriptors();
    modelfile *file = NULL;
    strata_status status = support_open(&file, bytes, NULL);
    ck_assert_msg(status == STRATA_INVALID, "status %s, text: %s", strata_status_name(status),
                  last_error.text);
    ck_assert_int_eq(support_descriptors(), before);
    support_check_remedy(last_error.text);
    for (; *words != NULL; words++) {
        ck_assert_msg(strstr(last_error.text, *words) != NULL, "no '%s' in: %s", *words,
                      last_error.text);
    }
}

modelfile *support_opened(maker_bytes bytes)
{
    modelfile *file = NULL;
    strata_status status = support_open(&file, bytes, NULL);
    ck_assert_msg(status == STRATA_OK, "refused: %s", last_error.text);
    support_check_file(file);
    return file;
}

void support_check_file(const modelfile *file)
{
    uint64_t end = file->data_offset;
    uint64_t sum = 0;
    ck_assert(file->data_offset <= file->file_bytes);
    for (size_t i = 0; i < file->tensor_count; i++) {
        const modelfile_tensor *tensor = &file->tensors[i];
        ck_assert(tensor->offset <= file->file_bytes);
        ck_assert(tensor->bytes <= file->file_bytes - tensor->offset);
        ck_assert(tensor->bytes == 0 || tensor->offset >= end);
        ck_assert(i == 0 || tensor->offset >= file->tensors[i - 1].offset);
        ck_assert(tensor->rank <= MODELFILE_RANK_MAX);
        end = tensor->bytes == 0 ? end : tensor->offset + tensor->bytes;
        sum += tensor->bytes;
    }
    ck_assert(sum == file->weight_bytes);
}

const modelfile_tensor *support_tensor(const modelfile *file, const char *name)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    ck_abort_msg("no tensor '%s'", name);
    return NULL;
}

int support_descriptors(void)
{
    int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(entries);
    while (readdir(entries) != NULL) {
        count++;
    }
    (void)closedir(entries);
    return count;
}

/* ---- hostile reading ---- */

/* What a read may see that meets a truncation on its way. */
static ssize_t answer_zeros(support_pread *how, int fd, void *buffer, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(truncate(path, (off_t)how->shrunk_bytes), 0);
    memset(buffer, 0, bytes);
    how->shrank = true;
    return (ssize_t)bytes;
}

static ssize_t hostile_pread(void *user, int fd, void *buffer, size_t bytes, off_t offset)
{
    support_pread *how = user;
    how->interrupted = how->interrupt && !how->interrupted;
    if (how->interrupted || how->fail_errno != 0) {
        errno = how->interrupted ? EINTR : how->fail_errno;
        return -1;
    }
    if (how->bytes_max != 0 && bytes > how->bytes_max) {
        bytes = how->bytes_max;
    }
    how->answers++;
    if (how->shrunk_bytes != 0 && how->answers > how->shrink_after) {
        uint64_t left = (uint64_t)offset < how->shrunk_bytes ? how->shrunk_bytes - (uint64_t)offset
                                                             : 0;
        if (bytes > left && how->shrink_to_zeros && !how->shrank) {
            return answer_zeros(how, fd, buffer, bytes);
        }
        how->shrank = how->shrank || bytes > left;
        bytes = bytes < left ? bytes : (size_t)left;
    }
    return bytes == 0 ? 0 : pread(fd, buffer, bytes, offset);
}

modelfile_io support_io(support_pread *how)
{
    return (modelfile_io){.pread = hostile_pread, .user = how};
}

/* One opening of a copy. True where bytes were asked for that were gone. */
static bool shrink_once(const maker_bytes *whole, support_pread how)
{
    modelfile_io io = support_io(&how);
    modelfile *file = NULL;
    maker_bytes copy = {.data = NULL};
    maker_put(&copy, whole->data, whole->count);
    int before = support_descriptors();
    strata_status status = support_open(&file, copy, &io);
    if (status == STRATA_OK) {
        ck_assert(!how.shrank || how.shrink_to_zeros); /* zeros in a place that nobody looks at */
        modelfile_close(file);
    } else {
        ck_assert_msg(status == STRATA_SYSTEM, "status %s after %zu reads: %s",
                      strata_status_name(status), how.shrink_after, support_text());
        ck_assert_ptr_nonnull(strstr(support_text(), "became shorter"));
        support_check_remedy(support_text());
        ck_assert(how.shrank);
    }
    ck_assert_int_eq(support_descriptors(), before);
    return how.shrank;
}

size_t support_shrink_at_every_read(maker_bytes whole)
{
    const uint64_t sizes[] = {1, whole.count / 2, whole.count - 1};
    bool asked = true;
    size_t reads = 0;
    while (asked) {
        asked = false;
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
            support_pread how = {.bytes_max = 20000, .shrink_after = reads};
            how.shrunk_bytes = sizes[i / 2];
            how.shrink_to_zeros = i % 2 == 1;
            asked = shrink_once(&whole, how) || asked;
        }
        reads++;
    }
    maker_free(&whole);
    return reads - 1;
}

/* ---- memory ---- */

support_memory support_allocations;
static bool counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);

static bool refuse_allocation(void)
{
    support_memory *all = &support_allocations;
    if (!counting) {
        return false;
    }
    all->calls++;
    return all->fail_at != 0 && all->calls >= all->fail_at &&
           all->calls - all->fail_at < all->fail_count;
}

static void *count_block(void *block)
{
    support_memory *all = &support_allocations;
    if (counting && block != NULL) {
        all->live_blocks++;
        all->live_bytes += malloc_usable_size(block);
        all->peak_bytes = all->live_bytes > all->peak_bytes ? all->live_bytes : all->peak_bytes;
    }
    return block;
}

static void uncount_block(void *block)
{
    if (counting && block != NULL) {
        support_allocations.live_blocks--;
        support_allocations.live_bytes -= malloc_usable_size(block);
    }
}

void *__wrap_malloc(size_t bytes)
{
    return refuse_allocation() ? NULL : count_block(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuse_allocation() ? NULL : count_block(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (refuse_allocation()) {
        return NULL;
    }
    uncount_block(block);
    return count_block(__real_realloc(block, bytes));
}

void __wrap_free(void *block)
{
    uncount_block(block);
    __real_free(block);
}

void support_memory_begin(size_t fail_at, size_t fail_count)
{
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    support_allocations = (support_memory){.fail_at = fail_at, .fail_count = fail_count};
    counting = true;
}

void support_memory_end(void)
{
    counting = false;
    json_set_alloc_funcs(__real_malloc, __real_free);
}

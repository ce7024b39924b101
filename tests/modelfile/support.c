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

void support_refused_with(maker_bytes bytes, const char *const *words)
{
    int before = support_descriptors();
    modelfile *file = NULL;
    strata_status status = support_open(&file, bytes, NULL);
    ck_assert_msg(status == STRATA_INVALID, "status %s, text: %s", strata_status_name(status),
                  last_error.text);
    ck_assert_int_eq(support_descriptors(), before);
    ck_assert_msg(strchr(last_error.text, '\n') == NULL, "more than a line: %s", last_error.text);
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
    if (how->shrunk_bytes != 0) {
        uint64_t left = (uint64_t)offset < how->shrunk_bytes ? how->shrunk_bytes - (uint64_t)offset
                                                             : 0;
        bytes = bytes < left ? bytes : (size_t)left;
    }
    return bytes == 0 ? 0 : pread(fd, buffer, bytes, offset);
}

modelfile_io support_io(support_pread *how)
{
    return (modelfile_io){.pread = hostile_pread, .user = how};
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

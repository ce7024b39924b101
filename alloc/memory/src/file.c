/* file.c - a file's contents as memory: one private, read-only mapping of the whole.
 *
 * Nothing can grow or be trimmed; committing only makes the kernel read ahead where that was asked
 * for. The bytes are page cache: returning the range unmaps them and leaves the cache to the
 * kernel. */
#include <strata/host.h>

#include "internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static strata_file_backend *file_of(strata_backend *self)
{
    return (strata_file_backend *)(void *)self;
}

static size_t granularity(strata_backend *self, strata_pages pages)
{
    (void)pages;
    return file_of(self)->page_bytes_;
}

static strata_status reserve(strata_backend *self, strata_range *range,
                             const strata_reserve_request *request, strata_error *err)
{
    strata_file_backend *file = file_of(self);
    const strata_host_system *system = &file->system_;
    if (request->pages != STRATA_PAGES_DEFAULT && !request->pages_fallback) {
        return strata_error_set(
            err, STRATA_UNSUPPORTED,
            "a mapped file comes in the page cache's pages, not %s; set `pages = "
            "default` or `pages_fallback = yes`",
            strata_pages_name(request->pages));
    }
    size_t whole;
    if (file->file_bytes_ > SIZE_MAX ||
        !strata_size_align_up((size_t)file->file_bytes_, file->page_bytes_, &whole) ||
        request->bytes != whole) {
        return strata_error_set(
            err, STRATA_INVALID,
            "a file of %llu bytes is mapped whole, not %zu bytes of it; reserve "
            "exactly that",
            (unsigned long long)file->file_bytes_, request->bytes);
    }
    void *base = system->map(system->user, NULL, whole, PROT_READ, MAP_PRIVATE, file->fd_, 0);
    if (base == MAP_FAILED) {
        strata_status status = errno == ENOMEM ? STRATA_NO_MEMORY : STRATA_SYSTEM;
        return strata_error_native(err, status, STRATA_ORIGIN_ERRNO, errno, "mmap of the file");
    }
    *range = (strata_range){.base = base,
                            .reserve_bytes = whole,
                            .pages = STRATA_PAGES_DEFAULT,
                            .prefault = request->prefault,
                            .mapping = base,
                            .mapping_bytes = whole};
    return STRATA_OK;
}

static strata_status commit(strata_backend *self, strata_range *range, size_t from, size_t bytes,
                            strata_error *err)
{
    (void)err;
    const strata_host_system *system = &file_of(self)->system_;
    if (range->prefault) {
        /* Advice only: a kernel that cannot read ahead reads later. */
        (void)system->advise(system->user, (char *)range->base + from, bytes, MADV_WILLNEED);
    }
    return STRATA_OK;
}

static strata_status release(strata_backend *self, strata_range *range, strata_error *err)
{
    const strata_host_system *system = &file_of(self)->system_;
    if (system->unmap(system->user, range->mapping, range->mapping_bytes) != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "munmap");
    }
    return STRATA_OK;
}

static strata_verdict verify(strata_backend *self, const strata_range *range, size_t *short_bytes,
                             char *reason, size_t capacity)
{
    strata_file_backend *file = file_of(self);
    return strata__verify_unmapped(&file->system_, range, file->page_bytes_, short_bytes, reason,
                                   capacity);
}

static const strata_backend_ops file_ops = {
    .version = STRATA_BACKEND_VERSION,
    .name = "file",
    .host_accessible = true,
    .can_grow = false,
    .granularity = granularity,
    .reserve = reserve,
    .commit = commit,
    .decommit = NULL,
    .release = release,
    .verify = verify,
};

strata_status strata_file_backend_init(strata_file_backend *file, int fd, strata_gate *gate,
                                       const strata_host_system *system, strata_error *err)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "fstat");
    }
    if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
        return strata_error_set(err, STRATA_INVALID,
                                "only a regular file with contents can be mapped");
    }
    strata_backend_init(&file->backend, &file_ops, gate);
    file->system_ = system != NULL ? *system : strata__host_system;
    file->page_bytes_ = (size_t)sysconf(_SC_PAGESIZE);
    file->fd_ = fd;
    file->file_bytes_ = (uint64_t)status.st_size;
    return STRATA_OK;
}

size_t strata_file_backend_bytes(const strata_file_backend *file)
{
    return (size_t)file->file_bytes_;
}

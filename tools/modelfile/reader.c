/* reader.c - bytes of a model file, in order, through a buffer, none past the end.
 *
 * Knows positions and sizes only; what the bytes mean is the formats' business. Every count that a
 * file announces goes through take or skip, and both compare it with what the file has left before
 * anything else happens. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A header of a few MiB in a few dozen reads; more would not be faster. */
#define BUFFER_BYTES_MAX 65536

static ssize_t pread_once(int fd, const modelfile_io *io, void *into, size_t bytes, uint64_t offset)
{
    if (io != NULL && io->pread != NULL) {
        return io->pread(io->user, fd, into, bytes, (off_t)offset);
    }
    return pread(fd, into, bytes, (off_t)offset);
}

strata_status modelfile__pread(int fd, const modelfile_io *io, void *into, uint64_t offset,
                               size_t bytes, strata_error *err)
{
    unsigned char *next = into;
    size_t missing = bytes;
    while (missing > 0) {
        ssize_t got = pread_once(fd, io, next, missing, offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, errno, "pread");
            strata_error_append(err, ": reading failed, check the disk or network file system");
            return STRATA_SYSTEM;
        }
        if (got == 0) {
            return strata_error_set(err, STRATA_SYSTEM,
                                    "the file became shorter while it was read: %zu byte(s) "
                                    "missing at byte %" PRIu64 ": " MODELFILE_WAIT,
                                    missing, offset);
        }
        if ((size_t)got > missing) {
            return strata_error_set(err, STRATA_SYSTEM, "pread answered %zd for %zu bytes", got,
                                    missing);
        }
        next += got;
        missing -= (size_t)got;
        offset += (uint64_t)got;
    }
    return STRATA_OK;
}

strata_status modelfile__reader_init(modelfile_reader *reader, int fd, const modelfile_io *io,
                                     uint64_t end, strata_error *err)
{
    size_t capacity = end < BUFFER_BYTES_MAX ? (size_t)end : BUFFER_BYTES_MAX;
    *reader = (modelfile_reader){.fd = fd, .io = io, .end = end, .buffer_capacity = capacity};
    reader->buffer = malloc(capacity);
    if (reader->buffer == NULL) {
        return modelfile__no_memory(err, capacity, "a buffer");
    }
    return STRATA_OK;
}

void modelfile__reader_fini(modelfile_reader *reader)
{
    free(reader->buffer);
    reader->buffer = NULL;
}

uint64_t modelfile__reader_left(const modelfile_reader *reader)
{
    return reader->end - reader->position;
}

static strata_status check_left(const modelfile_reader *reader, uint64_t bytes, strata_error *err)
{
    if (bytes > modelfile__reader_left(reader)) {
        return modelfile__refuse(err, MODELFILE_CUT_SHORT,
                                 "%" PRIu64 " byte(s) announced at byte %" PRIu64
                                 ", the file has %" PRIu64,
                                 bytes, reader->position, reader->end);
    }
    return STRATA_OK;
}

/* Bytes of the buffer at the current position; 0 when it has to be filled. */
static size_t buffered(const modelfile_reader *reader)
{
    if (reader->position < reader->buffer_offset ||
        reader->position - reader->buffer_offset >= reader->buffer_bytes) {
        return 0;
    }
    return reader->buffer_bytes - (size_t)(reader->position - reader->buffer_offset);
}

static strata_status fill(modelfile_reader *reader, strata_error *err)
{
    uint64_t left = modelfile__reader_left(reader);
    size_t want = left < reader->buffer_capacity ? (size_t)left : reader->buffer_capacity;
    reader->buffer_bytes = 0;
    strata_status status =
        modelfile__pread(reader->fd, reader->io, reader->buffer, reader->position, want, err);
    if (status == STRATA_OK) {
        reader->buffer_offset = reader->position;
        reader->buffer_bytes = want;
    }
    return status;
}

strata_status modelfile__reader_take(modelfile_reader *reader, void *into, uint64_t bytes,
                                     strata_error *err)
{
    strata_status status = check_left(reader, bytes, err);
    unsigned char *next = into;
    while (status == STRATA_OK && bytes > 0) {
        size_t ready = buffered(reader);
        if (ready == 0) {
            status = fill(reader, err);
            continue;
        }
        size_t now = bytes < ready ? (size_t)bytes : ready;
        memcpy(next, reader->buffer + (reader->position - reader->buffer_offset), now);
        next += now;
        bytes -= now;
        reader->position += now;
    }
    return status;
}

strata_status modelfile__reader_skip(modelfile_reader *reader, uint64_t bytes, strata_error *err)
{
    strata_status status = check_left(reader, bytes, err);
    if (status == STRATA_OK) {
        reader->position += bytes;
    }
    return status;
}

uint64_t modelfile__little(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = count; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

strata_status modelfile__reader_u32(modelfile_reader *reader, uint32_t *value, strata_error *err)
{
    unsigned char bytes[4];
    strata_status status = modelfile__reader_take(reader, bytes, sizeof bytes, err);
    if (status == STRATA_OK) {
        *value = (uint32_t)modelfile__little(bytes, sizeof bytes);
    }
    return status;
}

strata_status modelfile__reader_u64(modelfile_reader *reader, uint64_t *value, strata_error *err)
{
    unsigned char bytes[8];
    strata_status status = modelfile__reader_take(reader, bytes, sizeof bytes, err);
    if (status == STRATA_OK) {
        *value = modelfile__little(bytes, sizeof bytes);
    }
    return status;
}

/* strata/error.h - one failure, with where its number came from.
 *
 * A plain value in the caller's storage: no allocation, no chain, no lock. Every function of
 * Strata that takes a `strata_error *` accepts NULL, and writes to it only when it fails. */
#ifndef STRATA_ERROR_H
#define STRATA_ERROR_H

#include <strata/status.h>

STRATA_BEGIN_DECLS

/* Whose number `native` is. */
typedef enum strata_origin {
    STRATA_ORIGIN_NONE,     /* Strata decided; native is 0 */
    STRATA_ORIGIN_ERRNO,    /* an errno of a system call */
    STRATA_ORIGIN_CURESULT, /* a CUresult of the CUDA driver */
    STRATA_ORIGIN_RESOURCE, /* a number that a resource of the caller chose */
    STRATA_ORIGIN_COUNT_
} strata_origin;

typedef struct strata_error {
    strata_status status;
    strata_origin origin;
    int64_t native;
    char text[STRATA_TEXT_MAX]; /* one printable line, without the caller's context */
} strata_error;

/* "none", "errno", "curesult", "resource"; "unknown" for any other value. */
STRATA_API const char *strata_origin_name(strata_origin origin);

/* Fills *err (NULL allowed) and returns `status`, so that a failing path is one statement:
 * `return strata_error_set(err, STRATA_INVALID, "align %zu is no power of two", align);` */
STRATA_API strata_status strata_error_set(strata_error *err, strata_status status,
                                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a native code. The text becomes `CALL: CODE NAME`, as in "munmap: 12 ENOMEM";
 * for an errno the symbolic name is added here, for other origins `call` brings it along. */
STRATA_API strata_status strata_error_native(strata_error *err, strata_status status,
                                             strata_origin origin, int64_t native,
                                             const char *call);

/* Puts "context: " before the text of a set error; cuts at the end. NULL and OK are left alone. */
STRATA_API void strata_error_context(strata_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to the text of a set error; cuts at the end. NULL and OK are left alone. */
STRATA_API void strata_error_append(strata_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

STRATA_END_DECLS

#endif

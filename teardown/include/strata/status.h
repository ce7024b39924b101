/* strata/status.h - every way in which a call of Strata can end, as one list.
 *
 * The list is the single source: the enumeration, the names and the texts come from it. A status
 * says *what kind* of end it was; strata_error (error.h) says where the number came from. Values
 * are part of the ABI: new ones go to the end, none is renumbered. */
#ifndef STRATA_STATUS_H
#define STRATA_STATUS_H

#include <strata/api.h>

STRATA_BEGIN_DECLS

/*  name          name as scripts read it  text */
#define STRATA_STATUS_MAP(X)                                                                \
    X(OK, "ok", "success")                                                                  \
    X(INVALID, "invalid", "an argument or a piece of input is not usable")                  \
    X(NO_MEMORY, "no_memory", "the system has no memory or no address space left for this") \
    X(BUDGET, "budget", "the configured budget does not allow it")                          \
    X(LIMIT, "limit", "a fixed limit of the library or of the object is reached")           \
    X(BUSY, "busy", "still in use; nothing was changed")                                    \
    X(TIMEOUT, "timeout", "the deadline passed first; nothing was changed")                 \
    X(ORDER, "order", "not allowed in this order or from this place")                       \
    X(CLOSED, "closed", "the object has been released")                                     \
    X(FOREIGN, "foreign", "the address does not belong to this object")                     \
    X(UNSUPPORTED, "unsupported", "not available on this machine, build or process")        \
    X(SYSTEM, "system", "a system call failed")                                             \
    X(DRIVER, "driver", "a device driver call failed")                                      \
    X(DEVICE_MEMORY, "device_memory", "the device has no memory left for this")             \
    X(DEVICE_LOST, "device_lost", "the device or its context is lost for this process")     \
    X(RESOURCE, "resource", "a resource of the caller failed to release")                   \
    X(CORRUPT, "corrupt", "memory was written that must not have been")

typedef enum strata_status {
#define STRATA_STATUS_ENUM_(name, word, text) STRATA_##name,
    STRATA_STATUS_MAP(STRATA_STATUS_ENUM_)
#undef STRATA_STATUS_ENUM_
        STRATA_STATUS_COUNT_ /* ours: how many there are */
} strata_status;

/* The word for scripts ("no_memory") and the sentence for people. Never NULL: a value that is not
 * in the list gives "unknown". Any thread. */
STRATA_API const char *strata_status_name(strata_status status);
STRATA_API const char *strata_status_text(strata_status status);

STRATA_END_DECLS

#endif

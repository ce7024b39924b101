/* strata/api.h - what every public header of Strata starts with.
 *
 * Visibility and linkage marks, the version, and the two limits that every name and text obeys.
 * Never includes another header of ours. */
#ifndef STRATA_API_H
#define STRATA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRATA_VERSION_MAJOR  0
#define STRATA_VERSION_MINOR  1
#define STRATA_VERSION_PATCH  0
#define STRATA_VERSION_STRING "0.1.0"

#ifdef __cplusplus
#define STRATA_BEGIN_DECLS extern "C" {
#define STRATA_END_DECLS   }
#else
#define STRATA_BEGIN_DECLS
#define STRATA_END_DECLS
#endif

/* The libraries are built with hidden visibility; what carries this mark is their interface. */
#define STRATA_API __attribute__((visibility("default")))

/* Bytes, terminator included. Longer labels are cut where they are copied; only names under which
 * an operator configures something are refused when they are longer. */
#define STRATA_LABEL_MAX 48
/* Bytes, terminator included, of the text of one error. */
#define STRATA_TEXT_MAX 256

#endif

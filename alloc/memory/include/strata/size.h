/* strata/size.h - where size, alignment and count meet.
 *
 * Every sum, product and rounding of byte counts in Strata goes through these functions, so that
 * wrapping is decided in one tested place. All return false, and leave *out alone, where the exact
 * result does not fit. Pure functions: any thread, no state. */
#ifndef STRATA_SIZE_H
#define STRATA_SIZE_H

#include <strata/api.h>

STRATA_BEGIN_DECLS

/* The largest alignment that an allocation may ask for, 1 GiB: the largest page there is. */
#define STRATA_ALIGN_MAX ((size_t)1 << 30)

static inline bool strata_align_is_valid(size_t align)
{
    return align != 0 && (align & (align - 1)) == 0 && align <= STRATA_ALIGN_MAX;
}

static inline bool strata_size_add(size_t a, size_t b, size_t *out)
{
    size_t sum = a + b;
    if (sum < a) {
        return false;
    }
    *out = sum;
    return true;
}

static inline bool strata_size_multiply(size_t a, size_t b, size_t *out)
{
    if (a != 0 && b > SIZE_MAX / a) {
        return false;
    }
    *out = a * b;
    return true;
}

/* The least multiple of `align` that is not below `size`. pre: align is a power of two. */
static inline bool strata_size_align_up(size_t size, size_t align, size_t *out)
{
    size_t padded;
    if (!strata_size_add(size, align - 1, &padded)) {
        return false;
    }
    *out = padded & ~(align - 1);
    return true;
}

/* Bytes of `count` elements of `size` bytes, each start aligned to `align`. */
static inline bool strata_size_array(size_t count, size_t size, size_t align, size_t *out)
{
    size_t stride;
    return strata_size_align_up(size, align, &stride) && strata_size_multiply(count, stride, out);
}

STRATA_END_DECLS

#endif

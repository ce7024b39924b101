/* text.c - see text.h. */
#include "text.h"

#include <string.h>

void text_make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

bool text_number(const char *text, uint64_t most, uint64_t *value)
{
    uint64_t sum = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(sum, 10U, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum)) {
            return false;
        }
    }
    if (sum > most) {
        return false;
    }
    *value = sum;
    return true;
}

void text_label(char *label, size_t capacity, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.');
    size_t length = dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name);
    if (length >= capacity) {
        length = capacity - 1;
    }
    memcpy(label, name, length);
    label[length] = '\0';
}

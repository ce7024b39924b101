/* text.h - the few things that several commands do to a piece of text.
 *
 * Text from outside made fit for a line, digits into a number, a path into a label. Prints nothing
 * and knows no command. Any thread. */
#ifndef STRATA_TOOL_TEXT_H
#define STRATA_TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Control characters become '?', in place: what is printed stays one line, whatever it quotes. */
void text_make_plain(char *text);

/* Decimal digits and nothing else, at least one, at most `most`; *value is untouched otherwise. */
bool text_number(const char *text, uint64_t most, uint64_t *value);

/* The file's name without folder and ending, cut to the capacity. */
void text_label(char *label, size_t capacity, const char *path);

#endif

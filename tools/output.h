/* output.h - what a command prints: one JSON document, or tables for people.
 *
 * The builders make the documents that appear in more than one command, key for key as scripts read
 * them. They return new references; NULL means that memory ran out. Build with json_pack and
 * output_append, which hand a NULL up to output_document, which reports it: no key goes missing
 * quietly. It computes nothing: figures come in, text goes out. One thread. */
#ifndef STRATA_TOOL_OUTPUT_H
#define STRATA_TOOL_OUTPUT_H

#include "machine.h"

#include <strata/report.h>
#include <strata/strand.h>

#include <jansson.h>

#include <stdio.h>

/* A release. `tlb` is what the machine counted around it. */
json_t *output_release(const char *label, const strata_report *report, machine_count tlb);

/* A release that is to be called a failure: failed, refused, fell short, or left bytes held. */
bool output_release_is_good(const strata_report *report);

/* Arenas and heaps while they live, as an array. */
json_t *output_regions(const strata_area_info *areas, size_t count);

/* {"cpu", "architecture", "cores", "kernel", "page_bytes", "memory_bytes", "thp",
 * "tlb_shootdowns_known", "library"}: what figures were measured on. */
json_t *output_machine(void);

/* Numbers that a document may hold: null where the machine cannot say, or the figure is no finite
 * number. */
json_t *output_count(machine_count count);
json_t *output_real(double value);
json_t *output_bytes(uint64_t value);
/* Text from outside, such as a file's name: what is no UTF-8 becomes '?'. */
json_t *output_text(const char *text);

/* Appends and takes the reference over. Where that fails *array becomes NULL and stays NULL. */
void output_append(json_t **array, json_t *value);

/* Prints the document with a newline, gives up the reference, and makes sure that stdout took it.
 * Returns `status`, or TOOL_FAILED with a line on stderr. */
int output_document(const char *name, json_t *document, int status);

/* The same check for a command that printed text: every command ends with one of the two. */
int output_finish(const char *name, int status);

/* For people: the lines of a release with its failures, and the table of regions, whose column of
 * committed bytes adds up to what the model holds. */
void output_release_text(FILE *to, const char *label, const strata_report *report,
                         machine_count tlb);
void output_regions_text(FILE *to, const strata_area_info *areas, size_t count);

/* --- tables --------------------------------------------------------------------------------------
 *
 * Rows of cells, columns as wide as their widest cell; numbers to the right. */

#define OUTPUT_TABLE_COLUMNS_MAX 12
#define OUTPUT_CELL_MAX          64

typedef struct output_table {
    size_t columns;
    size_t rows; /* the head is the first */
    char (*cells)[OUTPUT_CELL_MAX];
    bool failed; /* memory ran out: rows are missing, and the print says so */
} output_table;

void output_table_init(output_table *table, size_t columns);
/* `columns` cells in the order of the columns, as text; NULL prints "-". */
void output_table_row(output_table *table, const char *const *cells);
/* Prints and frees. Cells of the first `left` columns are set to the left. */
void output_table_print(output_table *table, FILE *to, size_t left);

#endif

/* pack_csv.h - buffers to be packed, as CSV: the format of MiniMalloc's benchmarks (Moffitt 2023).
 *
 * The first line names the columns, in any order:
 *
 * - `id`, also `buffer` or `buffer_id`: any text, unique.
 * - `lower`, also `begin` or `start`: the first time at which the buffer is live.
 * - `upper`: the time at which the buffer is no longer live. Alternatively `end`: the last time at which it is live.
 * - `size`: bytes.
 * - `alignment` (optional): bytes.
 * - `offset` (optional): the required offset of the buffer; empty: any.
 * - `gaps` (optional): times at which the buffer is not live, or only its first bytes are: "5-7 9-12@0:64".
 *
 * Other columns are copied unchanged. Fields are not quoted. Numbers are non-negative decimal integers. Lines end in LF or
 * CRLF. */
#pragma once

#include "memplan/pack.h"

typedef struct mp_pack_table {
    mp_pack_problem packing; /* the packing problem: one item per row of the CSV file, in file order */
    char *header;            /* the text of the file's first line and of each row, without the offset column */
    char **rows;
    struct mp_pool *pool; /* memory pool that owns all members of the table */
} mp_pack_table;

/* Reads a CSV file of buffers. MP_PARSE: the file is malformed; the error has path, line and column. MP_IO, MP_NOMEM. On
 * MP_OK release with mp_pack_table_free. O(size + n log n). */
mp_status mp_pack_csv_read(const char *path, mp_pack_table *out, mp_error *err);
void mp_pack_table_free(mp_pack_table *table); /* releases the members of a table, not the struct; a zeroed struct is allowed */

/* Writes the rows as they were read, with the items' offsets as the last column. The file is replaced atomically; "-" is
 * standard output. MP_IO, MP_NOMEM. */
mp_status mp_pack_csv_write(const mp_pack_table *table, const char *path, mp_error *err);

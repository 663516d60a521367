/* pack_csv.h - buffers to be packed, as CSV: the format of MiniMalloc's benchmarks (Moffitt 2023).
 *
 * The first line names the columns, in any order: `id` (any text, each once), `lower` and `upper` (a buffer is there at
 * lower <= t < upper), `size` (bytes); and if there are such columns `alignment` (bytes), `offset` (where the buffer has to
 * lie; empty: anywhere) and `gaps`: "5-7 9-12@0:64", times within the life at which the buffer is not there, or only its first
 * bytes are. `buffer` and `buffer_id` stand for id, `begin` and `start` for lower; `end` stands for upper, but is the last time
 * at which the buffer is there. Columns of other names are kept as they are. Fields are not quoted; numbers are whole, decimal
 * and not negative. Lines end in LF or CRLF.
 */
#pragma once

#include "memplan/pack.h"

typedef struct mp_pack_table {
    mp_pack_problem packing; /* an item per row, in the order of the file */
    char *header;            /* the first line and the rows, without the offsets column */
    char **rows;
    struct mp_pool *pool; /* owns everything above */
} mp_pack_table;

/* Reads a file. MP_PARSE: malformed (with path, line and column). MP_IO, MP_NOMEM. On MP_OK release with mp_pack_table_free.
 * O(size + n log n). */
mp_status mp_pack_csv_read(const char *path, mp_pack_table *out, mp_error *err);
void mp_pack_table_free(mp_pack_table *table); /* zeroed is fine */

/* Writes the rows as they were read with the items' offsets as the last column; atomic, "-" is standard output. MP_IO,
 * MP_NOMEM. */
mp_status mp_pack_csv_write(const mp_pack_table *table, const char *path, mp_error *err);

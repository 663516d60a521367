/* columnar_file.h - what a module that reads columnar files provides.
 *
 * A file has columns of as many rows. A row is a number, or a list of them, or of lists, which are as long in all rows; so a
 * column is an array, of which the first dimension counts rows. Only the rows and columns that are asked for are read, in whole
 * row groups, as files have them: what a group has besides is read and dropped. */
#pragma once

#include "formats/data/dataset.h"

/* Rows [from, from + n). */
typedef struct mp_row_range {
    int64_t from, n;
} mp_row_range;

typedef struct mp_columnar_file mp_columnar_file;
struct mp_columnar_file {
    int64_t n_rows;
    const char *folder; /* where what is read lies, in files without names; NULL: in memory. Set by who has opened the file */
    /* Reads these ranges of rows, which ascend, one behind the other in *out, whose first dimension counts them; it is closed
     * with mp_dataset_close. Columns have elements of MP_DTYPE_FLOAT, _DOUBLE, _INT32, _INT64 and _UINT8. MP_INVALID: there is
     * no such column, or one of another type; a row is null or has another length; MP_PARSE: what the file holds is no column;
     * MP_NOMEM; MP_IO: as mp_dataset_take_room. The sentence names column and row, counted from 0. */
    mp_status (*read)(mp_columnar_file *self, const char *name, const mp_row_range *ranges, size_t n_ranges, mp_dataset *out,
                      mp_error *err);
    void (*close)(mp_columnar_file *self);
};

/* The type of a module's symbol, mp_module_columnar: opens a file, and reads what describes its columns. MP_IO, MP_PARSE: it is
 * of another format, or cut off; MP_NOMEM. */
typedef mp_status mp_module_open_columnar(const char *path, mp_columnar_file **out, mp_error *err);

/* columnar_file.h - the interface of a module that reads columnar files.
 *
 * All columns of a file have the same number of rows. The value of a column in one row is a number, a list of numbers, or
 * nested lists. All rows have the same list lengths. A column is therefore an array whose first dimension counts rows. Only the
 * requested rows and columns are read. Files store rows in row groups, so whole row groups are read and the other rows
 * dropped. */
#pragma once

#include "formats/data/dataset.h"

/* A range of rows of a file: [from, from + n). */
typedef struct mp_row_range {
    int64_t from, n;
} mp_row_range;

typedef struct mp_columnar_file mp_columnar_file;
struct mp_columnar_file {
    int64_t n_rows;
    const char *folder; /* folder for unnamed files that store the data that is read; NULL: the data is stored in memory. The
                           caller sets it after opening */
    /* Reads ascending ranges of rows of one column. *out receives the concatenated rows. The first dimension of *out counts
     * rows. Close *out with mp_dataset_close. Element types are MP_DTYPE_FLOAT, _DOUBLE, _INT32, _INT64 and _UINT8.
     * MP_INVALID: the column or its element type is unknown, or a row is null or has another length than the others.
     * MP_PARSE: the data of the column is damaged. MP_IO as mp_dataset_take_room. MP_NOMEM. The message names column and
     * row, counted from 0. */
    mp_status (*read)(mp_columnar_file *self, const char *name, const mp_row_range *ranges, size_t n_ranges, mp_dataset *out,
                      mp_error *err);
    void (*close)(mp_columnar_file *self);
};

/* The type of the symbol mp_module_columnar that a module exports. It opens a file and reads the description of its columns.
 * MP_PARSE: the file has another format, or is truncated. MP_IO, MP_NOMEM. */
typedef mp_status mp_module_open_columnar(const char *path, mp_columnar_file **out, mp_error *err);

/* dataset.h - arrays in files: NumPy's .npy, MNIST's IDX, and text as tokens. */
#pragma once

#include "estimator/model/model.h"
#include "formats/base/file.h"

enum { MP_DATASET_RANK = 8 };

/* An array, row-major, in the mapped file, or in memory of its own (tokens, columns). Its elements need not be aligned: copy
 * them out. */
typedef struct mp_dataset {
    mp_dtype dtype;
    int rank;
    int64_t dims[MP_DATASET_RANK];
    bool big_endian; /* for multi-byte elements of IDX */
    const uint8_t *data;
    mp_file file;
    void *owned;         /* `data` points into it; NULL: into the file */
    size_t mapped_bytes; /* of `owned`, where it is a file without a name; 0: it is memory */
} mp_dataset;

/* Opens an .npy or IDX file, told apart by the first bytes. Close with mp_dataset_close (zeroed is fine). MP_PARSE: neither,
 * cut off, longer than its header says, or of a kind that is not supported (named); MP_IO. err->input is the path. */
mp_status mp_dataset_open(const char *path, mp_dataset *out, mp_error *err);
/* Opens a text as tokens: its bytes or, with a vocabulary (one token per line), the numbers of the longest tokens into
 * which it can be cut from left to right. MP_PARSE: a byte of the text begins no token; an empty vocabulary. */
mp_status mp_dataset_open_text(const char *path, const char *vocabulary_path, mp_dataset *out, mp_error *err);
/* Takes room for so many bytes of a column, which are written to `owned`: memory, or where a folder is given a file without a
 * name in it, of which the system keeps in memory what is used and there is room for. MP_NOMEM; MP_IO: there is no room on the
 * disk, or no file can be made. */
mp_status mp_dataset_take_room(mp_dataset *dataset, const char *column, int64_t bytes, const char *folder, mp_error *err);
void mp_dataset_close(mp_dataset *dataset);

/* Returns element k as a number. */
double mp_dataset_get(const mp_dataset *dataset, int64_t k);
/* Reads elements [from, from + n) as floats; one-byte integers are divided by 255 (pixels). */
void mp_dataset_floats(const mp_dataset *dataset, int64_t from, int64_t n, float *to);
/* Reads elements [from, from + n) as integers. */
void mp_dataset_integers(const mp_dataset *dataset, int64_t from, int64_t n, int64_t *to);

/* dataset.h - arrays in files: NumPy's .npy, MNIST's IDX, and text as tokens. */
#pragma once

#include "estimator/model/model.h"
#include "formats/base/file.h"

enum { MP_DATASET_RANK = 8 };

/* An array, row-major, in the mapped file or in memory of its own (tokens, columns). Its elements may be unaligned: copy them
 * out. */
typedef struct mp_dataset {
    mp_dtype dtype;
    int rank;
    int64_t dims[MP_DATASET_RANK];
    bool big_endian; /* true if elements of several bytes are big-endian, as in IDX files */
    const uint8_t *data;
    mp_file file;
    void *owned;         /* memory that owns the elements; NULL: `data` points into the mapped file */
    size_t mapped_bytes; /* size of `owned` if `owned` is a mapped unnamed file; 0: it is ordinary memory */
} mp_dataset;

/* Opens an .npy or IDX file; the first bytes identify the format. Close with mp_dataset_close (a zeroed struct is allowed).
 * MP_PARSE: another format, truncated, longer than its header states, or an unsupported type, which the message names. MP_IO.
 * err->input is the path. */
mp_status mp_dataset_open(const char *path, mp_dataset *out, mp_error *err);
/* Opens a text as tokens. Without a vocabulary the tokens are its bytes. A vocabulary has one token per line; from left to
 * right, the longest matching token is taken. MP_PARSE: no token matches at a position, or the vocabulary is empty. */
mp_status mp_dataset_open_text(const char *path, const char *vocabulary_path, mp_dataset *out, mp_error *err);
/* Allocates `owned` for this many bytes of a column: memory, or with a folder an unnamed file there. The system keeps used
 * pages of the file in memory as long as there is room. MP_NOMEM. MP_IO: no disk space, or no file can be created. */
mp_status mp_dataset_take_room(mp_dataset *dataset, const char *column, int64_t bytes, const char *folder, mp_error *err);
void mp_dataset_close(mp_dataset *dataset);

/* Returns element k as a number. */
double mp_dataset_get(const mp_dataset *dataset, int64_t k);
/* Reads elements [from, from + n) as floats; one-byte integers are divided by 255 (pixels). */
void mp_dataset_floats(const mp_dataset *dataset, int64_t from, int64_t n, float *to);
/* Reads elements [from, from + n) as integers. */
void mp_dataset_integers(const mp_dataset *dataset, int64_t from, int64_t n, int64_t *to);

/* dataset.h - reads arrays from files: NumPy's .npy, MNIST's IDX, and text as tokens. */
#pragma once

#include "estimator/model/model.h"
#include "formats/base/file.h"

enum { MP_DATASET_RANK = 8 };

/* A row-major array. Its elements are in the mapped file, or in memory of its own (tokens, columns). They may be unaligned,
 * so copy them before use. */
typedef struct mp_dataset {
    mp_dtype dtype;
    int rank;
    int64_t dims[MP_DATASET_RANK];
    bool big_endian; /* true if elements of several bytes are stored in big-endian order, as in IDX files */
    const uint8_t *data;
    mp_file file;
    void *owned; /* memory that the array owns and that contains the elements; NULL: the elements are in the mapped file */
    size_t mapped_bytes; /* size of `owned` in bytes if it is a mapped unnamed file; 0: it is ordinary memory */
} mp_dataset;

/* Opens an .npy or IDX file; the first bytes identify the format. Close with mp_dataset_close (a zeroed struct is allowed).
 * MP_PARSE: the file has another format, is truncated or longer than its header states, or has an unsupported element type,
 * which the message names. MP_IO. err->input is the path. */
mp_status mp_dataset_open(const char *path, mp_dataset *out, mp_error *err);
/* Opens a text as tokens. Without a vocabulary the tokens are its bytes. A vocabulary has one token per line. The text is
 * read from left to right; at each position the longest matching token is used. MP_PARSE: no token matches at a position, or
 * the vocabulary is empty. */
mp_status mp_dataset_open_text(const char *path, const char *vocabulary_path, mp_dataset *out, mp_error *err);
/* Allocates `owned` with this many bytes for a column. Without a folder it is memory; with a folder it is an unnamed file
 * there. The system keeps used pages of the file in memory as long as memory is free. MP_NOMEM. MP_IO: there is no disk
 * space, or no file can be created. */
mp_status mp_dataset_take_room(mp_dataset *dataset, const char *column, int64_t bytes, const char *folder, mp_error *err);
void mp_dataset_close(mp_dataset *dataset);

/* Returns element k of the array as a number. */
double mp_dataset_get(const mp_dataset *dataset, int64_t k);
/* Reads elements [from, from + n) as floats. One-byte integers, which are pixels, are divided by 255. */
void mp_dataset_floats(const mp_dataset *dataset, int64_t from, int64_t n, float *to);
/* Reads elements [from, from + n) of the array as integers. */
void mp_dataset_integers(const mp_dataset *dataset, int64_t from, int64_t n, int64_t *to);

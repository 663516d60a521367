/* safetensors.h - files of named tensors. A file contains the length of the header (eight bytes), a JSON header, and the data.
 *
 * A file is written under a new name and then renamed, so that a crash or a full disk leaves the old file intact. Data are
 * written without a copy. */
#pragma once

#include "estimator/model/model.h"
#include "formats/base/checksum.h"
#include "memplan/memory.h"

typedef struct mp_named_tensor {
    const char *name;
    mp_dtype dtype;
    int rank;
    const int64_t *dims;
    const void *data; /* elements of the tensor, row-major */
} mp_named_tensor;

typedef struct mp_metadatum {
    const char *key, *value;
} mp_metadatum;

/* Writes tensors and metadata to a file. MP_UNSUPPORTED: the format does not support an element type. MP_IO, MP_NOMEM. */
mp_status mp_safetensors_write(const char *path, const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata,
                               size_t n_metadata, mp_error *err);

/* Like mp_safetensors_write, but also computes the checksum of the whole file from the bytes in memory. checksum NULL: it is
 * not computed. */
mp_status mp_safetensors_write_summed(const char *path, const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata,
                                      size_t n_metadata, char checksum[MP_CHECKSUM_TEXT], mp_error *err);

typedef struct mp_safetensors mp_safetensors;
/* Maps a file and checks its whole header: lengths, types and shapes are valid, and the data of all tensors are inside the
 * file without overlap. Close with mp_safetensors_close (NULL is allowed). MP_PARSE, MP_IO, MP_NOMEM; err->input is the
 * path. */
mp_status mp_safetensors_open(const char *path, mp_safetensors **out, mp_error *err);
void mp_safetensors_close(mp_safetensors *file);
MP_OWNER(mp_safetensors_close, mp_safetensors)
/* Returns the tensor with this name; NULL: no tensor has this name. Its data are in the mapped file and may be unaligned. */
const mp_named_tensor *mp_safetensors_find(const mp_safetensors *file, const char *name);
/* Returns the value of a metadata entry by its key; NULL: no entry has this key. */
const char *mp_safetensors_metadatum(const mp_safetensors *file, const char *key);
/* Computes the checksum of the mapped file, which is read completely. MP_NOMEM. */
mp_status mp_safetensors_checksum(const mp_safetensors *file, char checksum[MP_CHECKSUM_TEXT], mp_error *err);

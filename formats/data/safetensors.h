/* safetensors.h - named tensors in a file: eight bytes of length, a JSON header, the data.
 *
 * Written to a new file that then takes the old one's name, so that a crash or a full disk leaves the old one whole; the data
 * go to the disk without a copy.
 */
#pragma once

#include "estimator/model/model.h"
#include "formats/base/file.h"
#include "memplan/memory.h"

typedef struct mp_named_tensor {
    const char *name;
    mp_dtype dtype;
    int rank;
    const int64_t *dims;
    const void *data; /* row-major */
} mp_named_tensor;

typedef struct mp_metadatum {
    const char *key, *value;
} mp_metadatum;

/* MP_IO, MP_NOMEM, MP_UNSUPPORTED: an element type that the format does not know. */
mp_status mp_safetensors_write(const char *path, const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata,
                               size_t n_metadata, mp_error *err);

typedef struct mp_safetensors mp_safetensors;
/* Maps a file and checks all of its header: lengths, types, shapes, that the data lie inside, without overlap. Close with
 * mp_safetensors_close (NULL is fine). MP_PARSE, MP_IO, MP_NOMEM; err->input is the path. */
mp_status mp_safetensors_open(const char *path, mp_safetensors **out, mp_error *err);
void mp_safetensors_close(mp_safetensors *file);
MP_OWNER(mp_safetensors_close, mp_safetensors)
/* The tensor of this name; NULL: there is none. Its data are in the file, aligned to nothing. */
const mp_named_tensor *mp_safetensors_find(const mp_safetensors *file, const char *name);
/* The value of a metadatum; NULL: there is none. */
const char *mp_safetensors_metadatum(const mp_safetensors *file, const char *key);

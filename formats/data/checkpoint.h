/* checkpoint.h - a saved training: one safetensors file, or a folder with one part per rank.
 *
 * In a folder each part is a safetensors file of whole tensors, STATE.K-of-N.safetensors. The index
 * model.safetensors.index.json maps tensors to parts, in the format that other programs use for sharded weights. The metadata
 * of each part and of the index contain the name of the save.
 *
 * A save first writes all parts under new names. After all parts are on the disk, the new index replaces the old index, which
 * commits the save. A crash before the commit leaves the old index and its parts unchanged. The next save removes all parts
 * that the index does not name.
 *
 *     MP_CHECK(mp_checkpoint_begin("state", step, 4, &save, err));              // one rank, which sends save.name to the
 * others mp_checkpoint_part("state", save.name, rank, 4, path, sizeof path);       // each rank
 *     MP_CHECK(mp_safetensors_write(path, ...));
 *     MP_CHECK(mp_checkpoint_commit(&save, tensors, n, metadata, n_metadata, err)); // one rank, after all parts are written
 *     mp_checkpoint_end(&save);
 */
#pragma once

#include "formats/data/safetensors.h"

enum { MP_SAVE_NAME = 64, MP_SAVE_PATH = 4096 };

/* A save that writes into a folder and is not yet committed. */
typedef struct mp_save {
    char folder[MP_SAVE_PATH], name[MP_SAVE_NAME]; /* folder: path of the folder; name: name of this save, "step-12.18c0f3" */
    int lock; /* descriptor that locks the folder, so that no other training can save there at the same time; -1: not locked */
    int n_parts;
} mp_save;

/* The name of a tensor in a save, and the number of the part that contains it. */
typedef struct mp_save_entry {
    const char *tensor;
    int part;
} mp_save_entry;

/* Begins a save: creates the folder if necessary, locks it, and removes parts of uncommitted saves. MP_IO: the folder is not
 * writable, or another training is saving there. MP_INVALID: the path is a file, or too long. */
mp_status mp_checkpoint_begin(const char *folder, int64_t step, int n_parts, mp_save *out, mp_error *err);
/* Writes to `path` the path of part k of n. MP_INVALID: the path is too long. */
mp_status mp_checkpoint_part(const char *folder, const char *name, int k, int n, char *path, size_t size, mp_error *err);
/* Commits the save: replaces the index, which contains the checksum of each part, and removes the parts of older saves.
 * MP_IO, MP_NOMEM. */
mp_status mp_checkpoint_commit(mp_save *save, const mp_save_entry *entries, size_t n, const char (*checksums)[MP_CHECKSUM_TEXT],
                               const mp_metadatum *metadata, size_t n_metadata, mp_error *err);
/* Ends a save: removes all parts that the index does not name, including those of an uncommitted save, and unlocks the
 * folder. A zeroed struct is allowed. */
void mp_checkpoint_end(mp_save *save);

/* Checks before the data exist that a training can be saved at a path. The path is a file or an existing folder. Errors as
 * mp_file_try and mp_checkpoint_begin. */
mp_status mp_checkpoint_try(const char *path, mp_error *err);

typedef struct mp_checkpoint mp_checkpoint;
/* Opens a file, or a folder with all parts that its index names. Compares checksums and metadata of the parts with the
 * index. An index of an older version has no checksums. MP_PARSE: a part is missing, truncated, damaged, from another save,
 * or lacks a tensor; err->input is the part. Other errors as mp_safetensors_open. */
mp_status mp_checkpoint_open(const char *path, mp_checkpoint **out, mp_error *err);
void mp_checkpoint_close(mp_checkpoint *checkpoint); /* closes all files of a checkpoint; NULL is allowed */
MP_OWNER(mp_checkpoint_close, mp_checkpoint)
/* Like mp_safetensors_find and mp_safetensors_metadatum, but search all parts of the checkpoint. */
const mp_named_tensor *mp_checkpoint_find(const mp_checkpoint *checkpoint, const char *name);
const char *mp_checkpoint_metadatum(const mp_checkpoint *checkpoint, const char *key);

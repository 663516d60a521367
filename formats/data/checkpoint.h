/* checkpoint.h - a saved training: one safetensors file, or a folder into which many ranks have written parts of one.
 *
 * In a folder each part is a safetensors file of whole tensors, STATE.K-of-N.safetensors, and model.safetensors.index.json says
 * which part has which tensor, as other programs have it of weights in several files. The metadata of a part name the save that
 * it is of, and those of the index too. A save writes parts under new names first; when all are on the disk the index replaces
 * the old one, and with that the save is made: a crash before leaves the old index, whose parts are still there. What no index
 * names is removed by the next save.
 *
 *     MP_CHECK(mp_checkpoint_begin("state", step, 4, &save, err));              // one rank, which tells the others save.name
 *     mp_checkpoint_part("state", save.name, rank, 4, path, sizeof path);       // each rank
 *     MP_CHECK(mp_safetensors_write(path, ...));
 *     MP_CHECK(mp_checkpoint_commit(&save, tensors, n, metadata, n_metadata, err)); // one rank, when all have written
 *     mp_checkpoint_end(&save);
 */
#pragma once

#include "formats/data/safetensors.h"

enum { MP_SAVE_NAME = 64, MP_SAVE_PATH = 4096 };

/* A save into a folder that has begun. */
typedef struct mp_save {
    char folder[MP_SAVE_PATH], name[MP_SAVE_NAME]; /* "step-12.18c0f3" */
    int lock;                                      /* of the folder, so that no other training saves there now; -1: none */
    int n_parts;
} mp_save;

/* A tensor and the part that has it. */
typedef struct mp_save_entry {
    const char *tensor;
    int part;
} mp_save_entry;

/* Makes the folder if need be, locks it, and removes what earlier saves have left that were not made. MP_IO: it cannot be
 * written, or another training saves into it now; MP_INVALID: the path is a file, or too long. */
mp_status mp_checkpoint_begin(const char *folder, int64_t step, int n_parts, mp_save *out, mp_error *err);
/* Writes the path of part k of n. MP_INVALID: it is too long. */
mp_status mp_checkpoint_part(const char *folder, const char *name, int k, int n, char *path, size_t size, mp_error *err);
/* Replaces the index, which stores the checksum of each part, and removes the parts of older saves. MP_IO, MP_NOMEM. */
mp_status mp_checkpoint_commit(mp_save *save, const mp_save_entry *entries, size_t n, const char (*checksums)[MP_CHECKSUM_TEXT],
                               const mp_metadatum *metadata, size_t n_metadata, mp_error *err);
/* Removes the parts that the index does not name, those of a save that was not made among them, and gives the folder free. A
 * zeroed one is fine. */
void mp_checkpoint_end(mp_save *save);

/* Checks that a training can be saved at a path, a file or a folder that is there, before there is anything to save. As
 * mp_file_try and mp_checkpoint_begin. */
mp_status mp_checkpoint_try(const char *path, mp_error *err);

typedef struct mp_checkpoint mp_checkpoint;
/* Opens a file, or a folder with all parts that its index names, and compares their checksums and metadata with the index. An
 * index of an older version has no checksums. MP_PARSE, located at the part: it is missing, cut short, damaged, of another
 * save, or lacks a tensor. MP_PARSE, MP_IO, MP_NOMEM as mp_safetensors_open. */
mp_status mp_checkpoint_open(const char *path, mp_checkpoint **out, mp_error *err);
void mp_checkpoint_close(mp_checkpoint *checkpoint); /* NULL is fine */
MP_OWNER(mp_checkpoint_close, mp_checkpoint)
/* As mp_safetensors_find and mp_safetensors_metadatum. */
const mp_named_tensor *mp_checkpoint_find(const mp_checkpoint *checkpoint, const char *name);
const char *mp_checkpoint_metadatum(const mp_checkpoint *checkpoint, const char *key);

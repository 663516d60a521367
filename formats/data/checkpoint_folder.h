/* checkpoint_folder.h - the names in the folder of a saved training. */
#pragma once

#include "formats/json/json.h"

#define MP_INDEX_NAME "model.safetensors.index.json"

/* Writes "FOLDER/NAME". MP_INVALID: that is too long. */
mp_status mp_folder_path(const char *folder, const char *name, char *path, size_t size, mp_error *err);
/* Reads the folder's index, whose metadata name a save; *out is NULL if there is none. The caller releases it with json_decref.
 * MP_PARSE: it is no index, or one of weights that are no saved training. MP_NOMEM, MP_IO. */
mp_status mp_index_read(const char *folder, json_t **out, mp_error *err);

/* checkpoint.c - reads a saved training from a file or from a folder of parts. */
#include "formats/data/checkpoint.h"

#include <string.h>
#include <unistd.h>

#include "formats/data/checkpoint_folder.h"
#include "formats/json/json.h"

typedef struct part {
    const char *file; /* its name in the folder */
    mp_safetensors *tensors;
} part;

struct mp_checkpoint {
    mp_pool *pool;
    json_t *index; /* NULL: one file, parts[0] */
    size_t n;
    part *parts;
};

/* Opens a part, which is of the save that the index is of. */
static mp_status open_part(const mp_checkpoint *c, const char *folder, part *p, mp_error *err)
{
    char path[MP_SAVE_PATH];
    const char *save = mp_checkpoint_metadatum(c, "save");
    MP_CHECK(mp_folder_path(folder, p->file, path, sizeof path, err));
    MP_ABOUT(err, path);
    MP_ENSURE(!strchr(p->file, '/'), err, MP_PARSE, "the index names a part that is not in its folder");
    MP_ENSURE(access(path, F_OK) == 0, err, MP_PARSE, "this part of the saved training is missing");
    MP_CHECK(mp_safetensors_open(path, &p->tensors, err));
    const char *of = mp_safetensors_metadatum(p->tensors, "save");
    MP_ENSURE(of && !strcmp(of, save), err, MP_PARSE, "this part is of the save %.60s, and the index is of %.60s",
              of ? of : "without a name", save);
    return MP_OK;
}

/* Returns the part with this file; adds it if it is new. */
static part *part_of(mp_checkpoint *c, const char *file)
{
    size_t k = 0;
    while (k < c->n && strcmp(c->parts[k].file, file) != 0) k++;
    if (k == c->n) c->parts[c->n++].file = file;
    return &c->parts[k];
}

static mp_status open_folder(mp_checkpoint *c, const char *folder, mp_error *err)
{
    MP_ABOUT(err, folder);
    const char *name;
    json_t *file;
    MP_CHECK(mp_index_read(folder, &c->index, err));
    MP_ENSURE(c->index, err, MP_PARSE, "the folder has no " MP_INDEX_NAME ", so no training was saved into it");
    json_t *map = json_object_get(c->index, "weight_map");
    MP_ENSURE(c->parts = mp_pool_alloc(c->pool, json_object_size(map), sizeof *c->parts), err, MP_NOMEM, "out of memory");
    json_object_foreach(map, name, file)
    {
        MP_ENSURE(json_is_string(file), err, MP_PARSE, "the index does not say which part has '%.200s'", name);
        part *p = part_of(c, json_string_value(file));
        if (!p->tensors) MP_CHECK(open_part(c, folder, p, err));
        if (mp_safetensors_find(p->tensors, name)) continue;
        char path[MP_SAVE_PATH];
        MP_CHECK(mp_folder_path(folder, p->file, path, sizeof path, err));
        return MP_FAIL_AT(err, MP_PARSE, path, 0, 0, "this part lacks '%.200s', which it has by the index", name);
    }
    return MP_OK;
}

mp_status mp_checkpoint_open(const char *path, mp_checkpoint **out, mp_error *err)
{
    MP_OWNED_BY(mp_checkpoint_close) mp_checkpoint *c = mp_alloc(1, sizeof *c);
    MP_ENSURE(c && (c->pool = mp_pool_new()), err, MP_NOMEM, "out of memory");
    if (mp_is_folder(path)) {
        MP_CHECK(open_folder(c, path, err));
    } else {
        MP_ENSURE(c->parts = mp_pool_alloc(c->pool, 1, sizeof *c->parts), err, MP_NOMEM, "out of memory");
        c->n = 1;
        MP_CHECK(mp_safetensors_open(path, &c->parts->tensors, err));
    }
    *out = c;
    c = NULL;
    return MP_OK;
}

void mp_checkpoint_close(mp_checkpoint *c)
{
    if (!c) return;
    for (size_t k = 0; k < c->n; k++) mp_safetensors_close(c->parts[k].tensors);
    if (c->index) json_decref(c->index);
    mp_pool_free(c->pool);
    mp_free(c);
}

const mp_named_tensor *mp_checkpoint_find(const mp_checkpoint *c, const char *name)
{
    if (!c->index) return mp_safetensors_find(c->parts->tensors, name);
    const char *file = json_string_value(json_object_get(json_object_get(c->index, "weight_map"), name));
    for (size_t k = 0; file && k < c->n; k++)
        if (!strcmp(c->parts[k].file, file)) return mp_safetensors_find(c->parts[k].tensors, name);
    return NULL;
}

const char *mp_checkpoint_metadatum(const mp_checkpoint *c, const char *key)
{
    if (!c->index) return mp_safetensors_metadatum(c->parts->tensors, key);
    return json_string_value(json_object_get(json_object_get(c->index, "metadata"), key));
}

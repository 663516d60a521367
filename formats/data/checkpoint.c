/* checkpoint.c - saves a training into a folder of parts; a single rename of the index commits the save. Reads a saved
 * training from a file or such a folder. */
#include "formats/data/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/json/json.h"

#define INDEX_NAME "model.safetensors.index.json"

static const char digits[] = "0123456789", hexadecimals[] = "0123456789abcdef";

/* Writes "FOLDER/NAME". */
static mp_status path_in(const char *folder, const char *name, char *path, size_t size, mp_error *err)
{
    const int n = snprintf(path, size, "%s/%s", folder, name);
    MP_ENSURE(n >= 0 && (size_t)n < size, err, MP_INVALID, "the name of the folder is too long");
    return MP_OK;
}

static mp_status system_failure(const char *what, mp_error *err)
{
    char text[128];
    return MP_FAIL(err, MP_IO, "%s: %s", what, strerror_r(errno, text, sizeof text) == 0 ? text : "unknown reason");
}

/* Skips one or more characters from `set` at the beginning of `text`, and returns the rest. NULL: `text` does not begin with
 * such a character. */
static const char *after(const char *text, const char *set)
{
    const size_t n = text ? strspn(text, set) : 0;
    return n ? text + n : NULL;
}

static const char *after_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    return text && !strncmp(text, word, n) ? text + n : NULL;
}

/* Returns the rest of a text after the name of a save, such as "step-12.18c0f3". NULL: the text does not begin with such a
 * name. */
static const char *after_save(const char *name)
{
    return after(after_word(after(after_word(name, "step-"), digits), "."), hexadecimals);
}

/* True if the file is a part of another save than `kept`, or a temporary file for such a part. */
static bool is_of_another(const char *name, const char *kept)
{
    const size_t n = strlen(kept);
    const char *rest =
        after_word(after(after_word(after(after_word(after_save(name), "."), digits), "-of-"), digits), ".safetensors");
    return rest && !(n && !strncmp(name, kept, n) && name[n] == '.');
}

/* Reads the index of a folder. The metadata of the index contain the name of the save. *out is NULL if the folder has no
 * index. The caller releases *out. */
static mp_status read_index(const char *folder, json_t **out, mp_error *err)
{
    char path[MP_SAVE_PATH];
    json_error_t fault;
    mp_file file;
    bool is_nomem;
    *out = NULL;
    MP_CHECK(path_in(folder, INDEX_NAME, path, sizeof path, err));
    MP_ABOUT(err, path);
    if (access(path, F_OK) != 0) return MP_OK;
    MP_CHECK(mp_file_open(path, 1 << 30, &file, err));
    MP_OWNED_BY(json_decref) json_t *index = mp_json_load(file.bytes, file.size, &fault, &is_nomem);
    mp_file_close(&file);
    MP_ENSURE(!is_nomem, err, MP_NOMEM, "no memory to read the index");
    MP_ENSURE(index, err, MP_PARSE, "the index is not JSON: %s", fault.text);
    const json_t *save = json_object_get(json_object_get(index, "metadata"), "save");
    MP_ENSURE(json_is_string(save) && json_string_length(save) < MP_SAVE_NAME &&
                  json_is_object(json_object_get(index, "weight_map")),
              err, MP_PARSE, "this is an index of weights in several files, not a saved training");
    *out = index;
    index = NULL;
    return MP_OK;
}

/* Removes the parts that the index does not name. If there is no index, removes all parts. */
static mp_status clear_away(const char *folder, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *index = NULL;
    MP_CHECK(read_index(folder, &index, err));
    const char *save = json_string_value(json_object_get(json_object_get(index, "metadata"), "save"));
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        if (is_of_another(entry->d_name, save ? save : "")) unlinkat(dirfd(list), entry->d_name, 0);
    if (list) closedir(list);
    return MP_OK;
}

mp_status mp_checkpoint_begin(const char *folder, int64_t step, int n_parts, mp_save *out, mp_error *err)
{
    MP_ABOUT(err, folder);
    MP_CLEARED_BY(mp_checkpoint_end) mp_save s = {.lock = -1, .n_parts = n_parts};
    struct timespec now;
    const int n = snprintf(s.folder, sizeof s.folder, "%s", folder);
    MP_ENSURE(n >= 0 && (size_t)n < sizeof s.folder, err, MP_INVALID, "the name of the folder is too long");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return system_failure("the folder cannot be made", err);
    MP_ENSURE(mp_is_folder(folder), err, MP_INVALID, "ranks save into a folder, but this is a file");
    s.lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s.lock < 0) return system_failure("the folder cannot be opened", err);
    const bool is_taken =
        flock(s.lock, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK; /* any other error of the lock means that the file system does not support locks */
    MP_ENSURE(!is_taken, err, MP_IO, "another training saves into this folder");
    MP_CHECK(clear_away(folder, err));
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(s.name, sizeof s.name, "step-%lld.%llx", (long long)step,
             ((unsigned long long)now.tv_sec << 20) + (unsigned long long)now.tv_nsec / 1000);
    *out = s;
    s = (mp_save){0};
    return MP_OK;
}

mp_status mp_checkpoint_part(const char *folder, const char *name, int k, int n, char *path, size_t size, mp_error *err)
{
    char file[MP_SAVE_NAME + 64];
    snprintf(file, sizeof file, "%.63s.%d-of-%d.safetensors", name, k + 1, n);
    return path_in(folder, file, path, size, err);
}

/* Writes the file name of part k of a save. */
static void name_part(const mp_save *s, int k, char file[MP_SAVE_NAME + 64])
{
    snprintf(file, MP_SAVE_NAME + 64, "%s.%d-of-%d.safetensors", s->name, k + 1, s->n_parts);
}

mp_status mp_checkpoint_commit(mp_save *s, const mp_save_entry *entries, size_t n, const char (*checksums)[MP_CHECKSUM_TEXT],
                               const mp_metadatum *metadata, size_t n_metadata, mp_error *err)
{
    char path[MP_SAVE_PATH], file[MP_SAVE_NAME + 64];
    json_t *notes = json_object(), *map = json_object(), *sums = json_object();
    mp_json_out out;
    for (size_t k = 0; k < n_metadata; k++) mp_json_set(&notes, metadata[k].key, mp_json_text(metadata[k].value));
    mp_json_set(&notes, "save", mp_json_text(s->name));
    for (size_t k = 0; k < n; k++) {
        name_part(s, entries[k].part, file);
        mp_json_set(&map, entries[k].tensor, mp_json_text(file));
    }
    for (int k = 0; k < s->n_parts; k++) {
        name_part(s, k, file);
        mp_json_set(&sums, file, mp_json_text(checksums[k]));
    }
    json_t *index = json_pack("{s:o, s:o, s:o}", "metadata", notes, "checksums", sums, "weight_map", map);
    mp_json_start(&out, index);
    MP_CHECK(path_in(s->folder, INDEX_NAME, path, sizeof path, err));
    MP_CHECK(mp_json_finish(&out, path, err));
    return clear_away(s->folder, err);
}

void mp_checkpoint_end(mp_save *s)
{
    if (s->name[0]) clear_away(s->folder, NULL);
    if (s->folder[0] && s->lock >= 0) close(s->lock);
    *s = (mp_save){0};
}

mp_status mp_checkpoint_try(const char *path, mp_error *err)
{
    char index_path[MP_SAVE_PATH];
    MP_OWNED_BY(json_decref) json_t *index = NULL;
    if (!mp_is_folder(path)) return mp_file_try(path, err);
    MP_CHECK(path_in(path, INDEX_NAME, index_path, sizeof index_path, err));
    MP_CHECK(read_index(path, &index, err));
    return mp_file_try(index_path, err);
}

/* ---- reading ---- */

typedef struct part {
    const char *file; /* file name of the part within the folder */
    mp_safetensors *tensors;
} part;

struct mp_checkpoint {
    mp_pool *pool;
    json_t *index; /* the index of the folder; NULL: the checkpoint is a single file, which is parts[0] */
    size_t n;
    part *parts;
};

/* Compares the metadata of a part with those of the index. If the index has checksums, compares the checksum too. */
static mp_status compare_part(const mp_checkpoint *c, const part *p, mp_error *err)
{
    const json_t *sums = json_object_get(c->index, "checksums");
    const char *key, *wanted = json_string_value(json_object_get(sums, p->file));
    char sum[MP_CHECKSUM_TEXT];
    json_t *value;
    json_object_foreach(json_object_get(c->index, "metadata"), key, value)
    {
        const char *of_index = json_string_value(value), *of_part = mp_safetensors_metadatum(p->tensors, key);
        MP_ENSURE(!of_index || !of_part || !strcmp(of_index, of_part), err, MP_PARSE,
                  "this part has the %.60s %.60s, but the index has %.60s: one of them is damaged", key, of_part, of_index);
    }
    if (!sums) return MP_OK;
    MP_ENSURE(wanted, err, MP_PARSE, "the index has no checksum of this part");
    MP_CHECK(mp_safetensors_checksum(p->tensors, sum, err));
    MP_ENSURE(!strcmp(sum, wanted), err, MP_PARSE,
              "this part is damaged: its checksum is %s, and %.60s in the index; go on from another save", sum, wanted);
    return MP_OK;
}

/* Opens a part of a checkpoint and checks that it belongs to the save that the index names. */
static mp_status open_part(const mp_checkpoint *c, const char *folder, part *p, mp_error *err)
{
    char path[MP_SAVE_PATH];
    const char *save = mp_checkpoint_metadatum(c, "save");
    MP_CHECK(path_in(folder, p->file, path, sizeof path, err));
    MP_ABOUT(err, path);
    MP_ENSURE(!strchr(p->file, '/'), err, MP_PARSE, "the index names a part that is not in its folder");
    MP_ENSURE(access(path, F_OK) == 0, err, MP_PARSE, "this part of the saved training is missing");
    MP_CHECK(mp_safetensors_open(path, &p->tensors, err));
    const char *of = mp_safetensors_metadatum(p->tensors, "save");
    MP_ENSURE(of && !strcmp(of, save), err, MP_PARSE, "this part is of the save %.60s, and the index is of %.60s",
              of ? of : "without a name", save);
    return compare_part(c, p, err);
}

/* Returns the part of the checkpoint that is stored in this file. If the list does not contain the part, adds it. */
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
    MP_CHECK(read_index(folder, &c->index, err));
    MP_ENSURE(c->index, err, MP_PARSE, "the folder has no " INDEX_NAME ", so no training was saved into it");
    json_t *map = json_object_get(c->index, "weight_map");
    MP_ENSURE(c->parts = mp_pool_alloc(c->pool, json_object_size(map), sizeof *c->parts), err, MP_NOMEM, "out of memory");
    json_object_foreach(map, name, file)
    {
        MP_ENSURE(json_is_string(file), err, MP_PARSE, "the index names no part for '%.200s'", name);
        part *p = part_of(c, json_string_value(file));
        if (!p->tensors) MP_CHECK(open_part(c, folder, p, err));
        if (mp_safetensors_find(p->tensors, name)) continue;
        char path[MP_SAVE_PATH];
        MP_CHECK(path_in(folder, p->file, path, sizeof path, err));
        return MP_FAIL_AT(err, MP_PARSE, path, 0, 0, "this part lacks '%.200s', although the index lists it here", name);
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

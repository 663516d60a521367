/* subject_checkpoints.c - finds the storages that belong to tensor names given by the user. */
#include "cli/subject/subject.h"

#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/nearest.h"
#include "formats/json/plan_json.h"

static mp_status unknown_name(const subject *s, const char *name, mp_error *err)
{
    nearest n = nearest_to(name);
    for (size_t k = 0; s->model && k < s->model->n_tensors; k++) nearest_offer(&n, s->model->tensors[k].name);
    for (size_t k = 0; k < s->graph->n_storages; k++)
        for (size_t t = 0; t < s->graph->storages[k].n_tensors; t++) nearest_offer(&n, s->graph->storages[k].tensors[t]);
    const char *close = nearest_found(&n);
    if (close) return MP_FAIL(err, MP_INVALID, "there is no tensor '%s' to keep; did you mean '%s'?", name, close);
    return MP_FAIL(err, MP_INVALID, "there is no tensor '%s' to keep", name);
}

static mp_status find_checkpoint(const subject *s, const mp_names *names, const char *name, int *storage, mp_error *err)
{
    const char *stands = name;
    int tensor = s->model ? mp_model_find(s->model, name) : -1;
    if (tensor >= 0) stands = s->model->tensors[mp_model_resolve(s->model, tensor)].name;
    int found = mp_names_find(names, stands);
    if (found < 0 && tensor < 0) return unknown_name(s, name, err);
    MP_ENSURE(found >= 0, err, MP_INVALID, "tensor '%s' is not computed in the training step, so it cannot be kept", name);
    const mp_storage *row = &s->graph->storages[found];
    int producer = s->graph->producer[found];
    if (mp_storage_is_static(row) || producer < 0 || s->graph->nodes[producer].phase != MP_PHASE_FORWARD)
        return MP_FAIL(err, MP_INVALID, "'%s' (%s) is not an activation of the forward pass, so it cannot be a checkpoint",
                       name, mp_kind_name(row->kind));
    if (tensor >= 0 && mp_model_resolve(s->model, tensor) != tensor)
        complain("checkpoint %s was simplified away; %s replaces it", name, stands);
    *storage = found;
    return MP_OK;
}

mp_status subject_checkpoints(const subject *s, const char *text, int **list, size_t *n, mp_error *err)
{
    MP_OWNED_BY(mp_names_free) mp_names *names = mp_plan_checkpoint_names(s->graph);
    size_t length = strlen(text), found = 0, capacity = 1;
    for (size_t k = 0; k < length; k++) capacity += text[k] == ',';
    MP_OWNED int *storages = mp_alloc(capacity, sizeof *storages);
    MP_OWNED char *copy = mp_alloc(length + 1, 1);
    MP_ENSURE(storages && copy && names, err, MP_NOMEM, "the checkpoints");
    memcpy(copy, text, length);
    for (char *name = copy, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) *next++ = 0;
        MP_ENSURE(*name, err, MP_INVALID, "--checkpoints has an empty name in its list");
        int storage = -1;
        bool again = false;
        MP_CHECK(find_checkpoint(s, names, name, &storage, err));
        /* true if an earlier name of the list means the same storage */
        for (size_t k = 0; k < found; k++) again |= storages[k] == storage;
        if (!again) storages[found++] = storage;
    }
    *list = storages;
    *n = found;
    storages = NULL;
    return MP_OK;
}

/* state.c - writes parameters, moments and master copies into a safetensors file, and reads them back. */
#include "executor/train/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/data/safetensors.h"

enum { COPIES = 3 }; /* a parameter and two moments */

/* Returns how many arrays are saved of a tensor: its values in float, and its moments. */
static int copies_of(const mp_program *p, mp_execution *e, int tensor)
{
    if (p->model->tensors[tensor].role != MP_ROLE_PARAMETER || !mp_execution_has_state(e, tensor)) return 1;
    return 1 + mp_optimizer_moments(p->options.optimizer);
}

static bool is_saved(const mp_program *p, int tensor)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    int storage = p->bindings->storage[tensor];
    bool kind = t->role == MP_ROLE_PARAMETER || t->role == MP_ROLE_BUFFER;
    return kind && t->producer < 0 && storage >= 0 && mp_storage_is_static(&p->graph->storages[storage]) &&
           mp_dtype_is_float(t->dtype);
}

/* Describes array k of a tensor: 0 is the tensor itself (its master copy if it has one), 1 and 2 are the moments. */
static mp_status locate(const mp_program *p, mp_execution *e, int tensor, int copy, mp_array *out, mp_error *err)
{
    const int64_t room = mp_stored_elements(&p->model->tensors[tensor]);
    float *state;
    MP_CHECK(mp_execution_state(e, tensor, &state, err));
    MP_CHECK(mp_execution_tensor(e, tensor, out, err));
    int master = mp_optimizer_moments(p->options.optimizer);
    bool has_master = state && out->dtype != MP_DTYPE_FLOAT;
    if (copy || has_master) {
        out->dtype = MP_DTYPE_FLOAT;
        out->data = state + (copy ? copy - 1 : master) * room;
    }
    return MP_OK;
}

static const char *name_of(mp_pool *pool, const char *name, int copy)
{
    return copy ? mp_pool_format(pool, "optimizer.%d:%s", copy, name) : name;
}

mp_status mp_state_save(const char *path, const mp_program *p, mp_execution *e, const mp_execution_options *options,
                        int64_t step, mp_error *err)
{
    size_t n = 0;
    char step_text[32], seed_text[32];
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED mp_named_tensor *tensors = mp_alloc(COPIES * p->model->n_tensors, sizeof *tensors);
    MP_ENSURE(pool && tensors, err, MP_NOMEM, "there is no memory for saving");
    MP_ENSURE(!p->mesh.zero, err, MP_UNSUPPORTED, "a rank that has parts of the state saves none");
    for (size_t t = 0; t < p->model->n_tensors; t++) {
        const mp_tensor *x = &p->model->tensors[t];
        if (!is_saved(p, (int)t)) continue;
        for (int copy = 0; copy < copies_of(p, e, (int)t); copy++) {
            mp_array there, host = mp_array_plain(MP_DTYPE_FLOAT, x->rank, x->dims);
            MP_CHECK(locate(p, e, (int)t, copy, &there, err));
            host.data = mp_pool_alloc(pool, (size_t)mp_array_elements(&host) + 1, sizeof(float));
            const char *name = name_of(pool, x->name, copy);
            MP_ENSURE(host.data && name, err, MP_NOMEM, "there is no memory for saving");
            MP_CHECK(p->backend->download(p->backend, &there, &host, err));
            tensors[n++] = (mp_named_tensor){name, MP_DTYPE_FLOAT, x->rank, x->dims, host.data};
        }
    }
    snprintf(step_text, sizeof step_text, "%lld", (long long)step);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)options->seed);
    const mp_metadatum metadata[] = {{"model", p->model->name},
                                     {"optimizer", mp_optimizer_name(p->options.optimizer)},
                                     {"seed", seed_text},
                                     {"step", step_text}};
    return mp_safetensors_write(path, tensors, n, metadata, sizeof metadata / sizeof *metadata, err);
}

static mp_status match(const mp_safetensors *file, const char *key, const char *wanted, mp_error *err)
{
    const char *is = mp_safetensors_metadatum(file, key);
    if (!is) return MP_FAIL(err, MP_PARSE, "the file does not say its %s, so it is no saved training", key);
    if (!strcmp(is, wanted)) return MP_OK;
    return MP_FAIL(err, MP_PARSE, "the file was saved with the %s %.64s, and this is %s", key, is, wanted);
}

static mp_status restore(const mp_safetensors *file, const mp_program *p, mp_execution *e, int tensor, int copy, mp_pool *pool,
                         mp_error *err)
{
    const mp_tensor *x = &p->model->tensors[tensor];
    mp_array there, host = mp_array_plain(MP_DTYPE_FLOAT, x->rank, x->dims);
    const char *name = name_of(pool, x->name, copy);
    MP_ENSURE(name, err, MP_NOMEM, "out of memory");
    const mp_named_tensor *saved = mp_safetensors_find(file, name);
    MP_ENSURE(saved, err, MP_PARSE, "the file lacks '%s'", name);
    bool same = saved->dtype == MP_DTYPE_FLOAT && saved->rank == x->rank;
    for (int d = 0; same && d < x->rank; d++) same = saved->dims[d] == x->dims[d];
    MP_ENSURE(same, err, MP_PARSE, "'%s' has another type or shape in the file", name);
    MP_OWNED float *values = host.data = mp_alloc((size_t)mp_array_elements(&host), sizeof *values);
    MP_ENSURE(values, err, MP_NOMEM, "there is no memory for '%s'", name);
    memcpy(host.data, saved->data, (size_t)mp_array_bytes(&host)); /* data in the file may be unaligned */
    MP_CHECK(locate(p, e, tensor, copy, &there, err));
    MP_CHECK(p->backend->upload(p->backend, &host, &there, err));
    MP_CHECK(mp_execution_keep_state(e, tensor, err));
    if (!copy) { /* the 16-bit copy of a master copy */
        MP_CHECK(mp_execution_tensor(e, tensor, &there, err));
        MP_CHECK(p->backend->upload(p->backend, &host, &there, err));
    }
    return MP_OK;
}

mp_status mp_state_resume(const char *path, const mp_program *p, mp_execution *e, const mp_execution_options *options,
                          int64_t *step, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_safetensors_close) mp_safetensors *file = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    char seed[32], *end;
    MP_ENSURE(pool, err, MP_NOMEM, "out of memory");
    MP_ENSURE(!p->mesh.zero, err, MP_UNSUPPORTED, "a rank that has parts of the state reads none");
    MP_CHECK(mp_safetensors_open(path, &file, err));
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    MP_CHECK(match(file, "model", p->model->name, err));
    MP_CHECK(match(file, "optimizer", mp_optimizer_name(p->options.optimizer), err));
    MP_CHECK(match(file, "seed", seed, err));
    const char *text = mp_safetensors_metadatum(file, "step");
    int64_t at = text ? strtoll(text, &end, 10) : -1;
    MP_ENSURE(at >= 0 && !*end, err, MP_PARSE, "the file does not say at which step it was saved");
    for (size_t t = 0; t < p->model->n_tensors; t++)
        for (int copy = 0; is_saved(p, (int)t) && copy < copies_of(p, e, (int)t); copy++)
            MP_CHECK(restore(file, p, e, (int)t, copy, pool, err));
    *step = at;
    return MP_OK;
}

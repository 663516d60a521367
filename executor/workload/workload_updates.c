/* workload_updates.c - the parameters of a workload, and the effect of the time at which they are updated. */
#include <fnmatch.h>

#include "executor/workload/workload.h"
#include "memplan/workloads/own_device.h"

static bool is_frozen(const mp_tensor *t, const mp_workload_options *o)
{
    bool frozen = false;
    for (size_t k = 0; t->role == MP_ROLE_PARAMETER && k < o->freeze.n; k++) frozen |= !fnmatch(o->freeze.items[k], t->name, 0);
    return frozen;
}

void mp_workload_parameters(const mp_workload *w, const mp_workload_options *o, int64_t *all, int64_t *trained)
{
    *all = *trained = w->model ? 0 : -1;
    for (size_t k = 0; w->model && k < w->model->n_tensors; k++) {
        const mp_tensor *t = &w->model->tensors[k];
        const int64_t n = t->role == MP_ROLE_PARAMETER && t->rank >= 0 ? mp_tensor_elements(t) : 0;
        *all += n;
        if (!t->is_frozen && !is_frozen(t, o)) *trained += n;
    }
}

const char *mp_workload_role_reason(const mp_tensor *t, const mp_workload_options *o)
{
    return is_frozen(t, o) ? "frozen with --freeze"
           : t->is_frozen  ? "frozen: adapters are trained (--lora)"
                           : (t->role_reason ? t->role_reason : "");
}

mp_status mp_workload_update_effects(const char *path, const mp_workload_options *o, mp_update_effects *out, mp_error *err)
{
    const mp_backend *backend;
    mp_own_device device;
    mp_update_effects found = {.cache_bytes = 0};
    MP_CHECK(mp_workload_device(o, &backend, &device, err));
    found.cache_bytes = device.profile.cache_bytes;
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        mp_workload_options options = *o;
        MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
        options.fuse = mp_fuse_name((mp_fuse)fuse);
        if (fuse == MP_FUSE_BACKWARD && o->clip_norm > 0) continue;
        MP_CHECK(mp_workload_load(path, &options, &w, err));
        MP_CHECK(mp_update_effect_of(w.graph, found.cache_bytes, &found.effects[fuse], err));
        found.is_possible[fuse] = true;
    }
    *out = found;
    return MP_OK;
}

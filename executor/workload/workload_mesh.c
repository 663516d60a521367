/* workload_mesh.c - the ranks of a workload: its mesh, network and way of summing. */
#include "executor/workload/workload_mesh.h"

#include <string.h>

#include "executor/workload/own_device.h"
#include "formats/json/network_json.h"

mp_status mp_workload_network(const char *name, mp_interconnect *out, mp_error *err)
{
    const size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".json") ? mp_network_json_read(name, out, err) : mp_network_read(name, out, err);
}

mp_status mp_workload_mesh(const mp_workload_options *o, const mp_own_device *device, mp_ranks *out, mp_error *err)
{
    const bool has_mesh = mp_mesh_devices(&o->mesh);
    MP_ENSURE(has_mesh || (!o->network && !o->bucket && !o->reduce && !o->exchange && !o->sync_batchnorm), err, MP_INVALID,
              "--%s applies to the ranks of a mesh; add --mesh",
              o->network    ? "network"
              : o->bucket   ? "bucket"
              : o->reduce   ? "reduce"
              : o->exchange ? "exchange"
                            : "sync-batchnorm");
    *out = (mp_ranks){.mesh = has_mesh ? o->mesh : mp_mesh_of_one(),
                      .bucket_bytes = o->bucket,
                      .rules = (mp_rules)mp_rules_find(o->rules),
                      .shares_statistics = o->sync_batchnorm};
    if (o->exchange && !strcmp(o->exchange, "server")) {
        MP_ENSURE(mp_mesh_devices(&out->mesh) == out->mesh.size[MP_DIM_DP], err, MP_INVALID,
                  "--exchange server supports data parallel ranks only; use --mesh dp=N instead of %s",
                  mp_mesh_write(&out->mesh).text);
        MP_ENSURE(!o->reduce || strcmp(o->reduce, "fast") != 0, err, MP_INVALID,
                  "--reduce fast contradicts --exchange server, with which rank 0 computes the sums; omit one of them");
        out->algorithm = MP_ALGORITHM_SERVER;
    }
    return mp_workload_network(o->network ? o->network : mp_network_of_device(device->profile.name), &out->network, err);
}

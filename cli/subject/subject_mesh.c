/* subject_mesh.c - reads of how many devices the subject's is one, and what joins them. */
#include "cli/subject/subject.h"

mp_status subject_mesh(const options *o, const own_device *device, subject *s, mp_error *err)
{
    const model_options *m = &o->model;
    MP_ENSURE(m->mesh || (!m->network && !m->bucket), err, MP_INVALID, "--%s is about the ranks of a mesh, and there is no --mesh",
              m->network ? "network" : "bucket");
    s->parallel = (mp_parallel){.bucket_bytes = m->bucket, .rules = (mp_rules)mp_rules_find(m->rules)};
    MP_CHECK(mp_mesh_read(m->mesh ? m->mesh : "dp=1", &s->parallel.mesh, err));
    return mp_network_read(m->network ? m->network : mp_network_of_device(device->profile.name), &s->parallel.network, err);
}

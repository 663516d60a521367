/* subject_mesh.c - reads mesh and network from the options, and reports the bytes that a rank sends. */
#include <string.h>

#include "cli/messages/screen.h"
#include "cli/subject/subject.h"
#include "formats/json/network_json.h"

mp_status subject_network(const char *name, mp_interconnect *out, mp_error *err)
{
    const size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".json") ? mp_network_json_read(name, out, err) : mp_network_read(name, out, err);
}

mp_status subject_mesh(const options *o, const own_device *device, subject *s, mp_error *err)
{
    const model_options *m = &o->model;
    MP_ENSURE(m->mesh || (!m->network && !m->bucket && !m->reduce && !m->exchange && !m->sync_batchnorm), err, MP_INVALID,
              "--%s applies to the ranks of a mesh; add --mesh",
              m->network    ? "network"
              : m->bucket   ? "bucket"
              : m->reduce   ? "reduce"
              : m->exchange ? "exchange"
                            : "sync-batchnorm");
    s->ranks = (mp_ranks){
        .bucket_bytes = m->bucket, .rules = (mp_rules)mp_rules_find(m->rules), .shares_statistics = m->sync_batchnorm};
    MP_CHECK(mp_mesh_read(m->mesh ? m->mesh : "dp=1", &s->ranks.mesh, err));
    if (m->exchange && !strcmp(m->exchange, "server")) {
        MP_ENSURE(mp_mesh_devices(&s->ranks.mesh) == s->ranks.mesh.size[MP_DIM_DP], err, MP_INVALID,
                  "--exchange server supports data parallel ranks only; use --mesh dp=N instead of %s",
                  mp_mesh_write(&s->ranks.mesh).text);
        MP_ENSURE(!m->reduce || strcmp(m->reduce, "fast") != 0, err, MP_INVALID,
                  "--reduce fast contradicts --exchange server, with which rank 0 computes the sums; omit one of them");
        s->ranks.algorithm = MP_ALGORITHM_SERVER;
    }
    return subject_network(m->network ? m->network : mp_network_of_device(device->profile.name), &s->ranks.network, err);
}

void subject_print_ranks(const subject *s)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    const mp_split *split = &s->split;
    if (n <= 1) return;
    const bool is_one = s->traffic.n_collectives == 1;
    screen_text(2, "One rank of %s: %s. In a step it sends %s in %s collective%s, which take%s %s%s.", count_text(n),
                mp_mesh_write(&s->ranks.mesh).text, mp_bytes_text(s->traffic.sent_bytes),
                count_text((int64_t)s->traffic.n_collectives), is_one ? "" : "s", is_one ? "s" : "",
                seconds_text(s->traffic.seconds), is_one ? "" : " one after the other");
    if (s->ranks.network.slowdown > 0)
        screen_text(2,
                    "By the stated rate, computing during collectives takes %.3g %% longer. This adds up to %s per step, which "
                    "is not in its times.",
                    100 * s->ranks.network.slowdown, seconds_text(s->ranks.network.slowdown * s->traffic.seconds));
    if (split->n_gathered)
        screen_text(2, "%s tensors are gathered for operators that are not split, first for '%s'.",
                    count_text((int64_t)split->n_gathered), split->gathered_for);
}

json_t *subject_ranks_json(const subject *s)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:I}", "mesh", mp_mesh_write(&s->ranks.mesh).text, "devices", (json_int_t)n,
                     "collectives", (json_int_t)s->traffic.n_collectives, "sent_bytes", (json_int_t)s->traffic.sent_bytes,
                     "collective_seconds", s->traffic.seconds, "gathered_tensors", (json_int_t)s->split.n_gathered);
}

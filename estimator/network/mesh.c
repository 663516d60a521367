/* mesh.c - reads and writes meshes as text, and computes their groups of ranks. */
#include "memplan/ranks/mesh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"

MP_NAMED(dim, "tp", "ep", "shard", "dp", "pp")

/* Words that a mesh text may contain as "word=number", besides the names of dimensions. */
enum { ZERO = MP_N_DIMS, SEQUENCE, DATA, SCATTER, N_NAMES };

static int find_name(const char *text, size_t n)
{
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
    static const char *const words[] = {"zero", "sp", "data", "scatter"};
    for (int k = ZERO; k < N_NAMES; k++)
        if (!strcmp(name, words[k - ZERO])) return k;
    return mp_dim_find(name);
}

mp_status mp_mesh_read_some(const char *text, mp_mesh *out, mp_error *err)
{
    bool is_given[N_NAMES] = {false};
    mp_mesh mesh = {.sequence = true};
    for (const char *at = text; at;) {
        const char *comma = strchr(at, ','), *equals = strchr(at, '=');
        const size_t n = comma ? (size_t)(comma - at) : strlen(at);
        char *end = NULL;
        const bool has_value = equals && equals < at + n;
        const int name = has_value ? find_name(at, (size_t)(equals - at)) : -1;
        errno = 0;
        const long long value = has_value ? strtoll(equals + 1, &end, 10) : 0;
        MP_ENSURE(
            name >= 0, err, MP_INVALID,
            "'%.*s' in the mesh '%s' is not one of dp=N, shard=N, tp=N, pp=N, ep=N, zero=1-3, sp=0-1, data=0-1, scatter=0-1",
            (int)n, at, text);
        MP_ENSURE(!is_given[name], err, MP_INVALID, "the mesh '%s' names '%.*s' twice", text, (int)(equals - at), at);
        MP_ENSURE(
            end == at + n && end > equals + 1 && !errno && value >= (name >= SEQUENCE ? 0 : 1) &&
                value <= (name == ZERO       ? 3
                          : name >= SEQUENCE ? 1
                                             : INT64_MAX),
            err, MP_INVALID,
            "'%.*s' in the mesh '%s' has an invalid value; sizes need 1 or more, zero 1 to 3, sp, data and scatter 0 or 1",
            (int)n, at, text);
        is_given[name] = true;
        if (name < MP_N_DIMS) mesh.size[name] = value;
        if (name == ZERO) mesh.zero = (int)value;
        if (name == SEQUENCE) mesh.sequence = value;
        if (name == DATA) mesh.data = value;
        if (name == SCATTER) mesh.scatter = value;
        at = comma ? comma + 1 : NULL;
    }
    *out = mesh;
    return MP_OK;
}

mp_status mp_mesh_read(const char *text, mp_mesh *out, mp_error *err)
{
    mp_mesh mesh;
    int64_t devices = 1;
    MP_CHECK(mp_mesh_read_some(text, &mesh, err));
    for (int d = 0; d < MP_N_DIMS; d++)
        if (!mesh.size[d]) mesh.size[d] = 1;
    for (int d = 0; d < MP_N_DIMS; d++)
        MP_ENSURE(d == MP_DIM_EP || mp_multiply(devices, mesh.size[d], &devices), err, MP_INVALID,
                  "the mesh '%s' has more devices than can be counted", text);
    const bool shares = mesh.size[MP_DIM_SHARD] > 1;
    MP_ENSURE(shares || !mesh.zero, err, MP_INVALID,
              "the mesh '%s' has zero, which needs shard=2 or more; add shard=N or omit zero", text);
    MP_ENSURE(mesh.size[MP_DIM_DP] * mesh.size[MP_DIM_SHARD] % mesh.size[MP_DIM_EP] == 0, err, MP_INVALID,
              "the mesh '%s' has ep=%lld, which does not divide dp times shard; choose a divisor", text,
              (long long)mesh.size[MP_DIM_EP]);
    MP_ENSURE(mesh.size[MP_DIM_EP] % mesh.size[MP_DIM_SHARD] == 0 || mesh.size[MP_DIM_SHARD] % mesh.size[MP_DIM_EP] == 0, err,
              MP_INVALID, "the mesh '%s' has ep=%lld and shard=%lld, but one must be a multiple of the other", text,
              (long long)mesh.size[MP_DIM_EP], (long long)mesh.size[MP_DIM_SHARD]);
    MP_ENSURE(mesh.size[MP_DIM_TP] > 1 || !mesh.data, err, MP_INVALID,
              "the mesh '%s' has data=1, which needs tp=2 or more; add tp=N or omit data", text);
    MP_ENSURE(!mesh.scatter || mp_mesh_scatters(&mesh), err, MP_INVALID,
              "the mesh '%s' has scatter=1, but only with tp and pp of 2 or more and sp=0 do stages send the same tensor from "
              "several ranks; omit scatter",
              text);
    if (shares && !mesh.zero) mesh.zero = 3;
    *out = mesh;
    return MP_OK;
}

mp_mesh_text mp_mesh_write(const mp_mesh *mesh)
{
    static const mp_dim order[] = {MP_DIM_DP, MP_DIM_SHARD, MP_DIM_TP, MP_DIM_PP, MP_DIM_EP};
    mp_mesh_text out = {""};
    size_t n = 0;
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        if (mesh->size[order[k]] <= 1) continue;
        n += (size_t)snprintf(out.text + n, sizeof out.text - n, "%s%s=%lld", n ? "," : "", mp_dim_name(order[k]),
                              (long long)mesh->size[order[k]]);
        if (order[k] == MP_DIM_SHARD && mesh->zero < 3)
            n += (size_t)snprintf(out.text + n, sizeof out.text - n, ",zero=%d", mesh->zero);
        if (order[k] == MP_DIM_TP && !mesh->sequence) n += (size_t)snprintf(out.text + n, sizeof out.text - n, ",sp=0");
        if (order[k] == MP_DIM_TP && mesh->data) n += (size_t)snprintf(out.text + n, sizeof out.text - n, ",data=1");
        if (order[k] == MP_DIM_PP && mesh->scatter) n += (size_t)snprintf(out.text + n, sizeof out.text - n, ",scatter=1");
    }
    if (!n) snprintf(out.text, sizeof out.text, "dp=1");
    return out;
}

bool mp_mesh_is_same(const mp_mesh *a, const mp_mesh *b)
{
    return !memcmp(a->size, b->size, sizeof a->size) && a->zero == b->zero && a->data == b->data;
}

mp_mesh mp_mesh_of_one(void)
{
    mp_mesh mesh = {.sequence = true};
    for (int d = 0; d < MP_N_DIMS; d++) mesh.size[d] = 1;
    return mesh;
}

int64_t mp_mesh_devices(const mp_mesh *mesh)
{
    int64_t n = 1;
    for (int d = 0; d < MP_N_DIMS; d++)
        if (d != MP_DIM_EP) n *= mesh->size[d];
    return n;
}

bool mp_mesh_scatters(const mp_mesh *mesh)
{
    return mesh->scatter && mesh->size[MP_DIM_TP] > 1 && mesh->size[MP_DIM_PP] > 1 && !mesh->sequence && !mesh->data;
}

mp_rank_group mp_mesh_group(const mp_mesh *mesh, mp_dim dim)
{
    int64_t stride = 1;
    for (int d = 0; d < (int)dim; d++)
        if (d != MP_DIM_EP) stride *= mesh->size[d];
    return (mp_rank_group){.n = mesh->size[dim], .stride = stride};
}

mp_rank_group mp_mesh_expert_group(const mp_mesh *mesh, mp_dim dim)
{
    const int64_t *size = mesh->size, ep = size[MP_DIM_EP], shard = size[MP_DIM_SHARD];
    const bool is_within = ep <= shard; /* true if ep uses only ranks of shard; false: it also uses ranks of dp */
    if (dim == MP_DIM_SHARD) return (mp_rank_group){.n = is_within ? shard / ep : 1, .stride = size[MP_DIM_TP] * ep};
    if (is_within) return mp_mesh_group(mesh, dim);
    return (mp_rank_group){.n = size[MP_DIM_DP] * shard / ep, .stride = size[MP_DIM_TP] * ep};
}

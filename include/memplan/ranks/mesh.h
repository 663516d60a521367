/* mesh.h - how many devices there are in which direction.
 *
 *     dp=4       data parallel: every rank has all parameters, gradients are summed ("replicate")
 *     shard=8    data parallel with state shared out: zero=1 the optimizer's, zero=2 gradients too, zero=3 (the usual)
 *                parameters too, which are gathered where they are needed
 *     tp=8       operators are split; sp=0 keeps the sequence whole between them, sp=1 (the usual) splits it as well;
 *                data=1 shares the batch out instead, and splits only weights that are worth it
 *     pp=2       the network is cut into stages
 *     ep=8       experts lie on different ranks, taken from those of shard, and from dp what shard has not
 *
 * "dp=4,tp=8,pp=2" is a mesh of 64 devices. Ranks next to each other differ in tp, then in shard, dp and pp, so that a node's
 * links carry what is sent most. (ZeRO: Rajbhandari et al. 2020; sequence parallelism: Korthikanti et al. 2022.)
 *
 *     mp_mesh mesh;
 *     MP_CHECK(mp_mesh_read("dp=4,tp=8,pp=2", &mesh, err));
 *     assert(mp_mesh_devices(&mesh) == 64 && mp_mesh_group(&mesh, MP_DIM_DP).stride == 8);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/ranks/network.h"

/* From the innermost one outwards; ranks of ep lie within those of shard and dp. */
typedef enum mp_dim { MP_DIM_TP, MP_DIM_EP, MP_DIM_SHARD, MP_DIM_DP, MP_DIM_PP, MP_N_DIMS } mp_dim;
const char *mp_dim_name(mp_dim dim); /* "tp" */
int mp_dim_find(const char *name);   /* -1: none */

typedef struct mp_mesh {
    int64_t size[MP_N_DIMS]; /* >= 1 */
    int zero;                /* 1 to 3: what shard shares out; 0: shard is 1 */
    bool sequence;           /* tp splits the sequence between products, too */
    bool data;               /* tp shares the batch out, and splits only weights whose gradients take longer to sum */
} mp_mesh;

typedef struct mp_mesh_text {
    char text[128];
} mp_mesh_text;

/* Reads "dp=4,tp=8,pp=2"; what is not named is 1. MP_INVALID: no such name, one twice, no number >= 1, zero without shard, ep
 * that does not divide dp times shard, or cuts across shard, or more devices than an int64_t counts. O(length). */
mp_status mp_mesh_read(const char *text, mp_mesh *out, mp_error *err);
/* Reads what is given of a mesh: sizes that are not named, and zero, are 0. MP_INVALID as above, but for what does not go
 * together. */
mp_status mp_mesh_read_some(const char *text, mp_mesh *out, mp_error *err);
/* Returns the mesh as mp_mesh_read reads it, "dp=4,tp=8,pp=2"; of one device "dp=1". O(1). */
mp_mesh_text mp_mesh_write(const mp_mesh *mesh);
int64_t mp_mesh_devices(const mp_mesh *mesh);
/* Returns the ranks that differ in one dimension alone. O(1). */
mp_rank_group mp_mesh_group(const mp_mesh *mesh, mp_dim dim);
/* The same of shard and of dp, among the ranks that have the same experts: ep takes its ranks from shard, and from dp what
 * shard has not. O(1). */
mp_rank_group mp_mesh_expert_group(const mp_mesh *mesh, mp_dim dim);

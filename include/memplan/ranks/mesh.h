/* mesh.h - the device mesh: the number of devices per parallel dimension. dp=4 data parallel: parameters are replicated,
 * gradients are summed ("replicate") shard=8 data parallel with sharding: zero=1 shards optimizer state, zero=2 also gradients,
 * zero=3 (the default) also parameters, which are gathered before use tp=8 tensor parallel: operators are split; sp=0
 * replicates activations between split operators, sp=1 (the default) shards them along the sequence; data=1 splits the batch
 * instead of the operators; a weight is then split only if this saves time
 *     pp=2       pipeline parallel: the network is cut into stages
 *     ep=8       expert parallel: experts are distributed over ranks of shard; if shard has too few ranks, also over dp
 *
 * "dp=4,tp=8,pp=2" is a mesh of 64 devices. Neighbouring ranks differ in tp, then in shard, dp and pp. So the dimension with
 * the most traffic uses the links within a node. (ZeRO: Rajbhandari et al. 2020; sequence parallelism: Korthikanti et al.
 * 2022.)
 *
 *     // given: mp_error *err
 *     mp_mesh mesh;
 *     MP_CHECK(mp_mesh_read("dp=4,tp=8,pp=2", &mesh, err));
 *     assert(mp_mesh_devices(&mesh) == 64 && mp_mesh_group(&mesh, MP_DIM_DP).stride == 8);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/ranks/network.h"

/* Dimensions of a mesh, from the innermost outwards. The ranks of ep are a subset of the ranks of shard and dp. */
typedef enum mp_dim { MP_DIM_TP, MP_DIM_EP, MP_DIM_SHARD, MP_DIM_DP, MP_DIM_PP, MP_N_DIMS } mp_dim;
const char *mp_dim_name(mp_dim dim); /* "tp" */
int mp_dim_find(const char *name);   /* returns the mesh dimension with this name; -1: no dimension has this name */

typedef struct mp_mesh {
    int64_t size[MP_N_DIMS]; /* number of ranks along each dimension, >= 1 */
    int zero;                /* ZeRO stage of the shard dimension, 1 to 3; 0: the size of shard is 1 */
    bool sequence;           /* true: tp also shards activations along the sequence between split products */
    bool data;    /* true: tp splits the batch. A weight is split only if its split takes less time than the sum of its gradient
                     over the ranks */
    bool scatter; /* true: each rank of tp sends 1/tp of a replicated tensor to the next pipeline stage, and that stage gathers
                     the tensor (Narayanan et al. 2021, 4.1). false: each rank sends the whole tensor */
} mp_mesh;

typedef struct mp_mesh_text {
    char text[128];
} mp_mesh_text;

/* Reads a mesh such as "dp=4,tp=8,pp=2"; dimensions that are not named are 1. MP_INVALID: an unknown or repeated name, a size
 * below 1, zero without shard, or more devices than an int64_t holds. MP_INVALID also if ep does not divide dp times shard or
 * does not align with shard. O(length). */
mp_status mp_mesh_read(const char *text, mp_mesh *out, mp_error *err);
/* Reads a mesh of which some sizes are unknown: a size that is not named is 0, and so is `zero`. MP_INVALID as mp_mesh_read,
 * but combinations of dimensions are not checked. */
mp_status mp_mesh_read_some(const char *text, mp_mesh *out, mp_error *err);
/* Returns the text that mp_mesh_read accepts for this mesh, such as "dp=4,tp=8,pp=2"; for one device "dp=1". O(1). */
mp_mesh_text mp_mesh_write(const mp_mesh *mesh);
mp_mesh mp_mesh_of_one(void); /* returns the mesh "dp=1" of a single device */
/* True if two meshes have the same sizes, ZeRO stage and split of the batch. `sequence` is not compared. O(1). */
bool mp_mesh_is_same(const mp_mesh *a, const mp_mesh *b);
int64_t mp_mesh_devices(const mp_mesh *mesh);
/* True if ranks of tp send parts to the next pipeline stage. This requires `scatter`, tp and pp of 2 or more, and neither
 * `sequence` nor `data`. O(1). */
bool mp_mesh_scatters(const mp_mesh *mesh);
/* Returns the group of ranks whose positions differ only in dimension `dim`. O(1). */
mp_rank_group mp_mesh_group(const mp_mesh *mesh, mp_dim dim);
/* Returns the group of ranks along `dim` (shard or dp) that hold the same experts as this rank. ep uses ranks of shard
 * first, then of dp. O(1). */
mp_rank_group mp_mesh_expert_group(const mp_mesh *mesh, mp_dim dim);

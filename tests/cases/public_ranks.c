/* public_ranks.c - the functions of include/memplan/ranks that allocate. */
#include "tests/cases/chain_graph.h"
#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

static mp_ranks ranks_of(const char *mesh)
{
    mp_ranks ranks = {.bucket_bytes = 8};
    assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    return ranks;
}

static mp_status graph_exchange(public_world *w, mp_error *err)
{
    const mp_ranks ranks = ranks_of("dp=2,shard=2");
    mp_graph *graph = random_graph(7, 4, MP_FUSE_BACKWARD, false);
    mp_status st;
    PUBLIC_LIMITED(w, st, mp_graph_exchange(graph, &ranks, NULL, err));
    mp_graph_free(graph);
    return st;
}

static mp_status rank_graph(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err)
{
    (void)data;
    return chain_graph(4, 8 * micro_batch, 16 / mesh->size[MP_DIM_TP], true, out, err);
}

static mp_status meshes_search(public_world *w, mp_error *err)
{
    const mp_meshes_request request = {
        .devices = 2, .memory_bytes = 1000, .global_batch = 4, .ranks = ranks_of("dp=1"), .graph = rank_graph};
    mp_meshes *meshes;
    PUBLIC_OUTPUT(w, meshes, mp_meshes_search(&request, &meshes, err), mp_meshes_free(meshes));
}

const public_call public_ranks[] = {{"mp_graph_exchange", graph_exchange}, {"mp_meshes_search", meshes_search}, {NULL, NULL}};

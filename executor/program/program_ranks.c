/* program_ranks.c - turns a program into the program of one rank: inserts collectives with their workspaces among the calls. */
#include <string.h>

#include "estimator/graph/collective.h"
#include "estimator/parallel/exchange.h"
#include "executor/program/node_list.h"
#include "executor/program/program.h"
#include "executor/program/program_nodes.h"
#include "executor/program/stage.h"
#include "executor/ranks/collectives.h"

/* Returns the number of elements of a storage of parameters or gradients. */
static int64_t elements_of(const mp_program *p, int storage)
{
    return p->graph->storages[storage].payload_bytes / (mp_dtype_bits(p->options.dtype) / 8);
}

static mp_status set_bytes(const mp_program *p, int storage, int64_t bytes, mp_error *err)
{
    mp_storage *s = &p->graph->storages[storage];
    s->payload_bytes = bytes;
    MP_ENSURE(mp_round_up(bytes, p->graph->alignment, &s->bytes), err, MP_INVALID, "'%s' is too large", s->name);
    return MP_OK;
}

/* Binds an update node to this rank's parts of gradient, parameter and optimizer state. to[k] is the storage of this rank's
 * part of storage k. The sizes of parts are rounded to whole elements. */
static mp_status share_update(const mp_program *p, mp_binding *b, const int *to, mp_error *err)
{
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8, n = mp_stored_elements(&p->model->tensors[b->parameter]);
    /* arrays: number of arrays of optimizer state: the moments, and for 16-bit parameters the master copy */
    const int64_t part = mp_rank_part(n, p->mesh.size[MP_DIM_SHARD]),
                  arrays = mp_optimizer_moments(p->options.optimizer) + (element < (int64_t)sizeof(float));
    if (to[b->source] >= 0) b->source = to[b->source];
    if (to[b->target] >= 0) b->target = to[b->target];
    MP_CHECK(set_bytes(p, b->target, part * element, err));
    if (p->mesh.zero >= 2) MP_CHECK(set_bytes(p, b->source, part * element, err));
    if (b->state >= 0) MP_CHECK(set_bytes(p, b->state, part * arrays * (int64_t)sizeof(float), err));
    return MP_OK;
}

int mp_program_part(const mp_program *p, int storage)
{
    for (int k = 0; k < (int)p->n_nodes; k++) {
        if (!mp_program_gathers(p, k)) continue;
        const mp_collective_record *r = p->graph->nodes[k].collective;
        for (size_t j = 0; j < r->n_moved; j++)
            if (r->wholes[j] == storage) return r->parts[j];
    }
    return -1;
}

/* Sets the size of this rank's part of every gathered parameter, trained or frozen, to whole elements. */
static mp_status share_values(const mp_program *p, const int *to, mp_error *err)
{
    for (size_t t = 0; t < p->model->n_tensors; t++) {
        const mp_tensor *x = &p->model->tensors[t];
        const int storage = p->bindings->storage[t];
        if (x->role != MP_ROLE_PARAMETER || x->producer >= 0 || storage < 0 || to[storage] < 0) continue;
        MP_ENSURE(p->bindings->dtype[t] == p->options.dtype, err, MP_UNSUPPORTED,
                  "'%s' is a frozen parameter of type %s, but shard=N shards only parameters of type %s; use zero=2", x->name,
                  mp_dtype_name(p->bindings->dtype[t]), mp_dtype_name(p->options.dtype));
        const int64_t part = mp_rank_part(mp_stored_elements(x), p->mesh.size[MP_DIM_SHARD]);
        MP_CHECK(set_bytes(p, to[storage], part * (mp_dtype_bits(p->options.dtype) / 8), err));
    }
    return MP_OK;
}

static mp_status share_updates(const mp_program *p, mp_error *err)
{
    const mp_graph *g = p->graph;
    MP_OWNED int *to = mp_alloc(
        g->n_storages, sizeof *to); /* per storage of a gradient or parameter: the storage of this rank's part; -1: none */
    MP_ENSURE(to, err, MP_NOMEM, "out of memory");
    memset(to, -1, g->n_storages * sizeof *to);
    for (size_t k = 0; k < p->n_nodes; k++) {
        if (!mp_program_does(p, (int)k, MP_TASK_COLLECTIVE) || mp_program_message(p, (int)k)) continue;
        const mp_collective_record *r = g->nodes[k].collective;
        for (size_t j = 0; r->parts && j < r->n_moved; j++) to[r->wholes[j]] = r->parts[j];
    }
    for (size_t k = 0; k < p->n_nodes; k++)
        if (mp_program_does(p, (int)k, MP_TASK_UPDATE)) MP_CHECK(share_update(p, &p->bindings->nodes[k], to, err));
    return p->mesh.zero == 3 ? share_values(p, to, err) : MP_OK;
}

bool mp_program_sums_fast(const mp_program *p, mp_dim dim)
{
    return p->fast_sums && p->mesh.size[dim] == mp_mesh_devices(&p->mesh);
}

bool mp_program_gathers(const mp_program *p, int node)
{
    const mp_node *n = &p->graph->nodes[node];
    return mp_program_does(p, node, MP_TASK_COLLECTIVE) && n->collective && n->collective->legs[0].kind == MP_ALL_GATHER &&
           n->phase == MP_PHASE_FORWARD;
}

/* Sets the workspace of a gradient sum. The sum has one leg (an operation over one group of ranks) per dimension of the mesh:
 * first over `shard`, then this rank's part over `dp` and `tp`. The legs run in turn, so the largest workspace is enough. */
static mp_status take_workspace(const mp_program *p, mp_node *node, mp_error *err)
{
    mp_alternative *a = node->alternatives;
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8, shards = p->mesh.size[MP_DIM_SHARD];
    const mp_dim dims[] = {MP_DIM_SHARD, MP_DIM_DP, MP_DIM_TP};
    const mp_collective_record *r = node->collective;
    int64_t most = 0;
    /* the workspace of this node was set when the stage was cut (stage.c) */
    if (mp_program_message(p, (int)(node - p->graph->nodes))) return MP_OK;
    /* a gather needs no workspace, because it receives directly into its outputs */
    if (r->legs[0].kind == MP_ALL_GATHER) return MP_OK;
    for (int d = 0; d < (mp_collective_leg_over(r, MP_DIM_TP) ? 3 : 2); d++) {
        int64_t bytes = 0;
        if (!p->mesh.zero && mp_program_sums_fast(p, dims[d])) continue;
        for (size_t k = 0; k < r->n_moved; k++) {
            const int64_t n = elements_of(p, r->wholes[k]);
            bytes += mp_leg_workspace(MP_REDUCE_SCATTER, mp_program_sums_fast(p, dims[d]), p->mesh.size[dims[d]],
                                      d ? mp_rank_part(n, shards) : n, element);
        }
        if (bytes > most) most = bytes;
    }
    MP_ENSURE(mp_round_up(most, p->backend->alignment, &a->workspace_bytes), err, MP_INVALID, "%s needs too much workspace",
              node->name);
    return MP_OK;
}

mp_status mp_program_exchange(mp_program *p, const mp_ranks *ranks, bool fast, mp_error *err)
{
    p->mesh = ranks->mesh;
    MP_OWNED int *number = mp_alloc(p->n_nodes, sizeof *number);
    MP_ENSURE(number, err, MP_NOMEM, "out of memory");
    p->fast_sums = fast;
    p->shares_statistics = ranks->shares_statistics;
    MP_CHECK(mp_graph_exchange_numbered(p->graph, ranks, number, err));
    const bool exchanges = p->graph->n_nodes != p->n_nodes;
    if (exchanges) MP_CHECK(mp_node_list_renumber(p, number, p->graph->n_nodes, err));
    if (!exchanges) return MP_OK;
    if (p->mesh.zero) MP_CHECK(share_updates(p, err));
    if (p->mesh.zero >= 2) MP_CHECK(mp_stage_sum_parts(p, err));
    for (size_t k = 0; k < p->n_nodes; k++)
        if (mp_program_does(p, (int)k, MP_TASK_COLLECTIVE)) MP_CHECK(take_workspace(p, &p->graph->nodes[k], err));
    return mp_graph_hash(p->graph, p->graph->hash, err);
}

mp_status mp_rank_position_of(const mp_program *p, const mp_communicator *world, mp_rank_position *out, mp_error *err)
{
    const mp_mesh *m = &p->mesh;
    *out = (mp_rank_position){
        .n_data = 1, .data_stride = 1, .n_shards = 1, .n_parts = (int)m->size[MP_DIM_TP], .n_stages = 1, .stage_stride = 1};
    MP_ENSURE(world || out->n_parts == 1, err, MP_INVALID, "a single process cannot run operators that the mesh %s splits",
              mp_mesh_write(m).text);
    if (!world) return MP_OK;
    MP_ENSURE(mp_mesh_devices(m) == world->n, err, MP_INVALID, "the mesh %s needs %lld ranks, but there %s %d process%s",
              mp_mesh_write(m).text, (long long)mp_mesh_devices(m), world->n == 1 ? "is" : "are", world->n,
              world->n == 1 ? "" : "es");
    const mp_process_group parts = mp_process_group_along(m, MP_DIM_TP, world->rank),
                           shards = mp_process_group_along(m, MP_DIM_SHARD, world->rank),
                           replicas = mp_process_group_along(m, MP_DIM_DP, world->rank),
                           stages = mp_process_group_along(m, MP_DIM_PP, world->rank);
    *out = (mp_rank_position){.n_data = shards.n * replicas.n,
                              .data_index = replicas.index * shards.n + shards.index,
                              .data_stride = shards.stride,
                              .n_shards = shards.n,
                              .shard_index = shards.index,
                              .n_parts = parts.n,
                              .part_index = parts.index,
                              .n_stages = stages.n,
                              .stage_stride = stages.stride};
    return MP_OK;
}

mp_status mp_program_sent_bytes(const mp_program *p, const mp_plan *plan, const mp_rank_position *place, int64_t *bytes,
                                mp_error *err)
{
    /* if the network library computes the sums, the sent bytes are counted as for a ring all-reduce, in which all ranks send
     * equally many bytes */
    const mp_traffic_rank rank = {.index = {[MP_DIM_TP] = place->part_index,
                                            [MP_DIM_SHARD] = p->fast_sums ? 0 : place->shard_index,
                                            [MP_DIM_DP] = p->fast_sums ? 0 : place->data_index / place->n_shards},
                                  .element_bytes = mp_dtype_bits(p->options.dtype) / 8};
    const mp_pipeline_shape shape = p->stage ? p->stage->shape : (mp_pipeline_shape){0};
    const int passes = p->options.accumulate > 1 ? p->options.accumulate : 1;
    mp_rank_traffic traffic;
    mp_traffic_of(p->graph, plan->steps, plan->n_steps, passes, &rank, &traffic);
    MP_CHECK(mp_rank_add_repeated(p->graph, &shape, p->stage ? p->stage->index : 0, plan->steps, plan->n_steps, &rank, &traffic,
                                  err));
    *bytes = traffic.sent_bytes;
    return MP_OK;
}

static mp_status refuse(const mp_program *p, const char *what, mp_error *err)
{
    return MP_FAIL(err, MP_UNSUPPORTED, "%s can be planned but not trained yet (mesh %s)", what, mp_mesh_write(&p->mesh).text);
}

static mp_status check_pipeline(const mp_program *p, mp_error *err)
{
    if (!p->stage) return refuse(p, "a network without stages", err);
    if (!p->backend->is_host) return refuse(p, "pp on GPUs", err);
    if (p->fast_sums) return refuse(p, "--reduce fast with pp", err);
    return p->graph->n_tiers > 1 ? refuse(p, "--offload with pp", err) : MP_OK;
}

mp_status mp_program_check_ranks(const mp_program *p, mp_error *err)
{
    const mp_mesh *m = &p->mesh;
    if (mp_mesh_devices(m) == 1) return MP_OK;
    if (!p->backend->is_host && m->size[MP_DIM_TP] > 1) return refuse(p, "tp on GPUs", err);
    if (m->size[MP_DIM_PP] > 1) MP_CHECK(check_pipeline(p, err));
    if (!p->backend->is_host && p->shares_statistics) return refuse(p, "--sync-batchnorm on GPUs", err);
    if (m->size[MP_DIM_EP] > 1) return refuse(p, "ep", err);
    if (p->options.fuse == MP_FUSE_FORWARD) return refuse(p, "--fuse forward", err);
    if (m->zero && p->options.clip_norm > 0 && !p->backend->squares) return refuse(p, "--clip-norm with shard on GPUs", err);
    return MP_OK;
}

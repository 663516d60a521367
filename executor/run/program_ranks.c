/* program_ranks.c - makes a program that of one rank of many: collectives among its calls, and the workspace that they take. */
#include <string.h>

#include "executor/ranks/collectives.h"
#include "executor/run/program.h"

static bool is_collective(const mp_graph *g, const mp_node *node)
{
    return node->alternatives[0].channel > MP_CHANNEL_SECOND_STREAM &&
           !strcmp(g->channels[node->alternatives[0].channel], "network");
}

/* Moves a node. Some of its slots are arrays in the node itself. */
static void move(const mp_program_node *from, mp_program_node *to)
{
    *to = *from;
    for (size_t k = 0; k < to->n_slots; k++) {
        const ptrdiff_t at = (const char *)to->slots[k].array - (const char *)from;
        if (at >= 0 && at < (ptrdiff_t)sizeof *from) to->slots[k].array = (mp_array *)((char *)to + at);
    }
}

/* Lists calls and bindings as the graph lists its nodes: the old ones in their order, collectives in between. */
static mp_status relist(mp_program *p, mp_error *err)
{
    const mp_graph *g = p->graph;
    mp_bindings *bound = p->bindings;
    MP_OWNED mp_program_node *nodes = mp_alloc(g->n_nodes, sizeof *nodes);
    MP_OWNED mp_binding *bindings = mp_alloc(g->n_nodes, sizeof *bindings);
    size_t old = 0;
    MP_ENSURE(nodes && bindings, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < g->n_nodes; k++) {
        bindings[k] =
            (mp_binding){.task = MP_TASK_COLLECTIVE, .op = -1, .source = -1, .target = -1, .state = -1, .parameter = -1};
        if (is_collective(g, &g->nodes[k])) continue;
        move(&p->nodes[old], &nodes[k]);
        bindings[k] = bound->nodes[old++];
    }
    mp_free(p->nodes);
    mp_free(bound->nodes);
    p->nodes = nodes;
    bound->nodes = bindings;
    p->n_nodes = p->capacity = bound->n_nodes = bound->capacity = g->n_nodes;
    nodes = NULL;
    bindings = NULL;
    return MP_OK;
}

/* Sets the workspace that a reduction receives into. */
static mp_status take_workspace(const mp_program *p, mp_node *node, mp_error *err)
{
    const mp_graph *g = p->graph;
    mp_alternative *a = node->alternatives;
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8;
    const int64_t ranks = p->mesh.size[p->mesh.zero ? MP_DIM_SHARD : MP_DIM_DP];
    const int *wholes = a->n_adds ? a->adds : a->reads;
    const size_t n = a->n_adds ? a->n_adds : a->n_reads;
    if (node->phase != MP_PHASE_BACKWARD || (p->fast_sums && !p->mesh.zero)) return MP_OK; /* a gather; in their place */
    for (size_t k = 0; k < n; k++)
        a->workspace_bytes +=
            mp_leg_workspace(MP_REDUCE_SCATTER, p->fast_sums, ranks, g->storages[wholes[k]].payload_bytes / element, element);
    MP_ENSURE(mp_round_up(a->workspace_bytes, p->backend->alignment, &a->workspace_bytes), err, MP_INVALID,
              "%s needs too much workspace", node->name);
    return MP_OK;
}

/* Returns what rank 0 sends for a reduction, which is the most that a rank sends, since its parts are as large as any. */
static int64_t sent_by_first(const mp_program *p, const mp_node *node)
{
    const mp_alternative *a = node->alternatives;
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8, ranks = p->mesh.size[MP_DIM_DP];
    int64_t elements = 0;
    for (size_t k = 0; k < a->n_adds; k++) {
        const int64_t n = p->graph->storages[a->adds[k]].payload_bytes / element, part = mp_rank_part(n, ranks);
        elements += n - part + (ranks - 1) * part;
    }
    return elements * element;
}

mp_status mp_program_exchange(mp_program *p, const mp_ranks *ranks, bool fast, mp_rank_traffic *traffic, mp_error *err)
{
    p->mesh = ranks->mesh;
    p->fast_sums = fast;
    MP_CHECK(mp_graph_exchange(p->graph, ranks, traffic, err));
    if (p->graph->n_nodes == p->n_nodes) return MP_OK;
    MP_CHECK(relist(p, err));
    for (size_t k = 0; k < p->n_nodes; k++)
        if (p->bindings->nodes[k].task == MP_TASK_COLLECTIVE) MP_CHECK(take_workspace(p, &p->graph->nodes[k], err));
    if (traffic && !fast && !p->mesh.zero) {
        traffic->sent_bytes = 0;
        for (size_t k = 0; k < p->n_nodes; k++)
            if (p->bindings->nodes[k].task == MP_TASK_COLLECTIVE) traffic->sent_bytes += sent_by_first(p, &p->graph->nodes[k]);
    }
    return mp_graph_hash(p->graph, p->graph->hash, err);
}

static mp_status refuse(const mp_program *p, const char *what, mp_error *err)
{
    return MP_FAIL(err, MP_UNSUPPORTED, "%s is planned for, and not run yet, on the ranks of %s", what,
                   mp_mesh_write(&p->mesh).text);
}

mp_status mp_program_check_ranks(const mp_program *p, mp_error *err)
{
    const mp_mesh *m = &p->mesh;
    if (mp_mesh_devices(m) == 1) return MP_OK;
    if (!p->backend->is_host) return refuse(p, "training on a GPU", err);
    if (m->size[MP_DIM_TP] > 1) return refuse(p, "tp", err);
    if (m->size[MP_DIM_PP] > 1) return refuse(p, "pp", err);
    if (m->size[MP_DIM_EP] > 1) return refuse(p, "ep", err);
    if (m->zero) return refuse(p, "shard", err);
    if (p->options.fuse == MP_FUSE_FORWARD) return refuse(p, "--fuse forward", err);
    return MP_OK;
}

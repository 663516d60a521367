/* floor_cut.c - the least live bytes at a moment of a schedule (floor.h), by a minimum cut. The network contains the open
 * nodes: nodes of which it is not known whether they have run. */
#include "planner/floor/floor.h"

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "planner/math/bits.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

enum side { UNKNOWN, DONE, LATER };

struct mp_floor_life {
    int storage;
    mp_certain_life certain;
};

/* Adds storage s to the list `lives`, if s has a maker and a user in every plan. Then s is live at some moment of every
 * plan. */
static void find_life(mp_floor_cut *cut, int s)
{
    mp_certain_life life = mp_certain_life_of(cut->order, s);
    if (!cut->order->graph->storages[s].bytes || !life.n_makers || (!life.n_users && !life.stays)) return;
    /* if the additions to a sum have a fixed order, the first adder precedes all others and represents all makers */
    if (mp_adds_in_turn(cut->order, s)) life.n_makers = 1;
    cut->lives[cut->n_lives++] = (struct mp_floor_life){s, life};
}

/* Adds the bytes of a storage to all positions between its first maker and its last user in the sequence. Until all storages
 * are added, `level_bytes` stores differences between neighbouring positions. */
static void add_to_levels(mp_floor_cut *cut, const struct mp_floor_life *life)
{
    const mp_certain_life *x = &life->certain;
    int from = cut->order->n, to = x->stays ? cut->order->n : 0;
    for (int k = 0; k < x->n_makers; k++)
        if (cut->position[x->makers[k]] < from) from = cut->position[x->makers[k]];
    for (int k = 0; k < x->n_users; k++)
        if (cut->position[x->users[k]] > to) to = cut->position[x->users[k]];
    if (to <= from) return;
    cut->level_bytes[from + 1] += cut->order->graph->storages[life->storage].bytes;
    cut->level_bytes[to + 1] -= cut->order->graph->storages[life->storage].bytes;
}

mp_status mp_floor_cut_new(const mp_precedence *order, mp_floor_cut **out, mp_error *err)
{
    const mp_graph *graph = order->graph;
    const size_t n = (size_t)order->n;
    MP_OWNED_BY(mp_floor_cut_free) mp_floor_cut *cut = NULL;
    MP_ENSURE(cut = mp_alloc(1, sizeof *cut), err, MP_NOMEM, "no memory for the floor of %zu nodes", n);
    cut->order = order;
    cut->pool = mp_pool_new();
    cut->position = mp_pool_alloc(cut->pool, n, sizeof *cut->position);
    cut->level_bytes = mp_pool_alloc(cut->pool, n + 2, sizeof *cut->level_bytes);
    cut->lives = mp_pool_alloc(cut->pool, graph->n_storages, sizeof *cut->lives);
    cut->side = mp_pool_alloc(cut->pool, n, sizeof *cut->side);
    cut->vertex = mp_pool_alloc(cut->pool, n, sizeof *cut->vertex);
    cut->touched = mp_pool_alloc(cut->pool, graph->n_storages, sizeof *cut->touched);
    MP_ENSURE(!mp_pool_failed(cut->pool), err, MP_NOMEM, "no memory for the floor of %zu nodes", n);
    for (int i = 0; i < order->n; i++) cut->position[order->sequence[i]] = i;
    for (int s = 0; s < (int)graph->n_storages; s++) find_life(cut, s);
    for (size_t k = 0; k < cut->n_lives; k++) add_to_levels(cut, &cut->lives[k]);
    for (int i = 0; i < order->n; i++) cut->level_bytes[i + 1] += cut->level_bytes[i];
    *out = cut;
    cut = NULL;
    return MP_OK;
}

void mp_floor_cut_free(mp_floor_cut *cut)
{
    if (!cut) return;
    mp_pool_free(cut->pool);
    mp_free(cut->from);
    mp_free(cut->to);
    mp_free(cut->bytes);
    mp_free(cut->supply);
    mp_free(cut->drain);
    mp_free(cut);
}

static void touch(mp_floor_cut *cut, int node)
{
    const mp_node *x = &cut->order->graph->nodes[node];
    for (size_t k = 0; k < x->n_alternatives; k++) {
        const mp_alternative *f = &x->alternatives[k];
        for (size_t i = 0; i < f->n_reads; i++) cut->touched[f->reads[i]] = node + 1;
        for (size_t i = 0; i < f->n_writes; i++) cut->touched[f->writes[i]] = node + 1;
        for (size_t i = 0; i < f->n_adds; i++) cut->touched[f->adds[i]] = node + 1;
    }
}

static bool add_vertex(mp_floor_cut *cut, int *vertex)
{
    const size_t n = cut->n_vertices + 1;
    if (!mp_grow(&cut->supply, &cut->supply_capacity, n, sizeof *cut->supply)) return false;
    if (!mp_grow(&cut->drain, &cut->drain_capacity, n, sizeof *cut->drain)) return false;
    cut->supply[n - 1] = cut->drain[n - 1] = 0;
    *vertex = (int)cut->n_vertices++;
    return true;
}

/* Returns in *vertex the vertex of an open node in the network. Creates the vertex if the node has none. */
static bool vertex_of(mp_floor_cut *cut, int node, int *vertex)
{
    if (cut->vertex[node] < 0 && !add_vertex(cut, &cut->vertex[node])) return false;
    *vertex = cut->vertex[node];
    return true;
}

/* Adds an arc with a capacity of `bytes` to the network; bytes -1: the capacity is unbounded. */
static bool add_arc(mp_floor_cut *cut, int from, int to, int64_t bytes)
{
    const size_t n = cut->n_arcs + 1;
    if (!mp_grow(&cut->from, &cut->from_capacity, n, sizeof *cut->from)) return false;
    if (!mp_grow(&cut->to, &cut->to_capacity, n, sizeof *cut->to)) return false;
    if (!mp_grow(&cut->bytes, &cut->bytes_capacity, n, sizeof *cut->bytes)) return false;
    cut->from[n - 1] = from;
    cut->to[n - 1] = to;
    cut->bytes[n - 1] = bytes;
    cut->n_arcs = n;
    return true;
}

/* Adds to the network a storage that may be live at the moment. X is the set of nodes that have run. Vertex `made` is in X if
 * some producer is in X. Vertex `used` is in X only if all users are in X. made = -1: some producer is known to be in X. used =
 * -1: some user is known not to be in X. */
static bool add_life(mp_floor_cut *cut, const struct mp_floor_life *life, bool is_produced, bool is_used_later)
{
    const mp_certain_life *x = &life->certain;
    const int64_t bytes = cut->order->graph->storages[life->storage].bytes;
    int made = -1, used = -1, node;
    if (!is_produced && !add_vertex(cut, &made)) return false;
    for (int k = 0; k < x->n_makers && !is_produced; k++)
        if (cut->side[x->makers[k]] == UNKNOWN && !(vertex_of(cut, x->makers[k], &node) && add_arc(cut, node, made, -1)))
            return false;
    if (!is_used_later && !add_vertex(cut, &used)) return false;
    for (int k = 0; k < x->n_users && !is_used_later; k++)
        if (cut->side[x->users[k]] == UNKNOWN && !(vertex_of(cut, x->users[k], &node) && add_arc(cut, used, node, -1)))
            return false;
    if (is_produced) cut->supply[used] = bytes;
    if (is_used_later) cut->drain[made] = bytes;
    return is_produced || is_used_later || add_arc(cut, made, used, bytes);
}

/* Sorts the storages into two kinds. A storage that is live at the moment in any case adds its bytes to *certain. A storage
 * that may be live is added to the network. */
static bool add_lives(mp_floor_cut *cut, int running, int64_t *certain)
{
    for (size_t k = 0; k < cut->n_lives; k++) {
        const struct mp_floor_life *life = &cut->lives[k];
        const mp_certain_life *x = &life->certain;
        /* makers: number of makers of the storage that have run (DONE), have not run (LATER), or are open (UNKNOWN). users: the
         * same for its users */
        int makers[3] = {0}, users[3] = {0};
        if (cut->touched[life->storage] == running + 1) continue;
        for (int i = 0; i < x->n_makers; i++) makers[(int)cut->side[x->makers[i]]]++;
        for (int i = 0; i < x->n_users; i++) users[(int)cut->side[x->users[i]]]++;
        const bool is_produced = makers[DONE], is_used_later = users[LATER] || x->stays;
        cut->work += x->n_makers + x->n_users;
        if ((!is_produced && !makers[UNKNOWN]) || (!is_used_later && !users[UNKNOWN])) continue;
        if (is_produced && is_used_later)
            *certain += cut->order->graph->storages[life->storage].bytes;
        else if (!add_life(cut, life, is_produced, is_used_later))
            return false;
    }
    return true;
}

/* Adds arcs from each open node to its predecessors: if a node is in X, its predecessors are in X. */
static bool add_pairs(mp_floor_cut *cut)
{
    const mp_precedence *o = cut->order;
    for (size_t k = 0; k < o->n_pairs; k++) {
        const int u = o->pair_from[k], v = o->pair_to[k];
        if (cut->vertex[u] < 0 || cut->vertex[v] < 0) continue;
        if (!add_arc(cut, cut->vertex[v], cut->vertex[u], -1)) return false;
    }
    return true;
}

static mp_status solve(mp_floor_cut *cut, int64_t *bytes, mp_error *err)
{
    MP_OWNED_BY(mp_mincut_free) mp_mincut *network = NULL;
    int64_t supply = 0, drain = 0;
    for (size_t v = 0; v < cut->n_vertices; v++) {
        supply += cut->supply[v];
        drain += cut->drain[v];
    }
    *bytes = 0;
    if (!supply || !drain) return MP_OK;
    MP_CHECK(mp_mincut_new((int)cut->n_vertices, cut->from, cut->to, cut->n_arcs, &network, err));
    for (size_t v = 0; v < cut->n_vertices; v++) {
        network->supply[v] = cut->supply[v];
        network->drain[v] = cut->drain[v];
    }
    for (size_t k = 0; k < cut->n_arcs; k++) network->capacity[k] = cut->bytes[k] < 0 ? supply : cut->bytes[k];
    *bytes = mp_mincut_run(network);
    return MP_OK;
}

mp_status mp_floor_cut_least(mp_floor_cut *cut, const uint64_t *done, int next, int running, int64_t *bytes, mp_error *err)
{
    const mp_precedence *o = cut->order;
    const uint64_t *later = mp_precedence_descendants(o, next);
    int64_t certain = 0, rest = 0;
    int vertex;
    cut->n_vertices = cut->n_arcs = 0;
    for (int v = 0; v < o->n; v++) {
        cut->side[v] = mp_bits_has(done, v) ? DONE : v == next || mp_bits_has(later, v) ? LATER : UNKNOWN;
        cut->vertex[v] = -1;
    }
    touch(cut, running);
    MP_ENSURE(add_lives(cut, running, &certain), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    /* open nodes without storages need a vertex too, because they connect other nodes in the precedence relation */
    for (int v = 0; v < o->n && cut->n_vertices; v++)
        MP_ENSURE(cut->side[v] != UNKNOWN || vertex_of(cut, v, &vertex), err, MP_NOMEM, "no memory for the floor of %d nodes",
                  o->n);
    MP_ENSURE(add_pairs(cut), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    cut->work += (int64_t)(o->n_pairs + cut->n_vertices + 4 * cut->n_arcs);
    MP_CHECK(solve(cut, &rest, err));
    *bytes = certain + rest;
    return MP_OK;
}

/* bound_network.c - the network of an interval's closure problem.
 *
 * It has a vertex for each node that may run in the interval, and each storage that one of them reads or makes (it is available
 * when it is read). What is true is on the side of the source. A node that runs needs what it reads: unbounded arcs. A storage
 * that is needed is live at the start, for the multiplier times its bytes, or made in the interval: an arc to its producer. A
 * node that runs takes ticks: its capacity to the sink.
 *
 * A sum that is needed and not live at the start was not begun before it, so that all who add to it run later: the arc leads to
 * a vertex of the sum, and from there unbounded arcs to those of them that certainly run in the interval.
 */
#include "planner/bound/interval/bound_network.h"

#include "estimator/base/memory.h"
#include "planner/math/bits.h"
#include "planner/order/always.h"

static const int64_t UNBOUNDED = INT64_MAX / 8 * 3;

/* Whether there is a node that neither precedes v nor is preceded by it. */
static bool is_undecided_somewhere(const mp_precedence *o, int v)
{
    if (o->only_vertex >= 0)
        return v != o->only_vertex && !mp_precedes(o, v, o->only_vertex) && !mp_precedes(o, o->only_vertex, v);
    return mp_bits_count(mp_precedence_ancestors(o, v), o->words) + mp_bits_count(mp_precedence_descendants(o, v), o->words) <
           o->n - 1;
}

/* Who makes s in the interval, where it is not live at its start; those nodes, and how many they are. Nobody: it is static, or
 * certainly made before or after. */
static int find_producers(const mp_precedence *o, int s, bool undecided, int *producers)
{
    const mp_graph *graph = o->graph;
    const int p = graph->producer[s];
    bool is_open = false;
    int n = 0;
    if (o->recomputable[s]) producers[n++] = p;
    if (o->recomputable[s] || !undecided || mp_storage_is_static(&graph->storages[s])) return n;
    if (p >= 0 && !o->repeatable[p] && is_undecided_somewhere(o, p) &&
        (!graph->storages[s].carried || mp_always_writes(o, p, s)))
        producers[n++] = p;
    for (int a = graph->adders_start[s]; p < 0 && a < graph->adders_start[s + 1]; a++) {
        const int adder = graph->adders[a];
        if (!mp_always_adds(o, adder, s)) continue;
        producers[n++] = adder;
        is_open = is_open || is_undecided_somewhere(o, adder);
    }
    return p >= 0 || is_open ? n : 0;
}

static bool is_sum(const mp_graph *graph, int s)
{
    return graph->producer[s] < 0;
}

/* Makers, and a vertex for each of them and for what they make; *n vertices. */
static mp_status find_all_producers(mp_bound_interval *x, bool undecided, int *n, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    const size_t most = graph->n_storages + (size_t)graph->adders_start[graph->n_storages];
    mp_free(x->producers);
    mp_free(x->producer_arc);
    x->producers = mp_alloc(most, sizeof *x->producers);
    x->producer_arc = mp_alloc(most, sizeof *x->producer_arc);
    MP_ENSURE(x->producers && x->producer_arc, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t v = 0; v < graph->n_nodes; v++) x->node_vertex[v] = -1;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int first = x->producers_start[s], n_producers = find_producers(o, s, undecided, x->producers + first);
        x->producers_start[s + 1] = first + n_producers;
        x->storage_vertex[s] = n_producers ? (*n)++ : -1;
        for (int k = first; k < first + n_producers; k++) x->node_vertex[x->producers[k]] = 0;
    }
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (o->repeatable[v] || !x->node_vertex[v]) x->node_vertex[v] = (*n)++;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        x->producer_vertex[s] = -1;
        if (x->producers_start[s + 1] == x->producers_start[s]) continue;
        x->producer_vertex[s] = is_sum(graph, s) ? (*n)++ : x->node_vertex[x->producers[x->producers_start[s]]];
    }
    return MP_OK;
}

mp_status mp_bound_network_build(mp_bound_interval *x, bool undecided, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    size_t n_arcs = 0, most = 0;
    int n = 0, *from = NULL, *to = NULL;
    mp_mincut_free(x->cut);
    x->cut = NULL;
    MP_TRY(find_all_producers(x, undecided, &n, err));
    most = graph->n_storages + (size_t)x->producers_start[graph->n_storages] + (size_t)o->reads_start[graph->n_nodes];
    from = mp_alloc(most, sizeof *from);
    to = mp_alloc(most, sizeof *to);
    MP_REQUIRE(from && to, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t v = 0; v < graph->n_nodes; v++) {
        for (int r = o->reads_start[v]; x->node_vertex[v] >= 0 && r < o->reads_start[v + 1]; r++) {
            const int s = o->reads[r];
            if (graph->storages[s].carried || (is_sum(graph, s) && !undecided)) continue;
            if (x->storage_vertex[s] < 0) x->storage_vertex[s] = n++;
            from[n_arcs] = x->node_vertex[v];
            to[n_arcs++] = x->storage_vertex[s];
        }
    }
    x->n_unbounded = n_arcs;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        x->storage_arc[s] = x->producer_vertex[s] < 0 ? -1 : (int)n_arcs;
        if (x->producer_vertex[s] < 0) continue;
        from[n_arcs] = x->storage_vertex[s];
        to[n_arcs++] = x->producer_vertex[s];
        for (int k = x->producers_start[s]; k < x->producers_start[s + 1]; k++) {
            x->producer_arc[k] = is_sum(graph, s) ? (int)n_arcs : -1;
            if (!is_sum(graph, s)) continue;
            from[n_arcs] = x->producer_vertex[s];
            to[n_arcs++] = x->node_vertex[x->producers[k]];
        }
    }
    MP_TRY(mp_mincut_new(n, from, to, n_arcs, &x->cut, err));
    for (size_t k = 0; k < x->n_unbounded; k++) x->cut->capacity[k] = UNBOUNDED;
done:
    mp_free(from);
    mp_free(to);
    return st;
}

bool mp_bound_network_allow(mp_bound_interval *x, int s, int node)
{
    bool is_certain = false;
    for (int k = x->producers_start[s]; k < x->producers_start[s + 1]; k++) {
        const int v = x->producers[k];
        const bool runs = node < 0 || v == node || mp_precedes(x->order, v, node);
        is_certain = is_certain || runs;
        if (x->producer_arc[k] >= 0) x->cut->capacity[x->producer_arc[k]] = runs ? UNBOUNDED : 0;
    }
    return is_certain;
}

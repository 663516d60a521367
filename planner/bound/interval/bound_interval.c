/* bound_interval.c - an interval as a closure problem: which nodes may run in it, what they read, how much memory is free at
 * its start.
 *
 * The network has a vertex for each repeatable node (it runs in the interval) and each storage that one of them reads or
 * produces (it is available when it is read). What is true is on the side of the source. A node that runs needs what it reads:
 * unbounded arcs. A storage that is needed is recomputed, or live at the start for the multiplier times its bytes: an arc to
 * its producer. A node that runs takes ticks: its capacity to the sink.
 */
#include "planner/bound/interval/bound_interval.h"

#include "estimator/base/memory.h"
#include "planner/math/bits.h"

static const int64_t UNBOUNDED = INT64_MAX / 8 * 3;
static const int64_t MOST_TICKS = INT64_C(1) << 40; /* of all nodes together, scaled */

/* Vertices and arcs, the same for all intervals. */
static mp_status build_network(mp_bound_interval *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    size_t n_arcs = 0, most = graph->n_storages;
    int n = 0;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (o->repeatable[v]) most += (size_t)(o->reads_start[v + 1] - o->reads_start[v]);
    int *from = mp_alloc(most, sizeof *from), *to = mp_alloc(most, sizeof *to);
    MP_REQUIRE(from && to, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t s = 0; s < graph->n_storages; s++) x->storage_vertex[s] = o->recomputable[s] ? n++ : -1;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        x->node_vertex[v] = o->repeatable[v] ? n++ : -1;
        for (int r = o->reads_start[v]; o->repeatable[v] && r < o->reads_start[v + 1]; r++) {
            int s = o->reads[r];
            if (graph->producer[s] < 0 || graph->storages[s].carried) continue;
            if (x->storage_vertex[s] < 0) x->storage_vertex[s] = n++;
            from[n_arcs] = x->node_vertex[v];
            to[n_arcs++] = x->storage_vertex[s];
        }
    }
    x->n_unbounded = n_arcs;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->producer_arc[s] = o->recomputable[s] ? (int)n_arcs : -1;
        if (!o->recomputable[s]) continue;
        from[n_arcs] = x->storage_vertex[s];
        to[n_arcs++] = x->node_vertex[graph->producer[s]];
    }
    MP_TRY(mp_mincut_new(n, from, to, n_arcs, &x->cut, err));
    for (size_t k = 0; k < x->n_unbounded; k++) x->cut->capacity[k] = UNBOUNDED;
done:
    mp_free(from);
    mp_free(to);
    return st;
}

mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = order->graph;
    const size_t n = graph->n_nodes, m = graph->n_storages;
    int64_t sum = 0;
    mp_bound_interval *x = mp_alloc(1, sizeof *x);
    MP_REQUIRE(x, err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    x->order = order;
    x->until = -1;
    x->available_bytes = budget_bytes - mp_graph_static_bytes(graph);
    x->node_vertex = mp_alloc(n, sizeof *x->node_vertex);
    x->storage_vertex = mp_alloc(m, sizeof *x->storage_vertex);
    x->producer_arc = mp_alloc(m, sizeof *x->producer_arc);
    x->bytes = mp_alloc(m, sizeof *x->bytes);
    x->ticks = mp_alloc(n, sizeof *x->ticks);
    x->kept = mp_alloc(m, sizeof *x->kept);
    x->required = mp_alloc(m, sizeof *x->required);
    x->is_required = mp_alloc(m, sizeof *x->is_required);
    x->covers_two = mp_alloc(m, sizeof *x->covers_two);
    x->fate = mp_alloc(m, sizeof *x->fate);
    x->stack = mp_alloc(m, sizeof *x->stack);
    x->runs = mp_alloc(n, sizeof *x->runs);
    MP_REQUIRE(x->node_vertex && x->storage_vertex && x->producer_arc && x->bytes && x->ticks && x->kept && x->required &&
                   x->is_required && x->covers_two && x->fate && x->stack && x->runs,
               err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    for (int k = 0; k < 3; k++) {
        struct mp_bound_labels *labels = k < 2 ? &x->labels[k] : &x->spare;
        labels->live = mp_alloc(m, sizeof *labels->live);
        labels->available = mp_alloc(m, sizeof *labels->available);
        MP_REQUIRE(labels->live && labels->available, err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    }
    for (size_t v = 0; v < n; v++) sum += order->ticks[v];
    x->scale_num = x->scale_den = 1;
    while (sum && sum * x->scale_num < MOST_TICKS / 2) x->scale_num *= 2;
    while (sum / x->scale_den > MOST_TICKS) x->scale_den *= 2;
    x->ticks_bound = (int64_t)((__int128)sum * x->scale_num / x->scale_den);
    MP_TRY(build_network(x, err));
    *out = x;
    x = NULL;
done:
    mp_bound_interval_free(x);
    return st;
}

void mp_bound_interval_free(mp_bound_interval *x)
{
    if (!x) return;
    mp_mincut_free(x->cut);
    mp_free(x->node_vertex);
    mp_free(x->storage_vertex);
    mp_free(x->producer_arc);
    mp_free(x->bytes);
    mp_free(x->ticks);
    mp_free(x->kept);
    mp_free(x->required);
    mp_free(x->is_required);
    mp_free(x->covers_two);
    mp_free(x->fate);
    mp_free(x->stack);
    mp_free(x->runs);
    for (int k = 0; k < 3; k++) {
        mp_free(k < 2 ? x->labels[k].live : x->spare.live);
        mp_free(k < 2 ? x->labels[k].available : x->spare.available);
    }
    mp_free(x);
}

/* Whether s, which cannot be recomputed, certainly lives while `node` first runs: produced before, and read or added to later.
 */
static bool certainly_kept(const mp_precedence *o, int node, int s)
{
    const mp_graph *graph = o->graph;
    const bool carried = graph->storages[s].carried;
    bool made = false;
    int p = graph->producer[s];
    if (p >= 0 && mp_precedes(o, p, node)) made = !carried || mp_always_writes(o, p, s);
    for (int a = graph->adders_start[s]; !made && a < graph->adders_start[s + 1]; a++)
        made = mp_precedes(o, graph->adders[a], node) && mp_always_adds(o, graph->adders[a], s);
    if (!made || carried) return made; /* a carried gradient lives to the end */
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
        if (mp_precedes(o, node, graph->adders[a]) && mp_always_adds(o, graph->adders[a], s)) return true;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
        if (mp_precedes(o, node, graph->readers[r]) && mp_always_reads(o, graph->readers[r], s)) return true;
    return false;
}

/* The bytes of a list that are not counted elsewhere: not always live, not kept anyway, not always read. */
static int64_t own_bytes(const mp_bound_interval *x, const int *list, size_t n)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = x->order->graph;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        int s = list[i];
        if (mp_storage_is_static(&graph->storages[s]) || x->kept[s]) continue;
        if (o->recomputable[s] && mp_always_reads(o, x->at, s)) continue;
        bytes += graph->storages[s].bytes;
    }
    return bytes;
}

/* The most that in-place pairs save: each output once. */
static int64_t most_saved(const mp_bound_interval *x, const mp_alternative *alternative)
{
    const mp_storage *storages = x->order->graph->storages;
    int64_t bytes = 0;
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        const mp_in_place p = alternative->in_place[i];
        bool fits = false;
        for (size_t k = 0; k < i && !fits; k++) fits = alternative->in_place[k].to == p.to;
        if (fits) continue; /* looked at already */
        for (size_t k = i; k < alternative->n_in_place && !fits; k++) {
            const int from = alternative->in_place[k].from;
            fits = alternative->in_place[k].to == p.to && !mp_storage_is_static(&storages[from]) && !x->kept[from] &&
                   storages[from].bytes >= storages[p.to].bytes;
        }
        if (fits && !mp_storage_is_static(&storages[p.to]) && !x->kept[p.to]) bytes += storages[p.to].bytes;
    }
    return bytes;
}

/* What the node occupies itself in this alternative, but for storages that are kept, and recomputable ones that it always
 * reads. */
static int64_t alternative_bytes(const mp_bound_interval *x, const mp_alternative *alternative)
{
    return alternative->workspace_bytes + own_bytes(x, alternative->reads, alternative->n_reads) +
           own_bytes(x, alternative->writes, alternative->n_writes) + own_bytes(x, alternative->adds, alternative->n_adds) -
           most_saved(x, alternative);
}

void mp_bound_interval_start(mp_bound_interval *x, int node)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    const mp_node *start = &graph->nodes[node];
    int64_t least = INT64_MAX;
    x->at = node;
    x->free_bytes = x->available_bytes;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        x->kept[s] = !mp_storage_is_static(storage) && !o->recomputable[s] && certainly_kept(o, node, s);
        if (x->kept[s]) x->free_bytes -= storage->bytes;
        x->bytes[s] = 0;
        if (o->recomputable[s] || (x->storage_vertex[s] >= 0 && !x->kept[s] && mp_precedes(o, graph->producer[s], node)))
            x->bytes[s] = storage->bytes;
    }
    for (size_t k = 0; k < start->n_alternatives; k++) {
        const mp_alternative *alternative = &start->alternatives[k];
        const int64_t bytes = alternative_bytes(x, alternative);
        if (bytes < least) least = bytes;
        for (size_t i = 0; i < alternative->n_writes; i++) x->bytes[alternative->writes[i]] = 0;
        for (size_t i = 0; i < alternative->n_reads; i++) x->bytes[alternative->reads[i]] = 0;
    }
    x->free_bytes -= least;
    for (int r = o->reads_start[node]; r < o->reads_start[node + 1]; r++) {
        const int s = o->reads[r];
        if (!o->recomputable[s]) continue;
        x->free_bytes -= graph->storages[s].bytes;
        x->bytes[s] = 0;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        if (o->repeatable[v]) x->ticks[v] = v == node || mp_precedes(o, v, node) ? o->ticks[v] : 0;
    }
}

static void require(mp_bound_interval *x, int s)
{
    if (!x->order->recomputable[s] || x->is_required[s]) return;
    x->is_required[s] = true;
    x->required[x->n_required++] = s;
}

/* One of two storages has to be available, and none is for another reason. The second is produced from the first, so either the
 * first is available or the second is live. The first, at the smaller bytes of the two, stands for both, and the second is
 * free: no plan takes more by that. */
static void require_either(mp_bound_interval *x, int first, int second)
{
    if (x->is_required[first] || x->is_required[second] || !x->bytes[first] || !x->bytes[second]) return;
    if (x->bytes[second] < x->bytes[first]) x->bytes[first] = x->bytes[second];
    x->bytes[second] = 0;
    x->covers_two[first] = true;
    require(x, first);
}

/* What the nodes between the start and `node`, that one counted, read in every alternative; or what they can choose between. */
static void require_of_nodes(mp_bound_interval *x, int node, bool choices)
{
    const mp_precedence *o = x->order;
    for (size_t w = 0; w < o->words; w++) {
        uint64_t inside = mp_precedence_descendants(o, x->at)[w];
        if (node >= 0) {
            uint64_t until = mp_precedence_ancestors(o, node)[w];
            if ((size_t)node / 64 == w) until |= UINT64_C(1) << node % 64;
            inside &= until;
        }
        while (inside) {
            const int v = (int)(w * 64) + mp_bits_take(&inside);
            if (v == o->n - 1) continue; /* the end of backward reads nothing */
            if (choices && o->source[v] >= 0) require_either(x, o->source[v], o->derived[v]);
            for (int r = o->reads_start[v]; !choices && r < o->reads_start[v + 1]; r++) require(x, o->reads[r]);
        }
    }
}

void mp_bound_interval_end(mp_bound_interval *x, int node)
{
    for (size_t i = 0; i < x->n_required; i++) x->is_required[x->required[i]] = x->covers_two[x->required[i]] = false;
    x->n_required = 0;
    if (node < 0) node = x->until;
    require_of_nodes(x, node, false);
    require_of_nodes(x, node, true);
}

int64_t mp_bound_interval_live_in(const mp_bound_interval *x)
{
    const mp_precedence *o = x->order;
    int64_t bytes = 0;
    for (size_t i = 0; i < x->n_required; i++) {
        const int s = x->required[i];
        if (mp_precedes(o, o->graph->producer[s], x->at)) bytes += x->bytes[s];
    }
    return bytes;
}

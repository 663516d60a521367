/* bound_interval.c - formulates an interval as a closure problem, and builds the network for its minimum cut. The problem
 * consists of the reads of the interval's nodes, the storages that may be live at its start, and the free memory at the start.
 *
 * The network has a vertex for each node that may run in the interval, and for each storage that such a node reads or produces.
 * The vertex of a node is on the source's side if the node runs. The vertex of a storage is on the source's side if the storage
 * is available when it is read.
 * - A node that runs needs its inputs: arcs of unbounded capacity.
 * - A needed storage is live at the start or produced in the interval. If it is live, it costs the multiplier times its bytes.
 *   If it is produced, its producer must run: an arc leads from the storage to its producer.
 * - The ticks of a node are the capacity from its vertex to the sink.
 * - If a needed sum is not live at the start, all its adders run after the start. An arc leads to a separate vertex for the
 *   additions. Unbounded arcs lead from this vertex to the adders that run in the interval in every plan. */
#include "planner/bound/interval/bound_interval.h"

#include "estimator/graph/liveness.h"
#include "planner/math/bits.h"
#include "planner/order/precedence.h"

static const int64_t UNBOUNDED = INT64_MAX / 8 * 3;

/* True if there is a node that neither precedes v nor follows it, so that v may run before or after it. */
static bool is_undecided_somewhere(const mp_precedence *o, int v)
{
    if (o->only_vertex >= 0)
        return v != o->only_vertex && !mp_precedes(o, v, o->only_vertex) && !mp_precedes(o, o->only_vertex, v);
    return mp_bits_count(mp_precedence_ancestors(o, v), o->words) + mp_bits_count(mp_precedence_descendants(o, v), o->words) <
           o->n - 1;
}

/* Finds the nodes that would produce s in the interval if s is not live at its start. Returns their number. It is 0 if s is
 * static, or if in every plan s is produced only before or only after the interval. */
static int find_producers(const mp_precedence *o, int s, bool undecided, int *producers)
{
    const mp_certain_life life = mp_certain_life_of(o, s);
    bool is_open = false;
    if (o->recomputable[s]) producers[0] = o->graph->producer[s];
    if (o->recomputable[s] || !undecided) return o->recomputable[s];
    for (int k = 0; k < life.n_makers; k++) {
        producers[k] = life.makers[k];
        is_open = is_open || is_undecided_somewhere(o, producers[k]);
    }
    return is_open ? life.n_makers : 0;
}

/* True if the storage has no single producer: it is a sum, or static. */
static bool has_no_producer(const mp_graph *graph, int s)
{
    return graph->producer[s] < 0;
}

/* For every storage, finds the nodes that can produce it in an interval. Assigns vertices to the storages and to all nodes that
 * may run in an interval. *n: number of vertices so far. */
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
        x->producer_vertex[s] = has_no_producer(graph, s) ? (*n)++ : x->node_vertex[x->producers[x->producers_start[s]]];
    }
    return MP_OK;
}

/* Builds the vertices, arcs and lists of producers of the network that all intervals of x share. With `undecided`, it also
 * includes nodes that run once and may do so on either side of an interval's start. MP_NOMEM. O(graph size). */
static mp_status bound_network_build(mp_bound_interval *x, bool undecided, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    size_t n_arcs = 0, most = 0;
    int n = 0;
    mp_mincut_free(x->cut);
    x->cut = NULL;
    MP_CHECK(find_all_producers(x, undecided, &n, err));
    most = graph->n_storages + (size_t)x->producers_start[graph->n_storages] + (size_t)o->reads_start[graph->n_nodes];
    MP_OWNED int *from = mp_alloc(most, sizeof *from), *to = mp_alloc(most, sizeof *to);
    MP_ENSURE(from && to, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t v = 0; v < graph->n_nodes; v++) {
        for (int r = o->reads_start[v]; x->node_vertex[v] >= 0 && r < o->reads_start[v + 1]; r++) {
            const int s = o->reads[r];
            if (mp_storage_outlives_step(&graph->storages[s]) || (has_no_producer(graph, s) && !undecided)) continue;
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
            x->producer_arc[k] = has_no_producer(graph, s) ? (int)n_arcs : -1;
            if (!has_no_producer(graph, s)) continue;
            from[n_arcs] = x->producer_vertex[s];
            to[n_arcs++] = x->node_vertex[x->producers[k]];
        }
    }
    MP_CHECK(mp_mincut_new(n, from, to, n_arcs, &x->cut, err));
    for (size_t k = 0; k < x->n_unbounded; k++) x->cut->capacity[k] = UNBOUNDED;
    return MP_OK;
}

/* Returns true if in every plan a producer of s runs no later than the first run of `node` (-1: no later than the end of the
 * step). If s is a sum, also sets the capacities of the arcs to its adders. The capacity is 0 for an adder that may run
 * later. */
static bool bound_network_allow(mp_bound_interval *x, int s, int node)
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

/* limit on the sum of the scaled ticks of all nodes, from which the scale of ticks is derived */
static const int64_t MOST_TICKS = INT64_C(1) << 40;

mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err)
{
    const mp_graph *graph = order->graph;
    const size_t n = graph->n_nodes, m = graph->n_storages;
    int64_t sum = 0;
    MP_OWNED_BY(mp_bound_interval_free) mp_bound_interval *x = mp_alloc(1, sizeof *x);
    MP_ENSURE(x, err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    x->order = order;
    x->default_end = -1;
    x->available_bytes = budget_bytes - mp_graph_static_bytes(graph);
    x->pool = mp_pool_new();
    x->node_vertex = mp_pool_alloc(x->pool, n, sizeof *x->node_vertex);
    x->storage_vertex = mp_pool_alloc(x->pool, m, sizeof *x->storage_vertex);
    x->producer_vertex = mp_pool_alloc(x->pool, m, sizeof *x->producer_vertex);
    x->storage_arc = mp_pool_alloc(x->pool, m, sizeof *x->storage_arc);
    x->producers_start = mp_pool_alloc(x->pool, m + 1, sizeof *x->producers_start);
    x->bytes = mp_pool_alloc(x->pool, m, sizeof *x->bytes);
    x->ticks = mp_pool_alloc(x->pool, n, sizeof *x->ticks);
    x->must_be_live = mp_pool_alloc(x->pool, m, sizeof *x->must_be_live);
    x->can_be_made = mp_pool_alloc(x->pool, m, sizeof *x->can_be_made);
    x->must_pass = mp_pool_alloc(x->pool, m, sizeof *x->must_pass);
    x->required = mp_pool_alloc(x->pool, m, sizeof *x->required);
    x->is_required = mp_pool_alloc(x->pool, m, sizeof *x->is_required);
    x->covers_two = mp_pool_alloc(x->pool, m, sizeof *x->covers_two);
    x->barred = mp_pool_alloc(x->pool, m, sizeof *x->barred);
    x->stack = mp_pool_alloc(x->pool, m, sizeof *x->stack);
    x->best = mp_pool_alloc(x->pool, m, sizeof *x->best);
    x->runs = mp_pool_alloc(x->pool, n, sizeof *x->runs);
    for (int k = 0; k < 3; k++) {
        struct mp_bound_labels *labels = k < 2 ? &x->labels[k] : &x->spare;
        labels->live = mp_pool_alloc(x->pool, m, sizeof *labels->live);
        labels->available = mp_pool_alloc(x->pool, m, sizeof *labels->available);
    }
    MP_ENSURE(!mp_pool_failed(x->pool), err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    for (size_t v = 0; v < n; v++) sum += order->ticks[v];
    x->scale_num = x->scale_den = 1;
    while (sum && sum * x->scale_num < MOST_TICKS / 2) x->scale_num *= 2;
    while (sum / x->scale_den > MOST_TICKS) x->scale_den *= 2;
    x->ticks_bound = (int64_t)((__int128)sum * x->scale_num / x->scale_den);
    MP_CHECK(bound_network_build(x, false, err));
    *out = x;
    x = NULL;
    return MP_OK;
}

mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err)
{
    return bound_network_build(x, true, err);
}

void mp_bound_interval_free(mp_bound_interval *x)
{
    if (!x) return;
    mp_mincut_free(x->cut);
    mp_free(x->producers);
    mp_free(x->producer_arc);
    mp_pool_free(x->pool);
    mp_free(x);
}

/* True if, in every plan, a maker of the storage (a node that produces it) runs before the start node of the interval. */
static bool is_made_before(const mp_bound_interval *x, const mp_certain_life *life)
{
    for (int k = 0; k < life->n_makers; k++)
        if (mp_precedes(x->order, life->makers[k], x->at)) return true;
    return false;
}

static bool is_after(const mp_bound_interval *x, int v)
{
    return mp_precedes(x->order, x->at, v) || (x->assumed_after && mp_bits_has(x->assumed_after, v));
}

/* True if the storage is read or added to after the interval's start. If it was produced before the start, it is then live at
 * the start. */
static bool is_needed_after(const mp_bound_interval *x, const mp_certain_life *life)
{
    for (int k = 0; k < life->n_users && !life->stays; k++)
        if (is_after(x, life->users[k])) return true;
    return life->stays;
}

/* Adds up the bytes of the storages that the start node reads, writes or adds to (`list`). Omits static storages, storages that
 * are live at the start in any case, and recomputable storages that the node reads in every alternative. */
static int64_t own_bytes(const mp_bound_interval *x, const int *list, size_t n)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = x->order->graph;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        int s = list[i];
        if (mp_storage_is_static(&graph->storages[s]) || x->must_be_live[s]) continue;
        if (o->recomputable[s] && mp_always_reads(o, x->at, s)) continue;
        bytes += graph->storages[s].bytes;
    }
    return bytes;
}

static bool may_apply(const void *data, mp_in_place p)
{
    const mp_bound_interval *x = data;
    return !x->must_be_live[p.from] && !x->must_be_live[p.to];
}

/* Returns the bytes that the start node needs in this alternative. Storages that are live at the start in any case, and
 * recomputable storages that the node always reads, are not counted. */
static int64_t alternative_bytes(const mp_bound_interval *x, const mp_alternative *alternative)
{
    return alternative->workspace_bytes + own_bytes(x, alternative->reads, alternative->n_reads) +
           own_bytes(x, alternative->writes, alternative->n_writes) + own_bytes(x, alternative->adds, alternative->n_adds) -
           mp_pairs_save_at_most(x->order->graph, alternative, may_apply, x, x->best).outputs_bytes;
}

/* True if some producer of s runs before the interval's start in some plans and after it in others. */
static bool has_undecided_producer(const mp_bound_interval *x, int s)
{
    for (int k = x->producers_start[s]; k < x->producers_start[s + 1]; k++) {
        const int v = x->producers[k];
        if (v != x->at && !mp_precedes(x->order, v, x->at) && !is_after(x, v)) return true;
    }
    return false;
}

/* Sets x->bytes[s], the bytes of s in the free memory at the start of the interval. They are 0 if the start node reads or
 * writes s, because its needs include them. */
static void weigh(mp_bound_interval *x, int s)
{
    const mp_precedence *o = x->order;
    const mp_storage *storage = &o->graph->storages[s];
    x->must_be_live[s] = x->must_pass[s] = false;
    x->can_be_made[s] = o->recomputable[s];
    x->bytes[s] = o->recomputable[s] ? storage->bytes : 0;
    if (o->recomputable[s] || mp_storage_is_static(storage)) return;
    const mp_certain_life life = mp_certain_life_of(o, s);
    if (is_made_before(x, &life)) {
        x->must_be_live[s] = is_needed_after(x, &life);
        if (x->must_be_live[s]) x->free_bytes -= storage->bytes;
        if (!x->must_be_live[s] && x->storage_vertex[s] >= 0) x->bytes[s] = storage->bytes;
    } else if (has_undecided_producer(x, s)) {
        x->can_be_made[s] = true;
        x->must_pass[s] = is_needed_after(x, &life);
        x->bytes[s] = storage->bytes;
    }
}

void mp_bound_interval_start(mp_bound_interval *x, int node)
{
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    const mp_node *start = &graph->nodes[node];
    int64_t least = INT64_MAX;
    x->at = node;
    x->free_bytes = x->available_bytes;
    for (int s = 0; s < (int)graph->n_storages; s++) weigh(x, s);
    for (size_t k = 0; k < start->n_alternatives; k++) {
        const mp_alternative *alternative = &start->alternatives[k];
        const int64_t bytes = alternative_bytes(x, alternative);
        if (bytes < least) least = bytes;
        for (size_t i = 0; i < alternative->n_adds; i++) x->bytes[alternative->adds[i]] = 0;
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
    if (!x->can_be_made[s] || x->is_required[s]) return;
    x->is_required[s] = true;
    x->required[x->n_required++] = s;
}

/* Handles a node that reads `first` in one alternative and `second` in another, if nothing else requires either storage.
 * `second` is produced from `first`, so either `first` is available or `second` is live. `first` then represents both storages,
 * with the smaller bytes of the two, and `second` costs nothing. No plan costs more under this rule, so the bound remains
 * valid. */
static void require_either(mp_bound_interval *x, int first, int second)
{
    if (x->is_required[first] || x->is_required[second] || !x->bytes[first] || !x->bytes[second]) return;
    if (x->bytes[second] < x->bytes[first]) x->bytes[first] = x->bytes[second];
    x->bytes[second] = 0;
    x->covers_two[first] = true;
    require(x, first);
}

/* Marks storages as required: those that nodes after the start, up to and including `node`, read in every alternative. With
 * `choices`, handles only the nodes that read one of two storages (require_either). */
static void require_of_nodes(mp_bound_interval *x, int node, bool choices)
{
    const mp_precedence *o = x->order;
    for (size_t w = 0; w < o->words; w++) {
        uint64_t inside = mp_precedence_descendants(o, x->at)[w];
        if (x->assumed_after) inside |= x->assumed_after[w];
        if (node >= 0) {
            uint64_t until = mp_precedence_ancestors(o, node)[w];
            if ((size_t)node / 64 == w) until |= UINT64_C(1) << node % 64;
            inside &= until;
        }
        while (inside) {
            const int v = (int)(w * 64) + mp_bits_take(&inside);
            if (v == o->n - 1) continue; /* the vertex after the last node is the end of backward, which reads nothing */
            if (choices && o->source[v] >= 0) require_either(x, o->source[v], o->derived[v]);
            for (int r = o->reads_start[v]; !choices && r < o->reads_start[v + 1]; r++) require(x, o->reads[r]);
        }
    }
}

void mp_bound_interval_end(mp_bound_interval *x, int node)
{
    for (size_t i = 0; i < x->n_required; i++) x->is_required[x->required[i]] = x->covers_two[x->required[i]] = false;
    x->n_required = 0;
    if (node < 0) node = x->default_end;
    require_of_nodes(x, node, false);
    for (int s = 0; s < (int)x->order->graph->n_storages; s++)
        if (x->can_be_made[s] && !x->order->recomputable[s] && bound_network_allow(x, s, node) && x->must_pass[s])
            require(x, s);
    require_of_nodes(x, node, true);
}

int64_t mp_bound_interval_live_in(const mp_bound_interval *x)
{
    const mp_precedence *o = x->order;
    int64_t bytes = 0;
    for (size_t i = 0; i < x->n_required; i++) {
        const int s = x->required[i];
        if (o->recomputable[s] && mp_precedes(o, o->graph->producer[s], x->at)) bytes += x->bytes[s];
    }
    return bytes;
}

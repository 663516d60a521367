/* lagrange_labels.c - the network of the closure problem that decides which storages are kept, and its minimum cut.
 *
 * On the source's side are the storages that are live after the end of forward, and the recomputed stages. The drain of a
 * storage (its capacity to the sink) is the cost of its memory from its possible recomputation on. If a live storage is not
 * recomputed, it is kept. It then also costs the memory before its possible recomputation, which is the capacity of the arc to
 * the producing stage. The drain of a recomputed stage is its ticks. Arcs lead from the stage to its inputs. A storage that is
 * read after the end of forward has a supply (capacity from the source) of one more than the cost of keeping it. So a minimum
 * cut never cuts this supply. The arcs from stages to inputs have the same capacity.
 *
 * The position and lifetime of a recomputed storage depend on the other recomputed stages. They are estimated from the previous
 * cut. */
#include "planner/lagrange/lagrange.h"

#include <math.h>

#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LAGRANGE_TICK_BITS = 40, /* the sum of scaled ticks has 40 bits, which sets the precision */
    LAGRANGE_SUM_BITS = 61,  /* the sum of all capacities of a cut has at most 61 bits, so it cannot overflow */
};
static const double LAGRANGE_TILT = 0.02; /* relative extra cost of later nodes, so that equal layers differ */

static bool is_late(const mp_cut_labels *x, int stage)
{
    return stage >= x->forward_end;
}

static const mp_alternative *alternative_of(const mp_cut_labels *x, int stage)
{
    return &x->graph->nodes[x->node[stage]].alternatives[0];
}

/* Returns the first stage (node in list order) of the loss or of backward. If there is none, returns the last stage. */
static int find_forward_end(const mp_cut_labels *x)
{
    int k = 0;
    while (k + 1 < x->n && x->graph->nodes[x->node[k]].phase == MP_PHASE_FORWARD) k++;
    return k;
}

/* Finds the storages that may be kept or recomputed, with their first and last reads on both sides of the end of forward. */
static void find_uses(mp_cut_labels *x)
{
    const mp_graph *graph = x->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->producer[s] = x->last_early[s] = x->last_late[s] = -1;
        x->first_late[s] = x->n;
    }
    for (int k = 0; k < x->n; k++) {
        const mp_alternative *alternative = alternative_of(x, k);
        for (size_t i = 0; i < alternative->n_writes && !is_late(x, k); i++) {
            const int s = alternative->writes[i];
            if (!mp_storage_is_static(&graph->storages[s])) x->producer[s] = x->last_early[s] = k;
        }
        for (size_t i = 0; i < alternative->n_reads; i++) {
            const int s = alternative->reads[i];
            if (!is_late(x, k)) {
                x->last_early[s] = k;
                continue;
            }
            x->last_late[s] = k;
            if (x->first_late[s] == x->n) x->first_late[s] = k;
        }
    }
    for (size_t v = 0; v < graph->n_nodes; v++) /* if an update reads a storage, the storage is always kept */
        for (size_t i = 0; i < graph->nodes[v].alternatives[0].n_reads && graph->nodes[v].phase == MP_PHASE_UPDATE; i++)
            x->producer[graph->nodes[v].alternatives[0].reads[i]] = -1;
}

static void need(mp_cut_labels *x, int s, int by, int run)
{
    if (run < x->needed[s]) {
        x->next_needed[s] = x->needed[s];
        x->needed[s] = run;
        x->needed_by[s] = by;
    } else if (run < x->next_needed[s]) {
        x->next_needed[s] = run;
    }
}

/* Estimates, for every forward stage, where it would be recomputed and how long its outputs would then be live, given the other
 * recomputed stages. With `all`, assumes that all stages are recomputed, and marks the stages whose recomputation may be
 * useful. */
static void find_reruns(mp_cut_labels *x, bool all)
{
    const mp_graph *graph = x->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        x->needed[s] = x->first_late[s];
        x->next_needed[s] = x->n;
        x->needed_by[s] = -1;
        x->rerun_end[s] = x->last_late[s];
    }
    for (int k = x->forward_end - 1; k >= 0; k--) {
        const mp_alternative *alternative = alternative_of(x, k);
        int run = x->n;
        for (size_t i = 0; i < alternative->n_writes; i++)
            if (x->producer[alternative->writes[i]] == k && x->needed[alternative->writes[i]] < run)
                run = x->needed[alternative->writes[i]];
        if (all) x->repeatable[k] &= run < x->n;
        x->rerun[k] = run;
        /* no stage (node) needs the outputs of this stage, so the latest possible position of its recomputation is assumed */
        for (size_t i = 0; i < alternative->n_writes && run == x->n; i++) {
            const int s = alternative->writes[i];
            if (x->producer[s] == k && x->rerun_end[s] >= 0 && x->rerun_end[s] < x->rerun[k]) x->rerun[k] = x->rerun_end[s];
        }
        if (!x->repeatable[k]) continue;
        const bool is_recomputed = !all && x->recomputed[k] && run < x->n;
        for (size_t i = 0; i < alternative->n_reads; i++) {
            const int s = alternative->reads[i];
            if (all || is_recomputed) need(x, s, k, run);
            if ((is_recomputed || x->last_late[s] < 0) && x->rerun[k] > x->rerun_end[s]) x->rerun_end[s] = x->rerun[k];
        }
    }
}

static void number_vertices(mp_cut_labels *x, int *n)
{
    const mp_graph *graph = x->graph;
    for (int k = 0; k < x->forward_end; k++) x->stage_vertex[k] = x->repeatable[k] ? (*n)++ : -1;
    for (size_t s = 0; s < graph->n_storages; s++) {
        const int k = x->producer[s];
        const bool is_asked = x->last_late[s] >= 0, is_choice = k >= 0 && (x->repeatable[k] || !is_asked);
        x->storage_vertex[s] = is_choice && x->rerun_end[s] >= 0 ? (*n)++ : -1;
    }
}

static mp_status build_network(mp_cut_labels *x, mp_error *err)
{
    const mp_graph *graph = x->graph;
    int n = 0;
    size_t most = graph->n_storages;
    number_vertices(x, &n);
    for (int k = 0; k < x->forward_end; k++) most += alternative_of(x, k)->n_reads;
    x->arc_from = mp_pool_alloc(x->pool, most, sizeof *x->arc_from);
    x->arc_to = mp_pool_alloc(x->pool, most, sizeof *x->arc_to);
    MP_OWNED int *from = mp_alloc(most, sizeof *from), *to = mp_alloc(most, sizeof *to);
    MP_ENSURE(x->arc_from && x->arc_to && from && to, err, MP_NOMEM, "out of memory for a network of %s", graph->name);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        if (x->storage_vertex[s] < 0 || !x->repeatable[x->producer[s]]) continue;
        x->arc_from[x->n_arcs] = s;
        x->arc_to[x->n_arcs] = x->producer[s];
        from[x->n_arcs] = x->storage_vertex[s];
        to[x->n_arcs++] = x->stage_vertex[x->producer[s]];
    }
    x->n_producing = x->n_arcs;
    for (int k = 0; k < x->forward_end; k++) {
        const mp_alternative *alternative = alternative_of(x, k);
        for (size_t i = 0; i < alternative->n_reads && x->repeatable[k]; i++) {
            if (x->storage_vertex[alternative->reads[i]] < 0) continue;
            x->arc_from[x->n_arcs] = k;
            x->arc_to[x->n_arcs] = alternative->reads[i];
            from[x->n_arcs] = x->stage_vertex[k];
            to[x->n_arcs++] = x->storage_vertex[alternative->reads[i]];
        }
    }
    return mp_mincut_new(n > 0 ? n : 1, from, to, x->n_arcs, &x->cut, err);
}

/* Scales the ticks of all stages so that their sum is about 2^LAGRANGE_TICK_BITS. Then sums of ticks and memory costs do not
 * overflow. */
static void scale_ticks(mp_cut_labels *x)
{
    double total = 1;
    for (int k = 0; k < x->forward_end; k++) total += (double)alternative_of(x, k)->ticks;
    x->scale = ldexp(1, LAGRANGE_TICK_BITS) / total;
    for (int k = 0; k < x->forward_end; k++) {
        const double tilt = 1 + LAGRANGE_TILT * ((double)k / (double)x->forward_end - 0.5);
        x->scaled_ticks[k] = 1 + (int64_t)(x->scale * tilt * (double)alternative_of(x, k)->ticks);
    }
    x->capacity_limit = INT64_C(1) << LAGRANGE_TICK_BITS;
    while (x->capacity_limit > (INT64_C(1) << LAGRANGE_SUM_BITS) / (int64_t)(x->graph->n_storages + 1)) x->capacity_limit /= 2;
}

static bool allocate(mp_cut_labels *x)
{
    const size_t n_storages = x->graph->n_storages, n_nodes = x->graph->n_nodes;
    x->pool = mp_pool_new();
    x->node = mp_pool_alloc(x->pool, n_nodes, sizeof *x->node);
    x->producer = mp_pool_alloc(x->pool, n_storages, sizeof *x->producer);
    x->last_early = mp_pool_alloc(x->pool, n_storages, sizeof *x->last_early);
    x->first_late = mp_pool_alloc(x->pool, n_storages, sizeof *x->first_late);
    x->last_late = mp_pool_alloc(x->pool, n_storages, sizeof *x->last_late);
    x->rerun_end = mp_pool_alloc(x->pool, n_storages, sizeof *x->rerun_end);
    x->needed = mp_pool_alloc(x->pool, n_storages, sizeof *x->needed);
    x->next_needed = mp_pool_alloc(x->pool, n_storages, sizeof *x->next_needed);
    x->needed_by = mp_pool_alloc(x->pool, n_storages, sizeof *x->needed_by);
    x->storage_vertex = mp_pool_alloc(x->pool, n_storages, sizeof *x->storage_vertex);
    x->repeatable = mp_pool_alloc(x->pool, n_nodes, sizeof *x->repeatable);
    x->is_kept = mp_pool_alloc(x->pool, n_nodes, sizeof *x->is_kept);
    x->rerun = mp_pool_alloc(x->pool, n_nodes, sizeof *x->rerun);
    x->stage_vertex = mp_pool_alloc(x->pool, n_nodes, sizeof *x->stage_vertex);
    x->scaled_ticks = mp_pool_alloc(x->pool, n_nodes, sizeof *x->scaled_ticks);
    x->recomputed = mp_pool_alloc(x->pool, n_nodes, sizeof *x->recomputed);
    x->multiplier_before = mp_pool_alloc(x->pool, n_nodes + 1, sizeof *x->multiplier_before);
    return !mp_pool_failed(x->pool);
}

mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err)
{
    MP_OWNED_BY(mp_cut_labels_free) mp_cut_labels *x = mp_alloc(1, sizeof *x);
    MP_ENSURE(x, err, MP_NOMEM, "out of memory for the outputs of %s", graph->name);
    x->graph = graph;
    MP_ENSURE(allocate(x), err, MP_NOMEM, "out of memory for the outputs of %s", graph->name);
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase != MP_PHASE_UPDATE) x->node[x->n++] = (int)v;
    x->forward_end = find_forward_end(x);
    find_uses(x);
    for (int k = 0; k < x->forward_end; k++) x->repeatable[k] = mp_node_may_rerun(&graph->nodes[x->node[k]]);
    find_reruns(x, true);
    find_reruns(x, false);
    MP_CHECK(build_network(x, err));
    scale_ticks(x);
    *out = x;
    x = NULL;
    return MP_OK;
}

void mp_cut_labels_free(mp_cut_labels *x)
{
    if (!x) return;
    mp_mincut_free(x->cut);
    mp_pool_free(x->pool);
    mp_free(x);
}

/* Returns the cost, in scaled units, of the memory of storage s in stages [from, to). */
static int64_t cost_of_memory(const mp_cut_labels *x, int s, int from, int to)
{
    if (from >= to) return 0;
    const double sum = x->multiplier_before[to] - x->multiplier_before[from];
    const double cost = sum * x->scale * (double)x->graph->storages[s].bytes;
    return cost >= (double)x->capacity_limit ? x->capacity_limit : (int64_t)cost;
}

static int64_t keeping_cost(const mp_cut_labels *x, int s)
{
    return cost_of_memory(x, s, x->last_early[s] + 1, x->rerun_end[s] + 1);
}

/* Returns the cost of the memory of storage s if it is recomputed, in scaled units. If a recomputed stage is the first to need
 * the storage (needed_by), half of the cost up to the next stage that needs it is omitted here. rerun_cost adds this half to
 * the cost of that recomputed stage. */
static int64_t recomputed_cost(const mp_cut_labels *x, int s)
{
    const int k = x->producer[s];
    const int64_t whole = cost_of_memory(x, s, x->rerun[k], x->rerun_end[s] + 1);
    if (x->last_late[s] < 0 || x->needed_by[s] < 0 || !x->recomputed[k]) return whole;
    return whole - cost_of_memory(x, s, x->needed[s], x->next_needed[s]) / 2;
}

static int64_t rerun_cost(const mp_cut_labels *x, int k)
{
    const mp_alternative *alternative = alternative_of(x, k);
    int64_t cost = x->scaled_ticks[k];
    if (x->is_kept[k]) return x->capacity_limit;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i];
        if (x->storage_vertex[s] < 0 || x->last_late[s] < 0 || !x->recomputed[x->producer[s]]) continue;
        cost += cost_of_memory(x, s, x->rerun[k], x->needed_by[s] == k ? x->next_needed[s] : x->needed[s]) / 2;
    }
    return cost;
}

void mp_cut_labels_find(mp_cut_labels *x, const double *multiplier)
{
    const mp_graph *graph = x->graph;
    mp_mincut *cut = x->cut;
    for (int k = 0; k < x->n; k++) x->multiplier_before[k + 1] = x->multiplier_before[k] + multiplier[k];
    for (int k = 0; k < x->forward_end; k++)
        if (x->stage_vertex[k] >= 0) cut->drain[x->stage_vertex[k]] = rerun_cost(x, k);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int v = x->storage_vertex[s];
        if (v < 0) continue;
        const int64_t keeping = keeping_cost(x, s);
        cut->supply[v] = x->last_late[s] >= 0 ? keeping + 1 : 0;
        cut->drain[v] = x->repeatable[x->producer[s]] ? recomputed_cost(x, s) : keeping;
        if (cut->drain[v] > keeping) cut->drain[v] = keeping;
    }
    for (size_t a = 0; a < x->n_arcs; a++) {
        const int s = a < x->n_producing ? x->arc_from[a] : x->arc_to[a];
        const int64_t keeping = keeping_cost(x, s);
        cut->capacity[a] = a < x->n_producing ? keeping - cut->drain[x->storage_vertex[s]] : keeping + 1;
    }
    mp_mincut_run(cut);
    for (int k = 0; k < x->forward_end; k++) x->recomputed[k] = x->stage_vertex[k] >= 0 && cut->source_side[x->stage_vertex[k]];
    find_reruns(x, false);
}

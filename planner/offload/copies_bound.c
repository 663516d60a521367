/* copies_bound.c - proves a bound for plans with copies, from the bound for plans without copies. Bytes are offloaded if they
 * are in another tier while a node runs. They were copied out before the node, and are copied back after it. So they cannot
 * exceed the bytes that the links can copy before and after the node (docs/internals/bound.md, "Graphs with copies"). */
#include "planner/offload/copies.h"

#include <math.h>

#include "estimator/graph/without_copies.h"
#include "memplan/floor.h"
#include "planner/bound/proof.h"
#include "planner/floor/problem.h"
#include "planner/math/bits.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    COPIES_BOUND_NEAR = 5,    /* the first time target of the copy bound is 1/5 of the way from bound to plan */
    COPIES_BOUND_TARGETS = 4, /* most time targets of the copy bound; each is half-way from the bound to the plan */
    COPIES_BOUND_ROUNDS = 2,  /* repetitions of the copy bound; each limits the bytes that can be offloaded further */
};

/* The largest rates at which a tier can exchange data with the device, in bytes per tick. */
typedef struct link {
    /* per channel. out: rate of copies to the tier. in: rate of copies back to the device. INFINITY: a copy takes no time */
    double out[MP_MAX_CHANNELS], in[MP_MAX_CHANNELS];
    double bytes;    /* bytes of all storages that can be copied back from the tier */
    double per_byte; /* most bytes on the device that are restored by copying back one byte of the tier */
} link;

static int64_t bytes_in(const mp_graph *graph, const int *storages, size_t n, int tier)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < n; k++) bytes += graph->storages[storages[k]].tier == tier ? graph->storages[storages[k]].bytes : 0;
    return bytes;
}

static void raise(double *most, double value)
{
    if (value > *most) *most = value;
}

static double ratio(int64_t bytes, int64_t divisor)
{
    return divisor ? (double)bytes / (double)divisor : bytes ? INFINITY : 0;
}

/* Computes the rates of a tier. A copy back reads at least one storage of the tier. So for each storage of the tier, it adds up
 * the outputs of all copies back that read the storage. This sum, divided by the storage's bytes, bounds the bytes on the
 * device that one byte of the tier restores. `comes` is scratch, one entry per storage. */
static link link_of(const mp_graph *graph, int tier, int64_t *comes)
{
    link found = {{0}, {0}, 0, 0};
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        int64_t most = 0;
        for (size_t f = 0; f < node->n_alternatives; f++) {
            const mp_alternative *a = &node->alternatives[f];
            const int64_t made = bytes_in(graph, a->writes, a->n_writes, MP_TIER_DEVICE);
            const int64_t there = bytes_in(graph, a->reads, a->n_reads, tier);
            if (bytes_in(graph, a->writes, a->n_writes, tier))
                raise(&found.out[a->channel], ratio(bytes_in(graph, a->reads, a->n_reads, MP_TIER_DEVICE), a->ticks));
            if (!a->returns || !there) continue;
            raise(&found.in[a->channel], ratio(made, a->ticks));
            for (size_t i = 0; i < a->n_reads; i++) comes[a->reads[i]] += made;
            if (made > most) most = made;
        }
        /* the alternatives of a node may copy back different outputs, so each alternative counts with the most bytes that any
         * of them copies back */
        found.bytes += (double)most * (double)node->n_alternatives;
    }
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (graph->storages[s].tier == tier) raise(&found.per_byte, ratio(comes[s], graph->storages[s].bytes));
        comes[s] = 0;
    }
    return found;
}

/* The state of a proof. */
typedef struct proof {
    const mp_graph *graph;
    int64_t budget_bytes;
    const int64_t *tier_bytes;
    link links[MP_MAX_TIERS];
    mp_without_copies without_copies;
    mp_pool *pool; /* owns the arrays below, which have one entry per node of the graph without copies */
    bool *is_beside;
    /* per node. before: least ticks of compute before it begins. after: least ticks of compute after its end */
    int64_t *before, *after;
    /* per node: workspace that was added to it, as a substitute for bytes that must be on the device while the node runs */
    int64_t *filled;
} proof;

static void clear(proof *x)
{
    mp_without_copies_free(&x->without_copies);
    mp_pool_free(x->pool);
}

/* Returns the most bytes that can be in all other tiers together while a node runs. At most `before` ticks precede the node, at
 * most `after` ticks follow it, and at most `both` ticks are available in total. */
static double most_offloaded(const proof *x, double before, double after, double both)
{
    double sum = 1; /* more than the rounding error */
    for (int m = 1; m < (int)x->graph->n_tiers; m++) {
        const link *l = &x->links[m];
        double out = 0, in = 0, most = l->bytes;
        for (size_t c = 0; c < x->graph->n_channels; c++) {
            out += l->out[c];
            in += l->in[c];
        }
        if (out <= 0 || in <= 0) continue;
        const int64_t there = x->tier_bytes ? x->tier_bytes[m] : 0;
        const double limits[] = {out * before, in * after, both / (1 / out + 1 / in),
                                 there ? (double)there * l->per_byte : INFINITY};
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            if (limits[k] < most) most = limits[k];
        sum += most * (1 + 1e-12);
    }
    return sum;
}

/* True if some node that computes reads a storage of another tier. Then a plan with copies may have no counterpart without
 * copies. */
static bool computes_from_copies(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t f = 0; f < graph->nodes[v].n_alternatives && !(graph->nodes[v].flags & MP_NODE_OPTIONAL); f++) {
            const mp_alternative *a = &graph->nodes[v].alternatives[f];
            for (size_t i = 0; i < a->n_reads && !a->returns; i++) {
                const int producer = graph->producer[a->reads[i]];
                if (producer >= 0 && graph->nodes[producer].flags & MP_NODE_OPTIONAL) return true;
            }
        }
    return false;
}

static mp_status begin_proof(proof *x, mp_error *err)
{
    MP_CHECK(mp_graph_without_copies(x->graph, &x->without_copies, err));
    const size_t n = x->without_copies.graph->n_nodes;
    x->pool = mp_pool_new();
    x->is_beside = mp_pool_alloc(x->pool, n, sizeof *x->is_beside);
    x->before = mp_pool_alloc(x->pool, n, sizeof *x->before);
    x->after = mp_pool_alloc(x->pool, n, sizeof *x->after);
    x->filled = mp_pool_alloc(x->pool, n, sizeof *x->filled);
    int64_t *comes = mp_pool_alloc(x->pool, x->graph->n_storages, sizeof *comes);
    MP_ENSURE(!mp_pool_failed(x->pool), err, MP_NOMEM, "no memory for a bound of %zu nodes", n);
    for (int m = 1; m < (int)x->graph->n_tiers; m++) x->links[m] = link_of(x->graph, m, comes);
    for (size_t v = 0; v < n; v++) { /* a node that can run on a channel other than compute counts with 0 ticks of compute */
        const mp_node *node = &x->graph->nodes[x->without_copies.nodes[v]];
        for (size_t f = 0; f < node->n_alternatives; f++)
            x->is_beside[v] |= !node->alternatives[f].returns && node->alternatives[f].channel > MP_CHANNEL_SECOND_STREAM;
        for (size_t f = 0; x->is_beside[v] && f < x->without_copies.graph->nodes[v].n_alternatives; f++)
            x->without_copies.graph->nodes[v].alternatives[f].ticks = 0;
    }
    return MP_OK;
}

static int64_t sum_ticks(const mp_precedence *order, const uint64_t *nodes)
{
    int64_t sum = 0;
    for (size_t w = 0; w < order->words; w++)
        for (uint64_t left = nodes[w]; left;) {
            const int v = (int)w * 64 + mp_bits_take(&left);
            sum += v < order->n - 1 ? order->ticks[v] : 0;
        }
    return sum;
}

/* Computes, for each node, the least ticks of compute before and after it. */
static void find_sides(proof *x, const mp_precedence *order)
{
    for (int v = 0; v < order->n - 1 && order->only_vertex < 0; v++) {
        x->before[v] = sum_ticks(order, mp_precedence_ancestors(order, v));
        x->after[v] = sum_ticks(order, mp_precedence_descendants(order, v));
    }
}

/* Adds workspace to each node that runs once. Suppose that plans take `ticks` ticks, and that up to `offloaded` bytes are
 * offloaded at other times. The workspace is the part of these bytes that must be on the device while the node runs. */
static void fill(proof *x, const mp_precedence *order, int64_t ticks, int64_t offloaded)
{
    for (int v = 0; v < order->n - 1 && order->only_vertex < 0; v++) {
        mp_node *node = &x->without_copies.graph->nodes[v];
        if (x->is_beside[v]) continue;
        const int64_t left = ticks - order->ticks[v];
        const double most = most_offloaded(x, (double)(left - x->after[v]), (double)(left - x->before[v]), (double)left);
        const int64_t bytes = most < (double)offloaded ? offloaded - (int64_t)most : 0;
        for (size_t f = 0; f < node->n_alternatives; f++) node->alternatives[f].workspace_bytes += bytes - x->filled[v];
        x->filled[v] = bytes;
    }
}

/* Proves a bound on plans of at most `ticks` ticks. A first bound is proved for an interval between two nodes, and shows that
 * some ticks of recomputation run after the interval's first node. So less time remains before this node and before its
 * ancestors, and fewer bytes can be offloaded while they run. Further rounds use this to raise the bound. */
static mp_status prove(proof *x, int64_t ticks, int effort, mp_bound *out, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *first = NULL;
    const int most = mp_proof_effort(x->without_copies.graph);
    const double offloaded = most_offloaded(x, (double)ticks, (double)ticks, (double)ticks);
    const mp_precedence *order;
    if (offloaded >= (double)(MP_NO_LIMIT - x->budget_bytes)) return MP_OK;
    MP_CHECK(mp_problem_new(x->without_copies.graph, &first, err));
    MP_CHECK(mp_problem_order(first, false, &order, err));
    find_sides(x, order);
    for (int k = COPIES_BOUND_ROUNDS; k >= 0; k--) {
        MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
        MP_CLEARED_BY(mp_bound_report_clear) mp_bound_report report = {0};
        mp_bound_report_init(&report);
        mp_bound_options options = {.effort = k               ? 0
                                              : effort < most ? effort
                                                              : most,
                                    .off = 1u << MP_BOUND_FLOOR,
                                    .report = k ? &report : NULL};
        fill(x, order, ticks, (int64_t)offloaded);
        MP_CHECK(mp_problem_new(x->without_copies.graph, &problem, err));
        MP_CHECK(mp_prove(problem, x->budget_bytes + (int64_t)offloaded, false, &options, out, err));
        if (out->infeasible || !k) break;
        if (out->from < 0 || order->only_vertex >= 0) continue;
        find_sides(x, order);
        for (int v = 0; v < order->n - 1; v++)
            if (v == out->from || mp_precedes(order, v, out->from)) x->after[v] += report.ticks;
    }
    return MP_OK;
}

mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, int effort,
                          mp_bound *out, mp_error *err)
{
    MP_CLEARED_BY(clear) proof x = {.graph = graph, .budget_bytes = budget_bytes, .tier_bytes = tier_bytes};
    *out = (mp_bound){.ticks = -1, .from = -1, .to = -1};
    if (computes_from_copies(graph)) return MP_OK;
    MP_CHECK(begin_proof(&x, err));
    MP_CHECK(prove(&x, ticks, effort, out, err));
    /* the bound exceeds `ticks`: a plan that takes less time has even fewer bytes offloaded, so no plan takes less than
     * `ticks` */
    bool is_met = out->infeasible || out->ticks > ticks;
    int64_t least = is_met ? ticks : out->ticks;
    for (int k = 0; k < COPIES_BOUND_TARGETS && effort > 0 && least < ticks && (is_met || !k); k++) {
        mp_bound bound = {.ticks = -1};
        const int64_t target = least + (ticks - least) / (k ? 2 : COPIES_BOUND_NEAR);
        /* the proof assumes plans of at most `target` ticks. If the bound exceeds the target, there are no such plans, and the
         * target is a bound for all plans */
        MP_CHECK(prove(&x, target, effort, &bound, err));
        is_met = bound.infeasible || bound.ticks > target;
        if (is_met || bound.ticks > least) least = is_met ? target : bound.ticks;
    }
    out->ticks = least;
    out->infeasible = false;
    out->from = out->to =
        -1; /* the nodes of the bound's interval are not reported, because their numbers refer to the graph without copies */
    return MP_OK;
}

/* True if storage `copy` is written by an optional node that copies storage `from`, and is at least as large as `from`. */
static bool is_copied_whole(const mp_graph *graph, int from, int copy)
{
    const int node = graph->producer[copy];
    if (node < 0 || !(graph->nodes[node].flags & MP_NODE_OPTIONAL) || graph->nodes[node].n_alternatives > 1) return false;
    const mp_alternative *out = &graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < out->n_reads && i < out->n_writes; i++)
        if (out->reads[i] == from && out->writes[i] == copy) return graph->storages[copy].bytes >= graph->storages[from].bytes;
    return false;
}

/* True if every storage that is copied back to the device was copied out as a whole before. */
static bool are_copied_whole(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t f = 0; f < graph->nodes[v].n_alternatives; f++) {
            const mp_alternative *back = &graph->nodes[v].alternatives[f];
            if (back->returns && back->n_reads != back->n_writes) return false;
            for (size_t i = 0; back->returns && i < back->n_writes; i++)
                if (graph->storages[back->writes[i]].tier == MP_TIER_DEVICE &&
                    !is_copied_whole(graph, back->writes[i], back->reads[i]))
                    return false;
        }
    return true;
}

mp_status mp_tier_floors(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes,
                         int64_t floor_bytes[MP_MAX_TIERS], mp_error *err)
{
    MP_CLEARED_BY(mp_without_copies_free) mp_without_copies without_copies = {0};
    int64_t least_bytes;
    int node;
    for (int m = 1; m < (int)graph->n_tiers; m++) floor_bytes[m] = mp_graph_static_bytes_in(graph, m);
    if (budget_bytes == MP_NO_LIMIT || mp_graph_n_state_copies(graph) || !are_copied_whole(graph)) return MP_OK;
    MP_CHECK(mp_graph_without_copies(graph, &without_copies, err));
    MP_CHECK(mp_floor(without_copies.graph, &least_bytes, &node, err));
    for (int m = 1; m < (int)graph->n_tiers; m++) {
        /* bytes that all tiers other than the device must hold together at some moment of the step */
        int64_t offloaded = least_bytes - budget_bytes;
        /* the other tiers can hold at most their budgets; the rest must be in tier m */
        for (int other = 1; other < (int)graph->n_tiers && offloaded > 0; other++)
            if (other != m) offloaded -= tier_bytes[other] ? tier_bytes[other] : offloaded;
        if (offloaded > floor_bytes[m]) floor_bytes[m] = offloaded;
    }
    return MP_OK;
}

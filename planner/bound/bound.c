/* bound.c - runs the stages of the lower bound one after the other, and records the stage that proved the most ticks. Reports
 * the storages that are not live across the deciding interval, the interval with the largest bound. */
#include "planner/bound/bound.h"

#include <stdlib.h>
#include <string.h>

#include "planner/bound/bound_demand.h"
#include "planner/bound/interval/bound_interval.h"
#include "planner/bound/overlap/bound_select.h"
#include "planner/floor/problem.h"
#include "planner/math/tuning.h"
#include "planner/order/part.h"
#include "planner/order/turn_around.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_NEXT_EFFORT = 2,     /* factor on the effort from one pass over all stages to the next */
    BOUND_SETTLE_NODES = 2048, /* pairs of nodes are examined in graphs of up to 2048 nodes */
    BOUND_DEMAND_EFFORT = 2,   /* least effort at which the backward search runs */
    BOUND_NARROWS = 3,         /* most boundaries with little free memory from which a pass of all stages starts */
};

static mp_bound_value solve(mp_bound_interval *x, int from, int to)
{
    mp_bound_interval_start(x, from);
    mp_bound_interval_end(x, to);
    return mp_bound_interval_solve(x);
}

/* Finds the interval with the largest bound, and sets from, to and multiplier of *bound. By default the intervals are between
 * neighbouring boundaries. With `overlapping` they lead from each boundary to the end of the step. Precondition: each boundary
 * (a node of `nodes`) precedes the next. O(n) bounds of intervals, each a few minimum cuts. */
static void bound_decide(mp_bound_interval *x, const int *nodes, int n, bool overlapping, mp_bound *bound)
{
    int64_t most = -1;
    for (int i = 0; i < n; i++) {
        const int to = overlapping || i == n - 1 ? -1 : nodes[i + 1];
        const mp_bound_value value = solve(x, nodes[i], to);
        if (value.infeasible || value.ticks <= most) continue;
        most = value.ticks;
        bound->from = nodes[i];
        bound->to = to;
        bound->multiplier = value.multiplier;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const mp_bound_eviction *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

/* Writes the report about the deciding interval, the interval with the largest bound. MP_NOMEM. A few minimum cuts. */
static mp_status bound_explain(mp_bound_interval *x, const mp_bound *bound, mp_bound_report *report, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_bound_value value = solve(x, bound->from, bound->to);
    report->evictions = mp_alloc(x->n_required, sizeof *report->evictions);
    MP_ENSURE(report->evictions, err, MP_NOMEM, "no memory to explain a bound of %d nodes", o->n);
    report->n = 0;
    report->ticks = value.ticks;
    report->live_in_bytes = mp_bound_interval_live_in(x);
    report->free_bytes = x->free_bytes;
    for (size_t i = 0; i < x->n_required && value.ticks > 0; i++) {
        const int s = x->required[i], producer = o->graph->producer[s];
        if (!o->recomputable[s] || !x->bytes[s] || x->labels[1].live[s] || !mp_precedes(o, producer, x->at)) continue;
        report->evictions[report->n++] = (mp_bound_eviction){s, x->bytes[s], x->ticks[producer], x->labels[0].live[s]};
    }
    qsort(report->evictions, report->n, sizeof *report->evictions, by_bytes);
    return MP_OK;
}

/* The state while all stages of the bound run once at a given effort. The first stage finds a chain of intervals, and the later
 * stages start from the chain with the largest bound. */
typedef struct pass {
    mp_bound_chain *chain;
    mp_bound_selection *selection;
    int *nodes, n;         /* the nodes at the boundaries of the best chain of intervals */
    int *split, n_split;   /* the nodes at the boundaries of the chain of coupled intervals (bound_couple.h) */
    int64_t ticks;         /* the best bound proved so far, in ticks beyond one run of each node */
    mp_bound_stage stage;  /* the stage of the bound that proved `ticks`, or proved that no plan fits */
    bool is_infeasible;    /* true if a stage of the bound proved that no plan fits */
    mp_bound_work counted; /* the work on intervals that is already attributed to finished stages of the bound */
} pass;

const char *mp_bound_orders_text(mp_bound_orders orders)
{
    static const char *const texts[] = {"", "this-order", "any-order"};
    return texts[orders];
}

/* ---- the report ---- */

static mp_bound_work work_between(const mp_bound_work *from, const mp_bound_work *to)
{
    return (mp_bound_work){to->n_cuts - from->n_cuts, to->n_pivots - from->n_pivots, to->n_states - from->n_states};
}

static void report_stage(mp_bound_report *report, mp_bound_stage stage, int64_t ticks, bool is_infeasible,
                         const mp_bound_work *work)
{
    if (!report) return;
    mp_bound_result *r = &report->stages[stage];
    if (ticks > r->ticks) r->ticks = ticks;
    r->is_infeasible = r->is_infeasible || is_infeasible;
    mp_bound_work_add(&r->work, work);
}

static void end_stage(pass *p, mp_bound_stage stage, int64_t ticks)
{
    const mp_bound_work all = p->chain->interval->work, work = work_between(&p->counted, &all);
    const bool is_infeasible = p->chain->infeasible && !p->is_infeasible;
    report_stage(p->chain->options.report, stage, ticks, is_infeasible, &work);
    p->counted = all;
    if (ticks > p->ticks || is_infeasible) p->stage = stage;
    if (ticks > p->ticks) p->ticks = ticks;
    p->is_infeasible = p->chain->infeasible;
}

/* ---- the stages that use a chain of intervals ---- */

static bool goes_on(const pass *p, mp_bound_stage stage)
{
    return mp_bound_is_on(&p->chain->options, stage) && !mp_bound_chain_ended(p->chain);
}

/* Records two bounds that the search for a chain of intervals proved: the bound of the best single interval, and the bound of
 * the best chain. */
static void take_chain(pass *p)
{
    const mp_bound_chain *c = p->chain;
    for (int i = c->first; i >= 0; i = c->next[i]) p->nodes[p->n++] = mp_bound_chain_node(c, i);
    p->counted = work_between(&c->work, &c->interval->work);
    end_stage(p, MP_BOUND_INTERVAL, c->infeasible ? 0 : c->best_ticks);
    if (!mp_bound_is_on(&c->options, MP_BOUND_DISJOINT)) return;
    p->counted = c->work;
    end_stage(p, MP_BOUND_DISJOINT, c->infeasible || c->first < 0 ? 0 : c->rest[c->first]);
}

static mp_status couple(pass *p, mp_error *err)
{
    int64_t ticks = p->chain->rest[p->chain->first];
    memcpy(p->split, p->nodes, (size_t)p->n * sizeof *p->split);
    p->n_split = p->n;
    if (!goes_on(p, MP_BOUND_COUPLE)) return MP_OK;
    MP_CHECK(mp_bound_split(p->chain, p->split, &p->n_split, &ticks, err));
    end_stage(p, MP_BOUND_COUPLE, ticks);
    return MP_OK;
}

/* Computes bounds of overlapping intervals in three passes. The first pass starts from the boundaries of the chain and adds
 * others. The second pass chooses better boundaries. The third pass is branch and bound. */
static mp_status overlap(pass *p, mp_error *err)
{
    mp_bound_chain *c = p->chain;
    mp_bound_selection *s = p->selection;
    int64_t ticks = 0;
    if (!goes_on(p, MP_BOUND_OVERLAP)) return MP_OK;
    MP_CHECK(mp_bound_select(c, p->split, p->n_split, s, &ticks, err));
    end_stage(p, MP_BOUND_OVERLAP, ticks);
    if (!s->n || !mp_bound_select_is_promising(c, s, p->ticks) || !goes_on(p, MP_BOUND_TREE)) return MP_OK;
    ticks = 0;
    MP_CHECK(mp_bound_select_tree(c, s, &ticks, err));
    end_stage(p, MP_BOUND_TREE, ticks);
    return MP_OK;
}

/* Finds the deciding interval. Of the intervals of the stage that proved the bound, it is the interval with the largest
 * bound. */
static void locate(pass *p, mp_bound *bound)
{
    mp_bound_chain *c = p->chain;
    bound->from = bound->to = -1;
    bound->multiplier = 0;
    if (p->is_infeasible) {
        if (p->stage != MP_BOUND_TREE) bound->from = c->interval->at;
    } else if (c->stopped) {
        return;
    } else if (p->stage == MP_BOUND_INTERVAL) {
        bound_decide(c->interval, &c->best_single, 1, false, bound);
    } else if (p->stage == MP_BOUND_COUPLE) {
        bound_decide(c->interval, p->split, p->n_split, false, bound);
    } else if (p->stage >= MP_BOUND_OVERLAP) {
        bound_decide(c->interval, p->selection->nodes, p->selection->n, true, bound);
    } else {
        bound_decide(c->interval, p->nodes, p->n, false, bound);
    }
}

/* Runs all stages once with options->effort. They bound the recomputation up to the first run of node `until` (-1: up to the
 * end of the step). Raises the ticks of *bound, which exclude the first run of each node. Adds the work done to *work. */
static mp_status run_pass(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                          mp_bound_selection *selection, mp_bound *bound, mp_bound_work *work, mp_error *err)
{
    MP_OWNED_BY(mp_bound_chain_free) mp_bound_chain *c = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    pass p = {.selection = selection};
    MP_CHECK(mp_bound_chain_new(order, budget_bytes, options, until, &c, err));
    p.chain = c;
    p.nodes = mp_pool_alloc(pool, (size_t)c->n, sizeof *p.nodes);
    p.split = mp_pool_alloc(pool, (size_t)c->n + MP_BOUND_MOST_SPLITS, sizeof *p.split);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    take_chain(&p);
    if (c->first >= 0 && options->effort > 0 && !mp_bound_chain_ended(c)) {
        MP_CHECK(couple(&p, err));
        MP_CHECK(overlap(&p, err));
    }
    bound->infeasible = bound->infeasible || p.is_infeasible;
    if (p.ticks > bound->ticks || p.is_infeasible) {
        bound->stage = p.stage;
        if (until < 0) locate(&p, bound);
    }
    if (p.ticks > bound->ticks) bound->ticks = p.ticks;
    mp_bound_work_add(work, &c->interval->work);
    return MP_OK;
}

/* ---- the bound ---- */

/* Runs all stages several times with increasing effort and keeps the best bound, so that more effort never weakens the bound.
 * *first_ticks: the bound after the first of these runs. */
static mp_status run_passes(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                            int64_t *first_ticks, mp_error *err)
{
    MP_CLEARED_BY(mp_bound_selection_clear) mp_bound_selection selection = {0};
    mp_bound_options own = *options;
    mp_bound_work unused = {0};
    const int most = order->only_vertex >= 0 ? 0 : options->effort;
    for (own.effort = most > 0; own.effort <= most && !bound->infeasible; own.effort *= BOUND_NEXT_EFFORT) {
        const bool is_last = own.effort > most / BOUND_NEXT_EFFORT;
        selection.thorough = own.effort > 1 && is_last;
        MP_CHECK(run_pass(order, budget_bytes, &own, -1, &selection, bound, &unused, err));
        if (own.effort <= 1) *first_ticks = bound->ticks;
        if (!own.effort || is_last) break;
    }
    return MP_OK;
}

/* Raises the bound with a target time. For plans that take less than the target, this function fixes the order of pairs of
 * nodes (bound_settle.c) and computes a bound. The smaller of the computed bound and the target is a bound for all plans. The
 * targets depend only on the bound after the first run of the stages, so they are the same for every effort. */
static mp_status run_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t first_ticks,
                            mp_bound *bound, mp_error *err)
{
    MP_CLEARED_BY(mp_bound_settled_clear) mp_bound_settled settled = {0};
    MP_CLEARED_BY(mp_bound_selection_clear) mp_bound_selection selection = {0};
    mp_bound inner = {0};
    mp_bound_options own = *options;
    own.report = NULL;
    own.effort = 1;
    MP_CHECK(mp_bound_settle(graph, budget_bytes, options, first_ticks, &settled, err));
    if (settled.order && settled.ticks < settled.target)
        MP_CHECK(run_pass(settled.order, budget_bytes, &own, -1, &selection, &inner, &settled.work, err));
    int64_t ticks = inner.infeasible || inner.ticks > settled.target ? settled.target : inner.ticks;
    if (ticks < settled.ticks) ticks = settled.ticks;
    report_stage(options->report, MP_BOUND_SETTLE, settled.order ? ticks : -1, false, &settled.work);
    if (!settled.order || ticks <= bound->ticks) return MP_OK;
    bound->ticks = ticks;
    bound->stage = MP_BOUND_SETTLE;
    return MP_OK;
}

/* Chooses boundaries at which little memory is free. The stages bound the recomputation before each boundary. A search over
 * live-in sets (bound_demand.h) bounds the recomputation after it. */
static mp_status run_demand(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                            mp_error *err)
{
    mp_status st = MP_OK;
    MP_OWNED_BY(mp_bound_demand_free) mp_bound_demand *d = NULL;
    mp_bound_work work = {0};
    mp_bound_found found = {0, -1};
    mp_bound_options own = *options;
    int nodes[BOUND_NARROWS];
    bool promising = false;
    int64_t ticks = bound->ticks;
    own.report = NULL;
    MP_CHECK(mp_bound_demand_new(order, budget_bytes, options, &d, err));
    if (d) MP_CHECK(mp_bound_demand_is_promising(d, ticks, &promising, err));
    for (int n = promising ? mp_bound_demand_narrows(d, nodes, BOUND_NARROWS) : 0, k = 0; k < n; k++) {
        mp_bound_selection selection = {0};
        mp_bound before = {0};
        st = run_pass(order, budget_bytes, &own, nodes[k], &selection, &before, &work, err);
        mp_bound_selection_clear(&selection);
        if (st != MP_OK) return st;
        mp_bound_demand_before(d, nodes[k], before.ticks);
    }
    if (promising) MP_CHECK(mp_bound_demand_prefixes(d, &ticks, &found, err));
    if (promising) MP_CHECK(mp_bound_demand_search(d, &ticks, &found, err));
    if (d) mp_bound_work_add(&work, mp_bound_demand_work(d));
    report_stage(options->report, MP_BOUND_DEMAND, found.ticks > 0 ? found.ticks : -1, false, &work);
    if (ticks > bound->ticks) {
        bound->ticks = ticks;
        bound->stage = MP_BOUND_DEMAND;
        bound->from = found.node;
        bound->to = -1;
    }
    return st;
}

/* Writes the report about the deciding interval, if options ask for a report. */
static mp_status explain(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                         mp_error *err)
{
    MP_OWNED_BY(mp_bound_interval_free) mp_bound_interval *x = NULL;
    if (bound->from < 0 || bound->infeasible || (bound->stage != MP_BOUND_DEMAND && !options->report)) return MP_OK;
    MP_CHECK(mp_bound_interval_new(order, budget_bytes, &x, err));
    MP_CHECK(mp_bound_interval_add_undecided(x, err));
    if (bound->stage == MP_BOUND_DEMAND) bound_decide(x, &(int){bound->from}, 1, false, bound);
    if (options->report) MP_CHECK(bound_explain(x, bound, options->report, err));
    return MP_OK;
}

mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err)
{
    MP_CLEARED_BY(mp_part_clear) mp_part part = {0};
    MP_CLEARED_BY(mp_bound_report_clear) mp_bound_report report = {0};
    mp_bound_options own = *options;
    MP_OWNED int *number = NULL;
    budget_bytes -= mp_graph_static_bytes(graph);
    *ticks = 0;
    *infeasible = false;
    if (!mp_graph_has_parts(graph)) return MP_OK;
    own.effort = 1;
    own.report = &report;
    own.off |= 1u << MP_BOUND_FLOOR | 1u << MP_BOUND_COUPLE | 1u << MP_BOUND_OVERLAP;
    MP_ENSURE(number = mp_alloc(graph->n_storages, sizeof *number), err, MP_NOMEM, "no memory for a bound of %s", graph->name);
    const size_t n_parts = (graph->n_nodes + part_nodes - 1) / part_nodes;
    for (size_t k = 0; k < n_parts && !*infeasible; k++) {
        mp_bound bound;
        if (options->stop && options->stop(options->data)) break;
        mp_part_clear(&part);
        MP_CHECK(
            mp_part_init(&part, graph, graph->n_nodes * k / n_parts, graph->n_nodes * (k + 1) / n_parts, false, number, err));
        mp_bound_report_init(&report);
        MP_CHECK(mp_bound_within(part.graph, budget_bytes, &own, &bound, err));
        for (int s = 0; s < MP_BOUND_N_STAGES; s++) mp_bound_work_add(work, &report.stages[s].work);
        *ticks += bound.infeasible ? 0 : bound.ticks - report.least_ticks;
        *infeasible = bound.infeasible;
        mp_bound_report_clear(&report);
    }
    return MP_OK;
}

/* For large graphs whose storages have short lifetimes: adds up the bounds of separate parts of the node list. */
static mp_status run_parts(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                           mp_error *err)
{
    mp_bound_work work = {0};
    int64_t ticks;
    bool infeasible;
    MP_CHECK(mp_bound_of_parts(graph, budget_bytes, MP_BOUND_PART_NODES, options, &ticks, &infeasible, &work, err));
    report_stage(options->report, MP_BOUND_DISJOINT, ticks, infeasible, &work);
    if (ticks <= bound->ticks && !infeasible) return MP_OK;
    bound->stage = MP_BOUND_DISJOINT;
    bound->from = bound->to = -1;
    bound->infeasible = infeasible;
    bound->multiplier = 0;
    bound->ticks = ticks;
    return MP_OK;
}

/* Returns the ticks for which an alternative occupies the compute channel. */
static int64_t compute_ticks(const mp_alternative *alternative)
{
    return alternative->channel <= MP_CHANNEL_SECOND_STREAM ? alternative->ticks : 0;
}

/* Returns the ticks of running every node once, each in the fastest alternative that is possible for its first run. */
static int64_t least_ticks(const mp_graph *graph)
{
    int64_t sum = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        int64_t least = compute_ticks(&node->alternatives[0]);
        for (size_t k = 1; k < node->n_alternatives; k++)
            if (compute_ticks(&node->alternatives[k]) < least && !node->alternatives[k].returns)
                least = compute_ticks(&node->alternatives[k]);
        sum += node->flags & MP_NODE_OPTIONAL ? 0 : least;
    }
    return sum;
}

/* Computes the floor. Sets bound->infeasible if the floor exceeds the budget. */
static mp_status check_floor(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                             mp_error *err)
{
    const mp_bound_work none = {0};
    int64_t floor_bytes;
    mp_floor_reason reason;
    if (!mp_bound_is_on(options, MP_BOUND_FLOOR)) return MP_OK;
    MP_CHECK(mp_problem_floor(problem, &floor_bytes, &reason, err));
    bound->infeasible = budget_bytes < floor_bytes;
    report_stage(options->report, MP_BOUND_FLOOR, 0, bound->infeasible, &none);
    if (!bound->infeasible) return MP_OK;
    bound->stage = MP_BOUND_FLOOR;
    bound->from = reason.node;
    return MP_OK;
}

/* Runs all stages of the bound except the floor, which check_floor computes. */
static mp_status run_stages(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, mp_bound *bound,
                            mp_error *err)
{
    const mp_graph *graph = order->graph;
    int64_t first_ticks = 0;
    if (mp_bound_is_on(options, MP_BOUND_INTERVAL))
        MP_CHECK(run_passes(order, budget_bytes, options, bound, &first_ticks, err));
    if (!bound->infeasible && mp_graph_is_local(graph) && mp_bound_is_on(options, MP_BOUND_DISJOINT))
        MP_CHECK(run_parts(graph, budget_bytes, options, bound, err));
    if (!bound->infeasible && options->effort > 0 && options->any_order && order->n <= BOUND_SETTLE_NODES &&
        order->only_vertex < 0 && mp_bound_is_on(options, MP_BOUND_SETTLE))
        MP_CHECK(run_settle(graph, budget_bytes, options, first_ticks, bound, err));
    if (!bound->infeasible && options->effort >= BOUND_DEMAND_EFFORT && mp_bound_is_on(options, MP_BOUND_DEMAND))
        MP_CHECK(run_demand(order, budget_bytes, options, bound, err));
    return explain(order, budget_bytes, options, bound, err);
}

/* Bounds the makespan by the nodes on channels other than compute. In every plan, some compute nodes must run before such a
 * node, and others after it. Their ticks bound its begin and the time after its end. */
static mp_status run_channels(mp_problem *problem, int64_t least, const mp_bound_options *options, mp_bound *bound,
                              mp_error *err)
{
    const mp_bound_work none = {0};
    const mp_precedence *order;
    int64_t ticks;
    if (mp_problem_graph(problem)->n_tiers > 1) return MP_OK;
    MP_CHECK(mp_problem_order(problem, !options->any_order, &order, err));
    MP_CHECK(mp_bound_channels(order, &ticks, err));
    report_stage(options->report, MP_BOUND_CHANNELS, ticks > least ? ticks - least : 0, false, &none);
    if (ticks <= least) return MP_OK;
    bound->ticks = ticks - least;
    bound->stage = MP_BOUND_CHANNELS;
    return MP_OK;
}

mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err)
{
    const mp_bound_options defaults = {.effort = 4};
    const mp_bound_work none = {0};
    const mp_precedence *order;
    if (!options) options = &defaults;
    mp_bound bound = {.orders = options->any_order ? MP_BOUND_ANY_ORDER : MP_BOUND_THIS_ORDER, .from = -1, .to = -1};
    report_stage(options->report, MP_BOUND_NODES, 0, false, &none);
    MP_CHECK(check_floor(problem, budget_bytes, options, &bound, err));
    /* copies can move storages off the device, but these proofs assume that every live storage is on the device */
    if (!bound.infeasible && !mp_problem_graph(problem)->has_copies) {
        MP_CHECK(mp_problem_order(problem, !options->any_order, &order, err));
        MP_CHECK(run_stages(order, budget_bytes, options, &bound, err));
    }
    const int64_t least = least_ticks(mp_problem_graph(problem));
    if (!bound.infeasible && mp_problem_graph(problem)->has_copies && mp_bound_is_on(options, MP_BOUND_CHANNELS))
        MP_CHECK(run_channels(problem, least, options, &bound, err));
    bound.ticks = least + (bound.infeasible ? 0 : bound.ticks);
    if (options->report) options->report->least_ticks = least;
    *out = bound;
    return MP_OK;
}

mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    MP_CHECK(mp_problem_new(graph, &problem, err));
    return mp_bound_of(problem, budget_bytes, options, out, err);
}

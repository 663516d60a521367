/* bound.c - the stages of the bound: one interval, a chain of intervals, each of them searched, all of them together; and what
 * is wanted at the last boundaries, followed exactly. */
#include "planner/bound/interval/bound.h"

#include "estimator/base/memory.h"
#include "planner/bound/bound_demand.h"
#include "planner/bound/interval/bound_branch.h"
#include "planner/bound/overlap/bound_select.h"
#include "planner/floor/floor.h"

enum { BRANCHINGS = 64, NEXT_STAGE = 2, NARROWS = 3, LEAST_DEMAND = 2 };

/* The ticks of the best chain, each of its intervals searched on its own; or of its intervals coupled, or overlapping, if that
 * is more. */
static mp_status add_up(mp_bound_chain *c, mp_bound_selection *selection, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    int *nodes = NULL, n = 0;
    int64_t branched = 0;
    *ticks = 0;
    if (c->first < 0 || c->infeasible) return MP_OK;
    *ticks = c->rest[c->first];
    if (mp_bound_chain_ended(c) || c->options.effort <= 0) return MP_OK;
    nodes = mp_alloc((size_t)c->n + MP_BOUND_MOST_SPLITS, sizeof *nodes);
    MP_REQUIRE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    for (int i = c->first; i >= 0; i = c->next[i]) {
        mp_bound_value value;
        nodes[n++] = mp_bound_chain_node(c, i);
        mp_bound_interval_start(c->interval, mp_bound_chain_node(c, i));
        mp_bound_interval_end(c->interval, c->next[i] < 0 ? -1 : mp_bound_chain_node(c, c->next[i]));
        MP_TRY(mp_bound_branch(c->interval, (int64_t)BRANCHINGS * c->options.effort, &c->options, &value, err));
        c->infeasible = c->infeasible || value.infeasible;
        branched += value.ticks;
    }
    if (!mp_bound_chain_ended(c)) MP_TRY(mp_bound_split(c, nodes, &n, ticks, err));
    if (branched > *ticks) *ticks = branched;
    if (!mp_bound_chain_ended(c)) MP_TRY(mp_bound_select(c, nodes, n, selection, ticks, err));
done:
    mp_free(nodes);
    return st;
}

/* One stage: all that an effort of so much is worth, of what comes before the first run of node `until` (-1: of all). */
static mp_status bound_stage(const mp_precedence *order, int64_t budget_bytes, int effort, const mp_bound_options *options,
                             int until, mp_bound_selection *selection, int64_t *ticks, bool *infeasible, mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_options own = *options;
    mp_bound_chain *c = NULL;
    own.effort = effort;
    MP_TRY(mp_bound_chain_new(order, budget_bytes, &own, until, &c, err));
    MP_TRY(add_up(c, selection, ticks, err));
    *infeasible = c->infeasible;
done:
    mp_bound_chain_free(c);
    return st;
}

/* The best of the stages up to the effort, so that more effort never gives less. */
static mp_status bound_order(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int64_t *ticks,
                             bool *infeasible, mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_selection selection = {0};
    const int most = order->only_vertex >= 0 ? 0 : options->effort;
    for (int stage = most > 0; stage <= most && !*infeasible; stage *= NEXT_STAGE) {
        int64_t found = 0;
        selection.thorough = stage > 1 && stage > most / NEXT_STAGE;
        MP_TRY(bound_stage(order, budget_bytes, stage, options, -1, &selection, &found, infeasible, err));
        if (found > *ticks) *ticks = found;
        if (!stage || stage > most / NEXT_STAGE) break;
    }
done:
    mp_bound_selection_clear(&selection);
    return st;
}

/* What comes before some boundaries where little can be held is bounded as above, what comes after them exactly. */
static mp_status bound_demand(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int64_t *ticks,
                              mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_demand *d = NULL;
    int nodes[NARROWS];
    bool promising = false, infeasible;
    MP_TRY(mp_bound_demand_new(order, budget_bytes, options, &d, err));
    if (d) MP_TRY(mp_bound_demand_is_promising(d, *ticks, &promising, err));
    if (!promising) goto done;
    for (int n = mp_bound_demand_narrows(d, nodes, NARROWS), k = 0; k < n; k++) {
        mp_bound_selection selection = {0};
        int64_t before = 0;
        st = bound_stage(order, budget_bytes, options->effort, options, nodes[k], &selection, &before, &infeasible, err);
        mp_bound_selection_clear(&selection);
        if (st != MP_OK) goto done;
        mp_bound_demand_before(d, nodes[k], before);
    }
    MP_TRY(mp_bound_demand_search(d, ticks, err));
done:
    mp_bound_demand_free(d);
    return st;
}

mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_options defaults = {.effort = 4};
    if (!options) options = &defaults;
    mp_precedence *order = NULL;
    int64_t floor_bytes, extra = 0;
    int floor_node;
    mp_bound bound = {.covers = options->any_order ? "any-order" : "this-order"};
    for (size_t i = 0; i < graph->n_nodes; i++) {
        int64_t least = graph->nodes[i].forms[0].ticks;
        for (size_t k = 1; k < graph->nodes[i].n_forms; k++)
            if (graph->nodes[i].forms[k].ticks < least) least = graph->nodes[i].forms[k].ticks;
        bound.ticks += least;
    }
    MP_TRY(mp_floor(graph, &floor_bytes, &floor_node, err));
    bound.infeasible = budget_bytes < floor_bytes;
    if (!bound.infeasible) {
        MP_TRY(mp_precedence_new(graph, !options->any_order, &order, err));
        MP_TRY(bound_order(order, budget_bytes, options, &extra, &bound.infeasible, err));
        if (!bound.infeasible && options->effort >= LEAST_DEMAND)
            MP_TRY(bound_demand(order, budget_bytes, options, &extra, err));
        if (!bound.infeasible) bound.ticks += extra;
    }
    *out = bound;
done:
    mp_precedence_free(order);
    return st;
}

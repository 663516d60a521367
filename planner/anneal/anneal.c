/* anneal.c - the rounds of simulated annealing, and the starting order of each round.
 *
 * Every round runs two walks in parallel. The next round starts from the better of the two resulting orders.
 * - REPAIR: a short round at low temperatures, which stays near its starting order.
 * - STRAY: short rounds in which the second walk starts at a higher temperature. STRAY rounds repeat while each gains enough.
 * - EXPLORE: a long round at the temperatures of STRAY.
 * - COOL: the last round, in which the temperature falls until only improvements are accepted.
 *
 * Short rounds find almost all of the gain. With normal effort all rounds are short, unless no plan is known yet. In that case
 * two walks towards smaller peaks run first. If their orders still need far more than the budget, the search ends. Large local
 * graphs are annealed window by window (anneal.h). Source: Kirkpatrick, Gelatt and Vecchi 1983.
 */
#include "planner/search/searchers.h"

#include <stdlib.h>

#include "planner/anneal/anneal.h"
#include "planner/math/tuning.h"
#include "planner/order/updates.h"
#include "planner/order/waits.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    ANNEAL_COPIES_FEWER = 2,         /* searches of graphs with copies make 1/2 of the normal moves */
    ANNEAL_LEAST_MOVES = 2000,       /* least number of moves of a search */
    ANNEAL_NODES_PER_MOVE = 2,       /* the moves per offer are the nodes of the graph divided by 2 */
    ANNEAL_DESCENT_WORK = 100000000, /* descent (lowers the peak until a first plan fits): limit of moves times nodes */
    ANNEAL_DESCENT_MOVES = 300000,   /* most moves of a descent walk */
    ANNEAL_DESCENT_SMALL = 64,       /* graphs of up to 64 nodes are searched on after any descent */
};
static const double ANNEAL_COOL_HOT = 1.3;          /* first temperature of round 3 of a search */
static const double ANNEAL_REPAIR_HOT = 1.5;        /* first temperature of round 1 of a search */
static const double ANNEAL_DESCENT_HOT = 4;         /* descent: temperature of walk 1 */
static const double ANNEAL_DESCENT_COOLER = 1;      /* descent: temperature of walk 2 */
static const double ANNEAL_DESCENT_STEP = 0.01;     /* part of the peak by which descent walk 1 lowers its limit */
static const double ANNEAL_DESCENT_SMALLER = 0.003; /* part of the peak by which descent walk 2 lowers its limit */
static const double ANNEAL_COOL_SHARE = 0.25;       /* part of the moves for round 3, which descends to a local optimum */

enum { WALKS = MP_ANNEAL_WALKS };
enum { REPAIR, STRAY, EXPLORE, COOL, N_ROUNDS };

/* The settings of one kind of round. Temperatures are multiples of the median ticks of a forward node. While no plan is known,
 * every walk starts at the temperature `lost` instead of `hot`. */
typedef struct round {
    double share, hot[WALKS], lost, cold;
} round;

static round round_of(int kind)
{
    switch (kind) {
    case REPAIR:
        return (round){
            MP_ANNEAL_REPAIR_SHARE, {ANNEAL_REPAIR_HOT, ANNEAL_REPAIR_HOT}, ANNEAL_REPAIR_HOT, MP_ANNEAL_REPAIR_COLD};
    case STRAY:
        return (round){MP_ANNEAL_REPAIR_SHARE,
                       {MP_ANNEAL_EXPLORE_HOT, MP_ANNEAL_EXPLORE_HOTTER},
                       MP_ANNEAL_EXPLORE_LOST,
                       MP_ANNEAL_REPAIR_COLD};
    case EXPLORE:
        return (round){MP_ANNEAL_EXPLORE_SHARE,
                       {MP_ANNEAL_EXPLORE_HOT, MP_ANNEAL_EXPLORE_HOTTER},
                       MP_ANNEAL_EXPLORE_LOST,
                       MP_ANNEAL_EXPLORE_COLD};
    default:
        return (round){ANNEAL_COOL_SHARE, {ANNEAL_COOL_HOT, ANNEAL_COOL_HOT}, ANNEAL_COOL_HOT, MP_ANNEAL_COOL_COLD};
    }
}

typedef struct annealing {
    mp_search *search;
    mp_anneal_walk walks[WALKS];
    /* the order from which the next round starts: the order of the best plan, or the order with the smallest peak as long as no
     * plan is known */
    mp_anneal_order best;
    int64_t least_bytes; /* peak bytes of the order with the smallest peak, without static bytes */
    atomic_bool stop;
    _Atomic int64_t enough; /* a walk ends when its order takes at most this lower bound; in ticks, updates not counted */
    int64_t update_ticks;
    bool is_lost; /* true if the only known plan was found by run_descent: two walks towards smaller peaks */
    double unit;
    int64_t n_moves;
    double shares; /* sum of the time shares (field `share`) of all annealing rounds that are still to run */
    int n_rounds;  /* number of finished rounds */
} annealing;

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sets *unit to the median of the forward nodes' ticks. */
static mp_status find_unit(const mp_graph *g, double *unit, mp_error *err)
{
    size_t n = 0;
    MP_OWNED int64_t *ticks = mp_alloc(g->n_nodes, sizeof *ticks);
    MP_ENSURE(ticks, err, MP_NOMEM, "out of memory for %zu nodes", g->n_nodes);
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[k].phase == MP_PHASE_FORWARD && g->nodes[k].alternatives[0].ticks > 0)
            ticks[n++] = g->nodes[k].alternatives[0].ticks;
    qsort(ticks, n, sizeof *ticks, by_value);
    *unit = n ? (double)ticks[n / 2] : 1;
    return MP_OK;
}

static mp_status offer(mp_search *search, const mp_anneal_order *found, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    MP_CHECK(mp_updates_place_within(request->graph, found->steps, found->n, request->budget_bytes, &steps, &n, err));
    MP_CHECK(mp_waits_hide_updates(request->graph, steps, (int)n, request->budget_bytes, err));
    return mp_search_offer(search, steps, n, NULL, NULL, err);
}

/* True if the graph is so large that the time limit only suffices for the last round (COOL). */
static bool is_large(const mp_request *request)
{
    return request->graph->n_nodes > MP_LARGE_GRAPH_NODES;
}

/* True if the best plan is so close to the bound that another round is not worth its time. The distance between them must be at
 * most a thousandth of the bound. It must also be at most a thirtieth of the plan's extra ticks (beyond one run of each node).
 * Always false for small graphs. */
static bool is_close(mp_search *search)
{
    const int64_t ticks = mp_search_best_ticks(search);
    if (mp_search_request(search)->graph->n_nodes <= MP_ANNEAL_CLOSE_NODES || ticks == INT64_MAX) return false;
    mp_search_await_proof(search);
    const int64_t enough = mp_search_proved(search), gap = ticks - enough;
    return gap <= enough / MP_ANNEAL_CLOSE_OF_STEP &&
           gap <= (ticks - mp_search_baseline_ticks(search)) / MP_ANNEAL_CLOSE_OF_EXTRA;
}

/* Returns the number of moves per walk. A small graph gets many moves, because each takes little time. A large graph gets as
 * many as fit into a second or two. */
static int64_t count_moves(const mp_search *search)
{
    const mp_request *request = mp_search_request(search);
    const int64_t n_nodes = (int64_t)request->graph->n_nodes, per_offer = n_nodes / ANNEAL_NODES_PER_MOVE;
    int64_t n = mp_search_moves(search) * (per_offer < MP_ANNEAL_MOVES_PER_OFFER ? per_offer : MP_ANNEAL_MOVES_PER_OFFER);
    if (request->moves <= 0 && is_large(request) && n > MP_ANNEAL_WORK / n_nodes) n = MP_ANNEAL_WORK / n_nodes;
    if (request->graph->has_copies) n /= ANNEAL_COPIES_FEWER;
    return n < ANNEAL_LEAST_MOVES ? ANNEAL_LEAST_MOVES : n;
}

static mp_status start_from_best(annealing *a, mp_error *err)
{
    const mp_step *steps;
    size_t n;
    mp_search_best(a->search, &steps, &n);
    return mp_anneal_order_copy(&a->best, steps, n, INT64_MAX, err);
}

static mp_status begin_annealing(annealing *a, mp_error *err)
{
    const mp_request *request = mp_search_request(a->search);
    MP_CHECK(find_unit(request->graph, &a->unit, err));
    a->n_moves = count_moves(a->search);
    for (size_t k = 0; k < request->graph->n_nodes; k++) {
        const mp_node *node = &request->graph->nodes[k];
        if (node->phase == MP_PHASE_UPDATE) a->update_ticks += node->alternatives[0].ticks;
    }
    return start_from_best(a, err);
}

/* Sets the fields of a walk that are the same for all walks. The walks run from `elapsed` to `end`, which are fractions of the
 * time limit. */
static void set_walks(annealing *a, int n_rounds, double elapsed, double end)
{
    const mp_request *request = mp_search_request(a->search);
    for (int k = 0; k < WALKS; k++) {
        mp_anneal_walk *w = &a->walks[k];
        w->search = a->search;
        w->graph = request->graph;
        w->budget_bytes = request->budget_bytes;
        w->tier_bytes = request->tier_bytes;
        w->leads = !k;
        w->from = elapsed;
        w->end = end;
        w->stop = &a->stop;
        w->seed = (request->seed * WALKS + (uint64_t)k) * (N_ROUNDS + 1) + (uint64_t)n_rounds;
        w->keeps_order = request->keep_order;
        w->unit = a->unit;
        w->enough = &a->enough;
        w->update_ticks = a->update_ticks;
        w->start = &a->best;
        w->best.ticks = a->best.ticks;
    }
}

/* Stores the order with the smallest peak among walks that found no plan. */
static mp_status take_smallest(annealing *a, mp_error *err)
{
    for (int k = 0; k < WALKS; k++) {
        const mp_anneal_walk *w = &a->walks[k];
        if (w->smallest_bytes >= a->least_bytes) continue;
        a->least_bytes = w->smallest_bytes;
        MP_CHECK(mp_anneal_order_copy(&a->best, w->smallest.steps, w->smallest.n, INT64_MAX, err));
        MP_CHECK(offer(a->search, &a->best, err));
    }
    return MP_OK;
}

/* Finds a first plan by two walks towards smaller peaks. If the first walk (its `leads` is true) finds a plan, the second walk
 * ends. The second walk's plan counts only if the first walk found none. The plan found contains many recomputations. So later
 * rounds start from the order that was the starting order before these two walks. */
static mp_status run_descent(annealing *a, mp_error *err)
{
    static const double hot[WALKS] = {ANNEAL_DESCENT_HOT, ANNEAL_DESCENT_COOLER},
                        lowers[WALKS] = {ANNEAL_DESCENT_STEP, ANNEAL_DESCENT_SMALLER};
    const int64_t by_work = ANNEAL_DESCENT_WORK / (int64_t)mp_search_request(a->search)->graph->n_nodes,
                  most = by_work < ANNEAL_DESCENT_MOVES ? by_work : ANNEAL_DESCENT_MOVES;
    set_walks(a, N_ROUNDS, mp_search_elapsed(a->search), 1);
    for (int k = 0; k < WALKS; k++) {
        a->walks[k].lowers = lowers[k];
        a->walks[k].hot = hot[k];
        a->walks[k].n_moves = a->n_moves < most ? a->n_moves : most;
    }
    MP_CHECK(mp_anneal_walk_all(a->walks, WALKS, err));
    for (int k = 0; k < WALKS; k++) {
        const mp_anneal_order *found = &a->walks[k].best;
        if (found->ticks == INT64_MAX) continue;
        MP_CHECK(offer(a->search, found, err));
        a->is_lost = true;
        break;
    }
    if (!a->is_lost) MP_CHECK(take_smallest(a, err));
    atomic_store(&a->stop, mp_search_stopped(a->search));
    return MP_OK;
}

static mp_status run_round(annealing *a, int kind, mp_error *err)
{
    const round round = round_of(kind);
    const double elapsed = mp_search_elapsed(a->search);
    set_walks(a, a->n_rounds++, elapsed, elapsed + (1 - elapsed) * round.share / a->shares);
    for (int k = 0; k < WALKS; k++) {
        a->walks[k].lowers = 0;
        a->walks[k].hot = a->best.ticks == INT64_MAX ? round.lost : round.hot[k];
        a->walks[k].cold = round.cold;
        a->walks[k].n_moves = (int64_t)(round.share * (double)a->n_moves);
    }
    MP_CHECK(mp_anneal_walk_all(a->walks, WALKS, err));
    for (int k = 0; k < WALKS; k++) {
        const mp_anneal_order *found = &a->walks[k].best;
        if (found->ticks < a->best.ticks) MP_CHECK(mp_anneal_order_copy(&a->best, found->steps, found->n, found->ticks, err));
    }
    if (a->best.ticks == INT64_MAX) return take_smallest(a, err);
    return offer(a->search, &a->best, err);
}

/* True if the search will probably find no plan. No plan is known, and either the budget is proved infeasible or the order with
 * the smallest peak is far over the budget. */
static bool is_hopeless(const annealing *a)
{
    const mp_request *request = mp_search_request(a->search);
    const int64_t budget_bytes = request->budget_bytes - mp_graph_static_bytes(request->graph);
    if (mp_search_best_ticks(a->search) < INT64_MAX) return false;
    if (mp_search_is_infeasible(a->search)) return true;
    return request->graph->n_nodes > ANNEAL_DESCENT_SMALL &&
           (double)a->least_bytes > MP_ANNEAL_DESCENT_NEAR * (double)budget_bytes;
}

/* Returns the ticks of the best plan, or INT64_MAX if there is none. A plan found by run_descent does not count. */
static int64_t best_ticks(const annealing *a)
{
    return a->is_lost ? a->best.ticks : mp_search_best_ticks(a->search);
}

static bool is_over(annealing *a)
{
    return atomic_load(&a->stop) || mp_search_will_do(a->search) || is_close(a->search);
}

/* Runs one short round. Increments *n_idle if the round improves the best plan by less than the required gain, MP_EFFORT_GAIN
 * times the ticks of running each node once. */
static mp_status run_short(annealing *a, int kind, int *n_idle, mp_error *err)
{
    const int64_t before = best_ticks(a);
    const mp_status st = run_round(a, kind, err);
    const double enough = MP_EFFORT_GAIN * (double)mp_search_baseline_ticks(a->search);
    if (before < INT64_MAX && (double)(before - best_ticks(a)) < enough) ++*n_idle;
    return st;
}

/* Runs short rounds (REPAIR) as long as each reaches the required gain of run_short. With quick effort it runs only one
 * round. */
static mp_status repair(annealing *a, int *n_idle, mp_error *err)
{
    const int most = mp_search_effort(a->search) == MP_EFFORT_QUICK ? 1 : MP_EFFORT_ROUNDS;
    const double asked = mp_search_request(a->search)->gap, gap = asked > 0 ? asked : MP_EFFORT_GAP;
    for (int k = 0; k < most && !*n_idle && !is_over(a); k++) {
        if (k && mp_search_is_within(a->search, gap)) break;
        MP_CHECK(run_short(a, k ? STRAY : REPAIR, n_idle, err));
        a->shares -= round_of(REPAIR).share;
    }
    return MP_OK;
}

static void clear_order(mp_anneal_order *order)
{
    mp_free(order->steps);
}

/* Runs further short rounds (STRAY) if the best plan is far from the bound, because another local minimum may be better. The
 * later EXPLORE and COOL rounds start from the order that was best before these rounds. For graphs with copies the bound is
 * weaker, so a larger distance from the bound is required. */
static mp_status stray(annealing *a, int n_idle, mp_error *err)
{
    MP_CLEARED_BY(clear_order) mp_anneal_order start = {0};
    const int n_rounds = a->n_rounds;
    const bool copies = mp_search_request(a->search)->graph->has_copies && mp_search_effort(a->search) != MP_EFFORT_THOROUGH;
    const bool is_blind = copies && mp_search_enough(a->search) <= mp_search_baseline_ticks(a->search);
    const double far = copies ? MP_EFFORT_FAR_COPIES : MP_EFFORT_FAR;
    if (mp_search_effort(a->search) == MP_EFFORT_QUICK || is_blind || a->best.ticks == INT64_MAX) return MP_OK;
    MP_CHECK(mp_anneal_order_copy(&start, a->best.steps, a->best.n, a->best.ticks, err));
    for (int k = 0; k < MP_EFFORT_FAR_ROUNDS && n_idle < MP_EFFORT_PATIENCE && !is_over(a); k++) {
        if (mp_search_is_within(a->search, far)) break;
        MP_CHECK(run_short(a, STRAY, &n_idle, err));
    }
    a->n_rounds = n_rounds;
    return mp_anneal_order_copy(&a->best, start.steps, start.n, start.ticks, err);
}

/* True if the plan found by the short rounds is so close to the bound that annealing can stop. */
static bool will_do(annealing *a)
{
    return mp_search_effort(a->search) != MP_EFFORT_THOROUGH && best_ticks(a) < INT64_MAX;
}

static void clear(annealing *a)
{
    for (int k = 0; k < WALKS; k++) {
        clear_order(&a->walks[k].best);
        clear_order(&a->walks[k].smallest);
    }
    clear_order(&a->best);
}

mp_status mp_run_anneal(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_CLEARED_BY(clear) annealing a = {.search = search, .best.ticks = INT64_MAX, .least_bytes = INT64_MAX};
    const bool only_cools = request->refine || is_large(request);
    if (request->budget_bytes == MP_NO_LIMIT || mp_search_settled(search)) return MP_OK;
    MP_CHECK(begin_annealing(&a, err));
    if (mp_anneal_has_windows(request->graph)) return mp_anneal_windows(search, a.unit, err);
    if (mp_search_best_ticks(search) == INT64_MAX) MP_CHECK(run_descent(&a, err));
    if (is_hopeless(&a)) return MP_OK;
    a.shares = round_of(COOL).share;
    if (!only_cools) {
        a.shares += MP_EFFORT_ROUNDS * round_of(REPAIR).share + round_of(EXPLORE).share;
        int n_idle = 0;
        MP_CHECK(repair(&a, &n_idle, err));
        MP_CHECK(stray(&a, n_idle, err));
        if (will_do(&a)) return MP_OK;
        a.shares = round_of(EXPLORE).share + round_of(COOL).share;
        const bool had_none = a.best.ticks == INT64_MAX;
        if (!is_over(&a)) MP_CHECK(run_round(&a, EXPLORE, err));
        /* without a plan, the first EXPLORE round only finds one, so a second EXPLORE round improves it */
        if (had_none && !is_over(&a)) MP_CHECK(run_round(&a, EXPLORE, err));
        a.shares -= round_of(EXPLORE).share;
    }
    if (a.is_lost && a.best.ticks == INT64_MAX) MP_CHECK(start_from_best(&a, err));
    return is_over(&a) ? MP_OK : run_round(&a, COOL, err);
}

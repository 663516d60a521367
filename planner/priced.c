/* priced.c - stored or made again, for all outputs at once: minimum cuts with memory priced, and a sweep of segments.
 *
 * 1. One price, at the turn, is bisected until what lies there then just fits.
 * 2. A price per stage: it rises where the schedule goes over the budget and falls where there is room (subgradient). This is
 * where what is made again meets what is stored.
 * 3. Segments (Chen et al. 2016), which make outputs again more than once, for budgets that no labels fit: the list is cut
 * where few bytes cross, at a sweep of sizes.
 *
 * Lagrange multipliers for memory: Everett 1963; labels by a cut: Picard 1976.
 */
#include "planner/priced.h"

#include <math.h>

#include "planner/boundaries.h"
#include "planner/solver.h"

enum { BISECTIONS = 16, ROUNDS = 80, WORK = 3000000 /* cuts by nodes */ };

typedef struct pricing {
    mp_search *search;
    mp_priced *problem;
    double *price;       /* per stage */
    int64_t *over_bytes; /* per stage: the most live bytes of its steps, less what the budget leaves */
    int64_t room_bytes;  /* what the budget leaves beside what is always live */
    int64_t best_ticks, smallest_bytes;
    int64_t n_cuts; /* left to make */
    int64_t ticks;  /* of the last schedule */
    bool fits;
} pricing;

static bool ended(pricing *x)
{
    return x->n_cuts <= 0 || mp_search_stopped(x->search);
}

/* Over the budget, or room left, of each stage: of its step and of what runs again just before. */
static void measure(pricing *x, const mp_timeline *timeline, const mp_step *steps)
{
    const mp_priced *p = x->problem;
    int stage = 0;
    for (int k = 0; k < p->n; k++) x->over_bytes[k] = -x->room_bytes;
    for (size_t t = 0; t < timeline->n_steps && stage < p->n; t++) {
        const int64_t over = timeline->live_bytes[t] - x->room_bytes;
        if (over > x->over_bytes[stage]) x->over_bytes[stage] = over;
        if (steps[t].node == p->node[stage]) stage++;
    }
}

/* The schedule of the cheapest labels for the prices; offered if it is of use. */
static mp_status try_prices(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    size_t n;
    const int64_t budget_bytes = mp_search_request(x->search)->budget_bytes;
    x->n_cuts--;
    mp_priced_label(x->problem, x->price);
    MP_TRY(mp_priced_schedule(x->problem, &steps, &n, err));
    MP_TRY(mp_timeline_build(x->problem->graph, steps, n, &timeline, err));
    measure(x, timeline, steps);
    x->ticks = timeline->ticks;
    x->fits = timeline->peak_bytes <= budget_bytes;
    if ((x->fits && x->ticks < x->best_ticks) || timeline->peak_bytes < x->smallest_bytes)
        MP_TRY(mp_search_offer(x->search, steps, n, NULL, NULL, err));
    if (x->fits && x->ticks < x->best_ticks) x->best_ticks = x->ticks;
    if (timeline->peak_bytes < x->smallest_bytes) x->smallest_bytes = timeline->peak_bytes;
done:
    mp_free(steps);
    mp_timeline_free(timeline);
    return st;
}

/* The least price at the turn for which what lies there fits; *out is the price. */
static mp_status bisect(pricing *x, double *out, mp_error *err)
{
    mp_status st = MP_OK;
    enum { DOUBLINGS = 40 };
    const mp_priced *p = x->problem;
    double low = 0, high = 1 / (p->scale * (double)(x->room_bytes > 1 ? x->room_bytes : 1)) * (double)(INT64_C(1) << 36);
    for (int k = 0; k < DOUBLINGS && !ended(x); k++) {
        x->price[p->turn] = high;
        MP_TRY(try_prices(x, err));
        if (x->over_bytes[p->turn] <= 0) break;
        low = high;
        high *= 4;
    }
    for (int k = 0; k < BISECTIONS && !ended(x); k++) {
        const double middle = low > 0 ? sqrt(low * high) : high / 16;
        x->price[p->turn] = middle;
        MP_TRY(try_prices(x, err));
        *(x->over_bytes[p->turn] > 0 ? &low : &high) = middle;
    }
    x->price[p->turn] = *out = high;
done:
    return st;
}

/* Prices rise at the worst stage of each stretch that is over the budget, and fall where there is room. */
static void move_prices(pricing *x, double unit, double step)
{
    const mp_priced *p = x->problem;
    for (int k = p->turn; k < p->n; k++) {
        const int64_t over = x->over_bytes[k];
        const bool is_worst = (k == p->turn || over >= x->over_bytes[k - 1]) && (k + 1 == p->n || over > x->over_bytes[k + 1]);
        if (over > 0 && !is_worst) continue;
        x->price[k] += unit * step * (double)over / (double)x->room_bytes;
        if (x->price[k] < 0) x->price[k] = 0;
    }
}

static mp_status descend(pricing *x, double unit, mp_error *err)
{
    mp_status st = MP_OK;
    if (x->room_bytes <= 0) return MP_OK;
    MP_TRY(try_prices(x, err));
    for (int k = 0; k < ROUNDS && !ended(x); k++) {
        move_prices(x, unit, 4 / sqrt(1 + k));
        MP_TRY(try_prices(x, err));
    }
done:
    return st;
}

static mp_status search_prices(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(x->search);
    const mp_graph *graph = request->graph;
    double unit = 0;
    MP_TRY(mp_priced_new(graph, &x->problem, err));
    x->price = mp_alloc(graph->n_nodes, sizeof *x->price);
    x->over_bytes = mp_alloc(graph->n_nodes, sizeof *x->over_bytes);
    MP_REQUIRE(x->price && x->over_bytes, err, MP_NOMEM, "out of memory for the prices of %s", graph->name);
    x->room_bytes = request->budget_bytes - mp_graph_static_bytes(graph);
    MP_TRY(bisect(x, &unit, err));
    MP_TRY(descend(x, unit, err));
done:
    mp_priced_free(x->problem);
    mp_free(x->price);
    mp_free(x->over_bytes);
    return st;
}

mp_status mp_run_priced(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    pricing x = {.search = search, .best_ticks = INT64_MAX, .smallest_bytes = INT64_MAX};
    if (request->budget_bytes == INT64_MAX || mp_search_settled(search)) return MP_OK;
    x.n_cuts = WORK / (int64_t)(request->graph->n_nodes + 1) + BISECTIONS;
    MP_TRY(search_prices(&x, err));
done:
    return st;
}

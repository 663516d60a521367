/* priced.c - stored or made again, for all outputs at once: minimum cuts with memory priced, and a sweep of segments.
 *
 * 1. One price, at the turn, is bisected until what lies there then just fits.
 * 2. A price per stage: it rises where the schedule goes over the budget and falls where there is room (subgradient). This is
 * where what is made again meets what is stored.
 * 3. Where little is stored, what is made again would be a long stretch at once. So the list is cut where few bytes cross, at
 * a sweep of sizes, what crosses is held, and prices decide about the rest.
 * 4. The same with everything else made again (Chen et al. 2016), which makes outputs again more than once, for budgets that no
 * labels fit.
 *
 * Lagrange multipliers for memory: Everett 1963; labels by a cut: Picard 1976.
 */
#include "planner/priced.h"

#include <math.h>

#include "planner/priced_segments.h"
#include "planner/solver.h"

enum { BISECTIONS = 16, ROUNDS = 80, WORK = 3000000 /* cuts by nodes */ };

typedef struct pricing {
    mp_search *search;
    mp_priced *problem;
    double *price;       /* per stage */
    int64_t *over_bytes; /* per stage: the most live bytes of its steps, less what the budget leaves */
    int64_t room_bytes;  /* what the budget leaves beside what is always live */
    int64_t best_ticks, smallest_bytes;
    double best_price; /* at the turn, of the best schedule */
    double fit_price;
    double spare;      /* the share of the room that prices leave empty, as labels come in lumps */
    int64_t n_cuts;    /* left to make */
    int64_t ticks;     /* of the last schedule */
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
    if (x->fits && x->ticks < x->best_ticks) {
        x->best_ticks = x->ticks;
        x->best_price = x->price[x->problem->turn];
    }
    if (timeline->peak_bytes < x->smallest_bytes) x->smallest_bytes = timeline->peak_bytes;
done:
    mp_free(steps);
    mp_timeline_free(timeline);
    return st;
}

/* Sets the least price at the turn for which what lies there fits. */
static mp_status bisect(pricing *x, mp_error *err)
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
    x->price[p->turn] = high;
done:
    return st;
}

/* Prices rise at the worst stage of each stretch that is over the budget, and fall where there is room. */
static void move_prices(pricing *x, double unit, double step)
{
    const mp_priced *p = x->problem;
    const int64_t spare_bytes = (int64_t)(x->spare * (double)x->room_bytes);
    for (int k = p->turn; k < p->n; k++) {
        const int64_t over = x->over_bytes[k] + spare_bytes;
        const bool is_worst = (k == p->turn || x->over_bytes[k] >= x->over_bytes[k - 1]) &&
                              (k + 1 == p->n || x->over_bytes[k] > x->over_bytes[k + 1]);
        if (over > 0 && !is_worst) continue;
        x->price[k] += unit * step * (double)over / (double)x->room_bytes;
        if (x->price[k] < 0) x->price[k] = 0;
    }
}

static mp_status descend(pricing *x, double unit, mp_error *err)
{
    mp_status st = MP_OK;
    const double MOST_SPARE = 0.3;
    if (x->room_bytes <= 0) return MP_OK;
    MP_TRY(try_prices(x, err));
    for (int k = 0; k < ROUNDS && !ended(x); k++) {
        move_prices(x, unit, 4 / sqrt(1 + k));
        MP_TRY(try_prices(x, err));
        if (x->fits)
            x->spare *= 0.7;
        else if (x->spare < MOST_SPARE)
            x->spare += 0.005;
    }
done:
    return st;
}

/* What making all outputs before the turn again takes, per byte. */
static double mean_price(const mp_priced *p)
{
    double ticks = 1, bytes = 1;
    for (int k = 0; k < p->turn; k++) ticks += (double)p->graph->nodes[p->node[k]].forms[0].ticks;
    for (size_t s = 0; s < p->graph->n_storages; s++)
        if (p->maker[s] >= 0) bytes += (double)p->graph->storages[s].bytes;
    return ticks / bytes;
}

/* What is left to gain is little, as far as is proved. */
static bool is_near(const pricing *x)
{
    const double enough = (double)mp_search_enough(x->search);
    return x->best_ticks < INT64_MAX && (double)x->best_ticks <= enough * 1.002;
}

/* ---- segments ---- */

/* The price at the turn that makes the schedule fit, by bisection: the cheapest labels beside what is held. */
static mp_status fit_segments(pricing *x, double price, mp_error *err)
{
    mp_status st = MP_OK;
    enum { STEPS = 14 };
    double low = 0, high = 0;
    x->fit_price = 0;
    for (int k = 0; k < x->problem->n; k++) x->price[k] = 0;
    for (int k = 0; k < STEPS && !ended(x); k++) {
        x->price[x->problem->turn] = price;
        MP_TRY(try_prices(x, err));
        *(x->fits ? &high : &low) = price;
        x->fit_price = high;
        price = low > 0 && high > 0 ? sqrt(low * high) : high > 0 ? high / 8 : low * 8;
    }
done:
    return st;
}

/* Prices once more for each size of segments, whose ends are held; then on from the size that did best. */
static mp_status sweep_sizes(pricing *x, mp_priced_segments *segments, double unit, mp_error *err)
{
    mp_status st = MP_OK;
    enum { SIZES = 16, SHARE = 75 }; /* percent of the size before */
    const mp_priced *p = x->problem;
    const int64_t whole_bytes = segments->size_bytes;
    int64_t size_bytes = 0;
    double price = 0;
    for (int i = 0; i < SIZES && !ended(x); i++) {
        const int64_t before = x->best_ticks;
        mp_priced_segments_cut(segments, SHARE);
        mp_priced_segments_hold(segments, x->problem);
        MP_TRY(fit_segments(x, unit, err));
        x->price[p->turn] = x->fit_price > 0 ? x->fit_price : unit;
        MP_TRY(descend(x, unit, err));
        if (x->best_ticks == before) continue;
        size_bytes = segments->size_bytes;
        price = x->best_price;
    }
    if (!size_bytes || ended(x)) goto done;
    segments->size_bytes = size_bytes;
    mp_priced_segments_cut(segments, 100);
    mp_priced_segments_hold(segments, x->problem);
    for (int k = 0; k < p->n; k++) x->price[k] = 0;
    x->price[p->turn] = price;
    MP_TRY(descend(x, unit, err));
done:
    segments->size_bytes = whole_bytes;
    return st;
}

/* Everything that crosses held, everything else made again, at once for each segment. */
static mp_status offer_segments(mp_search *search, mp_priced_segments *segments, mp_error *err)
{
    mp_status st = MP_OK;
    enum { SIZES = 60, SHARE = 88 }; /* percent of the size before */
    const mp_graph *graph = mp_search_request(search)->graph;
    const int64_t n_schedules = 1 + WORK / (int64_t)(graph->n_nodes + 1);
    const int stride = n_schedules >= SIZES ? 1 : (int)(SIZES / n_schedules);
    mp_step *steps = NULL;
    size_t n;
    for (int i = 0; i < SIZES && !mp_search_stopped(search); i++) {
        mp_priced_segments_cut(segments, SHARE);
        if (i % stride != stride - 1) continue;
        mp_free(steps);
        steps = NULL;
        MP_TRY(mp_boundaries_schedule(segments->boundaries, segments->ends, NULL, &steps, &n, err));
        MP_TRY(mp_search_offer(search, steps, n, NULL, NULL, err));
    }
done:
    mp_free(steps);
    return st;
}

static mp_status search_all(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(x->search);
    const mp_graph *graph = request->graph;
    const int64_t n_cuts = WORK / (int64_t)(graph->n_nodes + 1) + BISECTIONS;
    mp_priced_segments *segments = NULL;
    mp_error ignored = {0};
    MP_TRY(mp_priced_new(graph, &x->problem, err));
    const double unit = mean_price(x->problem);
    x->price = mp_alloc(graph->n_nodes, sizeof *x->price);
    x->over_bytes = mp_alloc(graph->n_nodes, sizeof *x->over_bytes);
    MP_REQUIRE(x->price && x->over_bytes, err, MP_NOMEM, "out of memory for the prices of %s", graph->name);
    x->room_bytes = request->budget_bytes - mp_graph_static_bytes(graph);
    x->n_cuts = n_cuts;
    MP_TRY(bisect(x, err));
    MP_TRY(descend(x, unit, err));
    st = mp_priced_segments_new(graph, &segments, &ignored);
    if (st == MP_NOT_APPLICABLE) {
        st = MP_OK;
        goto done;
    }
    MP_REQUIRE(st == MP_OK, err, st, "out of memory for the segments of %s", graph->name);
    x->n_cuts = is_near(x) ? 0 : n_cuts;
    if (!ended(x)) MP_TRY(sweep_sizes(x, segments, unit, err));
    MP_TRY(offer_segments(x->search, segments, err));
done:
    mp_priced_segments_free(segments);
    mp_priced_free(x->problem);
    mp_free(x->price);
    mp_free(x->over_bytes);
    return st;
}

mp_status mp_run_priced(mp_search *search, mp_error *err)
{
    pricing x = {.search = search, .best_ticks = INT64_MAX, .smallest_bytes = INT64_MAX};
    if (mp_search_request(search)->budget_bytes == INT64_MAX || mp_search_settled(search)) return MP_OK;
    return search_all(&x, err);
}

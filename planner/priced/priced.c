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
 * In large graphs a few segments are offered before all that, for who can't wait.
 *
 * Lagrange multipliers for memory: Everett 1963; labels by a cut: Picard 1976.
 */
#include "planner/priced/cut_labels.h"

#include <math.h>
#include <stdlib.h>

#include "planner/math/tuning.h"
#include "planner/priced/priced_segments.h"
#include "planner/search/solver.h"

typedef struct pricing {
    mp_search *search;
    mp_priced *problem;
    mp_priced_segments *segments;
    double *price;       /* per stage */
    int64_t *over_bytes; /* per stage: the most live bytes of its steps, less what the budget leaves */
    int64_t room_bytes;  /* what the budget leaves beside what is always live */
    int64_t best_ticks, smallest_bytes;
    double spare;   /* the share of the room that prices leave empty, as labels come in lumps */
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

/* Sets the least price at the turn for which what lies there fits. */
static mp_status bisect(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_priced *p = x->problem;
    double low = 0, high = 1 / (p->scale * (double)(x->room_bytes > 1 ? x->room_bytes : 1)) *
                           (double)(INT64_C(1) << MP_PRICED_FIRST_BITS);
    for (int k = 0; k < MP_PRICED_DOUBLINGS && !ended(x); k++) {
        x->price[p->turn] = high;
        MP_TRY(try_prices(x, err));
        if (x->over_bytes[p->turn] <= 0) break;
        low = high;
        high *= 4;
    }
    for (int k = 0; k < MP_PRICED_BISECTIONS && !ended(x); k++) {
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
    if (x->room_bytes <= 0) return MP_OK;
    x->spare = 0;
    MP_TRY(try_prices(x, err));
    for (int k = 0; k < MP_PRICED_ROUNDS && !ended(x); k++) {
        move_prices(x, unit, MP_PRICED_STEP / sqrt(1 + k));
        MP_TRY(try_prices(x, err));
        if (x->fits)
            x->spare *= MP_PRICED_SPARE_FALL;
        else if (x->spare < MP_PRICED_SPARE_MOST)
            x->spare += MP_PRICED_SPARE_RISE;
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

/* What is left to gain is little, as far as is proved; or the graph is so large that a plan will do. */
static bool is_near(const pricing *x)
{
    if (x->best_ticks < INT64_MAX && x->problem->graph->n_nodes > MP_PRICED_FIRST_PLAN_NODES) return true;
    const double enough = (double)mp_search_enough(x->search);
    return x->best_ticks < INT64_MAX && (double)x->best_ticks <= enough * MP_PRICED_NEAR;
}

/* ---- segments ---- */

/* A share of a size in percent, without overflow. */
static int64_t smaller(int64_t size, int percent)
{
    return size / 100 * percent + size % 100 * percent / 100;
}

/* A way to begin: the size of segments (INT64_MAX: none), the shape of the prices, and how high they are for the cheapest
 * schedule of that shape that fits (0: none does). */
typedef struct beginning {
    int64_t size_bytes;
    const double *shape;
    bool lets_go;
    double height;
    int64_t ticks; /* of that schedule */
} beginning;

static void set_prices(pricing *x, const beginning *b, double height)
{
    for (int k = 0; k < x->problem->n; k++) x->price[k] = height * b->shape[k];
}

static void hold(pricing *x, const beginning *b)
{
    mp_priced_segments_cut(x->segments, b->size_bytes);
    mp_priced_segments_hold(x->segments, x->problem);
    x->problem->lets_go = b->lets_go;
}

/* Finds how high the prices have to be. */
static mp_status fit(pricing *x, beginning *b, double height, mp_error *err)
{
    mp_status st = MP_OK;
    double low = 0, high = 0;
    b->ticks = INT64_MAX;
    hold(x, b);
    for (int k = 0; k < MP_PRICED_FITTING && !ended(x); k++) {
        set_prices(x, b, height);
        MP_TRY(try_prices(x, err));
        *(x->fits ? &high : &low) = height;
        if (x->fits && x->ticks < b->ticks) {
            b->ticks = x->ticks;
            b->height = height;
        }
        height = low > 0 && high > 0 ? sqrt(low * high) : high > 0 ? high / 8 : low * 8;
    }
done:
    return st;
}

static int by_ticks(const void *a, const void *b)
{
    const beginning *x = a, *y = b;
    if (x->ticks != y->ticks) return x->ticks < y->ticks ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    if (x->lets_go != y->lets_go) return x->lets_go < y->lets_go ? -1 : 1;
    return (x->shape > y->shape) - (x->shape < y->shape);
}

/* Prices of one of two shapes, all of it at the turn or as far as keep-all is over the budget, beside segments of many sizes,
 * whose ends are held; then subgradients from each of these, the best first. */
static mp_status sweep_sizes(pricing *x, double unit, mp_error *err)
{
    mp_status st = MP_OK;
    enum { WAYS = 4 }; /* two shapes, with and without letting go */
    const mp_priced *p = x->problem;
    beginning list[MP_PRICED_SIZES * WAYS] = {0};
    const int64_t n_sizes = 1 + x->n_cuts / (2 * MP_PRICED_FITTING * WAYS); /* half of the cuts to find where to begin */
    const int stride = n_sizes >= MP_PRICED_SIZES ? 1 : (int)(MP_PRICED_SIZES / n_sizes);
    int n = 0;
    double *turn = mp_alloc(2 * (size_t)p->n, sizeof *turn), *over = turn + p->n, sum = 0;
    MP_REQUIRE(turn, err, MP_NOMEM, "out of memory for the prices of %d nodes", p->n);
    for (int k = 0; k < p->n; k++) x->price[k] = 0;
    MP_TRY(try_prices(x, err));
    for (int k = p->turn; k < p->n; k++) sum += x->over_bytes[k] > 0 ? (double)x->over_bytes[k] : 0;
    for (int k = p->turn; k < p->n; k++) over[k] = x->over_bytes[k] > 0 ? (double)x->over_bytes[k] / sum : 0;
    turn[p->turn] = 1;
    for (int64_t i = 0, size = x->segments->total_bytes; i < MP_PRICED_SIZES; i++, size = smaller(size, MP_PRICED_SIZE_SHARE))
        for (int k = 0; k < WAYS && i % stride == 0 && !ended(x); k++) {
            list[n] = (beginning){.size_bytes = i ? size : INT64_MAX, .shape = k % 2 ? over : turn, .lets_go = k / 2};
            MP_TRY(fit(x, &list[n++], unit, err));
        }
    qsort(list, (size_t)n, sizeof *list, by_ticks);
    for (int i = 0; i < n && !ended(x); i++) {
        hold(x, &list[i]);
        set_prices(x, &list[i], list[i].height > 0 ? list[i].height : unit);
        MP_TRY(descend(x, unit, err));
    }
done:
    mp_free(turn);
    return st;
}

/* Everything that crosses held, everything else made again, at once for each segment. */
static mp_status offer_segments(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_priced_segments *segments = x->segments;
    const int64_t n_schedules = 1 + MP_PRICED_WORK / (int64_t)(x->problem->graph->n_nodes + 1);
    const int stride = n_schedules >= MP_PRICED_SEGMENT_SIZES ? 1 : (int)(MP_PRICED_SEGMENT_SIZES / n_schedules);
    int64_t size = segments->total_bytes;
    mp_step *steps = NULL;
    size_t n;
    for (int i = 0; i < MP_PRICED_SEGMENT_SIZES && !mp_search_stopped(x->search); i++) {
        size = smaller(size, MP_PRICED_SEGMENT_SHARE);
        if (i % stride != stride - 1) continue;
        mp_priced_segments_cut(x->segments, size);
        mp_free(steps);
        steps = NULL;
        MP_TRY(mp_boundaries_schedule(segments->boundaries, segments->ends, NULL, &steps, &n, err));
        MP_TRY(mp_search_offer(x->search, steps, n, NULL, NULL, err));
    }
done:
    mp_free(steps);
    return st;
}

mp_status mp_run_priced_first(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    mp_priced_segments *segments = NULL;
    mp_step *steps = NULL;
    size_t n;
    mp_error ignored = {0};
    int64_t peak_bytes = INT64_MAX;
    if (request->budget_bytes == INT64_MAX) return MP_OK;
    st = mp_priced_segments_new(request->graph, &segments, &ignored);
    if (st == MP_NOT_APPLICABLE) return MP_OK;
    MP_REQUIRE(st == MP_OK, err, st, "out of memory for the segments of %s", request->graph->name);
    for (int64_t k = 1, size = segments->total_bytes / 2; k <= MP_PRICED_FIRST_SIZES && peak_bytes > request->budget_bytes;
         k++, size /= 2) {
        mp_priced_segments_cut(segments, size);
        mp_free(steps);
        steps = NULL;
        MP_TRY(mp_boundaries_schedule(segments->boundaries, segments->ends, NULL, &steps, &n, err));
        MP_TRY(mp_search_offer(search, steps, n, &peak_bytes, NULL, err));
    }
done:
    mp_free(steps);
    mp_priced_segments_free(segments);
    return st;
}

static mp_status search_all(pricing *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(x->search);
    const mp_graph *graph = request->graph;
    const int64_t suits = MP_PRICED_WORK / (int64_t)(graph->n_nodes + 1) + MP_PRICED_BISECTIONS,
                  moves = mp_search_moves(x->search);
    const int64_t n_cuts = suits < moves ? suits : moves;
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
    st = mp_priced_segments_new(graph, &x->segments, &ignored);
    if (st == MP_NOT_APPLICABLE) {
        st = MP_OK;
        goto done;
    }
    MP_REQUIRE(st == MP_OK, err, st, "out of memory for the segments of %s", graph->name);
    x->n_cuts = is_near(x) ? 0 : 2 * n_cuts;
    if (!ended(x)) MP_TRY(sweep_sizes(x, unit, err));
    MP_TRY(offer_segments(x, err));
done:
    mp_priced_segments_free(x->segments);
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

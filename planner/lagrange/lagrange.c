/* lagrange.c - the searcher `lagrange`: Lagrangian relaxation of the memory constraint. For given multipliers, a minimum cut
 * decides which storages are kept and which are recomputed. The multipliers are then adjusted. The timeline judges the schedule
 * of each cut. The search has four phases:
 *
 * 1. A single multiplier, at the end of forward, is bisected until the storages that are live there just fit.
 * 2. A multiplier per stage rises where the schedule exceeds the budget and falls where memory is free (subgradient). So each
 *    stage has its own price of memory.
 * 3. If few storages are kept, one recomputation extends over many nodes and needs much memory. So the node list is cut into
 *    segments at positions that few bytes cross, with several segment sizes. Storages that cross an end of a segment are kept.
 *    Multipliers decide about all other storages.
 * 4. Last, segments are tried in which everything is recomputed (Chen et al. 2016), some of it more than once. They serve
 *    budgets for which minimum cuts find no plan.
 *
 * On large graphs mp_run_lagrange_first offers a segment schedule first, so that an early stop has a plan.
 *
 * Sources: multipliers for constrained resources, Everett 1963; decisions by a minimum cut, Picard 1976; subgradients, Polyak
 * 1967. */
#include "planner/search/searchers.h"

#include <math.h>
#include <stdlib.h>

#include "estimator/base/integers.h"
#include "planner/lagrange/lagrange.h"
#include "planner/math/tuning.h"
#include "planner/order/boundaries.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LAGRANGE_DOUBLINGS = 40,     /* most doublings of the multiplier, one minimum cut each, until memory suffices */
    LAGRANGE_FIRST_BITS = 36,    /* the first multiplier is 2^36 scaled ticks for all free bytes */
    LAGRANGE_FITTING = 12,       /* minimum cuts that scale one series of multipliers until its plan fits */
    LAGRANGE_SIZES = 20,         /* segment sizes for which the ends of segments are kept */
    LAGRANGE_SIZE_SHARE = 78,    /* each segment size in % of the previous one */
    LAGRANGE_SEGMENT_SHARE = 88, /* each segment size tried without multipliers, in % of the previous one */
    LAGRANGE_BISECTIONS = 16,    /* most minimum cuts of the bisection of the multiplier at the end of forward */
    LAGRANGE_ROUNDS = 80,        /* most iterations of a subgradient search for the multipliers */
    LAGRANGE_SEGMENT_SIZES = 60, /* segment sizes tried without multipliers */
};
static const double LAGRANGE_STEP =
    4; /* first step length of the subgradients: multiple of ticks per byte of recomputing all */
static const double LAGRANGE_NEAR = 1.003; /* segments are tried only if the best time exceeds this multiple of the bound */

typedef struct segment_list {
    mp_pool *pool; /* owns all arrays */
    mp_boundaries *boundaries;
    int64_t *produced_bytes; /* per position in the forward list: bytes of the outputs of its node */
    int64_t total_bytes;     /* sum of produced_bytes */
    /* per position: true if a segment ends at this position, as set by the last call of cut_segments */
    bool *ends;
    int *n_ends; /* scratch, per position: number of ends of segments before the position */
} segment_list;

static void free_segments(segment_list *x)
{
    if (!x) return;
    mp_boundaries_free(x->boundaries);
    mp_pool_free(x->pool);
    mp_free(x);
}
MP_OWNER(free_segments, segment_list)

/* Prepares the forward list for being cut into segments. On MP_OK release *out with free_segments (NULL is allowed).
 * MP_NOT_APPLICABLE: no forward or no backward nodes. MP_NOMEM. O(list lengths). */
static mp_status new_segments(const mp_graph *graph, segment_list **out, mp_error *err)
{
    MP_OWNED_BY(free_segments) segment_list *x = mp_alloc(1, sizeof *x);
    MP_ENSURE(x, err, MP_NOMEM, "out of memory for the segments of %s", graph->name);
    MP_CHECK(mp_boundaries_new(graph, &x->boundaries, err));
    const size_t n = (size_t)x->boundaries->n;
    x->pool = mp_pool_new();
    x->produced_bytes = mp_pool_alloc(x->pool, n, sizeof *x->produced_bytes);
    x->ends = mp_pool_alloc(x->pool, n, sizeof *x->ends);
    x->n_ends = mp_pool_alloc(x->pool, n + 1, sizeof *x->n_ends);
    MP_ENSURE(!mp_pool_failed(x->pool), err, MP_NOMEM, "out of memory for the segments of %s", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (x->boundaries->birth[s] < 0) continue;
        x->produced_bytes[x->boundaries->birth[s]] += graph->storages[s].bytes;
        x->total_bytes += graph->storages[s].bytes;
    }
    *out = x;
    x = NULL;
    return MP_OK;
}

/* Cuts the forward list into segments that each produce about size_bytes of outputs. A segment ends after 3/4 to 5/4 of
 * size_bytes, at the position that the fewest bytes cross. */
static void cut_segments(segment_list *x, int64_t size_bytes)
{
    const mp_boundaries *b = x->boundaries;
    int64_t sum = 0, since = 0;
    int best = -1;
    const int64_t least = size_bytes - size_bytes / 4,
                  most = size_bytes > INT64_MAX / 2 ? INT64_MAX : size_bytes + size_bytes / 4;
    for (int p = 0; p < b->n; p++) {
        x->ends[p] = false;
        sum += x->produced_bytes[p];
        since += x->produced_bytes[p];
        if (sum >= least && (best < 0 || b->crossing_bytes[p] <= b->crossing_bytes[best])) {
            best = p;
            since = 0;
        }
        if (best < 0 || sum < most) continue;
        x->ends[best] = true;
        sum = since;
        best = -1;
    }
}

/* Sets labels->is_kept for the nodes whose outputs cross the end of a segment, so that these outputs are kept. O(n +
 * storages). */
static void keep_crossing(segment_list *x, mp_cut_labels *labels)
{
    const mp_boundaries *b = x->boundaries;
    for (int p = 0; p < b->n; p++) x->n_ends[p + 1] = x->n_ends[p] + x->ends[p];
    for (int k = 0; k < labels->forward_end; k++) labels->is_kept[k] = false;
    for (size_t s = 0; s < labels->graph->n_storages; s++) {
        const int birth = b->birth[s], last = b->last[s], k = labels->producer[s];
        if (k >= 0 && birth >= 0 && last > birth && x->n_ends[last] > x->n_ends[birth]) labels->is_kept[k] = true;
    }
}

typedef struct pricing {
    mp_search *search;
    mp_cut_labels *problem;
    segment_list *segments;
    double *multiplier; /* per stage: ticks per byte */
    /* per stage (node in list order): largest live bytes at its step and at the recomputations just before it, minus
     * free_bytes */
    int64_t *over_bytes;
    int64_t free_bytes; /* budget minus static bytes */
    int64_t best_ticks, smallest_bytes;
    /* fraction of free_bytes that stays unused; it is needed because few large activations rarely add up to exactly
     * free_bytes */
    double spare;
    int64_t n_cuts; /* number of minimum cuts that the search may still compute */
    int64_t ticks;  /* ticks of the last schedule that was built */
    bool fits;
} pricing;

static bool ended(pricing *x)
{
    return x->n_cuts <= 0 || mp_search_stopped(x->search);
}

/* Sets over_bytes[k] for each stage k (node in list order), from its step and the recomputations just before it. */
static void measure(pricing *x, const mp_timeline *timeline, const mp_step *steps)
{
    const mp_cut_labels *p = x->problem;
    int stage = 0;
    for (int k = 0; k < p->n; k++) x->over_bytes[k] = -x->free_bytes;
    for (size_t t = 0; t < timeline->n_steps && stage < p->n; t++) {
        const int64_t over = timeline->live_bytes[t] - x->free_bytes;
        if (over > x->over_bytes[stage]) x->over_bytes[stage] = over;
        if (steps[t].node == p->node[stage]) stage++;
    }
}

/* Computes a minimum cut for the present multipliers, builds the schedule of its decisions, and offers the schedule if it may
 * be better than known ones. */
static mp_status try_multipliers(pricing *x, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n;
    const int64_t budget_bytes = mp_search_request(x->search)->budget_bytes;
    x->n_cuts--;
    mp_cut_labels_find(x->problem, x->multiplier);
    MP_CHECK(mp_lagrange_schedule(x->problem, &steps, &n, err));
    MP_CHECK(mp_timeline_build(x->problem->graph, steps, n, &timeline, err));
    measure(x, timeline, steps);
    x->ticks = timeline->ticks;
    x->fits = timeline->peak_bytes <= budget_bytes;
    if ((x->fits && x->ticks < x->best_ticks) || timeline->peak_bytes < x->smallest_bytes)
        MP_CHECK(mp_search_offer(x->search, steps, n, NULL, NULL, err));
    if (x->fits && x->ticks < x->best_ticks) x->best_ticks = x->ticks;
    if (timeline->peak_bytes < x->smallest_bytes) x->smallest_bytes = timeline->peak_bytes;
    return MP_OK;
}

/* Uses a multiplier only at the end of forward. Finds by bisection its smallest value for which the storages that are live at
 * the end of forward fit. */
static mp_status bisect(pricing *x, mp_error *err)
{
    const mp_cut_labels *p = x->problem;
    double low = 0, high = 1 / (p->scale * (double)(x->free_bytes > 1 ? x->free_bytes : 1)) *
                           (double)(INT64_C(1) << LAGRANGE_FIRST_BITS);
    for (int k = 0; k < LAGRANGE_DOUBLINGS && !ended(x); k++) {
        x->multiplier[p->forward_end] = high;
        MP_CHECK(try_multipliers(x, err));
        if (x->over_bytes[p->forward_end] <= 0) break;
        low = high;
        high *= 4;
    }
    for (int k = 0; k < LAGRANGE_BISECTIONS && !ended(x); k++) {
        const double middle = low > 0 ? sqrt(low * high) : high / 16;
        x->multiplier[p->forward_end] = middle;
        MP_CHECK(try_multipliers(x, err));
        *(x->over_bytes[p->forward_end] > 0 ? &low : &high) = middle;
    }
    x->multiplier[p->forward_end] = high;
    return MP_OK;
}

/* Makes a subgradient step. In each range of stages (nodes in list order) over the budget, raises the multiplier of the stage
 * with the largest excess. Lowers the multipliers of stages at which memory is free. */
static void step_multipliers(pricing *x, double unit, double step)
{
    const mp_cut_labels *p = x->problem;
    const int64_t spare_bytes = (int64_t)(x->spare * (double)x->free_bytes);
    for (int k = p->forward_end; k < p->n; k++) {
        const int64_t over = x->over_bytes[k] + spare_bytes;
        const bool is_worst = (k == p->forward_end || x->over_bytes[k] >= x->over_bytes[k - 1]) &&
                              (k + 1 == p->n || x->over_bytes[k] > x->over_bytes[k + 1]);
        if (over > 0 && !is_worst) continue;
        x->multiplier[k] += unit * step * (double)over / (double)x->free_bytes;
        if (x->multiplier[k] < 0) x->multiplier[k] = 0;
    }
}

static mp_status descend(pricing *x, double unit, mp_error *err)
{
    if (x->free_bytes <= 0) return MP_OK;
    x->spare = 0;
    MP_CHECK(try_multipliers(x, err));
    for (int k = 0; k < LAGRANGE_ROUNDS && !ended(x); k++) {
        step_multipliers(x, unit, LAGRANGE_STEP / sqrt(1 + k));
        MP_CHECK(try_multipliers(x, err));
        if (x->fits)
            x->spare *= MP_LAGRANGE_SPARE_FALL;
        else if (x->spare < MP_LAGRANGE_SPARE_MOST)
            x->spare += MP_LAGRANGE_SPARE_RISE;
    }
    return MP_OK;
}

/* Returns the mean price of a byte: the ticks of recomputing all forward nodes, divided by the bytes of all storages that can
 * be recomputed. */
static double mean_multiplier(const mp_cut_labels *p)
{
    double ticks = 1, bytes = 1;
    for (int k = 0; k < p->forward_end; k++) ticks += (double)p->graph->nodes[p->node[k]].alternatives[0].ticks;
    for (size_t s = 0; s < p->graph->n_storages; s++)
        if (p->producer[s] >= 0) bytes += (double)p->graph->storages[s].bytes;
    return ticks / bytes;
}

/* True if the best plan is close to the known bound. On a large graph, true as soon as there is a plan. */
static bool is_near(const pricing *x)
{
    if (x->best_ticks < INT64_MAX && x->problem->graph->n_nodes > MP_LAGRANGE_FIRST_PLAN_NODES) return true;
    const double enough = (double)mp_search_enough(x->search);
    return x->best_ticks < INT64_MAX && (double)x->best_ticks <= enough * LAGRANGE_NEAR;
}

/* ---- segments ---- */

/* A start of the subgradient descent: the size of segments in bytes (INT64_MAX: no segments), and a multiplier per stage (node
 * in list order), shape[stage] * height. `height` is the value for which the schedule fits and takes the fewest ticks. 0: no
 * schedule fits. */
typedef struct beginning {
    int64_t size_bytes;
    const double *shape;
    bool evicts_again;
    double height;
    int64_t ticks; /* ticks of the schedule that results from shape and height */
} beginning;

static void set_multipliers(pricing *x, const beginning *b, double height)
{
    for (int k = 0; k < x->problem->n; k++) x->multiplier[k] = height * b->shape[k];
}

static void keep_ends(pricing *x, const beginning *b)
{
    cut_segments(x->segments, b->size_bytes);
    keep_crossing(x->segments, x->problem);
    x->problem->evicts_again = b->evicts_again;
}

/* Finds the height for which the multipliers shape[stage] * height yield a schedule within the budget with the fewest ticks. */
static mp_status find_height(pricing *x, beginning *b, double height, mp_error *err)
{
    double low = 0, high = 0;
    b->ticks = INT64_MAX;
    keep_ends(x, b);
    for (int k = 0; k < LAGRANGE_FITTING && !ended(x); k++) {
        set_multipliers(x, b, height);
        MP_CHECK(try_multipliers(x, err));
        *(x->fits ? &high : &low) = height;
        if (x->fits && x->ticks < b->ticks) {
            b->ticks = x->ticks;
            b->height = height;
        }
        height = low > 0 && high > 0 ? sqrt(low * high) : high > 0 ? high / 8 : low * 8;
    }
    return MP_OK;
}

static int by_ticks(const void *a, const void *b)
{
    const beginning *x = a, *y = b;
    if (x->ticks != y->ticks) return x->ticks < y->ticks ? -1 : 1;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    if (x->evicts_again != y->evicts_again) return x->evicts_again < y->evicts_again ? -1 : 1;
    return (x->shape > y->shape) - (x->shape < y->shape);
}

/* Tries two shapes of multipliers: nonzero at the end of forward only, or in proportion to keep-all's excess over the budget.
 * Combines each shape with segments of many sizes, in which crossing storages are kept. Then starts a subgradient descent from
 * each combination, the best first. */
static mp_status sweep_sizes(pricing *x, double unit, mp_error *err)
{
    /* WAYS: two shapes of the multipliers, each tried with and without evicts_again (recomputed storages may be evicted
     * again) */
    enum { WAYS = 4 };
    const mp_cut_labels *p = x->problem;
    beginning list[LAGRANGE_SIZES * WAYS] = {0};
    /* half of the minimum cuts are reserved for finding the starts, the other half for the descents */
    const int64_t n_sizes = 1 + x->n_cuts / (2 * LAGRANGE_FITTING * WAYS);
    const int stride = n_sizes >= LAGRANGE_SIZES ? 1 : (int)(LAGRANGE_SIZES / n_sizes);
    int n = 0;
    MP_OWNED double *at_end = mp_alloc(2 * (size_t)p->n, sizeof *at_end);
    double *over = at_end + p->n, sum = 0;
    MP_ENSURE(at_end, err, MP_NOMEM, "out of memory for the multipliers of %d nodes", p->n);
    for (int k = 0; k < p->n; k++) x->multiplier[k] = 0;
    MP_CHECK(try_multipliers(x, err));
    for (int k = p->forward_end; k < p->n; k++) sum += x->over_bytes[k] > 0 ? (double)x->over_bytes[k] : 0;
    for (int k = p->forward_end; k < p->n; k++) over[k] = x->over_bytes[k] > 0 ? (double)x->over_bytes[k] / sum : 0;
    at_end[p->forward_end] = 1;
    for (int64_t i = 0, size = x->segments->total_bytes; i < LAGRANGE_SIZES; i++, size = mp_percent(size, LAGRANGE_SIZE_SHARE))
        for (int k = 0; k < WAYS && i % stride == 0 && !ended(x); k++) {
            list[n] = (beginning){.size_bytes = i ? size : INT64_MAX, .shape = k % 2 ? over : at_end, .evicts_again = k / 2};
            MP_CHECK(find_height(x, &list[n++], unit, err));
        }
    qsort(list, (size_t)n, sizeof *list, by_ticks);
    for (int i = 0; i < n && !ended(x); i++) {
        keep_ends(x, &list[i]);
        set_multipliers(x, &list[i], list[i].height > 0 ? list[i].height : unit);
        MP_CHECK(descend(x, unit, err));
    }
    return MP_OK;
}

/* Offers schedules without a minimum cut: storages that cross the end of a segment are kept, and all others are recomputed. */
static mp_status offer_segments(pricing *x, mp_error *err)
{
    const segment_list *segments = x->segments;
    const int64_t n_schedules = 1 + MP_LAGRANGE_WORK / (int64_t)(x->problem->graph->n_nodes + 1);
    const int stride = n_schedules >= LAGRANGE_SEGMENT_SIZES ? 1 : (int)(LAGRANGE_SEGMENT_SIZES / n_schedules);
    int64_t size = segments->total_bytes;
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    for (int i = 0; i < LAGRANGE_SEGMENT_SIZES && !mp_search_stopped(x->search); i++) {
        size = mp_percent(size, LAGRANGE_SEGMENT_SHARE);
        if (i % stride != stride - 1) continue;
        cut_segments(x->segments, size);
        mp_free(steps);
        steps = NULL;
        MP_CHECK(mp_boundaries_schedule(segments->boundaries, segments->ends, NULL, &steps, &n, err));
        MP_CHECK(mp_search_offer(x->search, steps, n, NULL, NULL, err));
    }
    return MP_OK;
}

mp_status mp_run_lagrange_first(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_OWNED_BY(free_segments) segment_list *segments = NULL;
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    mp_error ignored = {0};
    int64_t peak_bytes = INT64_MAX;
    if (request->budget_bytes == MP_NO_LIMIT) return MP_OK;
    const mp_status status = new_segments(request->graph, &segments, &ignored);
    if (status == MP_NOT_APPLICABLE) return MP_OK;
    MP_ENSURE(status == MP_OK, err, status, "out of memory for the segments of %s", request->graph->name);
    for (int64_t k = 1, size = segments->total_bytes / 2; k <= MP_LAGRANGE_FIRST_SIZES && peak_bytes > request->budget_bytes;
         k++, size /= 2) {
        cut_segments(segments, size);
        mp_free(steps);
        steps = NULL;
        MP_CHECK(mp_boundaries_schedule(segments->boundaries, segments->ends, NULL, &steps, &n, err));
        MP_CHECK(mp_search_offer(search, steps, n, &peak_bytes, NULL, err));
    }
    return MP_OK;
}

static mp_status search_all(pricing *x, mp_error *err)
{
    const mp_request *request = mp_search_request(x->search);
    const mp_graph *graph = request->graph;
    const int64_t suits = MP_LAGRANGE_WORK / (int64_t)(graph->n_nodes + 1) + LAGRANGE_BISECTIONS,
                  moves = mp_search_moves(x->search);
    const int64_t n_cuts = suits < moves ? suits : moves;
    mp_error ignored = {0};
    MP_CHECK(mp_cut_labels_new(graph, &x->problem, err));
    if (graph->nodes[x->problem->node[x->problem->forward_end]].phase == MP_PHASE_FORWARD)
        return MP_OK; /* a graph without loss or backward nodes keeps no storage for backward, so there is nothing to decide */
    const double unit = mean_multiplier(x->problem);
    x->multiplier = mp_alloc(graph->n_nodes, sizeof *x->multiplier);
    x->over_bytes = mp_alloc(graph->n_nodes, sizeof *x->over_bytes);
    MP_ENSURE(x->multiplier && x->over_bytes, err, MP_NOMEM, "out of memory for the multipliers of %s", graph->name);
    x->free_bytes = request->budget_bytes - mp_graph_static_bytes(graph);
    x->n_cuts = n_cuts;
    MP_CHECK(bisect(x, err));
    MP_CHECK(descend(x, unit, err));
    const mp_status status = new_segments(graph, &x->segments, &ignored);
    if (status == MP_NOT_APPLICABLE) return MP_OK;
    MP_ENSURE(status == MP_OK, err, status, "out of memory for the segments of %s", graph->name);
    x->n_cuts = is_near(x) ? 0 : 2 * n_cuts;
    if (!ended(x)) MP_CHECK(sweep_sizes(x, unit, err));
    return offer_segments(x, err);
}

static void clear(pricing *x)
{
    free_segments(x->segments);
    mp_cut_labels_free(x->problem);
    mp_free(x->multiplier);
    mp_free(x->over_bytes);
}

mp_status mp_run_lagrange(mp_search *search, mp_error *err)
{
    MP_CLEARED_BY(clear) pricing x = {.search = search, .best_ticks = INT64_MAX, .smallest_bytes = INT64_MAX};
    if (mp_search_request(search)->budget_bytes == MP_NO_LIMIT || mp_search_settled(search)) return MP_OK;
    return search_all(&x, err);
}

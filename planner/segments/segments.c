/* segments.c - the searcher `segments`: one list of checkpoints, with recomputation by segments, as frameworks do for a user's
 * list.
 *
 * With a list, a segment of the forward list ends at each node that produces one of the listed tensors. The listed tensors are
 * kept for backward, and so are all other storages that cross the end of a segment. PaddlePaddle and PyTorch keep the inputs of
 * a segment in the same way.
 *
 * Without a list, the best list is found in two rounds.
 * - Round 1: dynamic programming over the prefixes of the forward list, which are lower sets (lower_set.h).
 * - Round 2: local search that adds and removes single ends of segments. It first lowers the peak. Then it lowers the time for
 *   the budgets of a ladder, which rises from the smallest peak to the user's budget.
 *
 * A user who copies the checkpoints of the plan to a framework must get the plan. So a list is only judged if the checkpoints
 * of its schedule are the list itself (find_stable_checkpoints). */
#include "planner/search/searchers.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/order/boundaries.h"
#include "planner/segments/lower_set.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    SEGMENTS_CANDIDATES = 600, /* most positions at which a segment may end */
    SEGMENTS_LADDER = 16,      /* budgets tried between the smallest peak and keep-all's peak */
    SEGMENTS_STRIDE = 618,     /* distance between two consecutively tried segment ends, in 1/1,000 of the node list */
};

/* A list of checkpoints that the timeline has judged: the ends of its segments, and its peak and ticks. */
typedef struct verdict {
    bool *ends;
    int64_t peak_bytes, ticks;
} verdict;

typedef struct segments {
    mp_search *search;
    mp_boundaries *boundaries;
    int n_candidates, *candidate; /* positions at which a segment may end */
    /* per position of the forward list: true if a segment ends there with the list of checkpoints that is to be judged */
    bool *ends;
    size_t n_verdicts, capacity;
    verdict *verdicts;
} segments;

/* Sets the ends of segments from a list of checkpoints: a segment ends at the producer of each listed activation. Marks the
 * listed tensors as kept. Listed static storages have no effect, because they are always live. */
static mp_status read_list(const mp_boundaries *b, const int *checkpoints, size_t n, bool *ends, bool *keep, mp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const int s = checkpoints[i];
        MP_ENSURE(s >= 0 && (size_t)s < b->graph->n_storages, err, MP_INVALID, "a checkpoint is not a storage of %s",
                  b->graph->name);
        if (mp_storage_is_static(&b->graph->storages[s])) continue;
        MP_ENSURE(b->birth[s] >= 0, err, MP_INVALID, "the checkpoint %s is not computed by the forward pass",
                  b->graph->storages[s].name);
        keep[s] = true;
        if (b->graph->storages[s].kind == MP_KIND_ACTIVATION) ends[b->birth[s]] = true;
    }
    return MP_OK;
}

/* Builds the schedule in which a segment ends at the producer of each listed checkpoint, and the listed tensors are kept. */
static mp_status list_schedule(const mp_boundaries *boundaries, const int *checkpoints, size_t n_checkpoints, mp_step **steps,
                               size_t *n, mp_error *err)
{
    const mp_graph *graph = boundaries->graph;
    MP_OWNED bool *ends = mp_alloc(graph->n_nodes, sizeof *ends), *keep = mp_alloc(graph->n_storages, sizeof *keep);
    MP_ENSURE(ends && keep, err, MP_NOMEM, "out of memory");
    MP_CHECK(read_list(boundaries, checkpoints, n_checkpoints, ends, keep, err));
    return mp_boundaries_schedule(boundaries, ends, keep, steps, n, err);
}

/* Finds a list of checkpoints that agrees with its own schedule. It builds the schedule of the segments that end at x->ends,
 * and lists its checkpoints. Then it builds the schedule of this list, and so on, until the list no longer changes. *n = 0 if
 * that takes too many rounds. */
static mp_status find_stable_checkpoints(segments *x, mp_step **steps, size_t *n, mp_error *err)
{
    const mp_graph *graph = x->boundaries->graph;
    MP_OWNED int *list = mp_alloc(graph->n_storages, sizeof *list), *before = mp_alloc(graph->n_storages, sizeof *before);
    size_t n_list = 0, n_before;
    bool settled = false;
    MP_ENSURE(list && before, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_boundaries_schedule(x->boundaries, x->ends, NULL, steps, n, err));
    MP_CHECK(mp_plan_checkpoints(graph, *steps, *n, list, &n_list, err));
    for (int round = 0; round < 8 && !settled; round++) {
        memcpy(before, list, n_list * sizeof *list);
        n_before = n_list;
        mp_free(*steps);
        *steps = NULL;
        MP_CHECK(list_schedule(x->boundaries, list, n_list, steps, n, err));
        MP_CHECK(mp_plan_checkpoints(graph, *steps, *n, list, &n_list, err));
        settled = n_list == n_before && !memcmp(list, before, n_list * sizeof *list);
    }
    if (!settled) *n = 0;
    return MP_OK;
}

/* Judges the list of checkpoints that `settle` finds for x->ends, unless it was judged before. *which: index of the list's
 * verdict (result of the judgement). */
static mp_status judge(segments *x, int *which, mp_error *err)
{
    const size_t n = (size_t)x->boundaries->n;
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED bool *ends = mp_alloc(n, sizeof *ends);
    size_t n_steps = 0;
    verdict v = {ends, INT64_MAX, INT64_MAX};
    for (size_t i = 0; i < x->n_verdicts; i++)
        if (!memcmp(x->verdicts[i].ends, x->ends, n * sizeof *x->ends)) {
            *which = (int)i;
            return MP_OK;
        }
    MP_CHECK(find_stable_checkpoints(x, &steps, &n_steps, err));
    if (n_steps) MP_CHECK(mp_search_offer(x->search, steps, n_steps, &v.peak_bytes, &v.ticks, err));
    MP_ENSURE(ends && mp_grow(&x->verdicts, &x->capacity, x->n_verdicts + 1, sizeof *x->verdicts), err, MP_NOMEM,
              "out of memory");
    memcpy(ends, x->ends, n * sizeof *ends);
    *which = (int)x->n_verdicts;
    x->verdicts[x->n_verdicts++] = v;
    ends = NULL;
    return MP_OK;
}

/* ---- round 1: dynamic programming over prefixes of the forward list ---- */

/* Judges the list of checkpoints that corresponds to a sequence of prefixes of the forward list. A vertex of the forward graph
 * is a position in the forward list. */
static mp_status judge_sequence(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes,
                                mp_error *err)
{
    segments *x = data;
    int position = 0, which;
    memset(x->ends, 0, (size_t)x->boundaries->n * sizeof *x->ends);
    for (int i = 0; i + 1 < n; i++) {
        while (position + 1 < x->boundaries->n && mp_lower_set_has(sets, sequence[i], position + 1)) position++;
        x->ends[position] = true;
    }
    MP_CHECK(judge(x, &which, err));
    *peak_bytes = x->verdicts[which].peak_bytes;
    return MP_OK;
}

static mp_status sweep(segments *x, mp_error *err)
{
    mp_status st = MP_OK;
    MP_OWNED_BY(mp_dag_free) mp_dag *dag = NULL;
    const size_t n = (size_t)x->boundaries->n;
    MP_OWNED int64_t *ticks = mp_alloc(n, sizeof *ticks), *needed_bytes = mp_alloc(n, sizeof *needed_bytes);
    MP_ENSURE(ticks && needed_bytes, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_dag_build(x->boundaries->graph, &dag, err));
    mp_lower_set_weights(x->boundaries->graph, dag, ticks, needed_bytes);
    /* model 0 is the memory model of Kusumoto et al. 2019 (lower_set.h); model 1 counts only the values that backward reads */
    for (int model = 0; model < 2; model++) {
        const mp_lower_set_graph graph = {dag, dag->bytes, ticks, model ? needed_bytes : NULL};
        mp_lower_sets *sets = NULL;
        MP_CHECK(mp_lower_sets_prefixes(&graph, x->candidate, x->n_candidates, &sets, err));
        st = mp_lower_set_ladder(x->search, sets, INT64_MAX, mp_search_moves(x->search) / 4, judge_sequence, x, err);
        mp_lower_sets_free(sets);
        if (st != MP_OK) return st;
    }
    return st;
}

/* ---- local search ---- */

static bool is_better(const verdict *a, const verdict *b, int64_t budget_bytes)
{
    if (budget_bytes < 0) return a->peak_bytes != b->peak_bytes ? a->peak_bytes < b->peak_bytes : a->ticks < b->ticks;
    if (a->peak_bytes > budget_bytes) return false;
    return a->ticks != b->ticks ? a->ticks < b->ticks : a->peak_bytes < b->peak_bytes;
}

/* Returns the index of a verdict, i.e. of a judged list of checkpoints: the best one within the budget, or with a negative
 * budget the one with the smallest peak. -1: none fits. */
static int best_verdict(const segments *x, int64_t budget_bytes)
{
    int best = -1;
    for (size_t i = 0; i < x->n_verdicts; i++) {
        if (budget_bytes >= 0 && x->verdicts[i].peak_bytes > budget_bytes) continue;
        if (best < 0 || is_better(&x->verdicts[i], &x->verdicts[best], budget_bytes)) best = (int)i;
    }
    return best;
}

/* Local search from the best list for the budget. Each change adds the end of a segment, removes an end, or moves an end to a
 * neighbouring candidate position. Successive changes are a golden section of the forward list apart, so that they are spread
 * over it. Changes that improve the list are kept. The search stops when no change helps or no moves are left. */
static mp_status climb(segments *x, int64_t budget_bytes, int64_t moves, mp_error *err)
{
    enum { KINDS = 3 };
    const int n = x->n_candidates;
    int best = best_verdict(x, budget_bytes), at = 0, which, stride = (int)((int64_t)SEGMENTS_STRIDE * n / 1000) + 1;
    if (best < 0 || n == 0) return MP_OK;
    while (mp_gcd(stride, n) != 1) stride++;
    for (int failures = 0, kind = 0; failures < KINDS * n && moves > 0 && !mp_search_stopped(x->search); failures++) {
        const size_t n_before = x->n_verdicts;
        at = (at + stride) % n;
        /* the next kind of change follows when the present kind was tried at all candidate positions without success */
        if (failures % n == n - 1) kind = (kind + 1) % KINDS;
        const int to = kind == 1 ? at + 1 : at - 1;
        memcpy(x->ends, x->verdicts[best].ends, (size_t)x->boundaries->n * sizeof *x->ends);
        if (kind > 0 && (to < 0 || to >= n || !x->ends[x->candidate[at]])) continue;
        x->ends[x->candidate[at]] = !x->ends[x->candidate[at]];
        if (kind > 0) x->ends[x->candidate[to]] = true;
        MP_CHECK(judge(x, &which, err));
        if (x->n_verdicts > n_before) moves--;
        if (!is_better(&x->verdicts[which], &x->verdicts[best], budget_bytes)) continue;
        best = which;
        failures = -1;
    }
    return MP_OK;
}

static mp_status find_list(segments *x, mp_error *err)
{
    const int64_t budget_bytes = mp_search_request(x->search)->budget_bytes;
    int which;
    memset(x->ends, 0, (size_t)x->boundaries->n * sizeof *x->ends);
    MP_CHECK(judge(x, &which, err)); /* judges the list without checkpoints: the whole network is one segment, as in keep-all */
    const int64_t whole = x->verdicts[0].peak_bytes;
    MP_CHECK(sweep(x, err));
    const int64_t moves = (mp_search_moves(x->search) - (int64_t)x->n_verdicts) / (SEGMENTS_LADDER + 2);
    MP_CHECK(climb(x, -1, 2 * moves, err));
    const int64_t smallest = x->verdicts[best_verdict(x, -1)].peak_bytes;
    for (int step = 0; step < SEGMENTS_LADDER && !mp_search_settled(x->search); step++) {
        const int64_t rung = smallest + (whole - smallest) / SEGMENTS_LADDER * step;
        if (rung > budget_bytes) break;
        MP_CHECK(climb(x, rung, moves, err));
    }
    return MP_OK;
}

mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err)
{
    MP_OWNED_BY(mp_boundaries_free) mp_boundaries *boundaries = NULL;
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n_steps = 0;
    MP_ENSURE(!graph->has_copies, err, MP_NOT_APPLICABLE,
              "%s copies or exchanges tensors during computation, which the solver segments does not support", graph->name);
    MP_CHECK(mp_boundaries_new(graph, &boundaries, err));
    MP_CHECK(list_schedule(boundaries, checkpoints, n, &steps, &n_steps, err));
    MP_CHECK(mp_timeline_build(graph, steps, n_steps, &timeline, err));
    *peak_bytes = timeline->peak_bytes;
    *ticks = timeline->ticks;
    return MP_OK;
}

static void clear(segments *x)
{
    for (size_t i = 0; i < x->n_verdicts; i++) mp_free(x->verdicts[i].ends);
    mp_free(x->verdicts);
    mp_free(x->candidate);
    mp_free(x->ends);
    mp_boundaries_free(x->boundaries);
}

mp_status mp_run_segments(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_CLEARED_BY(clear) segments x = {.search = search};
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0;
    MP_CHECK(mp_boundaries_new(request->graph, &x.boundaries, err));
    if (request->checkpoints) {
        MP_CHECK(list_schedule(x.boundaries, request->checkpoints, request->n_checkpoints, &steps, &n, err));
        return mp_search_offer(search, steps, n, NULL, NULL, err);
    }
    x.candidate = mp_alloc(SEGMENTS_CANDIDATES, sizeof *x.candidate);
    x.ends = mp_alloc((size_t)x.boundaries->n, sizeof *x.ends);
    MP_ENSURE(x.candidate && x.ends, err, MP_NOMEM, "out of memory");
    x.n_candidates = mp_boundaries_candidates(x.boundaries, SEGMENTS_CANDIDATES, x.candidate);
    return find_list(&x, err);
}

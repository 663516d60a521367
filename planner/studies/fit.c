/* fit.c - finds the largest batch that fits in a memory, for three means: keep-all, recomputation within an allowed extra time,
 * and recomputation with any extra time.
 *
 * 1. Without recomputation, one timeline decides whether a batch fits. The batch is doubled until it no longer fits.
 * 2. The floor is as quick to compute, and no plan needs less memory. The batch is doubled until the floor exceeds the memory.
 *    This batch is an upper limit for the other two means.
 * 3. Between a batch that fits and one that does not, peaks and extra time grow almost linearly with the batch. So two batches
 *    with known results predict the largest batch that fits. From the prediction, the batch changes in strides that grow
 *    fourfold, until one batch fits and another does not. Bisection between the two finds the answer. The results of all tried
 *    batches are stored, so that the trials for one means are reused for the next. */
#include "memplan/studies/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "memplan/arena_solve.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/solve/solver.h"

/* One batch size that was tried, with its results. */
typedef struct trial {
    int64_t batch, static_bytes, floor_bytes, kept_bytes /* kept_bytes: memory that keep-all needs */;
    int64_t baseline_ticks;
    double tick_seconds;
    bool searched;
    /* results of the search. smallest_bytes: memory of the smallest plan; peak_bytes: memory of the plan, -1 if no plan fits;
     * both in bytes with the arena. ticks: time of the plan */
    int64_t smallest_bytes, peak_bytes, ticks;
    const char *solver; /* the searcher's name */
    mp_step *steps;     /* steps of the plan, or of the smallest plan if no plan fits; NULL: no search was made */
    size_t n_steps;
} trial;

typedef struct fit {
    const mp_fit_request *request;
    size_t n_trials, capacity, n_searches;
    trial *trials; /* the batches that were tried, in the order of the trials */
    int64_t batch; /* the batch size that is being tried */
    bool stopped;
} fit;

static bool tell(fit *x, const mp_progress *search)
{
    const mp_fit_request *request = x->request;
    if (request->progress && !request->progress(x->batch, search, request->progress_data)) x->stopped = true;
    return !x->stopped;
}

static bool on_progress(const mp_progress *search, void *data)
{
    return tell(data, search);
}

static trial *known(const fit *x, int64_t batch)
{
    for (size_t k = 0; k < x->n_trials; k++)
        if (x->trials[k].batch == batch) return &x->trials[k];
    return NULL;
}

/* Returns the searcher's name from the table of searchers. The string in a plan would be freed with the plan. */
static const char *solver_name(const char *name)
{
    const mp_solver *solver = mp_solver_find(name);
    return solver ? solver->name : "";
}

static mp_status without_recompute(const mp_graph *graph, trial *t, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    const mp_request request = {.graph = graph, .budget_bytes = MP_NO_LIMIT, .solver = "none"};
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    t->floor_bytes = answer.floor_bytes;
    t->kept_bytes = mp_plan_need(answer.smallest);
    t->baseline_ticks = answer.smallest->baseline_ticks;
    t->static_bytes = answer.smallest->static_bytes;
    t->tick_seconds = graph->tick_seconds;
    return MP_OK;
}

static double overhead_of(const trial *t)
{
    return t->baseline_ticks > 0 ? (double)(t->ticks - t->baseline_ticks) / (double)t->baseline_ticks : 0;
}

/* Takes the plan of the nearest batch for which a search was made, and converts it to the graph of this batch. *out is NULL if
 * there is no such plan. */
static mp_status nearest_plan(const fit *x, const mp_graph *graph, int64_t batch, mp_plan **out, mp_error *err)
{
    const trial *nearest = NULL;
    mp_error ours = {0};
    for (size_t k = 0; k < x->n_trials; k++) {
        const trial *t = &x->trials[k];
        if (t->steps && (!nearest || llabs(t->batch - batch) < llabs(nearest->batch - batch))) nearest = t;
    }
    *out = NULL;
    if (!nearest || (x->request->solver && strcmp(x->request->solver, "auto"))) return MP_OK;
    const mp_status st = mp_plan_new(graph, nearest->solver, nearest->steps, nearest->n_steps, out, &ours);
    if (st == MP_NOMEM && err) *err = ours;
    /* if the neighbouring batch's plan is not valid for this graph, *out is NULL and the search starts without a plan */
    return st == MP_NOMEM ? st : MP_OK;
}

/* True if a plan takes slightly more than the allowed time. A search from scratch may then find a faster plan than the search
 * that started from the neighbouring batch's plan. If no plan fits, a search from scratch is useless, because it reaches no
 * smaller peaks. */
static bool is_nearly_quick_enough(const fit *x, const trial *t)
{
    const double limit = x->request->overhead;
    return t->peak_bytes >= 0 && overhead_of(t) > limit && overhead_of(t) < MP_FIT_NEAR_TIME * limit;
}

/* Records the result of a search, unless a better result is known for the batch. */
static mp_status record(trial *t, const mp_answer *answer, mp_error *err)
{
    const mp_plan *plan = answer->plan ? answer->plan : answer->smallest;
    const int64_t smallest = mp_plan_need(answer->smallest);
    if (!t->searched || smallest < t->smallest_bytes) t->smallest_bytes = smallest;
    if (t->searched && (!answer->plan || (t->peak_bytes >= 0 && t->ticks <= plan->ticks))) return MP_OK;
    size_t capacity = t->n_steps;
    if (!mp_grow(&t->steps, &capacity, plan->n_steps, sizeof *t->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for a plan of %zu steps", plan->n_steps);
    memcpy(t->steps, plan->steps, plan->n_steps * sizeof *t->steps);
    t->n_steps = plan->n_steps;
    t->searched = true;
    t->peak_bytes = answer->plan ? mp_plan_need(answer->plan) : -1;
    t->ticks = answer->plan ? answer->plan->ticks : -1;
    t->solver = solver_name(plan->solver);
    return MP_OK;
}

/* Searches for a plan, starting from the plan of the nearest batch. If the result takes slightly too long, searches again from
 * scratch. If a search is stopped, its result is not recorded. */
static mp_status search(fit *x, const mp_graph *graph, trial *t, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    const mp_fit_request *asked = x->request;
    mp_request request = {.graph = graph,
                          .budget_bytes = asked->memory_bytes,
                          .solver = asked->solver,
                          .seed = asked->seed,
                          .moves = asked->moves,
                          .effort = asked->effort,
                          .keep_order = asked->keep_order,
                          .progress = on_progress,
                          .progress_data = x};
    MP_CHECK(nearest_plan(x, graph, t->batch, &start, err));
    for (int round = 0; round < 2; round++) {
        request.start = round ? NULL : start;
        request.refine = request.start;
        request.moves = asked->moves > 0 ? asked->moves : mp_default_moves(graph) / (request.refine ? MP_FIT_QUICKER : 1);
        MP_CHECK(mp_solve_with_arena(&request, &answer, err));
        x->n_searches++;
        if (answer.stopped) {
            x->stopped = true;
            break;
        }
        MP_CHECK(record(t, &answer, err));
        mp_answer_free(&answer);
        if (!start || !is_nearly_quick_enough(x, t)) break;
    }
    return MP_OK;
}

/* Returns the results for a batch in *out. With `deep`, searches for a plan first, if the floor is within the memory. *out is
 * NULL if the user has stopped the study. */
static mp_status try_batch(fit *x, int64_t batch, bool deep, const trial **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    trial *t = known(x, batch);
    *out = NULL;
    x->batch = batch;
    if (!tell(x, NULL)) return MP_OK;
    if (!t) {
        trial made = {.batch = batch, .peak_bytes = -1, .ticks = -1, .smallest_bytes = -1, .solver = ""};
        MP_CHECK(x->request->graph_at(x->request->graph_data, batch, &graph, err));
        MP_CHECK(without_recompute(graph, &made, err));
        MP_ENSURE(mp_grow(&x->trials, &x->capacity, x->n_trials + 1, sizeof *x->trials), err, MP_NOMEM,
                  "out of memory for %zu batches", x->n_trials);
        t = &x->trials[x->n_trials++];
        *t = made;
        if (t->kept_bytes <= x->request->memory_bytes) { /* if keep-all fits, no search is needed, because no plan is faster */
            t->peak_bytes = t->smallest_bytes = t->kept_bytes;
            t->ticks = t->baseline_ticks;
            t->solver = solver_name("none");
        }
    }
    if (deep && !t->searched && t->peak_bytes < 0 && t->floor_bytes <= x->request->memory_bytes) {
        if (!graph) MP_CHECK(x->request->graph_at(x->request->graph_data, batch, &graph, err));
        MP_CHECK(search(x, graph, t, err));
        if (!t->searched) return MP_OK;
    }
    *out = t;
    return MP_OK;
}

static bool fits(const fit *x, const trial *t, mp_fit_means means)
{
    if (means == MP_FIT_KEEP_ALL) return t->kept_bytes <= x->request->memory_bytes;
    if (t->peak_bytes < 0) return false;
    return means == MP_FIT_ANY || overhead_of(t) <= x->request->overhead;
}

/* True if it is known, for the given means, whether the batch of this trial fits. */
static bool is_judged(const fit *x, const trial *t, mp_fit_means means)
{
    return means == MP_FIT_KEEP_ALL || t->searched || t->peak_bytes >= 0 || t->floor_bytes > x->request->memory_bytes;
}

/* Sets *low to the largest batch that is known to fit, and *high to the smallest larger batch that is known not to fit. */
static void bracket(const fit *x, mp_fit_means means, int64_t *low, int64_t *high)
{
    for (size_t k = 0; k < x->n_trials; k++) {
        const trial *t = &x->trials[k];
        if (is_judged(x, t, means) && fits(x, t, means) && t->batch > *low) *low = t->batch;
    }
    for (size_t k = 0; k < x->n_trials; k++) {
        const trial *t = &x->trials[k];
        if (is_judged(x, t, means) && !fits(x, t, means) && t->batch > *low && t->batch < *high) *high = t->batch;
    }
}

/* Returns the x at which the line through (x0, y0) and (x1, y1) reaches y, limited to values strictly between `low` and
 * `high`. */
static int64_t between(int64_t low, int64_t high, double x0, double y0, double x1, double y1, double y)
{
    const double at = y1 > y0 ? floor(x0 + (y - y0) / (y1 - y0) * (x1 - x0)) : ((double)low + (double)high) / 2;
    if (!(at > (double)low)) return low + 1;
    return at < (double)high ? (int64_t)at : high - 1;
}

/* Returns the first batch to try, strictly between `low`, which fits, and `high`, which does not fit. *blind: no results are
 * known from which it can be predicted. */
static int64_t guess(const fit *x, mp_fit_means means, int64_t low, int64_t high, bool *blind)
{
    const trial *below = known(x, low), *above = known(x, high), *searched = NULL;
    *blind = false;
    if (means == MP_FIT_KEEP_ALL && below && above)
        return between(low, high, (double)low, (double)below->kept_bytes, (double)high, (double)above->kept_bytes,
                       (double)x->request->memory_bytes);
    if (means == MP_FIT_RECOMPUTE && below && above && above->peak_bytes >= 0)
        return between(low, high, (double)low, overhead_of(below), (double)high, overhead_of(above), x->request->overhead);
    for (size_t k = 0; k < x->n_trials; k++) /* finds the largest searched batch */
        if (x->trials[k].searched && (!searched || x->trials[k].batch > searched->batch)) searched = &x->trials[k];
    if (means == MP_FIT_ANY && searched)
        return between(low, high, 0, (double)searched->static_bytes, (double)searched->batch, (double)searched->smallest_bytes,
                       (double)x->request->memory_bytes);
    *blind = true;
    return low + (high - low) / 2;
}

/* Tries batches between `low` and `high`, until the largest batch that fits is known. low 0: no batch is known to fit. */
static mp_status close_in(fit *x, mp_fit_means means, int64_t low, int64_t high, mp_error *err)
{
    /* distance of the next batch size to try: from `low` if positive, from `high` if negative; 0: none was chosen yet */
    int64_t stride = 0;
    bool guessing = true, bisecting = false;
    bracket(x, means, &low, &high);
    while (high - low > 1) {
        const trial *t;
        bool blind = false;
        int64_t at = guessing ? guess(x, means, low, high, &blind) : stride > 0 ? low + stride : high + stride;
        if (bisecting || at <= low || at >= high) at = low + (high - low) / 2;
        MP_CHECK(try_batch(x, at, means != MP_FIT_KEEP_ALL, &t, err));
        if (!t) break;
        const bool up = fits(x, t, means);
        if (guessing && !blind)
            stride = up ? 1 : -1;
        else if (!guessing && up == (stride > 0))
            stride *= MP_FIT_STRIDE;
        else if (!guessing)
            bisecting = true; /* the last two batches enclose the largest batch that fits, so bisection between them follows */
        guessing = guessing && blind;
        if (up) low = at;
        if (!up) high = at;
        bracket(x, means, &low, &high);
    }
    return MP_OK;
}

/* Doubles the batch until it does not fit. The criterion is the memory of keep-all, or with by_floor the floor. *high is the
 * first batch that does not fit. */
static mp_status grow(fit *x, bool by_floor, int64_t from, int64_t most, int64_t *high, mp_error *err)
{
    const trial *t;
    for (int64_t at = from;; at = at > most / 2 ? most : 2 * at) {
        *high = at;
        MP_CHECK(try_batch(x, at, false, &t, err));
        if (!t) break;
        if ((by_floor ? t->floor_bytes : t->kept_bytes) > x->request->memory_bytes) break;
        *high = at + 1;
        if (at >= most) break;
    }
    return MP_OK;
}

static mp_fit_answer answer_of(const fit *x, mp_fit_means means, int64_t most)
{
    mp_fit_answer a = {.next_floor_bytes = -1, .next_smallest_bytes = -1, .next_overhead = -1, .solver = ""};
    int64_t high = INT64_MAX;
    bracket(x, means, &a.batch, &high);
    const trial *t = known(x, a.batch), *next = known(x, a.batch + 1);
    if (t) {
        const bool keeps = means == MP_FIT_KEEP_ALL;
        a.peak_bytes = keeps ? t->kept_bytes : t->peak_bytes;
        a.static_bytes = t->static_bytes;
        a.overhead = keeps ? 0 : overhead_of(t);
        a.seconds = (double)(keeps ? t->baseline_ticks : t->ticks) * t->tick_seconds;
        a.solver = keeps ? solver_name("none") : t->solver;
    }
    if (a.batch >= most) a.end = MP_FIT_MOST_MET;
    if (a.batch >= most || !next || !is_judged(x, next, means)) return a;
    a.next_floor_bytes = next->floor_bytes;
    a.next_smallest_bytes = means == MP_FIT_KEEP_ALL ? next->kept_bytes : next->smallest_bytes;
    if (means != MP_FIT_KEEP_ALL && next->peak_bytes >= 0) a.next_overhead = overhead_of(next);
    if (next->floor_bytes > x->request->memory_bytes)
        a.end = MP_FIT_PROVED;
    else if (means == MP_FIT_KEEP_ALL)
        a.end = MP_FIT_OVER;
    else
        a.end = means == MP_FIT_RECOMPUTE && next->peak_bytes >= 0 ? MP_FIT_TOO_SLOW : MP_FIT_NOT_FOUND;
    return a;
}

static void clear(fit *x)
{
    for (size_t k = 0; k < x->n_trials; k++) mp_free(x->trials[k].steps);
    mp_free(x->trials);
}

mp_status mp_fit_batch(const mp_fit_request *request, mp_fit *out, mp_error *err)
{
    const int64_t most = request->most > 0 ? request->most : MP_FIT_MOST;
    MP_CLEARED_BY(clear) fit x = {.request = request};
    int64_t low = 0, high = 0;
    mp_fit found = {0};
    MP_ENSURE(request->memory_bytes >= 0, err, MP_INVALID, "a memory of %lld bytes", (long long)request->memory_bytes);
    MP_ENSURE(request->overhead >= 0, err, MP_INVALID, "an overhead of %g", request->overhead);
    MP_CHECK(grow(&x, false, 1, most, &high, err));
    MP_CHECK(close_in(&x, MP_FIT_KEEP_ALL, 0, high, err));
    bracket(&x, MP_FIT_KEEP_ALL, &low, &high);
    if (!x.stopped && low < most) {
        MP_CHECK(grow(&x, true, low + 1, most, &high, err));
        MP_CHECK(close_in(&x, MP_FIT_ANY, low, high, err));
        MP_CHECK(close_in(&x, MP_FIT_RECOMPUTE, low, high, err));
    }
    for (int k = 0; k < MP_N_FIT_MEANS; k++) found.answers[k] = answer_of(&x, (mp_fit_means)k, most);
    found.n_tried = x.n_trials;
    found.n_searches = x.n_searches;
    found.stopped = x.stopped;
    *out = found;
    return MP_OK;
}

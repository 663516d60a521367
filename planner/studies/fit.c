/* fit.c - finds the largest batch that fits in a memory, for three means: keep-all, recomputation within an allowed extra time,
 * and recomputation with any extra time.
 *
 * 1. Without recomputation, one timeline decides whether a batch fits. The batch grows until it no longer fits.
 * 2. The floor is as quick to compute, and no plan needs less memory. The largest batch whose floor is within the memory is an
 *    upper limit for the other two means.
 * 3. Memory and extra time grow with the batch. Each result narrows the batches that remain: false position predicts the next
 *    batch to try (the Illinois rule of Dowell and Jarratt, 1971). If the smallest plan is far above the floor, the batch
 *    leaves the prediction in strides that grow fourfold. Near the limit of extra time, each search starts from the plan of a
 *    smaller batch, and the strides grow after a success and shrink after a failure. The results of all tried batches are
 *    stored, so that the trials for one means are reused for the next. */
#include "memplan/studies/fit.h"

#include <math.h>
#include <stdlib.h>

#include "planner/math/tuning.h"
#include "planner/studies/fit_needs.h"
#include "planner/studies/fit_trial.h"

/* The effect of each of these settings has not been measured. */
enum {
    FIT_OF_BATCH = 4,  /* most searches for one batch */
    FIT_SEARCHES = 16, /* after N searches, no batch is searched again */
    FIT_STRIDE = 4,    /* `fit`: factor from one distance of tried batches to the next */
};
static const double FIT_FIRST =
    0.7; /* the first search is for the batch at this fraction between the batches of keep-all and of the floor */

/* In addition to the three means of mp_fit_means: a batch fits if its floor is within the memory. */
enum { BY_FLOOR = MP_N_FIT_MEANS };

/* Returns a further search for a batch whose plan takes slightly more than the allowed time. If all searches from no plan were
 * for batches that are far away, another search from no plan may find a faster plan. Otherwise a search that starts from the
 * plan of a smaller batch may find one. If no plan fits, both are useless, because they reach no smaller peaks. Searchers other
 * than `auto` would repeat the first search. */
static mp_fit_depth further_search(const mp_fit_study *x, const mp_fit_trial *t)
{
    const double limit = x->request->overhead, overhead = mp_fit_overhead_of(t);
    if (t->peak_bytes < 0 || overhead <= limit || overhead >= MP_FIT_NEAR_TIME * limit || t->n_searches >= FIT_OF_BATCH ||
        x->n_searches >= FIT_SEARCHES || !mp_fit_starts_from_plans(x))
        return MP_FIT_NOT_SEARCHED;
    for (size_t k = 0; k < x->n_trials; k++)
        if (x->trials[k].searched_anew && llabs(x->trials[k].batch - t->batch) <= t->batch / 10) return MP_FIT_SEARCHED_AGAIN;
    return MP_FIT_SEARCHED_ANEW;
}

/* Returns the search that decides whether a batch meets a condition. */
static mp_fit_depth depth_of(int means)
{
    return means == MP_FIT_KEEP_ALL || means == BY_FLOOR ? MP_FIT_NOT_SEARCHED : MP_FIT_SEARCHED;
}

static bool fits(const mp_fit_study *x, const mp_fit_trial *t, int means)
{
    if (means == BY_FLOOR) return t->floor_bytes <= x->plan_limit;
    if (means == MP_FIT_KEEP_ALL) return t->kept.bytes <= x->request->memory_bytes;
    if (t->peak_bytes < 0) return false;
    return means == MP_FIT_ANY || mp_fit_is_quick_enough(x, t);
}

/* True if it is known whether the batch of this trial fits by the given means (mp_fit_means). */
static bool is_judged(const mp_fit_study *x, const mp_fit_trial *t, int means)
{
    if (means == MP_FIT_KEEP_ALL) return true;
    const bool is_over = t->has_floor && t->floor_bytes > x->plan_limit;
    if (means == BY_FLOOR) return is_over || t->floor_bytes <= x->plan_limit;
    return is_over || t->n_searches || t->peak_bytes >= 0;
}

/* Raises *low to the largest batch that is known to fit, and lowers *high to the smallest larger batch that is known not to
 * fit. */
static void bracket(const mp_fit_study *x, int means, int64_t *low, int64_t *high)
{
    for (size_t k = 0; k < x->n_trials; k++) {
        const mp_fit_trial *t = &x->trials[k];
        if (is_judged(x, t, means) && fits(x, t, means) && t->batch > *low) *low = t->batch;
    }
    for (size_t k = 0; k < x->n_trials; k++) {
        const mp_fit_trial *t = &x->trials[k];
        if (is_judged(x, t, means) && !fits(x, t, means) && t->batch > *low && t->batch < *high) *high = t->batch;
    }
}

/* How the next batch for plans with any extra time is chosen. */
typedef enum phase {
    EXPLORING,  /* no search has failed: first a batch within the span, whose plan starts later searches, then the largest */
    PREDICTING, /* a search for one batch failed; the smallest plan of this batch predicts the largest batch that fits */
    STRIDING,   /* the next batches are at growing distances from the prediction, until one batch fits and another does not */
    BISECTING   /* the largest batch that fits is within the last of these distances */
} phase;

/* The batches between the largest known to fit and the smallest larger one known not to fit. */
typedef struct span {
    int64_t low, high;
    int64_t end; /* no batch from this one on is tried */
    /* weights of `low` and `high` in the Illinois rule: if two successive trials do not move an end, its weight is halved */
    double low_weight, high_weight;
    int last; /* 1: the last trial fitted, -1: it did not, 0: there was no trial */
    phase phase;
    /* distance of the next batch to try: from `low` if positive, from `high` if negative; 0: not known. For recomputation
     * within the allowed time: the distance doubles after a batch that fits, grows fourfold after one that fits by a second
     * search, and is halved after one that does not fit */
    int64_t stride;
    bool is_again; /* true: the last trial was a second search, and the batch fits; so larger batches that failed may fit too */
} span;

/* Returns how far a trial is above the limit, at most 0 if the batch fits: bytes, or a fraction of time. NAN: unknown. */
static double excess(const mp_fit_study *x, const mp_fit_trial *t, int means)
{
    if (!t) return NAN;
    if (means == MP_FIT_KEEP_ALL) return (double)(t->kept.bytes - x->request->memory_bytes);
    if (means == BY_FLOOR) return (double)(t->floor_bytes - x->plan_limit);
    return t->peak_bytes >= 0 ? mp_fit_overhead_of(t) - x->request->overhead : NAN;
}

/* Returns the batch between s->low and s->high at which a straight line through their weighted results meets the limit. If one
 * of the two results is unknown, returns the middle. */
static int64_t false_position(const mp_fit_study *x, int means, const span *s)
{
    const double below = -excess(x, mp_fit_known(x, s->low), means) * s->low_weight;
    const double above = excess(x, mp_fit_known(x, s->high), means) * s->high_weight;
    if (!(below + above > 0)) return s->low + (s->high - s->low) / 2;
    return s->low + (int64_t)(below / (below + above) * (double)(s->high - s->low));
}

/* Predicts the largest batch with a plan from the smallest plan of a batch that does not fit: memory grows linearly with the
 * batch, from the static bytes on. */
static int64_t predicted(const mp_fit_study *x, const mp_fit_trial *above)
{
    const int64_t bytes = above ? above->smallest_bytes - above->static_bytes : 0;
    if (bytes <= 0) return 0;
    return (int64_t)((double)(x->plan_limit - above->static_bytes) / (double)bytes * (double)above->batch);
}

static bool any_searched(const mp_fit_study *x)
{
    for (size_t k = 0; k < x->n_trials; k++)
        if (x->trials[k].n_searches) return true;
    return false;
}

/* Returns the next batch to try for plans with any extra time. */
static int64_t next_any(const mp_fit_study *x, const span *s)
{
    switch (s->phase) {
    case EXPLORING:
        if (any_searched(x)) return s->high - 1;
        return s->low + (int64_t)(FIT_FIRST * (double)(s->high - s->low));
    case PREDICTING:
        return predicted(x, mp_fit_known(x, s->high));
    case STRIDING:
        return (s->stride > 0 ? s->low : s->high) + s->stride;
    case BISECTING:
        break;
    }
    return s->low + (s->high - s->low) / 2;
}

/* Returns the next batch to try for plans within the allowed time: at the stride from s->low, at most in the middle. Overhead
 * grows unevenly with the batch, so false position chooses only the first batch. */
static int64_t next_recompute(const mp_fit_study *x, const span *s)
{
    const int64_t half = (s->high - s->low) / 2;
    return s->stride ? s->low + (s->stride < half ? s->stride : half) : false_position(x, MP_FIT_RECOMPUTE, s);
}

/* Returns the next batch to try, strictly between s->low and s->high. */
static int64_t next_batch(const mp_fit_study *x, int means, const span *s)
{
    const int64_t at = means == MP_FIT_ANY         ? next_any(x, s)
                       : means == MP_FIT_RECOMPUTE ? next_recompute(x, s)
                                                   : false_position(x, means, s);
    return at <= s->low ? s->low + 1 : at >= s->high ? s->high - 1 : at;
}

/* Narrows the span after the trial of a batch that fits (up 1) or does not fit (up -1). */
static void narrow(const mp_fit_study *x, int means, span *s, int64_t batch, int up)
{
    if (means == MP_FIT_RECOMPUTE) {
        s->is_again = up > 0 && batch == s->high;
        s->stride = up > 0 ? (s->is_again ? FIT_STRIDE : 2) * (batch - s->low) : (batch - s->low + 1) / 2;
    } else if (s->phase == EXPLORING && up < 0) {
        s->phase = PREDICTING;
    } else if (s->phase == PREDICTING) {
        s->phase = STRIDING;
        s->stride = up;
    } else if (s->phase == STRIDING) {
        s->phase = (up > 0) == (s->stride > 0) ? STRIDING : BISECTING;
        s->stride *= FIT_STRIDE;
    }
    s->low_weight = s->last + up == -2 ? s->low_weight / 2 : 1;
    s->high_weight = s->last + up == 2 ? s->high_weight / 2 : 1;
    s->last = up;
    s->high = s->end; /* the batch s->high may fit after a second search */
    bracket(x, means, &s->low, &s->high);
}

/* Tries batches between `low` and `end`, until the largest batch that fits is known. low 0: no batch is known to fit. If a plan
 * for the next larger batch is slightly too slow, a second search decides. */
static mp_status close_in(mp_fit_study *x, int means, int64_t low, int64_t end, mp_error *err)
{
    span s = {.low = low, .high = end, .end = end, .low_weight = 1, .high_weight = 1};
    bracket(x, means, &s.low, &s.high);
    for (;;) {
        const mp_fit_trial *t = mp_fit_known(x, s.high);
        const bool is_near = s.high - s.low <= (s.is_again ? s.stride : 1);
        const mp_fit_depth further = means == MP_FIT_RECOMPUTE && t && is_near ? further_search(x, t) : MP_FIT_NOT_SEARCHED;
        if (further == MP_FIT_NOT_SEARCHED && s.high - s.low <= 1) break;
        if (further == MP_FIT_NOT_SEARCHED)
            MP_CHECK(mp_fit_try(x, next_batch(x, means, &s), depth_of(means), &t, err));
        else
            MP_CHECK(mp_fit_try(x, s.high, further, &t, err));
        if (!t) break;
        narrow(x, means, &s, t->batch, fits(x, t, means) ? 1 : -1);
    }
    return MP_OK;
}

/* Returns the batch at which the memory of a trial, which grows linearly with the batch, reaches the limit; at least twice the
 * batch of the trial, and at most `most`. */
static int64_t grown(const mp_fit_study *x, const mp_fit_trial *t, int means, int64_t most)
{
    const int64_t bytes = (means == BY_FLOOR ? t->floor_bytes : t->kept.bytes) - t->static_bytes;
    const int64_t limit = means == BY_FLOOR ? x->plan_limit : x->request->memory_bytes;
    const double at = (double)(limit - t->static_bytes) / (double)(bytes > 0 ? bytes : 1) * (double)t->batch;
    if (t->batch > most / 2 || at >= (double)most) return most;
    return at > 2 * (double)t->batch ? (int64_t)at : 2 * t->batch;
}

/* Increases the batch until it does not fit. *high is the first batch that does not fit. */
static mp_status grow(mp_fit_study *x, int means, int64_t from, int64_t most, int64_t *high, mp_error *err)
{
    const mp_fit_trial *t;
    for (int64_t at = from;; at = grown(x, t, means, most)) {
        *high = at;
        MP_CHECK(mp_fit_try(x, at, MP_FIT_NOT_SEARCHED, &t, err));
        if (!t || !fits(x, t, means)) break;
        *high = at + 1;
        if (at >= most) break;
    }
    return MP_OK;
}

static mp_fit_answer answer_of(const mp_fit_study *x, mp_fit_means means, int64_t most)
{
    mp_fit_answer a = {.next_floor_bytes = -1, .next_smallest_bytes = -1, .next_overhead = -1, .solver = ""};
    int64_t high = INT64_MAX;
    bracket(x, means, &a.batch, &high);
    const mp_fit_trial *t = mp_fit_known(x, a.batch), *next = mp_fit_known(x, a.batch + 1);
    if (t) {
        const bool keeps = means == MP_FIT_KEEP_ALL;
        const mp_fit_measure *measured = keeps ? &t->kept : &t->found;
        a.peak_bytes = measured->plan_bytes;
        a.needs = measured->needs;
        a.static_bytes = t->static_bytes;
        a.overhead = keeps ? 0 : mp_fit_overhead_of(t);
        a.seconds = (double)(keeps ? t->baseline_ticks : t->ticks) * t->tick_seconds;
        a.solver = keeps ? mp_fit_solver_name("none") : t->solver;
        a.is_of_best_at = !keeps && t->chosen;
    }
    if (a.batch >= most) a.end = MP_FIT_MOST_MET;
    if (a.batch >= most || !next || !is_judged(x, next, means)) return a;
    a.next_floor_bytes = next->floor_bytes;
    a.next_smallest_bytes = means == MP_FIT_KEEP_ALL ? next->kept.bytes : next->smallest_bytes;
    if (means != MP_FIT_KEEP_ALL && next->peak_bytes >= 0) a.next_overhead = mp_fit_overhead_of(next);
    if (next->has_floor && next->floor_bytes > x->plan_limit)
        a.end = MP_FIT_PROVED;
    else if (means == MP_FIT_KEEP_ALL)
        a.end = MP_FIT_OVER;
    else
        a.end = means == MP_FIT_RECOMPUTE && next->peak_bytes >= 0 ? MP_FIT_TOO_SLOW : MP_FIT_NOT_FOUND;
    return a;
}

mp_status mp_fit_batch(const mp_fit_request *request, mp_fit *out, mp_error *err)
{
    const int64_t most = request->most > 0 ? request->most : MP_FIT_MOST;
    MP_CLEARED_BY(mp_fit_study_clear) mp_fit_study x = {.request = request, .plan_limit = request->memory_bytes};
    int64_t low = 0, high = 0;
    MP_ENSURE(request->memory_bytes >= 0, err, MP_INVALID, "the memory is %lld bytes, but it must be 0 or more",
              (long long)request->memory_bytes);
    MP_ENSURE(request->overhead >= 0, err, MP_INVALID, "the permitted extra time is %g, but it must be 0 or more",
              request->overhead);
    MP_CHECK(grow(&x, MP_FIT_KEEP_ALL, 1, most, &high, err));
    MP_CHECK(close_in(&x, MP_FIT_KEEP_ALL, 0, high, err));
    bracket(&x, MP_FIT_KEEP_ALL, &low, &high);
    const mp_fit_trial *largest = mp_fit_known(&x, low > 0 ? low : 1);
    if (largest) x.plan_limit = mp_fit_plan_limit(request, &largest->kept);
    x.has_limit = true;
    if (!x.stopped && low < most) {
        MP_CHECK(grow(&x, BY_FLOOR, low + 1, most, &high, err));
        MP_CHECK(close_in(&x, BY_FLOOR, low, high, err));
        MP_CHECK(close_in(&x, MP_FIT_ANY, low, high, err));
        MP_CHECK(close_in(&x, MP_FIT_RECOMPUTE, low, high, err));
    }
    *out = (mp_fit){.plan_bytes = x.plan_limit, .n_tried = x.n_trials, .n_searches = x.n_searches, .stopped = x.stopped};
    for (int k = 0; k < MP_N_FIT_MEANS; k++) out->answers[k] = answer_of(&x, (mp_fit_means)k, most);
    return MP_OK;
}

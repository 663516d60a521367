/* anneal_walks.c - one walk: for each move it draws the largest acceptable energy, makes the move, and keeps or undoes it. This
 * file also lowers the temperature, adapts the penalty, and runs the walks in threads. */
#include "planner/anneal/anneal.h"

#include <math.h>
#include <pthread.h>

#include "planner/anneal/mover.h"
#include "planner/anneal/runs/runs.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    ANNEAL_DESCENT_EASY = 4096,  /* descent: 4096 moves after the last limit, a smaller peak becomes the limit at once */
    ANNEAL_DESCENT_PATIENCE = 3, /* a descent walk ends if 1/3 of its moves pass without a smaller peak */
    ANNEAL_LOOK = 512,           /* moves between two checks of clock and temperature; larger: faster, stops later */
    ANNEAL_THREADS = 8,          /* most walks that have a thread of their own */
};
static const double ANNEAL_PENALTY =
    20; /* cost, in median forward nodes, of a step that needs twice the budget; more: fits sooner */
static const double ANNEAL_DESCENT_PENALTY =
    40000; /* descent: cost of exceeding the limit by the first peak; more: less memory first */
static const double ANNEAL_DESCENT_HEAT = 50; /* factor on the temperature after a descent that finds no smaller peak */

mp_status mp_anneal_order_copy(mp_anneal_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err)
{
    if (!mp_grow(&to->steps, &to->capacity, n + 1, sizeof *to->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu steps", n);
    for (size_t t = 0; t < n; t++) to->steps[t] = steps[t];
    to->n = n;
    to->ticks = ticks;
    return MP_OK;
}

static mp_status take(mp_anneal_order *to, const mp_runs *x, int64_t ticks, mp_error *err)
{
    if (!mp_grow(&to->steps, &to->capacity, (size_t)x->n_on + 1, sizeof *to->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %d steps", x->n_on);
    to->n = mp_runs_steps(x, to->steps);
    to->ticks = ticks;
    return MP_OK;
}

static bool has_none(const mp_anneal_walk *w)
{
    return w->best.ticks == INT64_MAX;
}

static mp_status keep_smallest(mp_anneal_walk *w, const mp_runs *x, mp_error *err)
{
    const int64_t most = x->limit[0] + mp_profile_highest(x->profile);
    if (!has_none(w) || most >= w->smallest_bytes) return MP_OK;
    w->smallest_bytes = most;
    return take(&w->smallest, x, INT64_MAX, err);
}

static mp_status keep_best(mp_anneal_walk *w, const mp_runs *x, mp_error *err)
{
    const int64_t ticks = mp_runs_over(x) > 0 ? INT64_MAX : mp_runs_ticks(x);
    return ticks >= w->best.ticks ? MP_OK : take(&w->best, x, ticks, err);
}

static bool stopped(mp_anneal_walk *w)
{
    if (w->leads) mp_search_count_moves(w->search, ANNEAL_LOOK);
    if (w->leads && mp_search_stopped(w->search)) atomic_store(w->stop, true);
    if (w->leads && !w->is_apart) atomic_store(w->enough, mp_search_proved(w->search) - w->update_ticks);
    /* an order that takes no more than the lower bound is optimal, so this walk ends; if its `leads` is true, the other walks
     * end too */
    if (w->best.ticks <= atomic_load(w->enough)) {
        if (w->leads && !w->is_apart) atomic_store(w->stop, true);
        return true;
    }
    return atomic_load(w->stop);
}

/* Returns the fraction of a walk that is completed after k moves. It is the fraction of the walk's moves or of its time,
 * whichever is larger. */
static double progress_of(const mp_anneal_walk *w, int64_t k)
{
    const double by_moves = (double)k / (double)w->n_moves, elapsed = mp_search_elapsed(w->search);
    const double by_time = elapsed > w->from ? (elapsed - w->from) / (w->end - w->from) : 0;
    return by_moves > by_time ? by_moves : by_time;
}

/* The penalty in ticks for each byte over the budget in each step, and the state from which it is adapted. */
typedef struct penalty {
    double ticks, least;
    int n_over; /* number of consecutive checks at which the order exceeded the memory budget */
} penalty;

static void adjust(penalty *p, bool is_over)
{
    p->n_over = is_over ? p->n_over + 1 : 0;
    if (p->n_over > MP_ANNEAL_PENALTY_PATIENCE && p->ticks < MP_ANNEAL_PENALTY_MOST * p->least)
        p->ticks *= MP_ANNEAL_PENALTY_RISE;
    if (!p->n_over && p->ticks > p->least) p->ticks *= MP_ANNEAL_PENALTY_FALL;
}

static double temperature(const mp_anneal_walk *w, const penalty *p, double progress)
{
    const double t = w->unit * w->hot * pow(w->cold / w->hot, progress);
    return has_none(w) ? t * pow(p->ticks / p->least, MP_ANNEAL_PENALTY_HEAT) : t;
}

/* Returns the penalty per byte. It is chosen so that a step that needs twice its memory limit adds units * w->unit to the
 * energy. */
static double penalty_of(const mp_anneal_walk *w, const mp_runs *x, double units)
{
    return units * w->unit / (double)(x->limit[0] > 0 ? x->limit[0] : 1);
}

static double energy(const mp_runs *x, double penalty_ticks)
{
    return (double)mp_runs_ticks(x) + penalty_ticks * (double)mp_runs_over(x);
}

/* Returns the energy of the order: its ticks plus the penalty. If the energy exceeds `most`, the result may be any value above
 * `most`. */
static double energy_within(const mp_runs *x, double penalty_ticks, double most)
{
    const double MOST_TICKS = 0x1p62, beside = penalty_ticks * (double)mp_runs_over(x), ticks = most - beside + 1;
    return (double)mp_runs_ticks_within(x, ticks < MOST_TICKS ? (int64_t)ticks : INT64_MAX) + beside;
}

/* Draws the highest energy that is acceptable, then makes a random move. Undoes the move if its energy is higher. Returns true
 * if the move was kept, with the new energy in *now. */
static bool try_move(mp_runs *x, mp_mover *mover, double temperature, double penalty_ticks, double *now)
{
    const double MOST_TICKS = 0x1p62, most = *now - temperature * log(1 - mp_mover_uniform(mover));
    const bool done = mp_move(mover, most < MOST_TICKS ? (int64_t)most : INT64_MAX);
    /* the sum of compute ticks is compared first, because the makespan takes longer to compute */
    const bool may = done && !x->failed && (double)x->ticks + penalty_ticks * (double)mp_runs_over(x) <= most;
    const double then = may ? energy_within(x, penalty_ticks, most) : INFINITY;
    const bool is_kept = then <= most;
    if (is_kept)
        *now = then;
    else
        mp_runs_undo(x);
    mp_runs_keep(x);
    return is_kept;
}

/* Lowers the memory limit of a walk to slightly below the peak of its order. Precondition: the peak is within the present
 * limit. */
static mp_status lower_limit(mp_anneal_walk *w, mp_runs *x, int64_t goal_bytes, mp_error *err)
{
    const int64_t peak = x->limit[0] + mp_profile_highest(x->profile);
    w->smallest_bytes = peak;
    MP_CHECK(take(&w->smallest, x, INT64_MAX, err));
    x->limit[0] = peak - (int64_t)(w->lowers * (double)peak) - 1;
    if (x->limit[0] < goal_bytes) x->limit[0] = goal_bytes;
    mp_runs_spread(x);
    return MP_OK;
}

/* Lowers the memory limit step by step, until the order's peak is within the budget. */
static mp_status descend(mp_anneal_walk *w, mp_runs *x, mp_mover *mover, mp_error *err)
{
    const int64_t goal_bytes = x->limit[0];
    x->limit[0] += mp_profile_highest(x->profile);
    mp_runs_spread(x);
    const double penalty_ticks = penalty_of(w, x, ANNEAL_DESCENT_PENALTY);
    double now = 0, t = 0;
    const int64_t patience = 1 + w->n_moves / ANNEAL_DESCENT_PATIENCE;
    for (int64_t k = 0, last = 0; k < w->n_moves && k - last <= patience; k++) {
        const bool looks = k % ANNEAL_LOOK == 0, is_end = x->limit[0] <= goal_bytes;
        if (looks && stopped(w)) break;
        if (looks && x->n_shifted > x->n_on) mp_runs_spread(x);
        /* The limit is lowered when the order's peak has fallen below it. After few moves this happens only at the next
         * periodic check (`looks`), so that moves can remove recomputations first. After many moves it happens at once. */
        const bool is_smaller = !mp_runs_over(x) && (looks || is_end || k - last > ANNEAL_DESCENT_EASY);
        if (is_smaller && is_end) {
            if (w->leads) atomic_store(w->stop, true);
            MP_CHECK(take(&w->best, x, mp_runs_ticks(x), err));
            break;
        }
        if (is_smaller) {
            MP_CHECK(lower_limit(w, x, goal_bytes, err));
            last = k;
        }
        if (looks || is_smaller) {
            t = w->unit * w->hot * pow(ANNEAL_DESCENT_HEAT, (double)(k - last) / (double)patience);
            now = energy(x, penalty_ticks);
        }
        try_move(x, mover, t, penalty_ticks, &now);
        MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %d runs", x->n_on);
    }
    return MP_OK;
}

/* True if a walk over a part of the graph (`is_apart`) should end after k moves. The peak of its order is still far over the
 * budget, so the walk will probably find no order within the budget. */
static bool will_not_do(const mp_anneal_walk *w, int64_t k)
{
    return w->is_apart && has_none(w) && k > w->n_moves / MP_ANNEAL_WINDOW_PATIENCE &&
           (double)w->smallest_bytes > MP_ANNEAL_DESCENT_NEAR * (double)w->budget_bytes;
}

static mp_status walk(mp_anneal_walk *w, mp_runs *x, mp_mover *mover, mp_error *err)
{
    penalty p = {.least = penalty_of(w, x, ANNEAL_PENALTY)};
    double t = 0, now = 0;
    p.ticks = p.least;
    for (int64_t k = 0; k < w->n_moves; k++) {
        if (k % ANNEAL_LOOK == 0) {
            const double progress = progress_of(w, k);
            if (stopped(w) || progress >= 1) break;
            if (x->n_shifted > x->n_on) mp_runs_spread(x);
            MP_CHECK(keep_smallest(w, x, err));
            if (will_not_do(w, k) || (w->ends_at_first && !has_none(w))) break;
            adjust(&p, mp_runs_over(x) > 0);
            mover->is_stuck = p.n_over > MP_ANNEAL_PENALTY_PATIENCE;
            now = energy(x, p.ticks);
            t = temperature(w, &p, progress);
        }
        if (try_move(x, mover, t, p.ticks, &now)) MP_CHECK(keep_best(w, x, err));
        MP_ENSURE(!x->failed, err, MP_NOMEM, "out of memory for %d runs", x->n_on);
    }
    return MP_OK;
}

static mp_status walk_from_start(mp_anneal_walk *w, mp_error *err)
{
    MP_OWNED_BY(mp_runs_free) mp_runs *x = NULL;
    MP_CLEARED_BY(mp_mover_free) mp_mover mover = {0};
    MP_CHECK(mp_runs_new(w->graph, w->budget_bytes, w->tier_bytes, w->start->steps, w->start->n, &x, err));
    MP_CHECK(mp_mover_new(x, w->seed, w->keeps_order, &mover, err));
    if (w->draws_near) mp_mover_draw_near(&mover);
    MP_CHECK(keep_best(w, x, err));
    return w->lowers > 0 ? descend(w, x, &mover, err) : walk(w, x, &mover, err);
}

static void *walk_thread(void *data)
{
    mp_anneal_walk *w = data;
    const long before = mp_alloc_live;
    w->smallest_bytes = INT64_MAX;
    w->err = (mp_error){0};
    w->status = walk_from_start(w, &w->err);
    w->n_live = mp_alloc_live - before;
    return NULL;
}

mp_status mp_anneal_walk_all(mp_anneal_walk *walks, int n, mp_error *err)
{
    pthread_t threads[ANNEAL_THREADS];
    bool is_apart[ANNEAL_THREADS] = {false};
    for (int k = 1; k < n && k < ANNEAL_THREADS; k++) is_apart[k] = !pthread_create(&threads[k], NULL, walk_thread, &walks[k]);
    walk_thread(&walks[0]);
    for (int k = 1; k < n; k++) {
        if (k < ANNEAL_THREADS && is_apart[k]) {
            pthread_join(threads[k], NULL);
            mp_alloc_live += walks[k].n_live;
        } else {
            walk_thread(&walks[k]);
        }
    }
    for (int k = 0; k < n; k++) {
        if (walks[k].status == MP_OK) continue;
        if (err && err->code == MP_OK) *err = walks[k].err;
        return walks[k].status;
    }
    return MP_OK;
}

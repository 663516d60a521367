/* anneal_tensors.c - simulated annealing over one choice per storage: keep, offload or recompute.
 *
 * A move makes new choices for one to three storages, or for all outputs of their nodes. Moves of several storages are needed.
 * For example, a block may produce nine tensors that save time only if all of them are changed. The energy is the makespan plus
 * a penalty per byte over the budget in each step.
 *
 * The choices determine when copies begin and end (choices.h), and there are far fewer combinations of choices than orders of
 * steps. So this search is suited to decide which tensors are copied over the link. Annealing of orders (planner/anneal) runs
 * afterwards and moves single steps. It also finds plans that no choices produce, such as plans with two recomputations of one
 * tensor. Source: Kirkpatrick, Gelatt and Vecchi 1983. */
#include "planner/search/searchers.h"

#include <math.h>
#include <string.h>

#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"
#include "planner/offload/trials.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    CHOICES_FOR_MOVE = 5, /* most random changes per requested move */
    CHOICES_FLIPS = 3,    /* most storages, or nodes, that one random change flips */
    CHOICES_LOOK = 32,    /* random changes between two checks of clock and penalty */
};
static const double CHOICES_PENALTY =
    0.05; /* cost, in steps, of exceeding the budget by 100 %; larger: fits sooner, slower plan */
static const double CHOICES_HOT = 0.002;    /* first temperature, as part of a step */
static const double CHOICES_COLD = 0.00005; /* last temperature, as part of a step */

typedef struct walk {
    mp_trials *x;
    mp_choice *before, *best; /* per storage. before: its choice before the current move. best: its choice in the best plan */
    size_t n_bytes;           /* size in bytes of each of the arrays `before` and `best` */
    uint64_t random;
    /* step: ticks of keep-all; penalty: ticks per byte over the budget in a step; now: energy of the present choices */
    double step, penalty, now;
    int64_t best_ticks, update_ticks;
    int n_over; /* number of successive checks at which the plan exceeded the budget */
} walk;

static double energy(const walk *w, int64_t ticks, int64_t over)
{
    return over == INT64_MAX ? INFINITY : (double)ticks + w->penalty * (double)over;
}

/* Sets the initial choices to those of the best known plan. */
static mp_status take_best_choices(walk *w, mp_error *err)
{
    mp_trials *x = w->x;
    const mp_step *steps;
    size_t n;
    MP_OWNED bool *has_run = mp_alloc(x->graph->n_nodes, sizeof *has_run);
    MP_ENSURE(has_run, err, MP_NOMEM, "out of memory for %zu nodes", x->graph->n_nodes);
    w->update_ticks = x->ticks - x->choices.begins[x->choices.n];
    mp_search_best(x->search, &steps, &n);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *does = &x->graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        for (size_t k = 0; k < does->n_writes && has_run[steps[t].node]; k++) {
            const int s = does->writes[k];
            if (does->returns ? mp_choices_may_copy(&x->choices, s) : mp_trials_may_rerun(x, s))
                x->choices.of[s] = does->returns ? MP_CHOICE_COPIED : MP_CHOICE_RECOMPUTED;
        }
        has_run[steps[t].node] = true;
    }
    MP_CHECK(mp_trials_judge(x, &x->ticks, &x->over, err));
    w->best_ticks = x->over ? INT64_MAX : x->ticks;
    memcpy(w->best, x->choices.of, w->n_bytes);
    return MP_OK;
}

/* Draws a new choice for a random storage, or for all outputs of the node that produces it. */
static void flip(walk *w)
{
    mp_trials *x = w->x;
    const int s = x->candidates[mp_splitmix_below(&w->random, (int)x->n_candidates)].storage;
    const mp_alternative *makes = &x->graph->nodes[x->graph->producer[s]].alternatives[0];
    const mp_choice choice = (mp_choice)mp_splitmix_below(&w->random, MP_CHOICE_RECOMPUTED + 1);
    const bool takes_all = mp_splitmix_below(&w->random, 2);
    for (size_t k = 0; k < makes->n_writes; k++) {
        const int made = makes->writes[k];
        const bool may = choice == MP_CHOICE_KEPT || (choice == MP_CHOICE_RECOMPUTED ? mp_trials_may_rerun(x, made)
                                                                                     : mp_choices_may_copy(&x->choices, made));
        if (may && (takes_all || made == s)) x->choices.of[made] = choice;
    }
}

/* Adapts the penalty. If the plan has exceeded the budget for many moves, raises it. If the plan fits, lowers it gradually,
 * down to `least`. */
static void adjust(walk *w, double least)
{
    w->n_over = w->x->over ? w->n_over + 1 : 0;
    if (w->n_over > MP_ANNEAL_PENALTY_PATIENCE && w->penalty < MP_ANNEAL_PENALTY_MOST * least)
        w->penalty *= MP_ANNEAL_PENALTY_RISE;
    if (!w->n_over && w->penalty > least) w->penalty *= MP_ANNEAL_PENALTY_FALL;
    w->now = energy(w, w->x->ticks, w->x->over);
}

/* Makes a random move. Undoes the move if the new energy exceeds a random limit. */
static mp_status change(walk *w, double temperature, mp_error *err)
{
    mp_trials *x = w->x;
    const double most = w->now - temperature * log(1 - mp_splitmix_uniform(&w->random));
    int64_t ticks = 0, over = INT64_MAX;
    size_t n;
    memcpy(w->before, x->choices.of, w->n_bytes);
    for (int k = mp_splitmix_below(&w->random, CHOICES_FLIPS); k >= 0; k--) flip(w);
    if (!memcmp(w->before, x->choices.of, w->n_bytes)) return MP_OK;
    mp_choices_order(&x->choices, &n);
    /* the ticks of compute are compared first, because they are known before the timeline is built */
    const double computing = (double)(x->choices.begins[x->choices.n] + w->update_ticks);
    if (computing <= most) MP_CHECK(mp_trials_judge(x, &ticks, &over, err));
    if (energy(w, ticks, over) > most) {
        memcpy(x->choices.of, w->before, w->n_bytes);
        return MP_OK;
    }
    w->now = energy(w, ticks, over);
    x->ticks = ticks;
    x->over = over;
    if (over || ticks >= w->best_ticks) return MP_OK;
    w->best_ticks = ticks;
    memcpy(w->best, x->choices.of, w->n_bytes);
    return MP_OK;
}

static mp_status choose(mp_trials *x, mp_error *err)
{
    MP_OWNED mp_choice *before = mp_alloc(x->graph->n_storages, sizeof *before);
    MP_OWNED mp_choice *best = mp_alloc(x->graph->n_storages, sizeof *best);
    const mp_request *request = mp_search_request(x->search);
    const int64_t by_work = MP_ANNEAL_TENSORS_WORK / (int64_t)x->graph->n_nodes;
    int64_t n = by_work < MP_ANNEAL_TENSORS_OFFERS ? by_work : MP_ANNEAL_TENSORS_OFFERS;
    if (request->moves > 0 && n > CHOICES_FOR_MOVE * request->moves) n = CHOICES_FOR_MOVE * request->moves;
    walk w = {.x = x,
              .before = before,
              .best = best,
              .n_bytes = x->graph->n_storages * sizeof *best,
              .random = request->seed,
              .step = (double)mp_search_baseline_ticks(x->search)};
    const double least = CHOICES_PENALTY * w.step / (double)request->budget_bytes;
    MP_ENSURE(before && best, err, MP_NOMEM, "out of memory for %zu storages", x->graph->n_storages);
    if (mp_search_best_ticks(x->search) <= mp_search_enough(x->search)) return MP_OK;
    MP_CHECK(take_best_choices(&w, err));
    w.penalty = least;
    for (int64_t k = 0; k < n && x->n_candidates; k++) {
        const double progress = (double)k / (double)n;
        if (k % CHOICES_LOOK == 0) {
            if (mp_search_stopped(x->search) || w.best_ticks <= mp_search_enough(x->search)) break;
            adjust(&w, least);
        }
        MP_CHECK(change(&w, w.step * CHOICES_HOT * pow(CHOICES_COLD / CHOICES_HOT, progress), err));
    }
    if (w.best_ticks < INT64_MAX) memcpy(x->choices.of, best, w.n_bytes);
    return MP_OK;
}

mp_status mp_run_anneal_tensors(mp_search *search, mp_error *err)
{
    return mp_trials_run(search, choose, err);
}

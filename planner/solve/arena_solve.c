/* arena_solve.c - searches repeated with smaller or larger budgets until the plan fits with its arena. */
#include "memplan/arena_solve.h"

#include "estimator/base/clock.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/solve/smallest.h"
#include "planner/solve/solver.h"

enum { ROUNDS = 5, QUICKER = 2 /* after the first */, LIMITED_ROUNDS = 16 /* with a time limit, which ends them */ };

/* ---- one plan ---- */

/* With a time limit an arena has half of what is left of it: the rest is for another plan. */
static bool is_late(void *data)
{
    return mp_clock_now() > *(const double *)data;
}

/* Lays a plan out by `deadline` (0: whenever), and says which budget it is for: none if it is over. A fault that the check
 * finds is ours. */
static mp_status lay_out(const mp_graph *graph, mp_plan *plan, int64_t budget_bytes, double deadline, mp_error *err)
{
    mp_arena_options options = {.data = &deadline};
    if (budget_bytes < MP_NO_LIMIT) options.capacity_bytes = budget_bytes - plan->static_bytes;
    if (deadline > 0) options.stop = is_late;
    MP_CHECK(mp_arena_layout_within(graph, plan, &options, err));
    plan->budget_bytes = mp_plan_need(plan) > budget_bytes ? MP_NO_LIMIT : budget_bytes;
    return mp_plan_check(graph, plan, err);
}

static void replace(mp_plan **to, mp_plan **from)
{
    mp_plan_free(*to);
    *to = *from;
    *from = NULL;
}

/* A later round without a plan has come down from the last one at least: what it came to may fit already. */
static void step_down(const mp_plan *last, mp_answer *later)
{
    if (later->plan || !last || later->smallest->peak_bytes >= last->peak_bytes) return;
    later->plan = later->smallest;
    later->smallest = NULL;
}

/* Takes what an answer of a later round has but its plan: the smaller of the smallest plans. */
static void keep(mp_answer *found, mp_answer *later)
{
    if (!found->smallest || (later->smallest && later->smallest->peak_bytes < found->smallest->peak_bytes))
        replace(&found->smallest, &later->smallest);
    found->stopped |= later->stopped;
}

/* What the next round searches within: if its arena exceeds what lives by as much as the plan's does, it just fits. After
 * several rounds in vain within a time limit that many times as much is left free, so that the last ones do not miss once more.
 */
static int64_t next_budget(const mp_plan *plan, int64_t budget_bytes, int n_in_vain)
{
    const int64_t free_bytes = budget_bytes - mp_plan_need(plan), next = plan->peak_bytes + free_bytes * n_in_vain;
    return n_in_vain < 2 || next < plan->floor_bytes ? plan->peak_bytes + free_bytes : next;
}

/* True if a plan that fits is worth no further round: hardly slower than the one that went over, or hardly smaller than what
 * the next round would search within. */
static bool is_near(const mp_plan *fits, int64_t least_ticks, int64_t next_bytes)
{
    enum { OF_TIME = 1000, OF_BYTES = 1000 };
    return fits->ticks - least_ticks <= fits->baseline_ticks / OF_TIME ||
           next_bytes - fits->peak_bytes <= next_bytes / OF_BYTES;
}

/* ---- rounds ---- */

/* Searches one after the other, within one time limit. */
typedef struct rounds {
    const mp_request *request; /* what was asked */
    mp_request now;            /* what the present round is asked */
    double start;
    double again;  /* what a round below the budget has, as a share of the limit */
    bool is_ended; /* by the caller */
} rounds;

/* The caller's progress; a caller that ends a round ends them all. */
static bool tell(const mp_progress *progress, void *data)
{
    rounds *r = data;
    if (!r->request->progress(progress, r->request->progress_data)) r->is_ended = true;
    return !r->is_ended;
}

/* When the arena of a plan has to be there; 0: whenever. The smallest plan, the last resort, may be late; half a second, which
 * is all that most need, is left where the caller has ended the search. */
static double deadline(const rounds *r, bool is_last)
{
    const double limit = r->request->time_limit, now = mp_clock_now(), left = limit - (now - r->start);
    const double share = is_last ? MP_ARENA_TIME_SHARE / 2 : MP_ARENA_LAYOUT_SHARE;
    const double HALF = 0.5;
    if (r->is_ended && (limit <= 0 || left > HALF)) return now + HALF;
    return limit <= 0 ? 0 : now + (is_last || share * limit < left ? share * limit : left);
}

static void begin(rounds *r, const mp_request *request)
{
    *r = (rounds){.request = request, .now = *request, .start = mp_clock_now(), .again = MP_ARENA_AGAIN_SHARE};
    r->now.skips_if_proved = true;
    r->now.find_smallest = mp_smallest_plan;
    if (request->progress) {
        r->now.progress = tell;
        r->now.progress_data = r;
    }
    if (request->time_limit > 0) r->now.time_limit = (1 - MP_ARENA_TIME_SHARE) * request->time_limit;
}

/* After the first round: from a plan that fits or from the one that was left, quicker, and without a bound, for the first
 * round's is that of the budget which was asked for. As long as nothing fits, each has a small share of the time, so that there
 * is some for another. False: there is none left. */
static bool ask_again(rounds *r, const mp_plan *fits, const mp_plan *last, int64_t budget_bytes)
{
    const mp_request *request = r->request;
    const mp_plan *start = fits ? fits : last;
    r->now.budget_bytes = budget_bytes;
    r->now.start = start;
    r->now.refine = true;
    r->now.wants_bound = r->now.skips_if_proved = false;
    if (request->moves <= 0) r->now.moves = mp_default_moves(request->graph) / QUICKER;
    if (request->time_limit <= 0) return true;
    const double limit = request->time_limit, share = r->again * limit;
    const double left = (1 - MP_ARENA_LAYOUT_SHARE) * limit - (mp_clock_now() - r->start); /* its arena takes time, too */
    r->now.time_limit = fits || left < share ? left : share;
    return left > 0;
}

/* Of a request with a problem. */
static mp_status solve(const mp_request *request, mp_answer *answer, mp_error *err)
{
    const int64_t budget = request->budget_bytes;
    const int most = request->time_limit > 0 ? LIMITED_ROUNDS : ROUNDS;
    int64_t least_ticks = 0;
    int n_in_vain = 0;
    rounds r;
    MP_CLEARED_BY(mp_answer_free) mp_answer found = {0}, later = {0};
    MP_OWNED_BY(mp_plan_free)
    mp_plan *last = NULL,
            *fits = NULL; /* of the plans that have been found the last that did not fit, the cheapest that does */
    begin(&r, request);
    for (int round = 0; round < most; round++) {
        MP_CHECK(mp_solve(&r.now, &later, err));
        if (round == 0) {
            found = later;
            found.plan = found.smallest = NULL;
            later.report = NULL;
            if (later.plan) least_ticks = later.plan->ticks;
        }
        step_down(last, &later);
        keep(&found, &later);
        if (!later.plan) {
            mp_answer_free(&later);
            r.again *= 2; /* it was too short, or too much was left free */
            n_in_vain = 0;
            if (!last || fits || r.is_ended || request->time_limit <= 0) break;
            if (!ask_again(&r, NULL, last, next_budget(last, budget, 1))) break;
            continue;
        }
        MP_CHECK(lay_out(request->graph, later.plan, budget, deadline(&r, false), err));
        const bool does_fit = mp_plan_need(later.plan) <= budget;
        if (!does_fit && !fits && request->time_limit > 0) n_in_vain++;
        const int64_t next = next_budget(later.plan, budget, does_fit ? 0 : n_in_vain);
        if (!does_fit)
            replace(&last, &later.plan);
        else if (!fits || later.plan->ticks < fits->ticks)
            replace(&fits, &later.plan);
        mp_answer_free(&later);
        const bool has_left = round == 0 && fits && found.stopped; /* of its time, as there is no need to make arenas fit */
        if (round == 0 && fits && !has_left) break;
        if (!has_left && fits && (next <= fits->peak_bytes || is_near(fits, least_ticks, next))) break;
        if (r.is_ended || next < found.floor_bytes || !ask_again(&r, fits, last, has_left ? budget : next)) break;
    }
    found.plan = fits;
    fits = NULL;
    found.stopped |= r.is_ended;
    MP_CHECK(mp_answer_fall_back(request, true, r.start, &found, err));
    if (found.smallest->arena_bytes < 0)
        MP_CHECK(lay_out(request->graph, found.smallest, budget, deadline(&r, !found.plan), err));
    found.smallest->budget_bytes = MP_NO_LIMIT;
    if (!found.plan && mp_plan_need(found.smallest) <= budget)
        MP_CHECK(mp_answer_take_smallest(request, &found, err)); /* of a search that was cut short */
    if (found.plan && found.bound.ticks >= 0) MP_CHECK(mp_answer_claim_bound(&found, request->graph, err));
    *answer = found;
    found = (mp_answer){0};
    return MP_OK;
}

mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_request asked;
    MP_OWNED_BY(mp_problem_free) mp_problem *own = NULL;
    MP_CHECK(mp_request_complete(request, &asked, &own, err));
    return solve(&asked, answer, err);
}

/* search.c - the state of a search. It judges candidates, keeps the best of them, stores bounds that were proved, and watches
 * the time limit. */
#include "planner/search/search.h"

#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "planner/math/tuning.h"
#include "planner/order/order.h"

const mp_request *mp_search_request(const mp_search *search)
{
    return &search->seen;
}

int64_t mp_search_moves(const mp_search *search)
{
    return search->moves;
}

static const char *const effort_names[MP_N_EFFORTS] = {"normal", "quick", "thorough"};

const char *mp_effort_name(mp_effort effort)
{
    return effort_names[effort];
}

int mp_effort_find(const char *name)
{
    return mp_names_position(effort_names, MP_N_EFFORTS, name);
}

mp_effort mp_search_effort(const mp_search *search)
{
    return search->request->graph->n_nodes <= MP_EFFORT_NODES ? MP_EFFORT_THOROUGH : search->request->effort;
}

void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n)
{
    const mp_candidate *kept = search->best.solver ? &search->best : &search->smallest;
    *steps = kept->steps;
    *n = kept->n;
}

int64_t mp_search_baseline_ticks(const mp_search *search)
{
    return search->baseline_ticks;
}

int64_t mp_search_best_ticks(const mp_search *search)
{
    return search->best.solver ? search->best.ticks : INT64_MAX;
}

int64_t mp_search_enough(const mp_search *search)
{
    return search->known.ticks > search->baseline_ticks ? search->known.ticks : search->baseline_ticks;
}

/* ---- proved bounds ---- */

bool mp_search_is_infeasible(const mp_search *search)
{
    return search->known.infeasible;
}

/* Replaces *to by *found if *found is the stronger bound: it has more ticks, or it is infeasible. If both are equally strong,
 * *to is not changed. */
static void merge(mp_bound *to, const mp_bound *found)
{
    const mp_bound before = *to;
    if (found->ticks > to->ticks || (found->infeasible && !to->infeasible)) *to = *found;
    if (before.ticks > to->ticks) to->ticks = before.ticks;
    to->infeasible = before.infeasible || found->infeasible;
}

void mp_search_take_bound(mp_search *search, const mp_bound *bound)
{
    merge(&search->known, bound);
    merge(&search->proved, bound);
}

void mp_search_end_proof(mp_search *search)
{
    mp_bound bound = {.ticks = -1};
    if (!search->proof) return;
    search->proof_status = mp_proof_end(search->proof, &bound, &search->proof_err);
    search->proof = NULL;
    merge(&search->proved, &bound);
}

int64_t mp_search_proved(mp_search *search)
{
    if (search->proof && mp_proof_wait(search->proof, 0)) mp_search_end_proof(search);
    return search->proved.ticks > search->baseline_ticks ? search->proved.ticks : search->baseline_ticks;
}

bool mp_search_settled(mp_search *search)
{
    return search->best.solver && search->best.ticks <= mp_search_proved(search);
}

void mp_search_await_proof(mp_search *search)
{
    const double LOOK = 0.05;
    while (search->proof && !mp_search_settled(search) && !search->stopped) {
        if (search->proof && mp_proof_wait(search->proof, LOOK)) mp_search_end_proof(search);
        mp_search_check_limits(search);
    }
}

bool mp_search_is_within(mp_search *search, double gap)
{
    if (!search->best.solver) return false;
    mp_search_await_proof(search);
    return (double)(search->best.ticks - mp_search_proved(search)) <= gap * (double)search->baseline_ticks;
}

bool mp_search_will_do(mp_search *search)
{
    const double gap = search->request->gap;
    return mp_search_settled(search) || (gap > 0 && mp_search_is_within(search, gap));
}

/* Returns an empty bound, which proves no ticks, for the class of plans that the request allows (list order or any order). */
static mp_bound claim(const mp_search *search)
{
    return (mp_bound){.ticks = -1,
                      .orders = search->request->keep_order ? MP_BOUND_THIS_ORDER : MP_BOUND_ANY_ORDER,
                      .stage = MP_BOUND_SEARCH,
                      .from = -1,
                      .to = -1};
}

void mp_search_claim_bound(mp_search *search, int64_t ticks)
{
    mp_bound bound = claim(search);
    bound.ticks = ticks;
    mp_search_take_bound(search, &bound);
}

void mp_search_claim_infeasible(mp_search *search)
{
    mp_bound bound = claim(search);
    bound.infeasible = true;
    mp_search_take_bound(search, &bound);
}

/* ---- time ---- */

void mp_search_begin(mp_search *search)
{
    search->start = search->last_progress = mp_clock_now();
}

void mp_search_check_limits(mp_search *search)
{
    const mp_request *request = search->request;
    enum { PER_SECOND = 10 };
    if (search->stopped || (request->time_limit <= 0 && !request->progress)) return;
    const double t = mp_clock_now();
    if (request->time_limit > 0 && t - search->start > request->time_limit) search->stopped = true;
    if (!request->progress || t - search->last_progress < 1.0 / PER_SECOND) return;
    search->last_progress = t;
    const mp_progress progress = {.solver = search->solver,
                                  .elapsed_seconds = t - search->start,
                                  .best_ticks = search->best.solver ? search->best.ticks : -1,
                                  .baseline_ticks = search->keep_all_ticks,
                                  .smallest_peak_bytes = search->smallest.solver ? search->smallest.peak_bytes : -1,
                                  .bound_ticks = search->proved.ticks,
                                  .n_offers = search->n_offers,
                                  .n_moves = search->n_moves,
                                  .moves_per_second =
                                      t > search->moves_start ? (double)search->n_moves / (t - search->moves_start) : 0};
    if (!request->progress(&progress, request->progress_data)) search->stopped = true;
}

void mp_search_count_moves(mp_search *search, int64_t n)
{
    if (!search->n_moves) search->moves_start = mp_clock_now();
    search->n_moves += n;
}

double mp_search_elapsed(const mp_search *search)
{
    const double limit = search->request->time_limit;
    return limit > 0 ? (mp_clock_now() - search->start) / limit : 0;
}

/* True if the running searcher has used the share of the time limit that it was given. */
static bool had_its_share(mp_search *search)
{
    const double share = search->best.solver ? search->share : (1 + search->share) / 2;
    if (mp_search_elapsed(search) <= share) return false;
    search->was_cut = true;
    return true;
}

bool mp_search_stopped(mp_search *search)
{
    mp_search_check_limits(search);
    return search->stopped || search->n_offers_of_solver >= search->moves || had_its_share(search);
}

/* ---- kept schedules ---- */

mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err)
{
    if (!mp_grow(&kept->steps, &kept->capacity, n, sizeof *steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    memcpy(kept->steps, steps, n * sizeof *steps);
    kept->n = n;
    kept->peak_bytes = peak_bytes;
    kept->ticks = ticks;
    kept->solver = solver;
    return MP_OK;
}

/* True if the peak in every tier other than the device is within the tier's budget. */
static bool fits_beside(const mp_request *request, const mp_timeline *timeline)
{
    for (size_t m = 1; m < timeline->n_tiers; m++)
        if (request->tier_bytes[m] && timeline->tiers[m].peak_bytes > request->tier_bytes[m]) return false;
    return true;
}

bool mp_request_fits(const mp_request *request, const mp_timeline *timeline)
{
    return timeline->peak_bytes <= request->budget_bytes && fits_beside(request, timeline);
}

bool mp_request_fits_plan(const mp_request *request, const mp_plan *plan)
{
    bool fits = mp_plan_need(plan) <= request->budget_bytes;
    for (int m = 1; m < (int)request->graph->n_tiers && fits; m++)
        fits = !request->tier_bytes[m] || mp_plan_tier_need(request->graph, plan, m) <= request->tier_bytes[m];
    return fits;
}

/* Judges a schedule. Nodes use the algorithms that the schedule's steps name. */
static mp_status judge_steps(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                             mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    const mp_request *request = search->request;
    const mp_candidate *best = &search->best, *smallest = &search->smallest;
    MP_CHECK(mp_timeline_build(request->graph, steps, n, &timeline, err));
    const int64_t peak = timeline->peak_bytes, time = timeline->ticks;
    if (mp_request_fits(request, timeline) && (!best->solver || time < best->ticks))
        MP_CHECK(mp_candidate_take(&search->best, steps, n, peak, time, search->solver, err));
    if (peak_bytes) *peak_bytes = peak;
    if (ticks) *ticks = time;
    if (!fits_beside(request, timeline)) return MP_OK;
    if (!smallest->solver || peak < smallest->peak_bytes || (peak == smallest->peak_bytes && time < smallest->ticks))
        MP_CHECK(mp_candidate_take(&search->smallest, steps, n, peak, time, search->solver, err));
    return request->on_offer ? request->on_offer(steps, n, peak, time, request->on_offer_data, err) : MP_OK;
}

/* Judges a schedule twice with different algorithms: with those of the lowest peak, and with the fastest that fit the
 * budget. */
static mp_status judge(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks, mp_error *err)
{
    const mp_graph *graph = search->request->graph;
    const int64_t budget_bytes = search->request->budget_bytes;
    int64_t least_bytes;
    MP_OWNED mp_step *chosen = NULL;
    if (!search->has_algorithms) return judge_steps(search, steps, n, peak_bytes, ticks, err);
    MP_ENSURE(chosen = mp_alloc(n, sizeof *chosen), err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    if (n) memcpy(chosen, steps, n * sizeof *steps);
    MP_CHECK(mp_algorithms_choose(graph, chosen, n, 0, &least_bytes, err));
    MP_CHECK(judge_steps(search, chosen, n, peak_bytes, ticks, err));
    if (least_bytes >= budget_bytes) return MP_OK;
    MP_CHECK(mp_algorithms_choose(graph, chosen, n, budget_bytes, NULL, err));
    return judge_steps(search, chosen, n, peak_bytes, ticks, err);
}

mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks, mp_error *err)
{
    const mp_graph *graph = search->request->graph;
    MP_OWNED mp_step *restored = NULL;
    size_t n_restored;
    bool is_kept = true;
    search->n_offers++;
    search->n_offers_of_solver++;
    if (search->request->keep_order) MP_CHECK(mp_order_is_kept(graph, steps, n, &is_kept, err));
    if (is_kept) {
        MP_CHECK(judge(search, steps, n, peak_bytes, ticks, err));
    } else {
        MP_CHECK(mp_order_restore(graph, steps, n, &restored, &n_restored, err));
        MP_CHECK(mp_order_is_kept(graph, restored, n_restored, &is_kept, err));
        if (is_kept) MP_CHECK(judge(search, restored, n_restored, peak_bytes, ticks, err));
        if (!is_kept && peak_bytes) *peak_bytes = INT64_MAX;
        if (!is_kept && ticks) *ticks = INT64_MAX;
    }
    mp_search_check_limits(search);
    return MP_OK;
}

/* ---- searchers ---- */

mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err)
{
    const mp_graph *outer = search->seen.graph;
    const bool relaxes = search->has_algorithms && !solver->chooses_algorithms;
    search->seen.graph = relaxes ? &search->relaxed.graph : search->request->graph;
    if (solver->wants_phases && !solver->chooses_algorithms) search->seen.graph = &search->marked.graph;
    const mp_status st = solver->run(search, err);
    search->seen.graph = outer;
    return st;
}

mp_status mp_search_delegate(mp_search *search, const mp_solver *solver, double share, mp_error *err)
{
    const char *outer = search->solver;
    const int64_t n_offers = search->n_offers_of_solver;
    const double outer_share = search->share;
    search->solver = solver->name;
    search->n_offers_of_solver = 0;
    search->share = share < outer_share ? share : outer_share;
    const mp_status st = mp_search_run(search, solver, err);
    search->share = outer_share;
    search->solver = outer;
    search->n_offers_of_solver = n_offers;
    return st;
}

mp_status mp_search_within(const mp_search *search, const mp_request *asked, mp_status (*run)(mp_search *search, mp_error *err),
                           mp_step **steps, size_t *n, mp_error *err)
{
    MP_CLEARED_BY(mp_search_clear)
    mp_search inner = {.request = asked,
                       .seen = *asked,
                       .solver = search->solver,
                       .known = {.ticks = -1},
                       .proved = {.ticks = -1},
                       .share = 1,
                       .baseline_ticks = search->baseline_ticks,
                       .keep_all_ticks = search->keep_all_ticks,
                       .moves = search->moves};
    *steps = NULL;
    mp_bound_report_init(&inner.first_report);
    mp_bound_report_init(&inner.proof_report);
    mp_search_begin(&inner);
    MP_CHECK(mp_marked_graph_of(asked->graph, &inner.marked, err));
    inner.seen.graph = &inner.marked.graph;
    MP_CHECK(run(&inner, err));
    *steps = inner.best.steps;
    *n = inner.best.n;
    inner.best.steps = NULL;
    return MP_OK;
}

void mp_search_clear(mp_search *search)
{
    mp_free(search->best.steps);
    mp_free(search->smallest.steps);
    mp_plan_free(search->least);
    mp_bound_report_clear(&search->first_report);
    mp_bound_report_clear(&search->proof_report);
    mp_variant_free(&search->relaxed);
    mp_variant_free(&search->marked);
}

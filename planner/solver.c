/* solver.c - the table of searchers, and the search around them: judges what they offer, keeps the best, checks it. */
#include "planner/solver.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "planner/algorithms.h"
#include "planner/check.h"
#include "planner/floor.h"
#include "planner/order.h"
#include "planner/proof.h"
#include "planner/schedule.h"

static const mp_solver solvers[] = {
    {"auto", "runs the searchers below that apply and takes the best of their plans", "", mp_run_auto, false, true},
    {"none", "keeps everything: the baseline", "", mp_run_none, true, true},
    {"chen", "sqrt(n) segments and the greedy search over segment sizes, between cut tensors", "Chen et al. 2016", mp_run_chen,
     true, false},
    {"segments", "one list of checkpoints, the user's own or the best that is found; recomputes segment by segment",
     "PaddlePaddle's RecomputeOptimizer", mp_run_segments, true, false},
    {"lower-set", "dynamic programming over sequences of lower sets, exact where their number allows", "Kusumoto et al. 2019",
     mp_run_lower_set, true, false},
    {"exact", "the cheapest of all schedules, for tiny networks; best first over what has run and what is held",
     "Hart, Nilsson and Raphael 1968", mp_run_exact, false, true},
    {"ilp", "an integer linear programme over which tensor is held when, for small networks; starts from lower-set's plans",
     "Checkmate, Jain et al. 2020", mp_run_ilp, false, false},
    {"chain", "dynamic programming over a chain of blocks and memory, several ways to run each block", "Beaumont et al. 2019",
     mp_run_chain, true, false},
    {"priced", "minimum cuts with memory priced decide what is stored and what made again; segments; for graphs of any size",
     "Everett 1963, Picard 1976", mp_run_priced, false, false},
    {"anneal", "simulated annealing over whole schedules, from the best of the others", "", mp_run_anneal, false, true},
};

size_t mp_solver_count(void)
{
    return sizeof solvers / sizeof *solvers;
}
const mp_solver *mp_solver_row(size_t k)
{
    return k < mp_solver_count() ? &solvers[k] : NULL;
}

/* A schedule that was kept. */
typedef struct candidate {
    mp_step *steps;
    size_t n, capacity;
    int64_t peak_bytes, ticks;
    const char *solver; /* NULL: nothing kept yet */
} candidate;

struct mp_search {
    const mp_request *request;
    mp_request seen; /* by the searcher that runs: its graph may be the relaxed one */
    mp_relaxed_graph relaxed;
    bool has_algorithms;
    const char *solver; /* the searcher that runs */
    candidate best, smallest;
    int64_t baseline_ticks, bound_ticks, n_offers, n_offers_of_solver, n_moves, moves;
    double start, last_progress, moves_start;
    double share;               /* of the time limit, when the searcher that runs has to end */
    const char *claimed_covers; /* what a searcher proved: the plans that bound_ticks covers; NULL: nothing */
    bool stopped, infeasible;
    bool was_cut; /* a searcher ended with its share of the time */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const mp_request *mp_search_request(const mp_search *search)
{
    return &search->seen;
}
int64_t mp_search_moves(const mp_search *search)
{
    return search->moves;
}

void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n)
{
    const candidate *kept = search->best.solver ? &search->best : &search->smallest;
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
    return search->bound_ticks > search->baseline_ticks ? search->bound_ticks : search->baseline_ticks;
}

bool mp_search_settled(const mp_search *search)
{
    return search->best.solver && search->best.ticks <= mp_search_enough(search);
}

static void claim(mp_search *search)
{
    search->claimed_covers = search->request->keep_order ? "this-order" : "any-order";
}

void mp_search_claim_bound(mp_search *search, int64_t ticks)
{
    if (ticks <= search->bound_ticks) return;
    search->bound_ticks = ticks;
    claim(search);
}

void mp_search_claim_infeasible(mp_search *search)
{
    if (search->infeasible) return;
    search->infeasible = true;
    claim(search);
}

/* Looks at the clock and tells the caller, ten times a second. */
static void heed(mp_search *search)
{
    const mp_request *request = search->request;
    enum { PER_SECOND = 10 };
    if (search->stopped || (request->time_limit <= 0 && !request->progress)) return;
    const double t = now();
    if (request->time_limit > 0 && t - search->start > request->time_limit) search->stopped = true;
    if (!request->progress || t - search->last_progress < 1.0 / PER_SECOND) return;
    search->last_progress = t;
    const mp_progress progress = {.solver = search->solver,
                                  .elapsed_seconds = t - search->start,
                                  .best_ticks = search->best.solver ? search->best.ticks : -1,
                                  .baseline_ticks = search->baseline_ticks,
                                  .smallest_peak_bytes = search->smallest.solver ? search->smallest.peak_bytes : -1,
                                  .bound_ticks = search->bound_ticks,
                                  .n_offers = search->n_offers,
                                  .n_moves = search->n_moves,
                                  .moves_per_second =
                                      t > search->moves_start ? (double)search->n_moves / (t - search->moves_start) : 0};
    if (!request->progress(&progress, request->progress_data)) search->stopped = true;
}

void mp_search_count_moves(mp_search *search, int64_t n)
{
    if (!search->n_moves) search->moves_start = now();
    search->n_moves += n;
}

double mp_search_elapsed(const mp_search *search)
{
    const double limit = search->request->time_limit;
    return limit > 0 ? (now() - search->start) / limit : 0;
}

/* Whether the searcher that runs has had its share of the time. */
static bool had_its_share(mp_search *search)
{
    const double share = search->best.solver ? search->share : (1 + search->share) / 2;
    if (mp_search_elapsed(search) <= share) return false;
    search->was_cut = true;
    return true;
}

bool mp_search_stopped(mp_search *search)
{
    heed(search);
    return search->stopped || search->n_offers_of_solver >= search->moves || had_its_share(search);
}

static mp_status take(candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, const char *solver,
                      mp_error *err)
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

/* Judges a schedule as it is. */
static mp_status judge_steps(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                             mp_error *err)
{
    mp_status st = MP_OK;
    mp_timeline *timeline = NULL;
    const mp_request *request = search->request;
    const candidate *best = &search->best, *smallest = &search->smallest;
    MP_TRY(mp_timeline_build(request->graph, steps, n, &timeline, err));
    const int64_t peak = timeline->peak_bytes, time = timeline->ticks;
    if (peak <= request->budget_bytes &&
        (!best->solver || time < best->ticks || (time == best->ticks && peak < best->peak_bytes)))
        MP_TRY(take(&search->best, steps, n, peak, time, search->solver, err));
    if (!smallest->solver || peak < smallest->peak_bytes || (peak == smallest->peak_bytes && time < smallest->ticks))
        MP_TRY(take(&search->smallest, steps, n, peak, time, search->solver, err));
    if (request->on_offer) MP_TRY(request->on_offer(steps, n, peak, time, request->on_offer_data, err));
    if (peak_bytes) *peak_bytes = peak;
    if (ticks) *ticks = time;
done:
    mp_timeline_free(timeline);
    return st;
}

/* Judges a schedule with the algorithms that suit the budget, and with those that make its peak the lowest. */
static mp_status judge(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = search->request->graph;
    const int64_t budget_bytes = search->request->budget_bytes;
    int64_t least_bytes;
    mp_step *chosen = NULL;
    if (!search->has_algorithms) return judge_steps(search, steps, n, peak_bytes, ticks, err);
    MP_REQUIRE(chosen = mp_alloc(n, sizeof *chosen), err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    if (n) memcpy(chosen, steps, n * sizeof *steps);
    MP_TRY(mp_algorithms_choose(graph, chosen, n, 0, &least_bytes, err));
    MP_TRY(judge_steps(search, chosen, n, peak_bytes, ticks, err));
    if (least_bytes >= budget_bytes) goto done;
    MP_TRY(mp_algorithms_choose(graph, chosen, n, budget_bytes, NULL, err));
    MP_TRY(judge_steps(search, chosen, n, peak_bytes, ticks, err));
done:
    mp_free(chosen);
    return st;
}

mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = search->request->graph;
    mp_step *restored = NULL;
    size_t n_restored;
    bool is_kept = true;
    search->n_offers++;
    search->n_offers_of_solver++;
    if (search->request->keep_order) MP_TRY(mp_order_is_kept(graph, steps, n, &is_kept, err));
    if (is_kept) {
        MP_TRY(judge(search, steps, n, peak_bytes, ticks, err));
    } else {
        MP_TRY(mp_order_restore(graph, steps, n, &restored, &n_restored, err));
        MP_TRY(mp_order_is_kept(graph, restored, n_restored, &is_kept, err));
        if (is_kept) MP_TRY(judge(search, restored, n_restored, peak_bytes, ticks, err));
        if (!is_kept && peak_bytes) *peak_bytes = INT64_MAX;
        if (!is_kept && ticks) *ticks = INT64_MAX;
    }
    heed(search);
done:
    mp_free(restored);
    return st;
}

int64_t mp_default_moves(const mp_graph *graph)
{
    enum { WORK = 4480000, LEAST = 480, MOST = 12800 };
    const int64_t moves = WORK / (int64_t)(graph->n_nodes + 1);
    return moves < LEAST ? LEAST : moves > MOST ? MOST : moves;
}

/* Runs a searcher on the graph that it is made for. */
static mp_status run(mp_search *search, const mp_solver *solver, mp_error *err)
{
    const mp_graph *outer = search->seen.graph;
    const bool relaxes = search->has_algorithms && !solver->chooses_algorithms;
    search->seen.graph = relaxes ? &search->relaxed.graph : search->request->graph;
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
    const mp_status st = run(search, solver, err);
    search->share = outer_share;
    search->solver = outer;
    search->n_offers_of_solver = n_offers;
    return st;
}

static mp_status find_solver(const char *name, const mp_solver **out, mp_error *err)
{
    for (size_t k = 0; k < mp_solver_count(); k++)
        if (!strcmp(solvers[k].name, name)) {
            *out = &solvers[k];
            return MP_OK;
        }
    return MP_FAIL(err, MP_INVALID, "there is no solver '%s'", name);
}

/* The plan of a kept schedule, with what was asked, checked. A fault that the check finds is ours. */
static mp_status finish(const mp_search *search, const candidate *kept, int64_t floor_bytes, int64_t budget_bytes,
                        mp_plan **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_plan *plan = NULL;
    MP_TRY(mp_plan_new(search->request->graph, kept->solver, kept->steps, kept->n, &plan, err));
    plan->seed = search->request->seed;
    plan->floor_bytes = floor_bytes;
    plan->budget_bytes = budget_bytes == INT64_MAX ? -1 : budget_bytes;
    MP_TRY(mp_plan_check(search->request->graph, plan, err));
    *out = plan;
    plan = NULL;
done:
    mp_plan_free(plan);
    return st;
}

/* Ends the bound: the search needs most of the time. */
static bool ends_bound(void *data)
{
    const double SHARE = 0.25;
    mp_search *search = data;
    heed(search);
    return search->stopped || mp_search_elapsed(search) > SHARE;
}

static mp_status find_bound(mp_search *search, mp_answer *found, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = search->request;
    const mp_bound_options options = {.effort = mp_proof_effort(request->graph), .stop = ends_bound, .data = search};
    mp_bound bound = {0};
    if (!request->wants_bound || request->budget_bytes == INT64_MAX) return MP_OK;
    MP_TRY(mp_prove(request->graph, request->budget_bytes, request->keep_order, &options, &bound, err));
    found->bound_ticks = search->bound_ticks = bound.ticks;
    found->bound_covers = bound.covers;
    found->infeasible = search->infeasible = bound.infeasible;
done:
    return st;
}

/* What the searchers have proved besides, where a bound was asked for. */
static void take_claims(const mp_search *search, mp_answer *found)
{
    if (!found->bound_covers || !search->claimed_covers) return;
    found->bound_ticks = search->bound_ticks;
    found->bound_covers = search->claimed_covers;
    found->infeasible = search->infeasible;
}

/* The plan to start from, under the name of who found it. */
static mp_status offer_start(mp_search *search, const mp_plan *start, mp_error *err)
{
    const mp_solver *finder;
    const char *outer = search->solver;
    if (find_solver(start->solver, &finder, NULL) == MP_OK) search->solver = finder->name;
    const mp_status st = mp_search_offer(search, start->steps, start->n_steps, NULL, NULL, err);
    search->solver = outer;
    return st;
}

/* What is there before the bound is begun, so that a search that is soon cut short has a plan: the one it starts from,
 * keep-all, and in large graphs something that fits. */
static mp_status begin(mp_search *search, const mp_solver *solver, mp_error *err)
{
    enum { LARGE = 6000 };
    static const mp_solver first = {"priced", "", "", mp_run_priced_first, false, false};
    mp_status st = MP_OK;
    const mp_request *request = search->request;
    const mp_graph *graph = request->graph;
    const bool is_auto = solver->run == mp_run_auto;
    mp_step *steps = NULL;
    int64_t unused;
    if (request->start) MP_TRY(offer_start(search, request->start, err));
    if (!request->checkpoints && !is_auto && solver->run != mp_run_none) { /* those two do it themselves */
        MP_REQUIRE(steps = mp_alloc(graph->n_nodes, sizeof *steps), err, MP_NOMEM, "out of memory for a schedule");
        mp_keep_all(graph, steps);
        MP_TRY(mp_search_offer(search, steps, graph->n_nodes, &unused, NULL, err));
    }
    if (graph->n_nodes > LARGE && !request->start && (is_auto || solver->run == mp_run_priced))
        MP_TRY(mp_search_delegate(search, &first, 1, err));
done:
    mp_free(steps);
    return st;
}

mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err)
{
    char *covers = mp_plan_text(answer->bound_covers);
    if (!covers) return MP_FAIL(err, MP_NOMEM, "out of memory for a plan");
    mp_free(answer->plan->bound_covers);
    answer->plan->bound_covers = covers;
    answer->plan->lower_bound_seconds = (double)answer->bound_ticks * graph->tick_seconds;
    return mp_plan_check(graph, answer->plan, err);
}

mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = request->graph;
    const mp_solver *solver = NULL;
    mp_answer found = {.floor_node = -1, .bound_ticks = -1};
    mp_search search = {.request = request,
                        .seen = *request,
                        .has_algorithms = mp_graph_has_algorithms(graph),
                        .bound_ticks = -1,
                        .share = 1,
                        .moves = request->moves > 0 ? request->moves : mp_default_moves(graph)};

    MP_TRY(find_solver(request->solver ? request->solver : "auto", &solver, err));
    MP_REQUIRE(request->budget_bytes >= 0, err, MP_INVALID, "a budget of %lld bytes", (long long)request->budget_bytes);
    MP_REQUIRE(!request->checkpoints || !strcmp(solver->name, "segments"), err, MP_INVALID,
               "solver %s takes no list of checkpoints", solver->name);
    MP_REQUIRE(graph->n_nodes > 0, err, MP_INVALID, "%s has no nodes", graph->name);
    search.start = search.last_progress = now();
    search.solver = solver->name;
    MP_TRY(mp_floor(graph, &found.floor_bytes, &found.floor_node, err));
    for (size_t i = 0; i < graph->n_nodes; i++) search.baseline_ticks += graph->nodes[i].forms[0].ticks;
    if (search.has_algorithms) MP_TRY(mp_relaxed_graph_of(graph, &search.relaxed, err));
    MP_TRY(begin(&search, solver, err));
    MP_TRY(find_bound(&search, &found, err));
    MP_TRY(run(&search, solver, err));
    take_claims(&search, &found);
    MP_REQUIRE(search.smallest.solver, err, MP_LIMIT, "the search was stopped before it had tried anything");
    if (search.best.solver) MP_TRY(finish(&search, &search.best, found.floor_bytes, request->budget_bytes, &found.plan, err));
    if (found.plan && found.bound_ticks >= 0) MP_TRY(mp_answer_claim_bound(&found, request->graph, err));
    MP_TRY(finish(&search, &search.smallest, found.floor_bytes, INT64_MAX, &found.smallest, err));
    found.stopped = search.stopped || search.was_cut;
    *answer = found;
    found = (mp_answer){0};
done:
    mp_answer_free(&found);
    mp_free(search.best.steps);
    mp_free(search.smallest.steps);
    mp_relaxed_graph_free(&search.relaxed);
    return st;
}

void mp_answer_free(mp_answer *answer)
{
    if (!answer) return;
    mp_plan_free(answer->plan);
    mp_plan_free(answer->smallest);
    answer->plan = answer->smallest = NULL;
}

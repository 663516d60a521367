/* solver.c - answers a request. It offers first plans, proves a quick bound, starts a thread that proves a better bound, runs
 * the searcher, and checks the plan. */
#include "planner/solve/solver.h"

#include <string.h>

#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/solver.h"
#include "planner/math/tuning.h"
#include "planner/offload/copies.h"
#include "planner/offload/state.h"
#include "planner/search/search.h"
#include "planner/search/searchers.h"
#include "planner/segments/modules.h"
#include "planner/solve/portfolio.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LEAST_OFFERS = 480,  /* least number of offers of a search */
    MOST_OFFERS = 12800, /* most offers of a search */
};

static const mp_solver automatic = {.name = "auto",
                                    .summary = "runs the searchers below that apply and takes the best of their plans",
                                    .source = "",
                                    .run = mp_run_auto,
                                    .chooses_algorithms = true};

size_t mp_solver_count(void)
{
    return 1 + mp_portfolio_count();
}

const mp_solver *mp_solver_row(size_t k)
{
    return k ? mp_portfolio_row(k - 1) : &automatic;
}

int64_t mp_default_moves(const mp_graph *graph)
{
    const int64_t moves = MP_OFFER_WORK / (int64_t)(graph->n_nodes + 1);
    return moves < LEAST_OFFERS ? LEAST_OFFERS : moves > MOST_OFFERS ? MOST_OFFERS : moves;
}

const mp_solver *mp_solver_find(const char *name)
{
    return strcmp(automatic.name, name) ? mp_portfolio_find(name) : &automatic;
}

void mp_plan_take_request(const mp_request *request, int64_t floor_bytes, mp_plan *plan)
{
    plan->seed = request->seed;
    plan->floor_bytes = floor_bytes;
    plan->budget_bytes = request->budget_bytes;
    for (size_t m = 1; m < request->graph->n_tiers; m++)
        if (request->tier_bytes[m]) plan->tiers[m].budget_bytes = request->tier_bytes[m];
}

/* Converts a schedule that the search kept to a plan that answers the request, and checks the plan. If the checker refutes the
 * plan, the error is internal. */
static mp_status finish(const mp_search *search, const mp_candidate *kept, int64_t floor_bytes, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(mp_plan_new(search->request->graph, kept->solver, kept->steps, kept->n, &plan, err));
    plan->seed = search->request->seed;
    plan->floor_bytes = floor_bytes;
    if (kept == &search->best) mp_plan_take_request(search->request, floor_bytes, plan);
    MP_CHECK(mp_plan_check(search->request->graph, plan, err));
    *out = plan;
    plan = NULL;
    return MP_OK;
}

mp_status mp_plan_with_steps(const mp_graph *graph, const mp_plan *before, const mp_step *steps, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(mp_plan_new(graph, before->solver, steps, before->n_steps, &plan, err));
    plan->seed = before->seed;
    plan->budget_bytes = before->budget_bytes;
    plan->floor_bytes = before->floor_bytes;
    for (size_t m = 1; m < graph->n_tiers; m++) plan->tiers[m].budget_bytes = before->tiers[m].budget_bytes;
    plan->lower_bound_seconds = before->lower_bound_seconds;
    mp_free(plan->bound_covers);
    MP_ENSURE(plan->bound_covers = mp_plan_text(before->bound_covers), err, MP_NOMEM, "out of memory");
    if (before->arena_bytes >= 0) MP_CHECK(mp_arena_layout(graph, plan, err));
    *out = plan;
    plan = NULL;
    return MP_OK;
}

/* Returns true when the computation of the first bound has used its share of the time limit. */
static bool ends_first_bound(void *data)
{
    mp_search *search = data;
    mp_search_check_limits(search);
    return search->stopped || mp_search_elapsed(search) > MP_FIRST_BOUND_SHARE;
}

/* Returns true when the proof thread has used its share of the time limit. */
static bool ends_proof(void *data)
{
    return mp_search_elapsed(data) > MP_PROOF_SHARE;
}

bool mp_request_is_bounded(const mp_request *request)
{
    return request->wants_bound && request->budget_bytes < MP_NO_LIMIT;
}

/* before: the effort for the bound that is proved before the search. most: the effort for the bound that the thread proves
 * during the search. If the request has `on_offer`, the sequence of offers must be reproducible, so the thread must not end the
 * search early. In this case the whole bound is proved before the search. */
typedef struct bound_efforts {
    int before, most;
} bound_efforts;

static bound_efforts efforts_of(const mp_search *search)
{
    const int most = mp_proof_effort(search->request->graph);
    const mp_effort effort = mp_search_effort(search);
    if (effort == MP_EFFORT_QUICK || !most) return (bound_efforts){0, 0};
    if (effort == MP_EFFORT_NORMAL) return (bound_efforts){search->request->on_offer ? 1 : 0, 1};
    return (bound_efforts){search->request->on_offer ? most : 1, most};
}

/* Proves a bound with little effort, then starts the thread that proves a better bound. */
static mp_status find_bound(mp_search *search, mp_error *err)
{
    const mp_request *request = search->request;
    const bound_efforts efforts = efforts_of(search);
    mp_bound_options options = {.effort = efforts.before,
                                .off = request->stages_off,
                                .stop = ends_first_bound,
                                .data = search,
                                .report = request->explains_bound ? &search->first_report : NULL};
    mp_bound bound = {0};
    if (!mp_request_is_bounded(request)) return MP_OK;
    MP_CHECK(mp_prove(request->problem, request->budget_bytes, request->keep_order, &options, &bound, err));
    mp_search_take_bound(search, &bound);
    if (options.effort == efforts.most || mp_search_settled(search) || bound.infeasible || search->stopped) return MP_OK;
    options.effort = efforts.most;
    options.any_order = !request->keep_order;
    options.stop = ends_proof;
    options.report = request->explains_bound ? &search->proof_report : NULL;
    MP_CHECK(mp_proof_start(request->problem, request->budget_bytes, &options, &search->proof, err));
    search->has_proof = true;
    return MP_OK;
}

/* Sets the bound of the answer. It is the bound from before the search if there is no plan, or if the plan takes no longer than
 * running each node once. Otherwise it is the best bound. If a plan equals the thread's bound, the search ended at a time that
 * varies between runs, so the other plans found vary too. The answer then contains only this plan. */
static mp_status finish_bound(mp_search *search, mp_answer *found, mp_error *err)
{
    if (search->best.solver) mp_search_await_proof(search);
    mp_search_end_proof(search);
    MP_ENSURE(search->proof_status == MP_OK, err, search->proof_status, "%s", search->proof_err.message);
    if (search->has_proof && mp_search_settled(search))
        MP_CHECK(mp_candidate_take(&search->smallest, search->best.steps, search->best.n, search->best.peak_bytes,
                                   search->best.ticks, search->best.solver, err));
    if (!mp_request_is_bounded(search->request)) return MP_OK;
    /* true: the thread's bound, which is higher, would not change the answer */
    const bool is_needless = !search->best.solver || search->best.ticks <= search->baseline_ticks;
    found->bound = is_needless ? search->known : search->proved;
    if (!search->request->explains_bound) return MP_OK;
    MP_ENSURE(found->report = mp_alloc(1, sizeof *found->report), err, MP_NOMEM, "out of memory to explain a bound");
    mp_bound_report_init(found->report);
    mp_bound_report_merge(found->report, &search->first_report, true);
    /* if a plan reached the bound early, the proof thread was ended at a time that varies, so its report is omitted */
    if (search->has_proof && !is_needless && !(search->best.solver && search->best.ticks <= search->known.ticks))
        mp_bound_report_merge(found->report, &search->proof_report, search->proved.ticks > search->known.ticks);
    return MP_OK;
}

/* Offers the first plans: the start plan, keep-all, and on large graphs a plan that is found quickly. This happens before any
 * bound is computed, so that a search with a short time limit has a plan. */
static mp_status offer_first_plans(mp_search *search, const mp_solver *solver, mp_error *err)
{
    static const mp_solver first = {.name = "lagrange", .run = mp_run_lagrange_first, .wants_phases = true};
    const mp_request *request = search->request;
    const mp_graph *graph = request->graph;
    const bool is_auto = solver->run == mp_run_auto;
    const mp_step *steps;
    const mp_timeline *timeline;
    if (request->start) MP_CHECK(mp_search_offer_plan(search, request->start, err));
    /* `auto` and `none` offer keep-all themselves when they run */
    if (!request->checkpoints && !is_auto && solver->run != mp_run_none) {
        MP_CHECK(mp_problem_keep_all(request->problem, &steps, &timeline, err));
        MP_CHECK(mp_search_offer(search, steps, timeline->n_steps, NULL, NULL, err));
    }
    if (graph->n_nodes > MP_LARGE_GRAPH_NODES && !request->start && (is_auto || solver->run == mp_run_lagrange))
        return mp_search_delegate(search, &first, 1, err);
    return MP_OK;
}

mp_status mp_request_complete(const mp_request *request, mp_request *out, mp_problem **own, mp_error *err)
{
    *out = *request;
    if (request->problem) return MP_OK;
    MP_CHECK(mp_problem_new(request->graph, own, err));
    out->problem = *own;
    return MP_OK;
}

mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err)
{
    char *covers = mp_plan_text(mp_bound_orders_text(answer->bound.orders));
    if (!covers) return MP_FAIL(err, MP_NOMEM, "out of memory for a plan");
    mp_free(answer->plan->bound_covers);
    answer->plan->bound_covers = covers;
    answer->plan->lower_bound_seconds = (double)answer->bound.ticks * graph->tick_seconds;
    return mp_plan_check(graph, answer->plan, err);
}

static void end_search(mp_search *search)
{
    mp_search_end_proof(search);
    mp_search_clear(search);
}

mp_status mp_solve_at_once(const mp_request *request, mp_answer *answer, mp_error *err)
{
    const mp_graph *graph = request->graph;
    const char *name = request->solver ? request->solver : "auto";
    const mp_solver *solver = request->own ? request->own : mp_solver_find(name);
    mp_floor_reason reason;
    const mp_step *steps;
    const mp_timeline *keep_all;
    MP_CLEARED_BY(mp_answer_free) mp_answer found = {.floor_node = -1, .bound = {.ticks = -1}};
    MP_CLEARED_BY(end_search)
    mp_search search = {.request = request,
                        .seen = *request,
                        .has_algorithms = mp_graph_has_algorithms(graph),
                        .known = {.ticks = -1},
                        .proved = {.ticks = -1},
                        .share = 1,
                        .moves = request->moves > 0 ? request->moves : mp_default_moves(graph)};

    MP_ENSURE(solver, err, MP_INVALID, "there is no solver '%s'", name);
    MP_ENSURE(request->budget_bytes >= 0, err, MP_INVALID, "the budget is %lld bytes, but it must be 0 or more",
              (long long)request->budget_bytes);
    MP_ENSURE(!request->checkpoints || !strcmp(solver->name, "segments"), err, MP_INVALID,
              "solver %s does not accept a list of checkpoints", solver->name);
    MP_ENSURE(graph->n_nodes > 0, err, MP_INVALID, "%s has no nodes", graph->name);
    MP_ENSURE(!solver->wants_copies || graph->has_copies, err, MP_NOT_APPLICABLE,
              "solver %s copies tensors to another memory, but %s has none; add --offload", solver->name, graph->name);
    mp_bound_report_init(&search.first_report);
    mp_bound_report_init(&search.proof_report);
    mp_search_begin(&search);
    search.solver = solver->name;
    MP_CHECK(mp_problem_floor(request->problem, &found.floor_bytes, &reason, err));
    found.floor_node = reason.node;
    MP_CHECK(mp_problem_keep_all(request->problem, &steps, &keep_all, err));
    search.keep_all_ticks = keep_all->ticks;
    search.baseline_ticks = mp_ticks_of_all(graph);
    if (search.has_algorithms) MP_CHECK(mp_relaxed_graph_of(graph, &search.relaxed, err));
    MP_CHECK(mp_marked_graph_of(search.has_algorithms ? &search.relaxed.graph : graph, &search.marked, err));
    MP_CHECK(offer_first_plans(&search, solver, err));
    MP_CHECK(find_bound(&search, err));
    /* it is proved that no plan fits, so only keep-all is offered, as the smallest plan of the answer */
    if (request->skips_if_proved && mp_search_is_infeasible(&search))
        MP_CHECK(mp_search_delegate(&search, mp_portfolio_row(0), 1, err));
    else
        MP_CHECK(mp_search_run(&search, solver, err));
    MP_CHECK(finish_bound(&search, &found, err));
    MP_ENSURE(search.smallest.solver, err, MP_LIMIT, "the search was stopped before it had tried anything");
    if (search.best.solver) MP_CHECK(finish(&search, &search.best, found.floor_bytes, &found.plan, err));
    if (found.plan && found.bound.ticks >= 0) MP_CHECK(mp_answer_claim_bound(&found, request->graph, err));
    MP_CHECK(finish(&search, &search.smallest, found.floor_bytes, &found.smallest, err));
    found.least = search.least;
    search.least = NULL;
    found.effort = mp_search_effort(&search);
    found.stopped = search.stopped || search.was_cut;
    *answer = found;
    found = (mp_answer){0};
    return MP_OK;
}

void mp_answer_free(mp_answer *answer)
{
    if (!answer) return;
    mp_plan_free(answer->plan);
    mp_plan_free(answer->smallest);
    mp_plan_free(answer->least);
    if (answer->report) mp_bound_report_clear(answer->report);
    mp_free(answer->report);
    answer->plan = answer->smallest = answer->least = NULL;
    answer->report = NULL;
}

static mp_status check_floor(mp_problem *problem, const mp_plan *plan, mp_error *err)
{
    int64_t floor_bytes;
    if (plan->floor_bytes < 0) return MP_OK;
    MP_CHECK(mp_problem_floor(problem, &floor_bytes, NULL, err));
    MP_ENSURE(plan->floor_bytes <= floor_bytes, err, MP_REFUTED,
              "the plan claims that no plan needs less than %lld bytes; the proved bound is %lld", (long long)plan->floor_bytes,
              (long long)floor_bytes);
    return MP_OK;
}

/* Raises *ticks to a lower bound for plans with copies. The bound is at most the ticks of `plan`. */
static mp_status prove_copies(const mp_graph *graph, const mp_plan *plan, int64_t *ticks, mp_error *err)
{
    int64_t tier_bytes[MP_MAX_TIERS] = {0};
    mp_bound bound;
    for (size_t m = 1; m < graph->n_tiers; m++)
        if (plan->tiers[m].budget_bytes < MP_NO_LIMIT) tier_bytes[m] = plan->tiers[m].budget_bytes;
    MP_CHECK(mp_copies_bound(graph, plan->budget_bytes, tier_bytes, plan->ticks, 1, &bound, err));
    if (bound.ticks > *ticks) *ticks = bound.ticks;
    return MP_OK;
}

/* Returns a bound in seconds. For a graph that copies optimizer state, the bound includes the least time of these copies. */
static double bound_seconds(const mp_graph *graph, int64_t ticks)
{
    return (double)(mp_graph_n_state_copies(graph) ? mp_state_bound(graph, ticks) : ticks) * graph->tick_seconds;
}

/* Checks the bound that a plan claims: proves a bound for the plan's budget again, and compares the two. */
static mp_status check_bound(const mp_graph *graph, mp_problem *problem, const mp_plan *plan, bool keeps_order, mp_error *err)
{
    static const mp_effort efforts[] = {MP_EFFORT_NORMAL, MP_EFFORT_THOROUGH};
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    MP_OWNED_BY(mp_problem_free) mp_problem *of_without_state = NULL;
    if (mp_graph_n_state_copies(graph)) MP_CHECK(mp_graph_without_state_copies(graph, &without_state, err));
    if (without_state) MP_CHECK(mp_problem_new(without_state, &of_without_state, err));
    const mp_graph *g = without_state ? without_state : graph;
    const size_t n = g->has_copies ? 0 : sizeof efforts / sizeof *efforts;
    int64_t ticks = mp_ticks_of_all(g);
    if (g->has_copies) MP_CHECK(prove_copies(g, plan, &ticks, err));
    double proved = bound_seconds(graph, ticks);
    for (size_t i = 0; i < n && plan->lower_bound_seconds > proved * (1 + 1e-9); i++) {
        mp_answer answer = {0};
        const mp_request request = {.graph = g,
                                    .problem = without_state ? of_without_state : problem,
                                    .budget_bytes = plan->budget_bytes,
                                    .effort = efforts[i],
                                    .keep_order = keeps_order,
                                    .wants_bound = true};
        MP_CHECK(mp_solve_at_once(&request, &answer, err));
        if (answer.bound.ticks > ticks) ticks = answer.bound.ticks;
        mp_answer_free(&answer);
        proved = bound_seconds(graph, ticks);
    }
    MP_ENSURE(plan->lower_bound_seconds <= proved * (1 + 1e-9), err, MP_REFUTED,
              "the plan claims that no plan takes less than %.17g seconds; the proved bound is %.17g",
              plan->lower_bound_seconds, proved);
    return MP_OK;
}

const mp_solver *mp_solver_of_modules(void)
{
    return &mp_modules_solver;
}

bool mp_request_switch_off(mp_request *request, const char *name)
{
    mp_bound_stage stage;
    if (mp_bound_stage_find(name, &stage)) {
        request->stages_off |= 1u << stage;
        return true;
    }
    const mp_solver *row = mp_solver_find(name);
    if (!row || row->run == mp_run_auto || row->run == mp_run_none) return false;
    request->solvers_off |= mp_portfolio_bit(row->run);
    return true;
}

mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    const char *covers = plan->bound_covers ? plan->bound_covers : "";
    const bool keeps_order = !strcmp(covers, mp_bound_orders_text(MP_BOUND_THIS_ORDER));
    MP_ENSURE(!covers[0] || keeps_order || !strcmp(covers, mp_bound_orders_text(MP_BOUND_ANY_ORDER)), err, MP_REFUTED,
              "the plan's bound covers \"%.60s\", but it must be \"%s\" or \"%s\"", covers,
              mp_bound_orders_text(MP_BOUND_ANY_ORDER), mp_bound_orders_text(MP_BOUND_THIS_ORDER));
    MP_CHECK(mp_problem_new(graph, &problem, err));
    MP_CHECK(check_floor(problem, plan, err));
    if (proves_bound && plan->lower_bound_seconds >= 0) MP_CHECK(check_bound(graph, problem, plan, keeps_order, err));
    return MP_OK;
}

/* chunk_choice.c - loads the graph of one candidate, and computes its lower bounds and quick plans. */
#include "executor/workload/chunk_choice.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "executor/workload/chunk_numbers.h"
#include "planner/bound/proof.h"
#include "planner/floor/problem.h"

int mp_chunk_step(int kind)
{
    int step = 1;
    while (kind--) step *= MP_CHUNK_NUMBERS;
    return step;
}

int mp_chunk_exponent(int index, int kind)
{
    return index / mp_chunk_step(kind) % MP_CHUNK_NUMBERS;
}

void mp_chunk_numbers_at(int index, int n[MP_N_CHUNK_KINDS])
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) n[k] = 1 << mp_chunk_exponent(index, k);
}

/* Returns a lower bound on the ticks of every plan of the graph: the sum of the fastest alternatives of all nodes that a plan
 * must run on the device. */
static int64_t least_ticks(const mp_graph *graph)
{
    int64_t sum = 0;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        int64_t least = INT64_MAX;
        for (size_t f = 0; f < node->n_alternatives; f++) {
            const mp_alternative *a = &node->alternatives[f];
            const bool is_device = a->channel == MP_CHANNEL_COMPUTE || a->channel == MP_CHANNEL_SECOND_STREAM;
            if (!a->returns) least = mp_smaller(least, is_device ? a->ticks : 0);
        }
        if (!(node->flags & MP_NODE_OPTIONAL) && least < INT64_MAX) sum += least;
    }
    return sum;
}

/* Sets *out to the workload of a candidate: `whole`, or *own, which the caller frees. If a kind has more chunks than the
 * workload permits, the candidate becomes MP_CHUNK_EXCLUDED, and *out is `whole`. */
static mp_status load(const mp_chunk_choice *c, int index, mp_workload *own, const mp_workload **out)
{
    mp_chunk_candidate *x = &c->all[index];
    int n[MP_N_CHUNK_KINDS];
    char setting[MP_ROW_CHUNKS_TEXT];
    mp_workload_options wanted = *c->options;
    *out = c->whole;
    mp_chunk_numbers_at(index, n);
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        if (n[k] > 1 && n[k] > c->most[k]) x->state = MP_CHUNK_EXCLUDED;
    if (x->state == MP_CHUNK_EXCLUDED) return MP_OK;
    if (index) {
        mp_chunk_numbers_write(n, setting);
        wanted.row_chunks = setting;
        wanted.adopted = NULL;
        mp_error refusal = {0};
        const mp_status st = mp_workload_load(c->whole->path, &wanted, own, &refusal);
        /* if the head overlaps another region, only one of the two can be cut; over tp, a tied embedding stays whole */
        const bool is_refused = st == MP_INVALID || st == MP_UNSUPPORTED;
        if (is_refused && mp_chunk_exponent(index, MP_CHUNK_HEAD)) x->state = MP_CHUNK_EXCLUDED;
        if (x->state == MP_CHUNK_EXCLUDED) return MP_OK;
        MP_ENSURE(st == MP_OK, c->err, st, "%s", refusal.message);
        *out = own;
    }
    x->n_nodes = (*out)->graph->n_nodes;
    x->least_ticks = least_ticks((*out)->graph);
    if (x->state == MP_CHUNK_NEW) x->state = MP_CHUNK_BUILT;
    return MP_OK;
}

/* Returns in *order the precedence relation of a workload's graph; NULL if the graph has copies. */
static mp_status order_of(const mp_workload *w, const mp_precedence **order, mp_error *err)
{
    *order = NULL;
    return w->graph->has_copies ? MP_OK : mp_problem_order(w->problem, false, order, err);
}

/* If the candidate's graph is the first with chunks of some kind, removes the nodes from `shared` that this graph lacks. */
static mp_status meet(mp_chunk_choice *c, int index, const mp_workload *w)
{
    bool is_new = false;
    const mp_precedence *order;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        if (!mp_chunk_exponent(index, k) || c->is_met[k]) continue;
        c->is_met[k] = is_new = true;
    }
    if (!is_new) return MP_OK;
    MP_CHECK(order_of(w, &order, c->err));
    MP_CHECK(mp_floor_shared_meet(c->shared, w->graph, order, c->err));
    c->shared_bytes = mp_floor_shared_bytes(c->shared);
    return MP_OK;
}

/* Searches for plans of a candidate with the searcher `solver`; NULL: with the searcher of the request. */
static mp_status search(mp_chunk_choice *c, const mp_workload *w, const char *solver, mp_chunk_candidate *x, mp_answer *answer)
{
    mp_request request = *c->request;
    request.graph = w->graph;
    request.problem = w->problem;
    request.effort = MP_EFFORT_QUICK;
    request.wants_bound = true;
    if (w != c->whole) request.start = NULL; /* request.start is a plan of the graph with whole regions */
    if (solver) request.solver = solver;
    memcpy(request.tier_bytes, w->tier_bytes, sizeof request.tier_bytes);
    MP_CHECK(mp_solve(&request, answer, c->err));
    if (answer->plan) x->ticks = mp_smaller(x->ticks, answer->plan->ticks);
    const int64_t bound = request.budget_bytes < answer->floor_bytes ? INT64_MAX : answer->bound.ticks;
    x->bound_ticks = mp_larger(x->bound_ticks, bound);
    x->floor_bytes = answer->floor_bytes;
    x->smallest_bytes = mp_smaller(x->smallest_bytes, answer->smallest->peak_bytes);
    c->best_ticks = mp_smaller(c->best_ticks, x->ticks);
    return MP_OK;
}

bool mp_chunk_choice_is_small(const mp_chunk_choice *c)
{
    enum { SMALL = 200 }; /* nodes */
    return c->whole->graph->n_nodes <= SMALL;
}

/* Returns the name of the searcher that solves a candidate; NULL: the searcher of the request. */
static const char *trial_solver(const mp_chunk_choice *c, const mp_graph *graph)
{
    enum { MOST_FOR_ALL = 1000 }; /* nodes of a graph for which all searchers run */
    const char *given = c->request->solver;
    const bool is_given = (given && strcmp(given, "auto")) || c->request->own || graph->n_tiers > 1;
    return is_given || (mp_chunk_choice_is_small(c) && graph->n_nodes <= MOST_FOR_ALL) ? NULL : "lagrange";
}

/* Loads a candidate, as `load` does. Computes its least ticks, and updates `shared`. */
static mp_status build(mp_chunk_choice *c, int index, mp_workload *own, const mp_workload **out)
{
    mp_chunk_candidate *x = &c->all[index];
    MP_CHECK(load(c, index, own, out));
    x->bound_ticks = x->least_ticks;
    x->ticks = x->smallest_bytes = INT64_MAX;
    return x->state == MP_CHUNK_EXCLUDED ? MP_OK : meet(c, index, *out);
}

/* Excludes a candidate whose graph is so large that a bound takes seconds. */
static void exclude_large(const mp_chunk_choice *c, int index)
{
    enum { MOST_NODES = 20000 };
    if (index && c->all[index].n_nodes > MOST_NODES) c->all[index].state = MP_CHUNK_EXCLUDED;
}

mp_status mp_chunk_build(mp_chunk_choice *c, int index)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
    const mp_workload *w;
    return c->all[index].state == MP_CHUNK_NEW ? build(c, index, &own, &w) : MP_OK;
}

mp_status mp_chunk_bound(mp_chunk_choice *c, int index, bool with_floor)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
    const mp_workload *w;
    mp_bound_options options = {.off = c->request->stages_off};
    mp_bound bound;
    mp_chunk_candidate *x = &c->all[index];
    if (x->state != MP_CHUNK_NEW && x->state != MP_CHUNK_BUILT) return MP_OK;
    MP_CHECK(build(c, index, &own, &w));
    exclude_large(c, index);
    if (x->state == MP_CHUNK_EXCLUDED) return MP_OK;
    x->floor_bytes = c->shared_bytes;
    if (with_floor) MP_CHECK(mp_problem_floor(w->problem, &x->floor_bytes, NULL, c->err));
    if (!with_floor) options.off |= 1u << MP_BOUND_FLOOR;
    MP_CHECK(mp_prove(w->problem, c->request->budget_bytes, c->request->keep_order, &options, &bound, c->err));
    const bool is_infeasible = bound.infeasible || x->floor_bytes > c->request->budget_bytes;
    x->bound_ticks = is_infeasible ? INT64_MAX : mp_larger(x->bound_ticks, bound.ticks);
    x->state = MP_CHUNK_BOUNDED;
    return MP_OK;
}

mp_status mp_chunk_score(mp_chunk_choice *c, int index)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    const mp_workload *w;
    mp_chunk_candidate *x = &c->all[index];
    if (x->state != MP_CHUNK_NEW && x->state != MP_CHUNK_BUILT) return MP_OK;
    MP_CHECK(build(c, index, &own, &w));
    exclude_large(c, index);
    if (x->state == MP_CHUNK_EXCLUDED || x->least_ticks >= c->best_ticks) return MP_OK;
    MP_CHECK(mp_problem_floor(w->problem, &x->floor_bytes, NULL, c->err));
    if (x->floor_bytes > c->request->budget_bytes) {
        x->state = MP_CHUNK_SCORED;
        x->bound_ticks = INT64_MAX;
        return MP_OK;
    }
    const bool has_copies = w->graph->n_tiers > 1;
    MP_CHECK(search(c, w, c->request->own || has_copies ? NULL : "chen", x, &answer));
    x->state = MP_CHUNK_SCORED;
    return MP_OK;
}

/* If an answer of the searcher `lagrange` is better than c->trial, moves the answer to c->trial. */
static void keep(mp_chunk_choice *c, int index, mp_answer *answer)
{
    const mp_answer *best = &c->trial;
    bool is_better = c->trial_index < 0 || (answer->plan && !best->plan);
    if (c->trial_index >= 0 && !answer->plan == !best->plan)
        is_better =
            answer->plan ? answer->plan->ticks < best->plan->ticks : answer->smallest->peak_bytes < best->smallest->peak_bytes;
    if (!is_better) return;
    mp_answer_free(&c->trial);
    c->trial = *answer;
    c->trial_index = index;
    *answer = (mp_answer){0};
}

mp_status mp_chunk_solve(mp_chunk_choice *c, int index)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    const mp_workload *w;
    MP_CHECK(load(c, index, &own, &w));
    const char *solver = trial_solver(c, w->graph);
    MP_CHECK(search(c, w, solver, &c->all[index], &answer));
    c->all[index].state = MP_CHUNK_SOLVED;
    const bool is_given = c->request->solver && !strcmp(c->request->solver, "lagrange") && !c->request->own;
    if (solver || is_given) keep(c, index, &answer);
    return MP_OK;
}

mp_status mp_chunk_choice_begin(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                                mp_chunk_choice *out, mp_error *err)
{
    const mp_precedence *order;
    *out = (mp_chunk_choice){
        .whole = whole, .options = options, .request = request, .best_ticks = INT64_MAX, .trial_index = -1, .err = err};
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        out->most[k] = k == MP_CHUNK_HEAD ? whole->details->loss_chunks.n_rows : whole->details->row_regions.kinds[k].n_most;
    if (!(out->all = mp_alloc(MP_CHUNK_CANDIDATES, sizeof *out->all))) return MP_NO_MEMORY(err);
    MP_CHECK(order_of(whole, &order, err));
    return mp_floor_shared_new(whole->graph, order, &out->shared, err);
}

void mp_chunk_choice_clear(mp_chunk_choice *c)
{
    mp_floor_shared_free(c->shared);
    mp_answer_free(&c->trial);
    mp_free(c->all);
    *c = (mp_chunk_choice){0};
}

/* fuzz_planner.c - graphs, budgets and options made from bytes. The searchers' answers are compared with the checker, a
 * simulator of the rules and, for tiny graphs, all plans.
 *
 * Bytes: number of forward nodes; fuse, phases and effort; searcher; budget; further options; seed; then the graph's bytes
 * (random_graph_of). With FUZZ_WRITE=FOLDER the graph and its plan are stored there, for other checkers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/graph_json.h"
#include "memplan/plan_json.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

/* libFuzzer's mutation of bytes, if linked. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most) __attribute__((weak));

enum { HEAD = 6, FORWARD_MAX = 8, TINY_NODES = 12, MOVES = 60 };

typedef struct question {
    mp_request request;
    int64_t keep_all_bytes;
    bool arena;
} question;

static void fault(const question *q, const char *what, int64_t is, int64_t wanted)
{
    fprintf(stderr, "%s, budget %lld: %s (%lld, %lld)\n", q->request.solver, (long long)q->request.budget_bytes, what,
            (long long)is, (long long)wanted);
    abort();
}

static void judge(const question *q, const mp_plan *plan)
{
    mp_error err = {0};
    if (mp_plan_check(q->request.graph, plan, &err) == MP_OK) return;
    fprintf(stderr, "%s\n", err.message);
    fault(q, "the checker refutes the plan", plan->peak_bytes, plan->ticks);
}

/* Compares a plan with the literal simulator. All steps run in order. */
static void simulate_plan(const question *q, const mp_plan *plan)
{
    simulation s = simulate(q->request.graph, plan->steps, plan->n_steps);
    if (s.tiers[0].peak_bytes != plan->peak_bytes)
        fault(q, "the simulator has another peak", plan->peak_bytes, s.tiers[0].peak_bytes);
    if (s.ticks != plan->ticks) fault(q, "the simulator has another time", plan->ticks, s.ticks);
    simulation_free(&s);
}

static mp_status solve(const question *q, const mp_request *request, mp_answer *answer)
{
    mp_error err = {0};
    const mp_status st = q->arena ? mp_solve_with_arena(request, answer, &err) : mp_solve(request, answer, &err);
    if (st != MP_OK && st != MP_NOT_APPLICABLE) {
        fprintf(stderr, "%s\n", err.message);
        fault(q, "no answer", st, 0);
    }
    return st;
}

/* Checks the invariants of every plan and every proof. */
static void judge_answer(const question *q, const mp_answer *a)
{
    const int64_t budget = q->request.budget_bytes;
    judge(q, a->smallest);
    simulate_plan(q, a->smallest);
    if (a->smallest->peak_bytes < a->floor_bytes) fault(q, "below the floor", a->smallest->peak_bytes, a->floor_bytes);
    if (!a->plan) return;
    judge(q, a->plan);
    simulate_plan(q, a->plan);
    if (mp_plan_need(a->plan) > budget) fault(q, "over the budget", mp_plan_need(a->plan), budget);
    if (a->plan->peak_bytes < a->floor_bytes) fault(q, "below the floor", a->plan->peak_bytes, a->floor_bytes);
    if (q->request.wants_bound && a->bound.infeasible) fault(q, "impossible, and there is a plan", 0, 0);
    if (q->request.wants_bound && a->bound.ticks > a->plan->ticks)
        fault(q, "the bound is above a plan", a->bound.ticks, a->plan->ticks);
}

/* Compares plans of tiny graphs with the cheapest of all plans. Budgets limit its live bytes, so an arena can only need more
 * memory. */
static void judge_by_all_plans(const question *q, const mp_answer *a)
{
    const mp_request *r = &q->request;
    int64_t best;
    if (r->graph->n_nodes > TINY_NODES || !oracle_exact(r->graph, r->budget_bytes, !r->keep_order, &best)) return;
    if (best < 0) {
        if (a->plan) fault(q, "a plan where none is", a->plan->peak_bytes, a->plan->ticks);
        return;
    }
    if (a->floor_bytes > r->budget_bytes) fault(q, "the floor is above a plan's budget", a->floor_bytes, best);
    if (a->plan && a->plan->ticks < best) fault(q, "cheaper than the cheapest", a->plan->ticks, best);
    if (r->wants_bound && a->bound.infeasible) fault(q, "proved impossible, and there is a plan", 0, best);
    if (r->wants_bound && a->bound.ticks > best) fault(q, "the bound is above the cheapest plan", a->bound.ticks, best);
}

/* With more memory, the same plan must still be valid, and a monotone searcher must not find a slower one. */
static void judge_with_more(const question *q, mp_answer *a)
{
    mp_answer larger = {0};
    mp_request request = q->request;
    const int64_t budget = a->plan->budget_bytes;
    request.budget_bytes += request.budget_bytes / 10 + 1;
    a->plan->budget_bytes = request.budget_bytes;
    judge(q, a->plan);
    a->plan->budget_bytes = budget;
    for (size_t k = 0; k < mp_solver_count(); k++)
        if (!strcmp(mp_solver_row(k)->name, request.solver) && (!mp_solver_row(k)->monotone || q->arena)) return;
    if (solve(q, &request, &larger) != MP_OK) return;
    if (!larger.plan || larger.plan->ticks > a->plan->ticks)
        fault(q, "more memory takes longer", larger.plan ? larger.plan->ticks : -1, a->plan->ticks);
    mp_answer_free(&larger);
}

/* Writes and reads the files, and stores them for other checkers. */
static void write_and_read(const question *q, const mp_plan *plan)
{
    mp_error err = {0};
    mp_plan *again = NULL;
    char graph[256], file[256];
    const char *folder = getenv("FUZZ_WRITE");
    snprintf(graph, sizeof graph, "%s/fuzz-graph.json", folder);
    snprintf(file, sizeof file, "%s/fuzz-plan.json", folder);
    if (mp_graph_write(q->request.graph, graph, &err) != MP_OK || mp_plan_write(plan, q->request.graph, file, &err) != MP_OK ||
        mp_plan_read(file, q->request.graph, &again, &err) != MP_OK) {
        fprintf(stderr, "%s\n", err.message);
        fault(q, "the file does not come back", 0, 0);
    }
    judge(q, again);
    mp_plan_free(again);
}

static void answer_question(const question *q)
{
    mp_answer a = {0};
    if (solve(q, &q->request, &a) != MP_OK) return;
    judge_answer(q, &a);
    judge_by_all_plans(q, &a);
    if (a.plan) judge_with_more(q, &a);
    mp_plan **plan = a.plan ? &a.plan : &a.smallest;
    if (getenv("FUZZ_WRITE")) write_and_read(q, *plan);
    mp_answer_free(&a);
}

static int64_t keep_all_bytes(const mp_graph *graph)
{
    mp_timeline *timeline;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    mp_error err = {0};
    if (!steps) abort();
    mp_keep_all(graph, steps);
    if (mp_timeline_build(graph, steps, graph->n_nodes, &timeline, &err) != MP_OK) {
        fprintf(stderr, "keep-all: %s\n", err.message);
        abort();
    }
    const int64_t peak = timeline->peak_bytes;
    mp_timeline_free(timeline);
    mp_free(steps);
    return peak;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < HEAD) return 0;
    const bool plain = data[1] & 4;
    mp_graph *graph = random_graph_of(data + HEAD, n - HEAD, 1 + data[0] % FORWARD_MAX, (mp_fuse)(data[1] % MP_N_FUSES), plain);
    question q = {.keep_all_bytes = keep_all_bytes(graph), .arena = data[4] & 1};
    mp_request *r = &q.request;
    const int64_t static_bytes = mp_graph_static_bytes(graph);
    r->graph = graph;
    r->budget_bytes = static_bytes + (q.keep_all_bytes - static_bytes) * data[3] / 230;
    r->solver = mp_solver_row(data[2] % mp_solver_count())->name;
    r->effort = (mp_effort)((data[1] >> 4) % MP_N_EFFORTS);
    r->wants_bound = data[4] & 4;
    r->explains_bound = r->wants_bound && data[4] & 8;
    r->keep_order = data[4] & 16;
    r->moves = data[4] & 32 ? 4 * MOVES : MOVES;
    r->seed = data[5];
    answer_question(&q);
    mp_graph_free(graph);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    if (LLVMFuzzerMutate) return LLVMFuzzerMutate(data, n, most);
    if (n) data[seed % 3 ? seed / 3 % n : seed / 3 % HEAD % n] = (uint8_t)(seed >> 16);
    return n;
}

/* row_chunks.c - chooses the numbers of chunks of rows by comparing plans.
 *
 * A candidate is a number of chunks for each kind of region. Its floor and a quick lower bound are computed in a fraction of
 * the time of a search. The bound is usually within a percent of the best plan. The descent changes one kind after the other to
 * the number with the smallest bound, until no change helps. Then a quick search solves the candidates in ascending order of
 * their bounds. It ends if the next bound is not below the ticks of the best plan. */
#include "memplan/workloads/row_chunks.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "executor/workload/chunk_numbers.h"
#include "memplan/solver.h"
#include "planner/floor/floor.h"
#include "planner/floor/problem.h"

enum {
    N_NUMBERS = 7,      /* 1, 2, 4, ... 64 chunks */
    N_CANDIDATES = 2401 /* N_NUMBERS to the power of MP_N_CHUNK_KINDS */
};

bool mp_row_chunks_are_open(const mp_workload_options *options)
{
    return options->row_chunks && !strcmp(options->row_chunks, "auto");
}

typedef enum state {
    NEW,
    BUILT,   /* least_ticks is known */
    SCORED,  /* floor and bound are known, too */
    SOLVED,  /* a quick search has run */
    EXCLUDED /* a region has fewer rows, the head overlaps a region, or the graph is too large */
} state;

typedef struct candidate {
    state state;
    int64_t least_ticks; /* no plan takes fewer ticks, whatever its memory */
    int64_t bound_ticks; /* no plan within the budget takes fewer ticks; INT64_MAX: none fits */
    int64_t ticks;       /* ticks of the best plan found; INT64_MAX: none fits */
    int64_t floor_bytes, smallest_bytes;
    size_t n_nodes;
} candidate;

typedef struct choice {
    const mp_workload *whole;
    const mp_workload_options *options;
    const mp_request *request;
    int64_t most[MP_N_CHUNK_KINDS]; /* per kind: the largest number of chunks that the workload permits */
    candidate *all;                 /* index: sum of exponents[kind] * N_NUMBERS^kind */
    int64_t best_ticks;             /* ticks of the best plan of all candidates; INT64_MAX: none fits */
    mp_floor_shared *shared;        /* nodes that the graphs with chunks of the kinds in is_met have in common */
    bool is_met[MP_N_CHUNK_KINDS];  /* per kind: `shared` contains no nodes that chunks of this kind replace */
    int64_t shared_bytes;           /* lower bound on the floor of every graph, if is_met for all kinds that can be cut */
    mp_error *err;
} choice;

static int step_of(int kind)
{
    int step = 1;
    while (kind--) step *= N_NUMBERS;
    return step;
}

static int exponent_of(int index, int kind)
{
    return index / step_of(kind) % N_NUMBERS;
}

static void numbers_of(int index, int n[MP_N_CHUNK_KINDS])
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) n[k] = 1 << exponent_of(index, k);
}

/* Returns a number of ticks that no plan of the graph goes below: the fastest alternatives of all nodes that a plan must run on
 * the device. */
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
 * workload permits, the candidate becomes EXCLUDED, and *out is `whole`. */
static mp_status load(const choice *c, int index, mp_workload *own, const mp_workload **out)
{
    candidate *x = &c->all[index];
    int n[MP_N_CHUNK_KINDS];
    char setting[MP_ROW_CHUNKS_TEXT];
    mp_workload_options wanted = *c->options;
    *out = c->whole;
    numbers_of(index, n);
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        if (n[k] > 1 && n[k] > c->most[k]) x->state = EXCLUDED;
    if (x->state == EXCLUDED) return MP_OK;
    if (index) {
        mp_chunk_numbers_write(n, setting);
        wanted.row_chunks = setting;
        wanted.adopted = NULL;
        mp_error refusal = {0};
        const mp_status st = mp_workload_load(c->whole->path, &wanted, own, &refusal);
        /* if the head overlaps another region, only one of the two can be cut */
        if (st == MP_INVALID && exponent_of(index, MP_CHUNK_HEAD)) x->state = EXCLUDED;
        if (x->state == EXCLUDED) return MP_OK;
        MP_ENSURE(st == MP_OK, c->err, st, "%s", refusal.message);
        *out = own;
    }
    x->n_nodes = (*out)->graph->n_nodes;
    x->least_ticks = least_ticks((*out)->graph);
    if (x->state == NEW) x->state = BUILT;
    return MP_OK;
}

/* Returns in *order the precedence relation of a workload's graph; NULL if the graph has copies. */
static mp_status order_of(const mp_workload *w, const mp_precedence **order, mp_error *err)
{
    *order = NULL;
    return w->graph->has_copies ? MP_OK : mp_problem_order(w->problem, false, order, err);
}

/* If the candidate's graph is the first with chunks of some kind, omits the nodes from `shared` that this graph lacks. */
static mp_status meet(choice *c, int index, const mp_workload *w)
{
    bool is_new = false;
    const mp_precedence *order;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        if (!exponent_of(index, k) || c->is_met[k]) continue;
        c->is_met[k] = is_new = true;
    }
    if (!is_new) return MP_OK;
    MP_CHECK(order_of(w, &order, c->err));
    MP_CHECK(mp_floor_shared_meet(c->shared, w->graph, order, c->err));
    c->shared_bytes = mp_floor_shared_bytes(c->shared);
    return MP_OK;
}

static mp_status solve(choice *c, const mp_workload *w, const char *solver, candidate *x)
{
    mp_request request = *c->request;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    request.graph = w->graph;
    request.problem = w->problem;
    request.effort = MP_EFFORT_QUICK;
    request.wants_bound = true;
    if (w != c->whole) request.start = NULL; /* request.start is a plan of the graph with whole regions */
    if (solver) request.solver = solver;
    memcpy(request.tier_bytes, w->tier_bytes, sizeof request.tier_bytes);
    MP_CHECK(mp_solve(&request, &answer, c->err));
    if (answer.plan) x->ticks = mp_smaller(x->ticks, answer.plan->ticks);
    const int64_t bound = request.budget_bytes < answer.floor_bytes ? INT64_MAX : answer.bound.ticks;
    x->bound_ticks = mp_larger(x->bound_ticks, bound);
    x->floor_bytes = answer.floor_bytes;
    x->smallest_bytes = mp_smaller(x->smallest_bytes, answer.smallest->peak_bytes);
    c->best_ticks = mp_smaller(c->best_ticks, x->ticks);
    return MP_OK;
}

/* True if the workload is small enough to search plans for all promising candidates. */
static bool is_small(const choice *c)
{
    enum { SMALL = 200 }; /* nodes */
    return c->whole->graph->n_nodes <= SMALL;
}

/* Returns the name of the searcher that solves a candidate; NULL: the searcher of the request. */
static const char *trial_solver(const choice *c, const mp_graph *graph)
{
    enum { MOST_FOR_ALL = 1000 }; /* nodes of a graph for which all searchers run */
    const char *given = c->request->solver;
    const bool is_given = (given && strcmp(given, "auto")) || c->request->own || graph->n_tiers > 1;
    return is_given || (is_small(c) && graph->n_nodes <= MOST_FOR_ALL) ? NULL : "lagrange";
}

/* Computes floor and bound of a candidate. Computes only its least ticks if these are not below the ticks of the best plan. */
static mp_status score(choice *c, int index)
{
    enum { MOST_NODES = 20000 }; /* larger graphs take seconds per bound */
    MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
    const mp_workload *w;
    candidate *x = &c->all[index];
    if (x->state != NEW && x->state != BUILT) return MP_OK;
    MP_CHECK(load(c, index, &own, &w));
    x->bound_ticks = x->least_ticks;
    x->ticks = x->smallest_bytes = INT64_MAX;
    if (x->state == EXCLUDED) return MP_OK;
    if (index && w->graph->n_nodes > MOST_NODES) x->state = EXCLUDED;
    if (x->state == EXCLUDED) return MP_OK;
    MP_CHECK(meet(c, index, w));
    if (x->least_ticks >= c->best_ticks) return MP_OK;
    MP_CHECK(mp_problem_floor(w->problem, &x->floor_bytes, NULL, c->err));
    if (x->floor_bytes > c->request->budget_bytes) {
        x->state = SCORED;
        x->bound_ticks = INT64_MAX;
        return MP_OK;
    }
    const bool has_copies = w->graph->n_tiers > 1;
    MP_CHECK(solve(c, w, c->request->own || has_copies ? NULL : "chen", x));
    x->state = SCORED;
    return MP_OK;
}

/* True if the bounds of candidate a are better than those of b. A candidate that may fit comes first, then the smaller bound of
 * ticks. If neither fits, the smaller floor is better. */
static bool is_better(const candidate *a, const candidate *b)
{
    if (a->state != SCORED && a->state != SOLVED) return false;
    if ((a->bound_ticks < INT64_MAX) != (b->bound_ticks < INT64_MAX)) return a->bound_ticks < INT64_MAX;
    if (a->bound_ticks < INT64_MAX) return a->bound_ticks < b->bound_ticks;
    return a->floor_bytes < b->floor_bytes;
}

/* True if larger numbers of chunks are worth trying, although the floor of candidate x exceeds the budget. Each step halves the
 * widest tensors, so all further steps together lower the floor by about as much as the last step. Further steps are worth
 * trying if this drop reaches the budget, or if the drop exceeds 1/64 of the bytes besides static memory. If no candidate can
 * fit, the number of nodes is limited too. */
static bool lowers_floor(const choice *c, const candidate *x, int64_t floor_before)
{
    enum { SHARE = 64, GROWTH = 4 };
    const int64_t drop = floor_before - x->floor_bytes;
    const int64_t live = c->all[0].floor_bytes - mp_graph_static_bytes(c->whole->graph);
    const bool is_hopeless = c->shared_bytes > c->request->budget_bytes;
    if (floor_before == INT64_MAX) return true;
    if (is_hopeless && x->n_nodes > GROWTH * c->all[0].n_nodes) return false;
    return drop > live / SHARE || (!is_hopeless && drop > 0 && x->floor_bytes - drop <= c->request->budget_bytes);
}

/* Changes the number of chunks of one kind to the best number. From two chunks on, the least ticks of a plan grow with the
 * number of chunks. So the loop ends at the first of these numbers that cannot be better. The loop also ends after two
 * successive worse numbers. If no plan fits, the loop ends at the first number that hardly lowers the floor. */
static mp_status improve_kind(choice *c, int kind, int *best)
{
    enum { MOST_WORSE = 2 };
    const int step = step_of(kind), base = *best - exponent_of(*best, kind) * step;
    int64_t floor_before = INT64_MAX;
    int n_worse = 0;
    for (int e = 0; e < N_NUMBERS; e++) {
        const int index = base + e * step;
        const candidate *x = &c->all[index];
        MP_CHECK(score(c, index));
        if (x->state == EXCLUDED) break;
        if (e && c->best_ticks < INT64_MAX && x->least_ticks >= c->best_ticks) break;
        const bool fits_none = x->bound_ticks == INT64_MAX && c->all[*best].bound_ticks == INT64_MAX;
        const bool is_worth = !fits_none || lowers_floor(c, x, floor_before);
        n_worse = index == *best || is_better(x, &c->all[*best]) ? 0 : n_worse + 1;
        if (is_worth && !n_worse) *best = index;
        if (!is_worth || n_worse == MOST_WORSE) break;
        floor_before = x->floor_bytes;
    }
    return MP_OK;
}

static mp_status descend(choice *c, int *best)
{
    for (int before = -1, round = 0; before != *best && round < 4; round++) {
        before = *best;
        for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
            if (c->most[k] > 1) MP_CHECK(improve_kind(c, k, best));
    }
    return MP_OK;
}

/* Called if no plan fits with the best numbers. Two kinds may determine the floor together: then chunks of one kind alone
 * do not lower the floor. Tries 2, 4, 8, ... chunks of all kinds at once, or as many as a kind permits. If a combination is
 * better, descends again from there. */
static mp_status descend_together(choice *c, int *best)
{
    const int before = *best;
    int64_t floor_before = INT64_MAX;
    for (int e = 1; e < N_NUMBERS && c->all[*best].bound_ticks == INT64_MAX; e++) {
        int index = 0, most;
        for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
            for (most = 0; most < e && 2 << most <= c->most[k];) most++;
            index += most * step_of(k);
        }
        const candidate *x = &c->all[index];
        MP_CHECK(score(c, index));
        if (x->state == EXCLUDED || (x->bound_ticks == INT64_MAX && !lowers_floor(c, x, floor_before))) break;
        if (is_better(x, &c->all[*best])) *best = index;
        floor_before = x->floor_bytes;
    }
    return *best == before ? MP_OK : descend(c, best);
}

/* Returns the scored candidate with the smallest bound that is not solved yet; -1: none. */
static int most_promising(const choice *c)
{
    int found = -1;
    for (int k = 0; k < N_CANDIDATES; k++)
        if (c->all[k].state == SCORED && (found < 0 || is_better(&c->all[k], &c->all[found]))) found = k;
    return found;
}

/* Solves candidates in ascending order of their bounds, until the next bound is not below the best plan. On a large graph it
 * stops after two plans or four searches: the bounds of equally good candidates differ by about the gap of the final search. */
static mp_status solve_promising(choice *c)
{
    enum { MOST_PLANS = 2, MOST_SEARCHES = 4 };
    int n_plans = 0;
    for (int n = 0;; n++) {
        const int index = most_promising(c);
        if (index < 0) return MP_OK;
        candidate *x = &c->all[index];
        MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
        const mp_workload *w;
        if (x->bound_ticks >= c->best_ticks) return MP_OK;
        if (!is_small(c) && (n_plans >= MOST_PLANS || n >= MOST_SEARCHES)) return MP_OK;
        MP_CHECK(load(c, index, &own, &w));
        MP_CHECK(solve(c, w, trial_solver(c, w->graph), x));
        x->state = SOLVED;
        n_plans += x->ticks < INT64_MAX;
    }
}

/* Compares two candidates without a plan within the budget. True if only a may fit, or if a has the smaller plan. If neither
 * has any plan, true if a has the smaller floor. */
static bool is_nearer(const candidate *a, const candidate *b)
{
    if ((a->bound_ticks < INT64_MAX) != (b->bound_ticks < INT64_MAX)) return a->bound_ticks < INT64_MAX;
    if (a->smallest_bytes != b->smallest_bytes) return a->smallest_bytes < b->smallest_bytes;
    return a->smallest_bytes == INT64_MAX && a->floor_bytes < b->floor_bytes;
}

/* Returns the candidate with the fastest plan. If no plan fits, returns the candidate with the smallest plan among those
 * that may fit. If no candidate may fit, returns `nearest`. Of equal candidates, the candidate with the fewest chunks wins. */
static int fastest(const choice *c, int nearest)
{
    int found = c->all[nearest].bound_ticks == INT64_MAX ? nearest : 0;
    for (int k = 0; k < N_CANDIDATES; k++) {
        const candidate *x = &c->all[k], *b = &c->all[found];
        if ((x->state != SCORED && x->state != SOLVED) || x->bound_ticks == INT64_MAX) continue;
        if (x->ticks < b->ticks || (x->ticks == b->ticks && x->ticks == INT64_MAX && is_nearer(x, b))) found = k;
    }
    return found;
}

/* Returns a lower bound on the floor of a candidate. */
static int64_t floor_of(const choice *c, int index)
{
    const candidate *x = &c->all[index];
    return x->state == SCORED || x->state == SOLVED ? x->floor_bytes : c->shared_bytes;
}

/* Returns a lower bound on the ticks of a candidate's plans. Regions of different kinds share no nodes, so the least ticks that
 * chunks of each kind add can be summed. For a number of chunks without a graph, the largest smaller number with one counts. */
static int64_t bound_of(const choice *c, int index)
{
    const candidate *x = &c->all[index];
    if (x->state != NEW) return x->bound_ticks;
    if (c->shared_bytes > c->request->budget_bytes) return INT64_MAX;
    int64_t sum = c->all[0].least_ticks;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        int e = exponent_of(index, k);
        while (e && c->all[e * step_of(k)].state == NEW) e--;
        sum += c->all[e * step_of(k)].least_ticks - c->all[0].least_ticks;
    }
    return sum;
}

/* True if the workload permits the candidate's numbers of chunks, and neither the candidate nor one of its numbers alone is
 * excluded. */
static bool is_candidate(const choice *c, int index)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        const int e = exponent_of(index, k);
        if (e && 1 << e > c->most[k]) return false;
        for (int f = 1; f <= e; f++)
            if (c->all[f * step_of(k)].state == EXCLUDED) return false;
    }
    return c->all[index].state != EXCLUDED;
}

/* For each kind that is not in is_met, builds a graph with chunks of this kind and updates `shared`. */
static mp_status meet_others(choice *c)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
        const mp_workload *w;
        const int index = step_of(k);
        if (c->most[k] < 2 || c->is_met[k] || c->all[index].state == EXCLUDED) continue;
        MP_CHECK(load(c, index, &own, &w));
        if (c->all[index].state == EXCLUDED) continue;
        c->all[index].bound_ticks = c->all[index].least_ticks;
        MP_CHECK(meet(c, index, w));
    }
    return MP_OK;
}

/* Builds the graphs in which one kind alone is cut, as long as they could be faster than the chosen graph. bound_of then uses
 * their least ticks, and nodes_of uses their numbers of nodes. */
static mp_status build_singles(choice *c, int chosen)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        for (int e = 1; e < N_NUMBERS && 1 << e <= c->most[k]; e++) {
            MP_CLEARED_BY(mp_workload_free) mp_workload own = {0};
            const mp_workload *w;
            candidate *x = &c->all[e * step_of(k)];
            if (x->state == NEW) {
                MP_CHECK(load(c, e * step_of(k), &own, &w));
                x->bound_ticks = x->least_ticks;
            }
            if (x->state == EXCLUDED || x->least_ticks >= c->all[chosen].bound_ticks) break;
        }
    return MP_OK;
}

/* Returns the estimated number of nodes of a candidate's graph. */
static size_t nodes_of(const choice *c, int index)
{
    size_t sum = c->all[0].n_nodes;
    if (c->all[index].n_nodes) return c->all[index].n_nodes;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        const candidate *single = &c->all[exponent_of(index, k) * step_of(k)];
        if (single->n_nodes > c->all[0].n_nodes) sum += single->n_nodes - c->all[0].n_nodes;
    }
    return sum;
}

/* True if the candidate may be faster than the chosen candidate, and its only lower bound is its least ticks. */
static bool is_open(const choice *c, int index, int chosen)
{
    const candidate *x = &c->all[index];
    return (x->state == NEW || x->state == BUILT) && is_candidate(c, index) && bound_of(c, index) < c->all[chosen].bound_ticks;
}

/* Scores all candidates that could be faster than the chosen candidate. Then the reported bound covers these candidates too.
 * The lowest bound is reported, so scoring only some of the candidates is useless. If their graphs have too many nodes, scores
 * none. */
static mp_status prove_others(choice *c, int chosen)
{
    enum { ALLOWANCE = 12 }; /* limit on all graphs' nodes, as a multiple of those of the whole and the chosen graph */
    const size_t most = ALLOWANCE * (c->all[0].n_nodes + c->all[chosen].n_nodes);
    size_t n_nodes = 0;
    if (c->shared_bytes > c->request->budget_bytes) return MP_OK;
    MP_CHECK(build_singles(c, chosen));
    for (int k = 0; k < N_CANDIDATES; k++)
        if (is_open(c, k, chosen)) n_nodes += nodes_of(c, k);
    for (int k = 0; k < N_CANDIDATES && n_nodes <= most; k++)
        if (is_open(c, k, chosen)) MP_CHECK(score(c, k));
    return MP_OK;
}

static void choice_clear(choice *c)
{
    mp_floor_shared_free(c->shared);
}

/* Sets the results that are proved for all candidates. */
static void set_proofs(const choice *c, int chosen, mp_row_chunks_choice *out)
{
    out->other_ticks = INT64_MAX;
    out->floor_bytes = floor_of(c, chosen);
    for (int k = 0; k < N_CANDIDATES; k++) {
        if (k == chosen || !is_candidate(c, k)) continue;
        out->other_ticks = mp_smaller(out->other_ticks, bound_of(c, k));
        out->floor_bytes = mp_smaller(out->floor_bytes, floor_of(c, k));
    }
}

mp_status mp_row_chunks_choose(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                               mp_row_chunks_choice *out, mp_error *err)
{
    MP_OWNED candidate *all = mp_alloc(N_CANDIDATES, sizeof *all);
    MP_CLEARED_BY(choice_clear)
    choice c = {.whole = whole, .options = options, .request = request, .all = all, .best_ticks = INT64_MAX, .err = err};
    int best = 0, numbers[MP_N_CHUNK_KINDS];
    const mp_precedence *order;
    if (!all) return MP_NO_MEMORY(err);
    *out = (mp_row_chunks_choice){.n = 1};
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        c.most[k] = k == MP_CHUNK_HEAD ? whole->details->loss_chunks.n_rows : whole->details->row_regions.kinds[k].n_most;
    MP_CHECK(order_of(whole, &order, err));
    MP_CHECK(mp_floor_shared_new(whole->graph, order, &c.shared, err));
    MP_CHECK(score(&c, 0));
    /* if whole regions do not fit, the descent reads the shared floor, so compute this floor first */
    for (int k = 0; k < MP_N_CHUNK_KINDS && c.all[0].bound_ticks == INT64_MAX; k++)
        if (c.most[k] > 1) MP_CHECK(score(&c, step_of(k)));
    MP_CHECK(descend(&c, &best));
    if (c.shared_bytes <= request->budget_bytes) MP_CHECK(descend_together(&c, &best));
    MP_CHECK(solve_promising(&c));
    best = fastest(&c, best);
    MP_CHECK(meet_others(&c));
    MP_CHECK(prove_others(&c, best));
    best = fastest(&c, best); /* a candidate of the proof may have a faster plan */
    set_proofs(&c, best, out);
    numbers_of(best, numbers);
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) out->n = numbers[k] > out->n ? numbers[k] : out->n;
    mp_chunk_numbers_write(numbers, out->setting);
    return MP_OK;
}

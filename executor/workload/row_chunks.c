/* row_chunks.c - chooses the numbers of chunks of rows by comparing plans, and proves a bound for all other numbers.
 *
 * A candidate is a number of chunks for each kind of region. Its floor and a quick lower bound are computed in a fraction of
 * the time of a search. The bound is usually within a percent of the best plan. The descent changes one kind after the other to
 * the number with the smallest bound, until no change helps. Then a quick search solves the candidates in ascending order of
 * their bounds. It ends if the next bound is not below the ticks of the best plan. */
#include "memplan/workloads/row_chunks.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "executor/workload/chunk_choice.h"
#include "executor/workload/chunk_numbers.h"

bool mp_row_chunks_are_open(const mp_workload_options *options)
{
    return options->row_chunks && !strcmp(options->row_chunks, "auto");
}

/* True if the bounds of candidate a are better than those of b. A candidate that may fit comes first, then the smaller bound of
 * ticks. If neither fits, the smaller floor is better. */
static bool is_better(const mp_chunk_candidate *a, const mp_chunk_candidate *b)
{
    if (a->state != MP_CHUNK_SCORED && a->state != MP_CHUNK_SOLVED) return false;
    if ((a->bound_ticks < INT64_MAX) != (b->bound_ticks < INT64_MAX)) return a->bound_ticks < INT64_MAX;
    if (a->bound_ticks < INT64_MAX) return a->bound_ticks < b->bound_ticks;
    return a->floor_bytes < b->floor_bytes;
}

/* True if larger numbers of chunks are worth trying, although the floor of candidate x exceeds the budget. Each step halves the
 * widest tensors, so all further steps together lower the floor by about as much as the last step. Further steps are worth
 * trying if this drop reaches the budget, or if the drop exceeds 1/64 of the bytes besides static memory. If no candidate can
 * fit, the number of nodes is limited too. */
static bool lowers_floor(const mp_chunk_choice *c, const mp_chunk_candidate *x, int64_t floor_before)
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
static mp_status improve_kind(mp_chunk_choice *c, int kind, int *best)
{
    enum { MOST_WORSE = 2 };
    const int step = mp_chunk_step(kind), base = *best - mp_chunk_exponent(*best, kind) * step;
    int64_t floor_before = INT64_MAX;
    int n_worse = 0;
    for (int e = 0; e < MP_CHUNK_NUMBERS; e++) {
        const int index = base + e * step;
        const mp_chunk_candidate *x = &c->all[index];
        MP_CHECK(mp_chunk_score(c, index));
        if (x->state == MP_CHUNK_EXCLUDED) break;
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

static mp_status descend(mp_chunk_choice *c, int *best)
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
static mp_status descend_together(mp_chunk_choice *c, int *best)
{
    const int before = *best;
    int64_t floor_before = INT64_MAX;
    for (int e = 1; e < MP_CHUNK_NUMBERS && c->all[*best].bound_ticks == INT64_MAX; e++) {
        int index = 0, most;
        for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
            for (most = 0; most < e && 2 << most <= c->most[k];) most++;
            index += most * mp_chunk_step(k);
        }
        const mp_chunk_candidate *x = &c->all[index];
        MP_CHECK(mp_chunk_score(c, index));
        if (x->state == MP_CHUNK_EXCLUDED || (x->bound_ticks == INT64_MAX && !lowers_floor(c, x, floor_before))) break;
        if (is_better(x, &c->all[*best])) *best = index;
        floor_before = x->floor_bytes;
    }
    return *best == before ? MP_OK : descend(c, best);
}

/* Returns the scored candidate with the smallest bound that is not solved yet; -1: none. */
static int most_promising(const mp_chunk_choice *c)
{
    int found = -1;
    for (int k = 0; k < MP_CHUNK_CANDIDATES; k++)
        if (c->all[k].state == MP_CHUNK_SCORED && (found < 0 || is_better(&c->all[k], &c->all[found]))) found = k;
    return found;
}

/* Solves candidates in ascending order of their bounds, until the next bound is not below the best plan. On a large graph it
 * stops after two plans or four searches: the bounds of equally good candidates differ by about the gap of the final search. */
static mp_status solve_promising(mp_chunk_choice *c)
{
    enum { MOST_PLANS = 2, MOST_SEARCHES = 4 };
    int n_plans = 0;
    for (int n = 0;; n++) {
        const int index = most_promising(c);
        if (index < 0) return MP_OK;
        const mp_chunk_candidate *x = &c->all[index];
        if (x->bound_ticks >= c->best_ticks) return MP_OK;
        if (!mp_chunk_choice_is_small(c) && (n_plans >= MOST_PLANS || n >= MOST_SEARCHES)) return MP_OK;
        MP_CHECK(mp_chunk_solve(c, index));
        n_plans += x->ticks < INT64_MAX;
    }
}

/* Compares two candidates without a plan within the budget. True if only a may fit, or if a has the smaller plan. If neither
 * has any plan, true if a has the smaller floor. */
static bool is_nearer(const mp_chunk_candidate *a, const mp_chunk_candidate *b)
{
    if ((a->bound_ticks < INT64_MAX) != (b->bound_ticks < INT64_MAX)) return a->bound_ticks < INT64_MAX;
    if (a->smallest_bytes != b->smallest_bytes) return a->smallest_bytes < b->smallest_bytes;
    return a->smallest_bytes == INT64_MAX && a->floor_bytes < b->floor_bytes;
}

/* Returns the candidate with the fastest plan. If no plan fits, returns the candidate with the smallest plan among those
 * that may fit. If no candidate may fit, returns `nearest`. Of equal candidates, the candidate with the fewest chunks wins. */
static int fastest(const mp_chunk_choice *c, int nearest)
{
    int found = c->all[nearest].bound_ticks == INT64_MAX ? nearest : 0;
    for (int k = 0; k < MP_CHUNK_CANDIDATES; k++) {
        const mp_chunk_candidate *x = &c->all[k], *b = &c->all[found];
        if ((x->state != MP_CHUNK_SCORED && x->state != MP_CHUNK_SOLVED) || x->bound_ticks == INT64_MAX) continue;
        if (x->ticks < b->ticks || (x->ticks == b->ticks && x->ticks == INT64_MAX && is_nearer(x, b))) found = k;
    }
    return found;
}

/* ---- the bound and the floor for all candidates ---- */

/* Returns a lower bound on the floor of a candidate. */
static int64_t floor_of(const mp_chunk_choice *c, int index)
{
    const mp_chunk_candidate *x = &c->all[index];
    const bool is_known = x->state == MP_CHUNK_BOUNDED || x->state == MP_CHUNK_SCORED || x->state == MP_CHUNK_SOLVED;
    return is_known ? x->floor_bytes : c->shared_bytes;
}

/* Returns a lower bound on the ticks of a candidate's plans. Regions of different kinds share no nodes, so the least ticks that
 * chunks of each kind add can be summed. If no graph was built for a number of chunks, the next smaller number with a graph
 * counts. */
static int64_t bound_of(const mp_chunk_choice *c, int index)
{
    const mp_chunk_candidate *x = &c->all[index];
    if (x->state != MP_CHUNK_NEW) return x->bound_ticks;
    if (c->shared_bytes > c->request->budget_bytes) return INT64_MAX;
    int64_t sum = c->all[0].least_ticks;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        int e = mp_chunk_exponent(index, k);
        while (e && c->all[e * mp_chunk_step(k)].state == MP_CHUNK_NEW) e--;
        sum += c->all[e * mp_chunk_step(k)].least_ticks - c->all[0].least_ticks;
    }
    return sum;
}

/* True if the workload permits the candidate's numbers of chunks, and neither the candidate nor one of its numbers alone is
 * excluded. */
static bool is_candidate(const mp_chunk_choice *c, int index)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        const int e = mp_chunk_exponent(index, k);
        if (e && 1 << e > c->most[k]) return false;
        for (int f = 1; f <= e; f++)
            if (c->all[f * mp_chunk_step(k)].state == MP_CHUNK_EXCLUDED) return false;
    }
    return c->all[index].state != MP_CHUNK_EXCLUDED;
}

/* Completes `shared`, so that shared_bytes holds for all candidates. */
static mp_status share_all(mp_chunk_choice *c)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        if (c->most[k] > 1 && !c->is_met[k]) MP_CHECK(mp_chunk_build(c, mp_chunk_step(k)));
    return MP_OK;
}

/* Builds the graphs in which one kind alone is cut, as long as they could be faster than the chosen graph. bound_of then uses
 * their least ticks, and nodes_of uses their numbers of nodes. */
static mp_status build_singles(mp_chunk_choice *c, int chosen)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        for (int e = 1; e < MP_CHUNK_NUMBERS && 1 << e <= c->most[k]; e++) {
            const mp_chunk_candidate *x = &c->all[e * mp_chunk_step(k)];
            MP_CHECK(mp_chunk_build(c, e * mp_chunk_step(k)));
            if (x->state == MP_CHUNK_EXCLUDED || x->least_ticks >= c->all[chosen].bound_ticks) break;
        }
    return MP_OK;
}

/* Returns the estimated number of nodes of a candidate's graph. */
static size_t nodes_of(const mp_chunk_choice *c, int index)
{
    size_t sum = c->all[0].n_nodes;
    if (c->all[index].n_nodes) return c->all[index].n_nodes;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) {
        const mp_chunk_candidate *single = &c->all[mp_chunk_exponent(index, k) * mp_chunk_step(k)];
        if (single->n_nodes > c->all[0].n_nodes) sum += single->n_nodes - c->all[0].n_nodes;
    }
    return sum;
}

/* True if the candidate's only lower bound is its least ticks. */
static bool lacks_bound(const mp_chunk_choice *c, int index)
{
    const mp_chunk_state state = c->all[index].state;
    return (state == MP_CHUNK_NEW || state == MP_CHUNK_BUILT) && is_candidate(c, index);
}

/* True if the candidate may be faster than the chosen candidate, and its only lower bound is its least ticks. */
static bool is_open(const mp_chunk_choice *c, int index, int chosen)
{
    return lacks_bound(c, index) && bound_of(c, index) < c->all[chosen].bound_ticks;
}

/* Computes the bound of a candidate. Also computes plans by `chen` in each of these cases:
 * - the graph is small or has copies
 * - the request has a searcher of its own, or no budget
 * - no plan of any candidate is known. */
static mp_status bound_other(mp_chunk_choice *c, int index, bool with_floor)
{
    const mp_request *request = c->request;
    const bool is_special = request->own || c->whole->graph->n_tiers > 1 || request->budget_bytes >= MP_NO_LIMIT;
    if (is_special || mp_chunk_choice_is_small(c) || c->best_ticks == INT64_MAX) return mp_chunk_score(c, index);
    return mp_chunk_bound(c, index, with_floor);
}

/* Computes bounds of the candidates that may be faster than the chosen candidate.
 *
 * memplan reports the lowest bound of all candidates, so computing only some of the bounds is useless. Either the bounds of all
 * open candidates are computed, or none of them if their graphs have too many nodes.
 *
 * A candidate that is not open gets no floor of its own, so the reported floor is at most `shared_bytes`. Then the floors of
 * the open candidates matter only if the floor of whole regions exceeds the budget. */
static mp_status prove(mp_chunk_choice *c, int chosen)
{
    enum { ALLOWANCE = 12 }; /* limit on all graphs' nodes, as a multiple of the nodes of the whole and the chosen graph */
    const size_t most = ALLOWANCE * (c->all[0].n_nodes + c->all[chosen].n_nodes);
    size_t n_nodes = 0;
    bool with_floor = true;
    MP_CHECK(share_all(c));
    if (c->shared_bytes > c->request->budget_bytes) return MP_OK;
    MP_CHECK(build_singles(c, chosen));
    for (int k = 0; k < MP_CHUNK_CANDIDATES; k++) {
        if (is_open(c, k, chosen)) n_nodes += nodes_of(c, k);
        if (lacks_bound(c, k) && !is_open(c, k, chosen) && c->all[0].floor_bytes <= c->request->budget_bytes)
            with_floor = false;
    }
    for (int k = 0; k < MP_CHUNK_CANDIDATES && n_nodes <= most; k++)
        if (is_open(c, k, chosen)) MP_CHECK(bound_other(c, k, with_floor));
    return MP_OK;
}

/* Sets out->other_ticks and out->floor_bytes, which are proved for all candidates. */
static void take_proofs(const mp_chunk_choice *c, int chosen, mp_row_chunks_choice *out)
{
    out->other_ticks = INT64_MAX;
    out->floor_bytes = floor_of(c, chosen);
    for (int k = 0; k < MP_CHUNK_CANDIDATES; k++) {
        if (k == chosen || !is_candidate(c, k)) continue;
        out->other_ticks = mp_smaller(out->other_ticks, bound_of(c, k));
        out->floor_bytes = mp_smaller(out->floor_bytes, floor_of(c, k));
    }
}

/* ---- the choice ---- */

/* True if no region can be cut. */
static bool has_no_choice(const mp_chunk_choice *c)
{
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        if (c->most[k] > 1) return false;
    return true;
}

mp_status mp_row_chunks_choose(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                               mp_row_chunks_choice *out, mp_error *err)
{
    MP_CLEARED_BY(mp_chunk_choice_clear) mp_chunk_choice c = {0};
    int best = 0, numbers[MP_N_CHUNK_KINDS];
    *out = (mp_row_chunks_choice){.n = 1, .setting = "off", .other_ticks = INT64_MAX, .budget_bytes = request->budget_bytes};
    MP_CHECK(mp_chunk_choice_begin(whole, options, request, &c, err));
    if (has_no_choice(&c)) return mp_problem_floor(whole->problem, &out->floor_bytes, NULL, err);
    MP_CHECK(mp_chunk_score(&c, 0));
    /* if whole regions do not fit, the descent reads the shared floor, so compute this floor first */
    for (int k = 0; k < MP_N_CHUNK_KINDS && c.all[0].bound_ticks == INT64_MAX; k++)
        if (c.most[k] > 1) MP_CHECK(mp_chunk_score(&c, mp_chunk_step(k)));
    MP_CHECK(descend(&c, &best));
    if (c.shared_bytes <= request->budget_bytes) MP_CHECK(descend_together(&c, &best));
    MP_CHECK(solve_promising(&c));
    best = fastest(&c, best);
    MP_CHECK(prove(&c, best));
    best = fastest(&c, best); /* a candidate of the proof may have a faster plan */
    take_proofs(&c, best, out);
    mp_chunk_numbers_at(best, numbers);
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) out->n = numbers[k] > out->n ? numbers[k] : out->n;
    mp_chunk_numbers_write(numbers, out->setting);
    if (best != c.trial_index) return MP_OK;
    out->trial = c.trial;
    c.trial = (mp_answer){0};
    return MP_OK;
}

void mp_row_chunks_choice_free(mp_row_chunks_choice *choice)
{
    mp_answer_free(&choice->trial);
}

mp_status mp_row_chunks_floor(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                              int64_t *floor_bytes, mp_error *err)
{
    MP_CLEARED_BY(mp_chunk_choice_clear) mp_chunk_choice c = {0};
    MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = {0};
    MP_CHECK(mp_problem_floor(whole->problem, floor_bytes, NULL, err));
    MP_CHECK(mp_chunk_choice_begin(whole, options, request, &c, err));
    if (has_no_choice(&c)) return MP_OK;
    if (mp_chunk_choice_is_small(&c)) {
        MP_CHECK(mp_row_chunks_choose(whole, options, request, &choice, err));
        *floor_bytes = choice.floor_bytes;
        return MP_OK;
    }
    MP_CHECK(share_all(&c));
    if (c.shared_bytes < *floor_bytes) *floor_bytes = c.shared_bytes;
    return MP_OK;
}

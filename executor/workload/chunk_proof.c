/* chunk_proof.c - proves a bound and a floor that hold for plans with any numbers of chunks of rows. */
#include "executor/workload/chunk_proof.h"

#include "estimator/base/integers.h"

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

mp_status mp_chunk_share(mp_chunk_choice *c)
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

/* memplan reports the lowest bound of all candidates, so computing only some of the bounds is useless. Either the bounds of all
 * open candidates are computed, or none of them if their graphs have too many nodes.
 *
 * A candidate that is not open gets no floor of its own, so the reported floor is at most `shared_bytes`. Then the floors of
 * the open candidates matter only if the floor of whole regions exceeds the budget. */
mp_status mp_chunk_prove(mp_chunk_choice *c, int chosen)
{
    enum { ALLOWANCE = 12 }; /* limit on all graphs' nodes, as a multiple of the nodes of the whole and the chosen graph */
    const size_t most = ALLOWANCE * (c->all[0].n_nodes + c->all[chosen].n_nodes);
    size_t n_nodes = 0;
    bool with_floor = true;
    MP_CHECK(mp_chunk_share(c));
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

void mp_chunk_proofs(const mp_chunk_choice *c, int chosen, mp_row_chunks_choice *out)
{
    out->other_ticks = INT64_MAX;
    out->floor_bytes = floor_of(c, chosen);
    for (int k = 0; k < MP_CHUNK_CANDIDATES; k++) {
        if (k == chosen || !is_candidate(c, k)) continue;
        out->other_ticks = mp_smaller(out->other_ticks, bound_of(c, k));
        out->floor_bytes = mp_smaller(out->floor_bytes, floor_of(c, k));
    }
}

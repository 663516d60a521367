/* bound_exchange.c - local search over the boundaries of overlapping intervals, and the boundaries that the tree gets. */
#include "planner/bound/overlap/bound_exchange.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/bound/overlap/bound_tree.h"
#include "planner/math/tuning.h"

enum { SHIFTS = 6, PARTS = 3, WAYS = SHIFTS + PARTS };

static int candidate_of(const mp_bound_chain *c, int node)
{
    int k = 0;
    while (c->candidates[k].node != node) k++;
    return k;
}

/* The candidate that leaves the least free memory in a stretch, ends not counted; -1: there is none. */
static int least_room(const mp_bound_chain *c, int after, int before)
{
    int best = -1;
    for (int k = after + 1; k < before; k++)
        if (best < 0 || c->candidates[k].free_bytes <= c->candidates[best].free_bytes) best = k;
    return best;
}

/* Of the candidates at which memory is shorter than at their neighbours, and that are not among the nodes, the one with the
 * largest shortage, -1: none. */
static int next_peak(const mp_bound_chain *c, const int *nodes, int n)
{
    int best = -1;
    for (int k = 0; k < c->n_candidates; k++) {
        const int64_t shortage = c->candidates[k].shortage_bytes;
        bool is_peak = (!k || c->candidates[k - 1].shortage_bytes < shortage) &&
                       (k + 1 == c->n_candidates || c->candidates[k + 1].shortage_bytes <= shortage);
        for (int i = 0; i < n && is_peak; i++)
            is_peak = mp_precedes(c->order, nodes[i], c->candidates[k].node) ||
                      mp_precedes(c->order, c->candidates[k].node, nodes[i]);
        if (is_peak && (best < 0 || shortage > c->candidates[best].shortage_bytes)) best = k;
    }
    return best;
}

/* The k-th neighbour of the selection: one boundary shifted, or one more; `nodes` has space for it. Its length; 0: there is
 * none. */
static int neighbour(const mp_bound_chain *c, const mp_bound_selection *s, int k, int *nodes)
{
    static const int shifts[SHIFTS] = {-1, 1, -3, 3, -8, 8};
    const int at = k / WAYS, way = k % WAYS;
    const int here = candidate_of(c, s->nodes[at]), next = at + 1 < s->n ? candidate_of(c, s->nodes[at + 1]) : c->n_candidates;
    int n = 0, moved = -1;
    if (way < SHIFTS) {
        moved = here + shifts[way];
        const int previous = at ? candidate_of(c, s->nodes[at - 1]) : -1;
        if (moved <= previous || moved >= next) return 0;
    } else {
        const int length = next - here;
        moved = least_room(c, here + length * (way - SHIFTS) / PARTS, here + length * (way - SHIFTS + 1) / PARTS);
        if (moved <= here || moved >= next) return 0;
    }
    for (int i = 0; i < s->n; i++)
        if (i != at || way >= SHIFTS) nodes[n++] = s->nodes[i];
    return mp_bound_insert(c, nodes, n, c->candidates[moved].node) ? n + 1 : 0;
}

/* From neighbour to neighbour, as long as that helps and there is work left. */
mp_status mp_bound_exchange(mp_bound_chain *c, mp_bound_selection *s, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    int *nodes = mp_alloc((size_t)c->n_candidates + 1, sizeof *nodes);
    MP_REQUIRE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    s->work_left = (int64_t)MP_BOUND_EXCHANGE_WORK * c->options.effort;
    for (int k = 0, idle = 0; s->n && idle < WAYS * s->n && s->work_left > 0 && !mp_bound_chain_ended(c); k++, idle++) {
        const int64_t value = s->value;
        const int n = neighbour(c, s, k % (WAYS * s->n), nodes);
        if (!n) continue;
        MP_TRY(mp_bound_select_try(c, s, nodes, n, 1, ticks, err));
        if (s->value > value) idle = 0;
    }
done:
    mp_free(nodes);
    return st;
}

mp_status mp_bound_exchange_tree(mp_bound_chain *c, const mp_bound_selection *s, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    int n = s->n;
    int *nodes = mp_alloc((size_t)n + MP_BOUND_TREE_BOUNDARIES, sizeof *nodes);
    MP_REQUIRE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    memcpy(nodes, s->nodes, (size_t)n * sizeof *nodes);
    for (int k = 0; k >= 0 && n < MP_BOUND_TREE_BOUNDARIES;) {
        k = next_peak(c, nodes, n);
        if (k >= 0 && mp_bound_insert(c, nodes, n, c->candidates[k].node)) n++;
    }
    st = mp_bound_tree(c->interval, nodes, n, &c->options, (int64_t)MP_BOUND_TREE_WORK * c->options.effort, ticks, err);
    c->infeasible = st == MP_INFEASIBLE;
    if (c->infeasible) st = MP_OK;
done:
    mp_free(nodes);
    return st;
}

/* bound_couple.c - Lagrangian coupling of consecutive intervals.
 *
 * A storage that is live at a boundary was live at the start of the interval before the boundary, or was produced in this
 * interval. The constraint is relaxed with a multiplier >= 0 per storage and boundary. The interval after the boundary pays the
 * multiplier if the storage is live there. The interval before the boundary earns the multiplier if the storage is available at
 * its end. In a plan, every multiplier paid is also earned. The sum of the intervals' minima is therefore still a lower bound
 * for every plan. With the best multipliers, two neighbouring intervals agree on the live storages as far as possible.
 */
#include "planner/bound/interval/bound_couple.h"

#include <string.h>

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_COUPLE_PATIENCE = 4, /* subgradients: iterations without gain before the step length is halved */
};

enum { ONE = 1024 }; /* the number 1 in the fixed-point format of `excess` */

typedef struct couple {
    mp_bound_interval *x;
    const int *nodes;
    int n;
    size_t n_storages;
    /* Lagrange multipliers in scaled ticks, per boundary and storage: the present ones, and the best ones so far */
    int64_t *multiplier, *best_multiplier;
    /* per boundary and storage: the fraction of the storage that is live at the boundary, minus the fraction that is available
     * at the end of the previous interval; ONE stands for the whole storage */
    int *excess;
    bool infeasible;
} couple;

/* Computes the bound of all intervals in scaled ticks, and the excess, with the present multipliers. */
static int64_t evaluate(couple *c)
{
    mp_bound_interval *x = c->x;
    const size_t m = c->n_storages;
    int64_t sum = 0;
    memset(c->excess, 0, (size_t)(c->n - 1) * m * sizeof *c->excess);
    for (int k = 0; k < c->n && !c->infeasible; k++) {
        x->live_multiplier = k > 0 ? c->multiplier + (size_t)(k - 1) * m : NULL;
        x->reward = k < c->n - 1 ? c->multiplier + (size_t)k * m : NULL;
        mp_bound_interval_start(x, c->nodes[k]);
        mp_bound_interval_end(x, k < c->n - 1 ? c->nodes[k + 1] : -1);
        const mp_bound_value value = mp_bound_interval_solve(x);
        c->infeasible = value.infeasible;
        sum += value.scaled;
        const int share[] = {(int)(value.share * ONE), ONE - (int)(value.share * ONE)};
        for (int l = 0; l < 2; l++) {
            for (size_t s = 0; s < m && share[l]; s++) {
                if (k > 0 && x->labels[l].live[s] && !x->covers_two[s]) c->excess[(size_t)(k - 1) * m + s] += share[l];
                /* a storage of zero bytes counts as available in every interval */
                const bool there = x->labels[l].available[s] || !x->bytes[s];
                if (k < c->n - 1 && there) c->excess[(size_t)k * m + s] -= share[l];
            }
        }
    }
    x->live_multiplier = x->reward = NULL;
    return sum;
}

/* Makes a subgradient step: changes every multiplier in proportion to its excess. The step length is chosen so that a linear
 * function would rise by `gain`. Returns false if every excess is zero. */
static bool move(couple *c, int64_t gain)
{
    int64_t norm = 0;
    const size_t n = (size_t)(c->n - 1) * c->n_storages;
    for (size_t i = 0; i < n; i++) {
        if (c->excess[i] < 0 && !c->multiplier[i]) c->excess[i] = 0;
        norm += (int64_t)c->excess[i] * c->excess[i];
    }
    for (size_t i = 0; i < n && norm; i++) {
        const int64_t moved = c->multiplier[i] + (int64_t)((__int128)gain * c->excess[i] * ONE / norm);
        c->multiplier[i] = moved < 0 ? 0 : moved > c->x->ticks_bound ? c->x->ticks_bound : moved;
    }
    return norm > 0;
}

mp_status mp_bound_couple(mp_bound_interval *x, const int *nodes, int n, int64_t rounds, const mp_bound_options *options,
                          int64_t *ticks, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    couple c = {.x = x, .nodes = nodes, .n = n, .n_storages = x->order->graph->n_storages};
    const size_t size = (size_t)(n - 1) * c.n_storages;
    c.multiplier = mp_pool_alloc(pool, size, sizeof *c.multiplier);
    c.best_multiplier = mp_pool_alloc(pool, size, sizeof *c.best_multiplier);
    c.excess = mp_pool_alloc(pool, size, sizeof *c.excess);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory to couple %d intervals", n);
    int64_t best = evaluate(&c), gain = best / 4;
    int waited = 0;
    for (int64_t k = 0; k < rounds && n > 1 && gain > 0 && !c.infeasible; k++) {
        if ((options->stop && options->stop(options->data)) || !move(&c, gain)) break;
        const int64_t bound = evaluate(&c);
        if (bound > best) {
            best = bound;
            waited = 0;
            memcpy(c.best_multiplier, c.multiplier, size * sizeof *c.multiplier);
        } else if (++waited == BOUND_COUPLE_PATIENCE) {
            waited = 0;
            gain /= 2;
            memcpy(c.multiplier, c.best_multiplier, size * sizeof *c.multiplier);
            evaluate(&c);
        }
    }
    if (c.infeasible) return MP_INFEASIBLE;
    *ticks = best > 0 ? mp_bound_interval_ticks(x, best) : 0;
    return MP_OK;
}

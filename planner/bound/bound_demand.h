/* bound_demand.h - live-in sets at loss and backward nodes, followed backward from the end of the step. For bound.c.
 *
 * A backward dynamic programme from the end of the step to the end of forward. A state is a live-in set: the activations that
 * will be read after boundary k and are not produced after it; its value is the least recomputation from there to the end. A
 * storage of the set at k + 1 was live at k, if it fits, or was produced in between. Exact as long as all states are kept.
 *
 * What comes before a boundary takes at least what the other stages prove up to there (mp_bound_demand_before), and at least
 * the recomputations that the set makes necessary since an earlier boundary, where it did not fit. States that reach a target
 * value are dropped: the target itself bounds them.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_demand mp_bound_demand;

/* On MP_OK *out is released with mp_bound_demand_free (NULL is fine) before the order; NULL if there is nothing to look at, or
 * too much of it. MP_NOMEM. O(nodes * graph + nodes * storages * nodes / 64). */
mp_status mp_bound_demand_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options,
                              mp_bound_demand **out, mp_error *err);
void mp_bound_demand_free(mp_bound_demand *d);
MP_OWNER(mp_bound_demand_free, mp_bound_demand)

/* The nodes of the last boundaries that have less free memory than their neighbours, at most `most`, the last one first. */
int mp_bound_demand_narrows(const mp_bound_demand *d, int *nodes, int most);
/* Plans take at least `ticks` beyond first runs before the first run of this node, a boundary. O(boundaries). */
void mp_bound_demand_before(mp_bound_demand *d, int node, int64_t ticks);

/* True if few states are left at some of these boundaries, or at all, which is when a search may raise the bound `ticks`.
 * MP_NOMEM. */
mp_status mp_bound_demand_is_promising(mp_bound_demand *d, int64_t ticks, bool *promising, mp_error *err);
/* The best that a search has proved: ticks beyond first runs, 0: nothing; and the boundary where it did. */
typedef struct mp_bound_found {
    int64_t ticks;
    int node;
} mp_bound_found;

/* Raises *ticks, a bound, *found and what is taken before each narrow boundary, the first of them first, by searches as if the
 * step ended there, with nothing live: what one of them proves is where the next begins. Up to 512 states at each boundary.
 * MP_NOMEM. */
mp_status mp_bound_demand_prefixes(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Raises *ticks and *found with targets further and further above it, as long as they are reached. MP_NOMEM. Up to 32768 states
 * at each boundary, and about a second, for each of at most 6 targets. After the relaxed decision diagrams of Bergman et al.
 * 2016, from whose layers nothing is merged. */
mp_status mp_bound_demand_search(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Returns the work done so far. */
const mp_bound_work *mp_bound_demand_work(const mp_bound_demand *d);

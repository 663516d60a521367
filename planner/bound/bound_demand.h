/* bound_demand.h - dynamic programme over live-in sets at loss and backward nodes, from the end of the step. For bound.c.
 *
 * It goes backward from the end of the step to the end of forward. A state is a live-in set: the activations that are read
 * after boundary k and not produced after it. Its value is the least recomputation from there to the end. A storage in the set
 * at k + 1 was live at k, if it fits, or was produced in between. The result is exact as long as all states are kept.
 *
 * Before a boundary a plan takes at least what the other stages prove up to there (mp_bound_demand_before), and at least the
 * recomputations that the live-in set requires since an earlier boundary at which it did not fit. A state that reaches the
 * target value is dropped, as the target itself is then its bound.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_demand mp_bound_demand;

/* On MP_OK *out is released with mp_bound_demand_free (NULL is fine) before the order; *out is NULL if there are no states
 * to search, or too many. MP_NOMEM. O(nodes * graph + nodes * storages * nodes / 64). */
mp_status mp_bound_demand_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options,
                              mp_bound_demand **out, mp_error *err);
void mp_bound_demand_free(mp_bound_demand *d);
MP_OWNER(mp_bound_demand_free, mp_bound_demand)

/* Writes the boundaries whose free memory is a local minimum, at most `most`, last to first. Returns their number. */
int mp_bound_demand_narrows(const mp_bound_demand *d, int *nodes, int most);
/* Tells that every plan takes at least `ticks` beyond first runs before the first run of this boundary node. O(boundaries). */
void mp_bound_demand_before(mp_bound_demand *d, int node, int64_t ticks);

/* Sets *promising if few states are left at some of these boundaries or altogether, so that a search may raise the bound
 * `ticks`. MP_NOMEM. */
mp_status mp_bound_demand_is_promising(mp_bound_demand *d, int64_t ticks, bool *promising, mp_error *err);
/* The best result of a search so far: ticks beyond first runs (0: none), and the boundary where it was proved. */
typedef struct mp_bound_found {
    int64_t ticks;
    int node;
} mp_bound_found;

/* Raises *ticks (a bound), *found and the bounds before the narrow boundaries, first to last. Each search pretends that the
 * step ends at one of these boundaries, with nothing live; the next search starts from what it proved. At most 512 states at
 * each boundary. MP_NOMEM. */
mp_status mp_bound_demand_prefixes(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Raises *ticks and *found by searches with higher and higher targets, until one is not reached. At most 6 targets, with at
 * most 32768 states at each boundary and about a second each. MP_NOMEM. After the relaxed decision diagrams of Bergman et
 * al. 2016, but without merging nodes of a layer. */
mp_status mp_bound_demand_search(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Returns the work done so far. */
const mp_bound_work *mp_bound_demand_work(const mp_bound_demand *d);

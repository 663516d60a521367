/* bound_demand.h - a dynamic programme over live-in sets at loss and backward nodes. Internal to the bound.
 *
 * It runs backward from the end of the step to the end of forward. A state is a live-in set: the activations that are read
 * after boundary k and not produced after it. Its value is the least recomputation from the boundary to the end of the step. A
 * storage in the set at boundary k + 1 either was live at k, if it fits, or was produced in between. The result is exact while
 * all states are kept.
 *
 * The ticks before a boundary are bounded in two ways. The other stages prove a bound up to the boundary
 * (mp_bound_demand_before). The live-in set requires recomputations since an earlier boundary at which it did not fit. A state
 * whose value reaches the target is dropped, since the target is then its bound.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_demand mp_bound_demand;

/* On MP_OK release *out with mp_bound_demand_free (NULL is allowed), before the order. *out is NULL if the graph has no states
 * to search, or too many. MP_NOMEM. O(nodes * graph + nodes * storages * nodes / 64). */
mp_status mp_bound_demand_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options,
                              mp_bound_demand **out, mp_error *err);
void mp_bound_demand_free(mp_bound_demand *d);
MP_OWNER(mp_bound_demand_free, mp_bound_demand)

/* Writes at most `most` boundaries at which the free memory is a local minimum, last to first. Returns their number. */
int mp_bound_demand_narrows(const mp_bound_demand *d, int *nodes, int most);
/* Declares that every plan takes at least `ticks`, first runs excluded, before the first run of this boundary node.
 * O(boundaries). */
void mp_bound_demand_before(mp_bound_demand *d, int node, int64_t ticks);

/* Sets *promising if a search may raise the bound `ticks`: few states remain at some of these boundaries, or in total.
 * MP_NOMEM. */
mp_status mp_bound_demand_is_promising(mp_bound_demand *d, int64_t ticks, bool *promising, mp_error *err);
/* The best result of a search: ticks without first runs (0: none), and the boundary that proved it. */
typedef struct mp_bound_found {
    int64_t ticks;
    int node;
} mp_bound_found;

/* Raises *ticks (a bound), *found and the bounds before the narrow boundaries, first to last. Each search treats one of these
 * boundaries as the end of the step, with nothing live. The next search uses its result. At most 512 states per boundary.
 * MP_NOMEM. */
mp_status mp_bound_demand_prefixes(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Raises *ticks and *found by searches with increasing targets, until a target is not reached. At most 6 targets of about one
 * second each, with at most 32768 states per boundary. MP_NOMEM. Based on the relaxed decision diagrams of Bergman et al. 2016,
 * but layers are not merged. */
mp_status mp_bound_demand_search(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Returns the work done so far. */
const mp_bound_work *mp_bound_demand_work(const mp_bound_demand *d);

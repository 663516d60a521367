/* bound_demand.h - internal to the bound: a dynamic programme over live-in sets. Its boundaries are loss and backward nodes.
 *
 * The programme proceeds from the end of the step to the end of forward. A state at boundary k is a live-in set: the
 * activations that are read after k and not produced after k. The value of a state is the least recomputation after k, in
 * ticks. For each storage in the set at boundary k + 1 there are two choices: it was live at k, if memory permits, or it was
 * produced between k and k + 1. The result is exact while no state is dropped for lack of space.
 *
 * The ticks before a boundary are bounded in two ways. Other stages of the bound prove a value for the whole time up to the
 * boundary (mp_bound_demand_before). Besides, if the live-in set did not fit at an earlier boundary, some of it was recomputed
 * since then. If the ticks before and after the boundary together reach the target, the state is dropped: plans through this
 * state take at least the target. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_demand mp_bound_demand;

/* Prepares the dynamic programme. On MP_OK release *out with mp_bound_demand_free (NULL is allowed), before the precedence
 * relation. *out is NULL if the programme cannot be used: there are no boundaries, or too many. MP_NOMEM. O(n (g + s n / 64))
 * for n nodes, s storages and a graph of size g. */
mp_status mp_bound_demand_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options,
                              mp_bound_demand **out, mp_error *err);
void mp_bound_demand_free(mp_bound_demand *d);
MP_OWNER(mp_bound_demand_free, mp_bound_demand)

/* Finds the narrow boundaries: at most `most` boundaries at which the free memory is a local minimum. Writes them to `nodes`,
 * last to first. Returns their number. */
int mp_bound_demand_narrows(const mp_bound_demand *d, int *nodes, int most);
/* Tells the dynamic programme a proved bound: every plan takes at least `ticks`, first runs excluded, before the first run of
 * this boundary node. O(boundaries). */
void mp_bound_demand_before(mp_bound_demand *d, int node, int64_t ticks);

/* Sets *promising to true if a search may raise the bound `ticks`. That is so if few states remain at some narrow boundaries,
 * or in total. MP_NOMEM. */
mp_status mp_bound_demand_is_promising(mp_bound_demand *d, int64_t ticks, bool *promising, mp_error *err);
/* The best result of the searches: the bound in ticks, and the boundary node that proved it. */
typedef struct mp_bound_found {
    int64_t ticks;
    int node;
} mp_bound_found;

/* Runs one search per narrow boundary, first to last. Each search assumes that the step ends at its boundary with nothing live.
 * Raises *ticks (a bound on recomputation) and *found. The bound found for a boundary is used by the searches for later
 * boundaries. At most 512 states per boundary. MP_NOMEM. */
mp_status mp_bound_demand_prefixes(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Raises *ticks and *found by searches with increasing targets, until a search does not reach its target. At most 6 targets of
 * about one second each, with at most 32768 states per boundary. MP_NOMEM. Based on the relaxed decision diagrams of Bergman et
 * al. 2016, but layers are not merged. */
mp_status mp_bound_demand_search(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err);
/* Returns the work done by all searches so far. */
const mp_bound_work *mp_bound_demand_work(const mp_bound_demand *d);

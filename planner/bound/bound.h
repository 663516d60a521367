/* bound.h - the bound of a problem that keeps its floor and precedence relations; and the bound of a graph with short
 * lifetimes, from parts of its list.
 *
 * An open part (part.h) has a set of nodes and what they produce. The steps of a plan that run these nodes are an order of the
 * part and hold no more memory at any step. So the recomputation that every order of the part needs is needed by every plan.
 * Parts without common nodes have different runs, so their recomputations add up.
 */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Like mp_bound_within, for the problem's graph. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

/* Splits the list into parts of about part_nodes successive nodes, each bounded by its best chain of intervals. *ticks are
 * ticks beyond first runs; *infeasible is true if no plan fits. *ticks is 0 for a graph with nodes that are marked or write
 * always-live storages. If options->stop ends it, the parts before count. Adds to *work. MP_NOMEM. O(nodes * part_nodes /
 * 64) and some hundreds of cuts of each part. */
mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err);

/* bound.h - two bounds: of a problem, which caches its floor and precedence relations; and of a graph with short lifetimes,
 * from parts of its list.
 *
 * An open part (part.h) consists of a set of nodes and their outputs. The steps of a plan that run these nodes form an order of
 * the part, which needs no more memory at any step. Recomputation that every order of the part needs is therefore needed by
 * every plan. Parts without common nodes have different runs, so their bounds add up.
 */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Like mp_bound_within, for the problem's graph. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

/* Splits the list into parts of about part_nodes successive nodes. Each part is bounded by its best chain of intervals. *ticks
 * excludes first runs. *infeasible: no plan fits. *ticks is 0 for a graph with marked nodes, or with nodes that write static
 * storages. If options->stop ends the work, the finished parts count. Adds to *work. MP_NOMEM. O(nodes * part_nodes / 64) and
 * some hundreds of cuts per part. */
mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err);

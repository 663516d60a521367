/* bound.h - the bound of a problem whose floor and precedence relations are kept; and the bound of a graph whose storages live
 * shortly, from parts of its list.
 *
 * The part of a set of nodes has these nodes and what they produce (an open one, part.h). The steps of a plan
 * that run these nodes are an order of the part that holds no more at any moment, so what every order of the part takes beyond
 * first runs is taken by every plan. Parts without common nodes have different runs: what they take adds up.
 */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Like mp_bound_within, for the problem's graph. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

/* Parts of about so many successive nodes, each bounded by its best chain of intervals. *ticks are those beyond first runs,
 * *infeasible says that no plan fits. Nothing (0 ticks) of a graph with nodes that are marked or write what is always live;
 * when options->stop says so, what the parts before have proved. Adds to *work. MP_NOMEM. O(nodes * part_nodes / 64) and some
 * hundreds of cuts of each part. */
mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err);

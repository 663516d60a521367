/* bound.h - internal to the bound: the lower bound on the ticks of all plans of a problem, and of a large graph whose storages
 * have short lifetimes.
 *
 * mp_bound_of uses a problem (memplan/problem.h), which caches its floor and precedence relations. mp_bound_of_parts divides
 * the node list of a graph into open parts (part.h). An open part is a set of nodes and their outputs. If a plan fits the
 * budget, its steps that run nodes of the part are an order of the part that fits too. So the plan recomputes at least as much
 * as the best order of the part. Two parts have no node in common, so the sum of their bounds is a bound too. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Computes the bound of mp_bound_within for the graph of a problem. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

/* Splits the node list into parts of about part_nodes successive nodes. The bound of a part is the bound of its best chain of
 * intervals (bound_chain.h). *ticks is the sum over the parts, without the first run of each node. It is 0 if the graph has
 * loss or backward nodes, or nodes that write static storages. *infeasible: no plan fits the budget. If options->stop ends the
 * work, only the finished parts count. Adds the work done to *work. MP_NOMEM. O(nodes * part_nodes / 64) and some hundreds of
 * minimum cuts per part. */
mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err);

/* oracle_exact.h - the cheapest plan of a tiny graph within a budget, by trying everything: to judge searchers and bounds by.
 *
 * Dijkstra's algorithm over states between steps: the set of nodes that have run, and the set of storages whose present
 * instance is used again. A step runs any node in any alternative that the rules of timeline.h and check.h allow; an instance
 * ends only at a step that reads it. It shares no code with the planner, and reads the rules by itself.
 *
 * Of a graph with copies all steps run in order and other tiers hold any number of bytes, but for oracle_in_tiers and
 * oracle_exact_beside.
 *
 * For graphs of at most 64 nodes and 64 storages that are not always live, in which all alternatives of a node add to the same
 * storages and write the same parameters; else the test fails. About 8 forward nodes with their backward are practical.
 */
#pragma once

#include "memplan/timeline.h"

/* *ticks: of the cheapest plan whose peak_bytes is at most budget_bytes; -1: no plan fits. any_order: of all plans; else of
 * those whose forward nodes first run in list order, and whose loss and backward nodes run in list order (recomputation and
 * updates anywhere). False when there are more than two million states to look at; *ticks is then untouched. */
bool oracle_exact(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks);

/* The least ticks of any plan within a budget for each tier. With `issues` what is not on compute may be issued: a state then
 * also has what is under way, and for how much longer. The plan as below. Steps that may be issued have no in-place pairs, and
 * use nothing that is always live; else the test fails. False beyond 200,000 states. */
bool oracle_in_tiers(const mp_graph *graph, const int64_t *budgets, bool issues, int64_t *ticks, mp_step **steps, size_t *n);

/* The same, and the plan: *steps is released with free (NULL if no plan fits). *peak_bytes is at least the plan's peak (it may
 * hold something for nothing) and at most the budget. */
bool oracle_exact_plan(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks, mp_step **steps, size_t *n,
                       int64_t *peak_bytes);

/* As oracle_exact, with at most beside_bytes at once in all other tiers together. */
bool oracle_exact_beside(const mp_graph *graph, int64_t budget_bytes, int64_t beside_bytes, bool any_order, int64_t *ticks);

/* oracle_exact.h - the cheapest plan of a tiny graph within a budget, by exhaustive search: a reference for searchers and
 * bounds.
 *
 * Dijkstra's algorithm over states between steps. A state is the set of completed nodes, and the set of storages whose present
 * instance is used again. A step runs any node in any alternative allowed by the rules of timeline.h and check.h. An instance
 * ends only at a step that reads it. The oracle shares no code with the planner, and implements the rules independently.
 *
 * In a graph with copies, all steps run in order and other tiers have no limit, except in oracle_in_tiers and
 * oracle_exact_beside.
 *
 * The graph has at most 64 nodes, and at most 64 storages that are not always live. All alternatives of a node must add to the
 * same storages and write the same parameters; otherwise the test fails. About 8 forward nodes with their backward are
 * practical. */
#pragma once

#include "memplan/timeline.h"

/* Sets *ticks to the ticks of the cheapest plan with peak_bytes of at most budget_bytes; -1: no plan fits. any_order: over all
 * plans. Otherwise forward nodes first run in list order, and loss and backward nodes run in list order; recomputation and
 * updates are free. Returns false, with *ticks unchanged, beyond two million states. */
bool oracle_exact(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks);

/* Finds the least ticks of any plan within a budget for each tier, and the plan as below. With `issues`, steps on other
 * channels may be issued. A state then also contains the pending steps and their remaining ticks. Steps that may be issued must
 * have no in-place pairs, and add to no static storage; otherwise the test fails. Returns false beyond 200,000 states. */
bool oracle_in_tiers(const mp_graph *graph, const int64_t *budgets, bool issues, int64_t *ticks, mp_step **steps, size_t *n);

/* As oracle_exact, and returns the plan: *steps is released with free (NULL if no plan fits). *peak_bytes is at most the
 * budget, and at least the plan's peak. It may exceed this peak by storages kept for no use. */
bool oracle_exact_plan(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks, mp_step **steps, size_t *n,
                       int64_t *peak_bytes);

/* As oracle_exact, with at most beside_bytes at a time in all other tiers together. */
bool oracle_exact_beside(const mp_graph *graph, int64_t budget_bytes, int64_t beside_bytes, bool any_order, int64_t *ticks);

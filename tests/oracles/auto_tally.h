/* auto_tally.h - plans of `auto` for random graphs, compared with the fastest plans that an oracle finds. */
#pragma once

#include "memplan/graph.h"

enum { TOO_MANY = -2 };

/* Returns the number of graphs to search: the environment variable MEMPLAN_ORACLE_GRAPHS, or `usual` if it is not set. */
int oracle_graphs(int usual);

/* Returns the ticks of the fastest plan within a budget for each tier (oracle_in_tiers); -1: no plan fits; TOO_MANY: too many
 * plans to enumerate. Fails the test if the timeline gives the oracle's plan other ticks or a peak above the budget. */
int64_t oracle_ticks(const mp_graph *graph, const int64_t *budgets, bool issues, uint64_t seed);

/* Numbers of graphs and plans. near: the plan takes at most 5 % longer than the optimum. hidden: a part of its recomputation is
 * hidden. */
typedef struct auto_tally {
    int n, n_plans, n_optimal, n_near, n_hidden;
} auto_tally;

/* Solves a graph with `auto` within a budget of the device, and counts the result. Fails the test if the checker refuses the
 * plan, or if the bound exceeds the oracle's ticks. Fails it also if only one of `auto` and the oracle finds a plan. */
void tally_auto(auto_tally *x, const mp_graph *graph, int64_t budget_bytes, int64_t least_ticks, uint64_t seed);

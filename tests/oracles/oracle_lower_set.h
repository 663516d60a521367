/* oracle_lower_set.h - evaluates every strategy of Kusumoto et al. 2019 on a tiny graph, directly from the definitions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_VERTICES = 10, ORACLE_BUDGETS = 8 };

typedef struct oracle_lower_set {
    int n;
    bool edge[ORACLE_VERTICES][ORACLE_VERTICES]; /* edge[u][v]: v reads u's result */
    int64_t bytes[ORACLE_VERTICES], ticks[ORACLE_VERTICES];
    bool charge_last; /* whether the last segment counts as recomputed */
    int n_budgets;
    int64_t budget[ORACLE_BUDGETS];
    /* results */
    int64_t least_overhead[ORACLE_BUDGETS], largest_overhead[ORACLE_BUDGETS]; /* -1: no strategy within the budget */
    int64_t least_memory;                                                     /* over all strategies */
    long n_strategies, n_lower_sets;
} oracle_lower_set;

/* Tries every strictly increasing sequence of lower sets that ends with all vertices. */
void oracle_lower_set_solve(oracle_lower_set *x);

/* chain_oracle.h - chains of cells as graphs, and the least time that any schedule of them takes, by searching all of them. */
#pragma once

#include "memplan/graph.h"

enum { CELLS = 64, ORACLE_CELLS = 7 };

/* Cell k (1..n) reads state k - 1 and makes state k and, unless internal_bytes is -1, an internal value, in `ticks`. Its
 * backward node reads the internal value, the gradient of state k, and, if told to, the states before and after the cell; it
 * makes the gradient of state k - 1. State 0 is the batch. Cells share a parameter whose gradient they add to. */
typedef struct cell {
    int64_t state_bytes, internal_bytes, gradient_bytes, ticks; /* gradient_bytes: of the state before it */
    bool reads_before, reads_after;
} cell;

typedef struct cells {
    int n;
    cell cell[CELLS + 1];              /* from 1 on */
    int64_t last_gradient_bytes;       /* of state n, which the loss makes */
    int64_t backward_ticks[CELLS + 1]; /* the loss takes none */
} cells;

/* Fails the test if the graph can't be built. */
mp_graph *cells_graph(const cells *c);

/* The least ticks of forward in any order of steps, recomputations and drops that never has more than `bytes` in memory, what
 * is always live aside; -1: there is none. At most ORACLE_CELLS cells. Time and bytes O(4^n * n). */
int64_t oracle_least_ticks(const cells *c, int64_t bytes);

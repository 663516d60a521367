/* chain_oracle.h - chains of cells as graphs, and the least ticks of any schedule, by searching all schedules. */
#pragma once

#include "memplan/graph.h"

enum { CELLS = 64, ORACLE_CELLS = 7 };

/* Cell k (1..n) reads state k - 1 and writes state k in `ticks`. It also writes an internal value unless internal_bytes is -1.
 * Its backward node reads the internal value and the gradient of state k. If selected, it also reads the states before and
 * after the cell. It writes the gradient of state k - 1. State 0 is the batch. All cells add to the gradient of one shared
 * parameter. */
typedef struct cell {
    int64_t state_bytes, internal_bytes, gradient_bytes, ticks; /* gradient_bytes: of the state before the cell */
    bool reads_before, reads_after;
} cell;

typedef struct cells {
    int n;
    cell cell[CELLS + 1];              /* indexed from 1 */
    int64_t last_gradient_bytes;       /* of state n, written by the loss */
    int64_t backward_ticks[CELLS + 1]; /* the loss takes no ticks */
} cells;

/* Fails the test if the graph cannot be built. */
mp_graph *cells_graph(const cells *c);

/* Returns the least ticks of forward for any order of steps, recomputations and drops within `bytes`, without static
 * bytes; -1: none fits. At most ORACLE_CELLS cells. Time and bytes O(4^n * n). */
int64_t oracle_least_ticks(const cells *c, int64_t bytes);

/* placement_rows.h - the rows and columns of a layered drawing. Private to formats/. */
#pragma once

#include "formats/drawings/placement.h"

enum { MP_ROW_SLOTS = 6 }; /* boxes in a row at most */

/* Per box its row and its slot in the row; rows are numbered from 0, without empty ones. MP_NOMEM. */
mp_status mp_placement_rows(size_t n, const mp_block_edge *edges, size_t n_edges, int *row, int *slot, size_t *n_rows,
                            mp_error *err);

/* Wraps rows[0..n) into columns: column[r], from 0. heights[r] is what a row takes with the gap below it, widths[r] what it
 * takes with the gutter beside it, crossing[r] how many wires cross the gap below it. Breaks where few wires cross; as many
 * columns as bring the whole closest to `aspect`. O(columns * n). */
size_t mp_placement_wrap(size_t n, const double *heights, const double *widths, const size_t *crossing, double aspect,
                         int *column);

/* placement.h - coordinates for the boxes and wires of an acyclic graph: a layered drawing in the manner of Sugiyama (1981),
 * for graphs that are long and thin.
 *
 * Every box stands in the row that is the length of its longest path from a source, within the row in the order of the
 * barycenters of its neighbours. As thousands of rows make no picture, rows are wrapped into columns like text. A wire to the
 * row below runs straight to it; any other leaves the column through the gap below its box, runs along the column in a lane
 * and enters through the gap above its reader: no wire crosses a box. The wires of one box share a lane, and so do those of
 * boxes that form a bundle: a reader of the lane reads all boxes that joined it above (mp_placement_bundles).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "estimator/base/memory.h"
#include "formats/drawings/graph_blocks.h"
#include "memplan/error.h"

typedef enum mp_wire_end {
    MP_WIRE_PLAIN,
    MP_WIRE_ARROW, /* it ends at a reader */
    MP_WIRE_JOINT, /* it ends where it joins a bundle */
    MP_WIRE_TRUNK  /* it is the lane of a bundle, or leads from lane to lane */
} mp_wire_end;

typedef struct mp_wire {
    int from;   /* the box whose output it carries; of a bundle the first box */
    int bundle; /* the first box of the bundle whose outputs it may carry; -1: it leads from box to box by itself */
    int skip;   /* wires with the same number form one connection that passes over rows; -1: it leads to the next row */
    mp_wire_end end;
    size_t n;
    double xy[8]; /* n points */
} mp_wire;

typedef struct mp_placement {
    mp_pool *pool;        /* owns the arrays per box */
    double width, height; /* of the whole drawing, from (0, 0) at the top left; y grows downwards */
    double *x, *y;        /* per box: its top left corner */
    size_t n_columns;
    int *column; /* per box */
    size_t n_wires, wires_capacity;
    mp_wire *wires;
} mp_placement;

/* Places n boxes of one size. edges: from < to, each pair once, sorted. `aspect` is the width over height to aim at. On
 * MP_OK *out is released with mp_placement_free (NULL is fine). MP_NOMEM. O(columns * n + edges log edges). */
mp_status mp_placement_new(size_t n, const mp_block_edge *edges, size_t n_edges, double box_width, double box_height,
                           double aspect, mp_placement **out, mp_error *err);
void mp_placement_free(mp_placement *placement);
MP_OWNER(mp_placement_free, mp_placement)

enum { MP_ROW_SLOTS = 6 }; /* boxes in a row at most */

/* Gives each box its row and its slot in the row; rows are numbered from 0, without empty ones. MP_NOMEM. */
mp_status mp_placement_rows(size_t n, const mp_block_edge *edges, size_t n_edges, int *row, int *slot, size_t *n_rows,
                            mp_error *err);

/* Wraps rows[0..n) into columns: column[r], from 0. heights[r] is the height of row r with the gap below it, widths[r]
 * its width with the gutter beside it, crossing[r] how many wires cross the gap below it. Breaks where few wires cross;
 * as many columns as bring the whole closest to `aspect`. O(columns * n). */
size_t mp_placement_wrap(size_t n, const double *heights, const double *widths, const size_t *crossing, double aspect,
                         int *column);

/* Finds bundles: boxes share a wire if every reader of it reads all boxes that joined it in a row above. That is so with
 * concatenations (layer k of a dense block reads all layers before it) and with branches that join again. routed[k]: edge k
 * runs beside a column, and can be bundled. bundle[b]: the first box of the bundle that b is in, b itself if it is alone.
 * edges as in mp_placement_new. MP_NOMEM. O(bundles that share a reader * edges of a box * boxes of a bundle). */
mp_status mp_placement_bundles(size_t n, const mp_block_edge *edges, size_t n_edges, const bool *routed, const int *row,
                               int *bundle, mp_error *err);

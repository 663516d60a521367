/* placement.h - computes coordinates for the boxes and wires of an acyclic graph: a layered drawing after Sugiyama (1981), for
 * long, thin graphs.
 *
 * The row of a box is the length of its longest path from a source. Within a row, boxes are ordered by the barycenters of their
 * neighbours. Thousands of rows do not fit into a picture, so rows are wrapped into columns, as lines of text are.
 *
 * A wire to the next row goes straight to its reader. Any other wire leaves through the gap below its box, follows the
 * column in a lane, and enters through the gap above its reader. So no wire crosses a box. All wires of one box share a
 * lane. A bundle is a set of boxes that share a lane. A reader of the lane reads all boxes of the bundle that are in earlier
 * rows (mp_placement_bundles). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "estimator/base/memory.h"
#include "formats/drawings/graph_blocks.h"
#include "memplan/error.h"

typedef enum mp_wire_end {
    MP_WIRE_PLAIN,
    MP_WIRE_ARROW, /* the wire ends at a box that reads the output, with an arrowhead */
    MP_WIRE_JOINT, /* the wire ends where it joins the lane of a bundle */
    MP_WIRE_TRUNK  /* the wire is a part of a bundle's lane, or connects two lanes */
} mp_wire_end;

typedef struct mp_wire {
    int from; /* index of the box whose output the wire carries. If several boxes share the wire, the first box of the bundle */
    int bundle; /* index of the first box of the bundle that the wire belongs to; -1: the wire connects single boxes */
    int skip; /* number of the connection, over several rows, of which the wire is a part; -1: the wire leads to the next row */
    mp_wire_end end;
    size_t n;
    double xy[8]; /* x and y coordinates of n points */
} mp_wire;

typedef struct mp_placement {
    mp_pool *pool;        /* memory pool that owns all arrays of this struct */
    double width, height; /* size of the whole drawing, from (0, 0) at the top left; y grows downwards */
    double *x, *y;        /* x and y coordinate of the top left corner of each box */
    size_t n_columns;
    int *column; /* index of each box's column */
    size_t n_wires, wires_capacity;
    mp_wire *wires;
} mp_placement;

/* Places n boxes of equal size and routes the wires. The edges are sorted, each pair occurs once, and from < to. `aspect` is
 * the target ratio of width to height. On MP_OK release *out with mp_placement_free (NULL is allowed). MP_NOMEM. O(columns *
 * n + edges log edges). */
mp_status mp_placement_new(size_t n, const mp_block_edge *edges, size_t n_edges, double box_width, double box_height,
                           double aspect, mp_placement **out, mp_error *err);
void mp_placement_free(mp_placement *placement);
MP_OWNER(mp_placement_free, mp_placement)

enum { MP_ROW_SLOTS = 6 }; /* maximum number of boxes in a row */

/* Assigns each box its row, and its slot (position) within the row. Rows are numbered from 0, and no row is empty. MP_NOMEM. */
mp_status mp_placement_rows(size_t n, const mp_block_edge *edges, size_t n_edges, int *row, int *slot, size_t *n_rows,
                            mp_error *err);

/* Wraps rows[0..n) into columns; column[r] receives the column of row r, from 0. heights[r] is the height of row r and the gap
 * below it. widths[r] is its width and that of the gutter (the space for lanes) beside it. crossing[r] is the number of wires
 * through the gap below it. Columns end where few wires cross. The number of columns is chosen so that width / height of the
 * drawing is closest to `aspect`. Returns this number. O(columns * n). */
size_t mp_placement_wrap(size_t n, const double *heights, const double *widths, const size_t *crossing, double aspect,
                         int *column);

/* Finds bundles of boxes that share a wire. Every reader of the shared wire must read all boxes of the bundle that are in
 * earlier rows. Bundles occur with concatenations (layer k of a dense block reads all earlier layers) and with branches that
 * rejoin. routed[k] is true if edge k runs beside a column; only such edges can be bundled. bundle[b] receives the first box
 * of the bundle of box b; b itself if it has no bundle. The edges are as in mp_placement_new. MP_NOMEM. O(bundles that share
 * a reader * edges of a box * boxes of a bundle). */
mp_status mp_placement_bundles(size_t n, const mp_block_edge *edges, size_t n_edges, const bool *routed, const int *row,
                               int *bundle, mp_error *err);

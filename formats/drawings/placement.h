/* placement.h - coordinates for the boxes and wires of an acyclic graph: a layered drawing in the manner of Sugiyama (1981),
 * for graphs that are long and thin.
 *
 * Every box stands in the row that is the length of its longest path from a source, within the row in the order of the
 * barycenters of its neighbours. As thousands of rows make no picture, rows are wrapped into columns like text. A wire to the
 * row below runs straight to it; any other leaves the column through the gap below its box, runs along the column in a lane
 * and enters through the gap above its reader: no wire crosses a box. A lane is shared by the wires of one box, and of boxes
 * that form a bundle: who taps it reads all that joined it above (placement_bundles.h).
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
    MP_WIRE_TRUNK  /* it is the lane of a bundle, or from lane to lane */
} mp_wire_end;

typedef struct mp_wire {
    int from;   /* the box whose output it carries; the first of a bundle */
    int bundle; /* the first of those whose outputs it may carry; -1: it leads from box to box by itself */
    int skip;   /* wires of one number belong together, and lead over rows; -1: the next row's */
    mp_wire_end end;
    size_t n;
    double xy[8]; /* n points */
} mp_wire;

typedef struct mp_placement {
    double width, height; /* of all of it, from (0, 0) at the top left; y grows downwards */
    double *x, *y;        /* per box: its top left corner */
    size_t n_columns;
    int *column; /* per box */
    size_t n_wires, wires_capacity;
    mp_wire *wires;
} mp_placement;

/* Places n boxes of one size. edges: from < to, each pair once, sorted. `aspect` is the width over height to aim for. On MP_OK
 * *out is released with mp_placement_free (NULL is fine). MP_NOMEM. O(columns * n + edges log edges). */
mp_status mp_placement_new(size_t n, const mp_block_edge *edges, size_t n_edges, double box_width, double box_height,
                           double aspect, mp_placement **out, mp_error *err);
void mp_placement_free(mp_placement *placement);

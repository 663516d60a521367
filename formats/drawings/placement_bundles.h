/* placement_bundles.h - which boxes of a drawing can send their outputs along one wire. Private to formats/. */
#pragma once

#include "formats/drawings/placement.h"

/* Boxes share a wire if nothing is lost by it: whoever taps the wire reads every box that joined it in a row above. So it is
 * with concatenations (layer k of a dense block reads all layers before it) and with branches that meet again. routed[k]: edge
 * k runs beside a column, and can be bundled. bundle[b]: the first box of the bundle that b is in, b itself if it is alone.
 * edges as in mp_placement_new. MP_NOMEM. O(bundles that share a reader * edges of a box * boxes of a bundle). */
mp_status mp_placement_bundles(size_t n, const mp_block_edge *edges, size_t n_edges, const bool *routed, const int *row,
                               int *bundle, mp_error *err);

/* graph_json.h - training graphs as JSON ("memplan-graph", version 1; docs/formats.md describes it).
 *
 *     MP_CHECK(mp_graph_read("graph.json", &graph, err));        // err: file, line, column, and the node or storage
 */
#pragma once

#include "memplan/graph.h"

/* Reads a graph and finishes it. Needs of each storage `bytes` and `kind`, of each node `reads`, `writes`, `phase`, `seconds`;
 * ids may be any distinct integers. On MP_OK *out is released with mp_graph_free. MP_PARSE with line and column (of the JSON
 * error, or 0) and the node or storage. MP_IO, MP_NOMEM. O(size of the file). */
mp_status mp_graph_read(const char *path, mp_graph **out, mp_error *err);
/* Writes it; what was read comes back the same, but for spacing. "-" is standard output. MP_IO, MP_NOMEM. */
mp_status mp_graph_write(const mp_graph *graph, const char *path, mp_error *err);

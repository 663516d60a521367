/* graph_json.h - training graphs as JSON ("memplan-graph", version 1; docs/reference/formats.md describes it).
 *
 *     // given: mp_error *err
 *     mp_graph *graph = NULL;
 *     MP_CHECK(mp_graph_read("graph.json", &graph, err));        // err: file, line, column, and the node or storage
 *     mp_graph_free(graph);
 */
#pragma once

#include "memplan/graph.h"

/* Reads a graph file and builds a finished graph (mp_graph_finish). Each storage must have `bytes` and `kind`, each node
 * `reads`, `writes`, `phase` and `seconds`; ids may be any distinct integers. On MP_OK release *out with mp_graph_free.
 * MP_PARSE: the file is malformed or a check failed. The error has line and column of a JSON error (else 0), or names the
 * node or storage. MP_IO, MP_NOMEM. O(size of the file). */
mp_status mp_graph_read(const char *path, mp_graph **out, mp_error *err);
/* Writes a graph to a file; "-" is standard output. A graph that was read from a file is written with the same content,
 * possibly with other spacing. MP_IO, MP_NOMEM. */
mp_status mp_graph_write(const mp_graph *graph, const char *path, mp_error *err);

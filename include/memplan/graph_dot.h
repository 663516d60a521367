/* graph_dot.h - graphs written in Graphviz's language DOT: the quickest way to hand over a graph of one's own.
 *
 *     digraph mine {
 *         fc1     [bytes=4096, seconds=0.5];
 *         relu    [bytes=4096, seconds=0.1, workspace=64];
 *         relu_b  [bytes=4096, seconds=0.1, phase=backward];
 *         fc1 -> relu -> relu_b;
 *     }
 *
 * Every node runs once per step and writes one tensor of `bytes`; an edge is a read of it. `phase` (forward, loss, backward,
 * update; forward if absent) and `workspace` (bytes, 0 if absent) are optional; whatever else there is, is ignored. Nodes run
 * in the order in which they stand as far as edges allow.
 */
#pragma once

#include <stdbool.h>

#include "memplan/graph.h"

/* True if a path names a DOT file: it ends in .dot or .gv. */
bool mp_graph_dot_is(const char *path);

/* Reads a graph and finishes it. On MP_OK *out is released with mp_graph_free. MP_PARSE: malformed, over a limit
 * (docs/reference/formats.md), not directed, cyclic, an attribute that is missing or wrong; names the node. MP_IO, MP_NOMEM.
 * O(size of the text). Graphviz keeps global state: one thread at a time. */
mp_status mp_graph_dot_read(const char *path, mp_graph **out, mp_error *err);

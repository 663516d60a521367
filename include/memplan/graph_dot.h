/* graph_dot.h - graphs in Graphviz's language DOT: the quickest way to enter a graph of your own.
 *
 *     digraph mine {
 *         fc1     [bytes=4096, seconds=0.5];
 *         relu    [bytes=4096, seconds=0.1, workspace=64];
 *         relu_b  [bytes=4096, seconds=0.1, phase=backward];
 *         fc1 -> relu -> relu_b;
 *     }
 *
 * Every node of the DOT graph runs once per training step and writes one tensor of `bytes`. An edge from a to b means that
 * node b reads the tensor of node a. Optional attributes are `phase` (forward, loss, backward, update; default forward) and
 * `workspace` (bytes, default 0). Other attributes are ignored. Nodes run in file order as far as edges permit. */
#pragma once

#include <stdbool.h>

#include "memplan/graph.h"

/* True if a path names a DOT file: it ends in .dot or .gv. */
bool mp_graph_dot_is(const char *path);

/* Reads a DOT file and builds a finished graph (mp_graph_finish). On MP_OK release *out with mp_graph_free. MP_PARSE: the
 * file is malformed, exceeds a limit (docs/reference/formats.md), is not directed or is cyclic, or an attribute is missing
 * or wrong. The message names the node. MP_IO, MP_NOMEM. O(size of the text). Graphviz has global state: call from one
 * thread at a time. */
mp_status mp_graph_dot_read(const char *path, mp_graph **out, mp_error *err);

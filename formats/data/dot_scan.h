/* dot_scan.h - checks DOT text before Graphviz reads it. Private to formats/.
 *
 * Graphviz has no limits. Twenty kilobytes of "{1500 nodes} -> {1500 nodes}" give two million edges. Every attribute name costs
 * a word in every node and edge, and every level of nesting an entry per node. The scan reads tokens like Graphviz's lexer and
 * limits the resulting graph. It does not check the grammar, which Graphviz does. */
#pragma once

#include <stddef.h>

#include "memplan/error.h"

enum {
    MP_DOT_NODES_MAX = 100000,
    MP_DOT_EDGES_MAX = 200000,
    MP_DOT_MENTIONS_MAX = 500000, /* maximum number of mentions of nodes, in statements and edges */
    MP_DOT_CHAIN_MAX = 1000,      /* maximum number of edges per statement; Graphviz's parser limits them as well */
    MP_DOT_DEPTH_MAX = 32,        /* maximum nesting depth of subgraphs */
    MP_DOT_ATTRIBUTES_MAX = 32,   /* maximum number of distinct attribute names */
    MP_DOT_TOKENS_MAX = 4000000
};

/* Checks DOT text. MP_PARSE (with path, line and column): zero bytes, an unterminated string, comment or HTML, a limit above
 * exceeded, or an edge from or to a named `subgraph`. An edge to a list of nodes, "a -> {b c}", is permitted. O(size). */
mp_status mp_dot_scan(const char *path, const char *text, size_t size, mp_error *err);

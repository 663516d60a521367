/* dot_scan.h - a look at DOT text before Graphviz reads it. Private to formats/.
 *
 * Graphviz has no limits: twenty kilobytes of "{1500 nodes} -> {1500 nodes}" are two million edges, every attribute name costs
 * a word in every node and edge, and every level of nesting an entry per node. The scan reads tokens as Graphviz's lexer does
 * and bounds what the text can grow into. It judges no grammar: Graphviz does.
 */
#pragma once

#include <stddef.h>

#include "memplan/error.h"

enum {
    MP_DOT_NODES_MAX = 100000,
    MP_DOT_EDGES_MAX = 200000,
    MP_DOT_MENTIONS_MAX = 500000, /* mentions of nodes, in statements and edges */
    MP_DOT_CHAIN_MAX = 1000,      /* edges of one statement, which Graphviz's parser limits too */
    MP_DOT_DEPTH_MAX = 32,        /* subgraphs nested in each other */
    MP_DOT_ATTRIBUTES_MAX = 32,   /* different attribute names */
    MP_DOT_TOKENS_MAX = 4000000
};

/* Checks DOT text. MP_PARSE (with path, line and column): zero bytes, a string, comment or HTML that does not end, or more
 * than the limits above; an edge from or to a `subgraph` ("a -> {b c}" is fine: its nodes are spelled out). O(size). */
mp_status mp_dot_scan(const char *path, const char *text, size_t size, mp_error *err);

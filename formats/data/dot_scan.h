/* dot_scan.h - checks DOT text before Graphviz reads it. Private to formats/.
 *
 * Graphviz does not limit the size of a graph. Twenty kilobytes of "{1500 nodes} -> {1500 nodes}" give two million edges.
 * Every attribute name costs a word of memory in every node and edge, and every level of nesting costs an entry per node.
 * The scan reads tokens as Graphviz's lexer does, and limits the size of the resulting graph. Graphviz itself checks the
 * grammar. */
#pragma once

#include <stddef.h>

#include "memplan/error.h"

enum {
    MP_DOT_NODES_MAX = 100000,
    MP_DOT_EDGES_MAX = 200000,
    MP_DOT_MENTIONS_MAX = 500000, /* maximum number of times that statements and edges name a node */
    MP_DOT_CHAIN_MAX = 1000,      /* maximum number of edges per statement; Graphviz's parser also limits them */
    MP_DOT_DEPTH_MAX = 32,        /* maximum nesting depth of subgraphs */
    MP_DOT_ATTRIBUTES_MAX = 32,   /* maximum number of different attribute names in a file */
    MP_DOT_TOKENS_MAX = 4000000
};

/* Checks DOT text. MP_PARSE (with path, line and column): the text contains zero bytes, an unterminated string, comment or
 * HTML text, or an edge from or to a named `subgraph`; or it exceeds one of these limits. An edge to a list of nodes, "a ->
 * {b c}", is permitted. O(size). */
mp_status mp_dot_scan(const char *path, const char *text, size_t size, mp_error *err);

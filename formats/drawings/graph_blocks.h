/* graph_blocks.h - the forward pass of a training graph as a graph of blocks, few enough for a reader to take in.
 *
 * Node names carry the module they stand in ("/layer1/layer1.0/conv1/Conv"). A block is a run of neighbours in the node list
 * that share a module, down to some depth: as the list is an order in which nodes can run, the blocks form an acyclic graph as
 * well. Modules that are repeated (the same operators with results of the same sizes) are one block, however many they are.
 * When even that is too much, neighbouring blocks are folded, a whole number of repetitions at a time.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_BLOCK_TEXT = 256 };

typedef struct mp_graph_block {
    size_t first, n; /* its nodes: nodes[first .. first + n) */
    size_t n_parts;  /* modules or operators folded into it; 1: not folded */
    size_t repeats;  /* number of equal modules in a row that it stands for; 0: none are repeated */
    int depth;       /* levels of modules that were opened */
    const char *title, *subtitle;
} mp_graph_block;

typedef struct mp_block_edge {
    int from, to; /* blocks; from < to */
} mp_block_edge;

typedef struct mp_graph_blocks {
    size_t n_nodes;
    int *nodes; /* the forward and loss nodes, in list order */
    size_t n;
    mp_graph_block *blocks;
    int *block_of; /* per node of the graph: its block, -1: none */
    size_t n_edges;
    mp_block_edge *edges; /* from a producer to a reader, each pair once, by (from, to) */
    mp_pool *pool;        /* owns everything above */
} mp_graph_blocks;

/* Builds the blocks of a graph. depth k > 0 opens k levels of modules and folds nothing; 0: as deep as `most` blocks
 * allow, and folded if even the first level is more. On MP_OK *out is released with mp_graph_blocks_free (NULL is
 * fine). MP_NOMEM. O(nodes * levels + edges log edges).
 */
mp_status mp_graph_blocks_build(const mp_graph *graph, int depth, size_t most, mp_graph_blocks **out, mp_error *err);
void mp_graph_blocks_free(mp_graph_blocks *blocks);
MP_OWNER(mp_graph_blocks_free, mp_graph_blocks)

/* graph_blocks.h - summarises the forward pass of a training graph as a readable graph of blocks.
 *
 * Node names contain their module ("/layer1/layer1.0/conv1/Conv"). A block is a run of consecutive nodes in the list that share
 * a module, down to some depth. The list is an execution order, so the graph of blocks is acyclic too. Consecutive repeated
 * modules (equal operators, results of equal sizes) form one block. If there are still too many blocks, consecutive blocks are
 * folded, a whole number of repetitions at a time. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_BLOCK_TEXT = 256 };

typedef struct mp_graph_block {
    size_t first, n; /* the block contains nodes[first .. first + n) */
    size_t n_parts;  /* number of modules or operators that are folded into the block; 1: it is not folded */
    size_t repeats;  /* number of equal consecutive modules that the block represents; 0: the block is no repetition */
    int depth;       /* number of module levels that are expanded at this block */
    const char *title, *subtitle;
} mp_graph_block;

typedef struct mp_block_edge {
    int from, to; /* indices of the producing and the reading block; from < to */
} mp_block_edge;

typedef struct mp_graph_blocks {
    size_t n_nodes;
    int *nodes; /* indices of the forward and loss nodes, in list order */
    size_t n;
    mp_graph_block *blocks;
    int *block_of; /* per node of the graph: index of its block; -1: the node is in no block */
    size_t n_edges;
    mp_block_edge *edges; /* from a producer to a reader, each pair once, sorted by (from, to) */
    mp_pool *pool;        /* memory pool that owns all arrays */
} mp_graph_blocks;

/* Builds the blocks of a graph. depth k > 0: expands k levels of modules without folding. depth 0: expands as many levels as
 * `most` blocks permit, and folds if even the first level has more. On MP_OK release *out with mp_graph_blocks_free (NULL is
 * allowed). MP_NOMEM. O(nodes * levels + edges log edges). */
mp_status mp_graph_blocks_build(const mp_graph *graph, int depth, size_t most, mp_graph_blocks **out, mp_error *err);
void mp_graph_blocks_free(mp_graph_blocks *blocks);
MP_OWNER(mp_graph_blocks_free, mp_graph_blocks)

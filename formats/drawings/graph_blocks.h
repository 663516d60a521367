/* graph_blocks.h - summarises the forward pass of a training graph as a readable graph of blocks.
 *
 * Node names contain their module ("/layer1/layer1.0/conv1/Conv"). A block consists of consecutive nodes of the list that
 * are in the same module, down to some depth. The list is an execution order, so the graph of blocks is acyclic. Consecutive
 * equal modules (equal operators, results of equal sizes) are folded into one block. If there are still too many blocks,
 * more consecutive blocks are folded. A folded block then contains a whole number of repetitions. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_BLOCK_TEXT = 256 };

typedef struct mp_graph_block {
    size_t first, n; /* the block contains nodes[first .. first + n) */
    size_t n_parts;  /* number of modules or operators that were folded into the block; 1: the block was not folded */
    size_t repeats;  /* number of equal consecutive modules that the block stands for; 0: the block is not a repetition */
    int depth;       /* number of module levels that are expanded to give this block */
    const char *title, *subtitle;
} mp_graph_block;

typedef struct mp_block_edge {
    int from, to; /* index of the block that produces a storage, and index of a block that reads it; from < to */
} mp_block_edge;

typedef struct mp_graph_blocks {
    size_t n_nodes;
    int *nodes; /* indices of the graph's forward and loss nodes, in list order */
    size_t n;
    mp_graph_block *blocks;
    int *block_of; /* per node of the graph: index of its block; -1: the node is in no block */
    size_t n_edges;
    mp_block_edge *edges; /* edges from producing to reading blocks; each pair occurs once; sorted by (from, to) */
    mp_pool *pool;        /* memory pool that owns all arrays of this struct */
} mp_graph_blocks;

/* Builds the blocks of a graph. If depth > 0, this many levels of modules are expanded, without folding. If depth is 0, as
 * many levels are expanded as `most` blocks permit. If even the first level has more blocks, they are folded. On MP_OK
 * release *out with mp_graph_blocks_free (NULL is allowed). MP_NOMEM. O(nodes * levels + edges log edges). */
mp_status mp_graph_blocks_build(const mp_graph *graph, int depth, size_t most, mp_graph_blocks **out, mp_error *err);
void mp_graph_blocks_free(mp_graph_blocks *blocks);
MP_OWNER(mp_graph_blocks_free, mp_graph_blocks)

/* costs_json.h - measured costs of a training graph's nodes, in place of what a target estimates: seconds, and where a node
 * can be computed by several algorithms, seconds and workspace of each.
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_algorithm_cost {
    const char *name;
    double seconds;
    int64_t workspace_bytes;
    bool is_deterministic; /* the same bits in every run */
} mp_algorithm_cost;

typedef struct mp_node_cost {
    double seconds;      /* of the way that the target takes by default */
    size_t n_algorithms; /* 0: the node has no algorithms to choose from */
    mp_algorithm_cost *algorithms;
} mp_node_cost;

/* Writes costs[node] of every node, as `memplan profile` does. MP_IO, MP_NOMEM. O(nodes). */
mp_status mp_costs_write(const char *path, const mp_graph *graph, const mp_node_cost *costs, mp_error *err);

typedef struct mp_costs_options {
    bool fast;               /* also take algorithms that are not deterministic */
    int64_t workspace_limit; /* bytes; algorithms that need more are not taken. 0: no limit */
} mp_costs_options;

/* Gives every node the seconds that the file has for its name, alternatives in proportion, and the graph a new hash. A node
 * with algorithms that may be taken gets them as its alternatives: the fastest is the base, and one that is neither faster nor
 * smaller than another is left out. MP_INVALID: costs of another device than the graph's target, or of a node that wrote
 * another number of bytes (another batch); a node that the file lacks (named), algorithms for one that has alternatives;
 * MP_PARSE, MP_IO, MP_NOMEM. O(size of the file + nodes). */
mp_status mp_costs_apply(const char *path, mp_graph *graph, const mp_costs_options *options, mp_error *err);

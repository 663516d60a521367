/* costs_json.h - measured costs of a training graph's nodes, which replace the target's estimates. A cost is the seconds of a
 * node. For a node with several algorithms it also has the seconds and workspace of each. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_algorithm_cost {
    const char *name;
    double seconds;
    int64_t workspace_bytes;
    bool is_deterministic; /* true if every run gives the same bits */
} mp_algorithm_cost;

typedef struct mp_node_cost {
    double seconds;      /* seconds of the target's default implementation */
    size_t n_algorithms; /* 0: no algorithms to choose from */
    mp_algorithm_cost *algorithms;
} mp_node_cost;

/* Writes costs[node] of every node, in the format of `memplan profile`. MP_IO, MP_NOMEM. O(nodes). */
mp_status mp_costs_write(const char *path, const mp_graph *graph, const mp_node_cost *costs, mp_error *err);

typedef struct mp_costs_options {
    bool fast;               /* also use nondeterministic algorithms */
    int64_t workspace_limit; /* bytes; algorithms with a larger workspace are not used. 0: no limit */
} mp_costs_options;

/* Sets every node's time to the file's seconds for the node's name, scales alternatives in proportion, and computes a new graph
 * hash. A node with permitted algorithms receives them as alternatives. The fastest algorithm is the base. An algorithm that is
 * neither faster nor smaller than another is dropped. MP_INVALID: the costs belong to another device than the graph's target; a
 * node's bytes differ from the measured node (another batch); the file lacks a node, which the message names; a node has both
 * algorithms and alternatives. MP_PARSE, MP_IO, MP_NOMEM. O(size of the file + nodes). */
mp_status mp_costs_apply(const char *path, mp_graph *graph, const mp_costs_options *options, mp_error *err);

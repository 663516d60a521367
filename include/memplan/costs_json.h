/* costs_json.h - measured costs of a training graph's nodes, which replace the target's estimates. A cost contains the
 * seconds of a node. If the node has several algorithms, the cost also contains the seconds and workspace of each algorithm. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_algorithm_cost {
    const char *name;
    double seconds;
    int64_t workspace_bytes;
    bool is_deterministic; /* true if every run of this algorithm gives bit-identical results */
} mp_algorithm_cost;

typedef struct mp_node_cost {
    double seconds;      /* measured seconds of the node in the target's default implementation */
    size_t n_algorithms; /* number of algorithms; 0: the node has no algorithms to choose from */
    mp_algorithm_cost *algorithms;
} mp_node_cost;

/* Writes costs[node] of every node to a file in the format of `memplan profile`. MP_IO, MP_NOMEM. O(nodes). */
mp_status mp_costs_write(const char *path, const mp_graph *graph, const mp_node_cost *costs, mp_error *err);

typedef struct mp_costs_options {
    bool fast;               /* true: also use nondeterministic algorithms */
    int64_t workspace_limit; /* limit of the workspace in bytes; algorithms with a larger workspace are not used. 0: no limit */
} mp_costs_options;

/* Sets every node's time to the seconds that the file states for the node's name, scales its alternatives in proportion, and
 * computes a new graph hash. If the file has permitted algorithms for a node, they become the node's alternatives; the fastest
 * is the base. An algorithm is dropped if another one is at least as fast and needs no more workspace.
 *
 * MP_INVALID: the costs belong to another device than the graph's target; a node's bytes differ from the measured node's
 * (another batch); the file lacks a node, which the message names; a node has both algorithms and alternatives. MP_PARSE,
 * MP_IO, MP_NOMEM. O(size of the file + nodes). */
mp_status mp_costs_apply(const char *path, mp_graph *graph, const mp_costs_options *options, mp_error *err);

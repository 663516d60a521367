/* without_copies.h - graphs without copies, for code that supports only one memory and the compute channel, such as most
 * searchers. */
#pragma once

#include "memplan/timeline.h"

/* A graph without copies. Storages keep their numbers; storages of other tiers have 0 bytes. Optional nodes and returning
 * alternatives are removed. Alternatives that read results of removed nodes are also removed. All nodes run on the compute
 * channel. */
typedef struct mp_without_copies {
    mp_graph *graph;
    int *nodes;                             /* per node: its index in the original graph */
    int *alternatives, *alternatives_start; /* alternative k of node v is alternative number alternatives[alternatives_start[v]
                                               + k] of the node in the original graph */
} mp_without_copies;

/* Builds the graph without copies. On MP_OK release *out with mp_without_copies_free (a zeroed struct is allowed); the original
 * graph must outlive it. MP_NOMEM. Other errors as mp_graph_finish. O(graph size). */
mp_status mp_graph_without_copies(const mp_graph *graph, mp_without_copies *out, mp_error *err);
void mp_without_copies_free(mp_without_copies *without_copies);
/* Converts steps of the graph without copies to steps of the original graph, in place. In the original graph the steps need the
 * same device bytes and at most the same ticks. */
void mp_without_copies_to_original(const mp_without_copies *without_copies, mp_step *steps, size_t n);

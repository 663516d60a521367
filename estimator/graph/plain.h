/* plain.h - a graph without its copies, for what knows one memory and compute alone: most searchers. */
#pragma once

#include "memplan/timeline.h"

/* Storages keep their numbers; those of other tiers have no bytes. Optional nodes, returning alternatives and alternatives that
 * read what only those make are left out, and everything is on compute. */
typedef struct mp_plain {
    mp_graph *graph;
    int *nodes;                             /* per node: its number in the original graph */
    int *alternatives, *alternatives_start; /* alternative k of node v is alternatives[alternatives_start[v] + k] there */
} mp_plain;

/* On MP_OK *out is released with mp_plain_free (a zeroed one is fine); the original must outlive it. MP_NOMEM; as
 * mp_graph_finish. O(graph). */
mp_status mp_plain_of(const mp_graph *graph, mp_plain *out, mp_error *err);
void mp_plain_free(mp_plain *plain);
/* Turns steps of the plain graph into steps of the original, in place: the same bytes on the device, and at most the ticks. */
void mp_plain_back(const mp_plain *plain, mp_step *steps, size_t n);

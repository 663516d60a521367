/* costs_json.h - measured seconds of a training graph's nodes, in place of what a target estimates. */
#ifndef FORMATS_COSTS_JSON_H
#define FORMATS_COSTS_JSON_H

#include "estimator/graph.h"

/* Writes seconds[node] of every node: `memplan profile` makes such files. MP_IO, MP_NOMEM. */
mp_status mp_costs_write(const char *path, const mp_graph *graph, const double *seconds, mp_error *err);

/* Gives every node the seconds that the file has for its name, alternatives in proportion, and the graph a new hash.
 * MP_INVALID: a node that the file lacks (named); MP_PARSE, MP_IO, MP_NOMEM. */
mp_status mp_costs_apply(const char *path, mp_graph *graph, mp_error *err);

#endif

/* random_offload.h - copies added to a training graph, and at random to an order of its steps. */
#pragma once

#include "memplan/plan.h"
#include "memplan/target.h"

/* Extends a training graph by copies of all that may be copied to the host, however small, and returns how many there are. */
int offload_all(mp_graph *graph);

/* Moves all optimizer state of a training graph to the host over this link, however small it is, and nothing else may be
 * copied; returns how many were moved. */
size_t offload_states(mp_graph *graph, const mp_link *link);

/* The steps, which copy nothing, with copies: of some of the storages that are produced once, each out at some time after that
 * and, most of them, back before backward reads it, issued until some later step or in order. A checked plan with offsets,
 * released with mp_plan_free. bytes[0] is what it copies out, bytes[1] back. */
mp_plan *random_offload(const mp_graph *graph, uint64_t seed, const mp_step *steps, size_t n, int64_t bytes[2]);

/* away.h - what plans with copies take at least, of time and of other tiers. */
#pragma once

#include "memplan/bound.h"
#include "memplan/search.h"

/* Proves how many ticks every plan within the budgets takes at least, if none takes less than `ticks`: those of a plan that is
 * known. tier_bytes as in mp_request, effort as in mp_bound_options. out->ticks -1: nothing. MP_NOMEM. As mp_bound_within of
 * the graph without its copies. */
mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, int effort,
                          mp_bound *out, mp_error *err);

/* Computes for each tier besides the device how many bytes every plan within these budgets has there at once at least, what is
 * always live included. MP_NOMEM. As mp_floor of the graph without its copies. */
mp_status mp_tier_floors(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes,
                         int64_t floor_bytes[MP_MAX_TIERS], mp_error *err);

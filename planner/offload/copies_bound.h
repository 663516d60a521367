/* copies_bound.h - lower bounds for plans with copies to other tiers: on their ticks, and on the bytes that they need in each
 * tier. */
#pragma once

#include "memplan/bound.h"
#include "memplan/search.h"

/* Proves a lower bound on the ticks of all plans within the budgets. `ticks` is the time of a known plan, so no higher bound is
 * tried. tier_bytes as in mp_request, effort as in mp_bound_options. out->ticks -1: nothing is proved. MP_NOMEM. Takes as long
 * as mp_bound_within for the graph without its copies. */
mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, int effort,
                          mp_bound *out, mp_error *err);

/* Computes, for each tier other than the device, a lower bound on the peak bytes in this tier of every plan within the given
 * budgets. Static bytes are included. MP_NOMEM. Takes as long as mp_floor for the graph without its copies. */
mp_status mp_tier_floors(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes,
                         int64_t floor_bytes[MP_MAX_TIERS], mp_error *err);

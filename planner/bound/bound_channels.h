/* bound_channels.h - a bound on the makespan from what runs beside compute: a network's collectives, one after the other. */
#pragma once

#include "planner/order/precedence.h"

/* Returns ticks that every plan of the order's class takes at least, whatever its budget: for each channel beside compute, its
 * nodes as jobs of one machine, each with a head (what compute certainly does before it) and a tail (what compute certainly
 * does behind its end). Jackson's preemptive schedule is a lower bound on these (Carlier 1982, "The one-machine sequencing
 * problem"). 0 where the graph has more tiers, no such channels, or more nodes than the order has sets for. MP_NOMEM. O(jobs *
 * nodes * operands). */
mp_status mp_bound_channels(const mp_precedence *order, int64_t *ticks, mp_error *err);

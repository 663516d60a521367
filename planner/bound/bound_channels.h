/* bound_channels.h - a lower bound on the makespan from work on other channels, such as the collectives of a network. */
#pragma once

#include "planner/order/precedence.h"

/* Returns in *ticks a lower bound on the makespan of every plan of the order's class, for any budget. Each channel other than
 * compute is treated as a machine and its nodes as jobs. A job has a head and a tail: the ticks of compute that certainly run
 * before it begins and after it has ended. The bound is Jackson's preemptive schedule (Carlier 1982, "The one-machine
 * sequencing problem").
 *
 * *ticks is 0 if the graph has several tiers, no other channels, or too many nodes for the sets of the order. MP_NOMEM. O(jobs
 * * nodes * operands).
 */
mp_status mp_bound_channels(const mp_precedence *order, int64_t *ticks, mp_error *err);

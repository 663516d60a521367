/* bound_channels.h - a lower bound on the makespan from the nodes on channels other than compute, such as the collectives of a
 * network. */
#pragma once

#include "planner/order/precedence.h"

/* Returns in *ticks a lower bound on the makespan, for any budget. It holds for every plan that respects the precedence
 * relation `order`. Each channel other than compute is treated as a machine and its nodes as jobs. A job has a head and a tail:
 * the ticks of compute that run before the job in every plan, and after it. The bound of a channel is the length of Jackson's
 * preemptive schedule (Carlier 1982, "The one-machine sequencing problem").
 *
 * *ticks is 0 if the graph has several tiers, only the compute channel, or more nodes than mp_precedence_most_nodes. MP_NOMEM.
 * O(jobs * nodes * operands). */
mp_status mp_bound_channels(const mp_precedence *order, int64_t *ticks, mp_error *err);

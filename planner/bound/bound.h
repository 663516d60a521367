/* bound.h - internal to the bound: the lower bound on the ticks of all plans of a problem, and of a large graph whose storages
 * have short lifetimes.
 *
 * mp_bound_of uses a problem (memplan/problem.h), which caches its floor and precedence relations. mp_bound_of_parts divides
 * the node list of a graph into open parts (part.h). An open part is a set of nodes and their outputs. If a plan fits the
 * budget, its steps that run nodes of the part are an order of the part that fits too. So the plan recomputes at least as much
 * as the best order of the part. Two parts have no node in common, so the sum of their bounds is a bound too. */
#pragma once

#include "memplan/bound.h"
#include "memplan/bound_stage.h"
#include "memplan/problem.h"
#include "planner/order/precedence.h"

/* Computes the bound of mp_bound_within for the graph of a problem. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

/* Splits the node list into parts of about part_nodes successive nodes. The bound of a part is the bound of its best chain of
 * intervals (bound_chain.h). *ticks is the sum over the parts, without the first run of each node. It is 0 if the graph has
 * loss or backward nodes, or nodes that write static storages. *infeasible: no plan fits the budget. If options->stop ends the
 * work, only the finished parts count. Adds the work done to *work. MP_NOMEM. O(nodes * part_nodes / 64) and some hundreds of
 * minimum cuts per part. */
mp_status mp_bound_of_parts(const mp_graph *graph, int64_t budget_bytes, size_t part_nodes, const mp_bound_options *options,
                            int64_t *ticks, bool *infeasible, mp_bound_work *work, mp_error *err);

/* ---- bound_channels.c ---- */

/* A lower bound on the makespan from the nodes on channels other than compute, such as the collectives of a network. */

/* Returns in *ticks a lower bound on the makespan, for any budget. It holds for every plan that respects the precedence
 * relation `order`. Each channel other than compute is treated as a machine and its nodes as jobs. A job has a head and a tail:
 * the ticks of compute that run before the job in every plan, and after it. The bound of a channel is the length of Jackson's
 * preemptive schedule (Carlier 1982, "The one-machine sequencing problem").
 *
 * *ticks is 0 if the graph has several tiers, only the compute channel, or more nodes than mp_precedence_most_nodes. MP_NOMEM.
 * O(jobs * nodes * operands). */
mp_status mp_bound_channels(const mp_precedence *order, int64_t *ticks, mp_error *err);

/* ---- bound_settle.c ---- */

/* For a target time, fixes the order of some pairs of nodes.
 *
 * Suppose that every plan with node v before node u takes at least the target. Then u precedes v in every plan that takes less
 * than the target. Therefore the smaller of two numbers is a bound for all plans: the target, and a bound for plans with u
 * before v. (Immediate selection: Carlier and Pinson 1989.)
 *
 * Only certain pairs are tried. Node u is a late reader of a large storage, such as the gradient of logits. Node v runs before
 * u in many plans. In such plans the storage is live at v. */

typedef struct mp_bound_settled {
    int64_t ticks; /* lower bound proved for plans in any order, in ticks without the first run of each node */
    /* the precedence relation of all plans that take less than `target`; NULL: no target above `ticks` raised the bound */
    mp_precedence *order;
    int64_t target; /* the target, in ticks without the first run of each node */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the lower bound `ticks` of plans in any order, by trying targets above it. Release *out with mp_bound_settled_clear on
 * any status. MP_NOMEM. A few minimum cuts for each node at which a large storage is live, and for each reader of such a
 * storage. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);

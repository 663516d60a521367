/* problem.h - the precedence relations that a problem keeps. For the bound. */
#pragma once

#include "memplan/problem.h"
#include "planner/order/precedence.h"

const mp_graph *mp_problem_graph(const mp_problem *problem);

/* Returns the precedence relation, which the first call makes with mp_precedence_new. It belongs to the problem. */
mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err);

/* Makes the problem of a graph that differs from that of `other` only in the ticks of nodes, and takes over the floor.
 * Errors as mp_problem_floor. */
mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err);

/* problem.h - the precedence relations cached by a problem. Internal to the bound. */
#pragma once

#include "memplan/problem.h"
#include "planner/order/precedence.h"

const mp_graph *mp_problem_graph(const mp_problem *problem);

/* Returns the precedence relation. The first call computes it with mp_precedence_new. The problem owns it. */
mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err);

/* Creates the problem of a graph that differs from `other`'s graph only in the ticks of nodes. It inherits the floor. Errors as
 * mp_problem_floor. */
mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err);

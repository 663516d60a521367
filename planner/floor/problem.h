/* problem.h - the precedence relations of a problem. For the bound. */
#pragma once

#include "memplan/problem.h"
#include "planner/order/precedence.h"

const mp_graph *mp_problem_graph(const mp_problem *problem);

/* Returns the precedence relation, made at the first call by mp_precedence_new. It stays the problem's. */
mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err);

/* The problem of a graph that differs from another in the ticks of its nodes only: it has the same floor. As mp_problem_floor.
 */
mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err);

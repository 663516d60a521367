/* problem.h - the precedence relations of a problem (mp_problem), which are computed once and reused. Internal to the bound. */
#pragma once

#include "memplan/problem.h"
#include "planner/order/precedence.h"

const mp_graph *mp_problem_graph(const mp_problem *problem);

/* Returns in *order the precedence relation of the problem's graph: for plans in any order, or with list_order for plans in
 * list order. The first call computes it with mp_precedence_new. The problem owns it. */
mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err);

/* Creates the problem of a graph that differs from the graph of `other` in the ticks of nodes only. The new problem takes over
 * the floor, which does not depend on ticks. Errors as mp_problem_floor. */
mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err);

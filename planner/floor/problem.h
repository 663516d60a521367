/* problem.h - the precedence relations that a problem (mp_problem) computes once and keeps. Internal to the bound. */
#pragma once

#include "memplan/problem.h"
#include "planner/order/precedence.h"

const mp_graph *mp_problem_graph(const mp_problem *problem);

/* Returns in *order the precedence relation of the problem's graph, for plans in any order or (list_order) in list order. The
 * first call computes it with mp_precedence_new. The problem owns it. */
mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err);

/* Creates the problem of a graph that differs from the graph of `other` only in the ticks of nodes. The new problem inherits
 * the floor. Errors as mp_problem_floor. */
mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err);

/* bound.h - the bound of a problem whose floor and precedence relations are kept. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* As mp_bound_within, of the problem's graph. */
mp_status mp_bound_of(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out, mp_error *err);

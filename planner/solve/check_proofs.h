/* check_proofs.h - what a plan claims of all other plans, proved anew. */
#pragma once

#include "memplan/plan.h"

/* The floor and the lower bound that a plan claims, where it claims one, are no higher than what is proved here. The floor as
 * in memplan/floor.h; the bound, if `proves_bound`, by planning for the plan's budget again, first with normal and then with
 * all effort. MP_REFUTED: more is claimed than that proves, or the bound is of orders that there are not. MP_NOMEM. As
 * mp_floor, and with `proves_bound` as mp_solve. */
mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err);

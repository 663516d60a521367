/* ilp_plan.h - values of an integer programme's columns become runs, runs become steps, and runs become values again. */
#pragma once

#include "memplan/timeline.h"
#include "planner/ilp/ilp_model.h"

/* Which nodes to recompute so that the storages whose RESIDENT columns are >= threshold are resident and every read is served:
 * runs[stage * n_places + place], the least set (x has a value per column). `work`: n_storages bool. */
void mp_ilp_complete(const mp_ilp_model *model, const double *x, double threshold, bool *runs, bool *work);
/* The steps of these runs, with the updates; released with mp_free. MP_NOMEM. */
mp_status mp_ilp_steps(const mp_ilp_model *model, const bool *runs, mp_step **steps, size_t *n, mp_error *err);
/* The values of all columns for these runs; false if some row does not hold within the budget. `work`: 2 * n_storages bool. */
bool mp_ilp_columns(const mp_ilp_model *model, const bool *runs, int64_t budget_bytes, double *x, bool *work);

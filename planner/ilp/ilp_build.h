/* ilp_build.h - builds the integer programme of a graph for given stages: what is used where, the columns, then the rows. */
#pragma once

#include "planner/ilp/ilp_model.h"

/* The model with a stage at each of the ascending places first[1..n_stages); stage 0 begins at place 0. first NULL: a stage at
 * every place. *out is released with mp_ilp_model_free. MP_NOT_APPLICABLE: no backward phase, or more than most_columns
 * columns. MP_NOMEM. O(stages * (places + storages)^2). */
mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err);

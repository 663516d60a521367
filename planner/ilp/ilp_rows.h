/* ilp_rows.h - the rows of an integer programme: data flow, and the memory that is live at every node. */
#pragma once

#include "planner/ilp/ilp_model.h"

/* Adds the rows of all stages, and the columns of in-place pairs, to a model that has all other columns. resident_for, per
 * node: 1 + some storage that stays live for this update; 0: none. MP_NOMEM. */
mp_status mp_ilp_add_rows(mp_ilp_model *model, const int *resident_for, mp_error *err);

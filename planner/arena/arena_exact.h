/* arena_exact.h - the packer's search (memplan/pack.h) on the items of an arena. Private to the arena. */
#ifndef PLANNER_ARENA_EXACT_H
#define PLANNER_ARENA_EXACT_H

#include "planner/arena/arena_fit.h"

/* Lowers height and raises bound as far as the search gets: from the offsets that the items have (height is theirs), and with
 * fitting->exact; where that is NULL, with as many nodes as the size of the fitting allows. MP_NOMEM. */
mp_status mp_fit_exactly(mp_fitting *fitting, mp_error *err);

#endif

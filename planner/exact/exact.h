/* exact.h - the searcher `exact`: A* over all schedules of a tiny graph. */
#pragma once

#include "memplan/search.h"

/* Claims what it proves: the least ticks within the budget, or that nothing fits. MP_NOT_APPLICABLE: more than 64 nodes or
 * storages, or alternatives that differ in more than time and memory. Else errors as mp_search_offer. Exponential; `moves`
 * bounds the states. */
mp_status mp_run_exact(mp_search *search, mp_error *err);

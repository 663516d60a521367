/* lower_set.h - the searcher `lower-set`: Kusumoto et al. 2019 over the lower sets of the forward graph. */
#pragma once

#include "memplan/search.h"

/* MP_NOT_APPLICABLE: no backward phase. Else errors as mp_search_offer. O(rungs * pairs * levels + offers). */
mp_status mp_run_lower_set(mp_search *search, mp_error *err);

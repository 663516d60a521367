/* chen.h - the searcher `chen`: Chen et al. 2016, segments of sqrt(n) cut tensors, and the greedy search over segment sizes. */
#pragma once

#include "memplan/search.h"

/* MP_NOT_APPLICABLE: no forward or no backward nodes. Else errors as mp_search_offer. O(sizes * (n + offer)). */
mp_status mp_run_chen(mp_search *search, mp_error *err);

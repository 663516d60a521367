/* priced.h - the searcher `priced`: minimum cuts with a Lagrange multiplier on memory decide what is kept and what recomputed.
 */
#pragma once

#include "memplan/search.h"

/* Errors as mp_search_offer. O(cuts * (graph + one cut)); cuts fall with the size of the graph (MP_PRICED_WORK). */
mp_status mp_run_priced(mp_search *search, mp_error *err);
/* Only a plan within the budget, soon, even when the search is stopped: segments, halved until they fit. */
mp_status mp_run_priced_first(mp_search *search, mp_error *err);

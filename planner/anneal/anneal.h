/* anneal.h - the searcher `anneal`: simulated annealing over whole schedules, from the best plan that other searchers have
 * found. */
#pragma once

#include "memplan/search.h"

/* Changes what is recomputed, how often and where, and, unless the order is to be kept, when every node runs. Errors as
 * mp_search_offer. O(moves); without `moves` and on large graphs a second or two. */
mp_status mp_run_anneal(mp_search *search, mp_error *err);

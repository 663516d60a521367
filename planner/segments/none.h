/* none.h - the searcher `none`: keep-all, the baseline. */
#pragma once

#include "memplan/search.h"

/* Errors as mp_search_offer. Two offers at most. */
mp_status mp_run_none(mp_search *search, mp_error *err);

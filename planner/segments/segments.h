/* segments.h - the searcher `segments`: one list of checkpoints, as frameworks take it from the user, who may also give it. */
#pragma once

#include "memplan/search.h"

/* MP_INVALID: a checkpoint that forward does not compute. MP_NOT_APPLICABLE: no forward or no backward nodes. Else errors as
 * mp_search_offer. O(moves * offer). */
mp_status mp_run_segments(mp_search *search, mp_error *err);

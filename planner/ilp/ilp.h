/* ilp.h - the searcher `ilp`: Checkmate's integer linear programme for small networks, solved by GLPK. */
#pragma once

#include "memplan/search.h"

/* MP_NOT_APPLICABLE: no backward phase, or too many columns. MP_LIMIT: GLPK broke off. Else errors as mp_search_offer.
 * Exponential; `moves` bounds the nodes of the tree. */
mp_status mp_run_ilp(mp_search *search, mp_error *err);

/* portfolio.h - the table of searchers. It excludes `auto`, which runs the others. */
#pragma once

#include "memplan/search.h"

size_t mp_portfolio_count(void);
/* Returns row k, or NULL after the last row. */
const mp_solver *mp_portfolio_row(size_t k);

/* Returns the bit of a searcher in mp_request.solvers_off. */
unsigned mp_portfolio_bit(mp_status (*searcher)(mp_search *search, mp_error *err));

/* Offers a plan of the same graph under the name of the searcher that found it. As mp_search_offer. */
mp_status mp_search_offer_plan(mp_search *search, const mp_plan *plan, mp_error *err);

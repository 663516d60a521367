/* portfolio.h - the table of searchers. It excludes `auto`, which runs several of them. */
#pragma once

#include "memplan/search.h"

size_t mp_portfolio_count(void);
/* Returns row k of the table, or NULL if the table has no row k. */
const mp_solver *mp_portfolio_row(size_t k);

/* Returns the bit of a searcher in mp_request.solvers_off. */
unsigned mp_portfolio_bit(mp_status (*searcher)(mp_search *search, mp_error *err));

/* Offers a plan that another search found for the same graph, under the name of its searcher. As mp_search_offer. */
mp_status mp_search_offer_plan(mp_search *search, const mp_plan *plan, mp_error *err);

/* portfolio.h - the table of searchers. It does not contain `auto`, which runs several searchers of the table. */
#pragma once

#include "memplan/search.h"

size_t mp_portfolio_count(void);
/* Returns row k of the table, or NULL if the table has no row k. */
const mp_solver *mp_portfolio_row(size_t k);
/* Returns the row with this name, or with this name in earlier releases; NULL: there is none. */
const mp_solver *mp_portfolio_find(const char *name);

/* Returns the bit that stands for a searcher in mp_request.solvers_off. */
unsigned mp_portfolio_bit(mp_status (*searcher)(mp_search *search, mp_error *err));

/* Offers a plan that another search found for the same graph. The offer has the name of the plan's searcher. Errors as
 * mp_search_offer. */
mp_status mp_search_offer_plan(mp_search *search, const mp_plan *plan, mp_error *err);

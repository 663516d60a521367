/* portfolio.h - the table of searchers, except `auto`, which runs the others. */
#pragma once

#include "memplan/search.h"

size_t mp_portfolio_count(void);
/* Returns row k, or NULL if there are no more. */
const mp_solver *mp_portfolio_row(size_t k);

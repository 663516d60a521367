/* portfolio.h - the table of searchers, but for `auto`, which runs them. */
#pragma once

#include "memplan/search.h"

size_t mp_portfolio_count(void);
/* NULL: there are not so many. */
const mp_solver *mp_portfolio_row(size_t k);

/* auto.h - the portfolio: every searcher of the table that is worth its time, one after the other. */
#pragma once

#include "memplan/search.h"

/* Errors as those of the searchers, but MP_NOT_APPLICABLE. */
mp_status mp_run_auto(mp_search *search, mp_error *err);

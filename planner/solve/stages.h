/* stages.h - the search of a graph with copies, in stages of which each starts from the best plan of those before. */
#pragma once

#include "memplan/solver.h"

/* mp_solve of a request that has a problem, for a graph with copies. As mp_solve. */
mp_status mp_solve_in_stages(const mp_request *request, mp_answer *answer, mp_error *err);

/* searches.c - requests for successive searches of one workload. Each request has the remaining time as its limit. */
#include "executor/workload/searches.h"

#include <math.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "memplan/arena_solve.h"
#include "memplan/smallest.h"

mp_searches mp_searches_begin(mp_workload *w, const mp_request *asked)
{
    return (mp_searches){.workload = w, .asked = asked, .start = mp_clock_now()};
}

/* Calls the caller's progress function, if there is one. Sets is_stopped if that function ends the search. */
static bool pass_on(const mp_progress *now, void *data)
{
    mp_searches *x = data;
    if (x->asked->progress && !x->asked->progress(now, x->asked->progress_data)) x->is_stopped = true;
    return !x->is_stopped;
}

mp_request mp_searches_next(mp_searches *x, int64_t budget_bytes)
{
    mp_request r = *x->asked;
    r.graph = x->workload->graph;
    r.problem = x->workload->problem;
    r.budget_bytes = budget_bytes;
    r.progress = pass_on;
    r.progress_data = x;
    memcpy(r.tier_bytes, x->workload->tier_bytes, sizeof r.tier_bytes);
    if (r.time_limit > 0) r.time_limit = fmax(r.time_limit - (mp_clock_now() - x->start), r.time_limit / 10);
    return r;
}

mp_status mp_searches_solve(mp_searches *x, int64_t budget_bytes, bool with_offsets, mp_answer *answer, mp_error *err)
{
    const mp_request request = mp_searches_next(x, budget_bytes);
    return (with_offsets ? mp_solve_with_arena : mp_solve_or_smallest)(&request, answer, err);
}

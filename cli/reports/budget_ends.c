/* budget_ends.c - keep-all's peak, and at need a search for the smallest plan. */
#include "cli/reports/budget_ends.h"

#include "cli/reports/progress.h"
#include "cli/reports/subject.h"
#include "memplan/arena_solve.h"
#include "memplan/smallest.h"

/* A sweep compares what lives at once, and gives nothing an address. */
static bool has_arena(const options *o)
{
    return o->offsets && o->command != CMD_SWEEP;
}

static mp_status find_smallest(const options *o, const mp_request *request, budget_ends *ends, mp_error *err)
{
    progress shown;
    mp_request asked = *request;
    asked.progress = progress_show;
    asked.progress_data = &shown;
    progress_start(&shown, o, INT64_MAX, 0);
    const mp_status st = mp_smallest_plan(&asked, has_arena(o), &ends->smallest, err);
    progress_end(&shown);
    if (st == MP_OK) ends->smallest_bytes = mp_plan_need(ends->smallest);
    return st;
}

mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err)
{
    mp_status st = MP_OK;
    mp_timeline *keep_all = NULL;
    bool is_relative = false;
    int unused;
    *out = (budget_ends){.smallest_bytes = -1};
    MP_TRY(keep_all_timeline(request->graph, &keep_all, &unused, err));
    out->peak_bytes = keep_all->peak_bytes;
    for (size_t k = 0; k < n; k++) is_relative |= budgets[k].kind == BUDGET_ABOVE_MIN;
    if (is_relative) MP_TRY(find_smallest(o, request, out, err));
done:
    mp_timeline_free(keep_all);
    return st;
}

void budget_ends_free(budget_ends *ends)
{
    mp_plan_free(ends->smallest);
    *ends = (budget_ends){.smallest_bytes = -1};
}

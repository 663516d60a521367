/* fit_needs.c - measures plans for the study of the largest batch. */
#include "planner/studies/fit_needs.h"

mp_status mp_fit_measure_of(const mp_fit_request *fit, const mp_graph *graph, const mp_plan *plan, mp_fit_measure *out,
                            mp_error *err)
{
    mp_fit_measure found = {.bytes = mp_plan_need(plan), .plan_bytes = mp_plan_need(plan)};
    if (fit->terms) {
        MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
        mp_needs_terms terms = *fit->terms;
        if (terms.arena_bytes >= 0) terms.arena_bytes = found.plan_bytes - plan->static_bytes;
        MP_CHECK(mp_timeline_build(graph, plan->steps, plan->n_steps, &timeline, err));
        MP_CHECK(mp_needs_of(graph, plan->steps, timeline, &terms, &found.needs, err));
        found.bytes = found.needs.likely_bytes;
    }
    *out = found;
    return MP_OK;
}

int64_t mp_fit_plan_limit(const mp_fit_request *fit, const mp_fit_measure *kept)
{
    return fit->terms ? mp_needs_room(&kept->needs, kept->plan_bytes) : fit->memory_bytes;
}

bool mp_fit_has_room(const mp_fit_request *fit, const mp_fit_measure *plan)
{
    return !fit->terms || plan->bytes <= fit->memory_bytes || plan->needs.expandable_bytes >= 0;
}

/* row_chunks_search.c - searches for a plan with the chosen numbers of chunks of rows. If it finds none, it searches with whole
 * regions. */
#include <stdio.h>

#include "estimator/base/integers.h"
#include "memplan/workloads/row_chunks.h"

static void swap(mp_workload *a, mp_workload *b)
{
    const mp_workload before = *a;
    *a = *b;
    *b = before;
}

/* Searches with whole regions. If a plan is found, it replaces the answer. */
static mp_status search_whole(mp_workload *w, mp_workload *whole, const mp_card_search *how, const mp_request *request,
                              mp_row_chunks_choice *choice, mp_card_plan *out, mp_error *err)
{
    MP_CLEARED_BY(mp_card_plan_free) mp_card_plan other = {0};
    int64_t floor_bytes;
    MP_CHECK(mp_problem_floor(whole->problem, &floor_bytes, NULL, err));
    if (floor_bytes > request->budget_bytes) return MP_OK;
    MP_CHECK(mp_workload_solve(whole, how, request, &other, err));
    if (!other.answer.plan) return MP_OK;
    if (!out->answer.bound.infeasible) choice->other_ticks = mp_smaller(choice->other_ticks, out->answer.bound.ticks);
    mp_card_plan_free(out);
    *out = other;
    other = (mp_card_plan){0};
    swap(w, whole);
    choice->n = 1;
    snprintf(choice->setting, sizeof choice->setting, "off");
    return MP_OK;
}

/* Lowers the bound of the answer if necessary, so that it also holds for plans with other numbers of chunks. */
static void cover_others(const mp_row_chunks_choice *choice, mp_bound *bound)
{
    if (choice->other_ticks == INT64_MAX) return;
    if (bound->infeasible || bound->ticks > choice->other_ticks) bound->ticks = choice->other_ticks;
    bound->infeasible = false;
}

mp_status mp_row_chunks_search(mp_workload *w, mp_workload *whole, const mp_card_search *how, const mp_request *request,
                               mp_row_chunks_choice *choice, mp_card_plan *out, mp_error *err)
{
    const mp_earlier_plans earlier = {w->graph, choice->budget_bytes, choice->trial.plan, choice->trial.smallest};
    mp_request asked = *request;
    if (choice->n > 1) asked.start = NULL;
    if (earlier.smallest) asked.earlier = &earlier;
    MP_CHECK(mp_workload_solve(w, how, &asked, out, err));
    if (!out->answer.plan && choice->n > 1 && !out->is_stopped)
        MP_CHECK(search_whole(w, whole, how, request, choice, out, err));
    cover_others(choice, &out->answer.bound);
    return MP_OK;
}

mp_status mp_row_chunks_solve(mp_workload *whole, const mp_card_search *how, const mp_request *request, mp_row_chunks_plan *out,
                              mp_error *err)
{
    mp_workload_options options = *how->options;
    mp_card_search chosen = *how;
    *out = (mp_row_chunks_plan){0};
    MP_CHECK(mp_row_chunks_choose(whole, how->options, request, &out->choice, err));
    if (out->choice.n == 1) return mp_row_chunks_search(whole, NULL, how, request, &out->choice, &out->found, err);
    options.row_chunks = out->choice.setting;
    options.adopted = NULL;
    chosen.options = &options;
    MP_CHECK(mp_workload_load(whole->path, &options, &out->own, err));
    MP_CHECK(mp_row_chunks_search(&out->own, whole, &chosen, request, &out->choice, &out->found, err));
    if (out->choice.n > 1) return MP_OK;
    swap(&out->own, whole);
    mp_workload_free(&out->own);
    out->own = (mp_workload){0};
    return MP_OK;
}

void mp_row_chunks_plan_free(mp_row_chunks_plan *plan)
{
    mp_row_chunks_choice_free(&plan->choice);
    mp_card_plan_free(&plan->found);
    mp_workload_free(&plan->own);
    *plan = (mp_row_chunks_plan){0};
}

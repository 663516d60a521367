/* card_plan.c - searches for plans of a workload until the whole process fits its card. */
#include "memplan/workloads/card_plan.h"

#include "executor/workload/searches.h"
#include "memplan/ranks/rank_plan.h"
#include "memplan/studies/card_budget.h"
#include "memplan/workloads/workload_needs.h"

typedef struct trials {
    mp_searches searches;
    const mp_card_search *how;
    bool finds_stash;
    bool has_fitting;   /* true: the process of `best` fits the card */
    mp_card_plan *best; /* the result so far */
} trials;

void mp_card_plan_free(mp_card_plan *plan)
{
    mp_answer_free(&plan->answer);
    *plan = (mp_card_plan){0};
}

static mp_status search_once(trials *x, mp_card_plan *out, mp_error *err)
{
    if (!x->finds_stash) return mp_searches_solve(&x->searches, out->budget_bytes, x->how->with_offsets, &out->answer, err);
    const mp_request request = mp_searches_next(&x->searches, out->budget_bytes);
    return mp_workload_plan(x->searches.workload, &request, x->how->with_offsets, &out->answer.plan, err);
}

/* Computes the memory of the process that runs the plan. If there is no plan, computes it for the smallest plan. */
static mp_status find_needs(const trials *x, mp_card_plan *out, mp_error *err)
{
    const mp_plan *plan = out->answer.plan ? out->answer.plan : out->answer.smallest;
    out->needs = (mp_needs){.process_bytes = -1, .likely_bytes = -1};
    if (!plan || x->how->use == MP_CARD_UNUSED) return MP_OK;
    return mp_workload_needs_of_plan(x->searches.workload, x->how->options, plan, &out->needs, err);
}

/* Searches within a budget. The result replaces `best`, with one exception: the process of `best` fits the card, and the
 * process of the new plan does not fit. */
static mp_status try_budget(void *data, int64_t budget_bytes, int64_t *excess_bytes, bool *goes_on, mp_error *err)
{
    trials *x = data;
    MP_CLEARED_BY(mp_card_plan_free) mp_card_plan now = {.budget_bytes = budget_bytes};
    MP_CHECK(search_once(x, &now, err));
    MP_CHECK(find_needs(x, &now, err));
    const bool is_known = x->how->use == MP_CARD_FILLED && now.answer.plan && now.needs.card_bytes > 0;
    if (is_known) *excess_bytes = now.needs.likely_bytes - now.needs.card_bytes;
    *goes_on = !x->searches.is_stopped;
    const bool fits = now.answer.plan && *excess_bytes <= 0;
    if (x->has_fitting && !fits) return MP_OK;
    x->has_fitting = fits;
    mp_card_plan_free(x->best);
    *x->best = now;
    now = (mp_card_plan){0};
    return MP_OK;
}

mp_status mp_workload_solve(mp_workload *w, const mp_card_search *how, const mp_request *request, mp_card_plan *out,
                            mp_error *err)
{
    trials x = {.searches = mp_searches_begin(w, request),
                .how = how,
                .finds_stash = how->finds_stash && w->rank.shape.n_ranks > 0,
                .best = out};
    *out = (mp_card_plan){.budget_bytes = request->budget_bytes};
    const mp_status st = mp_card_budget(request->budget_bytes, x.finds_stash, try_budget, &x, err);
    out->is_stopped = x.searches.is_stopped;
    return st;
}

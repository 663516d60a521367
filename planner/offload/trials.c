/* trials.c - builds the plan of a set of choices and judges it by the timeline. Offers the plan of the final choices. */
#include "planner/offload/trials.h"

#include "planner/order/updates.h"

/* Returns the bytes over the device's budget, summed over all steps. INT64_MAX: the memory in another tier exceeds its
 * budget. */
static int64_t bytes_over(const mp_trials *x, const mp_timeline *timeline)
{
    const mp_request *request = mp_search_request(x->search);
    const int64_t room = request->budget_bytes - timeline->static_bytes;
    int64_t sum = 0;
    for (size_t m = 1; m < timeline->n_tiers; m++)
        if (request->tier_bytes[m] && timeline->tiers[m].peak_bytes > request->tier_bytes[m]) return INT64_MAX;
    for (size_t t = 0; t < timeline->n_steps; t++)
        if (timeline->live_bytes[t] > room) sum += timeline->live_bytes[t] - room;
    return sum;
}

mp_status mp_trials_judge(mp_trials *x, int64_t *ticks, int64_t *over, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n;
    const mp_step *order = mp_choices_order(&x->choices, &n);
    MP_CHECK(mp_updates_place(x->graph, order, n, &steps, &n, err));
    MP_CHECK(mp_timeline_build(x->graph, steps, n, &timeline, err));
    x->n_tries++;
    if (x->n_tries == 1) x->peak_bytes = timeline->peak_bytes; /* the first trial keeps all storages */
    *ticks = timeline->ticks;
    *over = bytes_over(x, timeline);
    return MP_OK;
}

static void find_candidates(mp_trials *x)
{
    for (int s = 0; s < (int)x->graph->n_storages; s++)
        if (x->choices.life[s].made >= 0 && x->choices.life[s].late >= 0 && x->graph->storages[s].bytes > 0 &&
            (mp_choices_may_copy(&x->choices, s) || mp_trials_may_rerun(x, s)))
            x->candidates[x->n_candidates++].storage = s;
}

static void clear(mp_trials *x)
{
    mp_choices_clear(&x->choices);
    mp_free(x->candidates);
}

mp_status mp_trials_offer(mp_trials *x, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    const mp_step *order = mp_choices_order(&x->choices, &n);
    MP_CHECK(mp_updates_place_within(x->graph, order, n, mp_search_request(x->search)->budget_bytes, &steps, &n, err));
    return mp_search_offer(x->search, steps, n, NULL, NULL, err);
}

mp_status mp_trials_run(mp_search *search, mp_status (*choose)(mp_trials *trials, mp_error *err), mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    const mp_graph *graph = request->graph;
    MP_CLEARED_BY(clear) mp_trials x = {.search = search, .graph = graph};
    MP_CHECK(mp_choices_start(graph, &x.choices, err));
    MP_ENSURE(x.candidates = mp_alloc(graph->n_storages, sizeof *x.candidates), err, MP_NOMEM, "out of memory for a rule");
    MP_CHECK(mp_trials_judge(&x, &x.ticks, &x.over, err));
    find_candidates(&x);
    if (!x.over) return MP_OK; /* if keep-all fits, a rule has nothing to do, and keep-all has already been offered */
    MP_CHECK(choose(&x, err));
    return mp_trials_offer(&x, err);
}

/* worth.c - short searches with changed limits. If there is a plan, the search starts from it, and shows how much time the
 * change saves. If there is none, the searches find a tier size with which a plan exists. */
#include "memplan/studies/worth.h"

#include <string.h>

#include "memplan/arena.h"
#include "memplan/solver.h"
#include "planner/math/tuning.h"
#include "planner/offload/copies.h"
#include "planner/order/variant.h"
#include "planner/search/searchers.h"
#include "planner/solve/solver.h"

#define GIB (INT64_C(1) << 30)

/* Makes a short search with the budgets in `limits`, starting from the plan. If it finds a plan of fewer than *ticks ticks,
 * lowers *ticks. Precondition: the plan fits the budgets. */
static mp_status find_less(const mp_request *limits, const mp_plan *plan, int64_t *ticks, mp_error *err)
{
    static const mp_solver cooling = {.name = "anneal", .run = mp_run_anneal, .chooses_algorithms = true, .wants_copies = true};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    mp_request asked = {.graph = limits->graph,
                        .budget_bytes = limits->budget_bytes,
                        .own = &cooling,
                        .seed = limits->seed,
                        .moves = mp_default_moves(limits->graph) / MP_WORTH_FEWER,
                        .keep_order = limits->keep_order,
                        .start = plan,
                        .refine = true,
                        .progress = limits->progress,
                        .progress_data = limits->progress_data};
    memcpy(asked.tier_bytes, limits->tier_bytes, sizeof asked.tier_bytes);
    MP_CHECK(mp_solve(&asked, &answer, err));
    if (answer.plan && answer.plan->ticks < *ticks) *ticks = answer.plan->ticks;
    return MP_OK;
}

/* Builds a copy of the graph in which copies take half as long. */
static mp_status halved_of(const mp_graph *graph, mp_variant *out, mp_error *err)
{
    MP_CHECK(mp_variant_of(graph, out, err));
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t k = 0; k < graph->nodes[v].n_alternatives; k++) {
            mp_alternative *a = &out->graph.nodes[v].alternatives[k];
            if (mp_copy_way_of(graph, (int)v, (int)k) != MP_COPY_NONE) a->ticks = (a->ticks + 1) / 2;
        }
    return MP_OK;
}

mp_status mp_worth_of(const mp_request *request, const mp_plan *plan, mp_worth *out, mp_error *err)
{
    MP_CLEARED_BY(mp_variant_free) mp_variant halved = {0};
    mp_request limits = *request;
    int64_t ticks = plan->ticks;
    *out = (mp_worth){0};
    if (plan->ticks <= plan->baseline_ticks || request->budget_bytes >= MP_NO_LIMIT - GIB) return MP_OK;
    MP_CHECK(find_less(&limits, plan, &ticks, err));
    int64_t less = ticks;
    limits.budget_bytes += GIB;
    MP_CHECK(find_less(&limits, plan, &less, err));
    out->device_ticks = ticks - less;
    limits.budget_bytes = request->budget_bytes;
    for (size_t m = 1; m < request->graph->n_tiers; m++) {
        if (!request->tier_bytes[m]) continue;
        less = ticks;
        limits.tier_bytes[m] += GIB;
        MP_CHECK(find_less(&limits, plan, &less, err));
        out->tier_ticks[m] = ticks - less;
        limits.tier_bytes[m] = request->tier_bytes[m];
    }
    MP_CHECK(halved_of(request->graph, &halved, err));
    limits.graph = &halved.graph;
    less = ticks;
    MP_CHECK(find_less(&limits, plan, &less, err));
    out->link_ticks = ticks - less;
    return MP_OK;
}

static bool never(void *data)
{
    (void)data;
    return false;
}

/* Searches with a changed budget of the tier; 0: no limit. *fits: a plan was found. *bytes: the bytes that this plan needs in
 * the tier. Searchers that only recompute do not run, because their plans do not use the tier. */
static mp_status try_tier(const mp_request *request, int tier, int64_t tier_bytes, bool with_arena, int64_t *bytes, bool *fits,
                          mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    mp_request asked = *request;
    asked.tier_bytes[tier] = tier_bytes;
    asked.effort = MP_EFFORT_QUICK;
    asked.moves = mp_default_moves(request->graph) / MP_WORTH_FEWER;
    asked.solvers_off = ~0u;
    asked.refine = tier_bytes && request->start;
    asked.wants_bound = asked.explains_bound = false;
    MP_CHECK(mp_solve(&asked, &answer, err));
    if (answer.plan && with_arena) {
        const mp_arena_options options = {.capacity_bytes = asked.budget_bytes - answer.plan->static_bytes,
                                          .tier_bytes = asked.tier_bytes,
                                          /* the search for offsets may end as soon as the plan's arena fits in the budget */
                                          .stop = never};
        MP_CHECK(mp_arena_layout_within(request->graph, answer.plan, &options, err));
    }
    *fits = answer.plan && mp_request_fits_plan(&asked, answer.plan);
    if (*fits) *bytes = mp_plan_tier_need(request->graph, answer.plan, tier);
    return MP_OK;
}

mp_status mp_tier_enough(const mp_request *request, int tier, int64_t least_bytes, bool with_arena, int64_t *bytes,
                         mp_error *err)
{
    bool fits;
    *bytes = 0;
    MP_CHECK(try_tier(request, tier, 0, with_arena, bytes, &fits, err));
    for (int k = 0; *bytes > least_bytes + 1 && k < MP_ENOUGH_ROUNDS; k++) {
        const int64_t middle = least_bytes + (*bytes - least_bytes) / 2;
        MP_CHECK(try_tier(request, tier, middle, with_arena, bytes, &fits, err));
        if (!fits) least_bytes = middle;
    }
    return MP_OK;
}

/* The data of `watch`, the progress function of the searches for a tier study. `watch` ends these searches if the request's own
 * progress function returns false, and sets is_stopped. */
typedef struct watched {
    const mp_request *request;
    bool is_stopped;
} watched;

static bool watch(const mp_progress *now, void *data)
{
    watched *w = data;
    if (w->request->progress) w->is_stopped |= !w->request->progress(now, w->request->progress_data);
    return !w->is_stopped;
}

mp_status mp_tier_study_of(const mp_request *request, const mp_answer *answer, bool with_arena, bool searches,
                           mp_tier_study *out, mp_error *err)
{
    const mp_graph *graph = request->graph;
    mp_tier_study study = {.has_worth = false};
    watched w = {.request = request};
    mp_request asked = *request;
    asked.progress = watch;
    asked.progress_data = &w;
    asked.start = answer->smallest;
    MP_CHECK(mp_tier_floors(graph, request->budget_bytes, request->tier_bytes, study.floor_bytes, err));
    if (searches && answer->plan && request->budget_bytes < MP_NO_LIMIT && !mp_graph_n_state_copies(graph)) {
        MP_CHECK(mp_worth_of(&asked, answer->plan, &study.worth, err));
        study.has_worth = !w.is_stopped;
    }
    for (int m = 1; m < (int)graph->n_tiers && searches && !answer->plan; m++) {
        const int64_t most = request->tier_bytes[m], floor = study.floor_bytes[m] - 1;
        if (most && request->budget_bytes >= answer->floor_bytes)
            MP_CHECK(mp_tier_enough(&asked, m, floor > most ? floor : most, with_arena, &study.enough_bytes[m], err));
    }
    *out = study;
    return MP_OK;
}

int mp_tier_study_too_small(const mp_tier_study *study, const mp_graph *graph, const int64_t *tier_bytes)
{
    for (int m = 1; m < (int)graph->n_tiers; m++)
        if (tier_bytes[m] && study->floor_bytes[m] > tier_bytes[m]) return m;
    return 0;
}

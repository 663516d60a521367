/* lower_set_ladder.c - which strategies of a family are worth judging by the timeline.
 *
 * The memory model (lower_set.h) knows nothing of early freeing, in-place, parameters or workspace, so its budget says little
 * about the peak. It is swept instead, on a fixed ladder from the least for which there is a strategy to that of a single
 * segment, from below: what is tried for a budget of the user's is tried for every larger one, too. Once the peaks have been
 * over the budget for some rungs, more memory inside the model will not help.
 *
 * A strategy for one rung serves the next as well, so its overhead bounds what is looked for there. The first bound comes from
 * a search with coarse classes of overhead. Small families are searched without bound: their whole front is worth a look.
 */
#include "planner/segments/lower_set_ladder.h"

#include "planner/math/tuning.h"

typedef struct ladder {
    mp_search *search;
    const mp_lower_sets *sets;
    int64_t budget_bytes;
    int picks;
    int64_t moves; /* left */
    mp_lower_set_judge judge;
    void *data;
} ladder;

/* Has some of the strategies that were found judged; *least_peak: the lowest peak so far. */
static mp_status offer_some(ladder *x, const mp_lower_set_strategies *found, int picks, int64_t *least_peak, mp_error *err)
{
    for (int i = 0; i < picks && found->n && x->moves > 0 && !mp_search_stopped(x->search); i++) {
        x->moves--;
        const size_t at = picks > 1 ? (found->n - 1) * (size_t)i / (size_t)(picks - 1) : 0;
        const int *sequence = found->sequence + found->sequence_start[at];
        const int length = found->sequence_start[at + 1] - found->sequence_start[at];
        int64_t peak = INT64_MAX;
        MP_CHECK(x->judge(x->data, x->sets, sequence, length, &peak, err));
        if (peak < *least_peak) *least_peak = peak;
    }
    return MP_OK;
}

/* Tries strategies at a budget of the model, of an overhead of at most *most_ticks: what a smaller budget needed. The least
 * overhead that is found takes its place. */
static mp_status try_rung(ladder *x, int64_t model_bytes, int64_t *most_ticks, bool both_aims, int64_t *least_peak,
                          mp_error *err)
{
    mp_status st = MP_OK;
    mp_lower_set_strategies least = {0}, largest = {0};
    const bool is_small = x->sets->pairs_start[x->sets->n] < MP_LOWER_SET_SMALL_PAIRS;
    for (int levels = MP_LOWER_SET_LEVELS; levels <= MP_LOWER_SET_FINE_LEVELS;
         levels *= MP_LOWER_SET_FINE_LEVELS / MP_LOWER_SET_LEVELS) {
        if (levels == MP_LOWER_SET_LEVELS && (is_small || *most_ticks != INT64_MAX)) continue; /* only to find a limit */
        mp_lower_set_strategies_free(&least);
        MP_TRY(mp_lower_set_search(x->sets, model_bytes, MP_TIME_CENTRIC, levels, *most_ticks, false, &least, err));
        if (least.n && !is_small) *most_ticks = least.ticks[0] + least.ticks[0] / MP_LOWER_SET_SLACK; /* for choice */
    }
    MP_TRY(offer_some(x, &least, x->picks, least_peak, err));
    if (!both_aims) goto done;
    MP_TRY(mp_lower_set_search(x->sets, model_bytes, MP_MEMORY_CENTRIC, MP_LOWER_SET_LEVELS, INT64_MAX, false, &largest, err));
    MP_TRY(offer_some(x, &largest, 1, least_peak, err));
done:
    mp_lower_set_strategies_free(&least);
    mp_lower_set_strategies_free(&largest);
    return st;
}

static mp_status climb(ladder *x, mp_error *err)
{
    int64_t least_bytes, whole_bytes = 0, most_ticks = INT64_MAX;
    int over = 0;
    for (size_t p = x->sets->pairs_start[x->sets->n - 1]; p < x->sets->pairs_start[x->sets->n]; p++)
        if (x->sets->pairs[p].from == 0) whole_bytes = x->sets->pairs[p].cost_bytes; /* all in one segment */
    MP_CHECK(mp_lower_set_least_budget(x->sets, &least_bytes, err));
    for (int rung = 0;
         rung <= MP_LOWER_SET_RUNGS && over < MP_LOWER_SET_PATIENCE && x->moves > 0 && !mp_search_stopped(x->search); rung++) {
        if (rung >= MP_LOWER_SET_PATIENCE && mp_search_settled(x->search)) break;
        /* finer towards the least, where a little memory is worth most */
        const int64_t model_bytes =
            rung == MP_LOWER_SET_RUNGS
                ? whole_bytes
                : least_bytes + (whole_bytes - least_bytes) / (MP_LOWER_SET_RUNGS * MP_LOWER_SET_RUNGS) * rung * rung;
        int64_t least_peak = INT64_MAX;
        MP_CHECK(try_rung(x, model_bytes, &most_ticks, rung < MP_LOWER_SET_PATIENCE, &least_peak, err));
        over = least_peak > x->budget_bytes ? over + 1 : 0;
    }
    return MP_OK;
}

mp_status mp_lower_set_ladder(mp_search *search, const mp_lower_sets *sets, int64_t budget_bytes, int64_t moves,
                              mp_lower_set_judge judge, void *data, mp_error *err)
{
    const int most = sets->pairs_start[sets->n] < MP_LOWER_SET_SMALL_PAIRS ? 3 * MP_LOWER_SET_PICKS : MP_LOWER_SET_PICKS;
    const int64_t share = moves / MP_LOWER_SET_RUNGS;
    ladder x = {search, sets, budget_bytes, share < 1 ? 1 : share > most ? most : (int)share, moves, judge, data};
    return climb(&x, err);
}

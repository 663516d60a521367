/* lower_set_dp.c - dynamic programming over sequences of lower sets: (lower set, overhead) -> least bytes kept.
 *
 * Before the search, three values are computed for each lower set, each in one pass over the pairs. With them, states that
 * cannot lead to a strategy are recognised early:
 * - the fewest bytes kept when the set is reached
 * - the most bytes that may be kept so that a sequence from the set to V still fits
 * - the least overhead of a sequence from the set to V, if the fewest bytes are kept
 *
 * A state is dropped if it keeps too many bytes, or if its overhead plus the least overhead to V exceeds the limit.
 *
 * The memory model (lower_set.h) ignores early freeing, in-place updates, parameters and workspace. So the model's budget says
 * little about the real peak. Instead of one model budget, a fixed ladder of them is tried. The ladder rises from the smallest
 * budget with a strategy to the budget with which everything is one segment. A strategy tried for a user's budget is also tried
 * for every larger one. When the peaks have exceeded the user's budget for several rungs, the search ends, because larger model
 * budgets will not help.
 *
 * A strategy for one rung is also valid for the next rung, so its overhead is an upper limit for the search there. The first
 * limit is found by a search with coarse classes of overhead. Small families are searched without a limit, because all their
 * strategies are useful. */
#include "planner/segments/lower_set.h"

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LOWER_SET_PICKS = 6,           /* plans judged per budget of the memory model; small families: three times as many */
    LOWER_SET_SMALL_PAIRS = 50000, /* with at most 50000 pairs of lower sets, no bound on the time prunes the search */
    LOWER_SET_LEVELS = 128,        /* classes of extra time in the coarse search over lower sets */
    LOWER_SET_FINE_LEVELS = 2048,  /* classes of extra time in the fine search over lower sets */
};

typedef struct state {
    /* overhead: recomputation time of the sequence so far, as a multiple of `unit`; kept_bytes: bytes kept by the sequence */
    int64_t overhead, kept_bytes;
    /* set: the last lower set of the sequence; previous: index of the state before it, -1 for the first state */
    int set, previous;
} state;

typedef struct table {
    mp_pool *pool; /* owns all arrays except `states` */
    const mp_lower_sets *sets;
    bool least;   /* true: the strategy with the least overhead is wanted; false: the one with the largest */
    int64_t unit; /* the greatest common divisor of the ticks of all transitions */
    int shift;    /* the class of an overhead is overhead >> shift; per lower set, each class has at most one state */
    int n_levels;
    /* scratch, per class of overhead: the best state of the current lower set; `set` is -1 if the class has no state */
    state *levels;
    int low, high; /* the smallest and the largest class that has a state */
    /* per lower set. fewest: fewest bytes kept when it is reached (INT64_MAX: unreachable). most: most bytes that may be kept
     * there. rest: least overhead from it to V */
    int64_t *fewest, *most, *rest;
    int64_t limit; /* the largest overhead that a whole sequence may have */
    state *states; /* the states that were kept, grouped by lower set */
    size_t n_states, capacity;
    size_t *start; /* per lower set: index in `states` of its first state */
} table;

/* Computes, per lower set, the fewest bytes kept when it is reached; INT64_MAX if no sequence within the budget reaches it. */
static void find_fewest(const mp_lower_sets *sets, int64_t budget_bytes, int64_t *kept)
{
    kept[0] = 0;
    for (int k = 1; k < sets->n; k++) {
        kept[k] = INT64_MAX;
        for (size_t p = sets->pairs_start[k]; p < sets->pairs_start[k + 1]; p++) {
            const mp_lower_set_pair *pair = &sets->pairs[p];
            if (pair->cost_bytes > budget_bytes) break;
            if (kept[pair->from] > budget_bytes - pair->cost_bytes) continue;
            if (kept[pair->from] + pair->kept_bytes < kept[k]) kept[k] = kept[pair->from] + pair->kept_bytes;
        }
    }
}

/* Computes t->most and t->rest for each lower set, from V back to the empty set. */
static void find_rest(table *t, int64_t budget_bytes, bool charge_last)
{
    const mp_lower_sets *sets = t->sets;
    for (int k = 0; k < sets->n; k++) {
        t->most[k] = -1;
        t->rest[k] = INT64_MAX;
    }
    t->most[sets->n - 1] = INT64_MAX;
    t->rest[sets->n - 1] = 0;
    for (int k = sets->n - 1; k > 0; k--) {
        if (t->most[k] < 0 || t->fewest[k] == INT64_MAX) continue;
        for (size_t p = sets->pairs_start[k]; p < sets->pairs_start[k + 1]; p++) {
            const mp_lower_set_pair *pair = &sets->pairs[p];
            const int from = pair->from;
            const int64_t free_bytes = budget_bytes - pair->cost_bytes;
            if (free_bytes < 0) break;
            /* skips a transition for which every sequence that leads to its first set (`from`) keeps too many bytes */
            if (t->fewest[from] > free_bytes) continue;
            const int64_t most = free_bytes < t->most[k] - pair->kept_bytes ? free_bytes : t->most[k] - pair->kept_bytes;
            const int64_t rest = t->rest[k] + (charge_last || k + 1 < sets->n ? pair->ticks / t->unit : 0);
            if (most > t->most[from]) t->most[from] = most;
            if (rest < t->rest[from]) t->rest[from] = rest;
        }
    }
}

/* Chooses the classes of overhead, so that every overhead up to the limit belongs to one class. No overhead exceeds the ticks
 * of a direct transition from the empty set to V. */
static mp_status choose_classes(table *t, const mp_lower_sets *sets, mp_lower_set_aim aim, int max_levels, int64_t most_ticks,
                                mp_error *err)
{
    const size_t n = (size_t)sets->n;
    *t = (table){.pool = mp_pool_new(), .sets = sets, .least = aim == MP_TIME_CENTRIC};
    for (size_t p = 0; p < sets->pairs_start[n] && t->unit != 1; p++) t->unit = mp_gcd(sets->pairs[p].ticks, t->unit);
    if (t->unit == 0) t->unit = 1;
    for (size_t p = sets->pairs_start[n - 1]; p < sets->pairs_start[n]; p++)
        if (sets->pairs[p].from == 0) t->limit = sets->pairs[p].ticks / t->unit;
    if (most_ticks / t->unit < t->limit) t->limit = most_ticks / t->unit;
    while (t->limit >> t->shift >= max_levels) t->shift++;
    t->n_levels = (int)(t->limit >> t->shift) + 1;
    t->levels = mp_pool_alloc(t->pool, (size_t)t->n_levels, sizeof *t->levels);
    t->start = mp_pool_alloc(t->pool, n + 1, sizeof *t->start);
    t->fewest = mp_pool_alloc(t->pool, n, sizeof *t->fewest);
    t->most = mp_pool_alloc(t->pool, n, sizeof *t->most);
    t->rest = mp_pool_alloc(t->pool, n, sizeof *t->rest);
    if (mp_pool_failed(t->pool)) return MP_NO_MEMORY(err);
    for (int i = 0; i < t->n_levels; i++) t->levels[i].kept_bytes = INT64_MAX;
    t->low = t->n_levels;
    t->high = -1;
    return MP_OK;
}

/* Moves the states of one lower set to `states`, sorted by overhead, the best for the aim (mp_lower_set_aim) first. A state is
 * kept only if it keeps fewer bytes than all states before it. */
static mp_status collect(table *t, int set, mp_error *err)
{
    int64_t fewest = INT64_MAX;
    t->start[set] = t->n_states;
    for (int i = 0; i <= t->high - t->low; i++) {
        state *s = &t->levels[t->least ? t->low + i : t->high - i];
        if (s->kept_bytes < fewest) {
            fewest = s->kept_bytes;
            if (!mp_grow(&t->states, &t->capacity, t->n_states + 1, sizeof *t->states)) return MP_NO_MEMORY(err);
            t->states[t->n_states++] = *s;
        }
        s->kept_bytes = INT64_MAX;
    }
    t->low = t->n_levels;
    t->high = -1;
    t->start[set + 1] = t->n_states;
    return MP_OK;
}

/* Extends the states of one lower set by a transition to a larger set. If two states are in the same class, the one with fewer
 * kept bytes remains. If these are equal, the one whose overhead suits the aim of the search better remains. This is the
 * innermost loop of the search. */
static void extend(table *t, int set, const mp_lower_set_pair *pair, int64_t free_bytes, int64_t overhead)
{
    const size_t first = t->start[pair->from];
    const int64_t limit = t->limit - t->rest[set] - overhead;
    size_t end = t->start[pair->from + 1];
    if (t->least) { /* the states of a set are sorted by ascending overhead, so binary search finds the last state within the
                       limit */
        for (size_t low = first; low < end;) {
            const size_t middle = low + (end - low) / 2;
            if (t->states[middle].overhead <= limit)
                low = middle + 1;
            else
                end = middle;
        }
    }
    for (size_t i = end; i > first; i--) {
        const state *from = &t->states[i - 1];
        if (from->kept_bytes > free_bytes)
            break; /* within a set, kept bytes descend, so all earlier states do not fit either */
        const int64_t sum = from->overhead + overhead, kept_bytes = from->kept_bytes + pair->kept_bytes;
        const int k = (int)(sum >> t->shift);
        state *best = &t->levels[k];
        if (kept_bytes > best->kept_bytes) continue;
        if (kept_bytes == best->kept_bytes && (t->least ? sum >= best->overhead : sum <= best->overhead)) continue;
        *best = (state){sum, kept_bytes, set, (int)(i - 1)};
        if (k < t->low) t->low = k;
        if (k > t->high) t->high = k;
    }
}

static void reach(table *t, int set, int64_t budget_bytes, bool charge)
{
    const mp_lower_sets *sets = t->sets;
    for (size_t p = sets->pairs_start[set]; p < sets->pairs_start[set + 1]; p++) {
        const mp_lower_set_pair *pair = &sets->pairs[p];
        int64_t free_bytes = budget_bytes - pair->cost_bytes;
        if (free_bytes < 0) break; /* the transitions are sorted by cost, so all later ones exceed the budget too */
        if (t->most[set] - pair->kept_bytes < free_bytes) free_bytes = t->most[set] - pair->kept_bytes;
        if (t->fewest[pair->from] > free_bytes) continue;
        extend(t, set, pair, free_bytes, charge ? pair->ticks / t->unit : 0);
    }
}

/* Appends the sequence of lower sets that leads to a state. The empty set is omitted. */
static bool append(mp_lower_set_strategies *out, const table *t, size_t at)
{
    size_t length = 0, begin = 0;
    for (int i = (int)at; t->states[i].previous >= 0; i = t->states[i].previous) length++;
    if (!mp_grow(&out->ticks, &out->ticks_capacity, out->n + 1, sizeof *out->ticks) ||
        !mp_grow(&out->kept_bytes, &out->kept_capacity, out->n + 1, sizeof *out->kept_bytes) ||
        !mp_grow(&out->sequence_start, &out->start_capacity, out->n + 2, sizeof *out->sequence_start))
        return false;
    begin = (size_t)out->sequence_start[out->n];
    if (!mp_grow(&out->sequence, &out->sequence_capacity, begin + length + 1, sizeof *out->sequence)) return false;
    out->ticks[out->n] = t->states[at].overhead * t->unit;
    out->kept_bytes[out->n] = t->states[at].kept_bytes;
    out->sequence_start[++out->n] = (int)(begin + length);
    for (int i = (int)at; t->states[i].previous >= 0; i = t->states[i].previous)
        out->sequence[begin + --length] = t->states[i].set;
    return true;
}

static void clear(table *t)
{
    mp_free(t->states);
    mp_pool_free(t->pool);
}

mp_status mp_lower_set_search(const mp_lower_sets *sets, int64_t budget_bytes, mp_lower_set_aim aim, int max_levels,
                              int64_t most_ticks, bool charge_last, mp_lower_set_strategies *out, mp_error *err)
{
    MP_CLEARED_BY(clear) table t = {0};
    MP_CLEARED_BY(mp_lower_set_strategies_free) mp_lower_set_strategies found = {0};
    MP_CHECK(choose_classes(&t, sets, aim, max_levels, most_ticks, err));
    find_fewest(sets, budget_bytes, t.fewest);
    find_rest(&t, budget_bytes, charge_last);
    t.levels[0] = (state){.previous = -1};
    t.low = t.high = 0;
    MP_CHECK(collect(&t, 0, err));
    for (int k = 1; k < sets->n; k++) {
        if (t.most[k] >= 0 && t.fewest[k] != INT64_MAX) reach(&t, k, budget_bytes, charge_last || k + 1 < sets->n);
        MP_CHECK(collect(&t, k, err));
    }
    for (size_t i = t.start[sets->n - 1]; i < t.start[sets->n] && sets->n > 1; i++)
        MP_ENSURE(append(&found, &t, i), err, MP_NOMEM, "out of memory");
    *out = found;
    found = (mp_lower_set_strategies){0};
    return MP_OK;
}

void mp_lower_set_strategies_free(mp_lower_set_strategies *strategies)
{
    mp_free(strategies->ticks);
    mp_free(strategies->kept_bytes);
    mp_free(strategies->sequence_start);
    mp_free(strategies->sequence);
    *strategies = (mp_lower_set_strategies){0};
}

mp_status mp_lower_set_least_budget(const mp_lower_sets *sets, int64_t *budget_bytes, mp_error *err)
{
    int64_t low = 0, high = 0;
    MP_OWNED int64_t *kept = mp_alloc((size_t)sets->n, sizeof *kept);
    if (!kept) return MP_NO_MEMORY(err);
    for (size_t p = sets->pairs_start[sets->n - 1]; p < sets->pairs_start[sets->n]; p++)
        /* cost_bytes of the transition from the empty set to V, which makes everything one segment */
        if (sets->pairs[p].from == 0) high = sets->pairs[p].cost_bytes;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        find_fewest(sets, middle, kept);
        if (kept[sets->n - 1] != INT64_MAX)
            high = middle;
        else
            low = middle + 1;
    }
    *budget_bytes = high;
    return MP_OK;
}

typedef struct ladder {
    mp_search *search;
    const mp_lower_sets *sets;
    int64_t budget_bytes;
    int picks;
    int64_t moves; /* number of strategies that may still be judged */
    mp_lower_set_judge judge;
    void *data;
} ladder;

/* Lets the timeline judge some of the strategies found. *least_peak: the lowest peak in bytes so far. */
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

/* Finds and judges strategies for one model budget. *most_ticks limits the overhead: it is derived from the least overhead at
 * smaller model budgets. It is then lowered according to the least overhead found here. */
static mp_status try_rung(ladder *x, int64_t model_bytes, int64_t *most_ticks, bool both_aims, int64_t *least_peak,
                          mp_error *err)
{
    MP_CLEARED_BY(mp_lower_set_strategies_free) mp_lower_set_strategies least = {0}, largest = {0};
    const bool is_small = x->sets->pairs_start[x->sets->n] < LOWER_SET_SMALL_PAIRS;
    for (int levels = LOWER_SET_LEVELS; levels <= LOWER_SET_FINE_LEVELS; levels *= LOWER_SET_FINE_LEVELS / LOWER_SET_LEVELS) {
        if (levels == LOWER_SET_LEVELS && (is_small || *most_ticks != INT64_MAX))
            continue; /* a search with coarse classes only serves to find the first limit on the overhead */
        mp_lower_set_strategies_free(&least);
        MP_CHECK(mp_lower_set_search(x->sets, model_bytes, MP_TIME_CENTRIC, levels, *most_ticks, false, &least, err));
        /* the limit is an eighth above the least overhead, so that the next search finds several strategies */
        if (least.n && !is_small) *most_ticks = least.ticks[0] + least.ticks[0] / 8;
    }
    MP_CHECK(offer_some(x, &least, x->picks, least_peak, err));
    if (!both_aims) return MP_OK;
    MP_CHECK(mp_lower_set_search(x->sets, model_bytes, MP_MEMORY_CENTRIC, LOWER_SET_LEVELS, INT64_MAX, false, &largest, err));
    return offer_some(x, &largest, 1, least_peak, err);
}

static mp_status climb(ladder *x, mp_error *err)
{
    int64_t least_bytes, whole_bytes = 0, most_ticks = INT64_MAX;
    int over = 0;
    for (size_t p = x->sets->pairs_start[x->sets->n - 1]; p < x->sets->pairs_start[x->sets->n]; p++)
        /* cost_bytes of the transition from the empty set to V, which makes everything one segment */
        if (x->sets->pairs[p].from == 0) whole_bytes = x->sets->pairs[p].cost_bytes;
    MP_CHECK(mp_lower_set_least_budget(x->sets, &least_bytes, err));
    for (int rung = 0;
         rung <= MP_LOWER_SET_RUNGS && over < MP_LOWER_SET_PATIENCE && x->moves > 0 && !mp_search_stopped(x->search); rung++) {
        if (rung >= MP_LOWER_SET_PATIENCE && mp_search_settled(x->search)) break;
        /* the budgets of the ladder are closer together near the smallest one, where additional memory saves the most time */
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
    const int most = sets->pairs_start[sets->n] < LOWER_SET_SMALL_PAIRS ? 3 * LOWER_SET_PICKS : LOWER_SET_PICKS;
    const int64_t share = moves / MP_LOWER_SET_RUNGS;
    ladder x = {search, sets, budget_bytes, share < 1 ? 1 : share > most ? most : (int)share, moves, judge, data};
    return climb(&x, err);
}

/* bound_demand.c - the dynamic programme over live-in sets (bound_demand.h). It goes from the last boundary to the first. A
 * state is dropped if no plan through it takes less than the target, a number of ticks. */
#include "planner/bound/bound_demand.h"

#include <string.h>

#include "planner/bound/bound_states.h"
#include "planner/math/bits.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    DEMAND_NODES = 2048,          /* the backward search runs on graphs of up to 2048 nodes */
    DEMAND_FEW_STATES = 8192,     /* most live-in sets per boundary while the gain of the search is unknown */
    DEMAND_PUT_WORK = 128,        /* adding one live-in set counts as examining 128 sets */
    DEMAND_TABLE = 1 << 23,       /* most 64-bit words in the tables of necessary recomputations */
    DEMAND_TARGETS = 6,           /* most time targets above the bound */
    DEMAND_STEP = 16,             /* distance from bound to first time target: 1/16 of the proved recomputation */
    DEMAND_PREFIX_WORK = 1 << 22, /* live-in sets examined per time target before a narrow boundary */
    DEMAND_PREFIX_STEP = 8,       /* first time target before a narrow boundary: 1/8 above the known bound */
    DEMAND_STARTS = 3,            /* earlier boundaries used to bound the time before a live-in set */
    DEMAND_FAR = 24,              /* most boundaries between a live-in set and an earlier one that bounds its time */
    DEMAND_AROUND = 4,            /* a boundary is narrow if 4 boundaries on each side have more free memory */
    DEMAND_FEW_AT_NARROW = 4,     /* a search with at most 4 live-in sets at a narrow boundary is promising */
};

/* An earlier boundary from which recomputation is counted, and the nodes that must be recomputed after it because of the
 * current live-in set. */
struct start {
    int at;
    int64_t ticks;
    uint64_t *nodes;
};

struct mp_bound_demand {
    mp_pool *pool; /* owns all arrays */
    mp_bound_interval *x;
    const mp_bound_options *options;
    /* nodes: the nodes at which the boundaries are, each of which precedes the next; n: their number */
    int *nodes, n;
    /* per boundary. free_bytes: bytes of free memory; before: least ticks of recomputation before the boundary */
    int64_t *free_bytes, *before;
    mp_bound_ranks ranks;
    mp_bound_reruns reruns;
    mp_bound_states now, next;
    /* state at the current boundary: */
    int at;
    struct start starts[DEMAND_STARTS];
    int n_starts;
    /* state for the current target: */
    int64_t target, best, work_left;
    int best_at; /* the boundary that proved `best` */
    bool full;   /* true: the table of states is full, or the work limit is reached, so the result is not exact */
    /* scratch. set: a set of storages, one bit per rank (number in topological order). runs: a set of nodes */
    uint64_t *set, *runs;
};

static bool has_ended(const mp_bound_demand *d)
{
    return d->options->stop && d->options->stop(d->options->data);
}

/* Finds the boundaries: the loss and backward nodes at which memory is short. */
static mp_status find_boundaries(mp_bound_demand *d, mp_error *err)
{
    const mp_precedence *o = d->x->order;
    d->nodes = mp_pool_alloc(d->pool, (size_t)o->n, sizeof *d->nodes);
    d->free_bytes = mp_pool_alloc(d->pool, (size_t)o->n, sizeof *d->free_bytes);
    d->before = mp_pool_alloc(d->pool, (size_t)o->n, sizeof *d->before);
    MP_ENSURE(!mp_pool_failed(d->pool), err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
    for (int i = 0; i < o->n; i++) {
        const int v = o->sequence[i];
        if (v == o->n - 1 || o->graph->nodes[v].phase == MP_PHASE_FORWARD || o->graph->nodes[v].phase == MP_PHASE_UPDATE)
            continue;
        if (d->n && !mp_precedes(o, d->nodes[d->n - 1], v)) continue;
        mp_bound_interval_start(d->x, v);
        mp_bound_interval_end(d->x, -1);
        if (mp_bound_interval_live_in(d->x) <= d->x->free_bytes) continue;
        d->free_bytes[d->n] = d->x->free_bytes;
        d->nodes[d->n++] = v;
    }
    return MP_OK;
}

mp_status mp_bound_demand_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options,
                              mp_bound_demand **out, mp_error *err)
{
    MP_OWNED_BY(mp_bound_demand_free) mp_bound_demand *d = NULL;
    *out = NULL;
    if (order->only_vertex >= 0 || order->n > DEMAND_NODES) return MP_OK;
    MP_ENSURE(d = mp_alloc(1, sizeof *d), err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    d->pool = mp_pool_new();
    d->options = options;
    MP_CHECK(mp_bound_interval_new(order, budget_bytes, &d->x, err));
    MP_CHECK(find_boundaries(d, err));
    MP_CHECK(mp_bound_ranks_init(&d->ranks, d->x, err));
    if (!d->n || !d->ranks.n || (int64_t)d->n * d->ranks.n > DEMAND_TABLE / (order->n / 64 + 1)) return MP_OK;
    MP_CHECK(mp_bound_reruns_init(&d->reruns, d->x, &d->ranks, d->nodes, d->n, err));
    d->set = mp_pool_alloc(d->pool, (size_t)d->ranks.words, sizeof *d->set);
    d->runs = mp_pool_alloc(d->pool, (size_t)d->reruns.words, sizeof *d->runs);
    for (int k = 0; k < DEMAND_STARTS; k++)
        d->starts[k].nodes = mp_pool_alloc(d->pool, (size_t)d->reruns.words, sizeof *d->starts[k].nodes);
    MP_ENSURE(!mp_pool_failed(d->pool), err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    *out = d;
    d = NULL;
    return MP_OK;
}

void mp_bound_demand_free(mp_bound_demand *d)
{
    if (!d) return;
    mp_bound_states_clear(&d->now);
    mp_bound_states_clear(&d->next);
    mp_bound_reruns_clear(&d->reruns);
    mp_bound_ranks_clear(&d->ranks);
    mp_bound_interval_free(d->x);
    mp_pool_free(d->pool);
    mp_free(d);
}

static bool is_narrow(const mp_bound_demand *d, int i)
{
    for (int k = i - DEMAND_AROUND; k <= i + DEMAND_AROUND; k++)
        if (k >= 0 && k < d->n && k != i && d->free_bytes[k] < d->free_bytes[i] + (k > i)) return false;
    return i > 0 && i < d->n - 1;
}

int mp_bound_demand_narrows(const mp_bound_demand *d, int *nodes, int most)
{
    int n = 0;
    for (int i = d->n - 1; i >= 0 && n < most; i--)
        if (is_narrow(d, i)) nodes[n++] = d->nodes[i];
    return n;
}

void mp_bound_demand_before(mp_bound_demand *d, int node, int64_t ticks)
{
    bool after = false;
    for (int i = 0; i < d->n; i++) {
        after = after || d->nodes[i] == node;
        if (after && d->before[i] < ticks) d->before[i] = ticks;
    }
}

/* Chooses the earlier boundaries with the largest bounds on the recomputation up to the current boundary. */
static void choose_starts(mp_bound_demand *d)
{
    const size_t size = (size_t)d->reruns.words * sizeof *d->runs;
    d->n_starts = 0;
    for (int i = d->at - 1; i >= 0 && i >= d->at - DEMAND_FAR; i--) {
        memset(d->runs, 0, size);
        for (int k = i; k < d->at; k++)
            mp_bound_reruns_add(&d->reruns, i, d->reruns.needed + (size_t)k * (size_t)d->ranks.words, d->runs);
        const int64_t ticks = d->before[i] + mp_bound_reruns_ticks(&d->reruns, d->runs);
        int place = d->n_starts;
        while (place > 0 && ticks > d->starts[place - 1].ticks) place--;
        if (place == DEMAND_STARTS) continue;
        if (d->n_starts < DEMAND_STARTS) d->n_starts++;
        const struct start spare = d->starts[d->n_starts - 1];
        memmove(d->starts + place + 1, d->starts + place, (size_t)(d->n_starts - 1 - place) * sizeof *d->starts);
        d->starts[place] = (struct start){i, ticks, spare.nodes};
        memcpy(spare.nodes, d->runs, size);
    }
}

/* Returns the least ticks of recomputation before the current boundary. Each storage in `set` is live at the boundary, or is
 * produced directly after it. */
static int64_t ticks_before(const mp_bound_demand *d, const uint64_t *set)
{
    int64_t most = d->before[d->at];
    for (int k = 0; k < d->n_starts; k++) {
        const struct start *start = &d->starts[k];
        memcpy(d->runs, start->nodes, (size_t)d->reruns.words * sizeof *d->runs);
        mp_bound_reruns_add(&d->reruns, start->at, set, d->runs);
        const int64_t ticks = d->before[start->at] + mp_bound_reruns_ticks(&d->reruns, d->runs);
        if (ticks > most) most = ticks;
    }
    return most;
}

static void put(mp_bound_demand *d, const uint64_t *set, int64_t ticks, int64_t used)
{
    d->work_left -= DEMAND_PUT_WORK;
    if (ticks + ticks_before(d, set) >= d->target) return;
    if (!mp_bound_states_put(&d->next, set, ticks, used)) d->full = true;
}

/* Decides about the storage with this rank (number in topological order). Every state whose set contains the storage is
 * replaced by two states: the storage is live at the boundary, or it is produced after it. The caller decides the highest rank
 * first. So a storage of higher rank in the set is live at the boundary. */
static void decide_storage(mp_bound_demand *d, int rank)
{
    mp_bound_states *t = &d->next;
    const mp_precedence *o = d->x->order;
    const int s = d->ranks.storage[rank], v = o->graph->producer[s];
    const int64_t bytes = d->x->bytes[s];
    d->work_left -= t->n;
    if (d->work_left < 0) d->full = true;
    for (int i = 0, n = t->n; i < n && !d->full; i++) {
        if (t->ticks[i] == INT64_MAX || !mp_bits_has(mp_bound_states_set(t, i), rank)) continue;
        memcpy(d->set, mp_bound_states_set(t, i), (size_t)t->words * sizeof *d->set);
        const int64_t ticks = t->ticks[i], used = t->used[i];
        if (used + bytes > d->x->free_bytes || !bytes)
            t->ticks[i] = INT64_MAX;
        else
            t->used[i] += bytes;
        mp_bits_remove(d->set, rank);
        if (!bytes) put(d, d->set, ticks, used); /* a storage of zero bytes can always be live at the boundary */
        if (!bytes || !o->repeatable[v]) continue;
        for (int r = d->ranks.first[v]; r < rank; r++) mp_bits_remove(d->set, r);
        for (int k = o->reads_start[v]; k < o->reads_start[v + 1]; k++)
            if (d->ranks.rank[o->reads[k]] >= 0) mp_bits_add(d->set, d->ranks.rank[o->reads[k]]);
        put(d, d->set, ticks + d->x->ticks[v], used);
    }
}

/* Computes the states at boundary `at` from the states at the next boundary. */
static void go_back(mp_bound_demand *d)
{
    const uint64_t *needed = d->reruns.needed + (size_t)d->at * (size_t)d->ranks.words;
    mp_bound_interval_start(d->x, d->nodes[d->at]);
    choose_starts(d);
    mp_bound_states_empty(&d->next);
    uint64_t *set = d->set;
    for (int i = 0; i < d->now.n && !d->full; i++) {
        memcpy(set, mp_bound_states_set(&d->now, i), (size_t)d->ranks.words * sizeof *set);
        for (int w = 0; w < d->ranks.words; w++) set[w] |= needed[w];
        put(d, set, d->now.ticks[i], 0);
    }
    for (int r = d->ranks.n - 1; r >= 0 && !d->full; r--) decide_storage(d, r);
    if (d->full) return;
    mp_bound_states_drop_dominated(&d->next);
    const mp_bound_states t = d->now;
    d->now = d->next;
    d->next = t;
}

/* Runs the dynamic programme from boundary `last` back to the first. The relaxation assumes that no storage is read after
 * `last`. The function stops at a boundary with more than `most` states. *n_few: number of narrow boundaries with few states.
 */
static mp_status follow(mp_bound_demand *d, int last, int64_t target, int most, int64_t work, int *n_few, mp_error *err)
{
    d->target = target;
    d->best = 0;
    d->full = false;
    d->work_left = work;
    *n_few = 0;
    if (d->now.most != most) {
        mp_bound_states_clear(&d->now);
        mp_bound_states_clear(&d->next);
        MP_CHECK(mp_bound_states_init(&d->now, most, d->ranks.words, err));
        MP_CHECK(mp_bound_states_init(&d->next, most, d->ranks.words, err));
    }
    mp_bound_states_empty(&d->now);
    memset(d->set, 0, (size_t)d->ranks.words * sizeof *d->set);
    mp_bound_states_put(&d->now, d->set, 0, 0);
    for (d->at = last; d->at >= 0 && d->now.n && !has_ended(d); d->at--) {
        int64_t least = target;
        go_back(d);
        if (d->full) break;
        for (int i = 0; i < d->now.n; i++) {
            const int64_t ticks = d->now.ticks[i] + ticks_before(d, mp_bound_states_set(&d->now, i));
            if (ticks < least) least = ticks;
        }
        if (least > d->best) {
            d->best = least;
            d->best_at = d->at;
        }
        if (is_narrow(d, d->at) && d->now.n <= DEMAND_FEW_AT_NARROW) ++*n_few;
    }
    d->x->work.n_states += work - d->work_left;
    return MP_OK;
}

const mp_bound_work *mp_bound_demand_work(const mp_bound_demand *d)
{
    return &d->x->work;
}

mp_status mp_bound_demand_is_promising(mp_bound_demand *d, int64_t ticks, bool *promising, mp_error *err)
{
    int n_few;
    const mp_status st =
        follow(d, d->n - 1, ticks + ticks / DEMAND_STEP + 1, DEMAND_FEW_STATES, MP_DEMAND_WORK / 8, &n_few, err);
    *promising = st == MP_OK && (n_few > 0 || !d->full);
    return st;
}

mp_status mp_bound_demand_prefixes(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err)
{
    int n_few;
    for (int i = 1; i < d->n && !has_ended(d); i++) {
        int64_t step = d->before[i] / DEMAND_PREFIX_STEP + 1;
        if (!is_narrow(d, i)) continue;
        for (int k = 0; k < MP_DEMAND_PREFIX_TARGETS && step > 0; k++) {
            const int64_t target = d->before[i] + step;
            MP_CHECK(follow(d, i - 1, target, MP_DEMAND_PREFIX_STATES, DEMAND_PREFIX_WORK, &n_few, err));
            mp_bound_demand_before(d, d->nodes[i], d->best);
            if (d->best < target && !d->full) break;
            step = d->best < target ? step / 2 : 2 * step;
        }
        if (d->before[i] > found->ticks) *found = (mp_bound_found){d->before[i], d->nodes[i]};
    }
    if (found->ticks > *ticks) *ticks = found->ticks;
    return MP_OK;
}

mp_status mp_bound_demand_search(mp_bound_demand *d, int64_t *ticks, mp_bound_found *found, mp_error *err)
{
    int n_few;
    int64_t step = *ticks / DEMAND_STEP + 1;
    for (int k = 0; k < DEMAND_TARGETS && step > 0 && !has_ended(d); k++) {
        const int64_t target = *ticks + step;
        MP_CHECK(follow(d, d->n - 1, target, MP_DEMAND_STATES, MP_DEMAND_WORK, &n_few, err));
        if (d->best > found->ticks) *found = (mp_bound_found){d->best, d->nodes[d->best_at]};
        if (d->best > *ticks) *ticks = d->best;
        /* no state was dropped because of the target, so a higher target proves no more */
        if (d->best < target && !d->full) break;
        step = d->best < target ? step / 2 : 2 * step;
    }
    return MP_OK;
}

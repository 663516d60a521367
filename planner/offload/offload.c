/* offload.c - the rules by which others choose what is copied and what is computed again, to compare with.
 *
 * A rule chooses tensors only; the plan is then made the same way for all. The steps are those of the list. What backward is to
 * compute again runs before the first step that reads it, once, with what that needs in turn. What is copied leaves as soon as
 * it is there, and comes back as late as compute still hides it; a step waits for a copy out where it will have ended, and for
 * a copy back where it is read. Every try is judged by the timeline: a choice is taken only if fewer bytes are over the budget
 * then, which is kinder to the rules than their own estimates.
 */
#include "planner/search/searchers.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/graph/liveness.h"
#include "planner/math/heap.h"
#include "planner/math/tuning.h"
#include "planner/order/updates.h"
#include "planner/order/variant.h"
#include "planner/order/ways.h"
#include "planner/search/search.h"

/* COPIED: unnoticed, so a copy queues behind those before it. WAITED_FOR: the next step waits for the copy out, and the reader
 * for the copy back. AHEAD: the copy back begins so early that compute hides it if the link is free. */
typedef enum choice { KEPT, COPIED, WAITED_FOR, AHEAD, RECOMPUTED } choice;

/* When a storage lives: places in the order. */
typedef struct life {
    int made, early, late; /* its first run; its last reader in forward; its first one from the loss on, -1: none */
    int out_end, back;     /* of a copy: where the copy out is waited for, and before which place it comes back */
} life;

/* A copy that begins before a place in the order. */
typedef struct copy_step {
    int place, turn; /* of one place those of a low turn come first */
    int until;       /* the place that waits for it ... */
    bool is_back;    /* ... as soon as it begins, or of a copy back as soon as its own step does */
    mp_step step;
} copy_step;

typedef struct candidate {
    int storage;
    double rank; /* those of a high rank are looked at first */
} candidate;

typedef struct rule {
    mp_pool *pool; /* owns all arrays */
    mp_search *search;
    const mp_graph *graph;
    mp_ways ways;
    choice *choice; /* per storage */
    int64_t n_tries;

    mp_step *order;  /* all steps but copies and updates; */
    int64_t *begins; /* and when each begins if compute never waits */
    int n;
    life *life;    /* per storage */
    bool *missing; /* per storage: it is to be computed again */
    bool *reruns;  /* per node */
    bool *is_demanded;
    int *demanded;
    mp_heap in_order;
    copy_step *copies; /* by place */
    int *begin_of;     /* per place: the step in `steps` with which it begins, copies first */
    mp_step *steps;    /* with copies */

    int64_t ticks, over; /* of the choices taken: over is the sum of all bytes over the budget; INT64_MAX: no plan */
    size_t n_candidates;
    candidate *candidates;
} rule;

/* ---- the plan of the present choices ---- */

static const mp_alternative *base_of(const rule *x, int node)
{
    return &x->graph->nodes[node].alternatives[0];
}

static const mp_way *way_of(const rule *x, int s)
{
    return &x->ways.ways[x->ways.start[s]];
}

static bool is_copied(const rule *x, int s)
{
    const life *l = &x->life[s];
    return x->choice[s] != KEPT && x->choice[s] != RECOMPUTED && l->late >= 0 && l->made >= 0 &&
           !x->reruns[x->graph->producer[s]];
}

/* Demands the nodes that compute what a node reads and is missing. */
static void demand_reads(rule *x, int node, int *n)
{
    const mp_alternative *base = base_of(x, node);
    for (size_t k = 0; k < base->n_reads; k++) {
        const int s = base->reads[k], producer = x->graph->producer[s];
        if (!x->missing[s] || x->is_demanded[producer]) continue;
        x->is_demanded[producer] = true;
        x->demanded[(*n)++] = producer;
    }
}

static void append(rule *x, int node, bool is_late)
{
    const mp_alternative *base = base_of(x, node);
    for (size_t k = 0; k < base->n_reads; k++) {
        life *l = &x->life[base->reads[k]];
        if (!is_late) l->early = x->n;
        if (is_late && l->late < 0) l->late = x->n;
    }
    for (size_t k = 0; k < base->n_writes; k++) {
        life *l = &x->life[base->writes[k]];
        if (l->made < 0) l->made = l->early = x->n;
        x->missing[base->writes[k]] = false;
    }
    x->begins[x->n + 1] = x->begins[x->n] + base->ticks;
    x->order[x->n++] = (mp_step){.node = node};
}

/* Computes again what a node reads and is missing, and what that reads, in list order. */
static void rerun_inputs(rule *x, int node)
{
    int n = 0;
    demand_reads(x, node, &n);
    for (int k = 0; k < n; k++) demand_reads(x, x->demanded[k], &n); /* the list grows meanwhile */
    for (int k = 0; k < n; k++) mp_heap_push(&x->in_order, x->demanded[k], x->demanded[k]);
    while (x->in_order.n) {
        const int again = mp_heap_pop(&x->in_order);
        x->is_demanded[again] = false;
        x->reruns[again] = true;
        append(x, again, true);
    }
}

static void order_steps(rule *x)
{
    const mp_graph *graph = x->graph;
    bool is_late = false;
    x->n = 0;
    memset(x->missing, 0, graph->n_storages * sizeof *x->missing);
    memset(x->reruns, 0, graph->n_nodes * sizeof *x->reruns);
    for (size_t s = 0; s < graph->n_storages; s++) x->life[s] = (life){.made = -1, .late = -1};
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        if (node->phase == MP_PHASE_UPDATE || node->flags & MP_NODE_OPTIONAL) continue;
        if (!is_late && node->phase != MP_PHASE_FORWARD) {
            is_late = true;
            for (size_t s = 0; s < graph->n_storages; s++) x->missing[s] = x->choice[s] == RECOMPUTED;
        }
        if (is_late) rerun_inputs(x, v);
        append(x, v, is_late);
    }
}

/* Gives every copy out its end, and every copy back its begin: before the last place from which compute hides it and all copies
 * back that come later. */
static void time_copies(rule *x)
{
    int64_t free_at = 0, next = INT64_MAX;
    int end = 0;
    for (int t = 0; t < x->n; t++) {
        const mp_alternative *base = base_of(x, x->order[t].node);
        for (size_t k = 0; k < base->n_writes; k++) {
            const int s = base->writes[k];
            if (!is_copied(x, s) || x->life[s].made != t) continue;
            if (free_at < x->begins[t + 1]) free_at = x->begins[t + 1];
            free_at += base_of(x, way_of(x, s)->out)->ticks;
            while (end < x->n && x->begins[end] < free_at) end++;
            x->life[s].out_end = x->choice[s] == COPIED && end > t + 1 ? end : t + 1;
        }
    }
    for (int t = x->n - 1; t >= 0; t--) {
        const mp_alternative *base = base_of(x, x->order[t].node);
        for (size_t k = 0; k < base->n_reads; k++) {
            const int s = base->reads[k];
            life *l = &x->life[s];
            if (l->late != t || !is_copied(x, s)) continue;
            if (l->out_end > t) l->out_end = t;
            if (next > x->begins[t] || x->choice[s] != COPIED) next = x->begins[t];
            next -= x->graph->nodes[way_of(x, s)->node].alternatives[way_of(x, s)->alternative].ticks;
            int place = t;
            while (x->choice[s] != WAITED_FOR && place > l->out_end && x->begins[place] > next) place--;
            l->back = place > l->out_end ? place : l->out_end;
            if (l->back <= l->early) l->back = l->early + 1;
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const copy_step *x = a, *y = b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place) : (x->turn > y->turn) - (x->turn < y->turn);
}

/* Lists the copies by place: copies out, then copies back in the order of their readers. */
static int list_copies(rule *x)
{
    const int n_storages = (int)x->graph->n_storages;
    int n = 0;
    for (int s = 0; s < n_storages; s++) {
        const life *l = &x->life[s];
        if (!is_copied(x, s)) continue;
        const mp_way *way = way_of(x, s);
        const mp_step back = {.node = way->node, .alternative = way->alternative}, out = {.node = way->out};
        x->copies[n++] =
            (copy_step){.place = l->back, .turn = n_storages + l->late, .until = l->late, .is_back = true, .step = back};
        x->copies[n++] = (copy_step){.place = l->made + 1, .turn = s, .until = l->out_end, .step = out};
    }
    qsort(x->copies, (size_t)n, sizeof *x->copies, by_place);
    return n;
}

/* Puts the copies into the order, and returns the number of all steps. */
static size_t write_steps(rule *x)
{
    const int n_copies = list_copies(x);
    int n = 0;
    for (int t = 0, k = 0; t <= x->n; t++) {
        x->begin_of[t] = t + k;
        while (k < n_copies && x->copies[k].place == t) k++;
        x->begin_of[t + 1] = t + 1 + k;
    }
    for (int t = 0, k = 0; t <= x->n; t++) {
        for (; k < n_copies && x->copies[k].place == t; k++) {
            const copy_step *copy = &x->copies[k];
            const int until = copy->is_back ? x->begin_of[copy->until + 1] - 1 : x->begin_of[copy->until];
            x->steps[n] = copy->step;
            if (until > n + 1) mp_steps_issue(x->steps, n, n + 1, until);
            n++;
        }
        if (t < x->n) x->steps[n++] = x->order[t];
    }
    return (size_t)n;
}

/* Returns by how many bytes all steps together are over the budget; INT64_MAX: another tier is. */
static int64_t bytes_over(const rule *x, const mp_timeline *timeline)
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

/* Makes the plan of the present choices, and judges it. */
static mp_status judge(rule *x, int64_t *ticks, int64_t *over, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n;
    order_steps(x);
    time_copies(x);
    MP_CHECK(mp_updates_place(x->graph, x->steps, write_steps(x), &steps, &n, err));
    MP_CHECK(mp_timeline_build(x->graph, steps, n, &timeline, err));
    x->n_tries++;
    *ticks = timeline->ticks;
    *over = bytes_over(x, timeline);
    return MP_OK;
}

/* True if the rule may try another choice. */
static bool goes_on(const rule *x)
{
    return x->n_tries < MP_OFFLOAD_WORK / (int64_t)x->graph->n_nodes && !mp_search_stopped(x->search);
}

/* Takes a choice if the plan is then less over the budget, or not over it as before, and takes no more ticks than that. */
static mp_status attempt(rule *x, int s, choice wanted, int64_t most_ticks, mp_error *err)
{
    const choice before = x->choice[s];
    int64_t ticks, over;
    if (!goes_on(x)) return MP_OK;
    x->choice[s] = wanted;
    MP_CHECK(judge(x, &ticks, &over, err));
    if (ticks > most_ticks || (over > 0 && over >= x->over)) {
        x->choice[s] = before;
        return MP_OK;
    }
    x->ticks = ticks;
    x->over = over;
    return MP_OK;
}

/* ---- the rules ---- */

/* True if there is a way that copies this storage alone. */
static bool may_copy(const rule *x, int s)
{
    if (!mp_ways_of(&x->ways, s) || mp_storage_outlives_step(&x->graph->storages[s])) return false;
    const mp_way *way = way_of(x, s);
    const mp_alternative *out = base_of(x, way->out), *back = &x->graph->nodes[way->node].alternatives[way->alternative];
    return out->n_reads == 1 && out->reads[0] == s && out->n_writes == 1 && back->n_reads == 1 && back->n_writes == 1;
}

static bool may_rerun(const rule *x, int s)
{
    return mp_storage_is_recomputable(x->graph, s);
}

static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank) - (x->rank > y->rank)
                              : (x->storage > y->storage) - (x->storage < y->storage);
}

/* Ranks the candidates, highest first. */
static void rank(rule *x, double (*rank_of)(const rule *x, int s))
{
    for (size_t k = 0; k < x->n_candidates; k++) x->candidates[k].rank = rank_of(x, x->candidates[k].storage);
    qsort(x->candidates, x->n_candidates, sizeof *x->candidates, by_rank);
}

static double bytes_of(const rule *x, int s)
{
    return (double)x->graph->storages[s].bytes;
}

static double ticks_per_byte(const rule *x, int s)
{
    return (double)base_of(x, x->graph->producer[s])->ticks / bytes_of(x, s);
}

/* Returns how long the storage is not used between forward and backward, beyond what copying it out and back takes. */
static double free_ticks(const rule *x, int s)
{
    if (!may_copy(x, s)) return -1;
    const mp_way *way = way_of(x, s);
    const int64_t copying = base_of(x, way->out)->ticks + x->graph->nodes[way->node].alternatives[way->alternative].ticks;
    return (double)(x->begins[x->life[s].late] - x->begins[x->life[s].early + 1] - copying);
}

/* Copies what it may as long as no step waits for it. */
static mp_status copy_hidden(rule *x, mp_error *err)
{
    for (size_t k = 0; k < x->n_candidates && x->over > 0; k++)
        if (may_copy(x, x->candidates[k].storage)) MP_CHECK(attempt(x, x->candidates[k].storage, COPIED, x->ticks, err));
    return MP_OK;
}

/* What takes the most time per byte to compute is copied, as far as the link allows; what takes the least is computed again. */
static mp_status choose_greedily(rule *x, mp_error *err)
{
    rank(x, ticks_per_byte);
    MP_CHECK(copy_hidden(x, err));
    for (int64_t before = INT64_MAX; x->over < before;) { /* what was in vain may not be when more is gone */
        before = x->over;
        for (size_t k = x->n_candidates; k-- > 0 && x->over > 0;) {
            const int s = x->candidates[k].storage;
            if (x->choice[s] == KEPT && may_rerun(x, s)) MP_CHECK(attempt(x, s, RECOMPUTED, INT64_MAX, err));
        }
    }
    return MP_OK;
}

static double readers_first(const rule *x, int s)
{
    return -x->life[s].late;
}

/* Brings back ahead what a step waits for, first what is read first, as long as it fits. */
static mp_status bring_ahead(rule *x, mp_error *err)
{
    rank(x, readers_first);
    for (size_t k = 0; k < x->n_candidates && !x->over; k++)
        if (x->choice[x->candidates[k].storage] == WAITED_FOR)
            MP_CHECK(attempt(x, x->candidates[k].storage, AHEAD, x->ticks, err));
    return MP_OK;
}

/* Everything is copied; then what fits stays, the largest first. */
static mp_status choose_largest(rule *x, mp_error *err)
{
    rank(x, bytes_of);
    for (size_t k = 0; k < x->n_candidates; k++)
        if (may_copy(x, x->candidates[k].storage)) x->choice[x->candidates[k].storage] = WAITED_FOR;
    MP_CHECK(judge(x, &x->ticks, &x->over, err));
    for (size_t k = 0; k < x->n_candidates && !x->over; k++)
        if (may_copy(x, x->candidates[k].storage)) MP_CHECK(attempt(x, x->candidates[k].storage, KEPT, INT64_MAX, err));
    return bring_ahead(x, err);
}

/* Writes what each node takes to compute again with those of its inputs that are computed again too. */
static void sum_reruns(const rule *x, double *ticks)
{
    for (size_t v = 0; v < x->graph->n_nodes; v++) {
        const mp_alternative *base = base_of(x, (int)v);
        ticks[v] = (double)base->ticks;
        if (x->graph->nodes[v].phase != MP_PHASE_FORWARD) continue;
        for (size_t k = 0; k < base->n_reads; k++)
            if (x->choice[base->reads[k]] == RECOMPUTED) ticks[v] += ticks[x->graph->producer[base->reads[k]]];
    }
}

/* Computes a storage again, or copies it if that takes less than what computing it again does by itself. */
static mp_status choose_cheaper(rule *x, int s, double rerun_ticks, mp_error *err)
{
    const int64_t ticks = x->ticks, over = x->over;
    if (may_copy(x, s)) MP_CHECK(attempt(x, s, WAITED_FOR, ticks + (int64_t)rerun_ticks, err));
    const bool is_copied = x->choice[s] == WAITED_FOR;
    const int64_t copied_ticks = x->ticks, copied_over = x->over;
    if (!may_rerun(x, s)) return MP_OK;
    x->ticks = ticks;
    x->over = over;
    MP_CHECK(attempt(x, s, RECOMPUTED, is_copied ? copied_ticks - 1 : INT64_MAX, err));
    if (x->choice[s] == RECOMPUTED || !is_copied) return MP_OK;
    x->ticks = copied_ticks;
    x->over = copied_over;
    return MP_OK;
}

/* What is free the longest is copied while that is hidden; of the rest what saves the most bytes per second is computed again,
 * or copied if that takes less. If that is not enough, more is copied whatever it takes. */
static mp_status choose_by_saving(rule *x, mp_error *err)
{
    MP_OWNED double *ticks = mp_alloc(x->graph->n_nodes, sizeof *ticks);
    MP_ENSURE(ticks, err, MP_NOMEM, "out of memory for %zu nodes", x->graph->n_nodes);
    rank(x, free_ticks);
    MP_CHECK(copy_hidden(x, err));
    for (int64_t before = INT64_MAX; x->over < before;) {
        before = x->over;
        for (size_t n = x->n_candidates; n > 0 && x->over > 0; n--) {
            size_t best = 0;
            sum_reruns(x, ticks);
            for (size_t k = 0; k < n; k++) {
                candidate *c = &x->candidates[k];
                c->rank = may_rerun(x, c->storage) ? bytes_of(x, c->storage) / (1 + ticks[x->graph->producer[c->storage]]) : 0;
                if (c->rank > x->candidates[best].rank) best = k;
            }
            const candidate chosen = x->candidates[best];
            x->candidates[best] = x->candidates[n - 1]; /* each has its turn once in a round */
            x->candidates[n - 1] = chosen;
            if (x->choice[chosen.storage] != KEPT) continue;
            MP_CHECK(choose_cheaper(x, chosen.storage, ticks[x->graph->producer[chosen.storage]], err));
        }
    }
    rank(x, free_ticks);
    for (size_t k = 0; k < x->n_candidates && x->over > 0; k++)
        if (may_copy(x, x->candidates[k].storage)) MP_CHECK(attempt(x, x->candidates[k].storage, WAITED_FOR, INT64_MAX, err));
    return bring_ahead(x, err);
}

/* ---- searchers ---- */

/* Finds what the loss or backward reads of forward, and may be copied or computed again. */
static void find_candidates(rule *x)
{
    for (int s = 0; s < (int)x->graph->n_storages; s++)
        if (x->life[s].made >= 0 && x->life[s].late >= 0 && x->graph->storages[s].bytes > 0 &&
            (may_copy(x, s) || may_rerun(x, s)))
            x->candidates[x->n_candidates++].storage = s;
}

static void clear(rule *x)
{
    mp_ways_free(&x->ways);
    mp_pool_free(x->pool);
}

static mp_status run(mp_search *search, mp_status (*choose)(rule *x, mp_error *err), mp_error *err)
{
    const mp_graph *graph = mp_search_request(search)->graph;
    const size_t n_nodes = graph->n_nodes, n_storages = graph->n_storages, most = 2 * n_nodes;
    MP_CLEARED_BY(clear) rule x = {.search = search, .graph = graph, .pool = mp_pool_new()};
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    x.choice = mp_pool_alloc(x.pool, n_storages, sizeof *x.choice);
    x.order = mp_pool_alloc(x.pool, most, sizeof *x.order);
    x.begins = mp_pool_alloc(x.pool, most + 1, sizeof *x.begins);
    x.life = mp_pool_alloc(x.pool, n_storages, sizeof *x.life);
    x.missing = mp_pool_alloc(x.pool, n_storages, sizeof *x.missing);
    x.reruns = mp_pool_alloc(x.pool, n_nodes, sizeof *x.reruns);
    x.is_demanded = mp_pool_alloc(x.pool, n_nodes, sizeof *x.is_demanded);
    x.demanded = mp_pool_alloc(x.pool, n_nodes, sizeof *x.demanded);
    x.in_order.items = mp_pool_alloc(x.pool, n_nodes, sizeof *x.in_order.items);
    x.copies = mp_pool_alloc(x.pool, 2 * n_storages, sizeof *x.copies);
    x.begin_of = mp_pool_alloc(x.pool, most + 2, sizeof *x.begin_of);
    x.steps = mp_pool_alloc(x.pool, most + 2 * n_storages, sizeof *x.steps);
    x.candidates = mp_pool_alloc(x.pool, n_storages, sizeof *x.candidates);
    MP_ENSURE(!mp_pool_failed(x.pool), err, MP_NOMEM, "out of memory for %zu storages", n_storages);
    MP_CHECK(mp_ways_find(graph, &x.ways, err));
    MP_CHECK(judge(&x, &x.ticks, &x.over, err));
    find_candidates(&x);
    if (!x.over) return MP_OK; /* keep-all fits, and was offered */
    MP_CHECK(choose(&x, err));
    MP_CHECK(judge(&x, &x.ticks, &x.over, err));
    MP_CHECK(
        mp_updates_place_within(graph, x.steps, write_steps(&x), mp_search_request(search)->budget_bytes, &steps, &n, err));
    return mp_search_offer(search, steps, n, NULL, NULL, err);
}

mp_status mp_run_greedy_offload(mp_search *search, mp_error *err)
{
    return run(search, choose_greedily, err);
}

mp_status mp_run_largest_first(mp_search *search, mp_error *err)
{
    return run(search, choose_largest, err);
}

mp_status mp_run_saved_per_second(mp_search *search, mp_error *err)
{
    return run(search, choose_by_saving, err);
}

mp_status mp_run_copy_only(mp_search *search, mp_error *err)
{
    MP_CLEARED_BY(mp_variant_free) mp_variant once = {0};
    const mp_graph *graph = search->seen.graph;
    MP_CHECK(mp_run_largest_first(search, err));
    MP_CHECK(mp_variant_of(graph, &once, err));
    for (size_t v = 0; v < graph->n_nodes; v++) once.graph.nodes[v].flags |= MP_NODE_ONCE;
    search->seen.graph = &once.graph;
    const mp_status st = mp_run_anneal(search, err);
    search->seen.graph = graph;
    return st;
}

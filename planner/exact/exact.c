/* exact.c - the searcher `exact`: finds the fastest plan of a tiny graph within a budget by A* over all schedules (Hart,
 * Nilsson and Raphael 1968).
 *
 * A state describes a schedule between two steps by the set of nodes that have run (its stage) and the set of live storages.
 * Its cost is the ticks of its steps beyond one run of each node in its fastest alternative. So plans with little recomputation
 * are tried first. The search expands states until one is complete, none is left, or there are too many.
 *
 * A storage is evicted only when its memory is needed. Evicting a live storage costs nothing at any time, because its instance
 * simply ends at its last read. Two consequences follow. First, a state dominates another state of the same stage if it costs
 * no more and its live storages contain those of the other. Second, if a step does not fit, only minimal sets of evictions need
 * to be tried. An input of the step may also end at the step itself, so that an output takes over its memory.
 *
 * States are stored by stage. A hash table of stages holds, per stage, the list of states that no other state dominates.
 *
 * Every run chooses its own alternative, including algorithms (graph.h). If no node uses two algorithms, the result is the
 * optimum. Otherwise it is a lower bound, and the plan uses one algorithm for all runs of a node (algorithms.h). */
#include "planner/search/searchers.h"

#include <limits.h>

#include "estimator/base/memory.h"
#include "planner/exact/exact.h"
#include "planner/math/heap.h"
#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"
#include "planner/search/algorithms.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    EXACT_LOOK = 256, /* search states between two checks of the clock; more: faster, stops later */
};

typedef struct mp_exact_state {
    /* first_live: the storages that are live right after the state's step. live: the storages that are live after the safe
     * steps (mp_exact_is_safe) that follow this step */
    mp_exact_set first_live, live;
    int64_t extra_ticks;
    /* stage: index of the state's stage, the set of nodes that have run. parent: index of the state before this step; -1 for
     * the first state */
    int stage, parent;
    const mp_exact_alternative *alternative;
    bool dominated;
} mp_exact_state;

typedef struct mp_exact_entry { /* a state of a stage */
    mp_exact_set live;
    int64_t extra_ticks;
    int state;
} mp_exact_entry;

typedef struct state_table {
    mp_exact_state *states;
    mp_exact_stage *stages;
    mp_exact_entry *entries;
    int *slots; /* hash table from a set of nodes to 1 + the index of its stage; at most half full */
    /* the states that still have to be expanded, by their lower bound on ticks, then by the number of nodes that have not
     * run */
    mp_heap open;
    /* amount of work done: the number of live sets found after steps (`visit`), plus one per hundred compared states */
    int64_t n_work;
    size_t n, capacity, n_stages, stages_capacity, n_slots, n_entries, entries_capacity, open_capacity;
} state_table;

/* a zeroed table is allowed */
static void free_states(state_table *t)
{
    mp_free(t->states);
    mp_free(t->stages);
    mp_free(t->entries);
    mp_free(t->slots);
    mp_free(t->open.items);
}

/* Returns the slot of the hash table for the stage in which exactly these nodes have run. If the table does not contain the
 * stage, returns a free slot. */
static size_t slot_of(const state_table *t, mp_exact_set ran)
{
    size_t slot = (size_t)mp_splitmix_mix(ran) & (t->n_slots - 1);
    while (t->slots[slot] && t->stages[t->slots[slot] - 1].ran != ran) slot = (slot + 1) & (t->n_slots - 1);
    return slot;
}

static mp_status widen(state_table *t, mp_error *err)
{
    enum { LEAST = 1024 };
    const size_t n = t->n_slots ? 2 * t->n_slots : LEAST;
    int *slots = mp_alloc(n, sizeof *slots);
    if (!slots) return MP_FAIL(err, MP_NOMEM, "out of memory for %zu stages", n / 2);
    mp_free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (size_t k = 0; k < t->n_stages; k++) slots[slot_of(t, t->stages[k].ran)] = (int)k + 1;
    return MP_OK;
}

/* Finds the stage in which exactly the nodes of `ran` have run. If the table does not contain this stage, adds it, which may
 * move all stages in memory. MP_NOMEM. O(1), or the time of one mp_exact_stage_of. */
static mp_status find_stage(state_table *t, const mp_exact_graph *x, mp_exact_set ran, int *out, mp_error *err)
{
    if (2 * (t->n_stages + 1) > t->n_slots) MP_CHECK(widen(t, err));
    const size_t slot = slot_of(t, ran);
    if (!t->slots[slot]) {
        MP_ENSURE(mp_grow(&t->stages, &t->stages_capacity, t->n_stages + 1, sizeof *t->stages), err, MP_NOMEM,
                  "out of memory for %zu stages", t->n_stages);
        mp_exact_stage_of(x, ran, &t->stages[t->n_stages]);
        t->slots[slot] = (int)++t->n_stages;
    }
    *out = t->slots[slot] - 1;
    return MP_OK;
}

/* True if some state of the stage dominates the new state s: it contains all live storages of s, and takes no more ticks.
 * Otherwise removes the states that s dominates. */
static bool is_dominated(state_table *t, const mp_exact_state *s)
{
    mp_exact_stage *stage = &t->stages[s->stage];
    if (!stage->n) return false;
    mp_exact_entry *entries = t->entries + stage->first;
    t->n_work += (int64_t)(stage->n / 100); /* in n_work, a hundred compared states count as much as one live set */
    for (size_t i = 0; i < stage->n; i++)
        if (!(s->live & ~entries[i].live) && entries[i].extra_ticks <= s->extra_ticks) return true;
    for (size_t i = 0; i < stage->n;) {
        if ((entries[i].live & ~s->live) || s->extra_ticks > entries[i].extra_ticks) {
            i++;
            continue;
        }
        t->states[entries[i].state].dominated = true;
        entries[i] = entries[--stage->n];
    }
    return false;
}

/* Makes space for one more state of a stage. If the stage's block of the array `entries` is full, moves the stage's states to a
 * new block of twice the size, at the end of the array. */
static mp_status lengthen(state_table *t, mp_exact_stage *stage, mp_error *err)
{
    enum { LEAST = 4 };
    const size_t capacity = stage->capacity ? 2 * stage->capacity : LEAST;
    if (stage->n < stage->capacity) return MP_OK;
    if (!mp_grow(&t->entries, &t->entries_capacity, t->n_entries + capacity, sizeof *t->entries))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu states", t->n);
    for (size_t i = 0; i < stage->n; i++) t->entries[t->n_entries + i] = t->entries[stage->first + i];
    stage->first = t->n_entries;
    stage->capacity = capacity;
    t->n_entries += capacity;
    return MP_OK;
}

/* Adds a state to its stage and to the queue, unless another state of the stage dominates it. MP_NOMEM. O(states of the
 * stage). */
static mp_status reach(state_table *t, const mp_exact_graph *x, const mp_exact_state *state, int64_t least_extra, mp_error *err)
{
    mp_exact_stage *stage = &t->stages[state->stage];
    const int k = (int)t->n, left = __builtin_popcountll(x->all & ~stage->ran);
    if (is_dominated(t, state)) return MP_OK;
    MP_CHECK(lengthen(t, stage, err));
    MP_ENSURE(mp_grow(&t->states, &t->capacity, t->n + 1, sizeof *t->states) &&
                  mp_grow(&t->open.items, &t->open_capacity, t->open.n + 1, sizeof *t->open.items),
              err, MP_NOMEM, "out of memory for %zu states", t->n);
    t->states[t->n++] = *state;
    t->entries[stage->first + stage->n++] = (mp_exact_entry){state->live, state->extra_ticks, k};
    /* key of the queue: states with equal ticks are sorted by the number of nodes left, then newest first */
    mp_heap_push(&t->open, (state->extra_ticks + least_extra) * (MP_EXACT_BITS + 1) + left, INT_MAX - k);
    return MP_OK;
}

/* Removes the state with the smallest lower bound from the queue and returns it; -1: the queue is empty. O(log states). */
static int pop_state(state_table *t)
{
    while (t->open.n) {
        const int k = INT_MAX - mp_heap_pop(&t->open);
        if (!t->states[k].dominated) return k;
    }
    return -1;
}

/* a limit on ticks, so that the keys of the queue, ticks times 65 plus a number of nodes, do not overflow */
static const int64_t most_ticks = INT64_MAX / (4 * MP_EXACT_BITS);

typedef struct exact {
    mp_search *search;
    mp_exact_graph graph;
    state_table table;
    int64_t most_extra, most_states, most_work;
    bool gave_up; /* true: a state could not be stored for lack of space, so the search proves nothing */
    /* fields for the step that is being tried: */
    int from, to; /* from: index of the state before the step; to: index of the stage after the step */
    const mp_exact_alternative *alternative;
    mp_status st;
    mp_error *err;
} exact;

static mp_status next_stage(exact *x, int stage, const mp_exact_alternative *alternative, int *next)
{
    return find_stage(&x->table, &x->graph, x->table.stages[stage].ran | mp_exact_one(alternative->node), next, x->err);
}

/* Extends a schedule by safe steps (mp_exact_is_safe) until there is none. Appends them to `steps` (may be NULL). */
static mp_status take_safe_steps(exact *x, int *stage, mp_exact_set *live, mp_step *steps, size_t *n)
{
    const mp_exact_graph *graph = &x->graph;
    for (int v = 0; v < graph->n_nodes; v++) {
        const mp_exact_node *node = &graph->nodes[v];
        for (size_t k = 0; k < node->n_alternatives && !(x->table.stages[*stage].ran & mp_exact_one(v)); k++) {
            int next;
            if (!mp_exact_can_run(graph, &x->table.stages[*stage], *live, &node->alternatives[k])) continue;
            MP_CHECK(next_stage(x, *stage, &node->alternatives[k], &next));
            if (!mp_exact_is_safe(graph, &x->table.stages[*stage], &x->table.stages[next], *live, &node->alternatives[k], live))
                continue;
            if (steps) steps[(*n)++] = (mp_step){.node = v, .alternative = (int)k};
            *stage = next;
            v = -1; /* after a safe step, the loop starts again at the first node, because steps of earlier nodes may now be
                       safe */
            break;
        }
    }
    return MP_OK;
}

/* Adds the state after the current step in which exactly the storages `live` are live. */
static bool visit(void *data, mp_exact_set live)
{
    exact *x = data;
    state_table *t = &x->table;
    const mp_exact_graph *graph = &x->graph;
    const mp_exact_alternative *alternative = x->alternative;
    const bool again = t->stages[t->states[x->from].stage].ran & mp_exact_one(alternative->node);
    mp_exact_state next = {.first_live = live, .live = live, .stage = x->to, .parent = x->from, .alternative = alternative};
    next.extra_ticks =
        t->states[x->from].extra_ticks + alternative->ticks - (again ? 0 : graph->nodes[alternative->node].least_ticks);
    t->n_work++;
    if (t->n >= (size_t)x->most_states || t->n_stages >= MP_EXACT_STAGES || t->n_work >= x->most_work) {
        x->gave_up = true;
        return false;
    }
    if (mp_exact_least_extra(graph, &t->stages[x->to], live) < 0) return true;
    x->st = take_safe_steps(x, &next.stage, &next.live, NULL, NULL);
    if (x->st != MP_OK) return false;
    const int64_t least = mp_exact_least_extra(graph, &t->stages[next.stage], next.live);
    if (least < 0 || next.extra_ticks + least >= x->most_extra) return true;
    if (next.extra_ticks + least > most_ticks) {
        x->gave_up = true;
        return true;
    }
    x->st = reach(t, graph, &next, least, x->err);
    return x->st == MP_OK;
}

static mp_status expand(exact *x, int k)
{
    mp_status st = MP_OK;
    const int stage = x->table.states[k].stage;
    const mp_exact_set live = x->table.states[k].live;
    x->from = k;
    for (mp_exact_set active = x->table.stages[stage].active; active && !x->gave_up;) {
        const mp_exact_node *node = &x->graph.nodes[mp_bits_take(&active)];
        for (size_t i = 0; i < node->n_alternatives && !x->gave_up; i++) {
            x->alternative = &node->alternatives[i];
            if (!mp_exact_can_run(&x->graph, &x->table.stages[stage], live, x->alternative)) continue;
            MP_CHECK(next_stage(x, stage, x->alternative, &x->to));
            /* copies of the two stages, because safe steps add stages and may move the array of stages in memory */
            const mp_exact_stage before = x->table.stages[stage], after = x->table.stages[x->to];
            mp_exact_step(&x->graph, &before, &after, live, x->alternative, visit, x);
            MP_CHECK(x->st);
        }
    }
    return st;
}

static mp_status first_state(exact *x)
{
    mp_exact_state first = {.parent = -1, .first_live = x->graph.lasting};
    MP_CHECK(find_stage(&x->table, &x->graph, 0, &first.stage, x->err));
    first.live = first.first_live &= x->table.stages[first.stage].useful;
    MP_CHECK(take_safe_steps(x, &first.stage, &first.live, NULL, NULL));
    return reach(&x->table, &x->graph, &first, 0, x->err);
}

/* Offers the plan that leads from the first state to state k. Each state stores only its own step, so the safe steps between
 * the states are computed again. */
static mp_status offer(exact *x, int k)
{
    state_table *t = &x->table;
    size_t n = 0, n_way = 0, most = 0;
    int64_t peak_bytes, ticks;
    const int64_t extra_ticks = t->states[k].extra_ticks;
    for (int s = k; s >= 0; s = t->states[s].parent) most++;
    MP_OWNED int *way = mp_alloc(most, sizeof *way);
    MP_OWNED mp_step *steps = mp_alloc(most + (size_t)x->graph.n_nodes, sizeof *steps);
    MP_ENSURE(way && steps, x->err, MP_NOMEM, "out of memory for %zu steps", most);
    for (int s = k; s >= 0; s = t->states[s].parent) way[n_way++] = s;
    while (n_way > 0) {
        const mp_exact_state *s = &t->states[way[--n_way]];
        int stage = 0; /* index of the stage in which no node has run yet */
        mp_exact_set live = s->first_live;
        if (s->parent >= 0) {
            steps[n++] = (mp_step){.node = s->alternative->node, .alternative = s->alternative->number};
            MP_CHECK(next_stage(x, t->states[s->parent].stage, s->alternative, &stage));
        }
        MP_CHECK(take_safe_steps(x, &stage, &live, steps, &n));
    }
    MP_CHECK(mp_search_offer(x->search, steps, n, &peak_bytes, &ticks, x->err));
    const int64_t proved = x->graph.least_ticks + extra_ticks;
    /* The plan must use one algorithm for all runs of a node, but the search may use several. So the plan may take longer than
     * the search's result, which is still a lower bound */
    MP_ENSURE(ticks >= proved && (ticks == proved || mp_graph_has_algorithms(x->graph.graph)) &&
                  peak_bytes <= mp_search_request(x->search)->budget_bytes,
              x->err, MP_INVALID, "the exact search proved a better value than its plan has: %lld ticks and %lld bytes",
              (long long)ticks, (long long)peak_bytes);
    return MP_OK;
}

static mp_status search(exact *x)
{
    int k;
    int64_t known = mp_search_best_ticks(x->search);
    bool found = false;
    x->most_extra = known == INT64_MAX ? INT64_MAX : known - x->graph.least_ticks;
    MP_CHECK(first_state(x));
    for (int64_t n = 1; !x->gave_up && !found && (k = pop_state(&x->table)) >= 0; n++) {
        found = !(x->graph.all & ~x->table.stages[x->table.states[k].stage].ran);
        if (found) {
            known = x->graph.least_ticks + x->table.states[k].extra_ticks;
            MP_CHECK(offer(x, k));
        } else {
            MP_CHECK(expand(x, k));
        }
        if (n % EXACT_LOOK) continue;
        mp_search_count_moves(x->search, EXACT_LOOK);
        x->gave_up = x->gave_up || mp_search_stopped(x->search);
    }
    /* the search runs copies in order, so a plan that overlaps copies with compute may be faster than its result */
    if (x->graph.graph->has_copies) return MP_OK;
    if (found || (!x->gave_up && known < INT64_MAX))
        mp_search_claim_bound(x->search, known);
    else if (!x->gave_up)
        mp_search_claim_infeasible(x->search);
    return MP_OK;
}

static void end_search(exact *x)
{
    free_states(&x->table);
    mp_exact_graph_free(&x->graph);
}

mp_status mp_run_exact(mp_search *found, mp_error *err)
{
    const mp_request *request = mp_search_request(found);
    MP_CLEARED_BY(end_search) exact x = {.search = found, .err = err};
    const int64_t moves = mp_search_moves(found);
    x.most_states = moves < MP_EXACT_STATES / MP_EXACT_STATES_PER_MOVE ? moves * MP_EXACT_STATES_PER_MOVE : MP_EXACT_STATES;
    x.most_work = x.most_states * MP_EXACT_WORK_PER_STATE;
    MP_CHECK(
        mp_exact_graph_read(request->graph, request->budget_bytes, request->tier_bytes, request->keep_order, &x.graph, err));
    return search(&x);
}

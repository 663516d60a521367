/* oracle_exact.c - Dijkstra's algorithm over states: completed nodes, live storages, and pending steps on other channels. */
#include "tests/oracles/oracle_exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/oracles/oracle_states.h"
#include "tests/oracles/random_graph.h"
#include <cmocka.h>

enum { MOST_STATES = 2000000, MOST_BESIDE = 200000 };

struct oracle {
    const mp_graph *graph;
    int64_t room[MP_MAX_TIERS]; /* the budgets minus static bytes */
    int64_t beside;             /* budget of all tiers except the device together, minus static bytes */
    bool any_order, issues;
    int bit[1024];    /* bit of each storage; -1: always live */
    int writer[1024]; /* writer of each storage (see lone_writer) */
    int storage[64];  /* storage of each bit */
    uint64_t readers[64], adders[64], certain[64],
        makers[64]; /* sets of nodes per bit; certain: nodes that read it in all alternatives */
    bool remade[64];
    uint64_t repeatable, returning, optional; /* nodes that may compute again; that may return outputs; that need not run */
    uint64_t backward, updates[1024];         /* nodes that update each storage */
    int64_t least[64];
    int n_bits;
    struct oracle_states t;
};

static uint64_t one(int i)
{
    return UINT64_C(1) << i;
}

static bool in_list(const int *list, size_t n, int s)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == s) return true;
    return false;
}

static int64_t bytes_of(const mp_storage *storage, int tier)
{
    return storage->tier == tier ? storage->bytes : 0;
}

static bool is_beside(const mp_alternative *alternative)
{
    return alternative->channel > MP_CHANNEL_SECOND_STREAM;
}

static void read_graph(struct oracle *o)
{
    const mp_graph *graph = o->graph;
    int n = 0;
    assert_true(graph->n_nodes <= 64 && graph->n_storages <= 1024);
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        bool always = mp_storage_is_static(storage);
        o->bit[s] = always ? -1 : n;
        o->writer[s] = lone_writer(graph, s);
        if (always) o->room[storage->tier] -= storage->bytes;
        if (always && storage->tier) o->beside -= storage->bytes;
        if (always) continue;
        assert_true(n < 64);
        o->storage[n++] = s;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        if (node->phase == MP_PHASE_FORWARD && !(node->flags & (MP_NODE_ONCE | MP_NODE_OPTIONAL))) o->repeatable |= one(v);
        if (node->flags & MP_NODE_OPTIONAL) o->optional |= one(v);
        if (node->phase == MP_PHASE_LOSS || node->phase == MP_PHASE_BACKWARD) o->backward |= one(v);
        o->least[v] = INT64_MAX;
        for (size_t k = 0; k < node->n_alternatives; k++) {
            const mp_alternative *f = &node->alternatives[k];
            if (f->ticks < o->least[v] && !f->returns) o->least[v] = f->ticks;
            if (f->returns) o->returning |= one(v);
            assert_true(f->returns || f->n_adds == node->alternatives[0].n_adds);
            for (size_t i = 0; i < f->n_adds; i++) {
                assert_true(in_list(node->alternatives[0].adds, node->alternatives[0].n_adds, f->adds[i]));
                if (o->bit[f->adds[i]] >= 0) o->adders[o->bit[f->adds[i]]] |= one(v);
            }
            for (size_t i = 0; i < f->n_writes; i++) {
                int s = f->writes[i];
                if (o->bit[s] >= 0) o->makers[o->bit[s]] |= one(v);
                if (graph->storages[s].kind != MP_KIND_PARAMETER || node->phase != MP_PHASE_UPDATE) continue;
                assert_true(k == 0 || in_list(node->alternatives[0].writes, node->alternatives[0].n_writes, s));
                o->updates[s] |= one(v);
            }
            for (size_t i = 0; i < f->n_reads; i++) {
                int b = o->bit[f->reads[i]];
                bool certain = !(node->flags & MP_NODE_OPTIONAL);
                for (size_t j = 0; j < node->n_alternatives; j++)
                    certain = certain && in_list(node->alternatives[j].reads, node->alternatives[j].n_reads, f->reads[i]);
                if (b >= 0) o->readers[b] |= one(v);
                if (b >= 0 && certain) o->certain[b] |= one(v);
            }
        }
    }
    for (int v = 0; v < (int)graph->n_nodes; v++)
        if ((o->optional & one(v)) || (o->issues && is_beside(&graph->nodes[v].alternatives[0])))
            o->least[v] = 0; /* all its ticks count as extra */
    o->n_bits = n;
    for (int b = 0; b < n; b++) {
        o->makers[b] |= o->adders[b];
        o->remade[b] = (o->makers[b] & (o->repeatable | o->returning)) != 0;
    }
}

/* Returns whether a carried gradient has its first contribution. From then on it lives to the end, and its bit is no longer
 * set. */
static bool begun(const struct oracle *o, uint64_t ran, int b)
{
    return o->graph->storages[o->storage[b]].carried && (ran & o->makers[b]);
}

static bool may_run(const struct oracle *o, const struct state *at, int v, const mp_alternative *alternative)
{
    const mp_graph *graph = o->graph;
    const mp_node *node = &graph->nodes[v];
    if (at->ran & one(v)) {
        if (!(o->repeatable & one(v)) && !alternative->returns) return false;
    } else if (alternative->returns) {
        return false;
    } else if (o->optional & one(v)) {
        /* runs whenever its operands are live */
    } else if (!o->any_order && node->phase != MP_PHASE_UPDATE) {
        for (int u = 0; u < v; u++) {
            mp_phase other = graph->nodes[u].phase;
            bool same = other != MP_PHASE_UPDATE && (other == MP_PHASE_FORWARD) == (node->phase == MP_PHASE_FORWARD);
            if (same && !(at->ran & one(u)) && !(o->optional & one(u))) return false;
        }
    }
    if (node->phase == MP_PHASE_UPDATE && graph->fuse == MP_FUSE_NONE && (o->backward & ~at->ran)) return false;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        int s = alternative->reads[i], b = o->bit[s];
        if (b < 0) {
            const bool reads_old = node->phase == MP_PHASE_UPDATE && graph->fuse == MP_FUSE_FORWARD;
            if (!reads_old && o->writer[s] >= 0 && !(at->ran & one(o->writer[s]))) return false;
            for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1] && !reads_old; a++)
                if (!(at->ran & one(graph->adders[a]))) return false;
            if (node->phase == MP_PHASE_UPDATE || !o->updates[s]) continue;
            if (graph->fuse == MP_FUSE_FORWARD ? (o->updates[s] & ~at->ran) != 0 : (o->updates[s] & at->ran) != 0) return false;
            continue;
        }
        if (begun(o, at->ran, b)) {
            if (o->adders[b] & ~at->ran) return false;
        } else {
            if (!(at->live & one(b))) return false;
            if (!graph->storages[s].carried && (o->adders[b] & ~at->ran)) return false;
        }
    }
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int s = alternative->adds[i];
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1] && graph->adders[a] != v; a++)
            if (!graph->storages[s].any_sum_order && !(at->ran & one(graph->adders[a]))) return false;
    }
    return true;
}

/* Return whether any node may, or certainly will, use the present instance of a storage after the nodes `ran`. */
static bool may_use(const struct oracle *o, uint64_t ran, int b)
{
    return ((o->readers[b] & (~ran | o->repeatable | o->returning)) | (o->adders[b] & ~ran)) != 0;
}
static bool must_use(const struct oracle *o, uint64_t ran, int b)
{
    return !o->remade[b] && ((o->certain[b] | o->adders[b]) & ~ran) && !o->graph->storages[o->storage[b]].carried;
}

/* Returns false if there are too many states. */
static bool reach(struct oracle *o, struct state s)
{
    return oracle_states_reach(&o->t, s, (int)o->graph->n_nodes, o->issues ? MOST_BESIDE : MOST_STATES);
}

/* ---- one step ---- */

/* Returns the bits of the storages in a list. */
static uint64_t set_of(const struct oracle *o, const int *list, size_t n)
{
    uint64_t set = 0;
    for (size_t i = 0; i < n; i++)
        if (o->bit[list[i]] >= 0) set |= one(o->bit[list[i]]);
    return set;
}
static uint64_t changed_by(const struct oracle *o, const mp_alternative *f)
{
    return set_of(o, f->writes, f->n_writes) | set_of(o, f->adds, f->n_adds);
}

static const mp_alternative *does(const struct oracle *o, const struct flight *f)
{
    return &o->graph->nodes[f->node].alternatives[f->alternative];
}

/* Returns whether a pending step and another step use the same static storage, and one of them writes it. */
static bool shares_static(const struct oracle *o, const mp_alternative *f, const mp_alternative *step)
{
    for (int s = 0; s < (int)o->graph->n_storages; s++) {
        const bool f_writes = in_list(f->writes, f->n_writes, s), step_writes = in_list(step->writes, step->n_writes, s);
        if (o->bit[s] >= 0 || !(f_writes || step_writes)) continue;
        if ((f_writes || in_list(f->reads, f->n_reads, s)) && (step_writes || in_list(step->reads, step->n_reads, s)))
            return true;
    }
    return false;
}

/* Returns whether a step may run during the pending steps. */
static bool leaves_alone(const struct oracle *o, const struct state *at, const mp_alternative *step)
{
    const uint64_t changes = changed_by(o, step), reads = set_of(o, step->reads, step->n_reads);
    for (int i = 0; i < at->n_flights; i++) {
        const mp_alternative *f = does(o, &at->flights[i]);
        if (changes & (changed_by(o, f) | set_of(o, f->reads, f->n_reads))) return false;
        if ((reads & changed_by(o, f)) && f->channel != step->channel)
            return false; /* on the same channel it runs afterwards */
        if (f->channel != step->channel && shares_static(o, f, step)) return false;
    }
    return true;
}

/* Advances time by `ticks` and removes completed steps, which need no wait. */
static void pass(struct state *s, int64_t ticks)
{
    int n = 0;
    for (int i = 0; i < s->n_flights; i++) {
        s->flights[i].left -= (int)ticks;
        if (s->flights[i].left > 0) s->flights[n++] = s->flights[i];
    }
    s->n_flights = n;
}

/* Issues a step after the pending ones of its channel. */
static void issue(const struct oracle *o, struct state *s, int v, int alternative)
{
    const mp_alternative *step = &o->graph->nodes[v].alternatives[alternative];
    int left = 0, i = s->n_flights++;
    assert_true(i < MOST_FLIGHTS && !step->n_in_place);
    for (int k = 0; k < i; k++)
        if (does(o, &s->flights[k])->channel == step->channel && s->flights[k].left > left) left = s->flights[k].left;
    for (; i > 0 && s->flights[i - 1].node > v; i--) s->flights[i] = s->flights[i - 1];
    s->flights[i] = (struct flight){(short)v, (short)alternative, left + (int)step->ticks};
    pass(s, 0);
}

/* Returns the bytes of a tier during the step; `begins` and `dies` are the storages that begin and end in it. */
static int64_t step_bytes(const struct oracle *o, const struct state *at, const mp_alternative *alternative, uint64_t begins,
                          uint64_t dies, int tier)
{
    int64_t bytes = tier ? 0 : alternative->workspace_bytes;
    uint64_t used_from = 0, used_to = 0, held = 0;
    for (int i = 0; i < at->n_flights; i++) {
        const mp_alternative *f = does(o, &at->flights[i]);
        held |= changed_by(o, f) | set_of(o, f->reads, f->n_reads);
        bytes += tier ? 0 : f->workspace_bytes;
    }
    for (int b = 0; b < o->n_bits; b++) {
        const mp_storage *storage = &o->graph->storages[o->storage[b]];
        if (begun(o, at->ran, b) || ((at->live | held) & one(b))) bytes += bytes_of(storage, tier);
        if (begins & one(b)) bytes += bytes_of(storage, tier);
        if (!at->ran && storage->carried && !(at->live & one(b)))
            bytes += bytes_of(storage, tier); /* step 0 always includes carried gradients */
    }
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        int from = alternative->in_place[i].from, to = alternative->in_place[i].to, f = o->bit[from], t = o->bit[to];
        if (f < 0 || t < 0 || !(dies & one(f)) || !(begins & one(t)) || (used_from & one(f)) || (used_to & one(t)) ||
            (held & one(f)))
            continue;
        if (o->graph->storages[from].bytes < o->graph->storages[to].bytes) continue;
        used_from |= one(f);
        used_to |= one(t);
        bytes -= bytes_of(&o->graph->storages[to], tier);
    }
    return bytes;
}

/* Runs an alternative in all ways: each storage that it reads or begins is kept or ends. */
static bool run(struct oracle *o, int k, int v, int alternative_number)
{
    const struct state at = o->t.states[k];
    const mp_alternative *alternative = &o->graph->nodes[v].alternatives[alternative_number];
    uint64_t begins = 0, touched = 0, ran = at.ran | one(v), choices[16], kept = 0;
    int n_choices = 0;
    if (!may_run(o, &at, v, alternative) || !leaves_alone(o, &at, alternative)) return true;
    for (size_t i = 0; i < alternative->n_writes; i++)
        if (o->bit[alternative->writes[i]] >= 0) begins |= one(o->bit[alternative->writes[i]]);
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int b = o->bit[alternative->adds[i]];
        if (b >= 0 && !(at.ran & o->adders[b])) begins |= one(b);
        if (b >= 0) touched |= one(b);
    }
    if (begins & at.live) return true; /* the old instance was kept without a use */
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (o->bit[alternative->reads[i]] >= 0) touched |= one(o->bit[alternative->reads[i]]);
    touched |= begins;
    for (int b = 0; b < o->n_bits; b++) {
        if (!(touched & one(b)) || begun(o, ran, b)) continue;
        if (must_use(o, ran, b))
            kept |= one(b);
        else if (may_use(o, ran, b)) {
            assert_true(n_choices < 16);
            choices[n_choices++] = one(b);
        }
    }
    for (int choice = 0; choice < 1 << n_choices; choice++) {
        uint64_t stay = kept;
        for (int c = 0; c < n_choices; c++)
            if (choice >> c & 1) stay |= choices[c];
        struct state next = at;
        int64_t bytes = step_bytes(o, &at, alternative, begins, at.live & touched & ~stay, 0);
        bool fits = bytes <= o->room[0];
        int64_t beside = 0;
        for (int m = 1; m < (int)o->graph->n_tiers && fits; m++) {
            const int64_t there = step_bytes(o, &at, alternative, begins, at.live & touched & ~stay, m);
            fits = there <= o->room[m] && (beside += there) <= o->beside;
        }
        if (!fits) continue;
        next.ran = ran;
        next.live = (at.live & ~touched) | stay;
        next.parent = k;
        next.step = (mp_step){.node = v, .alternative = alternative_number};
        next.settled = false;
        next.peak = bytes > at.peak ? bytes : at.peak;
        next.extra -= at.ran & one(v) ? 0 : o->least[v];
        if (o->issues && is_beside(alternative)) {
            issue(o, &next, v, alternative_number);
        } else {
            next.extra += alternative->ticks;
            pass(&next, alternative->ticks);
        }
        if (!reach(o, next)) return false;
    }
    return true;
}

/* Waits for each of the pending steps in turn. */
static bool wait(struct oracle *o, int k)
{
    for (int i = 0; i < o->t.states[k].n_flights; i++) {
        struct state next = o->t.states[k];
        next.extra += next.flights[i].left;
        next.parent = k;
        next.step = (mp_step){.node = -1};
        next.settled = false;
        pass(&next, next.flights[i].left);
        if (!reach(o, next)) return false;
    }
    return true;
}

/* Adds an initial state for each choice of carried gradients read before their first contribution. */
static void begin(struct oracle *o)
{
    uint64_t carried = 0;
    for (int s = 0; s < (int)o->graph->n_storages; s++) {
        int b = o->bit[s];
        if (b >= 0 && o->graph->storages[s].carried && o->readers[b]) carried |= one(b);
    }
    for (uint64_t live = carried;; live = (live - 1) & carried) {
        reach(o, (struct state){.live = live, .parent = -1, .step = {.node = -1}});
        if (!live) break;
    }
}

static bool is_under_way(const struct state *s, mp_step step)
{
    for (int i = 0; i < s->n_flights; i++)
        if (s->flights[i].node == step.node && s->flights[i].alternative == step.alternative) return true;
    return false;
}

/* Returns the steps to a state. Each issued step is awaited at the first step where it is no longer pending. */
static mp_step *steps_to(const struct oracle *o, int found, size_t *n)
{
    int *way = malloc(sizeof *way), n_way = 0;
    for (int k = found; o->t.states[k].parent >= 0; k = o->t.states[k].parent) n_way++;
    way = realloc(way, ((size_t)n_way + 1) * sizeof *way);
    mp_step *steps = malloc(((size_t)n_way + 1) * sizeof *steps);
    assert_non_null(way);
    assert_non_null(steps);
    for (int k = found, i = n_way; i > 0; k = o->t.states[k].parent) way[--i] = k;
    *n = 0;
    for (int i = 0; i < n_way; i++) {
        if (o->t.states[way[i]].step.node < 0) continue;
        int until = (int)*n + 1;
        mp_step *step = &steps[(*n)++];
        *step = o->t.states[way[i]].step;
        for (int j = i; is_under_way(&o->t.states[way[j]], *step); until += o->t.states[way[++j]].step.node >= 0) continue;
        const bool is_issued = o->issues && is_beside(&o->graph->nodes[step->node].alternatives[step->alternative]);
        if (until > (int)*n || is_issued) step->until = until;
    }
    free(way);
    return steps;
}

static bool search(const mp_graph *graph, const int64_t *budgets, int64_t beside_bytes, bool any_order, bool issues,
                   int64_t *ticks, mp_step **steps, size_t *n, int64_t *peak_bytes)
{
    struct oracle *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->graph = graph;
    memcpy(o->room, budgets, sizeof o->room);
    o->beside = beside_bytes;
    o->any_order = any_order;
    o->issues = issues;
    read_graph(o);
    begin(o);
    const uint64_t all = graph->n_nodes == 64 ? ~UINT64_C(0) : one((int)graph->n_nodes) - 1;
    bool complete = true;
    int found = -1;
    while (o->t.n_heap && complete && found < 0) {
        int k = oracle_states_pop(&o->t);
        if (o->t.states[k].settled) continue;
        o->t.states[k].settled = true;
        if (!(all & ~o->t.states[k].ran & ~o->optional) && !o->t.states[k].n_flights) found = k;
        if (found < 0) complete = wait(o, k);
        for (int v = 0; v < (int)graph->n_nodes && complete && found < 0; v++)
            for (int f = 0; f < (int)graph->nodes[v].n_alternatives && complete; f++) complete = run(o, k, v, f);
    }
    *steps = NULL;
    *n = 0;
    if (complete) *ticks = -1;
    if (found >= 0) {
        *ticks = o->t.states[found].extra;
        *peak_bytes = o->t.states[found].peak + (budgets[0] - o->room[0]);
        for (int v = 0; v < (int)graph->n_nodes; v++) *ticks += o->least[v];
        *steps = steps_to(o, found, n);
    }
    oracle_states_free(&o->t);
    free(o);
    return complete;
}

bool oracle_exact_plan(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks, mp_step **steps, size_t *n,
                       int64_t *peak_bytes)
{
    int64_t budgets[MP_MAX_TIERS] = {budget_bytes};
    for (int m = 1; m < MP_MAX_TIERS; m++) budgets[m] = INT64_MAX / 2;
    return search(graph, budgets, INT64_MAX / 2, any_order, false, ticks, steps, n, peak_bytes);
}

bool oracle_exact_beside(const mp_graph *graph, int64_t budget_bytes, int64_t beside_bytes, bool any_order, int64_t *ticks)
{
    mp_step *steps;
    size_t n;
    int64_t peak_bytes, budgets[MP_MAX_TIERS] = {budget_bytes};
    for (int m = 1; m < MP_MAX_TIERS; m++) budgets[m] = INT64_MAX / 2;
    bool complete = search(graph, budgets, beside_bytes, any_order, false, ticks, &steps, &n, &peak_bytes);
    free(steps);
    return complete;
}

bool oracle_in_tiers(const mp_graph *graph, const int64_t *budgets, bool issues, int64_t *ticks, mp_step **steps, size_t *n)
{
    int64_t peak_bytes;
    return search(graph, budgets, INT64_MAX / 2, true, issues, ticks, steps, n, &peak_bytes);
}

bool oracle_exact(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks)
{
    mp_step *steps;
    size_t n;
    int64_t peak_bytes;
    bool complete = oracle_exact_plan(graph, budget_bytes, any_order, ticks, &steps, &n, &peak_bytes);
    free(steps);
    return complete;
}

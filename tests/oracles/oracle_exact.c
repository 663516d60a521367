/* oracle_exact.c - Dijkstra over states of nodes that have run and storages that are live. */
#include "tests/oracles/oracle_exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "tests/oracles/random_graph.h"
#include <cmocka.h>

enum { MOST_STATES = 2000000 };

struct state {
    uint64_t ran, live; /* nodes; storages, by their bit */
    int64_t extra;      /* ticks beyond one run of each node that has run, in its fastest alternative */
    int64_t peak;       /* of the way here, without static bytes */
    int parent;
    mp_step step;
    bool settled;
};

struct oracle {
    const mp_graph *graph;
    int64_t room, beside; /* the budget, and that of all other tiers together, less static bytes */
    bool any_order;
    int bit[1024];    /* per storage: -1: always live */
    int writer[1024]; /* per storage: see lone_writer */
    int storage[64];  /* per bit */
    uint64_t readers[64], adders[64], certain[64],
        makers[64]; /* per bit: nodes; certain: those that read it in every alternative */
    bool remade[64];
    uint64_t repeatable, returning, optional; /* nodes that may compute again; that may return outputs; that need not run */
    uint64_t backward, updates[1024];         /* per storage: the nodes that update this parameter */
    int64_t least[64];
    int n_bits;
    struct state *states;
    int n, capacity, *table, table_size; /* a hash table of 1 + index, at most half full */
    struct entry {
        int64_t extra;
        int left, state; /* nodes that have not run */
    } * heap;
    int n_heap, heap_capacity;
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

/* Bytes on the device, or beside it. */
static int64_t bytes_of(const mp_storage *storage, bool is_beside)
{
    return (storage->tier != 0) == is_beside ? storage->bytes : 0;
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
        if (always) o->room -= bytes_of(storage, false);
        if (always && o->beside < INT64_MAX) o->beside -= bytes_of(storage, true);
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
        if (o->optional & one(v)) o->least[v] = 0; /* whatever it takes is extra */
    o->n_bits = n;
    for (int b = 0; b < n; b++) {
        o->makers[b] |= o->adders[b];
        o->remade[b] = (o->makers[b] & (o->repeatable | o->returning)) != 0;
    }
}

/* A carried gradient from its first contribution on: it lives to the end, and its bit is no longer set. */
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
        /* whenever what it reads is live */
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
            const int writer = node->phase == MP_PHASE_UPDATE ? -1 : o->writer[s];
            if (writer >= 0 && !(at->ran & one(writer))) return false;
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

/* Whether somebody may use the present instance of a storage after `ran` have run; whether somebody certainly will. */
static bool may_use(const struct oracle *o, uint64_t ran, int b)
{
    return ((o->readers[b] & (~ran | o->repeatable | o->returning)) | (o->adders[b] & ~ran)) != 0;
}
static bool must_use(const struct oracle *o, uint64_t ran, int b)
{
    return !o->remade[b] && ((o->certain[b] | o->adders[b]) & ~ran) && !o->graph->storages[o->storage[b]].carried;
}

/* ---- the table of states and the queue ---- */

static void queue_push(struct oracle *o, struct entry e)
{
    int i = o->n_heap++;
    for (; i > 0; i = (i - 1) / 2) {
        struct entry *up = &o->heap[(i - 1) / 2];
        if (up->extra < e.extra || (up->extra == e.extra && up->left <= e.left)) break;
        o->heap[i] = *up;
    }
    o->heap[i] = e;
}

static int queue_pop(struct oracle *o)
{
    int first = o->heap[0].state, i = 0;
    struct entry e = o->heap[--o->n_heap];
    for (int child = 1; child < o->n_heap; child = 2 * i + 1) {
        struct entry *a = &o->heap[child], *b = a + 1;
        if (child + 1 < o->n_heap && (b->extra < a->extra || (b->extra == a->extra && b->left < a->left))) {
            a = b;
            child++;
        }
        if (e.extra < a->extra || (e.extra == a->extra && e.left <= a->left)) break;
        o->heap[i] = *a;
        i = child;
    }
    o->heap[i] = e;
    return first;
}

static int find_slot(const struct oracle *o, uint64_t ran, uint64_t live)
{
    uint64_t hash = (ran * UINT64_C(0x9e3779b97f4a7c15)) ^ (live * UINT64_C(0xc2b2ae3d27d4eb4f));
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    int slot = (int)((hash ^ hash >> 32) & (uint64_t)(o->table_size - 1));
    while (o->table[slot] && (o->states[o->table[slot] - 1].ran != ran || o->states[o->table[slot] - 1].live != live))
        slot = (slot + 1) & (o->table_size - 1);
    return slot;
}

/* Room for one more state and entry. */
static void make_room(struct oracle *o)
{
    if (o->n_heap == o->heap_capacity) {
        o->heap_capacity = o->heap_capacity ? 2 * o->heap_capacity : 1024;
        assert_non_null(o->heap = realloc(o->heap, (size_t)o->heap_capacity * sizeof *o->heap));
    }
    if (o->n < o->capacity) return;
    o->capacity = o->capacity ? 2 * o->capacity : 1024;
    o->table_size = 2 * o->capacity;
    assert_non_null(o->states = realloc(o->states, (size_t)o->capacity * sizeof *o->states));
    free(o->table);
    assert_non_null(o->table = calloc((size_t)o->table_size, sizeof *o->table));
    for (int k = 0; k < o->n; k++) o->table[find_slot(o, o->states[k].ran, o->states[k].live)] = k + 1;
}

/* False: there are too many states. */
static bool reach(struct oracle *o, struct state s)
{
    make_room(o);
    int slot = find_slot(o, s.ran, s.live), k = o->table[slot] - 1;
    if (k >= 0 && o->states[k].extra <= s.extra) return true;
    if (k < 0) {
        if (o->n == MOST_STATES) return false;
        k = o->n++;
        o->table[slot] = k + 1;
    }
    o->states[k] = s;
    queue_push(o, (struct entry){s.extra, (int)o->graph->n_nodes - __builtin_popcountll(s.ran), k});
    return true;
}

/* ---- one step ---- */

/* Bytes on the device or beside it while the step runs, in which `begins` begin and `dies` end. */
static int64_t step_bytes(const struct oracle *o, const struct state *at, const mp_alternative *alternative, uint64_t begins,
                          uint64_t dies, bool is_beside)
{
    int64_t bytes = is_beside ? 0 : alternative->workspace_bytes;
    uint64_t used_from = 0, used_to = 0;
    for (int b = 0; b < o->n_bits; b++) {
        const mp_storage *storage = &o->graph->storages[o->storage[b]];
        if (at->live & one(b)) bytes += bytes_of(storage, is_beside);
        if (begins & one(b)) bytes += bytes_of(storage, is_beside);
        if (begun(o, at->ran, b)) bytes += bytes_of(storage, is_beside);
        if (!at->ran && storage->carried && !(at->live & one(b)))
            bytes += bytes_of(storage, is_beside); /* in step 0 whatever comes */
    }
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        int from = alternative->in_place[i].from, to = alternative->in_place[i].to, f = o->bit[from], t = o->bit[to];
        if (f < 0 || t < 0 || !(dies & one(f)) || !(begins & one(t)) || (used_from & one(f)) || (used_to & one(t))) continue;
        if (o->graph->storages[from].bytes < o->graph->storages[to].bytes) continue;
        used_from |= one(f);
        used_to |= one(t);
        bytes -= bytes_of(&o->graph->storages[to], is_beside);
    }
    return bytes;
}

/* All ways to run an alternative: each of what it reads and begins lives on or not. */
static bool run(struct oracle *o, int k, int v, int alternative_number)
{
    const struct state at = o->states[k];
    const mp_alternative *alternative = &o->graph->nodes[v].alternatives[alternative_number];
    uint64_t begins = 0, touched = 0, ran = at.ran | one(v), choices[16], kept = 0;
    int n_choices = 0;
    if (!may_run(o, &at, v, alternative)) return true;
    for (size_t i = 0; i < alternative->n_writes; i++)
        if (o->bit[alternative->writes[i]] >= 0) begins |= one(o->bit[alternative->writes[i]]);
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int b = o->bit[alternative->adds[i]];
        if (b >= 0 && !(at.ran & o->adders[b])) begins |= one(b);
        if (b >= 0) touched |= one(b);
    }
    if (begins & at.live) return true; /* held for nothing */
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
        struct state next = {ran, (at.live & ~touched) | stay, 0, 0, k, {.node = v, .alternative = alternative_number}, false};
        const uint64_t dies = at.live & touched & ~stay;
        int64_t bytes = step_bytes(o, &at, alternative, begins, dies, false);
        if (bytes > o->room) continue;
        if (o->beside < INT64_MAX && step_bytes(o, &at, alternative, begins, dies, true) > o->beside) continue;
        next.extra = at.extra + alternative->ticks - (at.ran & one(v) ? 0 : o->least[v]);
        next.peak = bytes > at.peak ? bytes : at.peak;
        if (!reach(o, next)) return false;
    }
    return true;
}

/* A state to start from for each choice of carried gradients that are read before their first contribution. */
static void begin(struct oracle *o)
{
    uint64_t carried = 0;
    for (int s = 0; s < (int)o->graph->n_storages; s++) {
        int b = o->bit[s];
        if (b >= 0 && o->graph->storages[s].carried && o->readers[b]) carried |= one(b);
    }
    for (uint64_t live = carried;; live = (live - 1) & carried) {
        reach(o, (struct state){0, live, 0, 0, -1, {.node = -1}, false});
        if (!live) break;
    }
}

/* oracle_exact_plan, with at most beside_bytes in all other tiers together. */
static bool look(const mp_graph *graph, int64_t budget_bytes, int64_t beside_bytes, bool any_order, int64_t *ticks,
                 mp_step **steps, size_t *n, int64_t *peak_bytes)
{
    struct oracle *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->graph = graph;
    o->room = budget_bytes;
    o->beside = beside_bytes;
    o->any_order = any_order;
    read_graph(o);
    begin(o);
    const uint64_t all = graph->n_nodes == 64 ? ~UINT64_C(0) : one((int)graph->n_nodes) - 1;
    bool complete = true;
    int found = -1;
    while (o->n_heap && complete && found < 0) {
        int k = queue_pop(o);
        if (o->states[k].settled) continue;
        o->states[k].settled = true;
        if (!(all & ~o->states[k].ran & ~o->optional)) found = k;
        for (int v = 0; v < (int)graph->n_nodes && complete && found < 0; v++)
            for (int f = 0; f < (int)graph->nodes[v].n_alternatives && complete; f++) complete = run(o, k, v, f);
    }
    *steps = NULL;
    *n = 0;
    if (complete) *ticks = -1;
    if (found >= 0) {
        *ticks = o->states[found].extra;
        *peak_bytes = o->states[found].peak + (budget_bytes - o->room);
        for (int v = 0; v < (int)graph->n_nodes; v++) *ticks += o->least[v];
        for (int k = found; o->states[k].parent >= 0; k = o->states[k].parent) ++*n;
        *steps = malloc((*n + 1) * sizeof **steps);
        assert_non_null(*steps);
        size_t t = *n;
        for (int k = found; o->states[k].parent >= 0; k = o->states[k].parent) (*steps)[--t] = o->states[k].step;
    }
    free(o->states);
    free(o->table);
    free(o->heap);
    free(o);
    return complete;
}

bool oracle_exact_plan(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks, mp_step **steps, size_t *n,
                       int64_t *peak_bytes)
{
    return look(graph, budget_bytes, INT64_MAX, any_order, ticks, steps, n, peak_bytes);
}

bool oracle_exact_beside(const mp_graph *graph, int64_t budget_bytes, int64_t beside_bytes, bool any_order, int64_t *ticks)
{
    mp_step *steps;
    size_t n;
    int64_t peak_bytes;
    bool complete = look(graph, budget_bytes, beside_bytes, any_order, ticks, &steps, &n, &peak_bytes);
    free(steps);
    return complete;
}

bool oracle_exact(const mp_graph *graph, int64_t budget_bytes, bool any_order, int64_t *ticks)
{
    return oracle_exact_beside(graph, budget_bytes, INT64_MAX, any_order, ticks);
}

/* precedence.c - computes the precedence relation. It lists the pairs of nodes that data dependencies order directly, and
 * computes the transitive closure of these pairs. */
#include "planner/order/precedence.h"

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "memplan/timeline.h"
#include "planner/math/bits.h"
#include "planner/math/tuning.h"
#include "planner/order/turn_around.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    PRECEDENCE_NODES = 32768, /* all precedences are stored up to 32768 vertices, in n^2 / 4 bytes for n vertices */
};

_Thread_local int mp_precedence_most_nodes = PRECEDENCE_NODES;

struct pairs { /* from[k] directly precedes to[k] */
    size_t n, from_capacity, to_capacity;
    int *from, *to;
};

static uint64_t *row(const mp_precedence *o, uint64_t *sets, int v)
{
    return sets + (o->only_vertex < 0 ? (size_t)v * o->words : 0);
}

const uint64_t *mp_precedence_ancestors(const mp_precedence *o, int v)
{
    return row(o, o->ancestors, v);
}

const uint64_t *mp_precedence_descendants(const mp_precedence *o, int v)
{
    return row(o, o->descendants, v);
}

bool mp_precedes(const mp_precedence *o, int u, int v)
{
    return o->only_vertex >= 0 && u == o->only_vertex ? mp_bits_has(o->descendants, v)
                                                      : mp_bits_has(row(o, o->ancestors, v), u);
}

static bool add_pair(struct pairs *p, int from, int to)
{
    if (from == to) return true;
    if (!mp_grow(&p->from, &p->from_capacity, p->n + 1, sizeof *p->from)) return false;
    if (!mp_grow(&p->to, &p->to_capacity, p->n + 1, sizeof *p->to)) return false;
    p->from[p->n] = from;
    p->to[p->n++] = to;
    return true;
}

/* Appends the pairs that follow from one storage: each producer precedes each reader. Each contribution to a sum precedes the
 * next contribution, unless they may run in any order. */
static bool pairs_of_storage(const mp_precedence *o, int s, struct pairs *p)
{
    const mp_graph *graph = o->graph;
    const int first = graph->adders_start[s], end = graph->adders_start[s + 1];
    const bool chain = mp_adds_in_turn(o, s);
    for (int a = first + 1; chain && a < end; a++)
        if (!add_pair(p, graph->adders[a - 1], graph->adders[a])) return false;
    for (int r = graph->readers_start[s]; graph->writer[s] >= 0 && r < graph->readers_start[s + 1]; r++) {
        const int reader = graph->readers[r], writer = mp_awaited_writer(graph, s, reader);
        if (writer >= 0 && mp_always_reads_any(o, reader, s) && !add_pair(p, writer, reader)) return false;
    }
    const int n_readers = graph->readers_start[s + 1] - graph->readers_start[s];
    int adder = chain && end > first ? end - 1 : first;
    if (n_readers > 0 && end - adder > MP_SUM_PAIRS / n_readers) adder = end - MP_SUM_PAIRS / n_readers;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
        if (!mp_always_reads_any(o, graph->readers[r], s) || !mp_waits_for_all(graph, s, graph->readers[r])) continue;
        if (graph->producer[s] >= 0 && !add_pair(p, graph->producer[s], graph->readers[r])) return false;
        for (int a = adder; a < end; a++)
            if (!add_pair(p, graph->adders[a], graph->readers[r])) return false;
    }
    return true;
}

/* Appends the pairs that follow from an update: the readers of its parameter precede it. If updates run after backward, the end
 * of backward precedes it too. */
static bool pairs_of_update(const mp_precedence *o, int update, struct pairs *p)
{
    const mp_graph *graph = o->graph;
    const mp_alternative *alternative = &graph->nodes[update].alternatives[0];
    const mp_update_order order = mp_update_order_of(graph);
    if (order.after_backward && !add_pair(p, o->n - 1, update)) return false;
    for (size_t i = 0; i < alternative->n_writes; i++) {
        int s = alternative->writes[i];
        if (graph->storages[s].kind != MP_KIND_PARAMETER || !mp_always_writes(o, update, s)) continue;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
            int reader = graph->readers[r];
            if (graph->nodes[reader].phase == MP_PHASE_UPDATE || !mp_always_reads_any(o, reader, s)) continue;
            if (!(order.after_readers ? add_pair(p, reader, update) : add_pair(p, update, reader))) return false;
        }
    }
    return true;
}

static bool find_pairs(const mp_precedence *o, bool list_order, struct pairs *p)
{
    const mp_graph *graph = o->graph;
    /* among the nodes visited so far: the last forward node, and the last loss or backward node */
    int forward = -1, backward = -1;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!pairs_of_storage(o, (int)s, p)) return false;
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        mp_phase phase = graph->nodes[i].phase;
        if (phase == MP_PHASE_UPDATE) {
            if (!pairs_of_update(o, i, p)) return false;
            continue;
        }
        int *last = phase == MP_PHASE_FORWARD ? &forward : &backward;
        if (phase != MP_PHASE_FORWARD && !add_pair(p, i, o->n - 1)) return false;
        if (list_order && *last >= 0 && !add_pair(p, *last, i)) return false;
        *last = i;
    }
    return true;
}

/* Finds a topological order of the relation: the order of keep-all. The end of backward is placed before the updates that must
 * follow it. */
static void find_sequence(mp_precedence *o, mp_step *steps)
{
    const mp_graph *graph = o->graph;
    int n = 0;
    size_t t = 0;
    mp_keep_all(graph, steps);
    const bool updates_last = mp_update_order_of(graph).after_readers;
    while (t < graph->n_nodes && (!updates_last || graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE))
        o->sequence[n++] = steps[t++].node;
    o->sequence[n++] = o->n - 1;
    while (t < graph->n_nodes) o->sequence[n++] = steps[t++].node;
}

/* Adds a node (`also`) and its ancestors or descendants (`other`) to `set`. If `set` already contains the node, it also
 * contains the node's ancestors or descendants, and nothing is done. */
static void unite(uint64_t *set, const uint64_t *other, int also, size_t words)
{
    if (mp_bits_has(set, also)) return;
    mp_bits_unite(set, other, words);
    mp_bits_add(set, also);
}

/* Computes the ancestors and descendants of the only vertex whose sets are stored. list[start[v] ..] are the direct
 * predecessors of v. */
static void close_only_vertex(mp_precedence *o, const int *start, const int *list)
{
    for (int i = o->n - 1; i >= 0; i--) {
        const int v = o->sequence[i];
        if (v != o->only_vertex && !mp_bits_has(o->ancestors, v)) continue;
        for (int j = start[v]; j < start[v + 1]; j++) mp_bits_add(o->ancestors, list[j]);
    }
    for (int i = 0; i < o->n; i++) {
        const int v = o->sequence[i];
        for (int j = start[v]; j < start[v + 1]; j++)
            if (list[j] == o->only_vertex || mp_bits_has(o->descendants, list[j])) mp_bits_add(o->descendants, v);
    }
}

/* True if v is a loss or backward node. In a graph without loss and backward nodes, true if v is the turn-around
 * (turn_around.h) or a later node; turn_around -1: always false. */
static bool is_behind(const mp_precedence *o, int v, int turn_around)
{
    if (v == o->n - 1) return false;
    const mp_phase phase = o->graph->nodes[v].phase;
    return phase == MP_PHASE_LOSS || phase == MP_PHASE_BACKWARD ||
           (phase == MP_PHASE_FORWARD && turn_around >= 0 && v >= turn_around);
}

/* Estimates the vertex at which most activations are live. It is the loss or backward node with the largest sum of two lengths:
 * the longest chain of forward nodes before it, and the longest chain of loss and backward nodes after it. Of equal nodes, the
 * first is chosen. If the graph has no loss or backward nodes, nodes from the turn-around on count as backward. If it has no
 * turn-around either, the middle node is chosen. `before` and `behind`, one entry per vertex, are zero on entry. */
static int end_of_forward(const mp_precedence *o, int turn_around, const int *start, const int *list, int *before, int *behind)
{
    int best = -1;
    for (int i = 0; i < o->n; i++) {
        const int v = o->sequence[i];
        for (int j = start[v]; j < start[v + 1]; j++) {
            const int length = before[list[j]] + !is_behind(o, list[j], turn_around);
            if (length > before[v]) before[v] = length;
        }
    }
    for (int i = o->n - 1; i >= 0; i--) {
        const int v = o->sequence[i];
        if (!is_behind(o, v, turn_around)) continue;
        for (int j = start[v]; j < start[v + 1]; j++)
            if (behind[list[j]] <= behind[v]) behind[list[j]] = behind[v] + 1;
        if (best < 0 || before[v] + behind[v] >= before[best] + behind[best]) best = v;
    }
    return best >= 0 ? best : o->sequence[(o->n - 1) / 2];
}

/* Groups values by key. Afterwards list[start[v] .. start[v + 1]) contains the values with key v. */
static void group(const mp_precedence *o, const int *key, const int *value, size_t n, int *start, int *list)
{
    for (int v = 0; v < o->n + 2; v++) start[v] = 0;
    for (size_t k = 0; k < n; k++) start[key[k] + 2]++;
    for (int v = 0; v < o->n; v++) start[v + 2] += start[v + 1];
    for (size_t k = 0; k < n; k++) list[start[key[k] + 1]++] = value[k];
}

/* Computes the ancestors and descendants of all vertices. Of the direct neighbours of a vertex, the nearest in the sequence is
 * added first. In a dense graph its set usually contains the other neighbours, so they need no work. */
static void close_all(mp_precedence *o, const struct pairs *p, int *start, int *list)
{
    for (int i = 0; i < o->n; i++) {
        const int v = o->sequence[i];
        for (int j = start[v + 1] - 1; j >= start[v]; j--)
            unite(o->ancestors + (size_t)v * o->words, o->ancestors + (size_t)list[j] * o->words, list[j], o->words);
    }
    group(o, p->from, p->to, p->n, start, list);
    for (int i = o->n - 1; i >= 0; i--) {
        const int v = o->sequence[i];
        for (int j = start[v]; j < start[v + 1]; j++)
            unite(o->descendants + (size_t)v * o->words, o->descendants + (size_t)list[j] * o->words, list[j], o->words);
    }
}

static mp_status close_pairs(mp_precedence *o, const struct pairs *p, mp_error *err)
{
    int turn_around;
    MP_OWNED int *start = mp_alloc((size_t)o->n + 2, sizeof *start), *list = mp_alloc(p->n, sizeof *list);
    MP_OWNED int *lengths = mp_alloc(2 * (size_t)o->n, sizeof *lengths);
    MP_ENSURE(start && list && lengths, err, MP_NOMEM, "no memory for the order of %d nodes", o->n);
    group(o, p->to, p->from, p->n, start, list);
    if (o->only_vertex < 0) {
        close_all(o, p, start, list);
        return MP_OK;
    }
    MP_CHECK(mp_turn_around(o->graph, &turn_around, err));
    o->only_vertex = end_of_forward(o, turn_around, start, list, lengths, lengths + o->n);
    close_only_vertex(o, start, list);
    return MP_OK;
}

static void clear_pairs(struct pairs *pairs)
{
    mp_free(pairs->from);
    mp_free(pairs->to);
}

mp_status mp_precedence_new(const mp_graph *graph, bool list_order, mp_precedence **out, mp_error *err)
{
    const size_t n = graph->n_nodes + 1;
    MP_CLEARED_BY(clear_pairs) struct pairs pairs = {0};
    MP_OWNED mp_step *steps = mp_alloc(n, sizeof *steps);
    MP_OWNED_BY(mp_precedence_free) mp_precedence *o = mp_alloc(1, sizeof *o);
    MP_ENSURE(o && steps, err, MP_NOMEM, "no memory for the order of %zu nodes", n);
    o->graph = graph;
    o->pool = mp_pool_new();
    o->n = (int)n;
    o->words = mp_bits_words(n);
    o->only_vertex = -1;
    o->sequence = mp_pool_alloc(o->pool, n, sizeof *o->sequence);
    MP_ENSURE(o->sequence, err, MP_NOMEM, "no memory for the order of %zu nodes", n);
    MP_CHECK(mp_precedence_find_always(o, err));
    MP_ENSURE(find_pairs(o, list_order, &pairs), err, MP_NOMEM, "no memory for the order of %zu nodes", n);
    if (n > (size_t)mp_precedence_most_nodes || pairs.n > (size_t)MP_PRECEDENCE_WORK / o->words)
        o->only_vertex =
            0; /* a value other than -1 marks the graph as large; close_pairs later sets the vertex whose sets are stored */
    o->ancestors = mp_pool_alloc(o->pool, (o->only_vertex < 0 ? n : 1) * o->words, sizeof *o->ancestors);
    o->descendants = mp_pool_alloc(o->pool, (o->only_vertex < 0 ? n : 1) * o->words, sizeof *o->descendants);
    MP_ENSURE(!mp_pool_failed(o->pool), err, MP_NOMEM, "no memory for the order of %zu nodes", n);
    find_sequence(o, steps);
    MP_CHECK(close_pairs(o, &pairs, err));
    o->n_pairs = pairs.n;
    o->pair_from = pairs.from;
    o->pair_to = pairs.to;
    pairs = (struct pairs){0};
    *out = o;
    o = NULL;
    return MP_OK;
}

void mp_precedence_free(mp_precedence *o)
{
    if (!o) return;
    mp_pool_free(o->pool);
    mp_free(o->pair_from);
    mp_free(o->pair_to);
    mp_free(o);
}

/* Moves the last vertex of a range of the sequence to the begin of the range. The vertex's ancestors within the range are moved
 * before it. */
static void move_to_begin(mp_precedence *o, int begin, int end, const int *stretch)
{
    const int last = stretch[end - begin - 1];
    int n = begin;
    for (int early = 1; early >= 0; early--)
        for (int k = 0; k < end - begin; k++)
            if ((stretch[k] == last || mp_precedes(o, stretch[k], last)) == early) o->sequence[n++] = stretch[k];
}

mp_status mp_precedence_add(mp_precedence *o, int from, int to, mp_error *err)
{
    int begin = 0, end = 0;
    MP_OWNED int *stretch = mp_alloc((size_t)o->n, sizeof *stretch);
    if (!stretch) return MP_FAIL(err, MP_NOMEM, "no memory for the order of %d nodes", o->n);
    for (int i = 0; i < o->n; i++) {
        if (o->sequence[i] == to) begin = i;
        if (o->sequence[i] == from) end = i + 1;
    }
    for (int i = begin; i < end; i++) stretch[i - begin] = o->sequence[i];
    if (begin < end) move_to_begin(o, begin, end, stretch);
    uint64_t *before = o->ancestors + (size_t)from * o->words, *after = o->descendants + (size_t)to * o->words;
    for (int v = 0; v < o->n; v++) {
        if (v == from || mp_bits_has(before, v)) unite(o->descendants + (size_t)v * o->words, after, to, o->words);
        if (v == to || mp_bits_has(after, v)) unite(o->ancestors + (size_t)v * o->words, before, from, o->words);
    }
    return MP_OK;
}

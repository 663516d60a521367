/* floor.c - what every schedule must hold at some moment.
 *
 * Let "u before v" mean that in every schedule the first run of u comes before the first run of v (precedence.h). At the first
 * run of v all nodes before v have run and no node after v has. A storage whose producers run once cannot be recomputed: if one
 * of them is before v, and one that reads or adds to it is after v, it is live then; of the others floor_cut.h tells the least
 * that is live. To these come v's own storages and workspace, in its cheapest alternative, less what in-place pairs could save
 * at best. Only what holds in every alternative of a node counts as certain.
 *
 * Example: backward nodes g3 -> g2 -> g1, each writing the gradient of a parameter, and updates after all of backward. When g1
 * runs, the gradients of parameters 3 and 2 are live in every schedule.
 */
#include "memplan/floor.h"

#include "planner/floor/floor_held.h"
#include "planner/math/bits.h"
#include "planner/math/tuning.h"
#include "planner/order/always.h"

/* Whether all that is before and after each node is known. */
static bool has_sets(const mp_precedence *o)
{
    return o->only_vertex < 0;
}

static bool is_produced_once(const mp_precedence *o, int s)
{
    return !mp_storage_is_static(&o->graph->storages[s]) && !o->recomputable[s];
}

/* A set of nodes at whose first run the present instance of s is certainly there already (from) and will be used later (to).
 * `from` and `to` are cleared first. */
static void certain_life(const mp_precedence *o, int s, uint64_t *from, uint64_t *to)
{
    const mp_graph *graph = o->graph;
    int p = graph->producer[s];
    for (size_t w = 0; w < o->words; w++) from[w] = to[w] = 0;
    if (p >= 0 && mp_always_writes(o, p, s)) mp_bits_unite(from, mp_precedence_descendants(o, p), o->words);
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++) {
        if (!mp_always_adds(o, graph->adders[a], s)) continue;
        mp_bits_unite(from, mp_precedence_descendants(o, graph->adders[a]), o->words);
        mp_bits_unite(to, mp_precedence_ancestors(o, graph->adders[a]), o->words);
    }
    for (int r = graph->readers_start[s + 1] - 1; r >= graph->readers_start[s]; r--) /* one before a later one adds nothing */
        if (!mp_bits_has(to, graph->readers[r]) && mp_always_reads(o, graph->readers[r], s))
            mp_bits_unite(to, mp_precedence_ancestors(o, graph->readers[r]), o->words);
    if (graph->storages[s].carried) /* it lives to the end of the step */
        for (size_t w = 0; w < o->words; w++) to[w] = ~UINT64_C(0);
}

/* Adds to live_bytes[v] every storage that certainly lives at the first run of v (at the end of backward, for the vertex after
 * the nodes: at_end tells which), and that v does not use itself. */
static mp_status hold(const mp_precedence *o, int64_t *live_bytes, bool *at_end, mp_error *err)
{
    const mp_graph *graph = o->graph;
    if (!has_sets(o)) return MP_OK;
    int64_t looks = 0;
    uint64_t *from = mp_alloc(3 * o->words, sizeof *from), *to, *own;
    if (!from) return MP_FAIL(err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    to = from + o->words;
    own = to + o->words;
    for (int s = 0; s < (int)graph->n_storages && looks <= MP_FLOOR_LOOKS; s++) {
        if (!graph->storages[s].bytes || !is_produced_once(o, s)) continue;
        certain_life(o, s, from, to);
        for (size_t w = 0; w < o->words; w++) own[w] = 0;
        if (graph->producer[s] >= 0) mp_bits_add(own, graph->producer[s]);
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++) mp_bits_add(own, graph->adders[a]);
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) mp_bits_add(own, graph->readers[r]);
        for (size_t w = 0; w < o->words; w++) {
            for (uint64_t left = from[w] & to[w] & ~own[w]; left; looks++) {
                const size_t v = w * 64 + (size_t)mp_bits_take(&left);
                live_bytes[v] += graph->storages[s].bytes;
                at_end[s] |= v == graph->n_nodes;
            }
        }
    }
    mp_free(from);
    return MP_OK;
}

/* Whether an in-place pair can fit in some schedule at the first run of `node`, or (any_run) at one of its runs. */
static bool may_fit(const mp_precedence *o, int node, mp_in_place p, bool any_run)
{
    const mp_graph *graph = o->graph;
    const mp_storage *from = &graph->storages[p.from], *to = &graph->storages[p.to];
    if (mp_storage_is_static(from) || mp_storage_is_static(to) || from->bytes < to->bytes) return false;
    int first = graph->adders_start[p.to]; /* an output that is a sum begins with its first contribution */
    if (first < graph->adders_start[p.to + 1] && mp_adds_in_turn(o, p.to) && graph->adders[first] != node) return false;
    if (any_run || !has_sets(o) || !is_produced_once(o, p.from)) return true;
    /* an input that is used later on does not die here */
    const uint64_t *later = mp_precedence_descendants(o, node);
    for (int r = graph->readers_start[p.from]; r < graph->readers_start[p.from + 1]; r++)
        if (mp_bits_has(later, graph->readers[r]) && mp_always_reads(o, graph->readers[r], p.from)) return false;
    return true;
}

/* The most that in-place pairs can save: each input and each output counts once. `best` is zero per storage, before and after.
 */
static int64_t most_saved(const mp_precedence *o, int node, const mp_alternative *alternative, bool any_run, int64_t *best)
{
    const mp_storage *storages = o->graph->storages;
    int64_t outputs = 0, inputs = 0;
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        mp_in_place p = alternative->in_place[i];
        int64_t bytes = storages[p.to].bytes;
        if (!may_fit(o, node, p, any_run)) continue;
        if (!best[p.to]) outputs += best[p.to] = bytes;
        if (bytes > best[p.from]) {
            inputs += bytes - best[p.from];
            best[p.from] = bytes;
        }
    }
    for (size_t i = 0; i < alternative->n_in_place; i++)
        best[alternative->in_place[i].from] = best[alternative->in_place[i].to] = 0;
    return outputs < inputs ? outputs : inputs;
}

/* The bytes of a list of storages, less the always-live ones and those counted already (NULL: none are). */
static int64_t list_bytes(const mp_graph *graph, const int *list, size_t n, const bool *counted)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (!mp_storage_is_static(&graph->storages[list[i]]) && !(counted && counted[list[i]]))
            bytes += graph->storages[list[i]].bytes;
    return bytes;
}

/* What a node itself needs in its cheapest alternative, beside what is counted already, at its first run or at any. */
static int64_t own_bytes(const mp_precedence *o, int node, bool any_run, const bool *counted, int64_t *best)
{
    const mp_node *x = &o->graph->nodes[node];
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < x->n_alternatives; k++) {
        const mp_alternative *alternative = &x->alternatives[k];
        int64_t bytes = alternative->workspace_bytes - most_saved(o, node, alternative, any_run, best);
        bytes += list_bytes(o->graph, alternative->reads, alternative->n_reads, counted);
        bytes += list_bytes(o->graph, alternative->writes, alternative->n_writes, counted);
        bytes += list_bytes(o->graph, alternative->adds, alternative->n_adds, counted);
        if (bytes < least) least = bytes;
    }
    return least > 0 ? least : 0;
}

/* The least that the last node of backward needs beside what lives across the end of backward, whichever node is the last: one
 * that is before no other loss or backward node. */
static int64_t last_node_bytes(const mp_precedence *o, const bool *at_end, int64_t *best)
{
    const mp_graph *graph = o->graph;
    int64_t least = INT64_MAX;
    for (int i = 0; has_sets(o) && i < (int)graph->n_nodes; i++) {
        bool last = graph->nodes[i].phase == MP_PHASE_LOSS || graph->nodes[i].phase == MP_PHASE_BACKWARD;
        const uint64_t *later = mp_precedence_descendants(o, i);
        for (size_t w = 0; last && w < o->words; w++)
            for (uint64_t left = later[w]; last && left;) {
                const size_t v = w * 64 + (size_t)mp_bits_take(&left);
                last = v == graph->n_nodes || graph->nodes[v].phase == MP_PHASE_UPDATE ||
                       graph->nodes[v].phase == MP_PHASE_FORWARD;
            }
        int64_t bytes = last ? own_bytes(o, i, false, at_end, best) : INT64_MAX;
        if (bytes < least) least = bytes;
    }
    return least < INT64_MAX ? least : 0;
}

/* Raises least_bytes by minimum cuts, for nodes that may get over the highest of them, if need be with something live beside.
 */
static mp_status raise_by_cuts(mp_floor_cut *cut, const int64_t *own, int64_t *least_bytes, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_precedence *o = cut->order;
    const int n = o->n - 1;
    int64_t highest = 0, held = 0, bytes;
    mp_floor_rank *ranks = mp_alloc((size_t)n, sizeof *ranks);
    MP_REQUIRE(ranks, err, MP_NOMEM, "no memory for the floor of %d nodes", n);
    for (size_t s = 0; s < o->graph->n_storages; s++)
        if (o->recomputable[s] && o->graph->storages[s].bytes > held) held = o->graph->storages[s].bytes;
    for (int i = 0; i < n; i++) {
        ranks[i] = (mp_floor_rank){own[i] + cut->level_bytes[cut->position[i]], i};
        if (least_bytes[i] > highest) highest = least_bytes[i];
    }
    mp_floor_rank_sort(ranks, (size_t)n);
    for (int k = 0; k < n && ranks[k].bytes + held > highest && cut->work < MP_FLOOR_WORK / 2; k++) {
        const int i = ranks[k].node;
        if ((ranks[k].bytes <= highest && o->repeatable[i]) || ranks[k].bytes <= least_bytes[i]) continue;
        MP_TRY(mp_floor_cut_least(cut, mp_precedence_ancestors(o, i), i, i, &bytes, err));
        if (own[i] + bytes > least_bytes[i]) least_bytes[i] = own[i] + bytes;
        if (least_bytes[i] > highest) highest = least_bytes[i];
    }
done:
    mp_free(ranks);
    return st;
}

/* The highest of the nodes and its node; -1, 0 without nodes. */
static int64_t highest_of(const int64_t *bytes, int n, int *node)
{
    *node = n ? 0 : -1;
    for (int i = 1; i < n; i++)
        if (bytes[i] > bytes[*node]) *node = i;
    return n ? bytes[*node] : 0;
}

mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err)
{
    mp_status st = MP_OK;
    const int n = (int)graph->n_nodes;
    mp_precedence *o = NULL;
    mp_floor_cut *cut = NULL;
    int64_t *least = NULL, *own = NULL, *again = NULL, *best = NULL;
    bool *at_end = NULL;
    mp_floor_reason why = {.storage = -1, .producer = -1, .beside = -1};
    MP_TRY(mp_precedence_new(graph, false, &o, err));
    least = mp_alloc((size_t)n + 1, sizeof *least); /* what is live, so far */
    own = mp_alloc((size_t)n, sizeof *own);
    again = mp_alloc((size_t)n, sizeof *again);
    best = mp_alloc(graph->n_storages, sizeof *best);
    at_end = mp_alloc(graph->n_storages, sizeof *at_end);
    MP_REQUIRE(least && own && again && best && at_end, err, MP_NOMEM, "no memory for the floor of '%s'", graph->name);
    MP_TRY(hold(o, least, at_end, err));
    int64_t end = least[n]; /* what lives across the end of backward lives while its last node runs */
    if (end) end += last_node_bytes(o, at_end, best);
    for (int i = 0; i < n; i++) {
        own[i] = own_bytes(o, i, false, NULL, best);
        again[i] = own_bytes(o, i, true, NULL, best);
        least[i] += own[i];
    }
    const bool cuts = has_sets(o) && n <= MP_FLOOR_CUT_NODES;
    if (cuts) {
        MP_TRY(mp_floor_cut_new(o, &cut, err));
        MP_TRY(raise_by_cuts(cut, own, least, err));
    }
    int64_t highest = highest_of(least, n, &why.node);
    if (end > highest) {
        highest = end;
        why.node = -1;
    }
    if (cuts) MP_TRY(mp_floor_held(cut, &(mp_floor_needs){least, again}, MP_FLOOR_WORK, &highest, &why, err));
    *floor_bytes = highest + mp_graph_static_bytes(graph);
    *reason = why;
done:
    mp_floor_cut_free(cut);
    mp_precedence_free(o);
    mp_free(least);
    mp_free(own);
    mp_free(again);
    mp_free(best);
    mp_free(at_end);
    return st;
}

mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err)
{
    mp_floor_reason reason = {.node = -1};
    const mp_status st = mp_floor_explained(graph, floor_bytes, &reason, err);
    if (st == MP_OK) *node = reason.node;
    return st;
}

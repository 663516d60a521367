/* floor.c - what every schedule must hold at some moment.
 *
 * Let "u before v" mean that in every schedule the first run of u comes before the first run of v: because v reads what u
 * makes, because a sum keeps the order of its contributions, because an update stands on its side of the parameter's readers or
 * after all of backward, or by a chain of these. At the first run of v all nodes before v have run and no node after v has. A
 * storage whose makers run once can't be made again: if one of them is before v, and one that reads or adds to it is after v,
 * it is live then. To these come v's own storages and workspace, in its cheapest form, less what in-place pairs could save at
 * best. Only what holds in every form of a node counts as certain.
 *
 * Example: backward nodes g3 -> g2 -> g1, each writing the gradient of a parameter, and updates after all of backward. When g1
 * runs, the gradients of parameters 3 and 2 are live in every schedule.
 */
#include "planner/floor.h"

#include "estimator/timeline.h"

enum { MOST_NODES = 32768 }; /* for two bit sets of nodes^2 */

struct before { /* u before v, directly */
    int u, v;
};

struct order {
    const mp_graph *graph;
    int n;             /* vertices: the nodes, then the end of backward */
    size_t words;      /* of a bit set of vertices */
    uint64_t *earlier; /* earlier[v * words ..]: all that are before v; NULL: too many nodes to tell */
    uint64_t *later;   /* later[v * words ..]: all that v is before */
    size_t n_pairs, pairs_capacity;
    struct before *pairs;
};

/* What certain nodes do with a storage. */
enum use { READS, WRITES, ADDS };

static bool names(const mp_form *form, enum use use, int s)
{
    const int *list = use == READS ? form->reads : use == WRITES ? form->writes : form->adds;
    size_t n = use == READS ? form->n_reads : use == WRITES ? form->n_writes : form->n_adds;
    for (size_t i = 0; i < n; i++)
        if (list[i] == s) return true;
    return false;
}

/* Whether a node that uses s in one form does so in all. */
static bool always(const mp_graph *graph, int node, enum use use, int s)
{
    const mp_node *x = &graph->nodes[node];
    if (x->n_forms == 1) return true;
    for (size_t k = 0; k < x->n_forms; k++)
        if (!names(&x->forms[k], use, s)) return false;
    return true;
}

static bool runs_once(const mp_node *node)
{
    return node->phase != MP_PHASE_FORWARD || (node->flags & MP_NODE_ONCE);
}

static bool bit(const uint64_t *set, int i)
{
    return set[i / 64] >> i % 64 & 1;
}
static void set_bit(uint64_t *set, int i)
{
    set[i / 64] |= UINT64_C(1) << i % 64;
}
static void unite(uint64_t *set, const uint64_t *other, size_t words)
{
    for (size_t w = 0; w < words; w++) set[w] |= other[w];
}

static bool pair(struct order *o, int u, int v)
{
    if (u == v) return true;
    if (!mp_grow(&o->pairs, &o->pairs_capacity, o->n_pairs + 1, sizeof *o->pairs)) return false;
    o->pairs[o->n_pairs++] = (struct before){u, v};
    return true;
}

/* A sum whose contributions certainly come one after the other, so that the last stands for all. */
static bool is_chain(const mp_graph *graph, int s)
{
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
        if (!always(graph, graph->adders[a], ADDS, s)) return false;
    return !graph->storages[s].any_sum_order;
}

/* The pairs that storage s gives: sums in order, makers before readers, an update on its side of the readers. */
static bool pairs_of_storage(struct order *o, int s)
{
    const mp_graph *graph = o->graph;
    const mp_storage *storage = &graph->storages[s];
    int first = graph->adders_start[s], end = graph->adders_start[s + 1];
    bool chain = is_chain(graph, s);
    for (int a = first + 1; chain && a < end; a++)
        if (!pair(o, graph->adders[a - 1], graph->adders[a])) return false;
    for (int r = graph->readers_start[s]; graph->writer[s] >= 0 && r < graph->readers_start[s + 1]; r++) {
        const int reader = graph->readers[r];
        if (graph->nodes[reader].phase == MP_PHASE_UPDATE || !always(graph, reader, READS, s)) continue;
        if (!pair(o, graph->writer[s], reader)) return false;
    }
    if (mp_storage_is_static(storage) || storage->carried) return true;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
        int reader = graph->readers[r];
        if (!always(graph, reader, READS, s)) continue;
        if (graph->producer[s] >= 0 && !pair(o, graph->producer[s], reader)) return false;
        for (int a = chain && end > first ? end - 1 : first; a < end; a++)
            if (!pair(o, graph->adders[a], reader)) return false;
    }
    return true;
}

static bool pairs_of_update(struct order *o, int update)
{
    const mp_graph *graph = o->graph;
    const mp_form *form = &graph->nodes[update].forms[0];
    if (graph->fuse == MP_FUSE_NONE && !pair(o, o->n - 1, update)) return false;
    for (size_t i = 0; i < form->n_writes; i++) {
        int s = form->writes[i];
        if (graph->storages[s].kind != MP_KIND_PARAMETER || !always(graph, update, WRITES, s)) continue;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
            int reader = graph->readers[r];
            if (graph->nodes[reader].phase == MP_PHASE_UPDATE || !always(graph, reader, READS, s)) continue;
            if (!(graph->fuse == MP_FUSE_FORWARD ? pair(o, update, reader) : pair(o, reader, update))) return false;
        }
    }
    return true;
}

static bool find_pairs(struct order *o)
{
    const mp_graph *graph = o->graph;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!pairs_of_storage(o, (int)s)) return false;
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        mp_phase phase = graph->nodes[i].phase;
        if (phase == MP_PHASE_UPDATE && !pairs_of_update(o, i)) return false;
        if ((phase == MP_PHASE_LOSS || phase == MP_PHASE_BACKWARD) && !pair(o, i, o->n - 1)) return false;
    }
    return true;
}

/* Closes the pairs: keep-all obeys them all, so one sweep along it finds all that is earlier, and one back all that is later.
 */
static mp_status build_order(struct order *o, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = o->graph;
    mp_step *steps = NULL;
    int *sequence = NULL, *start = NULL, *list = NULL, n_sequence = 0;
    if (graph->n_nodes > MOST_NODES) return MP_OK;
    o->n = (int)graph->n_nodes + 1;
    o->words = ((size_t)o->n + 63) / 64;
    MP_REQUIRE(o->earlier = mp_alloc((size_t)o->n * o->words, 8), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(o->later = mp_alloc((size_t)o->n * o->words, 8), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(steps = mp_alloc((size_t)o->n, sizeof *steps), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(sequence = mp_alloc((size_t)o->n, sizeof *sequence), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(start = mp_alloc((size_t)o->n + 2, sizeof *start), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(find_pairs(o), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    MP_REQUIRE(list = mp_alloc(o->n_pairs, sizeof *list), err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);

    for (size_t k = 0; k < o->n_pairs; k++) start[o->pairs[k].v + 2]++;
    for (int v = 0; v < o->n; v++) start[v + 2] += start[v + 1];
    for (size_t k = 0; k < o->n_pairs; k++) list[start[o->pairs[k].v + 1]++] = o->pairs[k].u;

    mp_keep_all(graph, steps);
    for (size_t t = 0; t < graph->n_nodes; t++)
        if (graph->fuse == MP_FUSE_FORWARD || graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE)
            sequence[n_sequence++] = steps[t].node;
    sequence[n_sequence++] = o->n - 1; /* the end of backward */
    for (size_t t = 0; t < graph->n_nodes && n_sequence < o->n; t++)
        if (graph->nodes[steps[t].node].phase == MP_PHASE_UPDATE) sequence[n_sequence++] = steps[t].node;

    for (int i = 0; i < o->n; i++) {
        int v = sequence[i];
        for (int j = start[v]; j < start[v + 1]; j++) {
            unite(o->earlier + (size_t)v * o->words, o->earlier + (size_t)list[j] * o->words, o->words);
            set_bit(o->earlier + (size_t)v * o->words, list[j]);
        }
    }
    for (int i = o->n - 1; i >= 0; i--) {
        int v = sequence[i];
        for (int j = start[v]; j < start[v + 1]; j++) {
            unite(o->later + (size_t)list[j] * o->words, o->later + (size_t)v * o->words, o->words);
            set_bit(o->later + (size_t)list[j] * o->words, v);
        }
    }
done:
    mp_free(steps);
    mp_free(sequence);
    mp_free(start);
    mp_free(list);
    return st;
}

static bool made_once(const mp_graph *graph, int s)
{
    int p = graph->producer[s];
    return !mp_storage_is_static(&graph->storages[s]) && (p < 0 || runs_once(&graph->nodes[p]));
}

/* A set of nodes at whose first run the present instance of s is certainly there already (from) and will be used later (to).
 * `from` and `to` are cleared first. */
static void certain_life(const struct order *o, int s, uint64_t *from, uint64_t *to)
{
    const mp_graph *graph = o->graph;
    int p = graph->producer[s];
    for (size_t w = 0; w < o->words; w++) from[w] = to[w] = 0;
    if (p >= 0 && always(graph, p, WRITES, s)) unite(from, o->later + (size_t)p * o->words, o->words);
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++) {
        if (!always(graph, graph->adders[a], ADDS, s)) continue;
        unite(from, o->later + (size_t)graph->adders[a] * o->words, o->words);
        unite(to, o->earlier + (size_t)graph->adders[a] * o->words, o->words);
    }
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
        if (always(graph, graph->readers[r], READS, s)) unite(to, o->earlier + (size_t)graph->readers[r] * o->words, o->words);
    if (graph->storages[s].carried) /* it lives to the end of the step */
        for (size_t w = 0; w < o->words; w++) to[w] = ~UINT64_C(0);
}

/* Adds to held_bytes[v] every storage that certainly lives at the first run of v (at the end of backward, for the vertex behind
 * the nodes: at_end tells which), and that v does not use itself. */
static mp_status hold(const struct order *o, int64_t *held_bytes, bool *at_end, mp_error *err)
{
    const mp_graph *graph = o->graph;
    if (!o->earlier) return MP_OK;
    uint64_t *from = mp_alloc(3 * o->words, sizeof *from), *to, *own;
    if (!from) return MP_FAIL(err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    to = from + o->words;
    own = to + o->words;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        if (!graph->storages[s].bytes || !made_once(graph, s)) continue;
        certain_life(o, s, from, to);
        for (size_t w = 0; w < o->words; w++) own[w] = 0;
        if (graph->producer[s] >= 0) set_bit(own, graph->producer[s]);
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++) set_bit(own, graph->adders[a]);
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) set_bit(own, graph->readers[r]);
        for (size_t w = 0; w < o->words; w++) {
            for (uint64_t left = from[w] & to[w] & ~own[w]; left; left &= left - 1) {
                size_t v = w * 64 + (size_t)__builtin_ctzll(left);
                held_bytes[v] += graph->storages[s].bytes;
                at_end[s] |= v == graph->n_nodes;
            }
        }
    }
    mp_free(from);
    return MP_OK;
}

/* Whether an in-place pair can fit at the first run of `node` in some schedule. */
static bool may_fit(const struct order *o, int node, mp_in_place p)
{
    const mp_graph *graph = o->graph;
    const mp_storage *from = &graph->storages[p.from], *to = &graph->storages[p.to];
    if (mp_storage_is_static(from) || mp_storage_is_static(to) || from->bytes < to->bytes) return false;
    int first = graph->adders_start[p.to]; /* an output that is a sum begins with its first contribution */
    if (first < graph->adders_start[p.to + 1] && is_chain(graph, p.to) && graph->adders[first] != node) return false;
    if (!o->later || !made_once(graph, p.from)) return true;
    /* an input that is used later on does not die here */
    const uint64_t *later = o->later + (size_t)node * o->words;
    for (int r = graph->readers_start[p.from]; r < graph->readers_start[p.from + 1]; r++)
        if (bit(later, graph->readers[r]) && always(graph, graph->readers[r], READS, p.from)) return false;
    return true;
}

/* The most that in-place pairs can save: each input and each output counts once. `best` is zero per storage, before and after.
 */
static int64_t most_saved(const struct order *o, int node, const mp_form *form, int64_t *best)
{
    const mp_storage *storages = o->graph->storages;
    int64_t outputs = 0, inputs = 0;
    for (size_t i = 0; i < form->n_in_place; i++) {
        mp_in_place p = form->in_place[i];
        int64_t bytes = storages[p.to].bytes;
        if (!may_fit(o, node, p)) continue;
        if (!best[p.to]) outputs += best[p.to] = bytes;
        if (bytes > best[p.from]) {
            inputs += bytes - best[p.from];
            best[p.from] = bytes;
        }
    }
    for (size_t i = 0; i < form->n_in_place; i++) best[form->in_place[i].from] = best[form->in_place[i].to] = 0;
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

/* What a node itself needs in its cheapest form, beside what is counted already. */
static int64_t own_bytes(const struct order *o, int node, const bool *counted, int64_t *best)
{
    const mp_node *x = &o->graph->nodes[node];
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < x->n_forms; k++) {
        const mp_form *form = &x->forms[k];
        int64_t bytes = form->workspace_bytes - most_saved(o, node, form, best);
        bytes += list_bytes(o->graph, form->reads, form->n_reads, counted);
        bytes += list_bytes(o->graph, form->writes, form->n_writes, counted);
        bytes += list_bytes(o->graph, form->adds, form->n_adds, counted);
        if (bytes < least) least = bytes;
    }
    return least > 0 ? least : 0;
}

/* The least that the last node of backward needs beside what lives across the end of backward, whichever node is the last: one
 * that is before no other loss or backward node. */
static int64_t last_node_bytes(const struct order *o, const bool *at_end, int64_t *best)
{
    const mp_graph *graph = o->graph;
    int64_t least = INT64_MAX;
    for (int i = 0; o->later && i < (int)graph->n_nodes; i++) {
        bool last = graph->nodes[i].phase == MP_PHASE_LOSS || graph->nodes[i].phase == MP_PHASE_BACKWARD;
        const uint64_t *later = o->later + (size_t)i * o->words;
        for (size_t w = 0; last && w < o->words; w++)
            for (uint64_t left = later[w]; last && left; left &= left - 1) {
                size_t v = w * 64 + (size_t)__builtin_ctzll(left);
                last = v == graph->n_nodes || graph->nodes[v].phase == MP_PHASE_UPDATE ||
                       graph->nodes[v].phase == MP_PHASE_FORWARD;
            }
        int64_t bytes = last ? own_bytes(o, i, at_end, best) : INT64_MAX;
        if (bytes < least) least = bytes;
    }
    return least < INT64_MAX ? least : 0;
}

mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err)
{
    mp_status st = MP_OK;
    struct order o = {.graph = graph};
    int64_t *held_bytes = NULL, *best = NULL, highest = 0;
    bool *at_end = NULL;
    int where = -1;
    MP_REQUIRE(held_bytes = mp_alloc(graph->n_nodes + 1, sizeof *held_bytes), err, MP_NOMEM, "no memory for the floor of '%s'",
               graph->name);
    MP_REQUIRE(best = mp_alloc(graph->n_storages, sizeof *best), err, MP_NOMEM, "no memory for the floor of '%s'", graph->name);
    MP_REQUIRE(at_end = mp_alloc(graph->n_storages, sizeof *at_end), err, MP_NOMEM, "no memory for the floor of '%s'",
               graph->name);
    MP_TRY(build_order(&o, err));
    MP_TRY(hold(&o, held_bytes, at_end, err));
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        int64_t least = own_bytes(&o, i, NULL, best);
        if (where < 0 || held_bytes[i] + least > highest) {
            highest = held_bytes[i] + least;
            where = i;
        }
    }
    int64_t end = held_bytes[graph->n_nodes]; /* what lives across the end of backward lives while its last node runs */
    if (end) end += last_node_bytes(&o, at_end, best);
    if (end > highest) {
        highest = end;
        where = -1;
    }
    *floor_bytes = mp_graph_static_bytes(graph) + highest;
    *node = where;
done:
    mp_free(o.earlier);
    mp_free(o.later);
    mp_free(o.pairs);
    mp_free(held_bytes);
    mp_free(best);
    mp_free(at_end);
    return st;
}

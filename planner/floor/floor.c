/* floor.c - computes the floor: bytes that every schedule must hold at some moment.
 *
 * Below, "u before v" means that in every schedule the first run of u precedes the first run of v (precedence.h). At the first
 * run of v, all nodes before v have run and no node after v has run.
 *
 * A storage cannot be recomputed if its producers run once. If one of its producers is before v, and one of its readers or
 * adders is after v, the storage is live at v. The other storages that cannot be recomputed are live at v in some schedules
 * only. floor.h computes their least live bytes. The sum includes v's own storages and workspace in its cheapest alternative,
 * minus the most that in-place pairs can save. Only facts that hold in every alternative of a node count.
 *
 * Example: backward nodes g3 -> g2 -> g1, each writing the gradient of a parameter, and updates after backward. When g1 runs,
 * the gradients of parameters 3 and 2 are live in every schedule.
 *
 * Recomputable storages raise the floor as well: each is live or recomputed. Let a node j that runs once read s in every
 * alternative. Let s be produced through a chain of repeatable nodes P0 -> .. -> s, each reading the previous output in every
 * alternative. Let r be the run of P0 from which the s read by j is derived. Let v be a node that runs once and is before j.
 * - Let r precede v, and let v use no storage of the chain. Then some storage of the chain is live at v, in addition to the
 *   least bytes of v. That adds at least b, the bytes of the smallest storage of the chain.
 * - Assume that for each v in a set D, the least bytes of v plus b exceed F. In a schedule of at most F bytes, r is then after
 *   all of D and before j. At r, P0's own bytes are live, and the least bytes of storages produced once (floor.h).
 * - If their sum also exceeds F, no schedule fits into F. The smallest F that this argument does not exclude is the floor of
 *   (j, s, P0).
 *
 * Example: a convolution of the batch produces c (10 bytes) with 35 bytes of workspace. A relu produces a in the memory of c.
 * Node v reads g and produces h (10 bytes each) with 20 bytes of workspace. Node j reads h and a. Either a or c is live at v:
 * 40 + 10 bytes. Or the convolution runs after v, while h is live: 45 + 10 bytes. The floor is 50 bytes.
 */
#include "planner/floor/floor.h"

#include <stdlib.h>

#include "estimator/graph/liveness.h"
#include "planner/math/bits.h"
#include "planner/order/precedence.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    FLOOR_CUT_NODES = 8192,  /* minimum cuts raise the floor of graphs of up to 8192 nodes */
    FLOOR_WORK = 40000000,   /* vertices, arcs and storages that the minimum cuts of the floor examine */
    FLOOR_LOOKS = 400000000, /* nodes that the floor examines besides minimum cuts: half a second */
};

/* A node with a number of bytes. Lists of this type are sorted by bytes. */
typedef struct mp_floor_rank {
    int64_t bytes;
    int node;
} mp_floor_rank;

typedef struct mp_floor_needs {
    int64_t *least_bytes; /* per node: lower bound on the live bytes at its first run, without static bytes */
    /* per node: lower bound on the bytes of its operands and workspace while it runs, at any of its runs */
    int64_t *again_bytes;
} mp_floor_needs;

struct search {
    mp_floor_cut *cut;
    const mp_precedence *order;
    const mp_floor_needs *needs;
    /* most_work: limit on the work of the minimum cuts; looks: number of node visits outside of the minimum cuts */
    int64_t most_work, looks;
    int64_t bytes; /* the highest floor found, in bytes */
    mp_floor_reason *reason;
    size_t n;
    mp_floor_rank *once; /* the nodes that run only once, sorted by descending least bytes */
    /* per node: index (`chain`) of the last chain of producers of which some alternative of the node uses a storage */
    int *names;
    int chain;      /* number of the current chain */
    uint64_t *done; /* scratch: a set of vertices */
    /* for one triple (j, s, P0): a node j, a storage s that j reads, and the producer P0 at the start of the chain to s (see
     * the head of this file). The nodes before j whose least bytes exceed the floor if a storage of the chain is live too */
    mp_floor_rank *over;
};

static int by_bytes(const void *a, const void *b)
{
    const mp_floor_rank *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Sorts the list by descending bytes. Of nodes with equal bytes, the one with the smaller number is first. O(n log n). */
static void floor_rank_sort(mp_floor_rank *ranks, size_t n)
{
    if (n) qsort(ranks, n, sizeof *ranks, by_bytes);
}

/* Computes the least bytes that are live while `producer` runs, if it runs after the first n nodes of `over` and before node
 * j. */
static mp_status again(struct search *x, size_t n, int j, int producer, int64_t *bytes, mp_error *err)
{
    const mp_precedence *o = x->order;
    for (size_t w = 0; w < o->words; w++) x->done[w] = 0;
    for (size_t k = 0; k < n; k++) {
        const int v = x->over[k].node;
        const uint64_t *earlier = mp_precedence_ancestors(o, v);
        mp_bits_unite(x->done, earlier, o->words);
        mp_bits_add(x->done, v);
    }
    x->looks += (int64_t)(n * o->words);
    MP_CHECK(mp_floor_cut_least(x->cut, x->done, j, producer, bytes, err));
    *bytes += x->needs->again_bytes[producer];
    return MP_OK;
}

/* Returns the least live bytes (x->cut->level_bytes) of all positions of the sequence after the first n nodes of `over` and up
 * to node j. */
static int64_t least_level(const struct search *x, size_t n, int j)
{
    int last = -1;
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < n; k++)
        if (x->cut->position[x->over[k].node] > last) last = x->cut->position[x->over[k].node];
    for (int p = last + 1; p <= x->cut->position[j]; p++)
        if (x->cut->level_bytes[p] < least) least = x->cut->level_bytes[p];
    return least;
}

/* Raises the floor to that of the triple (j, s, producer) if it is higher. `held`: bytes of the smallest storage of the chain.
 * Let the producer run after over[0 .. k) and before j. Then its run needs again(k) bytes, which rise with k. The nodes in
 * `over` are sorted by descending bytes, so the bytes of over[k] plus `held` fall with k. The floor is at the k where the two
 * values cross. */
static mp_status try_producer(struct search *x, int j, int s, int producer, int64_t held, mp_error *err)
{
    /* bisection for k. Invariant: the bytes again(k) and the bytes of over[k] plus `held` cross at some k in [low, n] */
    size_t i, n = 0, low = 1;
    int64_t bytes;
    for (i = 0; i < x->n && x->once[i].bytes + held > x->bytes; i++) {
        const int v = x->once[i].node;
        if (x->names[v] != x->chain && mp_precedes(x->order, v, j)) x->over[n++] = x->once[i];
    }
    x->looks += (int64_t)i;
    if (!n || x->needs->again_bytes[producer] + least_level(x, n, j) <= x->bytes) return MP_OK;
    MP_CHECK(again(x, n, j, producer, &bytes, err));
    if (bytes <= x->bytes) return MP_OK;
    int64_t at_meeting = bytes;
    for (size_t high = n; low < high;) {
        const size_t k = (low + high) / 2;
        MP_CHECK(again(x, k, j, producer, &bytes, err));
        if (bytes >= x->over[k].bytes + held) {
            high = k;
            at_meeting = bytes;
        } else {
            low = k + 1;
        }
    }
    const mp_floor_rank *beside = &x->over[low - 1];
    x->bytes = at_meeting < beside->bytes + held ? at_meeting : beside->bytes + held;
    *x->reason = (mp_floor_reason){j, s, producer, beside->node, held, beside->bytes + held, at_meeting};
    return MP_OK;
}

static void name_readers(struct search *x, int s)
{
    const mp_graph *graph = x->order->graph;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) x->names[graph->readers[r]] = x->chain;
    x->looks += graph->readers_start[s + 1] - graph->readers_start[s];
}

/* Follows the chain of producers from s backward, each time along the largest input. Visits at most 16 nodes, and ends when the
 * chain can no longer raise the floor. */
static mp_status try_chain(struct search *x, int j, int s, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_storage *storages = o->graph->storages;
    int64_t held = storages[s].bytes;
    x->chain++;
    for (int length = 0, output = s; length < 16 && output >= 0; length++) {
        const int producer = o->graph->producer[output];
        int input = -1;
        if (storages[output].bytes < held) held = storages[output].bytes;
        if (!held || x->once[0].bytes + held <= x->bytes || x->cut->work > x->most_work || x->looks > FLOOR_LOOKS) break;
        name_readers(x, output);
        MP_CHECK(try_producer(x, j, s, producer, held, err));
        for (int r = o->reads_start[producer]; r < o->reads_start[producer + 1]; r++)
            if (o->recomputable[o->reads[r]] && (input < 0 || storages[o->reads[r]].bytes > storages[input].bytes))
                input = o->reads[r];
        x->looks += o->reads_start[producer + 1] - o->reads_start[producer];
        output = input;
    }
    return MP_OK;
}

/* Raises *bytes (without static bytes) to the highest floor of any triple (j, s, P0), as defined at the head of this file. Sets
 * *reason. If the work of the minimum cuts exceeds `most_work`, stops early with the highest floor found. MP_NOMEM. O(nodes)
 * per triple, of which each node j has a few, plus the minimum cuts. */
static mp_status floor_held(mp_floor_cut *cut, const mp_floor_needs *needs, int64_t most_work, int64_t *bytes,
                            mp_floor_reason *reason, mp_error *err)
{
    const mp_precedence *o = cut->order;
    const size_t n = (size_t)o->n - 1;
    struct search x = {.cut = cut, .order = o, .needs = needs, .most_work = most_work, .bytes = *bytes, .reason = reason};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    x.once = mp_pool_alloc(pool, n, sizeof *x.once);
    x.over = mp_pool_alloc(pool, n, sizeof *x.over);
    x.names = mp_pool_alloc(pool, n, sizeof *x.names);
    x.done = mp_pool_alloc(pool, o->words, sizeof *x.done);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the floor of %zu nodes", n);
    for (size_t i = 0; i < n; i++)
        if (!o->repeatable[i]) x.once[x.n++] = (mp_floor_rank){needs->least_bytes[i], (int)i};
    floor_rank_sort(x.once, x.n);
    for (int j = 0; j < (int)n && x.n; j++)
        for (int r = o->reads_start[j]; r < o->reads_start[j + 1] && !o->repeatable[j]; r++)
            if (o->recomputable[o->reads[r]]) MP_CHECK(try_chain(&x, j, o->reads[r], err));
    *bytes = x.bytes;
    return MP_OK;
}

/* True if the precedence relation stores the ancestors and descendants of every vertex. */
static bool has_sets(const mp_precedence *o)
{
    return o->only_vertex < 0;
}

static bool is_produced_once(const mp_precedence *o, int s)
{
    return !mp_storage_is_static(&o->graph->storages[s]) && !o->recomputable[s];
}

/* Computes two sets of nodes for storage s. `from`: nodes whose first run follows a maker of s (a node that produces s) in
 * every plan. `to`: nodes whose first run precedes a user of s in every plan. At the first run of a node in both sets, s is
 * live. */
static void certain_life(const mp_precedence *o, int s, uint64_t *from, uint64_t *to)
{
    const mp_certain_life life = mp_certain_life_of(o, s);
    for (size_t w = 0; w < o->words; w++) {
        from[w] = 0;
        to[w] = life.stays ? ~UINT64_C(0) : 0;
    }
    for (int k = 0; k < life.n_makers; k++) mp_bits_unite(from, mp_precedence_descendants(o, life.makers[k]), o->words);
    for (int k = life.n_users - 1; k >= 0; k--) /* if `to` contains a user, `to` already contains all ancestors of this user */
        if (!mp_bits_has(to, life.users[k])) mp_bits_unite(to, mp_precedence_ancestors(o, life.users[k]), o->words);
}

/* Adds bytes to live_bytes[v] for every node v: the bytes of each storage that is live at the first run of v in every plan and
 * is not used by v. Sets at_end[s] for each storage s that is live at the end of backward, the vertex after all nodes. */
static mp_status hold(const mp_precedence *o, int64_t *live_bytes, bool *at_end, mp_error *err)
{
    const mp_graph *graph = o->graph;
    if (!has_sets(o)) return MP_OK;
    int64_t looks = 0;
    uint64_t *from = mp_alloc(3 * o->words, sizeof *from), *to, *own;
    if (!from) return MP_FAIL(err, MP_NOMEM, "no memory for the floor of %d nodes", o->n);
    to = from + o->words;
    own = to + o->words;
    for (int s = 0; s < (int)graph->n_storages && looks <= FLOOR_LOOKS; s++) {
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

/* Some runs of a node, whose in-place pairs are considered. any_run true: all runs of the node; false: only its first run. */
typedef struct runs {
    const mp_precedence *order;
    int node;
    bool any_run;
} runs;

/* True if the in-place pair can apply at a run of the node in some schedule: p.from then ends at the run, and p.to begins
 * there. */
static bool may_apply(const void *data, mp_in_place p)
{
    const runs *x = data;
    const mp_precedence *o = x->order;
    const mp_graph *graph = o->graph;
    const int node = x->node;
    /* a sum begins at its first contribution, so only the first adder can place it in the memory of an input */
    int first = graph->adders_start[p.to];
    if (first < graph->adders_start[p.to + 1] && mp_adds_in_turn(o, p.to) && graph->adders[first] != node) return false;
    if (x->any_run || !has_sets(o) || !is_produced_once(o, p.from)) return true;
    /* a later node always reads this input, so its memory cannot be taken over at this run */
    const uint64_t *later = mp_precedence_descendants(o, node);
    for (int r = graph->readers_start[p.from]; r < graph->readers_start[p.from + 1]; r++)
        if (mp_bits_has(later, graph->readers[r]) && mp_always_reads(o, graph->readers[r], p.from)) return false;
    return true;
}

/* Returns the most bytes that in-place pairs of an alternative can save. Each input and each output is in at most one pair.
 * `best` is scratch, one entry per storage, zero on entry and on return. */
static int64_t most_saved(const mp_precedence *o, int node, const mp_alternative *alternative, bool any_run, int64_t *best)
{
    const runs x = {o, node, any_run};
    const mp_pairs_most most = mp_pairs_save_at_most(o->graph, alternative, may_apply, &x, best);
    return most.outputs_bytes < most.inputs_bytes ? most.outputs_bytes : most.inputs_bytes;
}

/* Returns the bytes of a list of storages. Static storages and storages marked in `counted` (NULL: none) are omitted. */
static int64_t list_bytes(const mp_graph *graph, const int *list, size_t n, const bool *counted)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (!mp_storage_is_static(&graph->storages[list[i]]) && !(counted && counted[list[i]]))
            bytes += graph->storages[list[i]].bytes;
    return bytes;
}

/* Returns the bytes of operands and workspace that a node needs in its cheapest alternative. The bytes are those of its first
 * run, or with any_run a bound for all of its runs. Storages marked in `counted` are omitted. */
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

/* Returns the least bytes that the last node of backward needs, without the storages that are live at the end of backward.
 * Every loss or backward node that precedes no other one may be the last. */
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

/* Raises least_bytes of nodes by minimum cuts. A cut is computed only for nodes that may then exceed the largest least_bytes of
 * any node, either alone or together with a recomputable storage. */
static mp_status raise_by_cuts(mp_floor_cut *cut, const int64_t *own, int64_t *least_bytes, mp_error *err)
{
    const mp_precedence *o = cut->order;
    const int n = o->n - 1;
    int64_t highest = 0, held = 0, bytes;
    MP_OWNED mp_floor_rank *ranks = mp_alloc((size_t)n, sizeof *ranks);
    MP_ENSURE(ranks, err, MP_NOMEM, "no memory for the floor of %d nodes", n);
    for (size_t s = 0; s < o->graph->n_storages; s++)
        if (o->recomputable[s] && o->graph->storages[s].bytes > held) held = o->graph->storages[s].bytes;
    for (int i = 0; i < n; i++) {
        ranks[i] = (mp_floor_rank){own[i] + cut->level_bytes[cut->position[i]], i};
        if (least_bytes[i] > highest) highest = least_bytes[i];
    }
    floor_rank_sort(ranks, (size_t)n);
    for (int k = 0; k < n && ranks[k].bytes + held > highest && cut->work < FLOOR_WORK / 2; k++) {
        const int i = ranks[k].node;
        if ((ranks[k].bytes <= highest && o->repeatable[i]) || ranks[k].bytes <= least_bytes[i]) continue;
        MP_CHECK(mp_floor_cut_least(cut, mp_precedence_ancestors(o, i), i, i, &bytes, err));
        if (own[i] + bytes > least_bytes[i]) least_bytes[i] = own[i] + bytes;
        if (least_bytes[i] > highest) highest = least_bytes[i];
    }
    return MP_OK;
}

/* Returns the largest entry of `bytes`, and the node with this entry; 0 and -1 if there are no nodes. */
static int64_t highest_of(const int64_t *bytes, int n, int *node)
{
    *node = n ? 0 : -1;
    for (int i = 1; i < n; i++)
        if (bytes[i] > bytes[*node]) *node = i;
    return n ? bytes[*node] : 0;
}

mp_status mp_floor_of(const mp_precedence *o, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err)
{
    const mp_graph *graph = o->graph;
    const int n = (int)graph->n_nodes;
    MP_OWNED_BY(mp_floor_cut_free) mp_floor_cut *cut = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_floor_reason why = {.storage = -1, .producer = -1, .beside = -1};
    /* per node: the least live bytes at its first run, without static bytes */
    int64_t *least = mp_pool_alloc(pool, (size_t)n + 1, sizeof *least);
    int64_t *own = mp_pool_alloc(pool, (size_t)n, sizeof *own);
    int64_t *again = mp_pool_alloc(pool, (size_t)n, sizeof *again);
    int64_t *best = mp_pool_alloc(pool, graph->n_storages, sizeof *best);
    bool *at_end = mp_pool_alloc(pool, graph->n_storages, sizeof *at_end);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the floor of '%s'", graph->name);
    MP_CHECK(hold(o, least, at_end, err));
    /* storages that are live at the end of backward are also live while the last node of backward runs */
    int64_t end = least[n];
    if (end) end += last_node_bytes(o, at_end, best);
    for (int i = 0; i < n; i++) {
        own[i] = own_bytes(o, i, false, NULL, best);
        again[i] = own_bytes(o, i, true, NULL, best);
        least[i] += own[i];
    }
    const bool cuts = has_sets(o) && n <= FLOOR_CUT_NODES;
    if (cuts) {
        MP_CHECK(mp_floor_cut_new(o, &cut, err));
        MP_CHECK(raise_by_cuts(cut, own, least, err));
    }
    int64_t highest = highest_of(least, n, &why.node);
    if (end > highest) {
        highest = end;
        why.node = -1;
    }
    if (cuts) MP_CHECK(floor_held(cut, &(mp_floor_needs){least, again}, FLOOR_WORK, &highest, &why, err));
    *floor_bytes = highest + mp_graph_static_bytes(graph);
    *reason = why;
    return MP_OK;
}

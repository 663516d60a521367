/* graph_check.c - checks the structure of a training graph, and computes the lists that mp_graph_finish derives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "estimator/graph/graph_check_algorithms.h"
#include "memplan/timeline.h"

/* Checks whether keep-all can run; if not, whether a dependency cycle is the reason. A storage is available after its
 * producer has run, a sum after all its adders. Carried gradients and static storages are available from the start. */

/* True if a reader of s must wait for the nodes that produce s. */
static bool is_made(const mp_graph *graph, int s)
{
    return !mp_storage_is_static(&graph->storages[s]) && !graph->storages[s].carried;
}

/* ---- dependency cycles: depth-first search; nodes depend on storages and storages on nodes ---- */

enum { UNSEEN, ON_PATH, DONE };

struct vertex { /* node i of the graph is vertex i, storage s is vertex n_nodes + s */
    int parent, next_dependency;
    int colour;
};

/* Returns dependency k of a vertex. -1: this dependency needs no wait. -2: the vertex has no further dependency. */
static int dependency(const mp_graph *graph, int v, int k)
{
    int n = (int)graph->n_nodes;
    if (v < n) {
        const mp_alternative *alternative = &graph->nodes[v].alternatives[0];
        if ((size_t)k >= alternative->n_reads) return -2;
        return is_made(graph, alternative->reads[k]) ? n + alternative->reads[k] : -1;
    }
    int s = v - n, first = graph->adders_start[s];
    if (mp_storage_is_sum(graph, s)) return first + k < graph->adders_start[s + 1] ? graph->adders[first + k] : -2;
    return k == 0 ? graph->producer[s] : -2;
}

/* Finds a node on a dependency cycle; *node is -1 if the graph has no cycle. */
static mp_status find_cycle(const mp_graph *graph, int *node, mp_error *err)
{
    int n = (int)graph->n_nodes;
    MP_OWNED struct vertex *vertices = mp_alloc(graph->n_nodes + graph->n_storages, sizeof *vertices);
    if (!vertices) return MP_FAIL(err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    *node = -1;
    for (int root = 0; root < n && *node < 0; root++) {
        int v = vertices[root].colour == UNSEEN ? root : -1;
        if (v >= 0) vertices[v] = (struct vertex){-1, 0, ON_PATH};
        while (v >= 0 && *node < 0) {
            int d = dependency(graph, v, vertices[v].next_dependency++);
            if (d == -2) {
                vertices[v].colour = DONE;
                v = vertices[v].parent;
            } else if (d >= 0 && vertices[d].colour == ON_PATH) {
                *node = d < n ? d : v; /* if d is a storage, then v is a node, because v depends on d */
            } else if (d >= 0 && vertices[d].colour == UNSEEN) {
                vertices[d] = (struct vertex){v, 0, ON_PATH};
                v = d;
            }
        }
    }
    return MP_OK;
}

/* Records why `node` cannot read storage s after all nodes v with ran[v] have run. */
static mp_status explain(const mp_graph *graph, int node, int s, const bool *ran, mp_error *err)
{
    int on_cycle = -1, maker = graph->producer[s];
    MP_CHECK(find_cycle(graph, &on_cycle, err));
    MP_ENSURE(on_cycle < 0, err, MP_PARSE, "%s is on a dependency cycle", mp_node_label(graph, on_cycle).text);
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
        if (!ran[graph->adders[a]]) maker = graph->adders[a];
    MP_ENSURE(maker >= 0 && !ran[maker], err, MP_PARSE, "%s reads %s, which no node produces", mp_node_label(graph, node).text,
              mp_storage_label(graph, s).text);
    MP_ENSURE(!(graph->nodes[maker].flags & MP_NODE_OPTIONAL), err, MP_PARSE,
              "%s reads %s, which only %s produces, an optional node", mp_node_label(graph, node).text,
              mp_storage_label(graph, s).text, mp_node_label(graph, maker).text);
    return MP_FAIL(err, MP_PARSE, "%s reads %s before %s, a later node, produces it", mp_node_label(graph, node).text,
                   mp_storage_label(graph, s).text, mp_node_label(graph, maker).text);
}

static mp_status check_order(const mp_graph *graph, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    bool *ran = mp_pool_alloc(pool, graph->n_nodes, sizeof *ran);
    int *made = mp_pool_alloc(pool, graph->n_storages,
                              sizeof *made); /* per storage: the number of its producers or adders that have run */
    mp_step *steps = mp_pool_alloc(pool, graph->n_nodes, sizeof *steps);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    const size_t n = mp_keep_all(graph, steps);
    for (size_t t = 0; t < n; t++) {
        int node = steps[t].node;
        const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
        for (size_t i = 0; i < alternative->n_reads; i++) {
            int s = alternative->reads[i],
                makers = mp_storage_is_sum(graph, s) ? graph->adders_start[s + 1] - graph->adders_start[s] : 1;
            if (is_made(graph, s) && made[s] < makers) MP_CHECK(explain(graph, node, s, ran, err));
        }
        for (size_t i = 0; i < alternative->n_writes; i++) made[alternative->writes[i]]++;
        for (size_t i = 0; i < alternative->n_adds; i++) made[alternative->adds[i]]++;
        ran[node] = true;
    }
    return MP_OK;
}

/* Flags: how the alternative under test uses a storage. They are valid only if `stamp` equals the checker's `stamp`. */
struct mark {
    int stamp;
    bool read, written, added;
};

struct checker {
    mp_graph *graph;
    int stamp;          /* number of the alternative that is being checked */
    struct mark *marks; /* per storage: flags of the lists of the alternative under test that contain it */
    bool *base_adds;    /* per storage: true if the base alternative of the node under test adds to it */
    int *adder;         /* per storage: a node that adds to it in some alternative; -1: none */
    int *base_writes;   /* per storage: 1 + the index of the last node whose base alternative writes it; 0: none */
    mp_error *err;
};

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Checks that no id occurs twice, and sorts the n ids in place. `what` is "storage" or "node", for messages. */
static mp_status distinct_ids(int64_t *ids, size_t n, const char *what, mp_error *err)
{
    if (n) qsort(ids, n, sizeof *ids, compare_ids);
    for (size_t i = 1; i < n; i++)
        if (ids[i] == ids[i - 1]) return MP_FAIL(err, MP_PARSE, "%s id %lld is listed twice", what, (long long)ids[i]);
    return MP_OK;
}

static mp_status check_ids(const mp_graph *graph, mp_error *err)
{
    size_t n = graph->n_storages > graph->n_nodes ? graph->n_storages : graph->n_nodes;
    MP_OWNED int64_t *ids = mp_alloc(n, sizeof *ids);
    MP_ENSURE(ids, err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    for (size_t i = 0; i < graph->n_storages; i++) ids[i] = graph->storages[i].id;
    MP_CHECK(distinct_ids(ids, graph->n_storages, "storage", err));
    for (size_t i = 0; i < graph->n_nodes; i++) ids[i] = graph->nodes[i].id;
    return distinct_ids(ids, graph->n_nodes, "node", err);
}

/* Limits the sums of bytes and ticks. Live bytes are a sum over all storages (carried ones may count twice) plus one
 * workspace, so each total may use a quarter of the int64_t range. Plans may run every node a thousand times. */
static const int64_t most_bytes = INT64_MAX / 4, most_ticks = INT64_MAX / 1024;

static mp_status check_storages(const mp_graph *graph, mp_error *err)
{
    int64_t total = 0;
    MP_ENSURE(graph->n_storages < INT32_MAX / 2 && graph->n_nodes < INT32_MAX / 2, err, MP_PARSE, "the graph '%s' is too large",
              graph->name);
    MP_ENSURE(graph->alignment >= 1, err, MP_PARSE, "the graph '%s' has the alignment %lld, but it must be 1 or more",
              graph->name, (long long)graph->alignment);
    MP_ENSURE(isfinite(graph->tick_seconds) && graph->tick_seconds > 0, err, MP_PARSE,
              "the graph '%s' has a tick of %g seconds, but a tick must be over 0", graph->name, graph->tick_seconds);
    for (size_t i = 0; i < graph->n_storages; i++) {
        const mp_storage *s = &graph->storages[i];
        MP_ENSURE((unsigned)s->kind < MP_N_KINDS, err, MP_PARSE, "%s has an unknown kind",
                  mp_storage_label(graph, (int)i).text);
        MP_ENSURE(s->tier >= 0 && (size_t)s->tier < graph->n_tiers, err, MP_PARSE, "%s is in a tier that does not exist",
                  mp_storage_label(graph, (int)i).text);
        MP_ENSURE(s->bytes >= 0, err, MP_PARSE, "%s has %lld bytes, but a size must be 0 or more",
                  mp_storage_label(graph, (int)i).text, (long long)s->bytes);
        MP_ENSURE(mp_add(total, s->bytes, &total) && total <= most_bytes, err, MP_PARSE,
                  "up to %s the storages add up to more bytes than can be counted", mp_storage_label(graph, (int)i).text);
        MP_ENSURE(!(s->carried && mp_storage_is_static(s)), err, MP_PARSE, "%s is both carried and static",
                  mp_storage_label(graph, (int)i).text);
    }
    return MP_OK;
}

/* Checks a list of an alternative: all storages exist, and none occurs twice. Sets the list's flag of `mark` at offset
 * `field`. */
static mp_status mark_list(struct checker *c, int node, const int *list, size_t n, const char *verb, size_t field)
{
    for (size_t i = 0; i < n; i++) {
        int s = list[i];
        MP_ENSURE(s >= 0 && (size_t)s < c->graph->n_storages, c->err, MP_PARSE, "%s %s a storage that does not exist",
                  mp_node_label(c->graph, node).text, verb);
        struct mark *m = &c->marks[s];
        if (m->stamp != c->stamp) *m = (struct mark){.stamp = c->stamp};
        bool *flag = (bool *)((char *)m + field);
        MP_ENSURE(!*flag, c->err, MP_PARSE, "%s %s %s twice", mp_node_label(c->graph, node).text, verb,
                  mp_storage_label(c->graph, s).text);
        *flag = true;
        MP_ENSURE(!m->read || (!m->written && !m->added) || mp_kind_is_static(c->graph->storages[s].kind), c->err, MP_PARSE,
                  "%s reads and writes %s, but only a static storage allows both", mp_node_label(c->graph, node).text,
                  mp_storage_label(c->graph, s).text);
        MP_ENSURE(!m->written || !m->added, c->err, MP_PARSE, "%s both writes and adds to %s",
                  mp_node_label(c->graph, node).text, mp_storage_label(c->graph, s).text);
    }
    return MP_OK;
}

static bool marked(const struct checker *c, int s, size_t field)
{
    return s >= 0 && (size_t)s < c->graph->n_storages && c->marks[s].stamp == c->stamp &&
           *(const bool *)((const char *)&c->marks[s] + field);
}

/* Checks the channel of an alternative, and the rules for returning alternatives. */
static mp_status check_channel(struct checker *c, int node, const mp_alternative *alternative, bool base)
{
    const mp_graph *graph = c->graph;
    MP_ENSURE(alternative->channel >= 0 && (size_t)alternative->channel < graph->n_channels, c->err, MP_PARSE,
              "%s runs on a channel that does not exist", mp_node_label(graph, node).text);
    for (size_t i = 0; base && i < alternative->n_writes; i++) c->base_writes[alternative->writes[i]] = node + 1;
    if (!alternative->returns) return MP_OK;
    MP_ENSURE(!base, c->err, MP_PARSE, "the first alternative of %s returns a storage, but only later alternatives may",
              mp_node_label(graph, node).text);
    MP_ENSURE(!alternative->n_adds && alternative->n_writes && !alternative->algorithm, c->err, MP_PARSE,
              "a returning alternative of %s writes no storage, adds to one or names an algorithm",
              mp_node_label(graph, node).text);
    for (size_t i = 0; i < alternative->n_writes; i++)
        MP_ENSURE(c->base_writes[alternative->writes[i]] == node + 1, c->err, MP_PARSE,
                  "an alternative of %s returns %s, but its first alternative does not write it",
                  mp_node_label(graph, node).text, mp_storage_label(graph, alternative->writes[i]).text);
    return MP_OK;
}

/* Checks the rules for an optional node (a copy out). */
static mp_status check_optional(const struct checker *c, int i)
{
    const mp_node *node = &c->graph->nodes[i];
    if (!(node->flags & MP_NODE_OPTIONAL)) return MP_OK;
    MP_ENSURE(node->phase == MP_PHASE_FORWARD, c->err, MP_PARSE, "%s is optional, but only forward nodes may be optional",
              mp_node_label(c->graph, i).text);
    for (size_t k = 0; k < node->n_alternatives; k++) {
        MP_ENSURE(!node->alternatives[k].returns, c->err, MP_PARSE, "%s is optional, but it has a returning alternative",
                  mp_node_label(c->graph, i).text);
        for (size_t j = 0; j < node->alternatives[k].n_writes; j++)
            MP_ENSURE(!mp_storage_is_static(&c->graph->storages[node->alternatives[k].writes[j]]), c->err, MP_PARSE,
                      "%s is optional, but it writes %s, which is static", mp_node_label(c->graph, i).text,
                      mp_storage_label(c->graph, node->alternatives[k].writes[j]).text);
    }
    return MP_OK;
}

static mp_status check_alternative(struct checker *c, int node, mp_alternative *alternative, bool base)
{
    mp_graph *graph = c->graph;
    mp_phase phase = graph->nodes[node].phase;
    c->stamp++;
    MP_CHECK(mark_list(c, node, alternative->reads, alternative->n_reads, "reads", offsetof(struct mark, read)));
    MP_CHECK(mark_list(c, node, alternative->writes, alternative->n_writes, "writes", offsetof(struct mark, written)));
    MP_CHECK(mark_list(c, node, alternative->adds, alternative->n_adds, "adds to", offsetof(struct mark, added)));
    MP_ENSURE(alternative->workspace_bytes >= 0 && alternative->workspace_bytes <= most_bytes, c->err, MP_PARSE,
              "%s has a workspace of %lld bytes, which is out of range", mp_node_label(graph, node).text,
              (long long)alternative->workspace_bytes);
    MP_ENSURE(alternative->ticks >= 0, c->err, MP_PARSE, "%s takes %lld ticks, but the time must be 0 or more",
              mp_node_label(graph, node).text, (long long)alternative->ticks);
    if (phase == MP_PHASE_UPDATE && alternative->channel == MP_CHANNEL_COMPUTE) alternative->channel = MP_CHANNEL_SECOND_STREAM;
    MP_CHECK(check_channel(c, node, alternative, base));
    MP_ENSURE(!alternative->n_adds || phase == MP_PHASE_LOSS || phase == MP_PHASE_BACKWARD, c->err, MP_PARSE,
              "%s is a %s node and adds to %s, but only loss and backward nodes may add", mp_node_label(graph, node).text,
              mp_phase_name(phase), mp_storage_label(graph, alternative->adds[0]).text);
    for (size_t i = 0; i < alternative->n_writes; i++) {
        int s = alternative->writes[i];
        if (mp_kind_is_static(graph->storages[s].kind)) continue;
        MP_ENSURE(graph->producer[s] < 0 || graph->producer[s] == node, c->err, MP_PARSE, "%s is written by %s and by %s",
                  mp_storage_label(graph, s).text, mp_node_label(graph, graph->producer[s]).text,
                  mp_node_label(graph, node).text);
        graph->producer[s] = node;
    }
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int s = alternative->adds[i];
        if (base) c->base_adds[s] = true;
        c->adder[s] = node;
        MP_ENSURE(c->base_adds[s], c->err, MP_PARSE, "an alternative of %s adds to %s, but its first alternative does not",
                  mp_node_label(graph, node).text, mp_storage_label(graph, s).text);
    }
    for (size_t i = 0; i < alternative->n_in_place; i++) {
        mp_in_place p = alternative->in_place[i];
        MP_ENSURE(marked(c, p.from, offsetof(struct mark, read)) &&
                      (marked(c, p.to, offsetof(struct mark, written)) || marked(c, p.to, offsetof(struct mark, added))),
                  c->err, MP_PARSE, "%s has an in-place pair that is not a read storage followed by a written storage",
                  mp_node_label(graph, node).text);
        MP_ENSURE(graph->storages[p.from].tier == graph->storages[p.to].tier, c->err, MP_PARSE,
                  "%s has an in-place pair with storages in different tiers", mp_node_label(graph, node).text);
        MP_ENSURE(!graph->storages[p.from].carried, c->err, MP_PARSE, "%s would overwrite %s, which is carried",
                  mp_node_label(graph, node).text, mp_storage_label(graph, p.from).text);
    }
    return MP_OK;
}

static mp_status check_nodes(struct checker *c)
{
    mp_graph *graph = c->graph;
    int64_t ticks = 0;
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        int64_t slowest = 0;
        MP_ENSURE((unsigned)node->phase < MP_N_PHASES, c->err, MP_PARSE, "%s has an unknown phase",
                  mp_node_label(graph, i).text);
        MP_ENSURE(node->n_alternatives >= 1, c->err, MP_PARSE, "%s has no alternative", mp_node_label(graph, i).text);
        MP_ENSURE(node->forward_of >= -1 && node->forward_of < (int)graph->n_nodes &&
                      (node->forward_of < 0 || graph->nodes[node->forward_of].phase == MP_PHASE_FORWARD),
                  c->err, MP_PARSE, "%s names a forward node that is not in the forward phase", mp_node_label(graph, i).text);
        for (size_t k = 0; k < node->n_alternatives; k++) {
            MP_CHECK(check_alternative(c, i, &node->alternatives[k], k == 0));
            if (node->alternatives[k].ticks > slowest) slowest = node->alternatives[k].ticks;
        }
        MP_CHECK(mp_graph_check_algorithms(graph, i, c->err));
        MP_CHECK(check_optional(c, i));
        for (size_t k = 0; k < node->alternatives[0].n_adds; k++) c->base_adds[node->alternatives[0].adds[k]] = false;
        MP_ENSURE(mp_add(ticks, slowest, &ticks) && ticks <= most_ticks, c->err, MP_PARSE,
                  "up to %s the nodes add up to more ticks than can be counted", mp_node_label(graph, i).text);
    }
    for (int s = 0; s < (int)graph->n_storages; s++)
        MP_ENSURE(c->adder[s] < 0 || graph->producer[s] < 0, c->err, MP_PARSE, "%s is both written by %s and added to by %s",
                  mp_storage_label(graph, s).text, mp_node_label(graph, graph->producer[s]).text,
                  mp_node_label(graph, c->adder[s]).text);
    return MP_OK;
}

/* Fills start[0..n_storages] and *lists with the nodes that add to each storage (in the base alternative) or read it (in any
 * alternative). */
static mp_status invert(mp_graph *graph, bool adds, int **start, int **lists, mp_error *err)
{
    size_t n = graph->n_storages;
    MP_OWNED int *last = mp_alloc(n, sizeof *last);
    *start = mp_pool_alloc(graph->derived, n + 2, sizeof **start);
    MP_ENSURE(last && *start, err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    /* round 0 counts the entries per storage s, round 1 stores them; then (*start)[s + 1] is the next free entry of s */
    for (int round = 0; round < 2; round++) {
        for (size_t s = 0; s < n; s++) last[s] = -1;
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            const mp_node *node = &graph->nodes[i];
            for (size_t k = 0; k < (adds ? 1 : node->n_alternatives); k++) {
                const mp_alternative *alternative = &node->alternatives[k];
                size_t n_list = adds ? alternative->n_adds : alternative->n_reads;
                for (size_t j = 0; j < n_list; j++) {
                    int s = adds ? alternative->adds[j] : alternative->reads[j];
                    if (last[s] == i) continue;
                    last[s] = i;
                    if (round == 0)
                        (*start)[s + 2]++;
                    else
                        (*lists)[(*start)[s + 1]++] = i;
                }
            }
        }
        if (round == 1) break;
        for (size_t s = 0; s < n; s++) (*start)[s + 2] += (*start)[s + 1];
        *lists = mp_pool_alloc(graph->derived, (size_t)(*start)[n + 1], sizeof **lists);
        MP_ENSURE(*lists, err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    }
    return MP_OK;
}

static bool reads(const mp_node *node, int s)
{
    for (size_t f = 0; f < node->n_alternatives; f++)
        if (mp_list_has(node->alternatives[f].reads, node->alternatives[f].n_reads, s)) return true;
    return false;
}

/* Finds the only non-update node that writes each static storage (mp_graph.writer). */
static mp_status find_writers(mp_graph *graph, mp_error *err)
{
    enum { SEVERAL = -2 };
    graph->writer = mp_pool_alloc(graph->derived, graph->n_storages, sizeof *graph->writer);
    MP_ENSURE(graph->writer, err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++) graph->writer[s] = -1;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        for (size_t f = 0; f < node->n_alternatives && node->phase != MP_PHASE_UPDATE; f++)
            for (size_t k = 0; k < node->alternatives[f].n_writes; k++) {
                const int s = node->alternatives[f].writes[k];
                const bool is_alone = graph->writer[s] == -1 || graph->writer[s] == (int)i;
                if (!mp_storage_is_static(&graph->storages[s])) continue;
                graph->writer[s] = is_alone && !reads(node, s) ? (int)i : SEVERAL;
            }
    }
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->writer[s] == SEVERAL) graph->writer[s] = -1;
    return MP_OK;
}

/* Checks the nodes that copy state, which end the list. For one update, each copies a static storage of another tier
 * to the device or back. */
static mp_status check_state_copies(const mp_graph *graph, mp_error *err)
{
    const size_t first = graph->n_nodes - mp_graph_n_state_copies(graph);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_alternative *a = graph->nodes[i].alternatives;
        if (!mp_node_copies_state(graph, (int)i)) continue;
        MP_ENSURE(i >= first, err, MP_PARSE, "%s copies optimizer state, but other nodes follow it in the list",
                  mp_node_label(graph, (int)i).text);
        MP_ENSURE(graph->nodes[i].n_alternatives == 1 && !a->workspace_bytes, err, MP_PARSE,
                  "%s copies optimizer state, so it may have neither other alternatives nor a workspace",
                  mp_node_label(graph, (int)i).text);
        const bool is_in = graph->storages[a->writes[0]].tier == MP_TIER_DEVICE;
        const int here = is_in ? a->writes[0] : a->reads[0], there = is_in ? a->reads[0] : a->writes[0];
        const int n_readers = graph->readers_start[here + 1] - graph->readers_start[here];
        const int update = is_in ? (n_readers == 1 ? graph->readers[graph->readers_start[here]] : -1) : graph->producer[here];
        MP_ENSURE(!mp_storage_is_static(&graph->storages[here]) && mp_storage_is_static(&graph->storages[there]) &&
                      n_readers == 1 && update >= 0 && graph->nodes[update].phase == MP_PHASE_UPDATE && (size_t)update < first,
                  err, MP_PARSE, "%s must copy optimizer state between a static storage of another tier and a single update",
                  mp_node_label(graph, (int)i).text);
    }
    return MP_OK;
}

static bool has_copies(const mp_graph *graph)
{
    bool found = graph->n_channels > 2 || graph->n_tiers > 1;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        found |= (graph->nodes[i].flags & MP_NODE_OPTIONAL) != 0;
        for (size_t k = 1; k < graph->nodes[i].n_alternatives; k++) found |= graph->nodes[i].alternatives[k].returns;
    }
    return found;
}

/* Computes mp_graph.awaiter for keep-all. Visits its steps from last to first. Per storage, touched is the next step that uses
 * it, and changed the next step that changes it. */
static mp_status find_awaiters(mp_graph *graph, mp_pool *pool, mp_error *err)
{
    size_t n = graph->n_storages;
    mp_step *steps = mp_pool_alloc(pool, graph->n_nodes, sizeof *steps);
    int *touched = mp_pool_alloc(pool, n, sizeof *touched), *changed = mp_pool_alloc(pool, n, sizeof *changed),
        *awaiter = mp_pool_alloc(graph->derived, graph->n_nodes, sizeof *awaiter);
    MP_ENSURE(!mp_pool_failed(pool) && awaiter, err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    for (size_t s = 0; s < n; s++) touched[s] = changed[s] = (int)graph->n_nodes;
    n = mp_keep_all(graph, steps);
    for (size_t t = n; t-- > 0;) {
        const int node = steps[t].node;
        const mp_alternative *a = &graph->nodes[node].alternatives[0];
        int until = (int)n;
        for (size_t k = 0; k < a->n_reads; k++) until = changed[a->reads[k]] < until ? changed[a->reads[k]] : until;
        for (size_t k = 0; k < a->n_writes; k++) until = touched[a->writes[k]] < until ? touched[a->writes[k]] : until;
        for (size_t k = 0; k < a->n_adds; k++) until = touched[a->adds[k]] < until ? touched[a->adds[k]] : until;
        awaiter[node] = until < (int)n ? steps[until].node : -1;
        for (size_t k = 0; k < a->n_reads; k++) touched[a->reads[k]] = (int)t;
        for (size_t k = 0; k < a->n_writes; k++) touched[a->writes[k]] = changed[a->writes[k]] = (int)t;
        for (size_t k = 0; k < a->n_adds; k++) touched[a->adds[k]] = changed[a->adds[k]] = (int)t;
    }
    graph->awaiter = awaiter;
    return MP_OK;
}

mp_status mp_graph_finish(mp_graph *graph, mp_error *err)
{
    struct checker c = {.graph = graph, .err = err};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_pool_free(graph->derived);
    graph->derived = mp_pool_new();
    MP_CHECK(check_storages(graph, err));
    MP_CHECK(check_ids(graph, err));
    size_t n = graph->n_storages;
    graph->producer = mp_pool_alloc(graph->derived, n, sizeof *graph->producer);
    c.marks = mp_pool_alloc(pool, n, sizeof *c.marks);
    c.base_adds = mp_pool_alloc(pool, n, sizeof *c.base_adds);
    c.adder = mp_pool_alloc(pool, n, sizeof *c.adder);
    c.base_writes = mp_pool_alloc(pool, n, sizeof *c.base_writes);
    MP_ENSURE(graph->producer && !mp_pool_failed(pool), err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    for (size_t s = 0; s < n; s++) graph->producer[s] = c.adder[s] = -1;
    MP_CHECK(check_nodes(&c));
    MP_CHECK(invert(graph, true, &graph->adders_start, &graph->adders, err));
    MP_CHECK(invert(graph, false, &graph->readers_start, &graph->readers, err));
    MP_CHECK(find_writers(graph, err));
    graph->has_copies = has_copies(graph);
    MP_CHECK(check_state_copies(graph, err));
    graph->awaiter = NULL;
    if (graph->n_channels > 2) MP_CHECK(find_awaiters(graph, pool, err));
    MP_CHECK(check_order(graph, err));
    return mp_graph_hash(graph, graph->hash, err);
}

/* random_graph.c - builds graphs node by node, schedules that obey every rule, and offsets by first fit. */
#include "tests/oracles/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "estimator/base/list.h"
#include "planner/math/splitmix.h"

static const uint8_t *chosen, *chosen_end; /* first draws of random_graph_of */

uint64_t random_next(random_source *source)
{
    if (chosen < chosen_end) return *chosen++;
    return mp_splitmix_next(&source->state);
}

int random_below(random_source *source, int n)
{
    return (int)(random_next(source) % (uint64_t)n);
}
bool random_chance(random_source *source, int percent)
{
    return random_below(source, 100) < percent;
}

enum { MOST_FORWARD = 64, MOST_STORAGES = 8 * MOST_FORWARD };

struct forward { /* storages of a forward node; -1: none */
    int node, inputs[3], n_inputs, outputs[2], n_outputs, mask, parameter;
};

struct builder {
    mp_graph *graph;
    random_source random;
    struct forward forward[MOST_FORWARD];
    int n_forward;
    int uses[MOST_STORAGES];     /* per storage: number of contributions to its gradient */
    int gradient[MOST_STORAGES]; /* per storage: its gradient; -1: none yet */
};

static int new_storage(struct builder *b, mp_kind kind, const char *what)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(b->graph, &s, NULL), MP_OK);
    int index = (int)b->graph->n_storages - 1;
    assert_true(index < MOST_STORAGES);
    int64_t units = random_chance(&b->random, 5) ? 0 : 1 + random_below(&b->random, 40);
    s->id = 5 * index + 3;
    s->bytes = s->payload_bytes = units * b->graph->alignment;
    s->kind = kind;
    s->name = mp_pool_format(b->graph->pool, "%s%d", what, index);
    if (random_chance(&b->random, 20)) { /* tensors that are views of it */
        s->n_tensors = 2;
        s->tensors = mp_pool_alloc(b->graph->pool, 2, sizeof *s->tensors);
        s->tensors[0] = s->name;
        s->tensors[1] = mp_pool_format(b->graph->pool, "%s%d/view", what, index);
    }
    b->uses[index] = 0;
    b->gradient[index] = -1;
    return index;
}

static mp_node *new_node(struct builder *b, mp_phase phase, const char *what)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(b->graph, &node, NULL), MP_OK);
    int index = (int)b->graph->n_nodes - 1;
    node->id = 1000 - 3 * index;
    node->phase = phase;
    node->name = mp_pool_format(b->graph->pool, "%s%d", what, index);
    node->op = what;
    node->alternatives[0].ticks = random_below(&b->random, 50);
    if (random_chance(&b->random, 30))
        node->alternatives[0].workspace_bytes = random_below(&b->random, 60) * b->graph->alignment;
    if (random_chance(&b->random, 30)) node->flops = 0.1 * random_below(&b->random, 1000);
    return node;
}

static void append(struct builder *b, int **list, size_t *n, int s)
{
    for (size_t i = 0; i < *n; i++)
        if ((*list)[i] == s) return;
    int *longer = mp_pool_alloc(b->graph->pool, *n + 1, sizeof *longer);
    if (*n) memcpy(longer, *list, *n * sizeof *longer);
    longer[(*n)++] = s;
    *list = longer;
}

static void reads(struct builder *b, mp_alternative *f, int s)
{
    append(b, &f->reads, &f->n_reads, s);
}
static void writes(struct builder *b, mp_alternative *f, int s)
{
    append(b, &f->writes, &f->n_writes, s);
}
static void adds(struct builder *b, mp_alternative *f, int s)
{
    append(b, &f->adds, &f->n_adds, s);
}

static void pair(struct builder *b, mp_alternative *f, int from, int to)
{
    mp_in_place *longer = mp_pool_alloc(b->graph->pool, f->n_in_place + 1, sizeof *longer);
    if (f->n_in_place) memcpy(longer, f->in_place, f->n_in_place * sizeof *longer);
    longer[f->n_in_place++] = (mp_in_place){from, to};
    f->in_place = longer;
}

/* Adds a copy of the base alternative without one storage that it reads or writes; -1: a full copy. */
static mp_alternative *alternative(struct builder *b, mp_node *node, int without)
{
    mp_alternative *alternatives = mp_pool_alloc(b->graph->pool, node->n_alternatives + 1, sizeof *alternatives),
                   *f = &alternatives[node->n_alternatives];
    memcpy(alternatives, node->alternatives, node->n_alternatives * sizeof *alternatives);
    const mp_alternative *base = &alternatives[0];
    for (size_t i = 0; i < base->n_reads; i++)
        if (base->reads[i] != without) reads(b, f, base->reads[i]);
    for (size_t i = 0; i < base->n_writes; i++)
        if (base->writes[i] != without) writes(b, f, base->writes[i]);
    for (size_t i = 0; i < base->n_adds; i++) adds(b, f, base->adds[i]);
    for (size_t i = 0; i < base->n_in_place; i++)
        if (base->in_place[i].from != without && base->in_place[i].to != without)
            pair(b, f, base->in_place[i].from, base->in_place[i].to);
    f->ticks = base->ticks + random_below(&b->random, 9);
    f->workspace_bytes = base->workspace_bytes / (2 * b->graph->alignment) * b->graph->alignment;
    node->alternatives = alternatives;
    node->n_alternatives++;
    return f;
}

static void add_forward(struct builder *b, int input, bool plain)
{
    random_source *r = &b->random;
    struct forward *x = &b->forward[b->n_forward];
    *x = (struct forward){.mask = -1, .parameter = -1};
    int wanted = b->n_forward ? 1 + random_below(r, 3) : 0;
    for (int k = 0; k < wanted; k++) { /* prefers recent outputs */
        int back = 1 + (random_chance(r, 60) ? 0 : random_below(r, b->n_forward));
        const struct forward *from = &b->forward[b->n_forward - back];
        int s = from->outputs[random_below(r, from->n_outputs)];
        bool twice = false;
        for (int j = 0; j < x->n_inputs; j++) twice = twice || x->inputs[j] == s;
        if (!twice) x->inputs[x->n_inputs++] = s;
    }
    x->outputs[x->n_outputs++] = new_storage(b, MP_KIND_ACTIVATION, "a");
    if (random_chance(r, 20)) x->outputs[x->n_outputs++] = new_storage(b, MP_KIND_ACTIVATION, "a");
    if (!plain && random_chance(r, 30)) x->mask = new_storage(b, MP_KIND_SAVED, "mask");
    if (!plain && random_chance(r, 50)) {
        x->parameter = new_storage(b, MP_KIND_PARAMETER, "w");
        for (int j = 0; j < b->n_forward && random_chance(r, 25); j++)
            if (b->forward[j].parameter >= 0) x->parameter = b->forward[j].parameter; /* tied parameters */
    }
    int statistics = random_chance(r, 10) ? new_storage(b, MP_KIND_BUFFER, "statistics") : -1;
    if (random_chance(r, 4)) b->graph->storages[x->outputs[0]].persistent = true;

    mp_node *node = new_node(b, MP_PHASE_FORWARD, "f");
    x->node = (int)b->graph->n_nodes - 1;
    mp_alternative *f = &node->alternatives[0];
    if (!x->n_inputs) reads(b, f, input);
    for (int k = 0; k < x->n_inputs; k++) reads(b, f, x->inputs[k]);
    if (x->parameter >= 0) reads(b, f, x->parameter);
    for (int k = 0; k < x->n_outputs; k++) writes(b, f, x->outputs[k]);
    if (x->mask >= 0) writes(b, f, x->mask);
    if (statistics >= 0) {
        reads(b, f, statistics);
        writes(b, f, statistics);
    }
    for (int k = 0; k < x->n_inputs; k++)
        if (random_chance(r, 40)) pair(b, f, x->inputs[k], x->outputs[random_below(r, x->n_outputs)]);
    if (random_chance(r, 10)) node->flags |= MP_NODE_ONCE;
    if (random_chance(r, 10)) node->flags |= MP_NODE_RANDOM;
    if (random_chance(r, 10)) node->flags |= MP_NODE_VIEW;
    if (x->mask >= 0 && random_chance(r, 60)) alternative(b, node, x->mask);
    if (random_chance(r, 15)) alternative(b, node, -1);
    for (int k = 0; k < x->n_inputs; k++) b->uses[x->inputs[k]]++;
    if (x->parameter >= 0) b->uses[x->parameter]++;
    b->n_forward++;
}

/* Returns the gradient of storage s, added at the first call. */
static int gradient_of(struct builder *b, int s, mp_fuse fuse)
{
    if (b->gradient[s] >= 0) return b->gradient[s];
    bool parameter = b->graph->storages[s].kind == MP_KIND_PARAMETER;
    int g = new_storage(b, parameter ? MP_KIND_GRADIENT : MP_KIND_ACTIVATION_GRADIENT, "d");
    mp_storage *storage = &b->graph->storages[g];
    storage->any_sum_order = random_chance(&b->random, 30);
    if (parameter) {
        bool kept = random_chance(&b->random, 10);
        storage->persistent = kept;
        storage->carried = !kept && fuse == MP_FUSE_FORWARD;
    }
    return b->gradient[s] = g;
}

static void contribute(struct builder *b, mp_alternative *f, int s, mp_fuse fuse)
{
    int g = gradient_of(b, s, fuse);
    if (b->uses[s] > 1)
        adds(b, f, g);
    else
        writes(b, f, g);
}

static void add_backward(struct builder *b, const struct forward *x, mp_fuse fuse)
{
    random_source *r = &b->random;
    bool split = x->parameter >= 0 && x->n_inputs && random_chance(r, 50);
    if (!x->n_inputs && x->parameter < 0) return;
    for (int part = 0; part < (split ? 2 : 1); part++) {
        bool data = !split || part == 0, weight = !split || part == 1;
        mp_node *node = new_node(b, MP_PHASE_BACKWARD, data ? "b" : "bw");
        node->forward_of = x->node;
        mp_alternative *f = &node->alternatives[0];
        for (int k = 0; k < x->n_outputs; k++)
            if (b->uses[x->outputs[k]] > 0) reads(b, f, gradient_of(b, x->outputs[k], fuse));
        for (int k = 0; k < x->n_inputs; k++)
            if (random_chance(r, 50)) reads(b, f, x->inputs[k]);
        if (random_chance(r, 40)) reads(b, f, x->outputs[0]);
        if (data && x->parameter >= 0) reads(b, f, x->parameter);
        for (int k = 0; data && k < x->n_inputs; k++) contribute(b, f, x->inputs[k], fuse);
        if (weight && x->parameter >= 0) contribute(b, f, x->parameter, fuse);
        for (int k = 0; data && k < x->n_inputs; k++) {
            int from = b->gradient[x->outputs[0]];
            if (from >= 0 && b->uses[x->outputs[0]] > 0 && random_chance(r, 40)) pair(b, f, from, b->gradient[x->inputs[k]]);
        }
        if (x->mask >= 0) { /* each alternative that reads the mask has another without it */
            reads(b, f, x->mask);
            mp_alternative *without = alternative(b, node, x->mask);
            if (x->n_inputs) reads(b, without, x->inputs[0]);
        } else if (random_chance(r, 15)) {
            alternative(b, node, -1);
        }
    }
}

static void add_loss(struct builder *b, mp_fuse fuse)
{
    int loss = new_storage(b, random_chance(&b->random, 50) ? MP_KIND_INPUT : MP_KIND_ACTIVATION, "loss");
    mp_node *node = new_node(b, MP_PHASE_LOSS, "loss");
    mp_node *back = new_node(b, MP_PHASE_BACKWARD, "dloss");
    node = back - 1;
    writes(b, &node->alternatives[0], loss);
    for (int i = 0; i < b->n_forward; i++) {
        for (int k = 0; k < b->forward[i].n_outputs; k++) {
            int s = b->forward[i].outputs[k];
            if (b->uses[s]) continue;
            b->uses[s] = 1;
            reads(b, &node->alternatives[0], s);
            if (random_chance(&b->random, 50)) reads(b, &back->alternatives[0], s);
            contribute(b, &back->alternatives[0], s, fuse);
        }
    }
}

static void add_updates(struct builder *b)
{
    for (int i = 0; i < b->n_forward; i++) {
        int w = b->forward[i].parameter;
        if (w < 0 || b->gradient[w] < 0) continue;
        int state = new_storage(b, MP_KIND_OPTIMIZER_STATE, "state");
        mp_node *node = new_node(b, MP_PHASE_UPDATE, "update");
        mp_alternative *f = &node->alternatives[0];
        reads(b, f, b->gradient[w]);
        reads(b, f, w);
        reads(b, f, state);
        writes(b, f, w);
        writes(b, f, state);
        b->gradient[w] = -1; /* tied parameters are updated once */
    }
}

mp_graph *random_graph(uint64_t seed, int n_forward, mp_fuse fuse, bool plain)
{
    static const double ticks[] = {1, 1e-6, 0x1p-40};
    struct builder *b = mp_alloc(1, sizeof *b);
    mp_error err = {0};
    assert_non_null(b);
    assert_true(n_forward <= MOST_FORWARD);
    b->random.state = seed;
    assert_int_equal(mp_graph_new("random", &b->graph, NULL), MP_OK);
    b->graph->alignment = random_chance(&b->random, 50) ? 1 : 16;
    b->graph->tick_seconds = ticks[random_below(&b->random, 3)];
    b->graph->fuse = fuse;
    int input = new_storage(b, MP_KIND_INPUT, "x");
    for (int i = 0; i < n_forward; i++) add_forward(b, input, plain);
    if (!plain) {
        add_loss(b, fuse);
        for (int i = n_forward - 1; i >= 0; i--) add_backward(b, &b->forward[i], fuse);
        add_updates(b);
    }
    if (mp_graph_finish(b->graph, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    mp_graph *graph = b->graph;
    mp_free(b);
    return graph;
}

mp_graph *random_graph_of(const uint8_t *bytes, size_t n, int n_forward, mp_fuse fuse, bool plain)
{
    chosen = bytes, chosen_end = bytes + n;
    mp_graph *graph = random_graph(n, n_forward, fuse, plain);
    chosen = chosen_end;
    return graph;
}

/* ---- schedules ---- */

struct scheduler {
    const mp_graph *graph;
    int *runs;  /* per node */
    bool *made; /* per storage: written, or contributed to */
    int *added; /* per storage */
    int n_unrun_backward;
};

/* Returns whether the updates' order allows a node to run now: a reader of a parameter must be on the right side of its update.
 */
static bool update_allows(const struct scheduler *s, int node)
{
    const mp_graph *graph = s->graph;
    bool forward = graph->fuse == MP_FUSE_FORWARD;
    const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
    if (graph->nodes[node].phase == MP_PHASE_UPDATE) {
        if (graph->fuse == MP_FUSE_NONE && s->n_unrun_backward) return false;
        for (size_t i = 0; i < alternative->n_writes; i++) {
            int w = alternative->writes[i];
            for (int r = graph->readers_start[w]; r < graph->readers_start[w + 1]; r++) {
                int reader = graph->readers[r];
                if (graph->nodes[reader].phase != MP_PHASE_UPDATE && (s->runs[reader] > 0) == forward) return false;
            }
        }
        return true;
    }
    for (size_t i = 0; i < alternative->n_reads; i++) {
        int w = alternative->reads[i];
        if (graph->storages[w].kind != MP_KIND_PARAMETER) continue;
        for (size_t u = 0; u < graph->n_nodes; u++)
            if (graph->nodes[u].phase == MP_PHASE_UPDATE && (s->runs[u] > 0) != forward &&
                mp_list_has(graph->nodes[u].alternatives->writes, graph->nodes[u].alternatives->n_writes, w))
                return false;
    }
    return true;
}

int lone_writer(const mp_graph *graph, int storage)
{
    int found = -1;
    if (!mp_storage_is_static(&graph->storages[storage])) return -1;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        bool writes = false, reads = false;
        for (size_t f = 0; f < graph->nodes[i].n_alternatives && graph->nodes[i].phase != MP_PHASE_UPDATE; f++) {
            const mp_alternative *alternative = &graph->nodes[i].alternatives[f];
            writes |= mp_list_has(alternative->writes, alternative->n_writes, storage);
            reads |= mp_list_has(alternative->reads, alternative->n_reads, storage);
        }
        if (!writes) continue;
        if (reads || found >= 0) return -1;
        found = (int)i;
    }
    return found;
}

static bool alternative_can_run(const struct scheduler *s, int node, const mp_alternative *alternative)
{
    const mp_graph *graph = s->graph;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        int x = alternative->reads[i], n_adders = graph->adders_start[x + 1] - graph->adders_start[x];
        const mp_storage *storage = &graph->storages[x];
        const bool reads_old = graph->nodes[node].phase == MP_PHASE_UPDATE && graph->fuse == MP_FUSE_FORWARD;
        const int writer = lone_writer(graph, x);
        if (mp_storage_is_static(storage)) {
            if (!reads_old && ((writer >= 0 && !s->runs[writer]) || s->added[x] < n_adders)) return false;
            continue;
        }
        if (storage->carried && !s->made[x]) continue;
        if (!s->made[x] || s->added[x] < n_adders) return false;
    }
    for (size_t i = 0; i < alternative->n_adds; i++) {
        int x = alternative->adds[i];
        if (!graph->storages[x].any_sum_order && graph->adders[graph->adders_start[x] + s->added[x]] != node) return false;
    }
    return true;
}

/* Returns a random alternative of the node that can run now; -1: none. */
static int pick_alternative(const struct scheduler *s, int node, random_source *random)
{
    const mp_node *n = &s->graph->nodes[node];
    if (!update_allows(s, node)) return -1;
    if ((n->flags & MP_NODE_ONCE) || random_chance(random, 50))
        return alternative_can_run(s, node, &n->alternatives[0]) ? 0 : -1;
    int k = random_below(random, (int)n->n_alternatives);
    return alternative_can_run(s, node, &n->alternatives[k]) ? k : -1;
}

static void take(struct scheduler *s, mp_step step)
{
    const mp_alternative *alternative = &s->graph->nodes[step.node].alternatives[step.alternative];
    for (size_t i = 0; i < alternative->n_writes; i++) s->made[alternative->writes[i]] = true;
    for (size_t i = 0; i < alternative->n_adds; i++) {
        s->made[alternative->adds[i]] = true;
        s->added[alternative->adds[i]]++;
    }
    mp_phase phase = s->graph->nodes[step.node].phase;
    if (phase == MP_PHASE_LOSS || phase == MP_PHASE_BACKWARD) s->n_unrun_backward--;
    s->runs[step.node]++;
}

mp_step *random_schedule(const mp_graph *graph, uint64_t seed, int most_extra, size_t *n)
{
    struct scheduler s = {.graph = graph};
    random_source random = {seed ^ UINT64_C(0x5bf03635)};
    mp_step *steps = mp_alloc(graph->n_nodes + (size_t)most_extra, sizeof *steps);
    s.runs = mp_alloc(graph->n_nodes, sizeof *s.runs);
    s.made = mp_alloc(graph->n_storages, sizeof *s.made);
    s.added = mp_alloc(graph->n_storages, sizeof *s.added);
    assert_true(steps && s.runs && s.made && s.added);
    for (size_t i = 0; i < graph->n_nodes; i++)
        s.n_unrun_backward += graph->nodes[i].phase == MP_PHASE_LOSS || graph->nodes[i].phase == MP_PHASE_BACKWARD;
    int eager = random_below(&random, 100); /* probability of keeping the list's order */
    size_t n_steps = 0, left = graph->n_nodes;
    for (int tries = 0; left; tries++) {
        if (tries > 1000000) fail_msg("seed %llu: no schedule found", (unsigned long long)seed);
        int node = random_below(&random, (int)graph->n_nodes);
        bool again = most_extra > 0 && random_chance(&random, 30);
        if (!again && random_chance(&random, eager))
            for (node = 0; s.runs[node] > 0;) node++;
        const mp_node *x = &graph->nodes[node];
        if (s.runs[node] ? !again || x->phase != MP_PHASE_FORWARD || (x->flags & MP_NODE_ONCE) : again) continue;
        int alternative = pick_alternative(&s, node, &random);
        if (alternative < 0) continue;
        most_extra -= s.runs[node] > 0;
        left -= s.runs[node] == 0;
        steps[n_steps++] = (mp_step){.node = node, .alternative = alternative};
        take(&s, steps[n_steps - 1]);
    }
    mp_free(s.runs);
    mp_free(s.made);
    mp_free(s.added);
    *n = n_steps;
    return steps;
}

/* ---- address maps ---- */

static void place(mp_plan *plan, int64_t alignment, mp_place p, int64_t same_as)
{
    int64_t offset = same_as >= 0 ? same_as : 0;
    for (bool moved = same_as < 0; moved;) { /* moves up past all conflicting places */
        moved = false;
        for (size_t i = 0; i < plan->n_places; i++) {
            const mp_place *q = &plan->places[i];
            bool meet = q->begin < p.end && p.begin < q->end;
            if (!meet || q->offset >= offset + p.bytes || offset >= q->offset + q->bytes) continue;
            offset = (q->offset + q->bytes + alignment - 1) / alignment * alignment;
            moved = true;
        }
    }
    p.offset = offset;
    plan->places[plan->n_places++] = p;
    if (offset + p.bytes > plan->arena_bytes) plan->arena_bytes = offset + p.bytes;
}

void place_first_fit(const mp_graph *graph, mp_plan *plan)
{
    mp_timeline *tl;
    assert_int_equal(mp_timeline_build(graph, plan->steps, plan->n_steps, &tl, NULL), MP_OK);
    mp_free(plan->places);
    plan->places = mp_alloc(tl->n_spans + plan->n_steps, sizeof *plan->places);
    assert_non_null(plan->places);
    plan->n_places = 0;
    plan->arena_bytes = 0;
    size_t k = 0;
    for (int t = 0; t < (int)plan->n_steps; t++) {
        /* in-place outputs are placed first, so that no other storage of this step is put into their space */
        for (int round = 0; round < 2; round++) {
            for (size_t j = k; j < tl->n_spans && tl->spans[j].begin == t; j++) {
                const mp_span *span = &tl->spans[j];
                int64_t same_as = -1;
                if ((span->takes_over < 0) != (round == 1)) continue;
                for (size_t i = 0; i < plan->n_places; i++)
                    if (plan->places[i].storage == span->takes_over && span->takes_over >= 0 && plan->places[i].end == t + 1)
                        same_as = plan->places[i].offset;
                place(plan, graph->alignment, (mp_place){span->storage, t, span->end, 0, graph->storages[span->storage].bytes},
                      same_as);
            }
        }
        while (k < tl->n_spans && tl->spans[k].begin == t) k++;
        int64_t workspace = graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative].workspace_bytes;
        if (workspace) place(plan, graph->alignment, (mp_place){-1, t, mp_step_end(plan->steps, t), 0, workspace}, -1);
    }
    if (!plan->n_places) plan->arena_bytes = -1;
    mp_timeline_free(tl);
}

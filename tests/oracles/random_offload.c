/* random_offload.c - a copy out and a copy back for each activation, and where in a plan they are. */
#include "tests/oracles/random_offload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memplan/arena.h"
#include "memplan/check.h"
#include "tests/oracles/random_graph.h"

static bool is_read_by_backward(const mp_graph *graph, int s)
{
    for (int k = graph->readers_start[s]; k < graph->readers_start[s + 1]; k++)
        if (graph->nodes[graph->readers[k]].phase == MP_PHASE_BACKWARD) return true;
    return false;
}

static bool is_written_by_base(const mp_alternative *base, int s)
{
    for (size_t k = 0; k < base->n_writes; k++)
        if (base->writes[k] == s) return true;
    return false;
}

static void set_copy(mp_graph *graph, mp_alternative *f, int from, int to, int channel)
{
    *f = (mp_alternative){.reads = mp_graph_list(graph, &from, 1),
                          .writes = mp_graph_list(graph, &to, 1),
                          .n_reads = 1,
                          .n_writes = 1,
                          .ticks = 1,
                          .channel = channel,
                          .returns = channel == 3};
}

int offload_all(mp_graph *graph)
{
    int host, out, in, n = 0;
    const int n_storages = (int)graph->n_storages;
    mp_error err = {0};
    assert_int_equal(mp_graph_tier(graph, "host", &host, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "copy out", &out, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "copy in", &in, NULL), MP_OK);
    for (int s = 0; s < n_storages; s++) {
        const int producer = graph->producer[s];
        mp_storage *copy;
        mp_node *node;
        if (producer < 0 || graph->nodes[producer].phase != MP_PHASE_FORWARD || mp_storage_is_static(&graph->storages[s]) ||
            !is_read_by_backward(graph, s) || !is_written_by_base(&graph->nodes[producer].alternatives[0], s))
            continue;
        assert_int_equal(mp_graph_storage(graph, &copy, NULL), MP_OK);
        copy->name = "copy";
        copy->bytes = graph->storages[s].bytes;
        copy->payload_bytes = graph->storages[s].payload_bytes;
        copy->kind = graph->storages[s].kind;
        copy->tier = host;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = "out";
        node->op = "Copy";
        node->phase = MP_PHASE_FORWARD;
        node->flags = MP_NODE_OPTIONAL;
        set_copy(graph, node->alternatives, s, (int)graph->n_storages - 1, out);
        mp_node *maker = &graph->nodes[producer];
        mp_alternative *longer = mp_pool_alloc(graph->pool, maker->n_alternatives + 1, sizeof *longer);
        memcpy(longer, maker->alternatives, maker->n_alternatives * sizeof *longer);
        set_copy(graph, &longer[maker->n_alternatives++], (int)graph->n_storages - 1, s, in);
        maker->alternatives = longer;
        n++;
    }
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return n;
}

/* A step to be put before step `before` of those that there are, to be waited for before step `until` of them; 0: in order. */
typedef struct insertion {
    int before, until;
    mp_step step;
} insertion;

/* What steps do with a storage: when it is produced, read last by forward, and first by what comes after. */
typedef struct life {
    int n_produced, produced, last_forward, first_later;
} life;

static life life_of(const mp_graph *graph, int s, const mp_step *steps, int n)
{
    life l = {.first_later = n};
    for (int t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *f = &node->alternatives[steps[t].alternative];
        if (steps[t].node == graph->producer[s]) {
            l.n_produced++;
            l.produced = l.last_forward = t;
        }
        for (size_t i = 0; i < f->n_reads; i++) {
            if (f->reads[i] != s) continue;
            if (node->phase == MP_PHASE_FORWARD)
                l.last_forward = t;
            else if (l.first_later == n)
                l.first_later = t;
        }
    }
    return l;
}

static int between(random_source *r, int from, int to)
{
    return from + random_below(r, to - from + 1);
}

/* Puts the insertions among the steps. */
static mp_step *merge(const mp_step *steps, int n, insertion *added, int n_added)
{
    mp_step *all = mp_alloc((size_t)(n + n_added), sizeof *all);
    int *moved_to = mp_alloc((size_t)n + 1, sizeof *moved_to), at = 0;
    for (int t = 0; t <= n; t++) {
        for (int k = 0; k < n_added; k++)
            if (added[k].before == t) all[at++] = added[k].step;
        moved_to[t] = at;
        if (t < n) all[at++] = steps[t];
    }
    for (int t = 0; t < at; t++)
        for (int k = 0; k < n_added; k++)
            if (all[t].node == added[k].step.node && all[t].alternative == added[k].step.alternative && added[k].until)
                all[t].until = moved_to[added[k].until];
    mp_free(moved_to);
    return all;
}

mp_plan *random_offload(const mp_graph *graph, uint64_t seed, const mp_step *steps, size_t n, int64_t bytes[2])
{
    random_source r = {seed ^ UINT64_C(0x6b5f2d19)};
    mp_plan *plan = NULL;
    mp_error err = {0};
    insertion *added = mp_alloc(2 * graph->n_nodes, sizeof *added);
    int n_added = 0;
    bytes[0] = bytes[1] = 0;
    for (int i = 0; i < (int)graph->n_nodes; i++) {
        if (!(graph->nodes[i].flags & MP_NODE_OPTIONAL)) continue;
        const int s = graph->nodes[i].alternatives->reads[0], maker = graph->producer[s];
        const life l = life_of(graph, s, steps, (int)n);
        if (l.n_produced != 1 || l.last_forward + 1 >= l.first_later || !random_chance(&r, 70)) continue;
        const bool comes_back = random_chance(&r, 85);
        int back = (int)graph->nodes[maker].n_alternatives - 1;
        while (graph->nodes[maker].alternatives[back].reads[0] != graph->nodes[i].alternatives->writes[0]) back--;
        const int out_at = between(&r, l.produced + 1, l.last_forward + 1);
        const int back_at = comes_back ? between(&r, l.last_forward + 2, l.first_later) : (int)n + 1;
        added[n_added++] = (insertion){out_at, random_chance(&r, 80) ? between(&r, out_at, back_at - 1) : 0, {.node = i}};
        bytes[0] += graph->storages[s].bytes;
        if (!comes_back) continue;
        added[n_added++] = (insertion){
            back_at, random_chance(&r, 80) ? between(&r, back_at, l.first_later) : 0, {.node = maker, .alternative = back}};
        bytes[1] += graph->storages[s].bytes;
    }
    mp_step *all = merge(steps, (int)n, added, n_added);
    if (mp_plan_new(graph, "test", all, n + (size_t)n_added, &plan, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_arena_layout(graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    mp_free(all);
    mp_free(added);
    return plan;
}

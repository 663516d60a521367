/* random_offload.c - inserts copies into a plan. */
#include "tests/oracles/random_offload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/training.h"
#include "tests/oracles/random_graph.h"

int offload_all(mp_graph *graph)
{
    const mp_offload offload = {.host = mp_link_find("pcie4"), .least_bytes = 1};
    mp_error err = {0};
    size_t n;
    if (mp_graph_offload(graph, &offload, &n, &err) != MP_OK) fail_msg("%s", err.message);
    return (int)n;
}

size_t offload_states(mp_graph *graph, const mp_link *link)
{
    int *states = mp_alloc(graph->n_storages, sizeof *states);
    mp_offload offload = {.host = link, .least_bytes = 1, .storages = states, .moves_state = true};
    mp_error err = {0};
    size_t n;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].kind == MP_KIND_OPTIMIZER_STATE) states[offload.n_storages++] = (int)s;
    if (mp_graph_offload(graph, &offload, &n, &err) != MP_OK) fail_msg("%s", err.message);
    mp_free(states);
    return n;
}

/* A step to insert before step `before`, awaited before step `until`; 0: in order. Both are indices into the original steps. */
typedef struct insertion {
    int before, until;
    mp_step step;
} insertion;

/* Steps that use a storage: the one that produces it, the last reader in forward, and the first later reader. */
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

/* Inserts the new steps into the order. */
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
    for (int t = 0; t < n; t++)
        if (steps[t].until) all[moved_to[t]].until = moved_to[steps[t].until];
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

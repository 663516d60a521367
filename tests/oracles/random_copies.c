/* random_copies.c - adds copies to a random graph and to its schedule; nodes keep their numbers. */
#include "tests/oracles/random_copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memplan/memory.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

static mp_graph *without_copies(uint64_t seed)
{
    return random_graph(seed, 1 + (int)(seed % 3), (mp_fuse)(seed / 3 % MP_N_FUSES), seed % 7 == 0);
}

static int *list_of(mp_graph *graph, int storage)
{
    return mp_graph_list(graph, &storage, 1);
}

/* Adds an optional node that copies a storage to the host; returns the copy. */
static int add_copy_out(mp_graph *graph, random_source *r, int storage, int channel, int host)
{
    mp_storage *copy;
    mp_node *node;
    const int c = (int)graph->n_storages;
    assert_int_equal(mp_graph_storage(graph, &copy, NULL), MP_OK);
    copy->id = 5 * c + 3;
    copy->name = mp_pool_format(graph->pool, "copy%d", storage);
    copy->bytes = copy->payload_bytes = graph->storages[storage].bytes;
    copy->kind = MP_KIND_ACTIVATION;
    copy->tier = random_chance(r, 90) ? host : MP_TIER_DEVICE;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->id = 1000 + c;
    node->name = mp_pool_format(graph->pool, "out%d", storage);
    node->op = "copy";
    node->phase = MP_PHASE_FORWARD;
    node->flags = MP_NODE_OPTIONAL;
    mp_alternative *f = &node->alternatives[0];
    f->reads = list_of(graph, storage);
    f->writes = list_of(graph, c);
    f->n_reads = f->n_writes = 1;
    f->ticks = random_below(r, 60);
    f->channel = channel;
    if (random_chance(r, 20)) f->workspace_bytes = random_below(r, 9) * graph->alignment;
    return c;
}

/* Adds an alternative to a node that brings n storages back from their copies. */
static void add_return(mp_graph *graph, random_source *r, mp_node *node, const int *copies, const int *storages, size_t n,
                       int channel)
{
    mp_alternative *longer = mp_pool_alloc(graph->pool, node->n_alternatives + 1, sizeof *longer);
    memcpy(longer, node->alternatives, node->n_alternatives * sizeof *longer);
    longer[node->n_alternatives++] = (mp_alternative){.reads = mp_graph_list(graph, copies, n),
                                                      .writes = mp_graph_list(graph, storages, n),
                                                      .n_reads = n,
                                                      .n_writes = n,
                                                      .ticks = random_below(r, 60),
                                                      .channel = channel,
                                                      .returns = true};
    node->alternatives = longer;
}

/* Adds copies of some outputs of a node. Alternatives return each separately, and all together. */
static void add_copies(mp_graph *graph, random_source *r, int i, const int *channels, int host)
{
    int copies[8], storages[8];
    size_t n = 0;
    for (size_t k = 0; k < graph->nodes[i].alternatives[0].n_writes && n < 8; k++) {
        const int s = graph->nodes[i].alternatives[0].writes[k];
        if (mp_storage_is_static(&graph->storages[s]) || !random_chance(r, 60)) continue;
        storages[n] = s;
        copies[n++] = add_copy_out(graph, r, s, channels[0], host);
    }
    for (size_t k = 0; k < n; k++)
        if (random_chance(r, 80)) add_return(graph, r, &graph->nodes[i], &copies[k], &storages[k], 1, channels[1]);
    if (n > 1) add_return(graph, r, &graph->nodes[i], copies, storages, n, channels[1]);
}

mp_graph *random_copies(uint64_t seed)
{
    mp_graph *graph = without_copies(seed);
    random_source r = {seed ^ UINT64_C(0x71c3a90b)};
    mp_error err = {0};
    int host, network, channels[2];
    assert_int_equal(mp_graph_tier(graph, "host", &host, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "copy out", &channels[0], NULL), MP_OK);
    channels[1] = channels[0];
    if (random_chance(&r, 80)) assert_int_equal(mp_graph_channel(graph, "copy in", &channels[1], NULL), MP_OK);
    if (random_chance(&r, 60)) {
        assert_int_equal(mp_graph_channel(graph, "network", &network, NULL), MP_OK);
        for (int k = 0; k < 2; k++) {
            mp_node *node = &graph->nodes[random_below(&r, (int)graph->n_nodes)];
            for (size_t f = 0; f < node->n_alternatives; f++) node->alternatives[f].channel = network;
        }
    }
    const bool all =
        random_chance(&r, 5); /* all storages that are not always live, so that in-place pairs are within the host */
    for (size_t s = 0; s < graph->n_storages; s++)
        if (mp_kind_is_static(graph->storages[s].kind) ? graph->storages[s].kind == MP_KIND_OPTIMIZER_STATE : all)
            graph->storages[s].tier = host;
    const int n_nodes = (int)graph->n_nodes;
    for (int i = 0; i < n_nodes; i++)
        if (graph->nodes[i].phase != MP_PHASE_UPDATE) add_copies(graph, &r, i, channels, host);
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    return graph;
}

/* Returns the first step at which all operands of an alternative exist; -1: some never exist. */
static int ready(const mp_graph *graph, const mp_step *steps, int n, const mp_alternative *x)
{
    int first = 0;
    for (size_t i = 0; i < x->n_reads; i++) {
        int t = 0;
        for (bool made = false; t < n && !made; t++) {
            const mp_alternative *f = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
            for (size_t k = 0; k < f->n_writes; k++) made = made || f->writes[k] == x->reads[i];
            if (!made && t + 1 == n) return -1;
        }
        if (t > first) first = t;
    }
    return first;
}

static void insert(const mp_graph *graph, random_source *r, mp_step *steps, size_t *n, int node, int alternative)
{
    const int first = ready(graph, steps, (int)*n, &graph->nodes[node].alternatives[alternative]);
    if (first < 0) return;
    const int t = first + random_below(r, (int)*n + 1 - first);
    memmove(steps + t + 1, steps + t, (*n - (size_t)t) * sizeof *steps);
    steps[t] = (mp_step){.node = node, .alternative = alternative};
    (*n)++;
}

mp_step *random_copies_schedule(const mp_graph *graph, uint64_t seed, uint64_t order, size_t *n)
{
    mp_graph *plain = without_copies(seed);
    random_source r = {(seed << 8) ^ order ^ UINT64_C(0x30d5f1b7)};
    mp_step *ordered = random_schedule(plain, seed * 3 + order, (int)(seed % 4) * 2, n);
    mp_step *steps = mp_alloc(*n + 8 * graph->n_storages, sizeof *steps);
    assert_non_null(steps);
    memcpy(steps, ordered, *n * sizeof *steps);
    mp_free(ordered);
    for (int i = (int)plain->n_nodes; i < (int)graph->n_nodes; i++)
        if (random_chance(&r, 60)) insert(graph, &r, steps, n, i, 0);
    for (int i = 0; i < (int)plain->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++)
            for (int times = 0; times < 2; times++)
                if (graph->nodes[i].alternatives[k].returns && random_chance(&r, 50)) insert(graph, &r, steps, n, i, (int)k);
    mp_graph_free(plain);
    if (random_chance(&r, 8)) {
        const int a = random_below(&r, (int)*n), b = random_below(&r, (int)*n);
        const mp_step step = steps[a];
        steps[a] = steps[b], steps[b] = step;
    }
    const bool careless = random_chance(&r, 15);
    for (int t = 0; t < (int)*n; t++) {
        if (graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel == MP_CHANNEL_COMPUTE) continue;
        if (random_chance(&r, 30)) continue;
        steps[t].until = t + 1 + random_below(&r, (int)*n - t);
        while (!careless && steps[t].until > t + 1 && !steps_obey(graph, steps, *n)) steps[t].until--;
    }
    return steps;
}

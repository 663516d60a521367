/* bound_case.c - graphs from a seed, budgets between floor and keep-all, and their bounds. */
#include "tests/cases/bound_case.h"

#include "memplan/floor.h"
#include "memplan/plan.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

int64_t keep_all_peak(const mp_graph *graph)
{
    mp_timeline *tl;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    assert_int_equal(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &tl, NULL), MP_OK);
    int64_t peak = tl->peak_bytes;
    mp_timeline_free(tl);
    mp_free(steps);
    return peak;
}

mp_bound bound_of(const mp_graph *graph, int64_t budget_bytes, bool any_order, int effort)
{
    mp_bound bound;
    const mp_bound_options options = {.any_order = any_order, .effort = effort};
    assert_int_equal(mp_bound_within(graph, budget_bytes, &options, &bound, NULL), MP_OK);
    assert_int_equal(bound.orders, any_order ? MP_BOUND_ANY_ORDER : MP_BOUND_THIS_ORDER);
    return bound;
}

mp_graph *tiny_graph(uint64_t seed)
{
    bool plain = seed % 5 == 0;
    return random_graph(seed, plain ? 5 + (int)(seed % 4) : 2 + (int)(seed % 4), (mp_fuse)(seed % MP_N_FUSES), plain);
}

int64_t tiny_budget(const mp_graph *graph, int k)
{
    int64_t floor_bytes, peak_bytes = keep_all_peak(graph);
    int node;
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    return floor_bytes + (peak_bytes - floor_bytes) * k / 5;
}

static int add_storage(mp_graph *graph, random_source *random, mp_kind kind)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = kind == MP_KIND_INPUT ? 0 : kind == MP_KIND_ACTIVATION ? 4 + random_below(random, 9) : 1;
    return (int)graph->n_storages - 1;
}

/* Adds a node that reads a and b and writes a storage; -1: none. If c is given, a second alternative reads c instead of b and
 * takes one tick more. */
static void add_node(mp_graph *graph, mp_phase phase, int ticks, int a, int b, int c, int write)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->n_alternatives = c >= 0 ? 2 : 1;
    node->alternatives = mp_pool_alloc(graph->pool, node->n_alternatives, sizeof *node->alternatives);
    for (size_t k = 0; k < node->n_alternatives; k++) {
        mp_alternative *f = &node->alternatives[k];
        f->ticks = ticks + (int)k;
        f->n_reads = b >= 0 ? 2 : 1;
        f->reads = mp_graph_list(graph, (int[]){a, k ? c : b}, f->n_reads);
        f->n_writes = 1;
        f->writes = mp_graph_list(graph, &write, 1);
    }
}

mp_graph *layers_graph(uint64_t seed, int n, bool choice)
{
    random_source random = {seed};
    mp_graph *graph;
    int in[9], x[9], y[9], out[9] = {0};
    assert_int_equal(mp_graph_new("layers", &graph, NULL), MP_OK);
    in[0] = add_storage(graph, &random, MP_KIND_INPUT);
    for (int l = 0; l < n; l++) {
        x[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
        y[l] = out[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
        add_node(graph, MP_PHASE_FORWARD, 4 + random_below(&random, 8), in[l], -1, -1, x[l]);
        add_node(graph, MP_PHASE_FORWARD, 1 + random_below(&random, 3), x[l], -1, -1, y[l]);
        if (random_chance(&random, 50)) {
            out[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
            add_node(graph, MP_PHASE_FORWARD, 1, y[l], -1, -1, out[l]);
        }
        in[l + 1] = out[l];
    }
    int gradient = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
    add_node(graph, MP_PHASE_LOSS, 1, out[n - 1], -1, -1, gradient);
    for (int l = n - 1; l >= 0; l--) {
        for (int k = out[l] == y[l]; k < 3; k++) {
            int made = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
            int read = k == 0 ? out[l] : k == 1 ? x[l] : in[l];
            add_node(graph, MP_PHASE_BACKWARD, 2, gradient, read, k == 1 && choice ? y[l] : -1, made);
            gradient = made;
        }
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

/* Adds a node that reads one list of storages, and writes or adds to the other. -1 ends each list. */
static void add_lists(mp_graph *graph, mp_phase phase, int ticks, const int *reads, const int *makes, bool adds)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    mp_alternative *f = &node->alternatives[0];
    node->phase = phase;
    f->ticks = ticks;
    while (reads[f->n_reads] >= 0) f->n_reads++;
    f->reads = mp_graph_list(graph, reads, f->n_reads);
    size_t n = 0;
    while (makes[n] >= 0) n++;
    *(adds ? &f->adds : &f->writes) = mp_graph_list(graph, makes, n);
    *(adds ? &f->n_adds : &f->n_writes) = n;
}

mp_graph *weights_graph(uint64_t seed, int n, mp_fuse fuse)
{
    enum { MOST = 8 };
    random_source random = {seed};
    mp_graph *graph;
    int out[MOST + 1], weight[MOST], gradient[MOST];
    assert_true(n <= MOST);
    assert_int_equal(mp_graph_new("weights", &graph, NULL), MP_OK);
    graph->fuse = fuse;
    out[0] = add_storage(graph, &random, MP_KIND_INPUT);
    const int n_weights = random_chance(&random, 50)
                              ? n
                              : 1 + random_below(&random, n); /* with fewer, weights are shared and gradients are sums */
    const bool in_any_order = random_chance(&random, 50);
    for (int l = 0; l < n_weights; l++) {
        weight[l] = add_storage(graph, &random, MP_KIND_PARAMETER);
        gradient[l] = add_storage(graph, &random, MP_KIND_GRADIENT);
        graph->storages[gradient[l]].bytes = 1 + random_below(&random, 9);
        graph->storages[gradient[l]].carried = fuse == MP_FUSE_FORWARD;
        graph->storages[gradient[l]].any_sum_order = in_any_order;
    }
    for (int l = 0; l < n; l++) {
        out[l + 1] = add_storage(graph, &random, MP_KIND_ACTIVATION);
        add_lists(graph, MP_PHASE_FORWARD, 1 + random_below(&random, 9), (int[]){out[l], weight[l % n_weights], -1},
                  (int[]){out[l + 1], -1}, false);
    }
    int of_output = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
    graph->storages[of_output].bytes = 1 + random_below(&random, 12);
    add_lists(graph, MP_PHASE_LOSS, 1, (int[]){out[n], -1}, (int[]){of_output, -1}, false);
    for (int l = n - 1; l >= 0; l--) {
        const int w = l % n_weights, reads_output = random_chance(&random, 40) ? out[l + 1] : -1;
        const bool is_last = random_chance(&random, 50);
        int of_input = -1;
        for (int k = 0; k < 2; k++) {
            if (k == is_last) {
                add_lists(graph, MP_PHASE_BACKWARD, 1, (int[]){of_output, out[l], -1}, (int[]){gradient[w], -1},
                          w + n_weights < n);
            } else if (l) {
                of_input = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
                graph->storages[of_input].bytes = 1 + random_below(&random, 6);
                add_lists(graph, MP_PHASE_BACKWARD, 1, (int[]){of_output, weight[w], reads_output, -1}, (int[]){of_input, -1},
                          false);
            }
        }
        of_output = of_input;
    }
    for (int l = 0; l < n_weights; l++)
        add_lists(graph, MP_PHASE_UPDATE, 1, (int[]){gradient[l], weight[l], -1}, (int[]){weight[l], -1}, false);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

/* test_summary.c - totals of a small training graph, computed by hand. */
#include "memplan/summary.h"

#include "estimator/base/memory.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"

/* Two layers: hidden = f1(x, w), out = f2(hidden, x, w). The loss keeps a statistic for its backward. The backward of f2 reads
 * hidden and x; the backward of f1 reads x and writes the gradient of w. */
enum { X, W, HIDDEN, MASK, OUT, STATISTIC, D_OUT, D_HIDDEN, D_W, MOMENT, N_STORAGES };
static const struct {
    int64_t bytes, payload;
    mp_kind kind;
} storages[N_STORAGES] = {
    [X] = {64, 40, MP_KIND_INPUT},
    [W] = {256, 250, MP_KIND_PARAMETER},
    [HIDDEN] = {128, 100, MP_KIND_ACTIVATION},
    [MASK] = {32, 25, MP_KIND_SAVED},
    [OUT] = {128, 99, MP_KIND_ACTIVATION},
    [STATISTIC] = {32, 7, MP_KIND_SAVED},
    [D_OUT] = {128, 99, MP_KIND_ACTIVATION_GRADIENT},
    [D_HIDDEN] = {128, 100, MP_KIND_ACTIVATION_GRADIENT},
    [D_W] = {256, 250, MP_KIND_GRADIENT},
    [MOMENT] = {512, 500, MP_KIND_OPTIMIZER_STATE},
};

static const struct {
    mp_phase phase;
    double flops;
    int64_t ticks, workspace;
    int forward_of, reads[4], writes[4]; /* terminated by -1 */
} nodes[] = {
    {MP_PHASE_FORWARD, 1000, 3, 10, -1, {X, W, -1}, {HIDDEN, MASK, -1}},
    {MP_PHASE_FORWARD, 500, 2, 0, -1, {HIDDEN, X, W, -1}, {OUT, -1}},
    {MP_PHASE_LOSS, 0, 1, 0, -1, {OUT, -1}, {STATISTIC, -1}},
    {MP_PHASE_BACKWARD, 0, 1, 0, -1, {STATISTIC, -1}, {D_OUT, -1}},
    {MP_PHASE_BACKWARD, 0, 5, 0, 1, {D_OUT, HIDDEN, X, -1}, {D_HIDDEN, -1}},
    {MP_PHASE_BACKWARD, 0, 7, 90, 0, {D_HIDDEN, MASK, X, -1}, {D_W, -1}},
    {MP_PHASE_UPDATE, 0, 11, 4, -1, {D_W, MOMENT, W, -1}, {W, MOMENT, -1}},
};

static size_t length(const int *list)
{
    size_t n = 0;
    while (list[n] >= 0) n++;
    return n;
}

static mp_graph *two_layers(void)
{
    mp_graph *graph;
    mp_storage *s;
    mp_node *node;
    assert_int_equal(mp_graph_new("two layers", &graph, NULL), MP_OK);
    for (int k = 0; k < N_STORAGES; k++) {
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->bytes = storages[k].bytes;
        s->payload_bytes = storages[k].payload;
        s->kind = storages[k].kind;
        s->name = mp_pool_format(graph->pool, "s%d", k);
        s->n_tensors = k == X;
        s->tensors = mp_pool_alloc(graph->pool, 1, sizeof *s->tensors);
        s->tensors[0] = s->name;
    }
    for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = mp_pool_format(graph->pool, "n%zu", k);
        node->op = "Layer";
        node->phase = nodes[k].phase;
        node->flops = nodes[k].flops;
        node->forward_of = nodes[k].forward_of;
        mp_alternative *alternative = node->alternatives;
        alternative->ticks = nodes[k].ticks;
        alternative->workspace_bytes = nodes[k].workspace;
        alternative->n_reads = length(nodes[k].reads);
        alternative->reads = mp_graph_list(graph, nodes[k].reads, alternative->n_reads);
        alternative->n_writes = length(nodes[k].writes);
        alternative->writes = mp_graph_list(graph, nodes[k].writes, alternative->n_writes);
    }
    mp_error err = {0};
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

TEST(totals_are_the_payload_of_each_kind)
{
    mp_graph *graph = two_layers();
    mp_summary sum;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    assert_int_equal(sum.kind_bytes[MP_KIND_PARAMETER], 250);
    assert_int_equal(sum.kind_bytes[MP_KIND_GRADIENT], 250);
    assert_int_equal(sum.kind_bytes[MP_KIND_OPTIMIZER_STATE], 500);
    assert_int_equal(sum.workspace_bytes, 90);
    assert_true(sum.forward_flops == 1500);
    assert_int_equal(sum.forward_ticks, 3 + 2 + 1);
    assert_int_equal(sum.backward_ticks, 1 + 5 + 7);
    assert_int_equal(sum.update_ticks, 11);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

/* Forward writes hidden and its mask; backward reads both. Only the loss reads out, and the statistic belongs to the loss. */
TEST(saved_activations_are_what_backward_reads_of_forward)
{
    mp_graph *graph = two_layers();
    mp_summary sum;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    assert_int_equal(sum.saved_activation_bytes, 100 + 25);
    mp_summary_free(&sum);
    assert_int_equal(mp_summarize(graph, MP_RULES_PYTORCH, &sum, NULL), MP_OK);
    assert_int_equal(sum.saved_activation_bytes, 100 + 25 + 40);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

TEST(each_operator_has_its_own_backward)
{
    mp_graph *graph = two_layers();
    mp_summary sum;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    assert_int_equal(sum.n_operators, 3);
    const mp_operator_summary *first = &sum.operators[0], *second = &sum.operators[1], *loss = &sum.operators[2];
    assert_int_equal(first->backward_ticks, 7);
    assert_int_equal(first->output_bytes, 100 + 25);
    assert_int_equal(first->saved_bytes, 100 + 25);
    assert_int_equal(first->workspace_bytes, 90);
    assert_int_equal(second->backward_ticks, 5);
    assert_int_equal(second->output_bytes, 99);
    assert_int_equal(second->saved_bytes, 0);
    assert_int_equal(loss->node, 2);
    assert_int_equal(loss->backward_ticks, 0); /* only forward nodes have their own backward nodes */
    assert_int_equal(loss->saved_bytes, 7);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

/* Always live: x 64, w 256, moment 512. In order: f1 writes hidden 128 and mask 32, f2 writes out 128, and the loss its
 * statistic 32 (out ends). Its backward writes d_out 128. The backward of f2 writes d_hidden 128 (hidden and d_out end), and
 * the backward of f1 d_w 256. */
TEST(live_bytes_stand_before_and_after_each_operator)
{
    mp_graph *graph = two_layers();
    mp_summary sum;
    enum { ALWAYS = 64 + 256 + 512 };
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    const mp_operator_summary *first = &sum.operators[0], *second = &sum.operators[1], *loss = &sum.operators[2];
    assert_int_equal(first->live_before_bytes, ALWAYS);
    assert_int_equal(first->live_after_bytes, ALWAYS + 128 + 32);
    assert_int_equal(second->live_before_bytes, ALWAYS + 128 + 32);
    assert_int_equal(second->live_after_bytes, ALWAYS + 128 + 32 + 128);
    assert_int_equal(loss->live_after_bytes, ALWAYS + 128 + 32 + 32);
    assert_int_equal(loss->backward_live_before_bytes, -1);
    assert_int_equal(second->backward_live_before_bytes, ALWAYS + 128 + 32 + 128);
    assert_int_equal(second->backward_live_after_bytes, ALWAYS + 32 + 128);
    assert_int_equal(first->backward_live_before_bytes, ALWAYS + 32 + 128);
    assert_int_equal(first->backward_live_after_bytes, ALWAYS + 256);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

TEST(a_summary_survives_every_allocation_failure)
{
    mp_graph *graph = two_layers();
    mp_summary sum = {0};
    mp_status st = MP_NOMEM;
    long before = mp_alloc_live;
    for (long k = 0; st != MP_OK; k++) {
        mp_alloc_budget = k;
        st = mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_summary_free(&sum);
        assert_int_equal(mp_alloc_live, before);
    }
    mp_graph_free(graph);
}

/* ---- modules ---- */

enum { LAYERS = 8, BYTES = 64 };

/* A chain of eight layers in the modules h.0 (two), h.1 (two), h.2 (two) and head (two). Backward reads the activation before a
 * layer, so all activations are kept but the last one. */
static mp_graph *blocks(void)
{
    static char names[LAYERS][24];
    mp_graph *graph = NULL;
    assert_int_equal(chain_graph(LAYERS, BYTES, 10, true, &graph, NULL), MP_OK);
    for (int k = 0; k < LAYERS; k++) {
        snprintf(names[k], sizeof names[k], k < 6 ? "/h.%d/Relu_%d" : "/head/Relu_%d%d", k / 2, k % 2);
        graph->nodes[k].name = names[k];
    }
    return graph;
}

static void assert_module(const mp_module_summary *m, const char *title, int64_t saved_bytes, int64_t ticks)
{
    char text[64];
    assert_string_equal(mp_module_summary_title(m, text, sizeof text), title);
    assert_int_equal(m->saved_bytes, saved_bytes);
    assert_int_equal(m->ticks, ticks);
}

/* A layer takes one tick forward and two backward. */
TEST(equal_modules_share_a_row)
{
    mp_graph *graph = blocks();
    mp_summary sum;
    mp_module_summary *m;
    size_t n;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    assert_int_equal(mp_summary_modules(graph, &sum, 5, MP_SUMMARY_NETWORK, &m, &n, NULL), MP_OK);
    assert_int_equal(n, 3);
    assert_module(&m[0], "h.0 - h.2, each", 2 * BYTES, 6);
    assert_module(&m[1], "head", BYTES, 6);
    assert_module(&m[2], "(no module)", BYTES, 1); /* the loss, with the gradient of the last activation */
    mp_free(m);
    /* the outermost modules, each in a row of its own */
    assert_int_equal(mp_summary_modules(graph, &sum, 0, MP_SUMMARY_NETWORK, &m, &n, NULL), MP_OK);
    assert_int_equal(n, 5);
    for (int k = 0; k < 3; k++) assert_module(&m[k], (const char *[]){"h.0", "h.1", "h.2"}[k], 2 * BYTES, 6);
    mp_free(m);
    /* two rows: the largest by kept bytes, and the sum of the others */
    assert_int_equal(mp_summary_modules(graph, &sum, 2, MP_SUMMARY_NETWORK, &m, &n, NULL), MP_OK);
    assert_int_equal(n, 2);
    assert_module(&m[0], "h.0 - h.2, each", 2 * BYTES, 6);
    assert_module(&m[1], "2 others", 2 * BYTES, 7);
    mp_free(m);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

TEST(operators_are_sorted_by_a_column)
{
    mp_graph *graph = blocks();
    mp_summary sum;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    for (int column = MP_SUMMARY_KEPT; column <= MP_SUMMARY_NETWORK; column++) {
        mp_operator_summary *rows;
        bool seen[64] = {false};
        assert_int_equal(mp_summary_column_find(mp_summary_column_name((mp_summary_column)column)), column);
        assert_int_equal(mp_summary_sorted(graph, &sum, (mp_summary_column)column, &rows, NULL), MP_OK);
        for (size_t k = 0; k < sum.n_operators; k++) {
            const mp_operator_summary *b = &rows[k], *a = k ? &rows[k - 1] : b;
            const char *names[] = {graph->nodes[a->node].name, graph->nodes[b->node].name};
            assert_true(!seen[b->node]);
            seen[b->node] = true;
            assert_true(column != MP_SUMMARY_KEPT || a->saved_bytes >= b->saved_bytes);
            assert_true(column != MP_SUMMARY_PARAMETERS || a->parameter_bytes >= b->parameter_bytes);
            assert_true(column != MP_SUMMARY_TIME ||
                        a->forward_ticks + a->backward_ticks >= b->forward_ticks + b->backward_ticks);
            assert_true(column != MP_SUMMARY_NAME || strcmp(names[0] ? names[0] : "", names[1] ? names[1] : "") <= 0);
            assert_true(column != MP_SUMMARY_NETWORK || a->node <= b->node);
        }
        mp_free(rows);
    }
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

/* Both layers read the parameter w, and it counts for the first of them. */
TEST(each_parameter_counts_once)
{
    mp_graph *graph = two_layers();
    mp_summary sum;
    assert_int_equal(mp_summarize(graph, MP_RULES_EXECUTOR, &sum, NULL), MP_OK);
    for (size_t k = 0; k < sum.n_operators; k++) assert_int_equal(sum.operators[k].parameter_bytes, k ? 0 : 256);
    mp_summary_free(&sum);
    mp_graph_free(graph);
}

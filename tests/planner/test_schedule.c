/* test_schedule.c - builds an order of steps from segments and kept storages. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/solver.h"
#include "planner/order/dag.h"
#include "planner/order/segment_schedule.h"
#include "planner/order/updates.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 400 };

/* A chain of `n` forward nodes f0 .. f(n-1), each reading the previous activation and its own parameter; a loss; backward nodes
 * that read the input of their forward node and the gradient of its output; and updates. Storages: input 0, activations 1 .. n,
 * parameters, gradients of activations, gradients of parameters. Nodes: forward, loss, backward, updates. */
static mp_graph *chain(int n, mp_fuse fuse, bool with_output)
{
    mp_graph *graph = NULL;
    const int parameter = n + 1, gradient = 2 * n + 1, parameter_gradient = 3 * n + 1;
    assert_int_equal(mp_graph_new("chain", &graph, NULL), MP_OK);
    graph->fuse = fuse;
    for (int i = 0; i < 4 * n + 1; i++) {
        mp_storage *s;
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->name = mp_pool_format(graph->pool, "s%d", i);
        s->bytes = s->payload_bytes = i >= parameter && i < gradient ? 3 : i >= parameter_gradient ? 3 : 10;
        s->kind = i == 0                   ? MP_KIND_INPUT
                  : i < parameter          ? MP_KIND_ACTIVATION
                  : i < gradient           ? MP_KIND_PARAMETER
                  : i < parameter_gradient ? MP_KIND_ACTIVATION_GRADIENT
                                           : MP_KIND_GRADIENT;
    }
    for (int i = 0; i < 3 * n + 1; i++) {
        mp_node *node;
        int reads[4], writes[2];
        size_t n_reads = 0, n_writes = 0;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = mp_pool_format(graph->pool, "n%d", i);
        node->op = "node";
        node->forward_of = -1;
        node->alternatives[0].ticks = 1;
        if (i < n) {
            node->phase = MP_PHASE_FORWARD;
            reads[n_reads++] = i;
            reads[n_reads++] = parameter + i;
            writes[n_writes++] = i + 1;
        } else if (i == n) {
            node->phase = MP_PHASE_LOSS;
            reads[n_reads++] = n;
            writes[n_writes++] = gradient + n - 1;
        } else if (i <= 2 * n) {
            const int of = 2 * n - i;
            node->phase = MP_PHASE_BACKWARD;
            node->forward_of = of;
            reads[n_reads++] = of;
            reads[n_reads++] = parameter + of;
            reads[n_reads++] = gradient + of;
            if (with_output) reads[n_reads++] = of + 1;
            writes[n_writes++] = parameter_gradient + of;
            if (of > 0) writes[n_writes++] = gradient + of - 1;
        } else {
            const int of = i - 2 * n - 1;
            node->phase = MP_PHASE_UPDATE;
            reads[n_reads++] = parameter_gradient + of;
            reads[n_reads++] = parameter + of;
            writes[n_writes++] = parameter + of;
        }
        node->alternatives[0].n_reads = n_reads;
        node->alternatives[0].n_writes = n_writes;
        node->alternatives[0].reads = mp_graph_list(graph, reads, n_reads);
        node->alternatives[0].writes = mp_graph_list(graph, writes, n_writes);
    }
    if (fuse == MP_FUSE_FORWARD)
        for (int i = 0; i < n; i++) graph->storages[parameter_gradient + i].carried = true;
    mp_error err = {0};
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

static void assert_order(const mp_step *steps, size_t n, const int *expected, size_t n_expected)
{
    for (size_t t = 0; t < n && t < n_expected; t++)
        if (steps[t].node != expected[t]) fail_msg("step %zu runs node %d, not %d", t, steps[t].node, expected[t]);
    assert_int_equal(n, n_expected);
}

/* Forward f0 f1 f2 | f3 with f2's output kept. Backward of f3 needs only this output. Then f0 and f1 run again, but f2 does
 * not. */
TEST(checkpoint_of_a_chain_recomputes_its_first_segment)
{
    static const int expected[] = {0, 1,  2,  3, /* loss */ 4, /* backward of f3 */ 5, /* recomputed */ 0, 1, 6, 7, 8,
                                   9, 10, 11, 12};
    mp_graph *graph = chain(4, MP_FUSE_NONE, false);
    const int segment[13] = {0, 0, 0, 1};
    bool keep[17] = {false};
    mp_step *steps = NULL;
    size_t n = 0;
    keep[3] = true;
    assert_int_equal(mp_segment_schedule(graph, segment, 2, keep, &steps, &n, NULL), MP_OK);
    assert_order(steps, n, expected, sizeof expected / sizeof *expected);
    mp_free(steps);

    const int checkpoint = 3;
    int64_t peak, ticks;
    assert_int_equal(mp_segments_on(graph, &checkpoint, 1, &peak, &ticks, NULL), MP_OK);
    assert_int_equal(ticks, 13 + 2);
    mp_graph_free(graph);
}

/* Backward also reads the output. The end of a segment is still live, because it was kept. */
TEST(segments_are_recomputed_from_the_last_to_the_first)
{
    static const int expected[] = {0,  1,          2,  3,  4,  5,  /* loss */ 6, 7,  8,  /* f2 */ 2, 9,
                                   10, /* f0 */ 0, 11, 12, 13, 14, 15,           16, 17, 18};
    mp_graph *graph = chain(6, MP_FUSE_NONE, true);
    const int segment[19] = {0, 0, 1, 1, 2, 2};
    bool keep[25] = {false};
    mp_step *steps = NULL;
    size_t n = 0;
    keep[2] = keep[4] = true;
    assert_int_equal(mp_segment_schedule(graph, segment, 3, keep, &steps, &n, NULL), MP_OK);
    assert_order(steps, n, expected, sizeof expected / sizeof *expected);
    mp_free(steps);
    mp_graph_free(graph);
}

/* Two activations of a segment instead of six: the peak, computed by hand. Static: input 10 + 4 parameters of 3. Keep-all at
 * the loss: 4 activations and a gradient. At backward of f3: activations 1..3, its gradient, the next gradient, a parameter
 * gradient. */
TEST(peak_of_a_chain_is_what_a_hand_computes)
{
    mp_graph *graph = chain(4, MP_FUSE_NONE, false);
    const int checkpoint = 3;
    int64_t peak, ticks;
    assert_int_equal(mp_segments_on(graph, NULL, 0, &peak, &ticks, NULL), MP_OK);
    assert_int_equal(ticks, 13);
    assert_int_equal(peak, 22 + 30 + 10 + 10 + 3);
    assert_int_equal(mp_segments_on(graph, &checkpoint, 1, &peak, &ticks, NULL), MP_OK);
    /* The last reader of activation 3 is backward of f3. At backward of f2: activations 1 and 2 recomputed, two gradients of
     * activations, and two gradients of parameters, which wait for their updates at the end. */
    assert_int_equal(peak, 22 + 46);
    mp_graph_free(graph);
}

TEST(updates_stand_where_the_graph_fuses_them)
{
    static const int none[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const int backward[] = {0, 1, 2, 3, 4, 9, 5, 8, 6, 7};
    static const int forward[] = {7, 8, 9, 0, 1, 2, 3, 4, 5, 6};
    static const int *const expected[] = {none, backward, forward};
    for (int fuse = 0; fuse < 3; fuse++) {
        mp_graph *graph = chain(3, (mp_fuse)fuse, true);
        const int segment[10] = {0};
        const bool keep[13] = {false};
        mp_step *steps = NULL;
        size_t n = 0;
        assert_int_equal(mp_segment_schedule(graph, segment, 1, keep, &steps, &n, NULL), MP_OK);
        assert_order(steps, n, expected[fuse], 10);
        mp_free(steps);
        mp_graph_free(graph);
    }
}

/* A recomputation reads the old value of a parameter, so the parameter's update must wait. Here f0 and f1 read parameters 0 and
 * 1 again. */
TEST(fused_update_waits_for_recomputation)
{
    mp_graph *graph = chain(3, MP_FUSE_BACKWARD, false);
    const int segment[10] = {0, 0, 1};
    const bool keep[13] = {false}; /* not even the boundary is kept: it is recomputed for backward of f2 */
    mp_step *steps = NULL;
    size_t n = 0;
    assert_int_equal(mp_segment_schedule(graph, segment, 2, keep, &steps, &n, NULL), MP_OK);
    mp_plan *plan = NULL;
    mp_error err = {0};
    assert_int_equal(mp_plan_new(graph, "", steps, n, &plan, NULL), MP_OK);
    if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    int last_read[3] = {-1, -1, -1}, update[3];
    for (int t = 0; t < (int)n; t++) {
        const int node = steps[t].node;
        if (node < 3) last_read[node] = t;
        if (node > 3 && node < 7) last_read[6 - node] = t;
        if (node >= 7) update[node - 7] = t;
    }
    for (int i = 0; i < 3; i++) assert_int_equal(update[i], last_read[i] + 1);
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(graph);
}

/* One node of a graph in text form; each digit of a list is a storage. */
typedef struct row {
    mp_phase phase;
    int forward_of;
    const char *reads, *writes, *adds;
} row;

static int *digits(mp_graph *graph, const char *text, size_t *n)
{
    int list[10];
    *n = strlen(text);
    for (size_t i = 0; i < *n; i++) list[i] = text[i] - '0';
    return mp_graph_list(graph, list, *n);
}

/* Builds a graph of these nodes; `kinds` has a letter per storage: input, parameter, activation, gradient, delta (gradient of
 * an activation). */
static mp_graph *graph_of(const char *kinds, const row *rows, size_t n, mp_fuse fuse)
{
    mp_graph *graph = NULL;
    mp_error err = {0};
    assert_int_equal(mp_graph_new("rows", &graph, NULL), MP_OK);
    graph->fuse = fuse;
    for (size_t i = 0; kinds[i]; i++) {
        mp_storage *s;
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->name = mp_pool_format(graph->pool, "s%zu", i);
        s->bytes = s->payload_bytes = 4;
        s->kind = kinds[i] == 'i'   ? MP_KIND_INPUT
                  : kinds[i] == 'p' ? MP_KIND_PARAMETER
                  : kinds[i] == 'a' ? MP_KIND_ACTIVATION
                  : kinds[i] == 'g' ? MP_KIND_GRADIENT
                                    : MP_KIND_ACTIVATION_GRADIENT;
    }
    for (size_t i = 0; i < n; i++) {
        mp_node *node;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = mp_pool_format(graph->pool, "n%zu", i);
        node->op = "node";
        node->phase = rows[i].phase;
        node->forward_of = rows[i].forward_of;
        mp_alternative *alternative = &node->alternatives[0];
        alternative->reads = digits(graph, rows[i].reads, &alternative->n_reads);
        alternative->writes = digits(graph, rows[i].writes, &alternative->n_writes);
        alternative->adds = digits(graph, rows[i].adds, &alternative->n_adds);
        alternative->ticks = 1;
    }
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

static void assert_schedule(const mp_graph *graph, const int *segment, int n_segments, const char *kept, const int *expected,
                            size_t n_expected)
{
    bool keep[10] = {false};
    mp_step *steps = NULL;
    size_t n = 0;
    for (; *kept; kept++) keep[*kept - '0'] = true;
    assert_int_equal(mp_segment_schedule(graph, segment, n_segments, keep, &steps, &n, NULL), MP_OK);
    assert_order(steps, n, expected, n_expected);
    mp_free(steps);
}

#define F MP_PHASE_FORWARD
#define L MP_PHASE_LOSS
#define B MP_PHASE_BACKWARD
#define U MP_PHASE_UPDATE

/* f0 -> x (1); f1: x -> b (2); f2: x -> c (3); f3: b, c -> y (4). Backward of f1 and f2 add to one gradient (8) and read the
 * output of their forward node. */
static const row branches[] = {{F, -1, "0", "1", ""},  {F, -1, "1", "2", ""}, {F, -1, "1", "3", ""},
                               {F, -1, "23", "4", ""}, {L, -1, "4", "5", ""}, {B, 3, "5", "67", ""},
                               {B, 2, "37", "", "8"},  {B, 1, "26", "", "8"}, {B, 0, "8", "9", ""}};

/* The order of the sum requires f2's backward before f1's, although f1 is in the later segment. The inputs of f1's backward are
 * therefore held until then. */
TEST(node_that_a_sum_holds_up_finds_its_values_still_there)
{
    mp_graph *graph = graph_of("iaaaadddda", branches, 9, MP_FUSE_NONE);
    const int segment[9] = {0, 2, 1, 2};
    static const int expected[] = {0, 2, 1, 3, 4, 5, /* segment 1 */ 2, 6, 7, 8};
    assert_schedule(graph, segment, 3, "1", expected, 10);
    mp_graph_free(graph);
}

TEST(later_segments_go_first_where_the_sum_allows_any_order)
{
    mp_graph *graph = graph_of("iaaaadddda", branches, 9, MP_FUSE_NONE);
    const int segment[9] = {0, 2, 1, 2};
    static const int expected[] = {0, 2, 1, 3, 4, 5, 7, /* segment 1 */ 2, 6, 8};
    graph->storages[8].any_sum_order = true;
    assert_schedule(graph, segment, 3, "1", expected, 10);
    mp_graph_free(graph);
}

/* Backward reads only the last of three activations (3). The two before it are recomputed, because the recomputation of 3 needs
 * them. */
TEST(recomputation_is_closed_under_its_inputs)
{
    static const row rows[] = {{F, -1, "0", "1", ""}, {F, -1, "1", "2", ""}, {F, -1, "2", "3", ""}, {F, -1, "3", "4", ""},
                               {L, -1, "4", "5", ""}, {B, 3, "5", "6", ""},  {B, 2, "36", "7", ""}};
    mp_graph *graph = graph_of("iaaaaddd", rows, 7, MP_FUSE_NONE);
    const int segment[7] = {0, 0, 0, 1};
    static const int all[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 6}, from_second[] = {0, 1, 2, 3, 4, 5, 1, 2, 6};
    assert_schedule(graph, segment, 2, "", all, 10);
    assert_schedule(graph, segment, 2, "1", from_second, 9);
    mp_graph_free(graph);
}

/* The parameter's gradient (5) is complete before the node of the data gradient has read the parameter (1). */
TEST(fused_update_waits_for_the_last_reader_of_its_parameter)
{
    static const row rows[] = {{F, -1, "0", "2", ""}, {F, -1, "12", "3", ""}, {L, -1, "3", "4", ""}, {B, 1, "24", "5", ""},
                               {B, 1, "14", "6", ""}, {B, 0, "6", "7", ""},   {U, -1, "5", "1", ""}};
    mp_graph *graph = graph_of("ipaadgdd", rows, 7, MP_FUSE_BACKWARD);
    const int segment[7] = {0, 0};
    static const int expected[] = {0, 1, 2, 3, 4, 6, 5};
    assert_schedule(graph, segment, 1, "", expected, 7);
    mp_graph_free(graph);
}

#undef F
#undef L
#undef B
#undef U

TEST(segments_against_the_data_flow_are_refused)
{
    mp_graph *graph = chain(3, MP_FUSE_NONE, false);
    const int against[10] = {1, 0, 1}, outside[10] = {0, 0, 2};
    const bool keep[13] = {false};
    mp_step *steps = NULL;
    size_t n = 0;
    assert_int_equal(mp_segment_schedule(graph, against, 2, keep, &steps, &n, NULL), MP_INVALID);
    assert_int_equal(mp_segment_schedule(graph, outside, 2, keep, &steps, &n, NULL), MP_INVALID);
    assert_null(steps);
    const int of_backward = 2 * 3 + 1; /* the gradient of an activation cannot be a checkpoint */
    int64_t peak, ticks;
    assert_int_equal(mp_segments_on(graph, &of_backward, 1, &peak, &ticks, NULL), MP_INVALID);
    mp_graph_free(graph);
    graph = random_graph(1, 6, MP_FUSE_NONE, true);
    int *zeros = mp_alloc(graph->n_nodes + graph->n_storages, sizeof *zeros);
    assert_int_equal(mp_segment_schedule(graph, zeros, 1, (bool *)zeros, &steps, &n, NULL), MP_NOT_APPLICABLE);
    mp_free(zeros);
    mp_graph_free(graph);
}

/* Draws random segments: the segment of a node is not before the segments of its predecessors. */
static int random_segments(const mp_graph *graph, random_source *random, int *segment)
{
    mp_dag *dag = NULL;
    const int n_segments = 1 + random_below(random, 5);
    assert_int_equal(mp_dag_build(graph, &dag, NULL), MP_OK);
    for (int v = 0; v < dag->n_vertices; v++) {
        int low = 0;
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            if (segment[dag->node[dag->predecessors[e]]] > low) low = segment[dag->node[dag->predecessors[e]]];
        segment[dag->node[v]] = low + random_below(random, n_segments - low);
    }
    mp_dag_free(dag);
    return n_segments;
}

TEST(every_schedule_is_a_valid_plan)
{
    long n_recomputed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 14), (mp_fuse)(seed % 3), false);
        random_source random = {seed};
        int *segment = mp_alloc(graph->n_nodes, sizeof *segment);
        bool *keep = mp_alloc(graph->n_storages, sizeof *keep);
        const int n_segments = random_segments(graph, &random, segment);
        const int percent = random_below(&random, 101);
        for (size_t s = 0; s < graph->n_storages; s++) keep[s] = random_chance(&random, percent);
        mp_segment_keep_small(graph, keep);
        mp_step *steps = NULL;
        mp_plan *plan = NULL;
        size_t n = 0;
        mp_error err = {0};
        if (mp_segment_schedule(graph, segment, n_segments, keep, &steps, &n, &err) != MP_OK ||
            mp_plan_new(graph, "", steps, n, &plan, &err) != MP_OK || mp_plan_check(graph, plan, &err) != MP_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        n_recomputed += (long)(n - graph->n_nodes);
        if (n_segments == 1) assert_int_equal(n, graph->n_nodes);
        /* A node runs only once if all its outputs are kept. */
        for (size_t t = 0; t < n; t++) {
            const mp_alternative *alternative = &graph->nodes[steps[t].node].alternatives[0];
            bool all = alternative->n_writes > 0;
            for (size_t i = 0; i < alternative->n_writes; i++) all &= keep[alternative->writes[i]];
            if (all && plan->recompute[t]) fail_msg("seed %llu: step %zu", (unsigned long long)seed, t);
        }
        mp_plan_free(plan);
        mp_free(steps);
        mp_free(segment);
        mp_free(keep);
        mp_graph_free(graph);
    }
    if (n_recomputed < SEEDS / 2) fail_msg("only %ld nodes were run again", n_recomputed);
}

/* If everything is kept, nothing is recomputed, for any segments. */
TEST(nothing_runs_twice_when_everything_is_kept)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 14), (mp_fuse)(seed % 3), false);
        random_source random = {seed};
        int *segment = mp_alloc(graph->n_nodes, sizeof *segment);
        bool *keep = mp_alloc(graph->n_storages, sizeof *keep);
        mp_step *steps = NULL;
        size_t n = 0;
        memset(keep, true, graph->n_storages * sizeof *keep);
        assert_int_equal(mp_segment_schedule(graph, segment, random_segments(graph, &random, segment), keep, &steps, &n, NULL),
                         MP_OK);
        assert_int_equal(n, graph->n_nodes);
        mp_free(steps);
        mp_free(segment);
        mp_free(keep);
        mp_graph_free(graph);
    }
}

TEST(schedule_survives_every_allocation_failure)
{
    mp_graph *graph = chain(4, MP_FUSE_BACKWARD, true);
    const int segment[13] = {0, 0, 1, 1};
    const bool keep[17] = {false};
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_step *steps = NULL;
        size_t n;
        mp_alloc_budget = k;
        st = mp_segment_schedule(graph, segment, 2, keep, &steps, &n, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) {
            assert_int_equal(st, MP_NOMEM);
            assert_null(steps);
        }
        mp_free(steps);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}

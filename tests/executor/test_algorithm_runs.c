/* test_algorithm_runs.c - algorithms on a backend: each listed one runs, and results are equal except for rounding. A plan that
 * chooses algorithms trains exactly like keep-all with the same algorithms, and stays within its arena. */
#include <unistd.h>

#include "executor/program/program.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/costs_json.h"
#include "memplan/costs_measure.h"
#include "planner/search/algorithms.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 2 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
} outcome;

static training_case begin_network(const char *path, int accumulate)
{
    const mp_training_options options = {
        .optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .accumulate = accumulate, .options_json = "{}"};
    return training_begin(path, 0, &options);
}

static training_case begin(void)
{
    return begin_network("tests/gradients/unet.onnx", 1);
}

static outcome run(training_case *t, const mp_plan *plan, bool guards)
{
    const mp_execution_options options = {
        .hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .seed = 3, .poison = true, .guards = guards};
    outcome o = {{0}, ""};
    mp_error err = {0};
    mp_execution *e;
    if (mp_execution_new(t->program, plan, &options, &e, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_parameters_load(t->source, t->program, e, &err) != MP_OK) fail_msg("%s", err.message);
    training_run(t, e, 0, STEPS, o.losses);
    if (!guards) assert_true(mp_execution_touched_bytes(e) <= plan->arena_bytes);
    mp_execution_hash(e, o.hash);
    mp_execution_free(e);
    return o;
}

/* Returns a keep-all plan with the algorithms of `like`. NULL: each node uses alternative k, or its last one. */
static mp_plan *keep_all(const training_case *t, const mp_plan *like, size_t k)
{
    const mp_graph *g = t->program->graph;
    mp_plan *plan;
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    mp_keep_all(g, steps);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const mp_node *node = &g->nodes[steps[i].node];
        if (!mp_node_has_algorithms(node)) continue;
        steps[i].alternative = (int)(k < node->n_alternatives ? k : node->n_alternatives - 1);
        for (size_t u = 0; like && u < like->n_steps; u++)
            if (like->steps[u].node == steps[i].node) steps[i].alternative = like->steps[u].alternative;
    }
    assert_int_equal(mp_plan_new(g, "none", steps, g->n_nodes, &plan, NULL), MP_OK);
    mp_free(steps);
    assert_int_equal(mp_arena_layout(g, plan, NULL), MP_OK);
    return plan;
}

static size_t most_alternatives(const mp_graph *g)
{
    size_t n = 1;
    for (size_t k = 0; k < g->n_nodes; k++)
        if (mp_node_has_algorithms(&g->nodes[k]) && g->nodes[k].n_alternatives > n) n = g->nodes[k].n_alternatives;
    return n;
}

/* Trains with algorithm k of every node, for each k, and compares with the default. */
static void compare_algorithms(const char *path, int accumulate)
{
    training_case t = begin_network(path, accumulate);
    mp_plan *plain = training_keep_all(&t);
    const outcome expected = run(&t, plain, false);
    mp_plan_free(plain);
    assert_int_equal(mp_program_list_algorithms(t.program, NULL), MP_OK);
    const size_t most = most_alternatives(t.program->graph);
    int n_differ = 0;
    if (most == 1) fail_msg("%s has no node with several algorithms", path);
    for (size_t k = 0; k < most; k++) {
        mp_plan *plan = keep_all(&t, NULL, k);
        const outcome o = run(&t, plan, true);
        for (int s = 0; s < STEPS; s++)
            if (!(fabs(o.losses[s] - expected.losses[s]) < 1e-4 * fabs(expected.losses[s])))
                fail_msg("%s, algorithm %zu: loss %g, and %g by default", path, k, o.losses[s], expected.losses[s]);
        if (!k) assert_string_equal(o.hash, expected.hash); /* alternative 0 is the backend's own choice */
        n_differ += strcmp(o.hash, expected.hash) != 0;
        mp_plan_free(plan);
    }
    assert_true(n_differ > 0); /* some algorithms round differently */
    training_end(&t);
}

TEST(every_algorithm_gives_the_same_but_for_rounding)
{
    compare_algorithms("tests/gradients/unet.onnx", 1);
}

/* Skips the test if the backend has a single algorithm for each matrix product: the CPU, and a twin without CUDA's headers. */
static void need_algorithms_of_products(void)
{
    training_case t = begin_network("tests/gradients/mlp.onnx", 1);
    assert_int_equal(mp_program_list_algorithms(t.program, NULL), MP_OK);
    const bool lacks = most_alternatives(t.program->graph) == 1;
    training_end(&t);
    if (lacks) skip();
}

/* GPUs have several algorithms for a matrix product, with the gradient of the bias in the product or as a separate sum. */
TEST(every_algorithm_of_products_gives_the_same_but_for_rounding)
{
    need_algorithms_of_products();
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        compare_algorithms("tests/gradients/mlp.onnx", accumulate);
        compare_algorithms("tests/gradients/gpt.onnx", accumulate);
    }
}

/* A weight's gradient with a bias lists the default, and separate sums of the bias; no name is listed twice. */
TEST(gradients_of_biases_have_separate_sums)
{
    int n_apart = 0;
    need_algorithms_of_products();
    training_case t = begin_network("tests/gradients/mlp.onnx", 1);
    assert_int_equal(mp_program_list_algorithms(t.program, NULL), MP_OK);
    const mp_graph *g = t.program->graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const mp_node *node = &g->nodes[i];
        if (!mp_node_has_algorithms(node)) continue;
        assert_null(strstr(node->alternatives[0].algorithm, "apart"));
        for (size_t k = 0; k < node->n_alternatives; k++) {
            n_apart += strstr(node->alternatives[k].algorithm, ", bias apart") != NULL;
            assert_true(t.program->nodes[i].algorithms[k].is_deterministic);
            for (size_t l = 0; l < k; l++)
                assert_string_not_equal(node->alternatives[k].algorithm, node->alternatives[l].algorithm);
        }
    }
    assert_true(n_apart >= 3); /* at least one for each of the layers */
    training_end(&t);
}

/* A progress function that stops in step `step` of round `round`. */
typedef struct stop_at {
    size_t round;
    int64_t step;
    size_t n_rounds;
} stop_at;

static bool goes_on(size_t round, size_t n_rounds, const mp_train_progress *now, void *data)
{
    stop_at *s = data;
    s->n_rounds = n_rounds;
    return round < s->round || (round == s->round && now->step < s->step);
}

TEST(each_algorithm_is_measured_until_the_caller_stops)
{
    training_case t = begin();
    const mp_graph *g = t.program->graph;
    mp_costs_request request = {.program = t.program,
                                .feed = t.feed,
                                .parameters = t.source,
                                .optimizer = MP_OPTIMIZER_SGD,
                                .n_steps = 3,
                                .progress = goes_on};
    mp_measured_costs costs;
    mp_error err = {0};
    for (size_t last = 0; last < 4; last++) {
        stop_at stop = {.round = last, .step = 2};
        size_t n_choosing = 0, n_algorithms = 0;
        request.progress_data = &stop;
        assert_int_equal(mp_costs_measure(&request, &costs, &err), MP_OK);
        const size_t most = most_alternatives(g), n_rounds = last + 1 < most ? last + 1 : most;
        double own = 0, fastest = 0;
        assert_int_equal(stop.n_rounds, most);
        assert_int_equal(costs.n_left_out, most - n_rounds);
        for (size_t k = 0; k < g->n_nodes; k++) {
            const mp_node_cost *c = &costs.costs[k];
            const size_t n = mp_node_has_algorithms(&g->nodes[k]) ? g->nodes[k].n_alternatives : c->n_algorithms;
            double least = c->seconds;
            assert_int_equal(c->n_algorithms, n < n_rounds ? n : n_rounds);
            n_choosing += c->n_algorithms > 0;
            n_algorithms += c->n_algorithms;
            for (size_t a = 0; a < c->n_algorithms; a++) {
                assert_true(c->algorithms[a].seconds > 0);
                least = fmin(least, c->algorithms[a].seconds);
            }
            own += c->n_algorithms ? c->seconds : 0;
            fastest += c->n_algorithms ? least : 0;
        }
        assert_true(n_choosing > 0);
        assert_int_equal(costs.n_choosing, n_choosing);
        assert_int_equal(costs.n_algorithms, n_algorithms);
        assert_true(costs.own_seconds == own && costs.fastest_seconds == fastest && fastest <= own);
        mp_measured_costs_free(&costs);
    }
    stop_at at_once = {.round = 0, .step = 1};
    request.progress_data = &at_once;
    assert_int_equal(mp_costs_measure(&request, &costs, &err), MP_INFEASIBLE);
    training_end(&t);
}

/* Applies a cost file to the program. In it, algorithms with more workspace are faster. */
static void take(training_case *t, const char *unknown, mp_status expected, mp_error *err)
{
    char path[64];
    const mp_graph *g = t->program->graph;
    const mp_costs_options options = {0};
    mp_node_cost *costs = mp_alloc(g->n_nodes, sizeof *costs);
    mp_algorithm_cost *all = mp_alloc(g->n_nodes * MP_ALGORITHMS, sizeof *all);
    assert_int_equal(mp_program_list_algorithms(t->program, NULL), MP_OK);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const mp_node *node = &g->nodes[i];
        costs[i] = (mp_node_cost){.seconds = 1e-3, .algorithms = all + i * MP_ALGORITHMS};
        if (!mp_node_has_algorithms(node)) continue;
        costs[i].n_algorithms = node->n_alternatives;
        for (size_t k = 0; k < node->n_alternatives; k++) {
            const double bytes = (double)node->alternatives[k].workspace_bytes;
            costs[i].algorithms[k] = (mp_algorithm_cost){unknown ? unknown : node->alternatives[k].algorithm,
                                                         1e-5 / (1 + bytes / 1e4), node->alternatives[k].workspace_bytes, true};
            if (unknown) costs[i].n_algorithms = 1;
        }
    }
    snprintf(path, sizeof path, "/tmp/memplan-runs-%ld.json", (long)getpid());
    assert_int_equal(mp_costs_write(path, g, costs, NULL), MP_OK);
    mp_free(costs);
    mp_free(all);
    training_end(t);
    *t = begin();
    if (mp_costs_apply(path, t->program->graph, &options, err) != MP_OK) fail_msg("%s", err->message);
    assert_int_equal(mp_program_take_algorithms(t->program, err), expected);
    unlink(path);
}

/* Runs forward twice. The algorithms fit a budget between the smallest one and the fastest algorithms' needs. */
static mp_plan *all_twice(const training_case *t, double part)
{
    const mp_graph *g = t->program->graph;
    mp_plan *plan;
    size_t n = 0;
    int64_t least;
    mp_step *steps = mp_alloc(2 * g->n_nodes, sizeof *steps);
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < g->n_nodes; i++)
            if (again || (g->nodes[i].phase == MP_PHASE_FORWARD && !(g->nodes[i].flags & MP_NODE_ONCE)))
                steps[n++] = (mp_step){.node = (int)i};
    assert_int_equal(mp_algorithms_choose(g, steps, n, INT64_MAX, &least, NULL), MP_OK);
    assert_int_equal(mp_plan_new(g, "none", steps, n, &plan, NULL), MP_OK);
    const int64_t budget = least + (int64_t)(part * (double)(plan->peak_bytes - least));
    mp_plan_free(plan);
    assert_int_equal(mp_algorithms_choose(g, steps, n, budget, NULL, NULL), MP_OK);
    assert_int_equal(mp_plan_new(g, "none", steps, n, &plan, NULL), MP_OK);
    assert_int_equal(mp_arena_layout(g, plan, NULL), MP_OK);
    assert_int_equal(mp_plan_check(g, plan, NULL), MP_OK);
    mp_free(steps);
    return plan;
}

/* Returns whether a forward node has an algorithm with more workspace than the backend's own choice, as on CPUs. `take` prefers
 * such algorithms. A GPU library may list none for a small network. */
static bool has_larger_workspaces(const mp_graph *g)
{
    bool any = false;
    for (size_t k = 0; k < g->n_nodes; k++) {
        const mp_node *node = &g->nodes[k];
        for (size_t f = 1; node->phase == MP_PHASE_FORWARD && mp_node_has_algorithms(node) && f < node->n_alternatives; f++)
            any |= node->alternatives[f].workspace_bytes > node->alternatives[0].workspace_bytes;
    }
    return any || backend_of_tests()->is_host;
}

TEST(a_plan_that_chooses_trains_as_keep_all_with_the_same_algorithms)
{
    int n_other = 0, n_again = 0;
    training_case t = begin();
    mp_error err = {0};
    take(&t, NULL, MP_OK, &err);
    const mp_graph *g = t.program->graph;
    for (int k = 0; k < 4; k++) {
        static const double parts[] = {0.3, 0.05};
        mp_plan *plan = k < 2 ? training_plan(&t, parts[k]) : all_twice(&t, k == 2 ? 0 : 0.5), *all = keep_all(&t, plan, 0);
        const outcome a = run(&t, plan, false), b = run(&t, all, false), c = run(&t, plan, true);
        assert_memory_equal(a.losses, b.losses, sizeof a.losses);
        assert_memory_equal(a.losses, c.losses, sizeof a.losses);
        assert_string_equal(a.hash, b.hash);
        for (size_t s = 0; s < plan->n_steps; s++) {
            const bool other = mp_node_has_algorithms(&g->nodes[plan->steps[s].node]) && plan->steps[s].alternative;
            n_other += other && !plan->recompute[s];
            n_again += other && plan->recompute[s];
        }
        mp_plan_free(plan);
        mp_plan_free(all);
    }
    assert_true((n_other > 0 && n_again > 0) || !has_larger_workspaces(g));
    training_end(&t);
}

TEST(an_algorithm_that_the_backend_lacks_is_refused)
{
    mp_error err = {0};
    training_case t = begin();
    take(&t, "abacus", MP_UNSUPPORTED, &err);
    if (!strstr(err.message, " backend has no algorithm 'abacus' here for ")) fail_msg("%s", err.message);
    training_end(&t);
}

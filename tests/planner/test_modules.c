/* test_modules.c - the searcher that chooses modules to wrap: names and calls of modules, the schedule of a set of modules, and
 * the search against all sets. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/solver.h"
#include "planner/segments/module_schedule.h"
#include "planner/segments/modules.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 60, FORWARD = 16, ALL = 100000, FEW = 80, MOST_MODULES = 16, MOST_SETS = 4096 };

/* ---- names ---- */

static void name_nodes(mp_graph *graph, const char *const *names, int n)
{
    for (int k = 0; k < n; k++) graph->nodes[k].name = names[k];
}

static void assert_module(const mp_modules *m, int module, const char *name, int parent, int n_calls, bool is_split)
{
    assert_true(module < m->n);
    assert_string_equal(m->modules[module].name, name);
    assert_int_equal(m->modules[module].parent, parent);
    assert_int_equal(m->modules[module].n_calls, n_calls);
    assert_int_equal(m->modules[module].is_split, is_split);
}

TEST(modules_are_told_from_names)
{
    static const char *const names[] = {"/a/a.0/conv/Conv",
                                        "/a/a.0/relu/Relu",
                                        "/a/a.0/relu_1/Relu",
                                        "/a/a.1/fc/MatMul",
                                        "/a/a.1/fc/Add",
                                        "/b/Mul",
                                        "/Add",
                                        "/b/Sub"};
    mp_graph *graph = NULL;
    mp_modules *m = NULL;
    assert_int_equal(chain_graph(8, 10, 1, true, &graph, NULL), MP_OK);
    name_nodes(graph, names, 8);
    assert_int_equal(mp_modules_new(graph, &m, NULL), MP_OK);
    assert_int_equal(m->n, 6);
    assert_module(m, 0, "a", -1, 1, false);
    assert_module(m, 1, "a.0", 0, 1, false);
    assert_module(m, 2, "a.0.conv", 1, 1, false);
    assert_module(m, 3, "a.0.relu", 1, 2, false);
    assert_module(m, 4, "a.1", 0, 1, false); /* a.1.fc has the same operators */
    assert_module(m, 5, "b", -1, 1, true);   /* the operator /Add is part of the call */
    assert_true(mp_modules_related(m, 3, 0));
    assert_true(mp_modules_related(m, 0, 3));
    assert_false(mp_modules_related(m, 4, 1));
    mp_modules_free(m);
    mp_graph_free(graph);
}

/* If "fc_1" has its own parameter, it is not a second call of "fc". */
TEST(module_with_a_parameter_is_itself)
{
    static const char *const names[] = {"/fc/MatMul", "/fc_1/MatMul", "/act/Relu", "/act_1/Relu"};
    mp_graph *graph = NULL;
    mp_modules *m = NULL;
    assert_int_equal(chain_graph(4, 10, 1, true, &graph, NULL), MP_OK);
    name_nodes(graph, names, 4);
    graph->storages[1].name = "fc_1.weight";
    assert_int_equal(mp_modules_new(graph, &m, NULL), MP_OK);
    assert_int_equal(m->n, 3);
    assert_module(m, 0, "fc", -1, 1, false);
    assert_module(m, 1, "fc_1", -1, 1, false);
    assert_module(m, 2, "act", -1, 2, false);
    mp_modules_free(m);
    mp_graph_free(graph);
}

/* ---- a schedule computed by hand ---- */

/* Layers f1 .. f6, where f2 .. f4 are module a. Backward of a layer reads the layer's input. Backward of f4 is the first in a
 * and needs a2 and a3, so f2 and f3 run again, but f4 does not. */
TEST(wrapped_module_runs_again_where_backward_comes_to_it)
{
    static const char *const names[] = {"/f1", "/a/f2", "/a/f3", "/a/f4", "/f5", "/f6"};
    static const int expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9, 10, 11, 12};
    enum { N = sizeof expected / sizeof *expected };
    mp_graph *graph = NULL;
    mp_modules *m = NULL;
    mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    size_t n = 0;
    const bool a = true;
    bool found = false, is_one = false;
    assert_int_equal(chain_graph(6, 10, 1, true, &graph, NULL), MP_OK);
    name_nodes(graph, names, 6);
    assert_int_equal(mp_modules_new(graph, &m, NULL), MP_OK);
    assert_int_equal(m->n, 1);
    assert_int_equal(mp_module_schedule(m, &a, NULL, &steps, &n, NULL), MP_OK);
    assert_int_equal(n, N);
    for (int t = 0; t < N; t++) assert_int_equal(steps[t].node, expected[t]);
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    assert_int_equal(timeline->peak_bytes, 51); /* at b4: a1, a2, a3 and two gradients; keep-all has 71 */
    mp_timeline_free(timeline);
    assert_int_equal(mp_module_schedule_read(m, steps, n, &found, &is_one, NULL), MP_OK);
    assert_true(is_one && found);
    steps[9].node = 2; /* this order matches no module */
    steps[10].node = 1;
    assert_int_equal(mp_module_schedule_read(m, steps, n, &found, &is_one, NULL), MP_OK);
    assert_false(is_one);
    mp_free(steps);
    mp_modules_free(m);
    mp_graph_free(graph);
}

/* The same, but the output of f2 is kept: only f3 runs again. At b6 the live tensors are a1, a2, a4, a5 and two gradients. */
TEST(what_a_policy_keeps_does_not_run_again)
{
    static const char *const names[] = {"/f1", "/a/f2", "/a/f3", "/a/f4", "/f5", "/f6"};
    static const int expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 9, 10, 11, 12};
    enum { N = sizeof expected / sizeof *expected };
    mp_graph *graph = NULL;
    mp_modules *m = NULL;
    mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    size_t n = 0;
    const bool a = true, kept[13] = {[1] = true};
    assert_int_equal(chain_graph(6, 10, 1, true, &graph, NULL), MP_OK);
    assert_true(graph->n_nodes <= sizeof kept / sizeof *kept);
    name_nodes(graph, names, 6);
    assert_int_equal(mp_modules_new(graph, &m, NULL), MP_OK);
    assert_int_equal(mp_module_schedule(m, &a, kept, &steps, &n, NULL), MP_OK);
    assert_int_equal(n, N);
    for (int t = 0; t < N; t++) assert_int_equal(steps[t].node, expected[t]);
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    assert_int_equal(timeline->peak_bytes, 61);
    mp_timeline_free(timeline);
    mp_free(steps);
    mp_modules_free(m);
    mp_graph_free(graph);
}

/* ---- all sets, by definition ---- */

/* A module as generated: its name and its calls as ranges of forward nodes. */
typedef struct truth {
    char name[16];
    int parent, n_calls, first[4], end[4];
} truth;

typedef struct network {
    mp_graph *graph;
    int n;
    truth modules[MOST_MODULES];
    int forward[FORWARD]; /* indices of the forward nodes */
    int n_sets;
    int64_t peak_bytes[MOST_SETS], ticks[MOST_SETS];
} network;

static int add_module(network *x, const char *name, int parent, int first, int end)
{
    truth *m = &x->modules[x->n];
    assert_true(x->n < MOST_MODULES);
    *m = (truth){.parent = parent, .n_calls = 1, .first = {first}, .end = {end}};
    snprintf(m->name, sizeof m->name, "%s", name);
    return x->n++;
}

/* Generates modules m0, m1, ... of two to four operators, two of which form an inner module "in"; single operators between
 * them; and sometimes a last module that is a second call of the previous one. */
static void put_names(network *x, random_source *random)
{
    int n_outer = 0, last = -1;
    mp_pool *pool = x->graph->pool;
    for (int p = 0; p < FORWARD;) {
        const int left = FORWARD - p, length = left < 2 ? 1 : 2 + random_below(random, left < 4 ? left - 1 : 3);
        char outer[24];
        if (left < 2 || random_chance(random, 25)) {
            x->graph->nodes[x->forward[p]].name = mp_pool_format(pool, "/op%d", p);
            p++;
            continue;
        }
        const bool again = last >= 0 && x->modules[last].n_calls == 1 && random_chance(random, 30);
        if (again) {
            truth *m = &x->modules[last];
            snprintf(outer, sizeof outer, "%s_1", m->name);
            m->first[m->n_calls] = p;
            m->end[m->n_calls++] = p + length;
        } else {
            snprintf(outer, sizeof outer, "m%d", n_outer++);
            last = add_module(x, outer, -1, p, p + length);
        }
        const int outer_module = last, inside = length > 2 && !again ? 2 : 0;
        for (int k = 0; k < length; k++)
            x->graph->nodes[x->forward[p + k]].name =
                mp_pool_format(pool, k < inside ? "/%s/in/op%d" : "/%s/op%d", outer, p + k);
        if (inside) {
            char name[24];
            snprintf(name, sizeof name, "%.8s.in", outer);
            add_module(x, name, outer_module, p, p + inside);
        }
        p += length;
    }
}

static bool is_gradient(const mp_graph *graph, int s)
{
    return graph->storages[s].kind == MP_KIND_GRADIENT || graph->storages[s].kind == MP_KIND_ACTIVATION_GRADIENT;
}

/* Returns the position up to which a call must run so that all its backward nodes can run. Inputs of a forward node are
 * available before it, outputs after it. */
static int reach_of(const network *x, int first, int end)
{
    const mp_graph *graph = x->graph;
    int reach = first;
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (int p = first; p < end; p++)
            for (size_t k = 0; k < graph->nodes[v].alternatives[0].n_reads; k++) {
                const int s = graph->nodes[v].alternatives[0].reads[k];
                if (graph->nodes[v].phase != MP_PHASE_BACKWARD || graph->nodes[v].forward_of != x->forward[p]) continue;
                if (is_gradient(graph, s)) continue;
                const int needs = graph->producer[s] == x->forward[p] ? p + 1 : p;
                if (needs > reach) reach = needs;
            }
    return reach;
}

static void run_once_more(const network *x, int forward, mp_step *steps, size_t *n, bool *done, const bool *chosen)
{
    for (int m = 0; m < x->n; m++)
        for (int c = 0; c < x->modules[m].n_calls; c++) {
            const int first = x->modules[m].first[c], end = x->modules[m].end[c];
            bool is_here = false;
            for (int p = first; p < end; p++) is_here |= x->forward[p] == forward;
            if (!is_here || !chosen[m] || done[4 * m + c]) continue;
            done[4 * m + c] = true;
            for (int p = first; p < reach_of(x, first, end); p++)
                if (!(x->graph->nodes[x->forward[p]].flags & MP_NODE_ONCE)) steps[(*n)++].node = x->forward[p];
        }
}

static void judge_set(network *x, const bool *chosen)
{
    const mp_graph *graph = x->graph;
    size_t n = 0;
    bool done[4 * MOST_MODULES] = {false};
    mp_step *steps = mp_alloc(3 * graph->n_nodes, sizeof *steps), *all = mp_alloc(graph->n_nodes, sizeof *all);
    mp_keep_all(graph, all);
    for (size_t t = 0; t < graph->n_nodes; t++) {
        const mp_node *node = &graph->nodes[all[t].node];
        bool reads_saved = false;
        for (size_t k = 0; k < node->alternatives[0].n_reads; k++)
            reads_saved |= !is_gradient(graph, node->alternatives[0].reads[k]);
        if (node->phase == MP_PHASE_BACKWARD && node->forward_of >= 0 && reads_saved)
            run_once_more(x, node->forward_of, steps, &n, done, chosen);
        steps[n++].node = all[t].node;
    }
    simulation s = simulate(graph, steps, n);
    assert_true(x->n_sets < MOST_SETS);
    x->peak_bytes[x->n_sets] = s.tiers[0].peak_bytes;
    x->ticks[x->n_sets++] = s.ticks;
    simulation_free(&s);
    mp_free(steps);
    mp_free(all);
}

/* Evaluates every set of modules in which no module contains another. */
static void judge_all_sets(network *x)
{
    for (unsigned set = 0; set < 1u << x->n; set++) {
        bool chosen[MOST_MODULES], is_nested = false;
        for (int m = 0; m < x->n; m++) {
            chosen[m] = set >> m & 1;
            is_nested |= chosen[m] && x->modules[m].parent >= 0 && set >> x->modules[m].parent & 1;
        }
        if (!is_nested) judge_set(x, chosen);
    }
}

static void set_up(network *x, uint64_t seed)
{
    random_source random = {seed};
    int n = 0;
    *x = (network){.graph = random_graph(seed, FORWARD, MP_FUSE_NONE, false)};
    for (size_t v = 0; v < x->graph->n_nodes; v++)
        if (x->graph->nodes[v].phase == MP_PHASE_FORWARD) x->forward[n++] = (int)v;
    assert_int_equal(n, FORWARD);
    put_names(x, &random);
    judge_all_sets(x);
}

/* Returns the minimum ticks of a set within a budget; -1: none. */
static int64_t least_ticks(const network *x, int64_t budget_bytes)
{
    int64_t least = -1;
    for (int k = 0; k < x->n_sets; k++)
        if (x->peak_bytes[k] <= budget_bytes && (least < 0 || x->ticks[k] < least)) least = x->ticks[k];
    return least;
}

static int64_t found_ticks(const network *x, int64_t budget_bytes, int64_t moves, int64_t *smallest_bytes)
{
    const mp_request request = {.graph = x->graph, .budget_bytes = budget_bytes, .own = &mp_modules_solver, .moves = moves};
    mp_answer answer = {0};
    mp_error err = {0};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = answer.plan ? answer.plan->ticks : -1;
    if (answer.plan) assert_int_equal(mp_plan_check(x->graph, answer.plan, NULL), MP_OK);
    *smallest_bytes = answer.smallest->peak_bytes;
    mp_answer_free(&answer);
    return ticks;
}

TEST(names_give_the_modules_they_were_made_of)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        network x;
        mp_modules *m = NULL;
        set_up(&x, seed);
        assert_int_equal(mp_modules_new(x.graph, &m, NULL), MP_OK);
        assert_int_equal(m->n, x.n);
        for (int k = 0; k < x.n; k++) {
            assert_module(m, k, x.modules[k].name, x.modules[k].parent, x.modules[k].n_calls, false);
            for (int c = 0, seen = 0; c < m->n_calls; c++) {
                if (m->calls[c].module != k) continue;
                assert_int_equal(m->calls[c].first, x.modules[k].first[seen]);
                assert_int_equal(m->calls[c].end, x.modules[k].end[seen]);
                assert_int_equal(m->calls[c].again_end, reach_of(&x, m->calls[c].first, m->calls[c].end));
                seen++;
            }
        }
        mp_modules_free(m);
        mp_graph_free(x.graph);
    }
}

TEST(search_equals_the_best_of_all_sets)
{
    int n_cheaper = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        network x;
        int64_t smallest, least = INT64_MAX;
        set_up(&x, seed);
        for (int k = 0; k < x.n_sets; k++) least = x.peak_bytes[k] < least ? x.peak_bytes[k] : least;
        for (int k = 0; k < x.n_sets; k += 1 + x.n_sets / 16) {
            const int64_t budget = x.peak_bytes[k], expected = least_ticks(&x, budget);
            const int64_t found = found_ticks(&x, budget, ALL, &smallest);
            if (found != expected)
                fail_msg("seed %llu, budget %lld: %lld ticks, of all sets %lld", (unsigned long long)seed, (long long)budget,
                         (long long)found, (long long)expected);
            assert_int_equal(smallest, least);
            n_cheaper += expected > x.ticks[0];
        }
        assert_int_equal(found_ticks(&x, least - 1, ALL, &smallest), -1);
        mp_graph_free(x.graph);
    }
    assert_true(n_cheaper > 100); /* number of budgets at which wrapping a module is cheaper */
}

/* If not all sets can be tried, most answers are still optimal, and none is better than optimal. */
TEST(growing_and_thinning_come_close_to_all_sets)
{
    int n = 0, n_best = 0, n_none = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        network x;
        int64_t smallest;
        set_up(&x, seed);
        for (int k = 0; k < x.n_sets && x.n_sets > FEW; k += 1 + x.n_sets / 16) {
            const int64_t budget = x.peak_bytes[k], expected = least_ticks(&x, budget);
            const int64_t found = found_ticks(&x, budget, FEW, &smallest);
            assert_true(found < 0 || found >= expected);
            n++;
            n_best += found == expected;
            n_none += found < 0;
        }
        mp_graph_free(x.graph);
    }
    print_message("%d budgets: %d times the best set, %d times none\n", n, n_best, n_none);
    assert_true(n > 100);
    assert_true(100 * n_best >= 95 * n);
    assert_int_equal(n_none, 0);
}

TEST(graph_without_modules_is_refused)
{
    mp_graph *graph = NULL;
    mp_answer answer = {0};
    mp_error err = {0};
    assert_int_equal(chain_graph(3, 10, 1, true, &graph, NULL), MP_OK);
    const mp_request request = {.graph = graph, .budget_bytes = 1000, .own = &mp_modules_solver};
    assert_int_equal(mp_solve(&request, &answer, &err), MP_NOT_APPLICABLE);
    assert_non_null(strstr(err.message, "belong to no module"));
    mp_graph_free(graph);
}

TEST(every_allocation_failure_is_reported)
{
    network x;
    set_up(&x, 7);
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        const mp_request request = {
            .graph = x.graph, .budget_bytes = x.peak_bytes[0] - 1, .own = &mp_modules_solver, .moves = 3};
        const long live = mp_alloc_live;
        mp_answer answer = {0};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(x.graph);
}

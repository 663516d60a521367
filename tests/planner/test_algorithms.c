/* test_algorithms.c - algorithms as alternatives of nodes: read from a file of costs, written to and read from a graph's file,
 * chosen for an order of steps and by searches, with one algorithm for all runs of a node. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/costs_json.h"
#include "memplan/graph_json.h"
#include "memplan/solver.h"
#include "planner/search/algorithms.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

enum { MOST_FORMS = 3, MOST_CHOICES = 4 };

static const char *const names[MOST_FORMS] = {"large", "middle", "small"};

/* Gives up to `most` nodes of a finished graph several algorithms, each slower but with less workspace than the previous one.
 * Returns the number of these nodes. */
static int add_algorithms(mp_graph *graph, uint64_t seed, int most, int chosen[])
{
    random_source random = {seed};
    int n = 0;
    for (int tries = 0; tries < 40 && n < most; tries++) {
        const int v = random_below(&random, (int)graph->n_nodes);
        mp_node *node = &graph->nodes[v];
        if (node->n_alternatives > 1 || node->phase == MP_PHASE_UPDATE || node->alternatives[0].algorithm) continue;
        const int n_alternatives = 2 + random_below(&random, MOST_FORMS - 1);
        mp_alternative *alternatives = mp_pool_alloc(graph->pool, MOST_FORMS, sizeof *alternatives);
        for (int k = 0; k < n_alternatives; k++) {
            alternatives[k] = node->alternatives[0];
            alternatives[k].algorithm = names[k];
            if (k) alternatives[k].ticks = alternatives[k - 1].ticks + 1 + random_below(&random, 5);
            alternatives[k].workspace_bytes += 10 * (n_alternatives - 1 - k) * (1 + random_below(&random, 8));
            if (k && alternatives[k].workspace_bytes >= alternatives[k - 1].workspace_bytes)
                alternatives[k].workspace_bytes = alternatives[k - 1].workspace_bytes;
        }
        node->alternatives = alternatives;
        node->n_alternatives = (size_t)n_alternatives;
        if (chosen) chosen[n] = v;
        n++;
    }
    assert_int_equal(mp_graph_hash(graph, graph->hash, NULL), MP_OK);
    return n;
}

/* Advances to the next combination of one alternative per chosen node; false after the last combination. */
static bool next_choice(const mp_graph *graph, const int chosen[], int n, int alternative[])
{
    for (int k = 0; k < n; k++) {
        if ((size_t)++alternative[k] < graph->nodes[chosen[k]].n_alternatives) return true;
        alternative[k] = 0;
    }
    return false;
}

static void measure(const mp_graph *graph, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks)
{
    mp_timeline *timeline;
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    *peak_bytes = timeline->peak_bytes;
    *ticks = timeline->ticks;
    mp_timeline_free(timeline);
}

TEST(the_choice_for_an_order_is_the_best_of_all)
{
    long n_slower = 0, n_over = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        int chosen[MOST_CHOICES], alternative[MOST_CHOICES] = {0};
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 6), (mp_fuse)(seed % 3), seed % 5 == 0);
        const int n_chosen = add_algorithms(graph, seed, MOST_CHOICES, chosen);
        size_t n;
        mp_step *steps = random_schedule(graph, seed, 6, &n);
        int64_t fast = 0, least = INT64_MAX, peak[100], ticks[100], least_bytes, found_peak, found_ticks;
        int n_all = 0;
        do {
            for (size_t t = 0; t < n; t++)
                for (int k = 0; k < n_chosen; k++)
                    if (steps[t].node == chosen[k]) steps[t].alternative = alternative[k];
            measure(graph, steps, n, &peak[n_all], &ticks[n_all]);
            if (!n_all) fast = ticks[0];
            if (peak[n_all] < least) least = peak[n_all];
            n_all++;
        } while (next_choice(graph, chosen, n_chosen, alternative));
        for (int b = 0; b <= n_all; b++) { /* every peak as a budget, and one budget below all peaks */
            const int64_t budget = b < n_all ? peak[b] : least - 1, within = budget < least ? least : budget;
            int64_t best = INT64_MAX;
            for (int k = 0; k < n_all; k++)
                if (peak[k] <= within && ticks[k] < best) best = ticks[k];
            assert_int_equal(mp_algorithms_choose(graph, steps, n, budget, &least_bytes, NULL), MP_OK);
            measure(graph, steps, n, &found_peak, &found_ticks);
            assert_int_equal(least_bytes, least);
            assert_true(found_peak <= within);
            assert_int_equal(found_ticks, best);
            n_slower += best > fast;
            n_over += budget < least;
        }
        mp_free(steps);
        mp_graph_free(graph);
    }
    assert_true(n_slower > 100 && n_over == 120);
    assert_int_equal(mp_alloc_live, 0);
}

/* Computes the minimum ticks over all schedules and all choices of one algorithm per node; -1: none fits. */
static bool oracle(mp_graph *graph, const int chosen[], int n, int64_t budget_bytes, int64_t *best)
{
    int alternative[MOST_CHOICES] = {0};
    bool done = true;
    *best = -1;
    do {
        mp_alternative *kept[MOST_CHOICES];
        int64_t ticks;
        for (int k = 0; k < n; k++) {
            mp_node *node = &graph->nodes[chosen[k]];
            kept[k] = node->alternatives;
            node->alternatives = &kept[k][alternative[k]];
            node->n_alternatives = 1;
        }
        done = done && oracle_exact(graph, budget_bytes, true, &ticks);
        if (done && ticks >= 0 && (*best < 0 || ticks < *best)) *best = ticks;
        for (int k = 0; k < n; k++) {
            mp_node *node = &graph->nodes[chosen[k]];
            node->alternatives = kept[k];
            for (node->n_alternatives = 1; node->n_alternatives < MOST_FORMS && kept[k][node->n_alternatives].algorithm;)
                node->n_alternatives++;
        }
    } while (done && next_choice(graph, chosen, n, alternative));
    return done;
}

TEST(searches_find_the_best_and_bounds_stay_below)
{
    static const char *const solvers[] = {"auto", "exact", "lagrange", "lower-set", "segments", "chain", "ilp"};
    long n = 0, n_best = 0, n_infeasible = 0, n_algorithms = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        int chosen[MOST_CHOICES];
        mp_graph *graph = tiny_graph(seed);
        const int n_chosen = add_algorithms(graph, seed, 3, chosen);
        for (int b = 0; b < 4; b++) {
            const int64_t budget = tiny_budget(graph, b);
            int64_t best;
            if (!oracle(graph, chosen, n_chosen, budget, &best)) continue;
            for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++) {
                mp_answer answer;
                mp_error err = {0};
                const mp_request request = {
                    .graph = graph, .budget_bytes = budget, .solver = solvers[k], .moves = 400, .wants_bound = true};
                const mp_status st = mp_solve(&request, &answer, &err);
                if (st == MP_NOT_APPLICABLE) continue;
                if (st != MP_OK) fail_msg("seed %llu, %s: %s", (unsigned long long)seed, solvers[k], err.message);
                if (best >= 0 && (answer.bound.infeasible || answer.bound.ticks > best))
                    fail_msg("seed %llu, %s: a bound of %lld, and %lld is possible", (unsigned long long)seed, solvers[k],
                             (long long)answer.bound.ticks, (long long)best);
                if (answer.plan) assert_true(best >= 0 && answer.plan->ticks >= best && answer.plan->peak_bytes <= budget);
                if (!k) {
                    n++;
                    n_infeasible += best < 0;
                    n_best += answer.plan ? answer.plan->ticks == best : best < 0;
                    for (size_t t = 0; answer.plan && t < answer.plan->n_steps; t++) {
                        const mp_step *step = &answer.plan->steps[t];
                        n_algorithms += step->alternative && mp_node_has_algorithms(&graph->nodes[step->node]);
                    }
                }
                mp_answer_free(&answer);
            }
        }
        mp_graph_free(graph);
    }
    print_message("auto: %ld of %ld optimal, %ld of them infeasible, %ld steps with another algorithm than the fastest\n",
                  n_best, n, n_infeasible, n_algorithms);
    assert_true(n > 100 && n_best * 100 >= n * 99 && n_algorithms > 50);
    assert_int_equal(mp_alloc_live, 0);
}

/* Changes the algorithm of one run of a node that runs twice: the checker must refuse the plan. */
TEST(one_algorithm_is_for_all_runs)
{
    int n_refused = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 6), (mp_fuse)(seed % 3), false);
        mp_error err = {0};
        size_t n;
        mp_plan *plan;
        add_algorithms(graph, seed, MOST_CHOICES, NULL);
        mp_step *steps = random_schedule(graph, seed, 8, &n);
        assert_int_equal(mp_algorithms_choose(graph, steps, n, INT64_MAX, NULL, NULL), MP_OK);
        assert_int_equal(mp_plan_new(graph, "test", steps, n, &plan, NULL), MP_OK);
        assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
        mp_plan_free(plan);
        size_t again = 0;
        for (size_t t = 1; t < n && !again; t++)
            for (size_t u = 0; u < t && mp_node_has_algorithms(&graph->nodes[steps[t].node]); u++)
                if (steps[u].node == steps[t].node) again = t;
        if (again) {
            steps[again].alternative ^= 1;
            assert_int_equal(mp_plan_new(graph, "test", steps, n, &plan, NULL), MP_OK);
            assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
            if (!strstr(err.message, "runs with the algorithm '") ||
                !strstr(err.message, "all runs of a node need the same algorithm"))
                fail_msg("%s", err.message);
            mp_plan_free(plan);
            n_refused++;
        }
        mp_free(steps);
        mp_graph_free(graph);
    }
    assert_true(n_refused > 10);
    assert_int_equal(mp_alloc_live, 0);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const mp_costs_options by_default;

/* Applies costs to a chain of three layers; `extra` is appended to the row of the second layer. */
static mp_status apply(mp_graph *graph, const char *extra, const mp_costs_options *options, mp_error *err)
{
    char path[64], text[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"format\":\"memplan-costs\",\"version\":1,\"nodes\":[");
    for (size_t k = 0; k < graph->n_nodes; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s{\"name\":\"%s\",\"seconds\":%d%s}", k ? "," : "",
                               graph->nodes[k].name, graph->nodes[k].phase == MP_PHASE_FORWARD ? 10 : 20, k == 1 ? extra : "");
    snprintf(text + at, sizeof text - at, "]}");
    snprintf(path, sizeof path, "/tmp/memplan-algorithms-%ld.json", (long)getpid());
    put_file(path, text);
    const mp_status st = mp_costs_apply(path, graph, options, err);
    unlink(path);
    return st;
}

static mp_graph *chain(void)
{
    mp_graph *graph;
    assert_int_equal(chain_graph(3, 100, 0, true, &graph, NULL), MP_OK);
    for (size_t k = 0; k < graph->n_nodes; k++) {
        graph->nodes[k].name = mp_pool_format(graph->pool, "node %zu", k);
        assert_non_null(graph->nodes[k].name);
    }
    return graph;
}

/* Costs measured for another number of bytes, or for another target, are refused. */
TEST(costs_of_another_batch_or_device_are_refused)
{
    static const struct {
        const char *extra, *target, *fault;
    } cases[] = {{",\"bytes\":100", "", NULL},
                 {",\"bytes\":200", "", "'node 1' wrote 200 bytes then, and writes 100 here"},
                 {"}],\"target\":\"a100\",\"more\":[{\"a\":1", "a100", NULL},
                 {"}],\"target\":\"a100\",\"more\":[{\"a\":1", "", NULL},
                 {"}],\"target\":\"cpu, 2 threads\",\"more\":[{\"a\":1", "a100",
                  "measured on 'cpu, 2 threads', and this step is for 'a100'"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mp_graph *graph = chain();
        mp_error err = {0};
        graph->target = cases[c].target;
        mp_status st = apply(graph, cases[c].extra, &by_default, &err);
        if (cases[c].fault) {
            assert_int_equal(st, MP_INVALID);
            if (!strstr(err.message, cases[c].fault)) fail_msg("%s", err.message);
        } else if (st != MP_OK &&
                   !strstr(err.message,
                           "no cost for the node")) { /* the cases with a target have an incomplete list of nodes */
            fail_msg("%s", err.message);
        }
        mp_graph_free(graph);
    }
    assert_int_equal(mp_alloc_live, 0);
}

#define ROW(name, seconds, bytes, more) "{\"name\":\"" name "\",\"seconds\":" #seconds ",\"workspace_bytes\":" #bytes more "}"

/* One algorithm is fast with a huge workspace, the other is slow without workspace. The plan uses the fastest one that fits. */
TEST(the_budget_decides_which_algorithm_runs)
{
    mp_graph *graph = chain();
    const int64_t keep_all = chain_keep_all_bytes(3, 100, 0);
    assert_int_equal(
        apply(graph, ",\"algorithms\":[" ROW("slow", 13, 0, "") "," ROW("fast", 8, 5000, "") "]", &by_default, NULL), MP_OK);
    const mp_node *node = &graph->nodes[1];
    assert_int_equal(node->n_alternatives, 2);
    assert_string_equal(node->alternatives[0].algorithm, "fast");
    assert_string_equal(node->alternatives[1].algorithm, "slow");
    assert_int_equal(node->alternatives[0].workspace_bytes, 5000);
    assert_int_equal(node->alternatives[1].ticks - node->alternatives[0].ticks, 5);
    assert_false(mp_node_has_algorithms(&graph->nodes[0]));
    for (int loose = 0; loose < 2; loose++) {
        mp_answer answer;
        mp_error err = {0};
        const mp_request request = {.graph = graph, .budget_bytes = loose ? 10000 : keep_all, .wants_bound = true};
        if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
        assert_non_null(answer.plan);
        assert_int_equal(answer.plan->n_steps, graph->n_nodes); /* nothing is recomputed */
        for (size_t t = 0; t < answer.plan->n_steps; t++)
            if (answer.plan->steps[t].node == 1) assert_int_equal(answer.plan->steps[t].alternative, loose ? 0 : 1);
        assert_int_equal(answer.plan->ticks, answer.plan->baseline_ticks + (loose ? 0 : 5));
        assert_true(answer.bound.ticks <= answer.plan->ticks);
        mp_answer_free(&answer);
    }
    mp_graph_free(graph);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(what_is_neither_faster_nor_smaller_or_not_permitted_is_left_out)
{
    const char *list = ",\"algorithms\":[" ROW("own", 10, 50, "") "," ROW("worse", 11, 50, "") "," ROW(
        "larger", 12, 90, "") "," ROW("small", 14, 7, "") "," ROW("random", 3, 60, ",\"deterministic\":false") "]";
    static const struct {
        mp_costs_options options;
        const char *names[4];
    } cases[] = {{{false, 0}, {"own", "small"}},
                 {{true, 0}, {"random", "own", "small"}},
                 {{true, 55}, {"own", "small"}},
                 {{false, 8}, {"small"}},
                 {{false, 6}, {NULL}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mp_graph *graph = chain();
        size_t n = 0;
        assert_int_equal(apply(graph, list, &cases[c].options, NULL), MP_OK);
        const mp_node *node = &graph->nodes[1];
        for (; cases[c].names[n]; n++) assert_string_equal(node->alternatives[n].algorithm, cases[c].names[n]);
        assert_int_equal(node->n_alternatives, n ? n : 1);
        assert_true(mp_node_has_algorithms(node) == (n > 0));
        mp_graph_free(graph);
    }
}

TEST(bad_algorithms_are_refused)
{
    static const struct {
        const char *extra, *fault;
    } cases[] = {
        {",\"algorithms\":[" ROW("a", 1, 0, "") "," ROW("a", 2, 0, "") "]", "'a' is there twice"},
        {",\"algorithms\":[" ROW("a", -1, 0, "") "]", "\"seconds\" is not a number >= 0"},
        {",\"algorithms\":[" ROW("a", 1, -1, "") "]", "\"workspace_bytes\" cannot be"},
        {",\"algorithms\":[3]", "algorithm 0 is no object"},
        {",\"algorithms\":[{\"seconds\":1}]", "\"name\" is missing"},
        {",\"algorithms\":3", "\"algorithms\" is no array"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mp_graph *graph = chain();
        mp_error err = {0};
        assert_int_not_equal(apply(graph, cases[c].extra, &by_default, &err), MP_OK);
        if (!strstr(err.message, cases[c].fault)) fail_msg("%s", err.message);
        mp_graph_free(graph);
    }
    mp_graph *graph = chain();
    mp_error err = {0};
    mp_alternative *alternatives = mp_pool_alloc(graph->pool, 2, sizeof *alternatives);
    alternatives[0] = alternatives[1] = graph->nodes[1].alternatives[0];
    graph->nodes[1].alternatives = alternatives;
    graph->nodes[1].n_alternatives = 2;
    assert_int_equal(apply(graph, ",\"algorithms\":[" ROW("a", 1, 0, "") "]", &by_default, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "which has alternatives already"));
    mp_graph_free(graph);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(they_are_in_the_graphs_file_and_its_hash)
{
    char path[64], hash[33];
    mp_graph *again;
    mp_graph *graph = chain();
    snprintf(path, sizeof path, "/tmp/memplan-algorithms-%ld.graph.json", (long)getpid());
    assert_int_equal(apply(graph, ",\"algorithms\":[" ROW("a", 1, 9, "") "," ROW("b", 2, 3, "") "]", &by_default, NULL), MP_OK);
    assert_int_equal(mp_graph_write(graph, path, NULL), MP_OK);
    assert_int_equal(mp_graph_read(path, &again, NULL), MP_OK);
    assert_string_equal(again->hash, graph->hash);
    assert_string_equal(again->nodes[1].alternatives[1].algorithm, "b");
    mp_graph_free(again);
    memcpy(hash, graph->hash, sizeof hash);
    graph->nodes[1].alternatives[1].algorithm = "c";
    assert_int_equal(mp_graph_hash(graph, graph->hash, NULL), MP_OK);
    assert_string_not_equal(hash, graph->hash);
    unlink(path);
    mp_graph_free(graph);
}

static void spoil_kinds(mp_alternative *alternatives)
{
    alternatives[1].algorithm = NULL;
}
static void spoil_names(mp_alternative *alternatives)
{
    alternatives[1].algorithm = alternatives[0].algorithm;
}
static void spoil_reads(mp_alternative *alternatives)
{
    alternatives[1].n_reads--;
}

TEST(a_graph_has_them_all_alike_or_none)
{
    static const struct {
        void (*spoil)(mp_alternative *alternatives);
        const char *fault;
    } cases[] = {{spoil_kinds, "alternatives with an algorithm and alternatives without one"},
                 {spoil_names, "has the algorithm 'a' twice"},
                 {spoil_reads, "may differ in seconds and workspace only"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char path[64];
        mp_error err = {0};
        mp_graph *graph = chain(), *again = NULL;
        snprintf(path, sizeof path, "/tmp/memplan-algorithms-%ld.graph.json", (long)getpid());
        assert_int_equal(apply(graph, ",\"algorithms\":[" ROW("a", 1, 9, "") "," ROW("b", 2, 3, "") "]", &by_default, NULL),
                         MP_OK);
        cases[c].spoil(graph->nodes[1].alternatives);
        assert_int_equal(mp_graph_write(graph, path, NULL), MP_OK);
        assert_int_equal(mp_graph_read(path, &again, &err), MP_PARSE);
        if (!strstr(err.message, cases[c].fault)) fail_msg("%s", err.message);
        mp_graph_free(again);
        unlink(path);
        mp_graph_free(graph);
    }
}

/* test_copies.c - plans, floors and bounds of graphs with copies, against an exhaustive search. */
#include "tests/cases/test.h"

#include <string.h>

#include "estimator/graph/without_copies.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "tests/cases/bound_case.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

/* A graph under construction. */
typedef struct network {
    mp_graph *graph;
    int host, out, in, network; /* the host's tier; the channels of copies and of the network */
} network;

static int storage_of(network *x, mp_kind kind, int tier, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(x->graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->tier = tier;
    s->bytes = s->payload_bytes = bytes;
    return (int)x->graph->n_storages - 1;
}

/* Appends a node with up to three reads (-1: none) and one write. */
static mp_node *node_of(network *x, mp_phase phase, int64_t ticks, int a, int b, int c, int writes)
{
    mp_node *node;
    int reads[3], n = 0;
    if (a >= 0) reads[n++] = a;
    if (b >= 0) reads[n++] = b;
    if (c >= 0) reads[n++] = c;
    assert_int_equal(mp_graph_node(x->graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->alternatives[0].ticks = ticks;
    node->alternatives[0].reads = mp_graph_list(x->graph, reads, (size_t)n);
    node->alternatives[0].n_reads = (size_t)n;
    node->alternatives[0].writes = mp_graph_list(x->graph, &writes, 1);
    node->alternatives[0].n_writes = 1;
    return node;
}

static void read_too(network *x, mp_node *node, int s)
{
    mp_alternative *base = &node->alternatives[0];
    int reads[4];
    for (size_t i = 0; i < base->n_reads; i++) reads[i] = base->reads[i];
    reads[base->n_reads++] = s;
    base->reads = mp_graph_list(x->graph, reads, base->n_reads);
}

/* Adds a copy in host memory of the storage that node v writes: a node that copies out, and an alternative of v that copies
 * back. */
static void add_copy(network *x, int v, int64_t out_ticks, int64_t in_ticks)
{
    const int s = x->graph->nodes[v].alternatives[0].writes[0];
    const int copy = storage_of(x, MP_KIND_ACTIVATION, x->host, x->graph->storages[s].bytes);
    mp_node *out = node_of(x, MP_PHASE_FORWARD, out_ticks, s, -1, -1, copy), *node = &x->graph->nodes[v];
    mp_alternative *forms = mp_pool_alloc(x->graph->pool, 2, sizeof *forms);
    out->flags = MP_NODE_OPTIONAL;
    out->alternatives[0].channel = x->out;
    assert_non_null(forms);
    forms[0] = node->alternatives[0];
    forms[1] = (mp_alternative){.reads = mp_graph_list(x->graph, &copy, 1),
                                .n_reads = 1,
                                .writes = mp_graph_list(x->graph, &s, 1),
                                .n_writes = 1,
                                .ticks = in_ticks,
                                .channel = x->in,
                                .returns = true};
    node->alternatives = forms;
    node->n_alternatives = 2;
}

static network begin(void)
{
    network x = {0};
    assert_int_equal(mp_graph_new("copies", &x.graph, NULL), MP_OK);
    assert_int_equal(mp_graph_tier(x.graph, "host", &x.host, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(x.graph, "copy out", &x.out, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(x.graph, "copy in", &x.in, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(x.graph, "network", &x.network, NULL), MP_OK);
    return x;
}

/* A chain of n forward nodes (some of which run only once), a loss, backward, and updates fused into backward. Some outputs can
 * be copied, and some nodes run on the network's channel. */
static mp_graph *random_chain(uint64_t seed, int n)
{
    random_source random = {seed};
    network x = begin();
    int outputs[8], parameters[8], before = -1, two_before = -1;
    x.graph->fuse = MP_FUSE_BACKWARD;
    for (int k = 0; k < n; k++) {
        outputs[k] = storage_of(&x, MP_KIND_ACTIVATION, 0, 1 + random_below(&random, 9));
        mp_node *node = node_of(&x, MP_PHASE_FORWARD, 1 + random_below(&random, 6), before,
                                random_chance(&random, 40) ? two_before : -1, -1, outputs[k]);
        parameters[k] = random_chance(&random, 30) ? storage_of(&x, MP_KIND_PARAMETER, 0, 1) : -1;
        if (parameters[k] >= 0) read_too(&x, node, parameters[k]);
        node->alternatives[0].workspace_bytes = random_chance(&random, 30) ? random_below(&random, 12) : 0;
        if (random_chance(&random, 50)) node->flags = MP_NODE_ONCE;
        if (before >= 0 && random_chance(&random, 50)) {
            node->alternatives[0].in_place = mp_pool_alloc(x.graph->pool, 1, sizeof *node->alternatives[0].in_place);
            node->alternatives[0].in_place[0] = (mp_in_place){before, outputs[k]};
            node->alternatives[0].n_in_place = 1;
        }
        two_before = before;
        before = outputs[k];
    }
    int gradient = storage_of(&x, MP_KIND_ACTIVATION_GRADIENT, 0, 1);
    node_of(&x, MP_PHASE_LOSS, 1, before, -1, -1, gradient);
    for (int k = n; k-- > 0;) {
        const int next = storage_of(&x, MP_KIND_ACTIVATION_GRADIENT, 0, 1 + random_below(&random, 6));
        mp_node *node =
            node_of(&x, MP_PHASE_BACKWARD, 1 + random_below(&random, 6), gradient, outputs[k], k ? outputs[k - 1] : -1, next);
        if (random_chance(&random, 25)) node->alternatives[0].channel = x.network;
        if (parameters[k] >= 0) node_of(&x, MP_PHASE_UPDATE, random_below(&random, 6), next, -1, -1, parameters[k]);
        gradient = next;
    }
    for (int k = 0; k < n; k++)
        if (random_chance(&random, 70)) add_copy(&x, k, random_below(&random, 5), random_below(&random, 5));
    assert_int_equal(mp_graph_finish(x.graph, NULL), MP_OK);
    return x.graph;
}

TEST(a_copy_takes_out_what_no_recomputation_could)
{
    mp_answer answer;
    mp_error err = {0};
    network x = begin();
    int64_t floor_bytes, floor_without_copies_bytes;
    int node;
    mp_without_copies without_copies = {0};
    const int a = storage_of(&x, MP_KIND_ACTIVATION, 0, 8), b = storage_of(&x, MP_KIND_ACTIVATION, 0, 1);
    const int d = storage_of(&x, MP_KIND_ACTIVATION_GRADIENT, 0, 1), g = storage_of(&x, MP_KIND_ACTIVATION_GRADIENT, 0, 8);
    node_of(&x, MP_PHASE_FORWARD, 3, -1, -1, -1, a)->flags = MP_NODE_ONCE;
    node_of(&x, MP_PHASE_FORWARD, 4, a, -1, -1, b);
    const int wide = storage_of(&x, MP_KIND_ACTIVATION, 0, 1);
    node_of(&x, MP_PHASE_FORWARD, 4, b, -1, -1, wide)->alternatives[0].workspace_bytes = 12;
    node_of(&x, MP_PHASE_LOSS, 3, wide, -1, -1, d);
    node_of(&x, MP_PHASE_BACKWARD, 5, a, d, -1, g);
    add_copy(&x, 0, 5, 4);
    assert_int_equal(mp_graph_finish(x.graph, NULL), MP_OK);
    assert_int_equal(keep_all_peak(x.graph), 22); /* a, b, wide and the workspace */
    assert_int_equal(mp_graph_without_copies(x.graph, &without_copies, NULL), MP_OK);
    assert_int_equal(mp_floor(without_copies.graph, &floor_without_copies_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_without_copies_bytes, 22);
    mp_without_copies_free(&without_copies);
    assert_int_equal(mp_floor(x.graph, &floor_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_bytes, 17); /* a, d and g */
    static const char *const solvers[] = {"exact", "auto"};
    for (int k = 0; k < 2; k++) {
        const mp_request request = {.graph = x.graph, .budget_bytes = 17, .solver = solvers[k], .wants_bound = true};
        if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
        assert_non_null(answer.plan);
        assert_int_equal(answer.plan->peak_bytes, 17);
        assert_int_equal(answer.plan->tiers[x.host].peak_bytes, 8);
        assert_int_equal(answer.plan->ticks,
                         21); /* 28 in order; 4 of 5 ticks are hidden on the way out, 3 of 4 on the way back */
        assert_int_equal(answer.bound.ticks, 19);
        assert_int_equal(mp_arena_layout(x.graph, answer.plan, NULL), MP_OK);
        assert_int_equal(answer.plan->arena_bytes, 17);
        mp_answer_free(&answer);
    }
    const mp_request tight = {.graph = x.graph, .budget_bytes = 16, .wants_bound = true};
    assert_int_equal(mp_solve(&tight, &answer, NULL), MP_OK);
    assert_null(answer.plan);
    assert_true(answer.bound.infeasible);
    mp_answer_free(&answer);
    mp_graph_free(x.graph);
}

/* Asserts that moving the wait of any issued copy does not give a faster plan within the budget. */
static void assert_waits_are_best(const mp_graph *graph, const mp_plan *plan)
{
    mp_step steps[64];
    memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    for (size_t t = 0; t < plan->n_steps; t++) {
        if (graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel <= MP_CHANNEL_SECOND_STREAM) continue;
        for (steps[t].until = (int)t + 1; steps[t].until <= (int)plan->n_steps; steps[t].until++) {
            mp_timeline *timeline = NULL;
            if (mp_timeline_build(graph, steps, plan->n_steps, &timeline, NULL) != MP_OK) continue;
            assert_true(timeline->peak_bytes > plan->budget_bytes || timeline->ticks >= plan->ticks);
            mp_timeline_free(timeline);
        }
        steps[t] = plan->steps[t];
    }
}

/* Asserts that anneal finds a plan whenever exact does, with at most 5 % more ticks; counts the plans with equal ticks. */
static void compare_moves(const mp_graph *graph, int64_t budget, const mp_plan *plan, int *n, int *n_as_cheap)
{
    mp_answer moved;
    const mp_request request = {.graph = graph, .budget_bytes = budget, .solver = "anneal"};
    assert_int_equal(mp_solve(&request, &moved, NULL), MP_OK);
    if (!moved.plan != !plan) fail_msg("anneal %s a plan", moved.plan ? "finds" : "does not find");
    assert_true(!plan || moved.plan->ticks * 20 <= plan->ticks * 21);
    *n += plan != NULL;
    *n_as_cheap += plan && moved.plan->ticks <= plan->ticks;
    mp_answer_free(&moved);
}

/* exact finds the cheapest plan in list order, no plan is below the floor, and no bound exceeds the cheapest plan. */
TEST(the_cheapest_plan_with_copies_is_found_and_nothing_proves_more)
{
    int n_copied = 0, n_none = 0, n_hidden = 0, n_moved = 0, n_as_cheap = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mp_graph *graph = random_chain(seed, 2 + (int)(seed % 3));
        mp_answer answer;
        mp_bound bound;
        mp_error err = {0};
        int64_t floor_bytes, ticks;
        int node;
        const int64_t most = keep_all_peak(graph);
        random_source random = {seed};
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        assert_true(floor_bytes <= most);
        assert_true(oracle_exact(graph, floor_bytes - 1, true, &ticks));
        assert_int_equal(ticks, -1);
        const int64_t budget = floor_bytes + random_below(&random, (int)(most - floor_bytes) + 1);
        assert_true(oracle_exact(graph, budget, true, &ticks));
        const mp_request request = {.graph = graph, .budget_bytes = budget, .solver = "exact"};
        if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        int64_t in_order = answer.plan ? 0 : -1;
        for (size_t t = 0; answer.plan && t < answer.plan->n_steps; t++)
            in_order += graph->nodes[answer.plan->steps[t].node].alternatives[answer.plan->steps[t].alternative].ticks;
        if (in_order != ticks)
            fail_msg("seed %d: %lld ticks, the cheapest take %lld", (int)seed, (long long)in_order, (long long)ticks);
        if (answer.plan && answer.plan->ticks < in_order) n_hidden++;
        if (answer.plan) assert_waits_are_best(graph, answer.plan);
        for (size_t t = 0; answer.plan && t < answer.plan->n_steps; t++)
            n_copied += graph->nodes[answer.plan->steps[t].node].alternatives[answer.plan->steps[t].alternative].returns;
        n_none += !answer.plan;
        if (seed <= 100) compare_moves(graph, budget, answer.plan, &n_moved, &n_as_cheap);
        assert_int_equal(mp_bound_within(graph, budget, NULL, &bound, NULL), MP_OK);
        assert_false(bound.infeasible && ticks >= 0);
        assert_true(ticks < 0 || bound.ticks <= answer.plan->ticks);
        mp_answer_free(&answer);
        mp_graph_free(graph);
    }
    assert_true(n_copied > 50);
    assert_true(n_none > 5);
    assert_true(n_hidden > 20);
    assert_true(n_moved > 80 && n_as_cheap >= n_moved * 95 / 100);
}

/* Draws keep-all with random copies, recomputations and waits; some of them break the rules. */
static size_t random_steps(const mp_graph *graph, random_source *random, mp_step *steps)
{
    mp_step all[64];
    size_t n_all = mp_keep_all(graph, all), n = 0;
    bool copied[64] = {false}, ran[64] = {false}, updated = false;
    for (size_t t = 0; t < n_all; t++) {
        for (int k = 0; k < 2 && random_chance(random, 40); k++) { /* insert other steps before */
            const int v = random_below(random, (int)graph->n_nodes);
            const mp_node *node = &graph->nodes[v];
            if (node->flags & MP_NODE_OPTIONAL) {
                if (!copied[v]) steps[n++] = (mp_step){.node = v};
                copied[v] = true;
            } else if (ran[v] && (node->n_alternatives > 1 || mp_node_may_rerun(node))) {
                steps[n++] = (mp_step){.node = v, .alternative = node->n_alternatives > 1 && !random_chance(random, 20)};
                if (!steps[n - 1].alternative && (updated || !mp_node_may_rerun(node))) n--;
            }
        }
        ran[all[t].node] = true;
        updated |= graph->nodes[all[t].node].phase == MP_PHASE_UPDATE;
        steps[n++] = all[t];
    }
    for (size_t t = 0; t < n; t++)
        if (graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel && random_chance(random, 60))
            steps[t].until = (int)t + 1 + random_below(random, (int)(n - t) < 4 ? (int)(n - t) : 4);
    return n;
}

/* The timeline, the checker and a second simulator must agree on which plans are refused, on the bytes of every tier, and on
 * the makespan. */
TEST(three_readings_of_the_rules_agree)
{
    int n_valid = 0, n_refused = 0, n_issued = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        mp_graph *graph = random_chain(seed, 2 + (int)(seed % 3));
        random_source random = {seed + 77};
        mp_step steps[64];
        for (int round = 0; round < 3; round++) {
            const size_t n = random_steps(graph, &random, steps);
            mp_timeline *timeline = NULL;
            mp_plan *plan = NULL,
                    none = {.budget_bytes = MP_NO_LIMIT, .static_bytes = -1, .arena_bytes = -1, .floor_bytes = -1};
            mp_error err = {0};
            const bool is_valid = mp_timeline_build(graph, steps, n, &timeline, &err) == MP_OK;
            if (is_valid != steps_obey(graph, steps, n)) fail_msg("seed %d.%d: %s", (int)seed, round, err.message);
            n_valid += is_valid;
            n_refused += !is_valid;
            if (!is_valid) {
                mp_error other = {0};
                none.steps = steps;
                none.n_steps = n;
                assert_int_equal(mp_plan_check(graph, &none, &other), MP_REFUTED);
                if (strstr(other.message, "the plan"))
                    fail_msg("seed %d.%d: %s, not: %s", (int)seed, round, err.message, other.message);
                continue;
            }
            simulation sim = simulate(graph, steps, n);
            assert_int_equal(timeline->n_spans, sim.n_spans);
            for (size_t k = 0; k < sim.n_spans; k++) assert_memory_equal(&timeline->spans[k], &sim.spans[k], sizeof *sim.spans);
            if (timeline->ticks != sim.ticks)
                fail_msg("seed %d.%d: %d ticks, %d", (int)seed, round, (int)timeline->ticks, (int)sim.ticks);
            for (int m = 0; m < 2; m++) {
                assert_memory_equal(timeline->tiers[m].live_bytes, sim.tiers[m].live_bytes, n * sizeof(int64_t));
                assert_int_equal(timeline->tiers[m].peak_bytes, sim.tiers[m].peak_bytes);
            }
            for (int t = 0; t < (int)n; t++) n_issued += steps[t].until > t + 1;
            const int64_t peak = timeline->tiers[1].peak_bytes;
            assert_int_equal(mp_plan_new(graph, "", steps, n, &plan, NULL), MP_OK);
            if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %d.%d: %s", (int)seed, round, err.message);
            plan->tiers[1].peak_bytes++;
            assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
            plan->tiers[1].peak_bytes--;
            plan->tiers[1].budget_bytes = peak - 1;
            assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
            plan->tiers[1].budget_bytes = MP_NO_LIMIT;
            plan->ticks++;
            assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
            mp_plan_free(plan);
            mp_timeline_free(timeline);
            simulation_free(&sim);
        }
        mp_graph_free(graph);
    }
    if (n_valid < 1000 || n_refused < 1000 || n_issued < 500) fail_msg("%d, %d, %d", n_valid, n_refused, n_issued);
}

/* A writes a. Its other alternative copies a back from the host, where it is always stored. B reads a and must not run again.
 */
static mp_graph *returning(void)
{
    network x = begin();
    const int kept = storage_of(&x, MP_KIND_CONSTANT, x.host, 8), a = storage_of(&x, MP_KIND_ACTIVATION, 0, 8);
    node_of(&x, MP_PHASE_FORWARD, 3, -1, -1, -1, a);
    node_of(&x, MP_PHASE_FORWARD, 2, a, -1, -1, storage_of(&x, MP_KIND_ACTIVATION, 0, 4))->flags = MP_NODE_ONCE;
    add_copy(&x, 0, 1, 1);
    x.graph->nodes[0].alternatives[1].reads[0] = kept;
    assert_int_equal(mp_graph_finish(x.graph, NULL), MP_OK);
    return x.graph;
}

TEST(the_checker_says_what_a_plan_with_copies_may_not_do)
{
    enum { A, B, OUT };
    mp_graph *graph = returning();
    static const struct {
        mp_step steps[4];
        size_t n;
        const char *fault;
    } cases[] = {
        {{{A, 0, 0}, {B, 0, 0}}, 2, NULL},
        {{{A, 0, 0}, {OUT, 0, 0}, {A, 1, 3}, {B, 0, 0}}, 4, NULL},
        {{{A, 1, 0}, {B, 0, 0}}, 2, "step 0: node 0 returns a storage that it has not computed yet"},
        {{{A, 0, 0}, {OUT, 0, 0}, {OUT, 0, 0}, {B, 0, 0}}, 4, "node 2 runs 2 times, but may run at most once"},
        {{{A, 0, 0}, {B, 0, 0}, {A, 0, 0}, {B, 0, 0}}, 4, "node 1 runs 2 times, but must run once"},
        {{{A, 0, 2}, {B, 0, 0}}, 2, "step 0: node 0 is issued asynchronously, but it runs on the compute channel"},
        {{{A, 0, 0}, {A, 1, 3}, {B, 0, 0}},
         3,
         "step 2: node 1 reads storage 1, which copy in changes concurrently; the wait is at step 3"},
        {{{A, 0, 0}, {OUT, 0, 9}, {B, 0, 0}},
         3,
         "step 1: node 2 runs on the copy out, but no step waits for it: there are only 3 steps"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_plan plan = {
            .budget_bytes = MP_NO_LIMIT, .static_bytes = -1, .arena_bytes = -1, .floor_bytes = -1, .n_steps = cases[k].n};
        plan.steps = (mp_step *)cases[k].steps;
        const mp_status st = mp_plan_check(graph, &plan, &err);
        assert_int_equal(st, MP_REFUTED);
        if (!cases[k].fault)
            assert_non_null(strstr(err.message, "the plan claims a peak_bytes of 0"));
        else
            assert_string_equal(err.message, cases[k].fault);
    }
    mp_plan *plan = NULL;
    mp_error err = {0};
    assert_int_equal(mp_plan_new(graph, "", cases[1].steps, 4, &plan, NULL), MP_OK);
    assert_int_equal(mp_arena_layout(graph, plan, NULL), MP_OK);
    assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
    assert_int_equal(plan->tiers[1].static_bytes, 8);
    mp_place *places = mp_alloc(plan->n_places + 1, sizeof *places);
    memcpy(places, plan->places, plan->n_places * sizeof *places);
    places[plan->n_places++] = (mp_place){3, 1, 2, 64, 8}; /* the copy's place is not on the device */
    mp_free(plan->places);
    plan->places = places;
    assert_int_equal(mp_plan_check(graph, plan, &err), MP_REFUTED);
    assert_string_equal(err.message, "the offset of storage 3 from step 1 belongs to no instance, or is listed twice");
    mp_plan_free(plan);
    mp_graph_free(graph);
}

/* Issues several copies together, each with a workspace of a quarter of the largest number. */
TEST(workspaces_that_overflow_are_refused)
{
    mp_graph *graph = returning();
    const mp_step steps[] = {{0, 0, 0}, {0, 1, 6}, {0, 1, 6}, {0, 1, 6}, {0, 1, 6}, {0, 1, 6}, {1, 0, 0}};
    mp_plan plan = {.budget_bytes = MP_NO_LIMIT, .static_bytes = -1, .arena_bytes = -1, .floor_bytes = -1, .n_steps = 7};
    mp_timeline *timeline = NULL;
    mp_error err = {0}, other = {0};
    graph->nodes[0].alternatives[1].n_reads = 0;
    graph->nodes[0].alternatives[1].workspace_bytes = INT64_MAX / 4;
    graph->storages[1].persistent = true; /* several steps of a channel may write a storage that is always live */
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(graph, steps, 7, &timeline, &err), MP_INVALID);
    assert_string_equal(err.message, "step 2: the concurrent steps need more bytes than can be counted");
    plan.steps = (mp_step *)steps;
    assert_int_equal(mp_plan_check(graph, &plan, &other), MP_REFUTED);
    assert_string_equal(other.message, err.message);
    mp_graph_free(graph);
}

/* An alternative that copies back cannot be a first run; floor and exact must respect this. */
TEST(a_first_run_computes)
{
    mp_graph *graph = returning();
    mp_answer answer;
    int64_t floor_bytes;
    int node;
    graph->nodes[0].alternatives[0].workspace_bytes = 10;
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    assert_int_equal(floor_bytes, 18);
    assert_int_equal(node, 0);
    const mp_request request = {.graph = graph, .budget_bytes = 18, .solver = "exact"};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_int_equal(answer.plan->n_steps, 2);
    assert_int_equal(answer.plan->steps[0].alternative, 0);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

TEST(a_tier_has_a_budget_of_its_own)
{
    int n = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = random_chain(seed, 4);
        mp_answer answer;
        const int64_t most = keep_all_peak(graph);
        mp_request request = {.graph = graph, .budget_bytes = most * 3 / 4, .moves = 500};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        const int64_t used = answer.plan ? answer.plan->tiers[1].peak_bytes : 0;
        mp_answer_free(&answer);
        request.tier_bytes[1] = used - 1;
        if (used > 1) {
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_true(!answer.plan || answer.plan->tiers[1].peak_bytes < used);
            assert_true(!answer.plan || answer.plan->tiers[1].budget_bytes == used - 1);
            n++;
            mp_answer_free(&answer);
        }
        mp_graph_free(graph);
    }
    assert_true(n > 5);
}

/* If a graph has no copies, the graph without copies is the same graph. With copies, plans of the graph without copies are
 * plans of the original. */
TEST(a_plan_without_copies_is_one_of_the_graph_with_them)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mp_graph *graph = random_chain(seed, 4);
        mp_without_copies without_copies = {0};
        mp_step steps[64];
        mp_timeline *here = NULL, *there = NULL;
        assert_int_equal(mp_graph_without_copies(graph, &without_copies, NULL), MP_OK);
        assert_false(without_copies.graph->has_copies);
        const size_t n = mp_keep_all(without_copies.graph, steps);
        assert_int_equal(mp_timeline_build(without_copies.graph, steps, n, &there, NULL), MP_OK);
        mp_without_copies_to_original(&without_copies, steps, n);
        assert_int_equal(mp_timeline_build(graph, steps, n, &here, NULL), MP_OK);
        assert_int_equal(here->peak_bytes, there->peak_bytes);
        assert_int_equal(here->ticks, there->ticks);
        mp_timeline_free(here);
        mp_timeline_free(there);
        mp_without_copies_free(&without_copies);
        mp_graph_free(graph);
    }
}

int main(void)
{
    return test_run(NULL, NULL);
}

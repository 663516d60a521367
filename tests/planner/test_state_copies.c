/* test_state_copies.c - optimizer state in another tier: its copies, plans that place them, and their bounds, against a
 * simulator and an exhaustive search. */
#include "estimator/base/memory.h"
#include "estimator/graph/without_state_copies.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/makespan.h"
#include "memplan/ranks/exchange.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "planner/order/updates.h"
#include "planner/solve/solver.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/random_offload.h"

enum { MIB = 1 << 20, STATE = 32 * MIB, MS = 1000000 };

/* Moves all state to the host; without `all`, nothing else may be copied. */
static void move_states(mp_graph *graph, const mp_link *link, bool all, size_t *n)
{
    mp_error err = {0};
    const mp_offload offload = {.host = link, .least_bytes = 1, .moves_state = true};
    if (!all)
        *n = offload_states(graph, link);
    else if (mp_graph_offload(graph, &offload, n, &err) != MP_OK)
        fail_msg("%s", err.message);
}

static int new_storage(mp_graph *g, const char *name, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->name = name;
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    return (int)g->n_storages - 1;
}

static void new_node(mp_graph *g, mp_phase phase, const int *reads, size_t n_reads, const int *writes, size_t n_writes,
                     int64_t ticks)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
    node->phase = phase;
    *node->alternatives = (mp_alternative){.n_reads = n_reads,
                                           .n_writes = n_writes,
                                           .reads = mp_graph_list(g, reads, n_reads),
                                           .writes = mp_graph_list(g, writes, n_writes),
                                           .ticks = ticks};
}

enum { G1, G2, W1, W2, S1, S2, HOME1, OLD1, HOME2, OLD2 }; /* storages of the two updates in the documentation's example */
enum { BACK2, BACK1, UPDATE1, UPDATE2, IN1, OUT1, IN2, OUT2 };

/* The two updates without moved states. */
static mp_graph *two_plain_updates(void)
{
    mp_graph *g;
    assert_int_equal(mp_graph_new("two updates", &g, NULL), MP_OK);
    g->tick_seconds = 1e-9;
    for (int k = 0; k < 2; k++) new_storage(g, k ? "g2" : "g1", MP_KIND_GRADIENT, 64);
    for (int k = 0; k < 2; k++) new_storage(g, k ? "w2" : "w1", MP_KIND_PARAMETER, STATE / 2);
    for (int k = 0; k < 2; k++) new_storage(g, k ? "s2" : "s1", MP_KIND_OPTIMIZER_STATE, STATE);
    new_node(g, MP_PHASE_BACKWARD, (int[]){W2}, 1, (int[]){G2}, 1, 0);
    new_node(g, MP_PHASE_BACKWARD, (int[]){W1}, 1, (int[]){G1}, 1, 0);
    new_node(g, MP_PHASE_UPDATE, (int[]){G1, W1, S1}, 3, (int[]){W1, S1}, 2, MS);
    new_node(g, MP_PHASE_UPDATE, (int[]){G2, W2, S2}, 3, (int[]){W2, S2}, 2, MS);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

static mp_graph *two_updates(void)
{
    mp_graph *g = two_plain_updates();
    size_t n;
    move_states(g, mp_link_find("pcie4"), false, &n);
    assert_int_equal(n, 2);
    return g;
}

TEST(the_states_of_the_document_become_three_storages_and_two_nodes_each)
{
    mp_graph *g = two_updates();
    static const struct {
        const char *name;
        mp_kind kind;
        int tier;
    } storages[] = {{"s1", MP_KIND_SAVED, 0},
                    {"s2", MP_KIND_SAVED, 0},
                    {"s1 on the host", MP_KIND_OPTIMIZER_STATE, 1},
                    {"old s1", MP_KIND_SAVED, 0},
                    {"s2 on the host", MP_KIND_OPTIMIZER_STATE, 1},
                    {"old s2", MP_KIND_SAVED, 0}};
    static const struct {
        const char *name;
        int read, written, channel;
        mp_copy_way way;
    } copies[] = {{"s1 from the host", HOME1, OLD1, 3, MP_COPY_IN},
                  {"s1 to the host", S1, HOME1, 2, MP_COPY_OUT},
                  {"s2 from the host", HOME2, OLD2, 3, MP_COPY_IN},
                  {"s2 to the host", S2, HOME2, 2, MP_COPY_OUT}};
    assert_true(g->n_storages == OLD2 + 1 && g->n_nodes == OUT2 + 1 && mp_graph_n_state_copies(g) == 4);
    for (int s = S1; s <= OLD2; s++) {
        assert_string_equal(g->storages[s].name, storages[s - S1].name);
        assert_true(g->storages[s].kind == storages[s - S1].kind && g->storages[s].tier == storages[s - S1].tier);
        assert_int_equal(g->storages[s].bytes, STATE);
    }
    for (int v = IN1; v <= OUT2; v++) {
        const mp_alternative *a = g->nodes[v].alternatives;
        assert_string_equal(g->nodes[v].name, copies[v - IN1].name);
        assert_true(a->reads[0] == copies[v - IN1].read && a->writes[0] == copies[v - IN1].written);
        assert_true(a->channel == copies[v - IN1].channel && a->ticks == 1408102);
        assert_int_equal(mp_copy_way_of(g, v, 0), copies[v - IN1].way);
    }
    const mp_alternative *update = g->nodes[UPDATE2].alternatives;
    assert_true(update->reads[2] == OLD2 && update->writes[1] == S2 && update->n_in_place == 1);
    assert_true(update->in_place[0].from == OLD2 && update->in_place[0].to == S2);
    assert_int_equal(mp_graph_static_bytes(g), STATE);
    assert_int_equal(mp_graph_static_bytes_in(g, 1), 2 * STATE);
    mp_graph_free(g);
}

/* Solves with a budget of n_states states in addition to everything else, and compares with the simulator. */
static int64_t solved(const mp_graph *g, int n_states, int64_t *bound)
{
    mp_answer answer;
    const mp_request request = {.graph = g, .budget_bytes = STATE + 128 + (int64_t)n_states * STATE, .wants_bound = true};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_non_null(answer.plan);
    simulation sim = simulate(g, answer.plan->steps, answer.plan->n_steps);
    const int64_t ticks = sim.ticks;
    assert_true(steps_obey(g, answer.plan->steps, answer.plan->n_steps) && ticks == answer.plan->ticks);
    assert_true(sim.tiers[0].peak_bytes <= request.budget_bytes && sim.tiers[1].peak_bytes == 2 * STATE);
    assert_int_equal(answer.plan->baseline_ticks, 2000000); /* both updates take 1 ms, without copies */
    *bound = answer.bound.ticks;
    simulation_free(&sim);
    mp_answer_free(&answer);
    return ticks;
}

TEST(the_two_updates_of_the_document_take_what_it_says)
{
    mp_graph *g = two_updates();
    static const mp_step apart[] = {{BACK2, 0, 0},   {BACK1, 0, 0}, {IN1, 0, 4},     {IN2, 0, 6},
                                    {UPDATE1, 0, 0}, {OUT1, 0, 8},  {UPDATE2, 0, 0}, {OUT2, 0, 0}};
    int64_t ticks, ends[8], bound;
    static const int64_t expected[] = {0, 0, 1408102, 2816204, 2408102, 3816204, 3816204, 5224306};
    assert_true(steps_obey(g, apart, 8));
    assert_int_equal(mp_makespan(g, apart, 8, ends, &ticks, NULL), MP_OK);
    assert_memory_equal(ends, expected, sizeof ends);
    assert_int_equal(solved(g, 1, &bound), 7632408);
    assert_int_equal(solved(g, 2, &bound), 5224306);
    assert_int_equal(bound, 3 * 1408102); /* all copies in one direction and one copy in the other */
    mp_graph_free(g);
}

/* Asserts that the checker refuses a plan of the two updates after `change`, with this message. */
static void refuted(void (*change)(mp_plan *plan), const char *what)
{
    static const mp_step steps[] = {{BACK2, 0, 0},   {BACK1, 0, 0}, {IN1, 0, 4},     {IN2, 0, 6},
                                    {UPDATE1, 0, 0}, {OUT1, 0, 8},  {UPDATE2, 0, 0}, {OUT2, 0, 0}};
    mp_graph *g = two_updates();
    mp_error err = {0};
    mp_plan *plan;
    assert_int_equal(mp_plan_new(g, "none", steps, 8, &plan, NULL), MP_OK);
    assert_int_equal(mp_plan_check(g, plan, NULL), MP_OK);
    change(plan);
    assert_int_equal(mp_plan_check(g, plan, &err), MP_REFUTED);
    if (!strstr(err.message, what)) fail_msg("%s", err.message);
    mp_plan_free(plan);
    mp_graph_free(g);
}

static void not_out(mp_plan *plan)
{
    plan->n_steps--;
}
static void not_awaited(mp_plan *plan)
{
    plan->steps[2].until = 6;
}
static void out_before_backward(mp_plan *plan)
{
    plan->steps[1] = (mp_step){UPDATE1, 0, 0};
    plan->steps[4] = (mp_step){BACK1, 0, 0};
}

TEST(the_checker_sees_state_that_is_not_there_and_not_written_back)
{
    refuted(not_out, "node 7 (s2 to the host) never runs");
    refuted(not_awaited, "changes storage 6 (s1 on the host), which copy in still reads concurrently; the wait is at step 6");
    refuted(out_before_backward, "updates before the end of backward, but the graph has fuse none");
}

/* ---- random graphs ---- */

/* True if any plan fits, by trying all plans. */
static bool fits(const mp_graph *g, int64_t budget_bytes, int64_t *ticks)
{
    assert_true(oracle_exact(g, budget_bytes, true, ticks));
    return *ticks >= 0;
}

/* keep_all_ticks: ticks of the step before states were moved. */
static void solve_and_compare(const mp_graph *g, int64_t budget_bytes, int64_t least_ticks, int64_t keep_all_ticks,
                              uint64_t seed, int *n_found)
{
    mp_answer answer;
    mp_error err = {0};
    const mp_request request = {.graph = g, .budget_bytes = budget_bytes, .wants_bound = true, .moves = 200};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
    if (!answer.plan) {
        assert_true(answer.smallest->peak_bytes > budget_bytes);
    } else {
        simulation sim = simulate(g, answer.plan->steps, answer.plan->n_steps);
        if (!steps_obey(g, answer.plan->steps, answer.plan->n_steps)) fail_msg("seed %d: the plan cannot run", (int)seed);
        if (sim.tiers[0].peak_bytes > budget_bytes) fail_msg("seed %d: over the budget", (int)seed);
        assert_true(sim.ticks == answer.plan->ticks && sim.tiers[1].peak_bytes == answer.plan->tiers[1].peak_bytes);
        /* in list order no plan is faster, and none is below the bound */
        if (answer.plan->ticks > least_ticks)
            fail_msg("seed %d: %d ticks, in order %d", (int)seed, (int)sim.ticks, (int)least_ticks);
        if (answer.bound.ticks > answer.plan->ticks) fail_msg("seed %d: a bound above the plan", (int)seed);
        assert_int_equal(answer.plan->baseline_ticks, keep_all_ticks);
        if (mp_plan_check_proofs(g, answer.plan, true, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        simulation_free(&sim);
        ++*n_found;
    }
    mp_answer_free(&answer);
}

TEST(plans_with_state_in_another_tier_are_right_and_fit_where_any_does)
{
    const mp_link links[] = {{.out_bytes_per_second = 1e9, .in_bytes_per_second = 5e8},
                             {.out_bytes_per_second = 30, .in_bytes_per_second = 60, .is_shared = true}};
    int n_found = 0, n_more = 0;
    size_t n_moved = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        const mp_fuse fuse = (mp_fuse)(seed % MP_N_FUSES);
        mp_graph *before = random_graph(seed, 3, fuse, false), *g = random_graph(seed, 3, fuse, false), *without_state;
        mp_step *steps = mp_alloc(4 * g->n_nodes + 16, sizeof *steps);
        int64_t floor_bytes, least, high, ticks;
        int node;
        size_t n;
        const bool all = seed % 5 == 0;
        move_states(g, &links[seed % 2], all, &n);
        n_moved += mp_graph_n_state_copies(g) / 2;
        n_more += mp_graph_n_state_copies(g) > 2;
        if (!all) assert_int_equal(n, mp_graph_n_state_copies(g) / 2);
        assert_int_equal(mp_graph_n_required(g), before->n_nodes + mp_graph_n_state_copies(g));
        /* keep-all holds the same bytes as before */
        simulation held = simulate(g, steps, mp_keep_all(g, steps));
        assert_true(steps_obey(g, steps, mp_graph_n_required(g)));
        high = held.tiers[0].peak_bytes;
        simulation_free(&held);
        held = simulate(before, steps, mp_keep_all(before, steps));
        assert_int_equal(high, held.tiers[0].peak_bytes);
        const int64_t keep_all_ticks = held.ticks;
        simulation_free(&held);
        /* the same for keep-all with updates as early as possible */
        mp_step *early;
        assert_int_equal(mp_updates_place_early(g, &early, &n, NULL), MP_OK);
        assert_true(n == g->n_nodes && steps_obey(g, early, n)); /* includes all optional copies */
        mp_free(early);
        /* the minimum bytes of all orders equal the minimum without the copies, and are not below the floor */
        assert_int_equal(mp_graph_without_state_copies(g, &without_state, NULL), MP_OK);
        for (least = 0; least < high;) {
            const int64_t middle = least + (high - least) / 2;
            const bool does_fit = fits(g, middle, &ticks);
            assert_int_equal(does_fit, fits(without_state, middle, &ticks));
            *(does_fit ? &high : &least) = middle + !does_fit;
        }
        assert_int_equal(mp_floor(g, &floor_bytes, &node, NULL), MP_OK);
        if (floor_bytes > least) fail_msg("seed %d: the floor is %d, and %d suffices", (int)seed, (int)floor_bytes, (int)least);
        for (int64_t budget = least; budget <= least + 64; budget += 32) {
            assert_true(fits(g, budget, &ticks));
            solve_and_compare(g, budget, all ? INT64_MAX : ticks, keep_all_ticks, seed, &n_found);
        }
        mp_free(steps);
        mp_graph_free(without_state);
        mp_graph_free(g);
        mp_graph_free(before);
    }
    if (n_found < 300 || n_moved < 150 || n_more < 30) fail_msg("%d plans, %d states, %d", n_found, (int)n_moved, n_more);
    assert_int_equal(mp_alloc_live, 0);
}

/* Buckets of gradients may be in transfer while the first states are copied: a claim must not exceed the ticks of keep-all or
 * of the plan itself. */
TEST(with_collectives_beside_compute_no_claim_is_over_what_a_plan_takes)
{
    const mp_link link = {.out_bytes_per_second = 64, .in_bytes_per_second = 64};
    int n_claims = 0;
    for (uint64_t seed = 1; seed <= 60; seed++)
        for (int zero = 0; zero <= 3; zero++) {
            mp_graph *g = random_graph(seed, 2 + (int)(seed % 5), (mp_fuse)(seed % 2), false);
            mp_ranks ranks = {.bucket_bytes = 1 + (int64_t)(seed % 5) * 64};
            char mesh[32];
            size_t n;
            snprintf(mesh, sizeof mesh, zero ? "shard=4,zero=%d" : "dp=4", zero);
            assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
            assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
            ranks.network.inside.latency_seconds = g->tick_seconds * (double)(seed % 4) / 8;
            ranks.network.inside.bytes_per_second = 16 / g->tick_seconds;
            assert_int_equal(mp_graph_exchange(g, &ranks, NULL), MP_OK);
            mp_step *steps = mp_alloc(3 * g->n_nodes, sizeof *steps);
            simulation plain = simulate(g, steps, mp_keep_all(g, steps)); /* includes the waits for the network */
            move_states(g, &link, seed % 3 == 0, &n);
            simulation all = simulate(g, steps, mp_keep_all(g, steps));
            const mp_request request = {
                .graph = g, .budget_bytes = INT64_MAX / 4, .effort = MP_EFFORT_QUICK, .moves = 1000, .wants_bound = true};
            mp_answer answer = {0};
            mp_error err = {0};
            if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %d, %s: %s", (int)seed, mesh, err.message);
            assert_non_null(answer.plan);
            if (answer.bound.ticks > all.ticks || answer.bound.ticks > answer.plan->ticks)
                fail_msg("seed %d, %s: a bound above a plan", (int)seed, mesh);
            n_claims += answer.bound.ticks > 0;
            assert_int_equal(answer.plan->baseline_ticks, plain.ticks);
            simulation_free(&plain);
            mp_answer_free(&answer);
            simulation_free(&all);
            mp_free(steps);
            mp_graph_free(g);
        }
    assert_int_equal(n_claims, 240);
}

/* ---- graphs that are refused ---- */

static void refused(void (*change)(mp_graph *g), const char *what)
{
    mp_graph *g = two_updates();
    mp_error err = {0};
    change(g);
    assert_int_equal(mp_graph_finish(g, &err), MP_PARSE);
    if (!strstr(err.message, what)) fail_msg("%s", err.message);
    mp_graph_free(g);
}

static void node_behind(mp_graph *g)
{
    new_node(g, MP_PHASE_BACKWARD, (int[]){W1}, 1, NULL, 0, 0);
}
static void workspace(mp_graph *g)
{
    g->nodes[OUT1].alternatives->workspace_bytes = 1;
}
static void not_at_home(mp_graph *g)
{
    g->storages[HOME1].kind = MP_KIND_SAVED;
}
static void read_twice(mp_graph *g)
{
    g->nodes[UPDATE1].alternatives->reads[0] = OLD2;
}

TEST(copies_of_state_come_last_and_are_between_a_tier_and_one_update)
{
    refused(node_behind, "copies optimizer state, but other nodes follow it in the list");
    refused(workspace, "copies optimizer state, so it may have neither other alternatives");
    refused(not_at_home, "must copy optimizer state between a static storage of another tier and a single update");
    refused(read_twice, "must copy optimizer state between a static storage of another tier and a single update");
}

TEST(memory_that_is_short_is_said_and_all_of_it_given_back)
{
    const mp_offload offload = {.host = mp_link_find("pcie4"), .moves_state = true};
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_graph *g = two_plain_updates();
        mp_alloc_budget = k;
        st = mp_graph_offload(g, &offload, NULL, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        mp_graph_free(g);
    }
    mp_graph *g = two_updates();
    mp_step steps[OUT2 + 1];
    mp_plan *start;
    const long before = mp_alloc_live;
    assert_int_equal(mp_plan_new(g, "none", steps, mp_keep_all(g, steps), &start, NULL), MP_OK);
    st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k += 1 + k / 64) {
        mp_answer answer = {0};
        const mp_request request = {
            .graph = g, .budget_bytes = STATE + 128 + 2 * (int64_t)STATE, .start = start, .solver = "none"};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        if (st == MP_OK) mp_answer_free(&answer);
    }
    mp_plan_free(start);
    assert_int_equal(mp_alloc_live, before);
    mp_graph_free(g);
}

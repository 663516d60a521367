/* test_copies_bound.c - bounds of graphs with copies, against plans that copy over slow links, and against the checker of
 * proofs. */
#include "memplan/bound.h"
#include "memplan/training.h"
#include "planner/offload/copies.h"
#include "planner/solve/solver.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

/* A random graph with copies to a host over a link so slow that a step can only transfer a part of keep-all's peak. *budget is
 * between the graph's minimum and keep-all's peak. */
static mp_graph *far_host(uint64_t seed, int64_t *budget)
{
    mp_graph *graph = random_graph(seed, 6 + (int)(seed % 6), (mp_fuse)(seed % 2), false);
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    mp_timeline *timeline;
    int64_t floor_bytes;
    int node;
    assert_int_equal(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &timeline, NULL), MP_OK);
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    const double seconds = (double)timeline->ticks * graph->tick_seconds, peak = (double)timeline->peak_bytes;
    const mp_link link = {.name = "far", .out_bytes_per_second = peak / seconds / 4, .in_bytes_per_second = peak / seconds / 8};
    *budget = floor_bytes + (timeline->peak_bytes - floor_bytes) * (int64_t)(1 + seed % 5) / 8;
    mp_timeline_free(timeline);
    mp_free(steps);
    assert_int_equal(mp_graph_offload(graph, &(mp_offload){.host = &link, .least_bytes = 1}, NULL, NULL), MP_OK);
    return graph;
}

static int64_t least_ticks(const mp_graph *graph)
{
    int64_t ticks = 0;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (!(graph->nodes[v].flags & MP_NODE_OPTIONAL)) ticks += graph->nodes[v].alternatives[0].ticks;
    return ticks;
}

/* A bound computed with a longer known plan must also hold for this plan. */
static void assert_no_less(const mp_graph *graph, const mp_plan *plan, const int64_t *tier_bytes, int *n_more)
{
    for (int64_t longer = 1; longer <= plan->ticks; longer *= 4) {
        mp_bound bound;
        assert_int_equal(mp_copies_bound(graph, plan->peak_bytes, tier_bytes, plan->ticks + longer, 1, &bound, NULL), MP_OK);
        if (bound.ticks > plan->ticks)
            fail_msg("a plan takes %lld ticks, and all take %lld", (long long)plan->ticks, (long long)bound.ticks);
        *n_more += bound.ticks > least_ticks(graph);
    }
}

TEST(no_plan_with_copies_takes_less)
{
    int n_more = 0, n_copied = 0, n_proved = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        int64_t budget;
        mp_graph *graph = far_host(seed, &budget);
        mp_answer answer;
        const mp_request request = {
            .graph = graph, .budget_bytes = budget, .solver = "anneal", .wants_bound = true, .moves = 400};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        for (size_t t = 0; answer.plan && t < answer.plan->n_steps; t++) {
            const mp_step step = answer.plan->steps[t];
            n_copied += graph->nodes[step.node].alternatives[step.alternative].returns;
        }
        if (answer.plan) {
            const int64_t host[MP_MAX_TIERS] = {0, answer.plan->tiers[1].peak_bytes};
            assert_no_less(graph, answer.plan, NULL, &n_more);
            if (host[1]) assert_no_less(graph, answer.plan, host, &n_more);
        }
        if (answer.plan && answer.bound.ticks > least_ticks(graph)) {
            n_proved++;
            assert_int_equal(mp_plan_check_proofs(graph, answer.plan, true, NULL), MP_OK);
            answer.plan->lower_bound_seconds += graph->tick_seconds;
            assert_int_equal(mp_plan_check_proofs(graph, answer.plan, true, NULL), MP_REFUTED);
        }
        mp_answer_free(&answer);
        mp_graph_free(graph);
    }
    assert_true(n_more > 100 && n_copied > 15 && n_proved > 10);
}

/* Random orders on all kinds of channels, with copies back alone and together with others; also with limits on the bytes in
 * other tiers. */
TEST(no_order_takes_less)
{
    int n = 0, n_more = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        mp_graph *graph = random_copies(seed);
        for (uint64_t order = 0; order < 4; order++) {
            size_t n_steps;
            mp_step *steps = random_copies_schedule(graph, seed, order, &n_steps);
            mp_plan *plan = NULL;
            if (mp_plan_new(graph, "", steps, n_steps, &plan, NULL) == MP_OK) {
                int64_t tier_bytes[MP_MAX_TIERS] = {0};
                for (size_t m = 1; m < graph->n_tiers; m++) tier_bytes[m] = plan->tiers[m].peak_bytes;
                assert_no_less(graph, plan, NULL, &n_more);
                assert_no_less(graph, plan, tier_bytes, &n_more);
                n++;
            }
            mp_plan_free(plan);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
    assert_true(n > 700);
}

/* A tiny graph with copies of everything to a host, or to a host and a disk, and its floor without copies. */
static mp_graph *tiny(uint64_t seed, bool has_disk, int64_t *plain_floor)
{
    const mp_link link = {.name = "near", .out_bytes_per_second = 1e12, .in_bytes_per_second = 1e12};
    mp_graph *graph = random_graph(seed, 3 + (int)(seed % 4), (mp_fuse)(seed % 3), false);
    int node;
    assert_int_equal(mp_floor(graph, plain_floor, &node, NULL), MP_OK);
    const mp_offload offload = {.host = &link, .disk = has_disk ? &link : NULL, .least_bytes = 1};
    assert_int_equal(mp_graph_offload(graph, &offload, NULL, NULL), MP_OK);
    return graph;
}

/* An exhaustive search: within the budget, no plan uses less of a tier than its floor, and some graphs have a plan that uses
 * exactly that. With two tiers, the second has a limit of `other` bytes, so both together hold `other` bytes more. */
TEST(no_plan_has_less_in_another_tier_than_its_floor)
{
    int n = 0, n_exact = 0;
    for (uint64_t seed = 0; seed < 240; seed++) {
        int64_t plain_floor, floor_bytes, floors[MP_MAX_TIERS], ticks = 0;
        int node;
        const bool has_disk = seed % 4 == 3;
        mp_graph *graph = tiny(seed, has_disk, &plain_floor);
        const int64_t other = has_disk ? graph->alignment : 0, tier_bytes[MP_MAX_TIERS] = {0, 0, other};
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        for (int64_t third = 0; third < 3 && graph->n_nodes <= 18; third++) {
            const int64_t budget = floor_bytes + (plain_floor - floor_bytes) * third / 3;
            assert_int_equal(mp_tier_floors(graph, budget, tier_bytes, floors, NULL), MP_OK);
            if (floors[1] <= 0) continue;
            assert_int_equal(floors[1], plain_floor - budget - other);
            if (has_disk) assert_int_equal(floors[2], 0);
            if (!oracle_exact_beside(graph, budget, floors[1] + other - 1, true, &ticks)) continue;
            n++;
            if (ticks >= 0) fail_msg("seed %llu: less than %lld bytes", (unsigned long long)seed, (long long)floors[1]);
            n_exact += oracle_exact_beside(graph, budget, floors[1] + other, true, &ticks) && ticks >= 0;
        }
        mp_graph_free(graph);
    }
    printf("%d budgets, %d exact\n", n, n_exact);
    assert_true(n > 100 && n_exact >= 5);
}

/* A chain whose layers run once. Activations that do not fit at the loss must be copied out before it and back after it. The
 * best plan waits for these copies. The bound must be close to that plan and never above it, whichever longer plan is known. */
TEST(over_a_slow_link_the_bound_is_hardly_below_the_best_plan)
{
    enum { LAYERS = 6, BYTES = 100, SLOW = 10 };
    int n_near = 0, n_more = 0;
    for (int way = 0; way < 3; way++) { /* slow out, slow back, both slow */
        const mp_link link = {.out_bytes_per_second = BYTES / (way != 1 ? SLOW : 1.0),
                              .in_bytes_per_second = BYTES / (way != 0 ? SLOW : 1.0)};
        mp_graph *graph;
        assert_int_equal(chain_graph(LAYERS, BYTES, 0, true, &graph, NULL), MP_OK);
        for (size_t v = 0; v < graph->n_nodes; v++)
            if (graph->nodes[v].phase == MP_PHASE_FORWARD) graph->nodes[v].flags |= MP_NODE_ONCE;
        assert_int_equal(mp_graph_offload(graph, &(mp_offload){.host = &link, .least_bytes = 1}, NULL, NULL), MP_OK);
        for (int n_out = 2; n_out < 5; n_out++) {
            mp_answer answer;
            const mp_request request = {.graph = graph,
                                        .budget_bytes = chain_keep_all_bytes(LAYERS, BYTES, 0) - n_out * BYTES,
                                        .wants_bound = true,
                                        .moves = 100};
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_non_null(answer.plan);
            assert_true(answer.plan->ticks >= n_out * SLOW);
            n_near += answer.bound.ticks >= answer.plan->ticks * 8 / 10;
            assert_no_less(graph, answer.plan, NULL, &n_more);
            mp_answer_free(&answer);
        }
        mp_graph_free(graph);
    }
    assert_true(n_near >= 3);
}

static int storage_of(mp_graph *graph, int tier, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = MP_KIND_ACTIVATION;
    s->tier = tier;
    s->bytes = s->payload_bytes = bytes;
    return (int)graph->n_storages - 1;
}

static mp_node *node_of(mp_graph *graph, mp_phase phase, const int *reads, size_t n_reads, const int *writes, size_t n_writes)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->alternatives[0] = (mp_alternative){.reads = mp_graph_list(graph, reads, n_reads),
                                             .n_reads = n_reads,
                                             .writes = mp_graph_list(graph, writes, n_writes),
                                             .n_writes = n_writes,
                                             .ticks = 1};
    return node;
}

/* A node that runs once and writes a large and a small storage. The copy of the large storage is small, the copy of the small
 * storage is large. Both are copied back together only. */
static void add_pair(mp_graph *graph, int host, int channel, int pair[2])
{
    const int64_t bytes[] = {100, 1};
    int copies[2];
    for (int k = 0; k < 2; k++) pair[k] = storage_of(graph, MP_TIER_DEVICE, bytes[k]);
    mp_node *made = node_of(graph, MP_PHASE_FORWARD, NULL, 0, pair, 2);
    const size_t v = graph->n_nodes - 1;
    made->flags = MP_NODE_ONCE;
    for (int k = 0; k < 2; k++) {
        copies[k] = storage_of(graph, host, bytes[!k]);
        mp_node *out = node_of(graph, MP_PHASE_FORWARD, &pair[k], 1, &copies[k], 1);
        out->flags = MP_NODE_OPTIONAL;
        out->alternatives[0].channel = channel;
    }
    mp_alternative *both = mp_pool_alloc(graph->pool, 2, sizeof *both);
    both[0] = graph->nodes[v].alternatives[0];
    both[1] = both[0];
    both[1].reads = mp_graph_list(graph, copies, 2);
    both[1].n_reads = 2;
    both[1].channel = channel;
    both[1].returns = true;
    graph->nodes[v].alternatives = both;
    graph->nodes[v].n_alternatives = 2;
}

/* While M runs, 200 bytes are away from the device, but host memory holds only 2 of them. The large copies are made one after
 * the other, so 102 bytes of host memory are enough. The bound must not assume that 102 bytes there mean 102 bytes here. */
TEST(what_comes_back_together_need_not_be_away_together)
{
    mp_graph *graph;
    int host, channel, a[2], b[2], n_more = 0;
    assert_int_equal(mp_graph_new("pairs", &graph, NULL), MP_OK);
    assert_int_equal(mp_graph_tier(graph, "host", &host, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "link", &channel, NULL), MP_OK);
    add_pair(graph, host, channel, a); /* node 0, and its copies, nodes 1 and 2 */
    add_pair(graph, host, channel, b); /* nodes 3, 4 and 5 */
    const int m = storage_of(graph, MP_TIER_DEVICE, 1), after = storage_of(graph, MP_TIER_DEVICE, 1);
    const int small[] = {a[1], b[1]}, used[] = {m, a[0], a[1]}, last[] = {after, b[0], b[1]},
              end = storage_of(graph, MP_TIER_DEVICE, 1);
    node_of(graph, MP_PHASE_FORWARD, small, 2, &m, 1)->alternatives[0].workspace_bytes = 200; /* node 6 */
    node_of(graph, MP_PHASE_FORWARD, used, 3, &after, 1);                                     /* node 7 */
    node_of(graph, MP_PHASE_FORWARD, last, 3, &end, 1);                                       /* node 8 */
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    const mp_step steps[] = {{.node = 0},
                             {.node = 1},
                             {.node = 3},
                             {.node = 4},
                             {.node = 6},
                             {.node = 2},
                             {.node = 0, .alternative = 1},
                             {.node = 7},
                             {.node = 5},
                             {.node = 3, .alternative = 1},
                             {.node = 8}};
    mp_plan *plan = NULL;
    mp_error err = {0};
    if (mp_plan_new(graph, "", steps, sizeof steps / sizeof *steps, &plan, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t tier_bytes[MP_MAX_TIERS] = {0, plan->tiers[host].peak_bytes};
    assert_int_equal(plan->peak_bytes, 203);
    assert_int_equal(tier_bytes[1], 102);
    assert_no_less(graph, plan, tier_bytes, &n_more);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

int main(void)
{
    return test_run(NULL, NULL);
}

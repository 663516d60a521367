/* test_copies_oracle.c - plans and bounds of auto for graphs with copies, against a search over all plans, including plans that
 * issue copies. Without its copies, a graph is searched like a graph that has none. The stages of a search share a time limit;
 * a simulated clock advances by a fixed step whenever it is read. */
#include <stdatomic.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/graph/without_copies.h"
#include "memplan/bound.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "planner/offload/copies.h"
#include "planner/search/algorithms.h"
#include "tests/cases/test.h"
#include "tests/oracles/auto_tally.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/random_offload.h"

enum { GRAPHS = 120, MOST_NODES = 9, MOST_COPIED = 8 };

static int64_t keep_all_peak(const mp_graph *graph, int64_t *ticks)
{
    mp_step steps[64];
    mp_timeline *timeline = NULL;
    assert_int_equal(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &timeline, NULL), MP_OK);
    const int64_t peak = timeline->peak_bytes;
    *ticks = timeline->ticks;
    mp_timeline_free(timeline);
    return peak;
}

/* A graph of at most 9 nodes, with copies over a link that transfers between an eighth and 128 times keep-all's peak per step.
 * Budgets are between the floor and that peak; sometimes the host has a budget too. NULL: the graph has more nodes, or nothing
 * to copy. */
static mp_graph *copied_graph(uint64_t seed, int64_t *budgets)
{
    random_source random = {seed};
    mp_graph *graph =
        random_graph(seed, 2 + random_below(&random, 3), random_below(&random, 2) ? MP_FUSE_BACKWARD : MP_FUSE_NONE, false);
    int64_t floor_bytes, ticks;
    int node, storages[MOST_COPIED];
    size_t n = 0;
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t f = 0; f < graph->nodes[v].n_alternatives; f++)
            graph->nodes[v].alternatives[f].ticks = (graph->nodes[v].alternatives[f].ticks + 7) / 8;
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    for (int k = 0; k < MOST_COPIED; k++) storages[k] = random_below(&random, (int)graph->n_storages);
    const int64_t peak = keep_all_peak(graph, &ticks);
    const double rate =
        (double)peak / ((double)(ticks + 1) * graph->tick_seconds) * (double)(1 << random_below(&random, 11)) / 8;
    const mp_link link = {.name = "link",
                          .out_bytes_per_second = rate,
                          .in_bytes_per_second = rate * (1 + random_below(&random, 2)),
                          .is_shared = random_chance(&random, 20)};
    const bool is_small = graph->n_nodes <= MOST_NODES && ticks > 0;
    if (is_small)
        assert_int_equal(
            mp_graph_offload(graph,
                             &(mp_offload){.host = &link, .least_bytes = 1, .storages = storages, .n_storages = MOST_COPIED},
                             &n, NULL),
            MP_OK);
    if (!n) {
        mp_graph_free(graph);
        return NULL;
    }
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    for (int m = 0; m < MP_MAX_TIERS; m++) budgets[m] = INT64_MAX / 2;
    budgets[0] = floor_bytes + (peak - floor_bytes) * random_below(&random, 8) / 16;
    if (random_chance(&random, 40)) budgets[1] = peak * (1 + random_below(&random, 4)) / 24;
    return graph;
}

/* For any known plan, no bound may exceed the minimum. */
static void assert_no_more(const mp_graph *graph, const int64_t *budgets, int64_t least, uint64_t seed, int *n_proved)
{
    const int64_t tier_bytes[MP_MAX_TIERS] = {0, budgets[1] < INT64_MAX / 2 ? budgets[1] : 0};
    for (int64_t longer = 0; longer <= least; longer = 2 * longer + 1)
        for (int effort = 0; effort < 2; effort++) {
            mp_bound bound;
            assert_int_equal(mp_copies_bound(graph, budgets[0], tier_bytes, least + longer, effort, &bound, NULL), MP_OK);
            if (bound.ticks > least)
                fail_msg("seed %d: %d ticks, and %d are proved if none takes less than %d", (int)seed, (int)least,
                         (int)bound.ticks, (int)(least + longer));
            *n_proved += bound.ticks == least;
        }
}

static int n_returns(const mp_graph *graph, const mp_plan *plan)
{
    int n = 0;
    for (size_t t = 0; t < plan->n_steps; t++)
        n += graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative].returns;
    return n;
}

/* Statistics over all graphs. */
typedef struct seen {
    int n, n_plans, n_optimal, n_near, n_returns, n_proved;
} seen;

static void look_at(uint64_t seed, const mp_graph *graph, const int64_t *budgets, int64_t least, seen *x)
{
    mp_answer answer;
    mp_error err = {0};
    int64_t below[MP_MAX_TIERS], in_order;
    mp_request request = {.graph = graph, .budget_bytes = budgets[0], .wants_bound = true};
    request.tier_bytes[1] = budgets[1] < INT64_MAX / 2 ? budgets[1] : 0;
    for (int k = 0; k < 2; k++) {
        request.solver = k ? "auto" : "exact";
        const mp_status st = mp_solve(&request, &answer, &err);
        if (!k && st == MP_NOT_APPLICABLE) continue;
        if (st != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        if (!answer.plan != (least < 0))
            fail_msg("seed %d: %s finds %s plan", (int)seed, request.solver, answer.plan ? "a" : "no");
        assert_true(least < 0 || answer.bound.ticks <= least);
        in_order = answer.plan ? 0 : -1;
        for (size_t t = 0; answer.plan && t < answer.plan->n_steps; t++)
            in_order += graph->nodes[answer.plan->steps[t].node].alternatives[answer.plan->steps[t].alternative].ticks;
        if (!k && !mp_graph_has_algorithms(graph)) assert_int_equal(in_order, oracle_ticks(graph, budgets, false, seed));
        if (k && least >= 0) {
            x->n_plans++;
            x->n_optimal += answer.plan->ticks == least;
            x->n_near += answer.plan->ticks * 20 <= least * 21;
            x->n_returns += n_returns(graph, answer.plan);
        }
        for (int m = 0; m < MP_MAX_TIERS; m++) below[m] = INT64_MAX / 2;
        below[0] = answer.floor_bytes - 1;
        if (k) assert_true(oracle_ticks(graph, below, true, seed) < 0);
        mp_answer_free(&answer);
    }
    if (least >= 0) assert_no_more(graph, budgets, least, seed, &x->n_proved);
}

TEST(auto_is_nearly_always_optimal_and_nothing_proves_more)
{
    seen x = {0};
    const int n_graphs = oracle_graphs(GRAPHS); /* 1,000 graphs take some minutes */
    for (uint64_t seed = 1; x.n < n_graphs; seed++) {
        int64_t budgets[MP_MAX_TIERS];
        mp_graph *graph = copied_graph(seed, budgets);
        const int64_t least = graph ? oracle_ticks(graph, budgets, true, seed) : TOO_MANY;
        if (least != TOO_MANY) {
            x.n++;
            look_at(seed, graph, budgets, least, &x);
        }
        mp_graph_free(graph);
    }
    if (x.n_optimal * 100 < x.n_plans * 95 || x.n_near * 100 < x.n_plans * 99)
        fail_msg("of %d plans %d are optimal, %d within a twentieth", x.n_plans, x.n_optimal, x.n_near);
    assert_true(x.n_plans > x.n / 2 && x.n_returns > x.n / 10 && x.n_proved > x.n);
}

/* ---- collectives ---- */

/* True if the oracle permits the node to run on `channel`. The node must have one alternative, write something and add to
 * nothing. It must use no static storage, and read no result of another node of this channel. */
static bool may_communicate(const mp_graph *graph, const mp_node *node, int channel)
{
    const mp_alternative *a = node->alternatives;
    bool may = node->n_alternatives == 1 && !a->n_adds && a->n_writes &&
               (node->phase == MP_PHASE_FORWARD || node->phase == MP_PHASE_BACKWARD);
    for (size_t k = 0; k < a->n_reads; k++) {
        const int producer = graph->producer[a->reads[k]];
        may &= !mp_storage_is_static(&graph->storages[a->reads[k]]);
        may &= producer < 0 || graph->nodes[producer].alternatives->channel != channel;
    }
    for (size_t k = 0; k < a->n_writes; k++) may &= !mp_storage_is_static(&graph->storages[a->writes[k]]);
    return may;
}

/* Returns a random graph of at most 10 nodes, in which up to three nodes run on the channel "network". Like collectives, these
 * nodes may run only once, and take up to 24 ticks each. budgets[0] is between the floor and keep-all. NULL: the graph has more
 * nodes, or none may communicate. */
static mp_graph *collective_graph(uint64_t seed, int64_t *budgets)
{
    random_source random = {seed};
    mp_graph *graph =
        random_graph(seed, 3 + random_below(&random, 2), random_below(&random, 2) ? MP_FUSE_BACKWARD : MP_FUSE_NONE, false);
    int64_t floor_bytes, ticks;
    int node, channel, n = 0;
    assert_int_equal(mp_graph_channel(graph, "network", &channel, NULL), MP_OK);
    for (size_t v = 0; v < graph->n_nodes && graph->n_nodes <= MOST_NODES + 1; v++) {
        mp_node *of = &graph->nodes[v];
        for (size_t f = 0; f < of->n_alternatives; f++) of->alternatives[f].ticks = (of->alternatives[f].ticks + 7) / 8;
        if (n == 3 || !may_communicate(graph, of, channel) || !random_chance(&random, 60)) continue;
        of->alternatives->channel = channel;
        of->alternatives->n_in_place = 0;
        of->alternatives->ticks = 1 + random_below(&random, 24);
        of->flags |= MP_NODE_ONCE;
        n++;
    }
    if (!n) {
        mp_graph_free(graph);
        return NULL;
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    const int64_t peak = keep_all_peak(graph, &ticks);
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    for (int m = 0; m < MP_MAX_TIERS; m++) budgets[m] = INT64_MAX / 2;
    budgets[0] = floor_bytes + (peak - floor_bytes) * random_below(&random, 8) / 16;
    return graph;
}

TEST(auto_hides_recomputation_behind_collectives)
{
    auto_tally x = {0};
    const int n_graphs = oracle_graphs(GRAPHS);
    for (uint64_t seed = 1; x.n < n_graphs; seed++) {
        int64_t budgets[MP_MAX_TIERS];
        mp_graph *graph = collective_graph(seed, budgets);
        const int64_t least = graph ? oracle_ticks(graph, budgets, true, seed) : TOO_MANY;
        if (least != TOO_MANY) tally_auto(&x, graph, budgets[0], least, seed);
        mp_graph_free(graph);
    }
    if (x.n_optimal * 100 < x.n_plans * 95 || x.n_near * 100 < x.n_plans * 97 || x.n_hidden * 20 < x.n_plans)
        fail_msg("of %d plans %d are optimal, %d within a twentieth, %d hide recomputation", x.n_plans, x.n_optimal, x.n_near,
                 x.n_hidden);
}

/* ---- stages ---- */

static const double LOOK_SECONDS = 0.05;
static atomic_long n_looks;

/* Replaces the clock of the shared library. */
double mp_clock_now(void)
{
    return LOOK_SECONDS * (double)atomic_fetch_add(&n_looks, 1);
}

static mp_answer solve(const mp_graph *graph, const char *solver, int64_t budget_bytes)
{
    mp_answer answer = {0};
    mp_error err = {0};
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = solver, .moves = 60};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s: %s", solver, err.message);
    return answer;
}

TEST(without_its_copies_a_graph_is_searched_as_if_it_never_had_any)
{
    int n_differ = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        mp_graph *graph = random_graph(seed, 24, MP_FUSE_NONE, false), *copied = random_graph(seed, 24, MP_FUSE_NONE, false);
        mp_without_copies without_copies = {0};
        offload_all(copied);
        assert_int_equal(mp_graph_without_copies(copied, &without_copies, NULL), MP_OK);
        mp_answer all = solve(graph, "none", MP_NO_LIMIT);
        const int64_t budget = (all.floor_bytes + all.smallest->peak_bytes) / 2;
        mp_answer before = solve(graph, "segments", budget), after = solve(without_copies.graph, "segments", budget);
        assert_int_equal(before.smallest->n_steps, after.smallest->n_steps);
        assert_memory_equal(before.smallest->steps, after.smallest->steps, after.smallest->n_steps * sizeof(mp_step));
        n_differ += before.smallest->n_steps > all.smallest->n_steps;
        mp_answer_free(&before);
        mp_answer_free(&after);
        mp_answer_free(&all);
        mp_without_copies_free(&without_copies);
        mp_graph_free(copied);
        mp_graph_free(graph);
    }
    assert_true(n_differ > 10);
}

/* The last time at which each part of a search reported progress. */
typedef struct ends {
    double choices, plain, copying, all;
} ends;

static bool hear(const mp_progress *progress, void *data)
{
    ends *last = data;
    last->all = LOOK_SECONDS * (double)atomic_load(&n_looks);
    if (!strcmp(progress->solver, "anneal-tensors")) last->choices = last->all;
    if (!strcmp(progress->solver, "copy-only")) last->copying = last->all;
    if (!last->copying) last->plain = last->all;
    return true;
}

/* Each stage ends at a share of the limit. Unused time goes to the next stage, and the last stage gets the rest. */
TEST(the_stages_share_a_time_limit)
{
    const double LIMIT = 100, SLACK = 2;
    int n_choices = 0, n_copying = 0; /* number of stages that were cut off */
    for (uint64_t seed = 1; seed <= 8; seed++) {
        mp_graph *graph = random_graph(seed, 40, MP_FUSE_NONE, false);
        offload_all(graph);
        mp_answer all = solve(graph, "none", MP_NO_LIMIT), answer = {0};
        ends last = {0};
        const mp_request request = {.graph = graph,
                                    .budget_bytes = (all.floor_bytes + all.smallest->peak_bytes) / 2,
                                    .effort = MP_EFFORT_THOROUGH,
                                    .time_limit = LIMIT,
                                    .progress = hear,
                                    .progress_data = &last};
        atomic_store(&n_looks, 0);
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        printf("seed %d: choices %.1f, without copies %.1f, copies alone %.1f, all %.1f\n", (int)seed, last.choices, last.plain,
               last.copying, last.all);
        assert_true(last.choices <= 40 + SLACK && (!last.copying || last.plain <= 40 + SLACK));
        assert_true(last.copying <= 60 + SLACK && last.all <= LIMIT + SLACK);
        n_choices += last.choices > 40 - SLACK;
        n_copying += last.copying > 60 - SLACK && last.all > 60 + SLACK;
        mp_answer_free(&answer);
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    assert_true(n_choices > 0 && n_copying > 0);
}

int main(void)
{
    return test_run(NULL, NULL);
}

/* test_offload_rules.c - the rules of others for copies: what each chooses where the best choice can be told by hand, and that
 * their plans hold on any graph. */
#include <string.h>

#include "memplan/solver.h"
#include "memplan/training.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/random_offload.h"

static const char *const rules[] = {"greedy-offload", "largest-first", "saved-per-second", "copy-only"};
enum { RULES = sizeof rules / sizeof *rules };

enum { LAYERS = 8, BYTES = 100 };

/* The chain of equal layers with copies over a link that takes so many ticks for one of its activations. */
static mp_graph *copied_chain(double ticks)
{
    const mp_link link = {.out_bytes_per_second = BYTES / ticks, .in_bytes_per_second = BYTES / ticks};
    const mp_offload offload = {.host = &link, .least_bytes = 1};
    mp_graph *graph;
    size_t n;
    assert_int_equal(chain_graph(LAYERS, BYTES, 0, true, &graph, NULL), MP_OK);
    assert_int_equal(mp_graph_offload(graph, &offload, &n, NULL), MP_OK);
    assert_true(n >= LAYERS - 1);
    return graph;
}

/* What a plan does beside running every node once. */
typedef struct extras {
    int copied, recomputed;
} extras;

static extras extras_of(const mp_graph *graph, const mp_plan *plan)
{
    extras found = {0};
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_step step = plan->steps[t];
        found.copied += graph->nodes[step.node].alternatives[step.alternative].returns;
        found.recomputed += plan->recompute[t] && !graph->nodes[step.node].alternatives[step.alternative].returns;
    }
    return found;
}

static mp_answer solve(const mp_graph *graph, const char *solver, int64_t budget_bytes)
{
    mp_answer answer = {0};
    mp_error err = {0};
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = solver, .moves = 200};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s: %s", solver, err.message);
    return answer;
}

TEST(copies_that_compute_hides_cost_nothing)
{
    mp_graph *graph = copied_chain(1);
    for (int k = 0; k < RULES; k++) {
        mp_answer answer = solve(graph, rules[k], chain_keep_all_bytes(LAYERS, BYTES, 0) - BYTES);
        assert_non_null(answer.plan);
        const extras found = extras_of(graph, answer.plan);
        assert_true(found.copied >= 1);
        assert_int_equal(found.recomputed, 0);
        if (strcmp(rules[k], "largest-first") != 0) assert_int_equal(answer.plan->ticks, answer.plan->baseline_ticks);
        mp_answer_free(&answer);
    }
    mp_graph_free(graph);
}

/* A copy takes 20 ticks each way, all of the chain some 25, and a layer one. */
TEST(over_a_slow_link_one_rule_waits_and_the_others_compute_again)
{
    mp_graph *graph = copied_chain(20);
    for (int k = 0; k < 3; k++) {
        mp_answer answer = solve(graph, rules[k], chain_keep_all_bytes(LAYERS, BYTES, 0) - BYTES);
        if (!answer.plan)
            fail_msg("%s: %lld of %lld", rules[k], (long long)answer.smallest->peak_bytes,
                     (long long)chain_keep_all_bytes(LAYERS, BYTES, 0));
        const extras found = extras_of(graph, answer.plan);
        const bool waits = !strcmp(rules[k], "largest-first");
        assert_int_equal(found.copied > 0, waits);
        assert_int_equal(found.recomputed > 0, !waits);
        const int64_t extra = answer.plan->ticks - answer.plan->baseline_ticks;
        if (waits) assert_true(extra >= 20);
        if (!waits) assert_true(extra >= 1 && extra <= 4);
        mp_answer_free(&answer);
    }
    mp_graph_free(graph);
}

/* Copies never make it worse: where everything has room nothing is copied, and no plan has a higher peak than without. */
TEST(with_room_for_everything_nothing_is_copied)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        mp_graph *graph = random_graph(seed, 12, MP_FUSE_NONE, false);
        offload_all(graph);
        mp_answer keep = solve(graph, "none", MP_NO_LIMIT);
        const int64_t whole = keep.smallest->peak_bytes;
        for (int k = 0; k <= 4; k++) {
            mp_answer answer = solve(graph, k < RULES ? rules[k] : "auto", k % 2 ? whole : MP_NO_LIMIT);
            assert_non_null(answer.plan);
            assert_true(answer.plan->peak_bytes <= whole && answer.plan->ticks == answer.plan->baseline_ticks);
            assert_int_equal(extras_of(graph, answer.plan).copied, 0);
            assert_true(answer.smallest->peak_bytes <= whole);
            mp_answer_free(&answer);
        }
        mp_answer_free(&keep);
        mp_graph_free(graph);
    }
}

TEST(a_graph_without_copies_is_refused)
{
    mp_graph *graph;
    assert_int_equal(chain_graph(LAYERS, BYTES, 0, true, &graph, NULL), MP_OK);
    for (int k = 0; k < RULES; k++) {
        mp_answer answer = {0};
        mp_error err = {0};
        const mp_request request = {.graph = graph, .budget_bytes = 1000, .solver = rules[k]};
        assert_int_equal(mp_solve(&request, &answer, &err), MP_NOT_APPLICABLE);
        assert_non_null(strstr(err.message, rules[k]));
    }
    mp_graph_free(graph);
}

/* mp_solve has every plan checked. Two of the rules never compute anything again, and auto, which starts from all of them,
 * takes no longer. */
TEST(on_any_graph_their_plans_hold_and_auto_takes_no_longer)
{
    int n_plans = 0, n_copied = 0, n_recomputed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = seed % 2 ? random_copies(seed) : random_graph(seed, 24, (mp_fuse)(seed % 3), seed % 5 == 0);
        if (seed % 2 == 0) offload_all(graph);
        mp_answer keep = solve(graph, "none", MP_NO_LIMIT);
        const int64_t floor_bytes = keep.floor_bytes, whole = keep.smallest->peak_bytes;
        for (int eighth = 1; eighth < 8; eighth += 3) {
            const int64_t budget = floor_bytes + (whole - floor_bytes) * eighth / 8;
            mp_answer all = solve(graph, "auto", budget);
            for (int k = 0; k < RULES; k++) {
                mp_answer answer = solve(graph, rules[k], budget);
                if (answer.plan) {
                    const extras found = extras_of(graph, answer.plan);
                    n_plans++;
                    n_copied += found.copied;
                    n_recomputed += found.recomputed;
                    assert_true(answer.plan->peak_bytes <= budget);
                    if (k == 1 || k == 3) assert_int_equal(found.recomputed, 0);
                    if (!all.plan || all.plan->ticks > answer.plan->ticks)
                        fail_msg("seed %d: %s takes %d ticks, auto %d", (int)seed, rules[k], (int)answer.plan->ticks,
                                 all.plan ? (int)all.plan->ticks : -1);
                }
                mp_answer_free(&answer);
            }
            mp_answer_free(&all);
        }
        mp_answer_free(&keep);
        mp_graph_free(graph);
    }
    assert_true(n_plans > 100 && n_copied > 100 && n_recomputed > 100);
}

int main(void)
{
    return test_run(NULL, NULL);
}

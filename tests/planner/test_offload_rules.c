/* test_offload_rules.c - published rules for copies: their choices in cases with a known best choice, and the validity of their
 * plans on any graph. For chains of cells: the results of POFO's dynamic programme, and of `auto`. */
#include <string.h>

#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/pofo.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/random_offload.h"

static const char *const rules[] = {"cheapest-first", "largest-first",  "saved-per-second",
                                    "copy-only",      "anneal-tensors", "pooled-memory"};
enum { RULES = sizeof rules / sizeof *rules, POOLED = RULES - 1 };

enum { LAYERS = 8, BYTES = 100 };

/* A chain of equal layers with copies over a link; a copy of one activation takes `ticks`. */
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

/* The steps of a plan in addition to one run of every node. */
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
    for (int k = 0; k < POOLED; k++) { /* pooled-memory always recomputes a part */
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

/* A copy takes 20 ticks each way, the whole chain about 25, a layer one. */
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

/* A chain of blocks. Each block keeps `parts` tensors of BYTES in total for its backward, and passes a state on. A copy of all
 * of them takes two and a half times a block's forward. */
static mp_graph *blocks(int n, int parts)
{
    const mp_link link = {.out_bytes_per_second = BYTES / 25., .in_bytes_per_second = BYTES / 25.};
    const mp_offload offload = {.host = &link, .least_bytes = 1};
    mp_graph *graph;
    mp_storage *s;
    mp_node *v;
    assert_int_equal(mp_graph_new("blocks", &graph, NULL), MP_OK);
    const int each = parts + 2; /* storages of block k: its tensors, the state that it reads, and the gradient of that state */
    for (int k = 0; k < (n + 1) * each; k++) {
        const int i = k % each;
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->kind = i == parts + 1 ? MP_KIND_ACTIVATION_GRADIENT : k == parts ? MP_KIND_INPUT : MP_KIND_ACTIVATION;
        s->bytes = s->payload_bytes = i < parts ? (k < n * each ? BYTES / parts : 0) : 4;
        s->name = mp_pool_format(graph->pool, "s%d", k);
    }
    for (int t = 0; t <= 2 * n; t++) {
        const int k = t <= n ? t : 2 * n - t, state = k * each + parts;
        int reads[16] = {t <= n ? state : state + 1 + each, state}, writes[16] = {t < n ? state + each : state + 1};
        size_t n_reads = t <= n ? 1 : 2, n_writes = 1;
        for (int i = 0; i < parts && t != n; i++) *(t < n ? &writes[n_writes++] : &reads[n_reads++]) = k * each + i;
        assert_int_equal(mp_graph_node(graph, &v, NULL), MP_OK);
        v->name = mp_pool_format(graph->pool, "n%d", t);
        v->op = "Block";
        v->phase = t < n ? MP_PHASE_FORWARD : t == n ? MP_PHASE_LOSS : MP_PHASE_BACKWARD;
        v->forward_of = t > n ? k : -1;
        v->alternatives->ticks = t < n ? 10 : t == n ? 1 : 20;
        v->alternatives->n_reads = n_reads;
        v->alternatives->reads = mp_graph_list(graph, reads, n_reads);
        v->alternatives->n_writes = n_writes;
        v->alternatives->writes = mp_graph_list(graph, writes, n_writes);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_graph_offload(graph, &offload, NULL, NULL), MP_OK);
    return graph;
}

/* True if forward, and loss with backward, first run in the order of the list. Copies out have no place there. */
static bool keeps_order(const mp_graph *graph, const mp_plan *plan)
{
    int last[2] = {-1, -1};
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_node *node = &graph->nodes[plan->steps[t].node];
        const bool is_forward = node->phase == MP_PHASE_FORWARD;
        if (plan->recompute[t] || node->phase == MP_PHASE_UPDATE || node->flags & MP_NODE_OPTIONAL) continue;
        if (plan->steps[t].node < last[is_forward]) return false;
        last[is_forward] = plan->steps[t].node;
    }
    return true;
}

/* Copies that run beside compute have to wait for the right steps, also if an order is restored around them. */
TEST(copies_are_planned_in_the_order_of_the_list)
{
    int n_copied = 0, n_issued = 0;
    for (int parts = 1; parts <= 4; parts++)
        for (int room = 250; room <= 550; room += 50) {
            mp_graph *graph = blocks(8, parts);
            mp_answer answer = {0};
            mp_error err = {0};
            const mp_request request = {.graph = graph, .budget_bytes = room, .keep_order = true, .moves = 1000};
            if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%d parts, %d bytes: %s", parts, room, err.message);
            if (answer.plan) {
                assert_int_equal(mp_plan_check(graph, answer.plan, &err), MP_OK);
                assert_true(keeps_order(graph, answer.plan));
                n_copied += extras_of(graph, answer.plan).copied;
                for (size_t t = 0; t < answer.plan->n_steps; t++) n_issued += answer.plan->steps[t].until > 0;
            }
            mp_answer_free(&answer);
            mp_graph_free(graph);
        }
    assert_true(n_copied > 20 && n_issued > 20);
}

/* The host has memory for an eighth of the tensors of the first case, and for a quarter of those of the second case. In the
 * first case pooled-memory is faster than the published rules. In the second case these rules find no plan. */
TEST(with_little_host_memory_pooled_memory_copies_and_recomputes)
{
    static const int64_t budgets[] = {1400, 600}, host_bytes[] = {800, 1600};
    for (int c = 0; c < 2; c++) {
        mp_graph *graph = blocks(64, 1);
        int64_t published = INT64_MAX;
        for (int k = 0; k < RULES; k++) {
            mp_answer answer = {0};
            const mp_request request = {
                .graph = graph, .budget_bytes = budgets[c], .tier_bytes = {0, host_bytes[c]}, .solver = rules[k]};
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            if (k < 3 && answer.plan && answer.plan->ticks < published) published = answer.plan->ticks;
            if (k == POOLED) {
                assert_non_null(answer.plan);
                const extras found = extras_of(graph, answer.plan);
                assert_true(answer.plan->ticks < published);
                assert_true(c > 0 || (found.copied > 0 && found.recomputed > 0));
            }
            mp_answer_free(&answer);
        }
        assert_int_equal(published < INT64_MAX, c == 0);
        mp_graph_free(graph);
    }
}

/* A plan for one tensor must also be found for its four parts, which save memory only together. */
TEST(parts_of_a_block_are_copied_as_well_as_the_whole)
{
    int n_copied = 0;
    for (int room = 250; room <= 550; room += 100) {
        int64_t ticks[2];
        for (int k = 0; k < 2; k++) {
            mp_graph *graph = blocks(8, k ? 4 : 1);
            mp_answer answer = {0};
            const mp_request request = {.graph = graph, .budget_bytes = room};
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_non_null(answer.plan);
            ticks[k] = answer.plan->ticks;
            n_copied += extras_of(graph, answer.plan).copied;
            mp_answer_free(&answer);
            mp_graph_free(graph);
        }
        if (ticks[1] > ticks[0]) fail_msg("%d bytes: %d ticks instead of %d", room, (int)ticks[1], (int)ticks[0]);
    }
    assert_true(n_copied > 20);
}

/* Copies must not make plans worse: if everything fits, nothing is copied, and no plan has a higher peak than without copies.
 */
TEST(with_room_for_everything_nothing_is_copied)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        mp_graph *graph = random_graph(seed, 12, MP_FUSE_NONE, false);
        offload_all(graph);
        mp_answer keep = solve(graph, "none", MP_NO_LIMIT);
        const int64_t whole = keep.smallest->peak_bytes;
        for (int k = 0; k <= RULES; k++) {
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

/* mp_solve checks every plan. Two of the rules never recompute, and auto, which starts from all rules, takes no more ticks. */
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

/* ---- chains of cells ---- */

enum { SEEDS = 3 };

static cells random_cells(uint64_t seed, int n)
{
    random_source r = {seed};
    const int slower = 1 + (int)(seed % 6); /* slowdown relative to the link */
    cells c = {.n = n, .last_gradient_bytes = 1 + random_below(&r, 4)};
    for (int k = 1; k <= n; k++) {
        c.cell[k] = (cell){1 + random_below(&r, 4),
                           random_below(&r, 5) - 1,
                           1 + random_below(&r, 4),
                           1 + random_below(&r, slower),
                           true,
                           true};
        if (c.cell[k].internal_bytes == 0) c.cell[k].internal_bytes = -1;
        c.backward_ticks[k] = 2 * c.cell[k].ticks;
    }
    return c;
}

/* The chain with copies over a link that transfers one byte per tick. */
static mp_graph *copied_cells(const cells *c)
{
    const mp_link link = {.out_bytes_per_second = 1, .in_bytes_per_second = 1};
    mp_graph *graph = cells_graph(c);
    mp_error err = {0};
    if (mp_graph_offload(graph, &(mp_offload){.host = &link, .least_bytes = 1}, NULL, &err) != MP_OK)
        fail_msg("%s", err.message);
    return graph;
}

/* Statistics that compare plans with POFO's predictions. */
typedef struct tally {
    int n, better, beaten, promised_less, copies, recomputed;
    int most_percent; /* maximum of auto's ticks as a percentage of POFO's */
} tally;

static void compare(const mp_graph *graph, const cells *c, int64_t budget, uint64_t seed, tally *sum)
{
    const int64_t room = budget - mp_graph_static_bytes(graph);
    if (room > POFO_BYTES) return;
    pofo *theirs = pofo_solve(c, (int)room, true);
    if (pofo_ticks(theirs) >= 0) {
        mp_error err = {0};
        mp_plan *plan = pofo_plan(theirs, graph);
        const mp_request request = {.graph = graph, .budget_bytes = budget};
        mp_answer ours = {0};
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        if (plan->peak_bytes > budget)
            fail_msg("seed %d: theirs takes %d of %d", (int)seed, (int)plan->peak_bytes, (int)budget);
        if (mp_solve(&request, &ours, &err) != MP_OK) fail_msg("%s", err.message);
        if (!ours.plan) fail_msg("seed %d: there is a plan within %d bytes", (int)seed, (int)budget);
        if (pofo_ticks(theirs) > plan->ticks)
            fail_msg("seed %d: theirs takes %d, less than promised", (int)seed, (int)plan->ticks);
        sum->n++;
        sum->better += ours.plan->ticks < plan->ticks;
        sum->beaten += ours.plan->ticks > plan->ticks;
        sum->promised_less += ours.plan->ticks > pofo_ticks(theirs);
        const int percent = (int)(100 * (ours.plan->ticks - plan->ticks) / plan->ticks);
        if (percent > sum->most_percent) sum->most_percent = percent;
        for (size_t t = 0; t < plan->n_steps; t++) {
            const bool returns = graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative].returns;
            sum->copies += returns;
            sum->recomputed += plan->recompute[t] && !returns;
        }
        mp_answer_free(&ours);
        mp_plan_free(plan);
    }
    pofo_free(theirs);
}

static tally compare_all(int seeds, int least, int most)
{
    tally sum = {0};
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; seed++) {
        const cells c = random_cells(seed, least + (int)(seed % (uint64_t)(most - least + 1)));
        mp_graph *graph = copied_cells(&c);
        mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
        mp_timeline *keep = NULL;
        int64_t floor_bytes;
        int node;
        assert_int_equal(mp_timeline_build(graph, steps, mp_keep_all(graph, steps), &keep, NULL), MP_OK);
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        for (int quarter = 0; quarter < 3; quarter++)
            compare(graph, &c, floor_bytes + (keep->peak_bytes - floor_bytes) * quarter / 4, seed, &sum);
        mp_timeline_free(keep);
        mp_free(steps);
        mp_graph_free(graph);
    }
    return sum;
}

/* Without copies, POFO equals Rotor: never fewer ticks than the best of all schedules, and mostly equal. Rotor keeps a state
 * and an internal value together or not at all. */
TEST(without_copies_it_is_rotor)
{
    int n = 0, n_equal = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const cells c = random_cells(seed, 3 + (int)(seed % 3));
        for (int bytes = 8; bytes < 28; bytes += 3) {
            pofo *p = pofo_solve(&c, bytes, false);
            const int64_t least = oracle_least_ticks(&c, bytes);
            int64_t backward = 0;
            for (int k = 1; k <= c.n; k++) backward += c.backward_ticks[k];
            if (pofo_ticks(p) >= 0) {
                assert_true(least >= 0 && least + backward <= pofo_ticks(p));
                n++;
                n_equal += least + backward == pofo_ticks(p);
            }
            pofo_free(p);
        }
    }
    if (n < 100 || n_equal < n * 3 / 4) fail_msg("%d of %d are the best", n_equal, n);
}

/* 12 seeds and four budgets give 48 plans: auto needs fewer ticks in 25, and POFO predicts fewer ticks than auto needs in 10.
 */
TEST(auto_takes_no_longer_than_pofo)
{
    const tally sum = compare_all(SEEDS, 10, 14);
    if (sum.n < 3 * SEEDS || sum.beaten || sum.better < SEEDS || sum.copies < 10 * SEEDS || sum.recomputed < 4 * SEEDS)
        fail_msg("%d plans: ours takes less in %d and more in %d, theirs promises less in %d; %d copies, %d recomputed", sum.n,
                 sum.better, sum.beaten, sum.promised_less, sum.copies, sum.recomputed);
}

/* Blocks that keep 15 times the state between them, as in a transformer, over a link that hides half a block. POFO copies all
 * states. This gains nothing before there is memory to copy blocks, and takes fewer ticks at two budgets: 318 instead of 334
 * with 34 bytes, 314 instead of 315 with 44. */
TEST(on_large_blocks_auto_comes_near_pofo)
{
    cells c = {.n = 12, .last_gradient_bytes = 1};
    tally sum = {0};
    for (int k = 1; k <= c.n; k++) {
        c.cell[k] = (cell){1, 15, 1, 7, true, true};
        c.backward_ticks[k] = 15;
    }
    mp_graph *graph = copied_cells(&c);
    for (int room = 24; room <= 64; room += 10) compare(graph, &c, room + mp_graph_static_bytes(graph), (uint64_t)room, &sum);
    mp_graph_free(graph);
    if (sum.n != 5 || sum.better < 2 || sum.most_percent > 5)
        fail_msg("%d plans: ours takes less in %d, and at most %d %% more", sum.n, sum.better, sum.most_percent);
}

int main(void)
{
    return test_run(NULL, NULL);
}

/* test_pofo.c - chains of cells with copies: what POFO's dynamic programme finds, and what `auto` does. */
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "tests/cases/test.h"
#include "tests/oracles/pofo.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 3 };

static cells random_cells(uint64_t seed, int n)
{
    random_source r = {seed};
    const int slower = 1 + (int)(seed % 6); /* than the link */
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

/* The chain with copies over a link that takes a tick for each byte. */
static mp_graph *copied_cells(const cells *c)
{
    const mp_link link = {.out_bytes_per_second = 1, .in_bytes_per_second = 1};
    mp_graph *graph = cells_graph(c);
    mp_error err = {0};
    if (mp_graph_offload(graph, &(mp_offload){.host = &link, .least_bytes = 1}, NULL, &err) != MP_OK)
        fail_msg("%s", err.message);
    return graph;
}

/* How plans and what POFO promises compare. */
typedef struct tally {
    int n, better, beaten, promised_less, copies, recomputed;
    int most_percent; /* that ours takes more, of theirs */
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

/* Without copies: never less than the best of all schedules, and mostly that; Rotor keeps a state and an internal value
 * together or not at all. */
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

/* Of 12 seeds and four quarters there are 48 plans: in 25 ours takes less, and in 10 theirs promises less than ours takes. */
TEST(auto_takes_no_longer_than_pofo)
{
    const tally sum = compare_all(SEEDS, 10, 14);
    if (sum.n < 3 * SEEDS || sum.beaten || sum.better < SEEDS || sum.copies < 10 * SEEDS || sum.recomputed < 4 * SEEDS)
        fail_msg("%d plans: ours takes less in %d and more in %d, theirs promises less in %d; %d copies, %d recomputed", sum.n,
                 sum.better, sum.beaten, sum.promised_less, sum.copies, sum.recomputed);
}

/* Blocks that keep 15 times the state between them, as a transformer's do, over a link that hides half a block. Theirs copies
 * all states, which gains nothing before there is room to copy blocks, and takes less in two: 318 ticks instead of 334 with
 * room for 34 bytes, 314 instead of 315 with 44. */
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

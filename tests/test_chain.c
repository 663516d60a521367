/* Chains of blocks: against the classical recurrences, and against all schedules of small chains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "planner/chain.h"
#include "planner/check.h"
#include "planner/floor.h"
#include "tests/chain_graph.h"
#include "tests/chain_oracle.h"
#include "tests/oracle_simulator.h"
#include "tests/random_graph.h"

enum { LONGEST = 64, NEVER = 1 << 20 };

/* ---- the searcher's parts, asked directly ---- */

typedef struct parts {
    const mp_graph *graph;
    int64_t static_bytes;
    mp_boundaries *boundaries;
    mp_chain *chain;
    mp_chain_table *table;
} parts;

/* A block ends after every forward node. */
static parts parts_of(const mp_graph *graph)
{
    parts p = {.graph = graph, .static_bytes = mp_graph_static_bytes(graph)};
    bool *ends = mp_alloc(graph->n_nodes, sizeof *ends);
    for (size_t i = 0; i < graph->n_nodes; i++) ends[i] = true;
    assert_int_equal(mp_boundaries_new(graph, &p.boundaries, NULL), MP_OK);
    assert_int_equal(mp_chain_new(p.boundaries, ends, &p.chain, NULL), MP_OK);
    assert_int_equal(mp_chain_measure(p.chain, NULL), MP_OK);
    assert_int_equal(mp_chain_solve(p.chain, mp_chain_whole_bytes(p.chain), NULL, &p.table, NULL), MP_OK);
    mp_free(ends);
    return p;
}

static void parts_free(parts *p)
{
    mp_chain_table_free(p->table);
    mp_chain_free(p->chain);
    mp_boundaries_free(p->boundaries);
}

/* The ticks of forward beyond the first pass, and the peak without what is always live, of the schedule for `slots`. */
static int64_t recomputed_ticks(const parts *p, int slots, int64_t *live_bytes)
{
    mp_step *steps = NULL;
    size_t n = 0;
    mp_timeline *timeline = NULL;
    int64_t ticks;
    assert_int_equal(mp_chain_schedule(p->table, slots, &steps, &n, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(p->graph, steps, n, &timeline, NULL), MP_OK);
    *live_bytes = timeline->peak_bytes - timeline->static_bytes;
    ticks = timeline->ticks;
    for (size_t i = 0; i < p->graph->n_nodes; i++) ticks -= p->graph->nodes[i].forms[0].ticks;
    mp_timeline_free(timeline);
    mp_free(steps);
    return ticks;
}

/* What mp_solve finds within a budget, as ticks beyond keep-all's; -1: nothing. */
static int64_t solved_ticks(const mp_graph *graph, int64_t budget_bytes)
{
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = "chain"};
    mp_answer answer = {0};
    mp_error err = {0};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = answer.plan ? answer.plan->ticks - answer.plan->baseline_ticks : -1;
    mp_answer_free(&answer);
    return ticks;
}

/* ---- Griewank ---- */

/* Least forward steps before each of n steps has been reversed, with s slots for states, the first one's among them:
 * advance k, store, reverse the rest with a slot less, then the first k. */
static int64_t revolve[LONGEST + 1][LONGEST + 1];

static void fill_revolve(void)
{
    for (int n = 2; n <= LONGEST; n++) revolve[n][0] = NEVER;
    for (int s = 1; s <= LONGEST; s++)
        for (int n = 2; n <= LONGEST; n++) {
            revolve[n][s] = NEVER;
            for (int k = 1; k < n; k++) {
                const int64_t steps = k + revolve[n - k][s - 1] + revolve[k][s];
                if (steps < revolve[n][s]) revolve[n][s] = steps;
            }
        }
}

/* In a chain of n layers that each read the activation before them, layer n runs once more than reversal asks for: the loss
 * reads what it makes. So n layers run revolve[n][s] + 1 times, and again n fewer. Of what backward of a layer needs, its input
 * is in a slot, and two gradients beside: s activations and 2 gradients; the batch, the state that the first slot holds, is
 * always live, and the state that is about to be reversed needs no slot but lies in memory. */
static void homogeneous_chains_reach_the_binomial_optimum(void **state)
{
    (void)state;
    enum { BYTES = 1024, STATIC = 77 };
    fill_revolve();
    assert_int_equal(revolve[10][3], 15); /* from the literature */
    assert_int_equal(revolve[64][1], 64 * 63 / 2);
    for (int n = 2; n <= LONGEST; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, BYTES, STATIC, true, &graph, NULL), MP_OK);
        parts p = parts_of(graph);
        assert_int_equal(p.table->slot_bytes, BYTES);
        assert_int_equal(mp_chain_ticks(p.table, 2), MP_CHAIN_NEVER);
        for (int s = 1; s < n; s++) {
            const int64_t expected = revolve[n][s] + 1 - n;
            int64_t live;
            assert_int_equal(mp_chain_ticks(p.table, s + 2), expected);
            assert_int_equal(recomputed_ticks(&p, s + 2, &live), expected);
            assert_true(live <= (s + 2) * BYTES);
            if (n % 21 == 1 || n < 8) assert_int_equal(solved_ticks(graph, STATIC + (s + 2) * BYTES), expected);
        }
        assert_int_equal(revolve[n][n - 1] + 1 - n, 0);
        parts_free(&p);
        mp_graph_free(graph);
    }
}

/* ---- Gruslys ---- */

/* Forward runs of t cells with room for c states: the published recurrence, with an internal state of `alpha` that makes the
 * run before backward superfluous. */
static int64_t gruslys[LONGEST + 1][LONGEST * 8];

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void fill_gruslys(int alpha, int most)
{
    for (int c = 0; c <= most; c++)
        for (int t = 1; t <= LONGEST; t++) {
            gruslys[t][c] = t == 1 ? 1 : NEVER;
            for (int y = 1; y <= t; y++) {
                if (y < t && c >= 1) gruslys[t][c] = smaller(gruslys[t][c], y + gruslys[t - y][c - 1] + gruslys[y][c]);
                if (c >= alpha) gruslys[t][c] = smaller(gruslys[t][c], y + gruslys[t - y][c - alpha] + gruslys[y - 1][c]);
            }
        }
}

/* The first pass has the gradient's room to itself: its last cell may run without a room for the state before it. */
static int64_t first_pass(int alpha, int most, int t, int c)
{
    static int64_t runs[LONGEST + 1][LONGEST * 8];
    static int filled_alpha, filled_most;
    if (filled_alpha != alpha || filled_most != most)
        for (int d = 0; d <= most; d++)
            for (int u = 1; u <= LONGEST; u++) {
                runs[u][d] = u + (u > 1 ? gruslys[u - 1][d] : 0);
                for (int y = 1; y < u; y++) {
                    if (d >= 1) runs[u][d] = smaller(runs[u][d], y + runs[u - y][d - 1] + gruslys[y][d]);
                    if (d >= alpha) runs[u][d] = smaller(runs[u][d], y + runs[u - y][d - alpha] + gruslys[y - 1][d]);
                }
            }
    filled_alpha = alpha;
    filled_most = most;
    return runs[t][c];
}

static cells equal_cells(int n, int64_t internal_bytes, bool reads_state)
{
    cells c = {.n = n, .last_gradient_bytes = 1};
    for (int k = 1; k <= n; k++) c.cell[k] = (cell){1, internal_bytes, 1, 1, reads_state};
    return c;
}

/* The internal value beside a state is the internal state: alpha units. Forward and backward of one cell take alpha + 1 in all
 * beside the states that are held. */
static void recurrent_chains_reach_the_optimum_with_internal_states(void **state)
{
    (void)state;
    for (int internal = 1; internal <= 5; internal += 2) {
        const int alpha = internal + 1, most = LONGEST * 3;
        fill_gruslys(alpha, most);
        for (int n = 2; n <= LONGEST; n += n < 12 ? 1 : 13) {
            const cells c = equal_cells(n, internal, false);
            mp_graph *graph = cells_graph(&c);
            parts p = parts_of(graph);
            for (int slots = 0; slots <= p.table->n_slots && slots < most; slots++) {
                const int room = slots - (alpha + 1);
                int64_t live;
                if (room < 0 || first_pass(alpha, most, n, room) >= NEVER) {
                    assert_int_equal(mp_chain_ticks(p.table, slots), MP_CHAIN_NEVER);
                    continue;
                }
                const int64_t expected = first_pass(alpha, most, n, room) - n;
                assert_true(expected + n <= gruslys[n][room]);
                assert_int_equal(mp_chain_ticks(p.table, slots), expected);
                assert_int_equal(recomputed_ticks(&p, slots, &live), expected);
                assert_true(live <= slots * p.table->slot_bytes);
                if (slots % 7 == 0) assert_int_equal(solved_ticks(graph, p.static_bytes + slots), expected);
            }
            parts_free(&p);
            mp_graph_free(graph);
        }
    }
}

/* ---- all schedules ---- */

static void equal_cells_take_what_the_best_of_all_schedules_takes(void **state)
{
    (void)state;
    long n_compared = 0;
    for (int kind = 0; kind < 8; kind++) /* no internal value, or one of 1 to 3; backward reads the state before, or not */
        for (int n = 2; n <= 5; n++) {
            const cells c = equal_cells(n, kind / 2 ? kind / 2 : -1, kind % 2 || kind < 2);
            mp_graph *graph = cells_graph(&c);
            parts p = parts_of(graph);
            for (int slots = 0; slots <= p.table->n_slots; slots++) {
                const int64_t least = oracle_least_ticks(&c, slots * p.table->slot_bytes);
                const int64_t found = mp_chain_ticks(p.table, slots);
                if (found != (least < 0 ? MP_CHAIN_NEVER : least - n))
                    fail_msg("kind %d, %d cells, %d slots: %lld, and %lld for the best of all", kind, n, slots,
                             (long long)found, (long long)least - n);
                n_compared += least >= 0;
            }
            parts_free(&p);
            mp_graph_free(graph);
        }
    assert_true(n_compared > 100);
}

/* Never less memory than is needed, never fewer ticks than any schedule needs, and rarely more. */
static void unequal_cells_come_close_to_the_best_of_all_schedules(void **state)
{
    (void)state;
    int n_best = 0, n_compared = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        random_source source = {seed};
        cells c = {.n = 2 + (int)(seed % 4), .last_gradient_bytes = 1 + random_below(&source, 9)};
        for (int k = 1; k <= c.n; k++)
            c.cell[k] = (cell){1 + random_below(&source, 9), random_below(&source, 12) - 1, 1 + random_below(&source, 9),
                               1 + random_below(&source, 9), random_chance(&source, 50)};
        mp_graph *graph = cells_graph(&c);
        parts p = parts_of(graph);
        int64_t forward = 0;
        for (int k = 1; k <= c.n; k++) forward += c.cell[k].ticks;
        for (int slots = 0; slots <= p.table->n_slots; slots += 1 + p.table->n_slots / 12) {
            const int64_t found = mp_chain_ticks(p.table, slots);
            const int64_t least = oracle_least_ticks(&c, slots * p.table->slot_bytes);
            if (least < 0) assert_int_equal(found, MP_CHAIN_NEVER);
            if (least < 0) continue;
            int64_t live;
            n_compared++;
            n_best += found == least - forward;
            if (found == MP_CHAIN_NEVER) continue;
            assert_true(found >= least - forward);
            assert_int_equal(recomputed_ticks(&p, slots, &live), found);
            assert_true(live <= slots * p.table->slot_bytes);
        }
        parts_free(&p);
        mp_graph_free(graph);
    }
    print_message("%d of %d\n", n_best, n_compared);
    assert_true(n_compared > 200 && n_best * 100 > n_compared * 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(homogeneous_chains_reach_the_binomial_optimum),
        cmocka_unit_test(recurrent_chains_reach_the_optimum_with_internal_states),
        cmocka_unit_test(equal_cells_take_what_the_best_of_all_schedules_takes),
        cmocka_unit_test(unequal_cells_come_close_to_the_best_of_all_schedules),
    };
    return cmocka_run_group_tests_name("planner/chain", tests, NULL, NULL);
}

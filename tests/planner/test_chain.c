/* test_chain.c - the searcher for chains of blocks, compared with recurrences from the literature and with all schedules of
 * small chains. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "planner/chain/chain.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/chain_oracle.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

enum { LONGEST = 64, NEVER = 1 << 20 };

/* ---- the searcher's parts, called directly ---- */

typedef struct parts {
    const mp_graph *graph;
    int64_t static_bytes;
    mp_boundaries *boundaries;
    mp_chain *chain;
    mp_chain_table *table;
} parts;

/* A block ends after every forward node, or, with a random source, after some of them. */
static parts parts_of(const mp_graph *graph, random_source *source)
{
    parts p = {.graph = graph, .static_bytes = mp_graph_static_bytes(graph)};
    bool *ends = mp_alloc(graph->n_nodes, sizeof *ends);
    for (size_t i = 0; i < graph->n_nodes; i++) ends[i] = !source || random_chance(source, 30);
    assert_int_equal(mp_boundaries_new(graph, &p.boundaries, NULL), MP_OK);
    assert_int_equal(mp_chain_new(p.boundaries, ends, &p.chain, NULL), MP_OK);
    assert_int_equal(mp_chain_measure(p.chain, NULL), MP_OK);
    assert_int_equal(mp_chain_solve(p.chain, 1, NULL, &p.table, NULL), MP_OK);
    mp_free(ends);
    return p;
}

static void parts_free(parts *p)
{
    mp_chain_table_free(p->table);
    mp_chain_free(p->chain);
    mp_boundaries_free(p->boundaries);
}

/* Returns the forward ticks beyond the first pass of the schedule for `slots`; *live_bytes: its peak without persistent
 * storages. */
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
    for (size_t i = 0; i < p->graph->n_nodes; i++) ticks -= p->graph->nodes[i].alternatives[0].ticks;
    mp_timeline_free(timeline);
    mp_free(steps);
    return ticks;
}

/* Returns the ticks beyond keep-all of the plan found by mp_solve within a budget; -1: none. */
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

/* Minimum number of forward steps before each of n steps has been reversed, with s slots for states, including the first state.
 * Recurrence: advance k steps, store, reverse the rest with one slot less, then reverse the first k. */
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

/* In a chain of n layers, each layer reads the previous activation, and the loss reads the output of layer n. Layer n therefore
 * runs once more than reversal requires: the total is revolve[n][s] + 1 runs, of which n are first runs. Backward of a layer
 * needs its input, which is in a slot, and two gradients: s activations and 2 gradients. The first slot holds the batch, which
 * is always live. The state about to be reversed needs no slot. */
TEST(homogeneous_chains_reach_the_binomial_optimum)
{
    enum { BYTES = 1024, STATIC = 77 };
    fill_revolve();
    assert_int_equal(revolve[10][3], 15); /* a value from the literature */
    assert_int_equal(revolve[64][1], 64 * 63 / 2);
    for (int n = 2; n <= LONGEST; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, BYTES, STATIC, true, &graph, NULL), MP_OK);
        parts p = parts_of(graph, NULL);
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

enum { ROOMS = 400 };

/* Number of forward runs of t cells with memory for c states, after Gruslys et al., "mixed storage". The state before the first
 * cell, and the internal state of one cell at a time, have memory of their own. A stored internal state takes the memory of
 * `alpha` states, and avoids the run of its cell before backward. */
static int64_t gruslys[LONGEST + 1][ROOMS];

static void fill_gruslys(int alpha)
{
    for (int c = 0; c < ROOMS; c++)
        for (int t = 1; t <= LONGEST; t++) {
            int64_t least = c == 0 ? t * (t + 1) / 2 : t == 1 ? 1 : NEVER;
            for (int y = 1; y <= t && c > 0; y++) {
                const int64_t hidden = y < t ? y + gruslys[t - y][c - 1] + gruslys[y][c] : NEVER;
                const int64_t internal = c >= alpha ? y + gruslys[t - y][c - alpha] + gruslys[y - 1][c] : NEVER;
                if (hidden < least) least = hidden;
                if (internal < least) least = internal;
            }
            gruslys[t][c] = least;
        }
}

/* Backward reads the state before each cell (bit 0 of `reads`) or after it (bit 1). */
static cells equal_cells(int n, int64_t internal_bytes, int reads)
{
    cells c = {.n = n, .last_gradient_bytes = 1};
    for (int k = 1; k <= n; k++) c.cell[k] = (cell){1, internal_bytes, 1, 1, reads & 1, reads & 2};
    return c;
}

/* The internal state consists of the internal value and of the state after the cell, which backward reads. Backward of a cell
 * needs at least this state and two gradients. Forward, with the gradient in memory, needs as much. */
TEST(recurrent_chains_reach_the_optimum_with_internal_states)
{
    for (int internal = 1; internal <= 5; internal += 2) {
        const int alpha = internal + 1;
        fill_gruslys(alpha);
        for (int n = 2; n <= LONGEST; n += n < 10 ? 1 : 18) {
            const cells c = equal_cells(n, internal, 2);
            mp_graph *graph = cells_graph(&c);
            parts p = parts_of(graph, NULL);
            assert_int_equal(p.table->slot_bytes, 1);
            assert_int_equal(mp_chain_ticks(p.table, alpha + 1), MP_CHAIN_NEVER);
            for (int c0 = 0; alpha + 2 + c0 <= p.table->n_slots; c0++) {
                const int64_t expected = gruslys[n][c0] - n;
                const int slots = alpha + 2 + c0;
                int64_t live;
                if (mp_chain_ticks(p.table, slots) != expected)
                    fail_msg("alpha %d, %d cells, room %d: %lld runs, not %lld", alpha, n, c0,
                             (long long)mp_chain_ticks(p.table, slots), (long long)expected);
                assert_int_equal(recomputed_ticks(&p, slots, &live), expected);
                assert_true(live <= slots);
                if (slots % 17 == 0) assert_int_equal(solved_ticks(graph, p.static_bytes + slots), expected);
            }
            parts_free(&p);
            mp_graph_free(graph);
        }
    }
}

/* ---- all schedules ---- */

/* The searcher for chains finds nested schedules only. If backward reads the state before a cell, an optimal schedule may
 * instead hold the other inputs of backward and recompute that state. */
TEST(equal_cells_take_what_the_best_of_all_schedules_takes)
{
    long n_compared = 0, n_more = 0;
    for (int internal = -1; internal <= 3; internal++)
        for (int reads = internal <= 0; reads <= 3;
             reads++) /* without an internal value, backward must read at least one state */
            for (int n = 2; n <= 5; n++) {
                const cells c = equal_cells(n, internal, reads);
                mp_graph *graph = cells_graph(&c);
                parts p = parts_of(graph, NULL);
                for (int slots = 0; slots <= p.table->n_slots; slots++) {
                    const int64_t least = oracle_least_ticks(&c, slots * p.table->slot_bytes);
                    const int64_t expected = least < 0 ? MP_CHAIN_NEVER : least - n, found = mp_chain_ticks(p.table, slots);
                    n_compared += least >= 0;
                    if (found == expected) continue;
                    n_more++;
                    if (found < expected || !(reads & 1) || (internal < 0 && reads == 1))
                        fail_msg("internal %d, reads %d, %d cells, %d slots: %lld, and %lld for the best of all", internal,
                                 reads, n, slots, (long long)found, (long long)expected);
                }
                parts_free(&p);
                mp_graph_free(graph);
            }
    assert_true(n_compared > 100 && n_more * 10 < n_compared);
}

/* The searcher never needs less memory or fewer ticks than the best of all schedules, and rarely more. */
TEST(unequal_cells_come_close_to_the_best_of_all_schedules)
{
    int n_best = 0, n_compared = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        random_source source = {seed};
        cells c = {.n = 2 + (int)(seed % 4), .last_gradient_bytes = 1 + random_below(&source, 9)};
        for (int k = 1; k <= c.n; k++)
            c.cell[k] = (cell){1 + random_below(&source, 9), random_below(&source, 12) - 1, 1 + random_below(&source, 9),
                               1 + random_below(&source, 9), random_chance(&source, 50),    random_chance(&source, 30)};
        mp_graph *graph = cells_graph(&c);
        parts p = parts_of(graph, NULL);
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
    assert_true(n_compared > 200 && n_best * 100 > n_compared * 80);
}

/* ---- graphs of any kind ---- */

/* For any division of a graph into blocks, the table's memory and time must not be below the timeline's, and the schedule must
 * be complete. */
TEST(any_blocks_take_what_the_table_says)
{
    int n_schedules = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        random_source source = {seed};
        mp_graph *graph = random_graph(seed, 3 + (int)(seed % 21), (mp_fuse)(seed % 3), false);
        parts p = parts_of(graph, &source);
        for (int slots = 0; slots <= p.table->n_slots; slots += 1 + p.table->n_slots / 25) {
            const int64_t ticks = mp_chain_ticks(p.table, slots);
            int64_t live;
            mp_step *steps;
            size_t n;
            mp_plan *plan;
            mp_error err = {0};
            if (ticks == MP_CHAIN_NEVER) continue;
            assert_int_equal(recomputed_ticks(&p, slots, &live), ticks);
            if (live > slots * p.table->slot_bytes)
                fail_msg("seed %llu, %d slots of %lld bytes: %lld bytes", (unsigned long long)seed, slots,
                         (long long)p.table->slot_bytes, (long long)live);
            assert_int_equal(mp_chain_schedule(p.table, slots, &steps, &n, NULL), MP_OK);
            assert_int_equal(mp_plan_new(graph, "chain", steps, n, &plan, NULL), MP_OK);
            if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
            mp_plan_free(plan);
            mp_free(steps);
            n_schedules++;
        }
        parts_free(&p);
        mp_graph_free(graph);
    }
    assert_true(n_schedules > 1000);
}

/* ---- ends of blocks ---- */

/* Cells of two nodes with two outputs, of 8 and 1 bytes: u_k from u_(k-1) and v_(k-1), then v_k from u_k and v_(k-1). With
 * `skip`, the last cell also reads the first u. Backward is one node. */
static mp_graph *pairs_graph(int n, bool skip)
{
    mp_graph *graph = NULL;
    mp_error err = {0};
    mp_storage *s;
    mp_node *node;
    int reads[4];
    assert_int_equal(mp_graph_new("pairs", &graph, NULL), MP_OK);
    for (int i = 0; i <= 2 * n + 2; i++) { /* u_0, v_0, u_1, v_1, .., and a gradient */
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->name = "";
        s->kind = i < 2 ? MP_KIND_INPUT : i < 2 * n + 2 ? MP_KIND_ACTIVATION : MP_KIND_ACTIVATION_GRADIENT;
        s->bytes = s->payload_bytes = i % 2 ? 1 : 8;
    }
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = MP_KIND_PARAMETER;
    s->name = "";
    for (int i = 0; i <= 2 * n; i++) {
        size_t n_reads = 0;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        const int made = i + 2;
        node->name = node->op = "";
        node->forward_of = -1;
        node->phase = i < 2 * n ? MP_PHASE_FORWARD : MP_PHASE_BACKWARD;
        node->alternatives[0].ticks = 1;
        reads[n_reads++] = 2 * n + 3;
        for (int r = i < 2 * n ? i : i + 1; r < made; r++) reads[n_reads++] = r;
        if (skip && i == 2 * n - 2) reads[n_reads++] = 2;
        node->alternatives[0].reads = mp_graph_list(graph, reads, node->alternatives[0].n_reads = n_reads);
        node->alternatives[0].writes = mp_graph_list(graph, &made, node->alternatives[0].n_writes = 1);
    }
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

TEST(blocks_end_where_all_that_crosses_is_new)
{
    enum { N = 40 };
    for (int skip = 0; skip < 2; skip++) {
        mp_graph *graph = pairs_graph(N, skip);
        mp_boundaries *boundaries;
        mp_chain *chain;
        bool ends[2 * N];
        int n_ends;
        assert_int_equal(mp_boundaries_new(graph, &boundaries, NULL), MP_OK);
        assert_int_equal(mp_chain_ends(boundaries, MP_CHAIN_CUTS, ends, &n_ends, NULL), MP_OK);
        assert_true(n_ends <= 1);
        assert_int_equal(mp_chain_ends(boundaries, MP_CHAIN_SEAMS, ends, &n_ends, NULL), MP_OK);
        assert_true(n_ends >= N - 2); /* a block ends after each pair, except at both ends of the chain */
        assert_int_equal(mp_chain_new(boundaries, ends, &chain, NULL), MP_OK);
        for (int k = 2; k + 2 < chain->n; k++) assert_int_equal(chain->blocks[k].output_bytes, 9);
        assert_int_equal(chain->pinned[2], skip);
        mp_chain_free(chain);
        mp_boundaries_free(boundaries);
        mp_graph_free(graph);
    }
}

TEST(long_chains_are_cut_into_few_blocks)
{
    enum { N = 1000, BYTES = 100 };
    mp_graph *graph;
    assert_int_equal(chain_graph(N, BYTES, 0, true, &graph, NULL), MP_OK);
    mp_boundaries *boundaries;
    bool *ends = mp_alloc(graph->n_nodes, sizeof *ends);
    for (int cut = 0; cut < MP_N_CHAIN_CUTS; cut++) {
        int n_ends, n = 0;
        assert_int_equal(mp_boundaries_new(graph, &boundaries, NULL), MP_OK);
        assert_int_equal(mp_chain_ends(boundaries, (mp_chain_cut)cut, ends, &n_ends, NULL), MP_OK);
        for (int p = 0; p < N; p++) n += ends[p];
        assert_int_equal(n, n_ends);
        assert_true(n_ends > MP_CHAIN_BLOCKS / 2 && n_ends < MP_CHAIN_BLOCKS && !ends[N - 1]);
        mp_boundaries_free(boundaries);
    }
    mp_free(ends);
    const int64_t half = solved_ticks(graph, chain_keep_all_bytes(N, BYTES, 0) / 2);
    assert_true(half > 0 && half < N); /* each layer is recomputed at most once */
    mp_graph_free(graph);
}

TEST(what_is_no_chain_is_refused)
{
    mp_graph *graph;
    mp_answer answer = {0};
    assert_int_equal(chain_graph(9, 1, 0, false, &graph, NULL), MP_OK); /* no backward */
    mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "chain"};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_NOT_APPLICABLE);
    mp_graph_free(graph);
    assert_int_equal(chain_graph(1, 1, 0, true, &graph, NULL), MP_OK); /* a single block */
    request.graph = graph;
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_NOT_APPLICABLE);
    mp_graph_free(graph);
}

/* ---- the searcher ---- */

TEST(more_room_never_costs_more)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_source source = {seed};
        cells c = {.n = 30, .last_gradient_bytes = 3};
        for (int k = 1; k <= c.n; k++)
            c.cell[k] = (cell){1 + random_below(&source, 9),
                               random_below(&source, 12) - 1,
                               1 + random_below(&source, 9),
                               1 + random_below(&source, 9),
                               true,
                               false};
        mp_graph *graph = cells_graph(&c);
        for (int64_t moves = 3; moves < 1000; moves *= 17) {
            int64_t before = INT64_MAX;
            for (int64_t budget = 30; budget < 400; budget += 13) {
                const mp_request request = {.graph = graph, .budget_bytes = budget, .solver = "chain", .moves = moves};
                mp_answer answer = {0};
                assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
                const int64_t ticks = answer.plan ? answer.plan->ticks : INT64_MAX;
                assert_true(ticks <= before);
                before = ticks;
                mp_answer_free(&answer);
            }
            assert_true(before < INT64_MAX);
        }
        mp_graph_free(graph);
    }
}

static bool stop_now(const mp_progress *progress, void *data)
{
    (void)progress;
    (void)data;
    return false;
}

TEST(stopped_search_keeps_what_it_has)
{
    mp_graph *graph;
    assert_int_equal(chain_graph(1000, 1, 0, true, &graph, NULL), MP_OK);
    const mp_request request = {
        .graph = graph, .budget_bytes = 10, .solver = "chain", .time_limit = 1e-9, .progress = stop_now};
    mp_answer answer = {0};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_true(answer.stopped && !answer.plan);
    assert_int_equal(answer.smallest->ticks, answer.smallest->baseline_ticks);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

TEST(every_allocation_failure_is_reported)
{
    const cells c = equal_cells(4, 2, 1);
    mp_graph *graph = cells_graph(&c);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        const mp_request request = {.graph = graph, .budget_bytes = 20, .solver = "chain", .moves = 5};
        mp_answer answer = {0};
        mp_error err = {0};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        if (st != MP_OK) assert_true(err.message[0] != '\0');
        mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}

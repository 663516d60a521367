/* test_runs.c - the incremental timeline against a timeline built from scratch: equal ticks, and equal bytes at every step,
 * after every change. Undoing a change leaves no trace. */
#include "memplan/makespan.h"
#include "planner/anneal/mover.h"
#include "planner/anneal/runs/runs.h"
#include "planner/order/order.h"
#include "planner/order/updates.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

/* Compares the ticks, the bytes at every run, and the total of bytes over the budget. */
static void assert_agrees(const mp_runs *x)
{
    const mp_graph *g = x->graph;
    mp_error err = {0};
    mp_step *order = mp_alloc((size_t)x->n_on + 1, sizeof *order), *steps;
    mp_timeline *timeline;
    size_t n = mp_runs_steps(x, order), n_steps;
    int64_t over = 0, ticks = mp_runs_ticks(x), at_end = 0, makespan;
    assert_false(x->failed);
    assert_int_equal(n, x->n_on - x->n_issued);
    if (mp_updates_place(g, order, n, &steps, &n_steps, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_timeline_build(g, steps, n_steps, &timeline, &err) != MP_OK) fail_msg("%s", err.message);
    int position = -1;
    for (size_t t = 0; t < n_steps; t++) {
        if (g->nodes[steps[t].node].phase == MP_PHASE_UPDATE) {
            ticks += g->nodes[steps[t].node].alternatives[0].ticks;
            if (timeline->live_bytes[t] > at_end) at_end = timeline->live_bytes[t];
            continue;
        }
        do position++;
        while (x->run_at[position] < 0 || x->runs[x->run_at[position]].is_wait);
        assert_int_equal(x->runs[x->run_at[position]].node, steps[t].node);
        for (size_t m = 0; m < g->n_tiers; m++) {
            if (!x->has_limit[m]) continue;
            const int64_t excess = mp_profile_excess(x->profile + m, position);
            assert_int_equal(excess + x->limit[m], m ? timeline->tiers[m].live_bytes[t] : timeline->live_bytes[t]);
            if (excess > 0) over += excess;
        }
    }
    assert_int_equal(mp_makespan(g, order, n, NULL, &makespan, &err), MP_OK);
    assert_int_equal(mp_runs_ticks(x), makespan);
    if (!g->has_copies) assert_int_equal(ticks, timeline->ticks);
    const int64_t end = mp_profile_excess(x->profile, x->runs[x->end].position);
    if (g->fuse == MP_FUSE_NONE) assert_true(end + x->limit[0] >= at_end); /* no update has more live bytes than the end */
    if (end > 0) over += end;
    if (!x->n_issued) assert_int_equal(over, mp_runs_over(x)); /* a wait counts the excess at its position a second time */
    mp_timeline_free(timeline);
    mp_free(order);
    mp_free(steps);
}

static int any_run(const mp_runs *x, random_source *random)
{
    for (;;) {
        const int run = random_below(random, x->n_runs);
        if (x->runs[run].position >= 0) return run;
    }
}

/* Makes one random change, if it is permitted. */
static void change(mp_runs *x, random_source *random)
{
    const mp_graph *g = x->graph;
    const int run = any_run(x, random), before = any_run(x, random), node = x->runs[run].node;
    if (run == x->end || run == before) return;
    if (random_chance(random, 30)) {
        if (mp_runs_can_spare(x, run)) mp_runs_remove(x, run);
        return;
    }
    if (random_chance(random, 20)) {
        const int other = random_below(random, (int)g->nodes[node].n_alternatives);
        if (!mp_runs_can_change(x, run, other)) return;
        const int there = mp_runs_reserve(x, node, other, run);
        assert_true(there >= 0);
        mp_runs_remove(x, run);
        mp_runs_turn_on(x, there);
        return;
    }
    const bool moves = random_chance(random, 40);
    if (!moves && (g->nodes[node].phase != MP_PHASE_FORWARD || g->nodes[node].flags & MP_NODE_ONCE)) return;
    const int alternative = random_below(random, (int)g->nodes[node].n_alternatives),
              there = mp_runs_reserve(x, node, alternative, before);
    assert_true(there >= 0);
    const int kept = moves ? x->runs[run].alternative : alternative;
    if (!mp_runs_allows(x, node, kept, x->runs[there].position, moves ? run : -1)) {
        mp_runs_remove(x, there);
        return;
    }
    if (!moves) {
        mp_runs_turn_on(x, there);
        return;
    }
    mp_runs_remove(x, there);
    mp_runs_remove(x, run);
    mp_runs_turn_on(x, mp_runs_reserve(x, node, kept, before));
}

TEST(every_change_is_what_the_timeline_makes_of_it)
{
    for (uint64_t seed = 1; seed <= 240; seed++) {
        mp_graph *g = random_graph(seed, 2 + (int)(seed % 19), (mp_fuse)(seed % 3), false);
        random_source random = {seed};
        size_t n;
        mp_step *steps = random_schedule(g, seed, 8, &n);
        mp_error err = {0};
        mp_runs *x;
        assert_int_equal(mp_runs_new(g, mp_graph_static_bytes(g) + random_below(&random, 400), NULL, steps, n, &x, &err),
                         MP_OK);
        assert_agrees(x);
        for (int k = 0; k < 60; k++) {
            const int64_t ticks = x->ticks, over = x->profile->total_over;
            const int n_on = x->n_on;
            for (int c = random_below(&random, 4); c >= 0; c--) change(x, &random);
            if (random_chance(&random, 50)) {
                mp_runs_undo(x);
                assert_int_equal(x->ticks, ticks);
                assert_int_equal(x->profile->total_over, over);
                assert_int_equal(x->n_on, n_on);
            }
            mp_runs_keep(x);
            if (random_chance(&random, 5)) mp_runs_spread(x);
            assert_agrees(x);
        }
        mp_runs_free(x);
        mp_free(steps);
        mp_graph_free(g);
    }
}

/* Counts of moves that changed the number of runs, their alternatives, or only the order of first runs. */
typedef struct tally {
    int more, fewer, alternatives, orders, refused;
} tally;

static int64_t sum_of_alternatives(const mp_runs *x)
{
    int64_t sum = 0;
    for (int k = 0; k < x->n_runs; k++) sum += x->runs[k].is_on ? x->runs[k].alternative : 0;
    return sum;
}

static void walk_at_random(uint64_t seed, tally *t)
{
    const bool keeps_order = seed % 4 == 0;
    mp_graph *g = random_graph(seed, 4 + (int)(seed % 21), (mp_fuse)(seed % 3), false);
    random_source random = {seed};
    size_t n;
    mp_step *steps = random_schedule(g, seed, 8, &n);
    mp_error err = {0};
    mp_runs *x;
    mp_mover mover;
    bool is_kept = false, was_kept = false;
    assert_int_equal(mp_order_is_kept(g, steps, n, &was_kept, &err), MP_OK);
    assert_int_equal(mp_runs_new(g, mp_graph_static_bytes(g) + random_below(&random, 400), NULL, steps, n, &x, &err), MP_OK);
    assert_int_equal(mp_mover_new(x, seed, keeps_order, &mover, &err), MP_OK);
    mp_step *order = mp_alloc(4096, sizeof *order);
    for (int k = 0; k < 150; k++) {
        const int64_t ticks = x->ticks, over = x->profile->total_over, alternatives = sum_of_alternatives(x);
        const int n_on = x->n_on;
        const bool done = mp_move(&mover, INT64_MAX);
        if (!done || random_chance(&random, 40)) {
            t->refused += !done;
            mp_runs_undo(x);
            assert_int_equal(x->ticks, ticks);
            assert_int_equal(x->profile->total_over, over);
            assert_int_equal(x->n_on, n_on);
        } else {
            t->more += x->n_on > n_on;
            t->fewer += x->n_on < n_on;
            t->alternatives += x->n_on == n_on && sum_of_alternatives(x) != alternatives;
            t->orders += x->n_on == n_on && sum_of_alternatives(x) == alternatives;
        }
        mp_runs_keep(x);
        assert_agrees(x);
        assert_in_range(x->n_on, 1, 4095);
        if (!keeps_order) continue;
        assert_int_equal(mp_order_is_kept(g, order, mp_runs_steps(x, order), &is_kept, &err), MP_OK);
        assert_int_equal(is_kept, was_kept);
    }
    mp_free(order);
    mp_mover_free(&mover);
    mp_runs_free(x);
    mp_free(steps);
    mp_graph_free(g);
}

TEST(every_move_is_what_the_timeline_makes_of_it)
{
    tally t = {0};
    for (uint64_t seed = 1; seed <= 240; seed++) walk_at_random(seed, &t);
    assert_in_range(t.more, 1000, 36000);
    assert_in_range(t.fewer, 1000, 36000);
    assert_in_range(t.alternatives, 100, 36000);
    assert_in_range(t.orders, 1000, 36000);
    assert_in_range(t.refused, 1000, 36000);
}

/* Repeats a given move and undoes it. Returns its ticks; -1: the move is refused. */
static int64_t move_again(mp_runs *x, mp_mover *mover, uint64_t random, int64_t most_ticks)
{
    mover->random = random;
    const bool done = mp_move(mover, most_ticks);
    const int64_t ticks = done ? x->ticks : -1;
    mp_runs_undo(x);
    mp_runs_keep(x);
    return ticks;
}

TEST(moves_that_come_to_too_much_are_refused)
{
    int n_refused = 0, n_early = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *g = random_graph(seed, 4 + (int)(seed % 21), (mp_fuse)(seed % 3), false);
        random_source random = {seed};
        size_t n;
        mp_step *steps = random_schedule(g, seed, 8, &n);
        mp_error err = {0};
        mp_runs *x;
        mp_mover mover;
        assert_int_equal(mp_runs_new(g, mp_graph_static_bytes(g) + random_below(&random, 400), NULL, steps, n, &x, &err),
                         MP_OK);
        assert_int_equal(mp_mover_new(x, seed, false, &mover, &err), MP_OK);
        for (uint64_t k = 0; k < 200; k++) {
            const int64_t most = x->ticks + random_below(&random, 20);
            for (int n_runs = 0; n_runs < x->n_runs;) { /* repeat until a move leaves as many runs as it found */
                n_runs = x->n_runs;
                move_again(x, &mover, k, INT64_MAX);
            }
            const int64_t freely = move_again(x, &mover, k, INT64_MAX), ticks = move_again(x, &mover, k, most);
            assert_agrees(x);
            if (ticks >= 0) assert_int_equal(ticks, freely);
            n_refused += ticks < 0 && freely > most;
            n_early +=
                ticks < 0 && freely >= 0 && freely <= most; /* the move was refused early, before it would have dropped a run */
        }
        mp_mover_free(&mover);
        mp_runs_free(x);
        mp_free(steps);
        mp_graph_free(g);
    }
    assert_in_range(n_refused, 1000, 12000);
    assert_in_range(n_early, 0, n_refused / 20);
}

/* Inserts every run before the same one, so that no empty position remains beside it. */
static void crowd(uint64_t seed)
{
    mp_graph *g = random_graph(seed, 12, (mp_fuse)(seed % 3), false);
    random_source random = {seed};
    size_t n;
    mp_step *steps = random_schedule(g, seed, 4, &n);
    mp_error err = {0};
    mp_runs *x;
    assert_int_equal(mp_runs_new(g, INT64_C(1) << 40, NULL, steps, n, &x, &err), MP_OK);
    int before = any_run(x, &random);
    for (int k = 0, tried = 0; k < 100 && tried < 1000; tried++) {
        const int run = any_run(x, &random), node = x->runs[run].node;
        if (run == x->end || g->nodes[node].phase != MP_PHASE_FORWARD || g->nodes[node].flags & MP_NODE_ONCE) continue;
        const int there = mp_runs_reserve(x, node, x->runs[run].alternative, before);
        assert_true(there >= 0);
        if (mp_runs_allows(x, node, x->runs[run].alternative, x->runs[there].position, -1)) {
            mp_runs_turn_on(x, there);
            k++;
        } else {
            mp_runs_remove(x, there);
        }
        if (tried % 100 == 0) assert_agrees(x);
    }
    assert_true(x->n_shifted > 0);
    assert_agrees(x);
    mp_runs_undo(x);
    assert_agrees(x);
    mp_runs_spread(x);
    assert_agrees(x);
    mp_runs_free(x);
    mp_free(steps);
    mp_graph_free(g);
}

TEST(room_is_made_where_there_is_none)
{
    for (uint64_t seed = 1; seed <= 60; seed++) crowd(seed);
}

/* Node 0 adds to a static gradient, and node 1 reads it. */
TEST(a_reader_of_a_static_sum_stays_behind_the_nodes_that_add_to_it)
{
    mp_graph *g;
    mp_node *adder, *reader;
    mp_storage *storage;
    mp_runs *x;
    const int gradient = 0, result = 1;
    assert_int_equal(mp_graph_new("sum", &g, NULL), MP_OK);
    assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
    storage->kind = MP_KIND_GRADIENT;
    storage->persistent = true;
    assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
    storage->kind = MP_KIND_ACTIVATION_GRADIENT;
    assert_int_equal(mp_graph_node(g, &adder, NULL), MP_OK);
    adder->phase = MP_PHASE_BACKWARD;
    assert_non_null(adder->alternatives[0].adds = mp_graph_list(g, &gradient, 1));
    adder->alternatives[0].n_adds = 1;
    assert_int_equal(mp_graph_node(g, &reader, NULL), MP_OK);
    reader->phase = MP_PHASE_BACKWARD;
    assert_non_null(reader->alternatives[0].reads = mp_graph_list(g, &gradient, 1));
    assert_non_null(reader->alternatives[0].writes = mp_graph_list(g, &result, 1));
    reader->alternatives[0].n_reads = reader->alternatives[0].n_writes = 1;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_int_equal(mp_runs_new(g, INT64_MAX / 2, NULL, (mp_step[]){{.node = 0}, {.node = 1}}, 2, &x, NULL), MP_OK);
    const int added = x->runs[x->of_node[0].runs[0]].position, run = x->of_node[1].runs[0];
    assert_true(mp_runs_allows(x, 1, 0, added + 1, run));
    assert_false(mp_runs_allows(x, 1, 0, added - 1, run));
    mp_runs_free(x);
    mp_graph_free(g);
}

/* A node splits x into n tensors, or joins n tensors into y. Each pair could share memory, and one does. Checking n^2 pairs
 * would take minutes. */
TEST(one_of_very_many_pairs)
{
    enum { N = 150000 };
    for (int joins = 0; joins < 2; joins++) {
        mp_graph *g;
        mp_node *node;
        mp_storage *storage;
        mp_runs *x;
        int many[N], one = N;
        assert_int_equal(mp_graph_new("pairs", &g, NULL), MP_OK);
        for (int s = 0; s <= N; s++) {
            assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
            storage->bytes = storage->payload_bytes = 8;
            storage->kind = MP_KIND_ACTIVATION;
            if (s < N) many[s] = s;
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
            mp_alternative *f = &node->alternatives[0];
            const bool has_many = (i == 1) != joins;
            f->ticks = 1;
            f->n_writes = has_many ? N : 1;
            assert_non_null(f->writes = mp_graph_list(g, has_many ? many : &one, f->n_writes));
            if (!i) continue;
            f->n_reads = joins ? N : 1;
            assert_non_null(f->reads = mp_graph_list(g, joins ? many : &one, f->n_reads));
            f->n_in_place = N;
            assert_non_null(f->in_place = mp_pool_alloc(g->pool, N, sizeof *f->in_place));
            for (int k = 0; k < N; k++) f->in_place[k] = joins ? (mp_in_place){k, one} : (mp_in_place){one, k};
        }
        assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
        assert_int_equal(mp_runs_new(g, INT64_MAX / 2, NULL, (mp_step[]){{.node = 0}, {.node = 1}}, 2, &x, NULL), MP_OK);
        assert_int_equal(x->runs[x->n_runs - 1].in_place_bytes, 8);
        assert_agrees(x);
        mp_runs_free(x);
        mp_graph_free(g);
    }
}

/* True if these runs count more or less than the timeline. They omit in-place pairs of issued runs and of other tiers, and
 * copies of gradients from the previous training step. */
static bool counts_otherwise(const mp_graph *g)
{
    bool any = false;
    for (size_t v = 0; v < g->n_nodes; v++)
        for (size_t f = 0; f < g->nodes[v].n_alternatives; f++) {
            const mp_alternative *a = &g->nodes[v].alternatives[f];
            for (size_t k = 0; k < a->n_in_place; k++) any |= a->channel || g->storages[a->in_place[k].to].tier;
            for (size_t k = 0; k < a->n_reads && g->nodes[v].flags & MP_NODE_OPTIONAL; k++)
                any |= g->storages[a->reads[k]].carried;
        }
    return any;
}

/* Finds by a scan the first position before which compute runs for `ticks` (or the last position), and compares. */
static void assert_reaches(const mp_runs *x, int64_t ticks)
{
    int64_t sum = 0;
    int at = 0;
    for (; at < x->profile->n_positions - 1 && sum < ticks; at++) {
        const int run = x->run_at[at];
        if (run >= 0 && x->runs[run].is_on && x->runs[run].mate < 0) sum += x->runs[run].does->ticks;
    }
    assert_int_equal(mp_runs_reach(x, ticks), at);
}

/* For orders with copies: the loaded order, each move and each undo must agree with the timeline, which validates the order
 * after each move, and with the makespan. */
static void move_copies(const mp_graph *g, const mp_step *steps, size_t n, uint64_t seed, int *n_issued, int *n_moved)
{
    mp_timeline *timeline;
    mp_mover mover;
    mp_runs *x;
    if (mp_timeline_build(g, steps, n, &timeline, NULL) != MP_OK) return;
    const int64_t host[MP_MAX_TIERS] = {0, timeline->tiers[1].peak_bytes * (int64_t)(seed % 2)};
    assert_int_equal(mp_runs_new(g, timeline->peak_bytes * 3 / 4, host, steps, n, &x, NULL), MP_OK);
    assert_agrees(x);
    assert_int_equal(mp_mover_new(x, seed, false, &mover, NULL), MP_OK);
    for (int m = 0; m < 60; m++) {
        if (mp_move(&mover, INT64_MAX)) {
            assert_agrees(x);
            ++*n_moved;
            *n_issued += x->n_issued;
            if (m % 3) mp_runs_keep(x);
        }
        mp_runs_undo(x);
        mp_runs_keep(x);
        assert_agrees(x);
        if (m % 20 == 0) mp_runs_spread(x);
        for (int sixth = 0; g->has_copies && sixth <= 7; sixth++) assert_reaches(x, x->ticks * sixth / 6);
    }
    mp_mover_free(&mover);
    mp_runs_free(x);
    mp_timeline_free(timeline);
}

TEST(copies_agree_with_the_timeline)
{
    int n_issued = 0, n_moved = 0;
    for (uint64_t seed = 0; seed < 1275; seed++) {
        mp_graph *g = random_copies(seed);
        for (uint64_t order = 0; order < 4 && !counts_otherwise(g); order++) {
            size_t n;
            mp_step *steps = random_copies_schedule(g, seed, order, &n);
            move_copies(g, steps, n, 4 * seed + order, &n_issued, &n_moved);
            mp_free(steps);
        }
        mp_graph_free(g);
    }
    assert_true(n_issued > 100000 && n_moved > 30000);
}

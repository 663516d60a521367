/* test_move_clear.c - moves that clear a position: they change only the order, undoing them leaves no trace, and they reduce
 * memory when many tensors are live at once. */
#include "planner/anneal/mover.h"
#include "planner/anneal/runs/runs.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { STRANDS = 6, LARGE = 100, NODES = 4 * STRANDS + 1, MANY = 15 /* more than the moves that are tried at once */ };

static int storage(mp_graph *g, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    s->name = mp_pool_format(g->pool, "s%zu", g->n_storages);
    return (int)g->n_storages - 1;
}

static int node(mp_graph *g, const int *reads, size_t n_reads, int64_t bytes)
{
    mp_node *n;
    const int written = storage(g, MP_KIND_ACTIVATION, bytes);
    assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
    n->name = mp_pool_format(g->pool, "n%zu", g->n_nodes);
    n->op = "Layer";
    n->forward_of = -1;
    n->alternatives->ticks = 1;
    n->alternatives->n_reads = n_reads;
    n->alternatives->reads = mp_graph_list(g, reads, n_reads);
    n->alternatives->n_writes = 1;
    n->alternatives->writes = mp_graph_list(g, &written, 1);
    return written;
}

/* Every strand has a large output that is read early, and once more together with a late tensor. In the initial order all
 * strands advance together, so all large outputs are live at once. One strand after the other needs only one of them. */
static mp_graph *strands(void)
{
    mp_graph *g;
    int x, large[STRANDS], late[STRANDS], ends[2 * STRANDS];
    assert_int_equal(mp_graph_new("strands", &g, NULL), MP_OK);
    x = storage(g, MP_KIND_INPUT, 0);
    for (int k = 0; k < STRANDS; k++) large[k] = node(g, &x, 1, LARGE);
    for (int k = 0; k < STRANDS; k++) ends[k] = node(g, &large[k], 1, 1);
    for (int k = 0; k < STRANDS; k++) late[k] = node(g, &x, 1, 1);
    for (int k = 0; k < STRANDS; k++) ends[STRANDS + k] = node(g, (const int[]){large[k], late[k]}, 2, 1);
    node(g, ends, 2 * STRANDS, 1);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

/* Returns the number of random moves from list order after which nothing exceeds the budget. */
static int count_solving(mp_graph *g, int64_t budget)
{
    int n = 0;
    mp_runs *x;
    mp_mover mover;
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    for (int k = 0; k < (int)g->n_nodes; k++) steps[k].node = k;
    assert_int_equal(mp_runs_new(g, budget, NULL, steps, g->n_nodes, &x, NULL), MP_OK);
    assert_int_equal(mp_mover_new(x, 1, false, &mover, NULL), MP_OK);
    assert_true(x->profile->total_over > 0);
    for (int k = 0; k < 2000; k++) {
        n += mp_move_clear(&mover) && x->profile->total_over == 0;
        mp_runs_undo(x);
        mp_runs_keep(x);
    }
    mp_mover_free(&mover);
    mp_runs_free(x);
    mp_free(steps);
    return n;
}

/* Two large outputs. The first is needed before the second and after it. Its last reader must move before the second output,
 * together with the reader's other inputs. Too many nodes read either output to delay them instead. */
TEST(what_reads_takes_along_what_it_needs)
{
    mp_graph *g;
    int ends[2 * MANY + 1], n = 0;
    assert_int_equal(mp_graph_new("advance", &g, NULL), MP_OK);
    const int x = storage(g, MP_KIND_INPUT, 0), first = node(g, &x, 1, LARGE);
    for (int k = 0; k < MANY; k++) ends[n++] = node(g, &first, 1, 1);
    const int second = node(g, &x, 1, LARGE);
    for (int k = 0; k < MANY; k++) ends[n++] = node(g, &second, 1, 1);
    const int late = node(g, &x, 1, 1);
    ends[n++] = node(g, (const int[]){first, late}, 2, 1);
    node(g, ends, (size_t)n, 1);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_in_range(count_solving(g, LARGE + LARGE / 2), 1, 1999);
    mp_graph_free(g);
}

/* The second output is needed only briefly. Too many nodes read the first one later to move them all before it. */
static int count_delays(bool is_read_early)
{
    mp_graph *g;
    int ends[MANY + 2], n = 0;
    assert_int_equal(mp_graph_new("delay", &g, NULL), MP_OK);
    const int x = storage(g, MP_KIND_INPUT, 0), first = node(g, &x, 1, LARGE);
    if (is_read_early) ends[n++] = node(g, &first, 1, 1);
    const int second = node(g, &x, 1, LARGE);
    ends[n++] = node(g, &second, 1, 1);
    for (int k = 0; k < MANY; k++) ends[n++] = node(g, &first, 1, 1);
    node(g, ends, (size_t)n, 1);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    n = count_solving(g, LARGE + LARGE / 2);
    mp_graph_free(g);
    return n;
}

TEST(what_is_made_later_takes_along_what_reads_it)
{
    assert_in_range(count_delays(true), 1, 1999);
    assert_in_range(count_delays(false), 300, 1999); /* mostly solved by moving one run */
}

TEST(they_lead_out_of_a_crowd)
{
    mp_graph *g = strands();
    mp_step steps[NODES] = {0};
    for (int k = 0; k < NODES; k++) steps[k].node = k;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mp_runs *x;
        mp_mover mover;
        assert_int_equal(mp_runs_new(g, LARGE + 3 * STRANDS, NULL, steps, NODES, &x, NULL), MP_OK);
        assert_int_equal(mp_mover_new(x, seed, false, &mover, NULL), MP_OK);
        assert_true(x->profile->total_over > 0);
        for (int k = 0; k < 2000 && x->profile->total_over > 0; k++) {
            const int64_t over = x->profile->total_over;
            if (!mp_move_clear(&mover) || x->profile->total_over > over) mp_runs_undo(x);
            mp_runs_keep(x);
            assert_int_equal(x->ticks, NODES);
            assert_int_equal(x->n_on, NODES);
            assert_true(x->profile->total_over <= over);
        }
        assert_int_equal(x->profile->total_over, 0);
        mp_mover_free(&mover);
        mp_runs_free(x);
    }
    mp_graph_free(g);
}

/* Returns the bytes over the budget in the current order, by the timeline, which also validates the order. */
static int64_t over_of(const mp_runs *x, mp_step *order)
{
    const mp_graph *g = x->graph;
    const size_t n = mp_runs_steps(x, order);
    mp_error err = {0};
    mp_timeline *timeline;
    int64_t over = 0;
    if (mp_timeline_build(g, order, n, &timeline, &err) != MP_OK) fail_msg("%s", err.message);
    for (size_t t = 0; t < n; t++)
        if (timeline->live_bytes[t] > x->limit[0]) over += timeline->live_bytes[t] - x->limit[0];
    mp_timeline_free(timeline);
    return over;
}

TEST(only_the_order_changes)
{
    int n_done = 0, n_refused = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        mp_graph *g = random_graph(seed, 4 + (int)(seed % 21), MP_FUSE_NONE, true);
        random_source random = {seed};
        size_t n;
        mp_step *steps = random_schedule(g, seed, 8, &n);
        mp_step *before = mp_alloc(n, sizeof *before), *after = mp_alloc(n, sizeof *after);
        mp_runs *x;
        mp_mover mover;
        assert_int_equal(mp_runs_new(g, mp_graph_static_bytes(g) + random_below(&random, 400), NULL, steps, n, &x, NULL),
                         MP_OK);
        assert_int_equal(mp_mover_new(x, seed, false, &mover, NULL), MP_OK);
        for (int k = 0; k < 100; k++) {
            const int64_t ticks = x->ticks;
            assert_int_equal(over_of(x, before), x->profile->total_over);
            const bool done = mp_move_clear(&mover);
            n_done += done;
            n_refused += !done;
            if (done) {
                assert_int_equal(x->ticks, ticks);
                assert_int_equal(x->n_on, n);
            }
            if (!done || random_chance(&random, 40)) {
                mp_runs_undo(x);
                mp_runs_steps(x, after);
                assert_memory_equal(before, after, n * sizeof *before);
            }
            mp_runs_keep(x);
        }
        mp_mover_free(&mover);
        mp_runs_free(x);
        mp_free(before);
        mp_free(after);
        mp_free(steps);
        mp_graph_free(g);
    }
    assert_in_range(n_done, 1000, 12000);
    assert_in_range(n_refused, 1000, 12000);
}

/* test_precedence.c - planner/order/precedence against its definitions, and on graphs in which one storage has so many uses
 * that scanning all uses for each of them would take many minutes; list order kept and restored. */
#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "planner/math/bits.h"
#include "planner/order/order.h"
#include "planner/order/precedence.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 150 };

static bool names(const mp_alternative *x, char list, int s)
{
    return list == 'r'   ? mp_list_has(x->reads, x->n_reads, s)
           : list == 'w' ? mp_list_has(x->writes, x->n_writes, s)
                         : mp_list_has(x->adds, x->n_adds, s);
}

static bool always(const mp_graph *graph, int node, char list, int s)
{
    bool all = true;
    for (size_t k = 0; k < graph->nodes[node].n_alternatives; k++) all &= names(&graph->nodes[node].alternatives[k], list, s);
    return all;
}

static void check_always(const mp_precedence *o)
{
    const mp_graph *graph = o->graph;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        bool in_turn = !graph->storages[s].any_sum_order;
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            assert_int_equal(mp_always_writes(o, i, s), always(graph, i, 'w', s));
            assert_int_equal(mp_always_reads(o, i, s), always(graph, i, 'r', s) && !mp_storage_is_static(&graph->storages[s]));
            if (names(&graph->nodes[i].alternatives[0], 'a', s) && !always(graph, i, 'a', s)) in_turn = false;
        }
        assert_int_equal(mp_adds_in_turn(o, s), in_turn);
    }
}

static bool has(const int *list, int n, int node)
{
    return mp_list_has(list, (size_t)n, node);
}

/* Checks each node by definition. A node certainly writes a storage that cannot be recomputed if every alternative writes or
 * adds to it, and certainly uses it if every alternative reads or adds to it. The producer of a storage that dies at the end of
 * the step counts in any case, because otherwise no plan could read it. */
static void check_lives(const mp_precedence *o)
{
    const mp_graph *graph = o->graph;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        const mp_certain_life life = mp_certain_life_of(o, s);
        const bool is_fixed = mp_storage_is_static(storage), is_skipped = is_fixed || o->recomputable[s];
        assert_int_equal(life.stays, storage->carried || is_fixed);
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            const mp_node *node = &graph->nodes[i];
            const bool once = node->phase != MP_PHASE_FORWARD || (node->flags & MP_NODE_ONCE);
            const bool makes = always(graph, i, 'a', s) || (once && always(graph, i, 'w', s)) ||
                               (once && !storage->carried && graph->producer[s] == i);
            const bool uses = always(graph, i, 'a', s) || always(graph, i, 'r', s);
            assert_int_equal(has(life.makers, life.n_makers, i), makes && !is_skipped);
            assert_int_equal(has(life.users, life.n_users, i), uses && !is_skipped);
        }
    }
}

/* Marks all vertices that a chain of pairs connects to `from`. */
static void reach(const mp_precedence *o, int from, bool *reached)
{
    for (int v = 0; v < o->n; v++) reached[v] = v == from;
    for (bool grows = true; grows;) {
        grows = false;
        for (size_t k = 0; k < o->n_pairs; k++)
            if (reached[o->pair_from[k]] && !reached[o->pair_to[k]]) grows = reached[o->pair_to[k]] = true;
    }
}

TEST(sets_and_lists_are_as_defined)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 3 + (int)(seed % 12), (mp_fuse)(seed % MP_N_FUSES), seed % 5 == 0);
        mp_precedence *o;
        bool reached[256];
        assert_int_equal(mp_precedence_new(graph, seed % 2, &o, NULL), MP_OK);
        assert_true(o->n <= 256);
        check_always(o);
        check_lives(o);
        for (int u = 0; u < o->n; u++) {
            reach(o, u, reached);
            for (int v = 0; v < o->n; v++) {
                assert_int_equal(mp_bits_has(mp_precedence_descendants(o, u), v), u != v && reached[v]);
                assert_int_equal(mp_bits_has(mp_precedence_ancestors(o, v), u), u != v && reached[v]);
            }
        }
        mp_precedence_free(o);
        mp_graph_free(graph);
    }
}

/* A loss; n backward nodes that each turn their own tensor into a term of one sum, the first one in place; and one or n readers
 * of the sum. */
static mp_graph *wide_sum(int n, int n_readers, bool any_order)
{
    mp_graph *graph;
    mp_storage *storage;
    mp_node *node;
    assert_int_equal(mp_graph_new("wide", &graph, NULL), MP_OK);
    for (int s = 0; s <= n; s++) {
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->kind = s ? MP_KIND_ACTIVATION : MP_KIND_ACTIVATION_GRADIENT;
        storage->bytes = storage->payload_bytes = 8;
        storage->any_sum_order = any_order && !s;
    }
    for (int i = 0; i < 2 * n + n_readers; i++) {
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        mp_alternative *x = &node->alternatives[0];
        node->phase = i < n ? MP_PHASE_FORWARD : MP_PHASE_BACKWARD;
        x->ticks = 1;
        int **list = i < n ? &x->writes : &x->reads;
        const int of = i < n ? i + 1 : i < 2 * n ? i - n + 1 : 0;
        assert_non_null(*list = mp_graph_list(graph, &of, 1));
        *(i < n ? &x->n_writes : &x->n_reads) = 1;
        if (i < n || i >= 2 * n) continue;
        assert_non_null(x->adds = mp_graph_list(graph, &(int){0}, 1));
        x->n_adds = 1;
        assert_non_null(x->in_place = mp_pool_alloc(graph->pool, 1, sizeof *x->in_place));
        x->in_place[0] = (mp_in_place){i - n + 1, 0};
        x->n_in_place = 1;
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

/* All n tensors are kept for backward. The floor consists of one of them and the sum. */
TEST(a_sum_of_very_many_parts_takes_no_time)
{
    const struct {
        int n, n_readers;
        bool any_order;
    } rows[] = {{200000, 1, false}, {200000, 1, true}, {30000, 30000, false}, {30000, 30000, true}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        mp_graph *graph = wide_sum(rows[k].n, rows[k].n_readers, rows[k].any_order);
        mp_answer answer = {0};
        const mp_request request = {.graph = graph,
                                    .budget_bytes = 8 * (int64_t)rows[k].n,
                                    .solver = "lagrange",
                                    .effort = MP_EFFORT_QUICK,
                                    .moves = 1};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        assert_int_equal(answer.floor_bytes, rows[k].any_order ? 8 : 16);
        mp_answer_free(&answer);
        mp_graph_free(graph);
    }
}

/* By definition: no node of a group has its first run before the first run of an earlier node in the list. */
static bool keeps_order(const mp_graph *graph, const mp_step *steps, size_t n, bool forward)
{
    int last = -1;
    for (size_t t = 0; t < n; t++) {
        const mp_phase phase = graph->nodes[steps[t].node].phase;
        bool first = true;
        for (size_t u = 0; u < t; u++) first = first && steps[u].node != steps[t].node;
        if (!first || phase == MP_PHASE_UPDATE || (phase == MP_PHASE_FORWARD) != forward) continue;
        if (steps[t].node < last) return false;
        last = steps[t].node;
    }
    return true;
}

TEST(the_order_is_restored_by_more_runs)
{
    int n_broken = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 15), (mp_fuse)(seed % 3), seed % 5 == 0);
        size_t n, n_restored;
        mp_step *steps = random_schedule(graph, seed, 6, &n), *restored;
        mp_timeline *timeline;
        mp_error err = {0};
        bool is_kept;
        const bool forward = keeps_order(graph, steps, n, true), backward = keeps_order(graph, steps, n, false);
        assert_int_equal(mp_order_is_kept(graph, steps, n, &is_kept, NULL), MP_OK);
        assert_int_equal(is_kept, forward && backward);
        assert_int_equal(mp_order_restore(graph, steps, n, &restored, &n_restored, NULL), MP_OK);
        assert_true(keeps_order(graph, restored, n_restored, true));
        assert_int_equal(keeps_order(graph, restored, n_restored, false), backward);
        if (forward) assert_int_equal(n_restored, n);
        if (mp_timeline_build(graph, restored, n_restored, &timeline, &err) != MP_OK) fail_msg("%s", err.message);
        n_broken += !forward;
        mp_timeline_free(timeline);
        mp_free(steps);
        mp_free(restored);
        mp_graph_free(graph);
    }
    if (n_broken <= 20) fail_msg("only %d orders to restore", n_broken);
    assert_int_equal(mp_alloc_live, 0);
}

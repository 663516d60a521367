/* test_host_slab.c - the slab, which is the host memory for the copies of one run of a plan. */
#include "estimator/base/memory.h"
#include "memplan/planning.h"
#include "tests/cases/test.h"

enum { LAYERS = 8, SKIPPED = 5, MOST_STEPS = 128, GRAIN = 512 };

/* Returns a chain of layers with activations of random sizes. Backward reads every second activation. The others are read by a
 * later layer of forward. The loss node has the flag "turn". */
static mp_planning *copying_chain(uint64_t seed)
{
    static const char *const forward_kind = "activation", *const backward_kind = "activation_gradient";
    int a[LAYERS + 1], g[LAYERS + 1];
    char name[16];
    mp_planning *p = mp_planning_new("chain", 1e-9);
    for (int k = 0; k <= LAYERS; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        snprintf(name, sizeof name, "a%d", k);
        a[k] = mp_planning_add_storage(p, name, k ? forward_kind : "input", 300 + (int64_t)(seed >> 33) % 2500);
        g[k] = mp_planning_add_storage(p, name, backward_kind, 100);
    }
    for (int k = 1; k <= LAYERS; k++) {
        const int f = mp_planning_add_node(p, "f", "Layer", "forward", 100000 + (int64_t)(seed >> 40) % 999 * k, 0);
        const bool skips = k > SKIPPED && k % 2;
        assert_int_equal(mp_planning_connect(p, f, "reads", (const int[]){a[k - 1], a[skips ? k - SKIPPED : 0]}, 1 + skips),
                         MP_OK);
        assert_int_equal(mp_planning_connect(p, f, "writes", &a[k], 1), MP_OK);
    }
    const int loss = mp_planning_add_node(p, "loss", "Loss", "loss", 1, 0);
    assert_int_equal(mp_planning_connect(p, loss, "reads", &a[LAYERS], 1), MP_OK);
    assert_int_equal(mp_planning_connect(p, loss, "writes", &g[LAYERS], 1), MP_OK);
    assert_int_equal(mp_planning_flag(p, loss, "turn"), MP_OK);
    for (int k = LAYERS; k > 0; k--) {
        const int b = mp_planning_add_node(p, "b", "Layer", "backward", 200000, 0);
        assert_int_equal(mp_planning_connect(p, b, "reads", (const int[]){g[k], a[k]}, 1 + k % 2), MP_OK);
        assert_int_equal(mp_planning_connect(p, b, "writes", &g[k - 1], 1), MP_OK);
    }
    assert_int_equal(mp_planning_finish(p), MP_OK);
    for (int k = 1; k <= LAYERS; k++) a[k - 1] = a[k];
    if (mp_planning_offload(p, a, LAYERS, "pcie4", 1e10) != MP_OK) fail_msg("%s", mp_planning_message(p));
    return p;
}

typedef struct slab_item {
    int64_t begin, end, bytes, offset;
} slab_item;

static bool meet(const slab_item *a, const slab_item *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Returns the lowest height over all orders of placement, in which each item gets its lowest free offset. Such an order of an
 * optimal layout, from the bottom up, finds its height. */
static int64_t lowest_slab(slab_item *items, int n, int placed, int64_t height, int64_t best)
{
    if (height >= best || placed == n) return height;
    for (int k = placed; k < n; k++) {
        slab_item next = items[k];
        items[k] = items[placed];
        next.offset = 0;
        for (int j = 0; j < placed; j++) {
            const slab_item *other = &items[j];
            if (!meet(&next, other) || next.offset + next.bytes <= other->offset || other->offset + other->bytes <= next.offset)
                continue;
            next.offset = other->offset + other->bytes;
            j = -1; /* the items below have to be compared again */
        }
        items[placed] = next;
        const int64_t top = next.offset + next.bytes;
        const int64_t found = lowest_slab(items, n, placed + 1, top > height ? top : height, best);
        if (found < best) best = found;
        items[placed] = items[k];
        items[k] = next;
    }
    return best;
}

/* Lists the time in the slab of each storage that the plan copies out and back. Checks that offsets exist for these only. */
static int slab_items(mp_planning *p, slab_item *items)
{
    int nodes[MOST_STEPS], storages[MOST_STEPS], until[MOST_STEPS], turn = 0, count = 0;
    int64_t offsets[MOST_STEPS];
    const int n = (int)mp_planning_steps(p, nodes, MOST_STEPS);
    assert_in_range(n, 1, MOST_STEPS);
    assert_int_equal(mp_planning_copies(p, storages, until, MOST_STEPS), n);
    assert_int_equal(mp_planning_offsets(p, offsets, MOST_STEPS), n);
    while (nodes[turn] != LAYERS) turn++;
    for (int out = 0; out < n; out++) {
        int64_t end = 0;
        if (storages[out] < 0) assert_int_equal(offsets[out], -1);
        if (storages[out] < 0 || nodes[out] < 2 * LAYERS + 1) continue; /* no copy out */
        for (int t = out + 1; t < n; t++) {
            if (storages[t] != storages[out]) continue;
            assert_int_equal(offsets[t], offsets[out]);
            const int64_t stop = t < turn ? (until[t] < turn ? until[t] : turn) : out < turn ? n : until[t];
            if (stop > end) end = stop;
        }
        assert_int_equal(offsets[out] >= 0, end > 0);
        if (!end) continue;
        const int64_t bytes = (mp_planning_graph(p)->storages[storages[out]].bytes + GRAIN - 1) / GRAIN * GRAIN;
        items[count++] = (slab_item){out, end, bytes, offsets[out]};
    }
    return count;
}

TEST(a_slab_holds_the_copies_of_a_plan_and_has_the_least_height)
{
    int n_copying = 0, n_again = 0, n_shared = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mp_planning *p = copying_chain(seed);
        slab_item items[MOST_STEPS];
        char text[32];
        const int64_t keep_all = mp_planning_number(p, "keep_all_bytes"), most = GRAIN * (2 + (int64_t)seed % 14);
        const int64_t budget = keep_all * (60 + (int64_t)seed % 30) / 100;
        snprintf(text, sizeof text, "%lld", (long long)most);
        assert_int_equal(mp_planning_set(p, "moves", "2000"), MP_OK);
        assert_int_equal(mp_planning_set(p, "bound", "no"), MP_OK);
        assert_int_equal(mp_planning_set(p, "host_bytes", text), MP_OK);
        for (int with_slab = 0; with_slab < 2; with_slab++) {
            if (with_slab) assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
            if (mp_planning_solve(p, budget) != MP_OK) continue;
            const int64_t slab = mp_planning_number(p, "slab_bytes");
            const int n = slab_items(p, items);
            int64_t top = 0, sum = 0;
            for (int k = 0; k < n; k++) {
                assert_int_equal(items[k].offset % GRAIN, 0);
                sum += items[k].bytes;
                if (items[k].offset + items[k].bytes > top) top = items[k].offset + items[k].bytes;
                for (int j = 0; j < k; j++)
                    assert_true(!meet(&items[k], &items[j]) || items[k].offset + items[k].bytes <= items[j].offset ||
                                items[j].offset + items[j].bytes <= items[k].offset);
            }
            assert_int_equal(slab, top);
            assert_int_equal(slab, lowest_slab(items, n, 0, 0, INT64_MAX));
            if (with_slab && slab > most)
                fail_msg("seed %llu: a slab of %lld bytes", (unsigned long long)seed, (long long)slab);
            n_again += !with_slab && slab > most;
            n_copying += with_slab && n > 0;
            n_shared += sum > slab;
        }
        mp_planning_free(p);
    }
    printf("%d plans copy, %d needed another search, %d share memory\n", n_copying, n_again, n_shared);
    assert_true(n_copying > 30 && n_again > 3 && n_shared > 3);
    assert_int_equal(mp_alloc_live, 0);
}

/* Returns the step that copies storage s out or back. */
static mp_step copy_step(const mp_graph *graph, int s, mp_copy_way way, int until)
{
    for (int v = 0; v < (int)graph->n_nodes; v++)
        for (int k = 0; k < (int)graph->nodes[v].n_alternatives; k++) {
            const mp_alternative *a = &graph->nodes[v].alternatives[k];
            if (mp_copy_way_of(graph, v, k) != way) continue;
            if ((way == MP_COPY_OUT ? a->reads : a->writes)[0] == s) return (mp_step){v, k, until};
        }
    fail_msg("no copy of storage %d", s);
    return (mp_step){0};
}

/* Lists keep-all of copying_chain with the activations a7 and a1 copied out and back. a7 is copied out in forward, and back
 * before node `back`; if n_ahead > 0, step n_ahead after it waits for this copy. Then a1 is copied out, and back for the last
 * node. */
static int copy_two(const mp_graph *graph, int back, int n_ahead, mp_step *steps)
{
    enum { A1 = 2, A7 = 14 };
    int n = 0;
    for (int v = 0; v <= 2 * LAYERS; v++) {
        if (v == LAYERS - 1) steps[n++] = copy_step(graph, A7, MP_COPY_OUT, 0);
        if (v == back) steps[n] = copy_step(graph, A7, MP_COPY_IN, n_ahead ? n + n_ahead : 0), n++;
        if (v == back + 1) steps[n++] = copy_step(graph, A1, MP_COPY_OUT, 0);
        if (v == 2 * LAYERS) steps[n++] = copy_step(graph, A1, MP_COPY_IN, 0);
        steps[n++] = (mp_step){.node = v};
    }
    return n;
}

/* a1 has 1263 bytes, three grains. a7 has 2205 bytes, five grains. A copy back of a7 in backward keeps its place until the end,
 * beside a1. A copy back that begins in forward ends at the turn, so a1 takes its place. */
TEST(a_slab_keeps_a_place_of_forward_until_the_turn_or_the_end)
{
    static const struct {
        int back, n_ahead;
        int64_t slab_bytes;
    } cases[] = {{LAYERS + 2, 0, 8 * GRAIN}, {LAYERS, 4, 5 * GRAIN}};
    for (int k = 0; k < 2; k++) {
        mp_planning *p = copying_chain(3);
        mp_step steps[MOST_STEPS];
        mp_plan *plan;
        mp_error err = {0};
        const int n = copy_two(mp_planning_graph(p), cases[k].back, cases[k].n_ahead, steps);
        if (mp_plan_new(mp_planning_graph(p), "", steps, (size_t)n, &plan, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_planning_take(p, mp_planning_number(p, "keep_all_bytes"), plan), MP_OK);
        assert_int_equal(mp_planning_number(p, "slab_bytes"), cases[k].slab_bytes);
        mp_plan_free(plan);
        mp_planning_free(p);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(a_supplied_plan_must_fit_the_slab)
{
    mp_planning *p = copying_chain(3);
    mp_plan *plan;
    char text[32];
    const int64_t budget = mp_planning_number(p, "keep_all_bytes") * 75 / 100;
    assert_int_equal(mp_planning_offsets(p, NULL, 0), 0);
    assert_int_equal(mp_planning_solve(p, budget), MP_OK);
    const int64_t slab = mp_planning_number(p, "slab_bytes");
    assert_true(slab > GRAIN);
    const mp_plan *found = mp_planning_plan(p);
    assert_int_equal(mp_plan_new(mp_planning_graph(p), "", found->steps, found->n_steps, &plan, NULL), MP_OK);
    snprintf(text, sizeof text, "%lld", (long long)slab - 1);
    assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
    assert_int_equal(mp_planning_take(p, budget, plan), MP_INVALID);
    snprintf(text, sizeof text, "the plan needs %lld bytes on", (long long)slab);
    assert_non_null(strstr(mp_planning_message(p), text));
    assert_int_equal(mp_planning_number(p, "slab_bytes"), slab); /* the earlier answer remains */
    snprintf(text, sizeof text, "%lld", (long long)slab);
    assert_int_equal(mp_planning_set(p, "slab_bytes", text), MP_OK);
    int n_failed = 0; /* memory may run out at any allocation, and the earlier answer remains */
    for (mp_status st = MP_NOMEM; st != MP_OK; n_failed += st != MP_OK) {
        mp_alloc_budget = n_failed;
        st = mp_planning_take(p, budget, plan);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_planning_number(p, "slab_bytes"), slab);
    }
    assert_true(n_failed > 5);
    mp_plan_free(plan);
    mp_planning_free(p);
    assert_int_equal(mp_alloc_live, 0);
}

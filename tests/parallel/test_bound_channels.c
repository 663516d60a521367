/* test_bound_channels.c - bounds from a network's channel, compared with random orders whose waits are as late as possible, and
 * with a case computed by hand. */
#include "memplan/bound.h"
#include "memplan/makespan.h"
#include "memplan/ranks/exchange.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

static bool has(const int *list, size_t n, int storage)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == storage) return true;
    return false;
}

static bool meet(const int *a, size_t n, const int *b, size_t m)
{
    for (size_t k = 0; k < n; k++)
        if (has(b, m, a[k])) return true;
    return false;
}

/* Returns whether an overlapping step must end before another may run. */
static bool disturbs(const mp_alternative *beside, const mp_alternative *a)
{
    const bool changes = meet(a->writes, a->n_writes, beside->reads, beside->n_reads) ||
                         meet(a->adds, a->n_adds, beside->reads, beside->n_reads);
    bool touches = false;
    const int *lists[] = {a->reads, a->writes, a->adds};
    const size_t sizes[] = {a->n_reads, a->n_writes, a->n_adds};
    for (int k = 0; k < 3; k++)
        touches |= meet(lists[k], sizes[k], beside->writes, beside->n_writes) ||
                   meet(lists[k], sizes[k], beside->adds, beside->n_adds);
    return changes || touches;
}

static const mp_alternative *of_step(const mp_graph *graph, mp_step step)
{
    return &graph->nodes[step.node].alternatives[step.alternative];
}

/* Sets the wait for each step on another channel as late as the rules permit. */
static void wait_late(const mp_graph *graph, mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        if (of_step(graph, steps[t])->channel <= MP_CHANNEL_SECOND_STREAM) continue;
        size_t until = t + 1;
        while (until < n && !disturbs(of_step(graph, steps[t]), of_step(graph, steps[until]))) until++;
        steps[t].until = until > t + 1 ? (int)until : 0;
        if (!steps_obey(graph, steps, n)) steps[t].until = 0;
    }
}

static int64_t makespan(const mp_graph *graph, const mp_step *steps, size_t n)
{
    int64_t ticks;
    assert_int_equal(mp_makespan(graph, steps, n, NULL, &ticks, NULL), MP_OK);
    return ticks;
}

static mp_bound bound_of(const mp_graph *graph, bool any_order)
{
    const mp_bound_options options = {.effort = 1, .any_order = any_order};
    mp_bound bound;
    assert_int_equal(mp_bound_within(graph, INT64_MAX / 4, &options, &bound, NULL), MP_OK);
    return bound;
}

TEST(no_order_takes_less)
{
    enum { ORDERS = 12 };
    int n_channels = 0, n_tight = 0, n_all = 0;
    for (uint64_t seed = 1; seed <= 300; seed++)
        for (int zero = 0; zero <= 3; zero++) {
            mp_graph *graph = random_graph(seed, 2 + (int)(seed % 7), (mp_fuse)(seed % 2), false);
            mp_ranks ranks = {.bucket_bytes = 1 + (int64_t)(seed % 5) * 64};
            char mesh[32];
            snprintf(mesh, sizeof mesh, zero ? "shard=4,zero=%d" : "dp=4", zero);
            assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
            assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
            ranks.network.inside.latency_seconds =
                graph->tick_seconds * (double)(seed % 4) / 8; /* as slow as the graph's compute */
            ranks.network.inside.bytes_per_second = 16 / graph->tick_seconds;
            assert_int_equal(mp_graph_exchange(graph, &ranks, NULL), MP_OK);
            const mp_bound any = bound_of(graph, true), kept = bound_of(graph, false);
            assert_true(any.ticks <= kept.ticks);
            int64_t least = INT64_MAX;
            for (int k = 0; k <= ORDERS; k++) {
                mp_step *steps = NULL;
                size_t n;
                if (k) {
                    steps = random_schedule(graph, seed * 100 + (uint64_t)k, k % 2 ? 0 : 4, &n);
                } else {
                    steps = mp_alloc(graph->n_nodes, sizeof *steps);
                    n = mp_keep_all(graph, steps);
                }
                if (k) wait_late(graph, steps, n);
                const int64_t ticks = makespan(graph, steps, n), proved = k ? any.ticks : kept.ticks;
                if (ticks < proved)
                    fail_msg("seed %d, %s: an order takes %" PRId64 " ticks, not %" PRId64, (int)seed, mesh, ticks, proved);
                if (ticks < least) least = ticks;
                mp_free(steps);
            }
            n_all++;
            n_channels += any.stage == MP_BOUND_CHANNELS;
            n_tight += least == any.ticks;
            mp_graph_free(graph);
        }
    print_message("of %d graphs the channel proves more than compute in %d, and %d bounds are met\n", n_all, n_channels,
                  n_tight);
    assert_true(n_channels > n_all / 4);
    assert_true(n_tight > n_all / 10);
}

/* Compute takes 3, then 2 and 4. The two sends take 14 and 1; steps of 5 and 7 wait for them: 21 ticks of compute. The network
 * begins at 3 + 2 at the earliest and sends for 15. The last send is followed by at least 5. */
TEST(two_sends_by_hand)
{
    enum { A, B, C, SEND_B, SEND_C, END_B, END_C, NODES };
    static const int64_t ticks[NODES] = {3, 2, 4, 14, 1, 5, 7};
    static const int from[NODES] = {-1, A, A, B, C, SEND_B, SEND_C};
    mp_graph *graph;
    int network;
    assert_int_equal(mp_graph_new("sends", &graph, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "network", &network, NULL), MP_OK);
    for (int v = 0; v < NODES; v++) {
        mp_storage *storage;
        mp_node *node;
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->bytes = storage->payload_bytes = 1;
        storage->kind = MP_KIND_ACTIVATION_GRADIENT;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = node->op = "node";
        node->phase = MP_PHASE_BACKWARD;
        node->forward_of = -1;
        mp_alternative *a = node->alternatives;
        a->ticks = ticks[v];
        a->channel = v == SEND_B || v == SEND_C ? network : MP_CHANNEL_COMPUTE;
        a->n_writes = 1;
        a->writes = mp_graph_list(graph, &v, 1);
        a->n_reads = from[v] >= 0;
        a->reads = mp_graph_list(graph, &from[v], a->n_reads);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    const mp_bound bound = bound_of(graph, true);
    assert_int_equal(bound.ticks, 5 + 15 + 5);
    assert_int_equal(bound.stage, MP_BOUND_CHANNELS);
    mp_graph_free(graph);
}

/* test_exchange.c - the graph of one rank: bytes by ZeRO's formulas, each gradient reduced once and in time, and step orders
 * that simulator and checker accept, on networks and random graphs. */
#include "memplan/check.h"
#include "memplan/plan.h"
#include "memplan/simplify.h"
#include "memplan/summary.h"
#include "tests/estimator/rank_graph.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"
#include "tests/oracles/same_timeline.h"

static const char tied[] = "data x 8 16; param a 16 16; param c 16 3;"
                           "MatMul x a -> h; Tanh h -> r; MatMul r a -> s; Tanh s -> t; MatMul t c -> y; out y";

static bool has(const int *list, size_t n, int storage)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == storage) return true;
    return false;
}

static bool uses(const mp_graph *graph, int node, int storage)
{
    const mp_alternative *a = graph->nodes[node].alternatives;
    return has(a->reads, a->n_reads, storage) || has(a->writes, a->n_writes, storage) || has(a->adds, a->n_adds, storage);
}

/* ---- bytes ---- */

/* bf16 parameters: 2 bytes each, 2 bytes for the gradient, 12 for the state. Each parameter's part is rounded up. */
TEST(state_has_the_bytes_of_zero)
{
    static const int64_t elements[] = {16 * 33, 33, 33 * 5, 5};
    for (int zero = 0; zero <= 3; zero++)
        for (int64_t n = 2; n <= 8; n++)
            for (int64_t dp = 1; dp <= 8; dp++) {
                mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW});
                const mp_ranks ranks = ranks_of(zero ? dp : n, zero ? n : 1, zero, 400);
                int64_t parameters = 0, gradients = 0, state = 0, gathered = 0;
                for (size_t k = 0; k < sizeof elements / sizeof *elements; k++) {
                    parameters += zero == 3 ? up(2 * elements[k], n) : 2 * elements[k];
                    gradients += zero >= 2 ? up(2 * elements[k], n) : 2 * elements[k];
                    state += zero ? up(12 * elements[k], n) : 12 * elements[k];
                    gathered += 2 * elements[k];
                }
                exchanged(graph, &ranks);
                assert_int_equal(payload(graph, MP_KIND_PARAMETER), parameters);
                assert_int_equal(payload(graph, MP_KIND_GRADIENT), gradients);
                assert_int_equal(payload(graph, MP_KIND_OPTIMIZER_STATE), state);
                if (zero) /* at least the whole; at most the rounding more */
                    assert_true(n * state >= 12 * gathered / 2 && n * state < 12 * gathered / 2 + n * 4);
                mp_graph_free(graph);
            }
}

TEST(one_rank_changes_nothing)
{
    mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW});
    const mp_ranks ranks = ranks_of(1, 1, 0, 0);
    char before[33];
    memcpy(before, graph->hash, sizeof before);
    const mp_rank_traffic traffic = exchanged(graph, &ranks);
    assert_string_equal(graph->hash, before);
    assert_true(!traffic.n_collectives && !traffic.sent_bytes && traffic.seconds <= 0);
    mp_graph_free(graph);
}

/* ---- frozen parameters ---- */

/* `a` and `b` are frozen: no gradient, no state. zero=3 shards all values; zero=1 and 2 shard none. Unsharded, the frozen `a`
 * alone holds 2 * 16 * 33 bytes. */
TEST(frozen_parameters_are_sharded)
{
    static const char *const frozen[] = {"a", "b"};
    static const int64_t elements[] = {16 * 33, 33, 33 * 5, 5};
    for (int rules = 0; rules < MP_N_RULES; rules++)
        for (int zero = 0; zero <= 3; zero++)
            for (int64_t n = 2; n <= 8; n++) {
                mp_graph *graph = graph_of(
                    mlp, (mp_training_options){
                             .optimizer = MP_OPTIMIZER_ADAMW, .rules = (mp_rules)rules, .freeze = frozen, .n_freeze = 2});
                mp_ranks ranks = ranks_of(zero ? 1 : n, zero ? n : 1, zero, 400);
                int64_t parameters = 0, gradients = 0, state = 0, gathered = 0;
                ranks.rules = (mp_rules)rules;
                for (size_t k = 0; k < 4; k++) {
                    parameters += zero == 3 ? up(2 * elements[k], n) : 2 * elements[k];
                    if (k < 2) continue;
                    gradients += zero >= 2 ? up(2 * elements[k], n) : 2 * elements[k];
                    state += zero ? up(12 * elements[k], n) : 12 * elements[k];
                }
                exchanged(graph, &ranks);
                assert_int_equal(payload(graph, MP_KIND_PARAMETER), parameters);
                assert_int_equal(payload(graph, MP_KIND_GRADIENT), gradients);
                assert_int_equal(payload(graph, MP_KIND_OPTIMIZER_STATE), state);
                for (size_t i = 0; i < graph->n_nodes; i++) { /* forward gathers each value once */
                    const mp_alternative *a = graph->nodes[i].alternatives;
                    if (!is_collective(graph, (int)i) || graph->nodes[i].phase != MP_PHASE_FORWARD) continue;
                    for (size_t k = 0; k < a->n_writes; k++) gathered += graph->storages[a->writes[k]].payload_bytes;
                }
                assert_int_equal(gathered, zero == 3 ? 1462 : 0);
                mp_graph_free(graph);
            }
}

/* ---- buckets and traffic ---- */

/* A bucket takes gradients in the order of their completion until it has the requested bytes. For mlp: c and d (330 and 10
 * bytes), then a and b (1056 and 66). DDP's first bucket has 1 MiB. */
TEST(buckets_are_filled_in_the_order_of_backward)
{
    static const struct {
        int64_t bucket;
        int n, sizes[4];
    } cases[] = {{1, 4, {330, 10, 1056, 66}},
                 {330, 3, {330, 1066, 66}},
                 {331, 3, {340, 1056, 66}},
                 {341, 2, {1396, 66}},
                 {0, 1, {1462}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW});
        const mp_ranks ranks = ranks_of(4, 1, 0, cases[k].bucket);
        const mp_rank_traffic traffic = exchanged(graph, &ranks);
        int n = 0;
        int64_t sent = 0;
        double seconds = 0;
        for (size_t i = 0; i < graph->n_nodes; i++) {
            const mp_alternative *a = graph->nodes[i].alternatives;
            int64_t bytes = 0;
            if (!is_collective(graph, (int)i)) continue;
            for (size_t j = 0; j < a->n_adds; j++) bytes += graph->storages[a->adds[j]].payload_bytes;
            if (n >= cases[k].n || bytes != cases[k].sizes[n])
                fail_msg("bucket %d of case %d: %d bytes", n, (int)k, (int)bytes);
            n++;
            sent += 2 * 3 * bytes / 4;
            const double one =
                mp_collective_seconds(&ranks.network, MP_ALL_REDUCE, MP_ALGORITHM_AUTO, (mp_rank_group){4, 1}, bytes);
            assert_true(fabs((double)a->ticks * graph->tick_seconds - one) <= graph->tick_seconds);
            seconds += one;
        }
        assert_int_equal(n, cases[k].n);
        assert_int_equal(traffic.n_collectives, n);
        assert_int_equal(traffic.sent_bytes, sent);
        assert_true(fabs(traffic.seconds - seconds) <= 1e-12);
        mp_graph_free(graph);
    }
}

/* Each rank sends twice the gradients' bytes under dp and zero 1 to 3. Dropping parameters under zero 3 gathers again: three
 * times. */
TEST(ranks_send_what_zero_sends)
{
    for (int zero = 0; zero <= 3; zero++) {
        mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW});
        const mp_ranks ranks = ranks_of(zero ? 1 : 2, zero ? 2 : 1, zero, 0);
        const mp_rank_traffic traffic = exchanged(graph, &ranks);
        assert_int_equal(traffic.sent_bytes, 1462); /* 2 (n - 1) / n of 1462 bytes, in one or two collectives */
        assert_int_equal(traffic.n_collectives, zero ? 2 : 1);
        mp_graph_free(graph);
    }
}

/* ---- order of steps ---- */

/* The step at which a node begins in an order, and the step after its end. */
static int begin_of(const mp_step *steps, size_t n, int node)
{
    for (size_t t = 0; t < n; t++)
        if (steps[t].node == node) return (int)t;
    fail_msg("node %d does not run", node);
    return -1;
}

/* Each original gradient is in one reduction. It begins after all writers, and ends before the update that reads the gradient
 * or its part. */
static void check_reductions(const mp_graph *graph, const bool *was_gradient, size_t n_before, const mp_step *steps, size_t n)
{
    for (int s = 0; s < (int)n_before; s++) {
        int reduction = -1, n_reductions = 0, result = s, n_updates = 0;
        if (!was_gradient[s]) continue;
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            const mp_alternative *a = graph->nodes[i].alternatives;
            const mp_alternative *given = i && !strcmp(graph->nodes[i - 1].op, "CopyIn") ? graph->nodes[i - 1].alternatives : a;
            const bool is_given = given != a && has(given->reads, given->n_reads, s);
            if (graph->nodes[i].phase != MP_PHASE_BACKWARD || !is_collective(graph, i)) continue;
            if (!is_given && !uses(graph, i, s)) continue;
            reduction = i;
            n_reductions++;
            for (size_t k = 0; k < given->n_reads; k++)
                if (given->reads[k] == s) result = a->writes[k];
        }
        if (n_reductions != 1) fail_msg("gradient %d is reduced %d times", s, n_reductions);
        const int at = begin_of(steps, n, reduction);
        for (int i = 0; i < (int)graph->n_nodes; i++) {
            if (i == reduction) continue;
            const bool reads = uses(graph, i, result), makes = result != s && uses(graph, i, s);
            if (graph->nodes[i].phase == MP_PHASE_UPDATE && reads) {
                n_updates++;
                if (graph->fuse != MP_FUSE_FORWARD &&
                    begin_of(steps, n, i) < mp_step_end(steps, at)) /* updates of the previous step */
                    fail_msg("update %d reads gradient %d too soon", i, s);
            } else if ((reads || makes) && begin_of(steps, n, i) > at) {
                fail_msg("node %d adds to gradient %d behind its reduction", i, s);
            }
        }
        if (n_updates != 1) fail_msg("gradient %d has %d updates", s, n_updates);
    }
}

/* Keep-all and random orders build; the simulator gives equal bytes and ticks, and the checker accepts the plan. */
static void check_orders(mp_graph *graph, const mp_ranks *ranks, uint64_t seed, int n_orders)
{
    mp_error err = {0};
    const size_t n_before = graph->n_storages;
    bool *was_gradient = mp_alloc(n_before + 1, sizeof *was_gradient);
    for (size_t s = 0; s < n_before; s++)
        was_gradient[s] =
            graph->storages[s].kind == MP_KIND_GRADIENT && (graph->producer[s] >= 0 || mp_storage_is_sum(graph, (int)s));
    exchanged(graph, ranks);
    mp_step *all = mp_alloc(graph->n_nodes, sizeof *all);
    const size_t n_all = mp_keep_all(graph, all);
    assert_int_equal(n_all, graph->n_nodes);
    for (int k = 0; k <= n_orders; k++) {
        size_t n = n_all;
        mp_step *steps = k ? random_schedule(graph, seed + (uint64_t)k, 6, &n) : all;
        mp_plan *plan = NULL;
        check_reductions(graph, was_gradient, n_before, steps, n);
        assert_true(steps_obey(graph, steps, n));
        same_timeline(graph, steps, n, seed);
        if (mp_plan_new(graph, "test", steps, n, &plan, &err) != MP_OK || mp_plan_check(graph, plan, &err) != MP_OK)
            fail_msg("seed %d, %s, zero=%d: %s", (int)seed, mp_mesh_write(&ranks->mesh).text, ranks->mesh.zero, err.message);
        mp_plan_free(plan);
        mp_free(steps);
    }
    mp_free(was_gradient);
}

TEST(networks_of_every_mesh_pass_the_checker)
{
    static const char *const texts[] = {mlp, tied};
    int beside = 0;
    for (size_t m = 0; m < 2; m++)
        for (int zero = 0; zero <= 3; zero++)
            for (int64_t n = 2; n <= 8; n += 3)
                for (int fuse = 0; fuse < 2; fuse++)
                    for (int accumulate = 1; accumulate <= 2; accumulate++)
                        for (int rules = 0; rules < MP_N_RULES; rules++) {
                            static const char *const frozen[] = {"c"};
                            mp_graph *graph = graph_of(texts[m], (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW,
                                                                                       .freeze = frozen,
                                                                                       .n_freeze = n == 5,
                                                                                       .fuse = (mp_fuse)fuse,
                                                                                       .rules = (mp_rules)rules,
                                                                                       .accumulate = accumulate});
                            mp_ranks ranks = ranks_of(zero ? n % 3 : n, zero ? n : 1, zero, 300);
                            ranks.rules = (mp_rules)rules;
                            check_orders(graph, &ranks, (uint64_t)n, 2);
                            beside += graph->awaiter != NULL;
                            mp_graph_free(graph);
                        }
    assert_true(beside > 40);
}

TEST(random_graphs_of_every_mesh_pass_the_checker)
{
    int n_collectives = 0;
    for (uint64_t seed = 1; seed <= 400; seed++)
        for (int zero = 0; zero <= 3; zero++) {
            mp_graph *graph = random_graph(seed, 2 + (int)(seed % 7), (mp_fuse)(seed % MP_N_FUSES), false);
            const mp_ranks ranks = ranks_of(zero ? 1 + (int64_t)(seed % 2) : 2, zero ? 2 + (int64_t)(seed % 7) : 1, zero,
                                            1 + (int64_t)(seed % 5) * 64);
            /* with updates in forward, a gradient that begins too early leaves random_schedule no step to run */
            check_orders(graph, &ranks, seed, graph->fuse == MP_FUSE_FORWARD ? 0 : 3);
            for (size_t i = 0; i < graph->n_nodes; i++) n_collectives += is_collective(graph, (int)i);
            mp_graph_free(graph);
        }
    assert_true(n_collectives > 3000);
}

/* Partial gradients are summed over tp, in separate buckets, with and without dp and shard. Complete gradients are not summed
 * over tp. */
TEST(parts_of_gradients_are_summed_over_tp)
{
    static const char *const meshes[] = {"tp=4", "tp=4,dp=2", "tp=4,shard=2,zero=1", "tp=4,shard=2,zero=2", "tp=4,shard=2"};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int fuse = 0; fuse < 2; fuse++) {
            mp_graph *graph = graph_of(
                mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW, .fuse = fuse ? MP_FUSE_BACKWARD : MP_FUSE_NONE});
            mp_ranks ranks = {0};
            int64_t parts = 0, others = 0, sent = 0;
            assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
            assert_int_equal(mp_mesh_read(meshes[m], &ranks.mesh, NULL), MP_OK);
            for (size_t s = 0, k = 0; s < graph->n_storages; s++) {
                if (graph->storages[s].kind != MP_KIND_GRADIENT) continue;
                graph->storages[s].is_part = k++ % 2; /* the biases */
                *(graph->storages[s].is_part ? &parts : &others) += graph->storages[s].payload_bytes;
            }
            const bool is_alone = m == 0, shares = ranks.mesh.size[MP_DIM_SHARD] > 1;
            const int64_t left = shares ? parts - parts / 2 : parts; /* each of 2 shards has half, rounded up */
            sent = 2 * 3 * left / 4;
            if (!is_alone)
                sent += mp_collective_sent_bytes(MP_ALL_REDUCE, 2, parts) + mp_collective_sent_bytes(MP_ALL_REDUCE, 2, others);
            const mp_rank_traffic traffic = exchanged(graph, &ranks);
            if (llabs(traffic.sent_bytes - sent) > 4) /* halves are rounded */
                fail_msg("%s sends %" PRId64 ", not %" PRId64, meshes[m], traffic.sent_bytes, sent);
            if (!shares) assert_int_equal(traffic.n_collectives, is_alone ? 1 : 2);
            for (size_t i = 0; i < graph->n_nodes; i++) {
                const mp_alternative *a = graph->nodes[i].alternatives;
                if (!is_alone || !is_collective(graph, (int)i)) continue;
                for (size_t k = 0; k < a->n_adds; k++) assert_int_equal(graph->storages[a->adds[k]].kind, MP_KIND_GRADIENT);
                assert_int_equal(a->n_adds, 2);
            }
            for (size_t s = 0; s < graph->n_storages; s++) assert_false(graph->storages[s].is_part);
            mp_graph_free(graph);
        }
}

/* Updates are listed in the order of their buckets: keep-all runs the first bucket's updates during the last reduction. */
TEST(updates_come_in_the_order_of_their_buckets)
{
    for (int zero = 0; zero <= 2; zero++)
        for (int64_t bucket = 1; bucket <= 1462; bucket += 100) {
            mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW});
            const mp_ranks ranks = ranks_of(zero ? 1 : 4, zero ? 4 : 1, zero, bucket);
            int last = -1, n = 0;
            exchanged(graph, &ranks);
            for (size_t i = 0; i < graph->n_nodes; i++) {
                const mp_alternative *a = graph->nodes[i].alternatives;
                if (graph->nodes[i].phase != MP_PHASE_UPDATE || is_collective(graph, (int)i)) continue;
                for (int r = 0; r < (int)graph->n_nodes; r++) { /* the reduction of the gradient it reads */
                    const mp_alternative *of = graph->nodes[r].alternatives;
                    bool gives = false;
                    for (size_t k = 0; k < a->n_reads; k++)
                        gives |= has(of->adds, of->n_adds, a->reads[k]) || has(of->writes, of->n_writes, a->reads[k]);
                    if (!gives || graph->nodes[r].phase != MP_PHASE_BACKWARD || !is_collective(graph, r)) continue;
                    assert_true(r >= last);
                    last = r;
                    n++;
                }
            }
            assert_int_equal(n, 4);
            mp_graph_free(graph);
        }
}

/* ---- refusals ---- */

TEST(what_has_no_exchange_is_refused)
{
    mp_error err = {0};
    mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_NONE});
    mp_ranks ranks = ranks_of(1, 2, 3, 0);
    assert_int_equal(mp_graph_exchange(graph, &ranks, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "has no update; choose an optimizer"));
    mp_graph_free(graph);
    graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_NONE});
    err = (mp_error){0};
    ranks = ranks_of(2, 1, 0, 0); /* gradients are summed even without an optimizer */
    assert_int_equal(exchanged(graph, &ranks).n_collectives, 1);
    assert_int_equal(mp_graph_exchange(graph, &ranks, &err), MP_PARSE); /* a second exchange is refused */
    assert_non_null(strstr(err.message, "network"));
    mp_graph_free(graph);
}

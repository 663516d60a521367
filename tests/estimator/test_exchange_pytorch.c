/* test_exchange_pytorch.c - the graph of one rank under PyTorch's rules: the buffers of DDP and FSDP2, and second gathers. */
#include "tests/estimator/rank_graph.h"

/* PyTorch holds more: DDP always its buckets; FSDP2 the gather buffer and a reduce-scatter's input while these run. A buffer is
 * a storage between a copy and a transfer, or the workspace of a transfer between static tensors. */
TEST(pytorch_holds_buckets)
{
    mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW, .rules = MP_RULES_PYTORCH});
    mp_ranks ranks = ranks_of(4, 1, 0, 400);
    const int64_t buffers = payload(graph, MP_KIND_BUFFER), whole = payload(graph, MP_KIND_GRADIENT);
    ranks.rules = MP_RULES_PYTORCH;
    exchanged(graph, &ranks);
    assert_int_equal(payload(graph, MP_KIND_BUFFER) - buffers, whole);
    mp_graph_free(graph);
    for (int zero = 1; zero <= 3; zero++) {
        int64_t n = 0;
        graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW, .rules = MP_RULES_PYTORCH});
        ranks = ranks_of(1, 4, zero, 400);
        ranks.rules = MP_RULES_PYTORCH;
        exchanged(graph, &ranks);
        for (size_t i = 0; i < graph->n_nodes; i++) {
            const mp_alternative *a = graph->nodes[i].alternatives;
            if (is_collective(graph, (int)i)) n += a->workspace_bytes;
            if (!strcmp(graph->nodes[i].op, "CopyIn")) n += graph->storages[a->writes[0]].payload_bytes;
            if (!strcmp(graph->nodes[i].op, "CopyOut")) n += graph->storages[a->reads[0]].payload_bytes;
        }
        assert_int_equal(n, 2 * whole + (zero == 3 ? 330 : 0)); /* scattered and gathered; c is gathered again in backward */
        assert_int_equal(payload(graph, MP_KIND_BUFFER), buffers);
        mp_graph_free(graph);
    }
}

/* Largest live bytes of storages of P bytes while nodes of a phase run: parameters, gradients and buffers of equal layers. */
static int64_t most_live_of(const char *layers, const char *frozen, const char *const *units, size_t n_units, mp_phase phase,
                            int64_t payload_bytes)
{
    mp_graph *graph = graph_of(
        layers, (mp_training_options){
                    .optimizer = MP_OPTIMIZER_SGD, .rules = MP_RULES_PYTORCH, .freeze = &frozen, .n_freeze = frozen != NULL});
    mp_ranks ranks = ranks_of(1, 2, 3, 1);
    int64_t most = 0;
    mp_timeline *timeline;
    ranks.rules = MP_RULES_PYTORCH;
    ranks.units = units;
    ranks.n_units = n_units;
    exchanged(graph, &ranks);
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    const size_t n = mp_keep_all(graph, steps);
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    for (int t = 0; t < (int)n; t++) {
        int64_t live = 0;
        for (size_t k = 0; k < timeline->n_spans; k++) {
            const mp_span *span = &timeline->spans[k];
            const int64_t bytes = graph->storages[span->storage].payload_bytes;
            if (span->begin <= t && t < span->end && bytes % payload_bytes == 0) live += bytes;
        }
        if (graph->nodes[steps[t].node].phase == phase && live > most) most = live;
    }
    mp_timeline_free(timeline);
    mp_free(steps);
    mp_graph_free(graph);
    return most;
}

static int64_t most_live(const char *layers, const char *frozen, mp_phase phase, int64_t payload_bytes)
{
    return most_live_of(layers, frozen, NULL, 0, phase, payload_bytes);
}

/* FSDP2 allocates a block's gathered parameters when its gather has ended, and frees them when the block's backward has ended.
 * It frees the gradients when they are in the buffer of the reduce-scatter. The next reduce-scatter gets a buffer when this one
 * has ended. Let each block have P bytes. In forward 2 P are live: the parameters of block k and the gather of block k + 1, or
 * this gather and its parameters. In backward 4 P are live: parameters and gradients of block k, the gather of block k - 1, and
 * the reduce-scatter of block k + 1. Buckets of 1 byte end with the block that the parameters' names state. Parameters outside
 * of blocks are one group, which stays gathered until its last gradient exists. So the gradient of its last layer waits for the
 * gradient of its first layer. If fully_shard also wraps the modules outside of blocks, they are live like blocks. */
TEST(pytorch_holds_two_blocks)
{
    static const char layers[] = "data x 8 16; param a 16 16; param b 16 16; param c 16 16; param d 16 16; param e 16 16;"
                                 "MatMul x a -> h; Relu h -> r; MatMul r b -> s; Relu s -> t; MatMul t c -> u; Relu u -> v;"
                                 "MatMul v d -> w; Relu w -> z; MatMul z e -> y; out y";
    static const char blocks[] =
        "data x 8 16; param l.0.a 16 16; param l.0.b 16 16; param l.1.a 16 16; param l.1.b 16 16; param l.2.a 16 16;"
        "param l.2.b 16 16; param l.3.a 16 16; param l.3.b 16 16; MatMul x l.0.a -> h; Relu h -> r; MatMul r l.0.b -> s;"
        "Relu s -> t; MatMul t l.1.a -> u; Relu u -> v; MatMul v l.1.b -> w; Relu w -> z; MatMul z l.2.a -> o; Relu o -> q;"
        "MatMul q l.2.b -> i; Relu i -> j; MatMul j l.3.a -> k; Relu k -> m; MatMul m l.3.b -> y; out y";
    static const char root[] =
        "data x 8 16; param embed.first 16 16; param l.0.a 16 16; param l.1.a 16 16; param l.2.a 16 16;"
        "param l.3.a 16 16; param head.last 16 16; MatMul x embed.first -> h; Relu h -> r; MatMul r l.0.a -> s;"
        "Relu s -> t; MatMul t l.1.a -> u; Relu u -> v; MatMul v l.2.a -> w; Relu w -> z;"
        "MatMul z l.3.a -> o; Relu o -> q; MatMul q head.last -> y; out y";
    enum { P = 2 * 16 * 16 };
    assert_int_equal(most_live(layers, NULL, MP_PHASE_FORWARD, P), 2 * P);
    assert_int_equal(most_live(layers, NULL, MP_PHASE_BACKWARD, P), 4 * P);
    assert_int_equal(most_live(blocks, NULL, MP_PHASE_FORWARD, P), 2 * 2 * P);
    assert_int_equal(most_live(blocks, NULL, MP_PHASE_BACKWARD, P), 4 * 2 * P);
    /* a frozen layer has no gradient; its parameters are live as long as the block's */
    assert_int_equal(most_live(blocks, "l.*.b", MP_PHASE_BACKWARD, P), (2 + 1 + 2 + 1) * P);
    assert_int_equal(most_live(root, NULL, MP_PHASE_FORWARD, P), (2 + 2) * P);
    assert_int_equal(most_live(root, NULL, MP_PHASE_BACKWARD, P), (4 + 2 + 1) * P);
    static const char *const units[] = {"hea?", "embed", "none"};
    assert_int_equal(most_live_of(root, NULL, units, 3, MP_PHASE_FORWARD, P), 2 * P);
    assert_int_equal(most_live_of(root, NULL, units, 3, MP_PHASE_BACKWARD, P), 4 * P);
    /* only embed is a unit: `head` is the root group, whose gathered parameters are live until its own backward */
    assert_int_equal(most_live_of(root, NULL, units + 1, 1, MP_PHASE_FORWARD, P), (2 + 1) * P);
    /* a unit may be part of a block: m.1.a and m.1.b are gathered one after the other */
    static const char *const parts[] = {"m.*.[ab]"};
    static const char nested[] =
        "data x 8 16; param m.0.a.w 16 16; param m.0.b.w 16 16; param m.1.a.w 16 16; param m.1.b.w 16 16;"
        "MatMul x m.0.a.w -> h; Relu h -> r; MatMul r m.0.b.w -> s; Relu s -> t; MatMul t m.1.a.w -> u; Relu u -> v;"
        "MatMul v m.1.b.w -> y; out y";
    assert_int_equal(most_live(nested, NULL, MP_PHASE_FORWARD, P), 4 * P);
    assert_int_equal(most_live_of(nested, NULL, parts, 1, MP_PHASE_FORWARD, P), 2 * P);
}

/* Backward reads a frozen weight if an earlier parameter is trained. FSDP2 frees it after its last forward reader and gathers
 * it again. Only forward reads `b`. */
TEST(pytorch_gathers_again_for_backward)
{
    static const char *const frozen[] = {"c"};
    mp_graph *graph = graph_of(
        mlp,
        (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW, .rules = MP_RULES_PYTORCH, .freeze = frozen, .n_freeze = 1});
    mp_ranks ranks = ranks_of(1, 4, 3, 1);
    int64_t again = 0;
    ranks.rules = MP_RULES_PYTORCH;
    const mp_rank_traffic traffic = exchanged(graph, &ranks);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        if (!is_collective(graph, (int)i) || strcmp(node->op, "AllGather") != 0) continue;
        const int written = node->alternatives->writes[0];
        for (int r = graph->readers_start[written]; r < graph->readers_start[written + 1]; r++)
            assert_int_equal(graph->nodes[graph->readers[r]].phase == MP_PHASE_BACKWARD, node->phase == MP_PHASE_BACKWARD);
        if (node->phase == MP_PHASE_BACKWARD) again += graph->storages[written].payload_bytes;
    }
    assert_int_equal(again, 330); /* of c only: x needs no gradient */
    /* 3/4 of the gathered bytes (1462 and 330 again) and of the gradients of a, b and d */
    assert_true(llabs(traffic.sent_bytes - 3 * (1462 + 330 + 1056 + 66 + 10) / 4) <= 8);
    mp_graph_free(graph);
}

/* FSDP2's mixed precision: parts of values, gradients and states in fp32 (4 + 4 + 8 bytes per parameter). Gathers and scatters
 * move 2 bytes each. No cast of a parameter remains, so none is saved for backward. */
TEST(mixed_precision_gathers_in_16_bits)
{
    for (int64_t n = 2; n <= 8; n++) {
        mp_graph *graph = graph_of(mlp, (mp_training_options){.optimizer = MP_OPTIMIZER_ADAMW,
                                                              .dtype = MP_DTYPE_FLOAT,
                                                              .amp = MP_DTYPE_BFLOAT16,
                                                              .gathers_low = true,
                                                              .rules = MP_RULES_PYTORCH});
        static const int64_t elements[] = {16 * 33, 33, 33 * 5, 5};
        mp_ranks ranks = ranks_of(1, n, 3, 0);
        int64_t parameters = 0, state = 0, gathered = 0, scattered = 0;
        ranks.rules = MP_RULES_PYTORCH;
        for (size_t k = 0; k < 4; k++) {
            parameters += up(4 * elements[k], n);
            state += up(8 * elements[k], n);
        }
        exchanged(graph, &ranks);
        assert_int_equal(payload(graph, MP_KIND_PARAMETER), parameters);
        assert_int_equal(payload(graph, MP_KIND_GRADIENT), parameters);
        assert_int_equal(payload(graph, MP_KIND_OPTIMIZER_STATE), state);
        for (size_t i = 0; i < graph->n_nodes; i++) {
            const mp_alternative *a = graph->nodes[i].alternatives;
            const bool is_gather = !strcmp(graph->nodes[i].op, "AllGather") && graph->nodes[i].phase == MP_PHASE_FORWARD;
            for (size_t k = 0; is_gather && k < a->n_writes; k++) gathered += graph->storages[a->writes[k]].payload_bytes;
            for (size_t k = 0; !strcmp(graph->nodes[i].op, "ReduceScatter") && k < a->n_reads; k++)
                scattered += graph->storages[a->reads[k]].payload_bytes;
            for (size_t k = 0; !strcmp(graph->nodes[i].op, "Cast") && k < a->n_reads; k++)
                assert_null(strstr(graph->storages[a->reads[k]].name, "part"));
        }
        assert_int_equal(gathered, 2 * (16 * 33 + 33 + 33 * 5 + 5));
        assert_int_equal(scattered, gathered);
        mp_graph_free(graph);
    }
}

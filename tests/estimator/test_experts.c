/* test_experts.c - experts on different ranks compute the same numbers as on one device. The graph of a rank has, and sends,
 * the bytes counted by hand. */
#include "estimator/parallel/experts.h"
#include "memplan/check.h"
#include "memplan/plan.h"
#include "memplan/ranks/exchange.h"
#include "memplan/simplify.h"
#include "memplan/training.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { EXPERTS = 4, TOKENS = 6, WIDTH = 16, INNER = 32 };

static mp_ranks ranks_of(const char *mesh)
{
    mp_ranks ranks = {.bucket_bytes = 4000};
    mp_error err = {0};
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    if (mp_mesh_read(mesh, &ranks.mesh, &err) != MP_OK) fail_msg("%s", err.message);
    return ranks;
}

/* Reads a model whose data has TOKENS tokens per expert from each of `ranks` ranks. */
static mp_model *model_of(const char *text, int ranks)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "data x %d %d %d; %s", EXPERTS, ranks * TOKENS, WIDTH, text);
    return model_text(whole);
}

static int count(const mp_model *model, const char *kind)
{
    int n = 0;
    for (size_t k = 0; k < model->n_operators; k++)
        n += !model->operators[k].removed && !strcmp(model->operators[k].kind, kind);
    return n;
}

/* ---- numbers ---- */

/* Finds the layout of each tensor: split by experts, split by tokens, or equal on all ranks. */
static mp_shard *placed(const mp_model *whole, const mp_model *part, int n)
{
    mp_shard *at = calloc(part->n_tensors, sizeof *at);
    assert_non_null(at);
    for (size_t t = 0; t < part->n_tensors; t++) {
        const mp_tensor *p = &part->tensors[t];
        size_t of = t;
        while (of >= whole->n_tensors) of = (size_t)part->operators[part->tensors[of].producer].in[0];
        const mp_tensor *w = &whole->tensors[of];
        at[t] = (mp_shard){.dim = -1, .outer = 1};
        for (int d = 1; d >= 0; d--)
            if (p->rank == 3 && p->dims[d] * n == w->dims[d]) at[t].dim = d;
    }
    return at;
}

static void check(const char *text, int n, int n_exchanges)
{
    mp_model *whole = model_of(text, n), *part = model_of(text, 1);
    mp_error err = {0};
    char mesh[32];
    snprintf(mesh, sizeof mesh, "dp=%d,ep=%d", n, n);
    const mp_ranks ranks = ranks_of(mesh);
    if (mp_model_spread_experts(part, &ranks.mesh, &err) != MP_OK) fail_msg("%s: %s", text, err.message);
    if (n_exchanges >= 0) assert_int_equal(count(part, "AllToAll"), n_exchanges);
    const mp_split split = {.group = {.n = n, .stride = 1}, .n_tensors = part->n_tensors, .placements = placed(whole, part, n)};
    const int y = whole->outputs[0];
    double *alone = interpret(whole, y), *together = interpret_ranks(whole, part, &split, y);
    assert_true(alone && together);
    for (int64_t k = 0; k < mp_tensor_elements(&whole->tensors[y]); k++)
        if (!(fabs(alone[k] - together[k]) <= 1e-9))
            fail_msg("%s\nep=%d: element %d is %.12g, and of the ranks %.12g", text, n, (int)k, alone[k], together[k]);
    free(alone);
    free(together);
    free(split.placements);
    mp_model_free(whole);
    mp_model_free(part);
}

static const char mlp[] =
    "const half 0.5; param a 4 16 32; param b 4 1 32; param c 4 32 16; param w 16 16; MatMul x w -> q; MatMul q a -> h;"
    "Add h b -> i; Mul i half -> j; Gelu@20 j -> g; MatMul g c -> m; Add m x -> r; Tanh r -> y; out y";
static const char gated[] = "param a 4 16 32; param b 4 16 32; param c 4 32 16; Tanh x -> q; MatMul q a -> g; MatMul q b -> u;"
                            "Sigmoid g -> s; Mul s u -> i; MatMul i c -> m; Tanh m -> t; Add t q -> y; out y";

/* Tokens are exchanged once each way. Between the exchanges: a bias per expert, or two branches that read the same tokens. With
 * 4 ranks each has one expert. */
TEST(experts_elsewhere_compute_the_same)
{
    for (int n = 2; n <= 4; n += 2) {
        check(mlp, n, 2);
        check(gated, n, 2);
    }
}

TEST(random_models_compute_the_same)
{
    static const char *const steps[] = {"MatMul v%d e%d -> v%d; ",
                                        "MatMul v%d w%d -> v%d; ",
                                        "Add v%d b%d -> v%d; ",
                                        "Add v%d p%d -> v%d; ",
                                        "Tanh v%d -> v%d; ",
                                        "Softmax v%d -> v%d axis=-1; ",
                                        "Mul v%1$d v%2$d -> m%3$d; Tanh m%3$d -> v%3$d; "};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        random_source random = {seed};
        char text[4000];
        const int length = 3 + random_below(&random, 8);
        size_t n = 0;
        for (int k = 0; k <= length; k++)
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "param e%d 4 16 16; param w%d 16 16; param b%d 4 1 16; param p%d 16; ", k, k, k, k);
        n += (size_t)snprintf(text + n, sizeof text - n, "Tanh x -> v0; MatMul v0 e0 -> v1; ");
        for (int k = 2; k <= length; k++) {
            const int step = random_below(&random, 7), last = k - 1;
            const char *format = steps[step];
            if (step == 4 || step == 5)
                n += (size_t)snprintf(text + n, sizeof text - n, format, last, k);
            else
                n += (size_t)snprintf(text + n, sizeof text - n, format, last, step == 6 ? random_below(&random, k) : k, k);
        }
        snprintf(text + n, sizeof text - n, "Add v%d x -> y; out y", length);
        check(text, random_below(&random, 2) ? 2 : 4, -1);
    }
}

/* ---- bytes ---- */

static mp_graph *graph_of(const char *text, const mp_ranks *ranks, mp_rank_traffic *traffic)
{
    mp_error err = {0};
    mp_model *model = model_of(text, 1);
    const mp_target target = mp_roofline(mp_device_find("h100"));
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_BFLOAT16, .loss = MP_LOSS_MSE};
    mp_graph *graph = NULL;
    int loss;
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        mp_model_spread_experts(model, &ranks->mesh, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK ||
        mp_graph_exchange(graph, ranks, &err) != MP_OK)
        fail_msg("%s", err.message);
    *traffic = traffic_of_keep_all(graph);
    mp_model_free(model);
    return graph;
}

static int64_t payload(const mp_graph *graph, mp_kind kind)
{
    int64_t bytes = 0;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].kind == kind) bytes += graph->storages[s].payload_bytes;
    return bytes;
}

/* Of 8 ranks, those with the same experts shard or sum the experts' values. All ranks shard or sum the remaining values. */
TEST(bytes_are_those_of_ranks_with_the_same_experts)
{
    static const struct {
        const char *mesh;
        int zero, ep, shards, expert_shards, replicas, expert_replicas;
    } cases[] = {
        {"dp=8,ep=2", 0, 2, 1, 1, 8, 4},           {"dp=8,ep=4", 0, 4, 1, 1, 8, 2},
        {"shard=8,ep=4", 3, 4, 8, 2, 1, 1},        {"shard=8,ep=4,zero=2", 2, 4, 8, 2, 1, 1},
        {"shard=8,ep=4,zero=1", 1, 4, 8, 2, 1, 1}, {"dp=4,shard=2,ep=4", 3, 4, 2, 1, 4, 2},
        {"dp=2,shard=4,ep=4", 3, 4, 4, 1, 2, 2},   {"dp=4,shard=2,ep=4,zero=1", 1, 4, 2, 1, 4, 2},
        {"dp=2,shard=4,ep=2", 3, 2, 4, 2, 2, 2},
    };
    enum { DENSE = 16 * 16 };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mp_ranks ranks = ranks_of(cases[k].mesh);
        mp_rank_traffic traffic;
        mp_plan *plan = NULL;
        mp_error err = {0};
        mp_graph *graph = graph_of(mlp, &ranks, &traffic);
        mp_step *all = calloc(graph->n_nodes, sizeof *all);
        const int zero = cases[k].zero;
        const int64_t experts = EXPERTS / cases[k].ep * (16 * 32 + 32 + 32 * 16);
        const int64_t d = cases[k].shards, e = cases[k].expert_shards;
        assert_int_equal(payload(graph, MP_KIND_PARAMETER), 2 * (zero == 3 ? DENSE / d + experts / e : DENSE + experts));
        assert_int_equal(payload(graph, MP_KIND_GRADIENT), 2 * (zero >= 2 ? DENSE / d + experts / e : DENSE + experts));
        assert_int_equal(payload(graph, MP_KIND_OPTIMIZER_STATE), 12 * (zero ? DENSE / d + experts / e : DENSE + experts));
        int64_t sent = 0; /* rings: over shards, gradients are scattered and values gathered; over replicas, parts are summed */
        for (int spread = 0; spread < 2; spread++) {
            const int64_t bytes = 2 * (spread ? experts : DENSE), n = spread ? e : d,
                          r = spread ? cases[k].expert_replicas : cases[k].replicas;
            sent += mp_collective_sent_bytes(MP_REDUCE_SCATTER, n, bytes) + mp_collective_sent_bytes(MP_ALL_GATHER, n, bytes);
            sent += mp_collective_sent_bytes(MP_ALL_REDUCE, r, bytes / n);
        }
        if (llabs(sent - traffic.sent_bytes) > 16) /* a bucket is cut at whole bytes */
            fail_msg("%s: %lld bytes, and %lld", cases[k].mesh, (long long)traffic.sent_bytes, (long long)sent);
        if (mp_plan_new(graph, "test", all, mp_keep_all(graph, all), &plan, &err) != MP_OK ||
            mp_plan_check(graph, plan, &err) != MP_OK)
            fail_msg("%s: %s", cases[k].mesh, err.message);
        free(all);
        mp_plan_free(plan);
        mp_graph_free(graph);
    }
}

/* ---- refusals ---- */

static void refuse(const char *text, const char *mesh, const char *message)
{
    mp_model *model = model_of(text, 1);
    const mp_ranks ranks = ranks_of(mesh);
    mp_error err = {0};
    assert_int_equal(mp_model_spread_experts(model, &ranks.mesh, &err), MP_INVALID);
    assert_string_equal(err.message, message);
    mp_model_free(model);
}

TEST(says_what_does_not_go)
{
    refuse(mlp, "dp=3,ep=3", "the mesh has ep=3, which does not divide the 4 experts of 'a' in h/op; choose a divisor");
    refuse("param w 16 16; MatMul x w -> h; Tanh h -> y; out y", "dp=2,ep=2",
           "the mesh has ep=2, but the network has no experts (products with a stack of matrices); omit ep");
}

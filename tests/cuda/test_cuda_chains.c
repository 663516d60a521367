/* test_cuda_chains.c - steps that the GPU runs as one launch give the bits of the separate calls, in plans with and without
 * recomputation. Uses the GPU's twin. Dead memory is overwritten. */
#include <math.h>

#include "executor/kernel/chain.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/onnx_builder.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 3, DEPTH = 16, CLASSES = 521 };

/* The twin, whose chains are counted. */
static mp_backend *twin, counted;
static int n_chains[MP_CHAIN_LINKS + 1][2]; /* per number of links: forward, backward */

static mp_call_chain_run count_chain(const mp_backend *self, mp_call_chain *chain)
{
    const mp_call_chain_run run = twin->chain(self, chain);
    if (run) n_chains[chain->n][chain->links[0].x->is_backward]++;
    return run;
}

static void put(onnx_builder *b, const char *name, const char *dims, int n, float scale, float base)
{
    float *data = mp_pool_alloc(b->pool, (size_t)n, sizeof *data);
    for (int k = 0; k < n; k++) data[k] = base + scale * (float)sin(7 * k + name[0] + 3 * name[1]);
    onnx_raw(onnx_initializer(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims), data, (size_t)n * sizeof *data);
}

static void normalize(onnx_builder *b, const char *node, const char *inputs, const char *output)
{
    onnx_int(b, onnx_node(b, "LayerNormalization", node, inputs, output), "axis", -1);
}

/* A network with the sum of embeddings of tokens, types and positions, its normalization and a dropout. Three blocks with a
 * residual addition follow. The first has a dropout before the addition and a normalization after it. In the second, the
 * addition reads the sum before that normalization. The third has no dropout. `classes`: the output is scores of classes. */
static const char *network(onnx_builder *b, bool classes)
{
    static const bool yes = true;
    static const char *const w[] = {"w0", "w1", "w2", "w3"};
    onnx_start(b);
    onnx_input(b, "tokens", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, "2,40");
    onnx_input(b, "types", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, "2,40");
    put(b, "table", "30,16", 30 * DEPTH, 0.5f, 0);
    put(b, "kinds", "2,16", 2 * DEPTH, 0.5f, 0);
    put(b, "places", "40,16", 40 * DEPTH, 0.5f, 0);
    for (int k = 0; k < 4; k++) put(b, w[k], "16,16", DEPTH * DEPTH, 0.25f, 0);
    put(b, "g", "16", DEPTH, 0.1f, 1);
    put(b, "h", "16", DEPTH, 0.1f, 1);
    put(b, "b", "16", DEPTH, 0.1f, 0);
    put(b, "ratio", "", 1, 0, 0.3f);
    onnx_raw(onnx_initializer(b, "training", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, ""), &yes, 1);
    onnx_node(b, "Gather", "find", "table,tokens", "e1");
    onnx_node(b, "Gather", "type", "kinds,types", "e2");
    onnx_node(b, "Add", "add", "e1,e2", "e3");
    onnx_node(b, "Add", "place", "places,e3", "e4");
    normalize(b, "norm", "e4,g,b", "e5");
    onnx_node(b, "Dropout", "drop", "e5,ratio,training", "e6");
    onnx_node(b, "MatMul", "embed", "e6,w0", "x0");
    onnx_node(b, "MatMul", "first", "x0,w1", "a1");
    onnx_node(b, "Dropout", "drop1", "a1,ratio,training", "d1");
    onnx_node(b, "Add", "add1", "x0,d1", "s1");
    normalize(b, "norm1", "s1,g,b", "y1");
    onnx_node(b, "MatMul", "second", "y1,w2", "a2");
    onnx_node(b, "Dropout", "drop2", "a2,ratio,training", "d2");
    onnx_node(b, "Add", "add2", "d2,s1", "s2");
    normalize(b, "norm2", "s2,h", "y2");
    onnx_node(b, "MatMul", "third", "y2,w3", "a3");
    onnx_node(b, "Add", "add3", "y2,a3", "s3");
    normalize(b, "norm3", "s3,g,b", classes ? "y3" : "output");
    if (classes) put(b, "w4", "521,16", DEPTH * CLASSES, 0.25f, 0);
    if (classes) onnx_node(b, "Transpose", "turn", "w4", "v4");
    if (classes) onnx_node(b, "MatMul", "scores", "y3,v4", "output");
    onnx_output(b, "output", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, classes ? "2,40,521" : "2,40,16");
    return onnx_save(b);
}

static training_outcome run(training_case *t, const mp_plan *plan, const mp_execution_options *options)
{
    memset(n_chains, 0, sizeof n_chains);
    return training_outcome_of(t, plan, options, STEPS);
}

static void check(const char *path, bool classes, mp_dtype dtype, int accumulate)
{
    const mp_training_options options = {.loss = classes ? MP_LOSS_CROSS_ENTROPY : MP_LOSS_MSE,
                                         .optimizer = MP_OPTIMIZER_ADAMW,
                                         .dtype = dtype,
                                         .accumulate = accumulate};
    const mp_execution_options chained = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 3, .poison = true};
    mp_execution_options guarded = chained, single = chained;
    guarded.guards = true;
    single.one_by_one = true;
    training_case t = training_begin_on(&counted, path, 0, &options);
    for (int part = 10; part >= 2; part -= 4) {
        mp_plan *plan = part == 10 ? training_keep_all(&t) : training_plan(&t, part / 10.0);
        const training_outcome alone = run(&t, plan, &single);
        assert_int_equal(n_chains[2][0] + n_chains[2][1] + n_chains[3][0], 0);
        const training_outcome packed = run(&t, plan, &chained), spread = run(&t, plan, &guarded);
        if (!training_outcomes_are_same(&alone, &packed) || !training_outcomes_are_same(&alone, &spread))
            fail_msg("chains change the result: %s, accumulate %d, budget %d0 %%: losses %.9g, %.9g, %.9g",
                     mp_dtype_name(dtype), accumulate, part, alone.losses[0], packed.losses[0], spread.losses[0]);
        /* with guards all addresses are disjoint, so that every chain is found */
        if (part == 10) assert_true(n_chains[3][0] == 4 && n_chains[2][0] == 1 + classes && n_chains[2][1] == 3);
        mp_plan_free(plan);
    }
    training_end(&t);
}

TEST(chains_have_the_bits_of_separate_calls)
{
    mp_error err = {0};
    if (!(twin = backend_twin(&err))) fail_msg("%s", err.message);
    counted = *twin;
    counted.chain = count_chain;
    for (int k = 0; k < 8; k++) {
        onnx_builder b;
        const char *path = network(&b, k & 1);
        check(path, k & 1, k & 2 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, k & 4 ? 2 : 1);
        onnx_end(&b);
    }
    twin->close(twin);
}

/* If a plan recomputes an operator, its backward directly follows its forward. Only a loss may merge both into one launch,
 * because other calls have a different state structure. */
TEST(a_recomputed_operator_is_not_taken_for_a_loss)
{
    mp_error err = {0};
    if (!(twin = backend_twin(&err))) fail_msg("%s", err.message);
    mp_operator op = {.op = mp_op_find("", "Gelu", 20)};
    mp_operands forward = {.op = &op}, backward = {.op = &op, .is_backward = true};
    const mp_call calls[2] = {{0}};
    mp_call_chain chain = {.n = 2, .links = {{.call = &calls[0], .x = &forward}, {.call = &calls[1], .x = &backward}}};
    assert_null(twin->chain(twin, &chain));
    twin->close(twin);
}

/* An operand of one call may be at the address of another call's result, but may not overlap it otherwise. */
TEST(addresses_decide_about_a_chain)
{
    static const struct {
        int64_t from, result, workspace;
        bool is_safe;
    } cases[] = {{0, 256, 512, true}, {0, 0, 512, true}, {0, 64, 512, false}, {0, 256, 64, false}, {0, 256, 0, false}};
    static char memory[1024];
    const int64_t n = 32;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_array first[2], second[2];
        for (int i = 0; i < 2; i++) first[i] = second[i] = mp_array_plain(MP_DTYPE_FLOAT, 1, &n);
        first[0].data = memory + cases[k].from;
        first[1].data = second[0].data = memory + 768;
        second[1].data = memory + cases[k].result;
        const mp_call call = {.workspace_bytes = 128}, without = {0};
        mp_operands a = {.n_in = 1, .n_out = 1, .in = &first[0], .out = &first[1]},
                    c = {.n_in = 1, .n_out = 1, .in = &second[0], .out = &second[1], .workspace = memory + cases[k].workspace};
        const mp_call_chain chain = {2, {{&without, &a, true, true}, {&call, &c, true, true}}};
        assert_int_equal(mp_call_chain_is_safe(&chain), cases[k].is_safe);
    }
}

int main(void)
{
    return test_run(NULL, NULL);
}

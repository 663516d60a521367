/* test_split_values.c - the ranks together compute the same numbers as one device: blocks of networks and random models. */
#include "estimator/parallel/split.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

/* Counts the exchanges of each kind in all cases. */
static int n_seen[6];
static const char *const kinds[] = {"AllReduce", "Replicate", "AllGather", "ReduceScatter", "Assemble", "TakePart"};

static void check(const char *text, const char *mesh)
{
    mp_model *whole = model_text(text), *part = model_text(text);
    mp_ranks ranks = {0};
    mp_split split;
    mp_error err = {0};
    assert_int_equal(mp_mesh_read(mesh, &ranks.mesh, NULL), MP_OK);
    if (mp_model_split(part, &ranks, &split, &err) != MP_OK) fail_msg("%s", err.message);
    const int y = whole->outputs[0];
    double *alone = interpret(whole, y), *together = interpret_ranks(whole, part, &split, y);
    assert_true(alone && together);
    for (int64_t k = 0; k < mp_tensor_elements(&whole->tensors[y]); k++)
        if (!(fabs(alone[k] - together[k]) <= 1e-9))
            fail_msg("%s\n%s: element %d is %.12g, and of the ranks %.12g", text, mesh, (int)k, alone[k], together[k]);
    for (size_t k = 0; k < part->n_operators; k++)
        for (int j = 0; j < 6; j++) n_seen[j] += !part->operators[k].removed && !strcmp(part->operators[k].kind, kinds[j]);
    free(alone);
    free(together);
    mp_split_free(&split);
    mp_model_free(whole);
    mp_model_free(part);
}

static void check_all(const char *text)
{
    static const char *const meshes[] = {"tp=2,sp=0", "tp=2,sp=1", "tp=4,sp=0", "tp=4,sp=1", "tp=2,data=1", "tp=4,data=1"};
    for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) check(text, meshes[k]);
}

TEST(an_mlp)
{
    check_all("data x 4 8 16; param a 16 32; param b 32; param c 32 16; param d 16;"
              "MatMul x a -> h; Add h b -> i; Gelu@20 i -> g; MatMul g c -> m; Add m d -> o; Add o x -> r; Tanh r -> y; out y");
    check_all("data x 8 16; param a 16 32; param b 32; param c 32 4; param d 4;"
              "Gemm x a b -> h; Tanh h -> g; Gemm g c d -> o; Tanh o -> y; out y");
}

/* The lines of all samples in one matrix; each rank has a part of every sample. Also a sum over ranks that only changes shape.
 */
TEST(lines_of_samples)
{
    check_all(
        "data x 4 8 16; param a 16 32; param c 32 16; param e 16 32; param f 32 16; param s 16; param t 16;"
        "ints lines 32 16; ints back 4 8 16; Reshape x lines -> l; MatMul l a -> h; Tanh h -> g; MatMul g c -> m; Add m l -> p;"
        "LayerNormalization p s t -> n; MatMul n e -> q; Tanh q -> r; MatMul r f -> u; Reshape u back -> v; Add v x -> z;"
        "Reshape z lines -> o; Tanh o -> y; out y");
}

/* Four heads, divisible by 2 and 4 ranks; and two heads, not divisible by 4. */
TEST(a_block_of_attention)
{
    char text[2048];
    for (int heads = 2; heads <= 4; heads *= 2) {
        snprintf(text, sizeof text,
                 "data x 4 8 16; param s 16; param t 16; param wq 16 16; param wk 16 16; param wv 16 16; param wo 16 16;"
                 "param a 16 32; param c 32 16; param u 16; param v 16; ints heads 4 8 %d %d; ints flat 4 8 16;"
                 "LayerNormalization x s t -> n; MatMul n wq -> q; MatMul n wk -> k; MatMul n wv -> w;"
                 "Reshape q heads -> q4; Reshape k heads -> k4; Reshape w heads -> w4;"
                 "Transpose q4 -> qt perm=[0,2,1,3]; Transpose k4 -> kt perm=[0,2,3,1]; Transpose w4 -> wt perm=[0,2,1,3];"
                 "MatMul qt kt -> z; Softmax z -> p axis=-1; MatMul p wt -> o4; Transpose o4 -> ot perm=[0,2,1,3];"
                 "Reshape ot flat -> o; MatMul o wo -> m; Add m x -> r;"
                 "LayerNormalization r u v -> n2; MatMul n2 a -> h; Gelu@20 h -> g; MatMul g c -> d; Add d r -> e; Tanh e -> "
                 "y; out y",
                 heads, 16 / heads);
        check_all(text);
    }
}

/* An operator reads a weight whole. A later operator reads the transposed weight. The weight is not split for it; the later
 * operator takes its part. */
TEST(a_weight_that_was_read_whole)
{
    check_all("data x 8 16; param w 16 16; Softmax w -> p axis=-1; Transpose w -> t perm=[1,0]; MatMul x t -> h;"
              "MatMul h p -> o; Tanh o -> y; out y");
}

/* A chain of operators on tensors of 4 x 8 x 16. Each reads an earlier result. */
TEST(random_models)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        random_source random = {seed};
        char text[4096];
        size_t n = (size_t)snprintf(text, sizeof text, "data v0 4 8 16; ");
        const int length = 3 + random_below(&random, 10);
        for (int k = 1; k <= length; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "param w%d 16 16; param b%d 16; param s%d 16; ", k, k, k);
        for (int k = 1; k <= length; k++) {
            const int last = k - 1, other = random_below(&random, k);
            switch (random_below(&random, 9)) {
            case 0:
            case 1:
                n += (size_t)snprintf(text + n, sizeof text - n, "MatMul v%d w%d -> v%d; ", last, k, k);
                break;
            case 2:
                n += (size_t)snprintf(text + n, sizeof text - n, "Add v%d b%d -> v%d; ", last, k, k);
                break;
            case 3:
                n += (size_t)snprintf(text + n, sizeof text - n, "Add v%d v%d -> v%d; ", last, other, k);
                break;
            case 4:
                n += (size_t)snprintf(text + n, sizeof text - n, "Mul v%d v%d -> v%d; ", other, last, k);
                break;
            case 5:
                n += (size_t)snprintf(text + n, sizeof text - n, "LayerNormalization v%d s%d b%d -> v%d; ", last, k, k, k);
                break;
            case 6:
                n += (size_t)snprintf(text + n, sizeof text - n, "Softmax v%d -> v%d axis=-1; ", last, k);
                break;
            case 7:
                n += (size_t)snprintf(text + n, sizeof text - n,
                                      "ReduceMean@13 v%d -> m%d axes=[2] keepdims=1; Sub v%d m%d -> v%d; ", last, k, other, k,
                                      k);
                break;
            default:
                n += (size_t)snprintf(text + n, sizeof text - n, "Tanh v%d -> v%d; ", last, k);
            }
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "Tanh v%d -> y; out y", length);
        assert_true(n < sizeof text);
        check_all(text);
    }
    for (int j = 0; j < 6; j++)
        if (n_seen[j] < 20) fail_msg("%d of %s", n_seen[j], kinds[j]);
}

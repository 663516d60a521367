/* layers_experts.c - a mixture of experts with a balanced load; input and output are (batch, sequence, width).
 *
 * With T tokens, k experts per token and E experts:
 *
 *     1. the router's softmax over E chooses k experts per token; their weights are normalized to sum 1
 *     2. the T k choices are sorted by expert; with a balanced load each expert has T k / E consecutive choices
 *     3. the tokens of the sorted choices are gathered into (E, T k / E, width) and multiplied by the stacked weights
 *     4. each result is multiplied by the weight of its choice, and added at the position of its token
 */
#include "estimator/architectures/layers.h"

/* Multiplies the tokens of each expert by the matrix of this expert in the stacked parameter MODULE.weight. Returns the
 * result. */
static int product(mp_sketch *n, const char *module, const char *weight, int x, int64_t in, int64_t out)
{
    const int stack = mp_sketch_parameter(n, weight, 3, (int64_t[]){n->shape->experts, in, out});
    return mp_sketch_of_two(n, module, "MatMul", x, stack);
}

int mp_layers_experts(mp_sketch *n, int x)
{
    const mp_architecture *a = n->shape;
    const mp_attribute last = mp_attribute_int("axis", -1), first = mp_attribute_int("axis", 0),
                       ascending = mp_attribute_int("largest", 0),
                       add = {.name = "reduction", .kind = MP_ATTRIBUTE_TEXT, .text = "add"};
    int best[2], sorted[2];

    const int tokens = mp_sketch_of_two(n, "mlp", "Reshape", x, mp_sketch_list(n, "mlp", 2, (int64_t[]){-1, a->width}));
    const int logits = mp_sketch_linear(n, "mlp/router", tokens, a->width, a->experts, false);
    const int softmax = mp_sketch_put(n, "mlp/router", "Softmax", &logits, 1, &last, 1);
    const int k = mp_sketch_list(n, "mlp/router", 1, &a->experts_per_token);
    mp_sketch_put_all(n, "mlp/router", "TopK", (int[]){softmax, k}, 2, &last, 1, best, 2);
    const int along = mp_sketch_list(n, "mlp/router", 1, (int64_t[]){-1});
    const int sum = mp_sketch_of_two(n, "mlp/router", "ReduceSum", best[0], along);
    const int weights = mp_sketch_of_two(n, "mlp/router", "Div", best[0], sum);

    const int expert = mp_sketch_of_two(n, "mlp/router", "Reshape", best[1], along);
    const int all = mp_sketch_of(n, "mlp/router", "Shape", expert);
    mp_sketch_put_all(n, "mlp/router", "TopK", (int[]){expert, all}, 2, &ascending, 1, sorted, 2);
    const int per_token = mp_sketch_integers(n, "mlp/router", 0, NULL, &a->experts_per_token);
    const int token = mp_sketch_of_two(n, "mlp/router", "Div", sorted[1], per_token);

    const int gathered = mp_sketch_put(n, "mlp", "Gather", (int[]){tokens, token}, 2, &first, 1);
    const int by_expert = mp_sketch_list(n, "mlp", 3, (int64_t[]){a->experts, -1, a->width});
    const int parts = mp_sketch_of_two(n, "mlp", "Reshape", gathered, by_expert);
    const int gate = product(n, "mlp/gate", "mlp.gate.weight", parts, a->width, a->feed_forward);
    const int up = product(n, "mlp/up", "mlp.up.weight", parts, a->width, a->feed_forward);
    const int inner = mp_sketch_of_two(n, "mlp", "Mul", mp_sketch_of(n, "mlp/gate", "Swish", gate), up);
    const int down = product(n, "mlp/down", "mlp.down.weight", inner, a->feed_forward, a->width);

    const int flat = mp_sketch_of_two(n, "mlp/router", "Reshape", weights, along);
    const int ordered = mp_sketch_put(n, "mlp/router", "Gather", (int[]){flat, sorted[1]}, 2, &first, 1);
    const int each = mp_sketch_list(n, "mlp/router", 3, (int64_t[]){a->experts, -1, 1});
    const int weighted = mp_sketch_of_two(n, "mlp", "Mul", down, mp_sketch_of_two(n, "mlp/router", "Reshape", ordered, each));
    const int rows = mp_sketch_of_two(n, "mlp", "Reshape", weighted, mp_sketch_list(n, "mlp", 2, (int64_t[]){-1, a->width}));
    const int zeros = mp_sketch_of(n, "mlp", "ConstantOfShape", mp_sketch_of(n, "mlp", "Shape", tokens));
    const int where = mp_sketch_of_two(n, "mlp/router", "Unsqueeze", token, along);
    const int summed = mp_sketch_put(n, "mlp", "ScatterND", (int[]){zeros, where, rows}, 3, &add, 1);
    const int whole = mp_sketch_list(n, "mlp", 3, (int64_t[]){-1, n->sequence, a->width});
    return mp_sketch_of_two(n, "mlp", "Reshape", summed, whole);
}

/* layers.c - attention and mlp, built from the same operators that PyTorch's exporter writes. */
#include "estimator/architectures/layers.h"

#include <math.h>
#include <stdio.h>

enum { QUERY, KEY, VALUE, OPERANDS, NAME_MAX_BYTES = 32 };

static bool is_rotary(const mp_sketch *n)
{
    return n->shape->family == MP_FAMILY_LLAMA;
}

static bool has_biases(const mp_sketch *n)
{
    return n->shape->family != MP_FAMILY_LLAMA && n->shape->family != MP_FAMILY_T5;
}

/* Writes and returns the name "MODULE/PART". */
static const char *part_of(const char *module, const char *part, char text[NAME_MAX_BYTES])
{
    snprintf(text, NAME_MAX_BYTES, "%s/%s", module, part);
    return text;
}

static int number(mp_sketch *n, const char *module, double value)
{
    return mp_sketch_numbers(n, module, 0, NULL, &value);
}

/* Builds the causal mask: true (the score is kept) if the position of the key is not after the position of the query. */
static void share_mask(mp_sketch *n)
{
    const int64_t rows[] = {n->sequence, 1}, columns[] = {1, n->sequence};
    MP_OWNED int64_t *positions = mp_alloc((size_t)n->sequence, sizeof *positions);
    if (!positions) {
        n->status = MP_FAIL(n->err, MP_NOMEM, "no memory for %lld positions", (long long)n->sequence);
        return;
    }
    for (int64_t k = 0; k < n->sequence; k++) positions[k] = k;
    const int row = mp_sketch_integers(n, "mask", 2, rows, positions);
    const int column = mp_sketch_integers(n, "mask", 2, columns, positions);
    n->mask = mp_sketch_of_two(n, "mask", "GreaterOrEqual", row, column);
    n->hidden = number(n, "mask", -INFINITY);
}

/* Builds the angles of rotary positions (Su et al. 2021): element k of a head turns by the position times 10000^(-2k/depth),
 * where depth is the size of a head. Both halves of a head use the same angles. */
static void share_angles(mp_sketch *n)
{
    const int64_t half = n->depth / 2, rows[] = {n->sequence, 1};
    MP_OWNED double *numbers = mp_alloc((size_t)(n->sequence > half ? n->sequence : half), sizeof *numbers);
    const mp_attribute last = mp_attribute_int("axis", -1);
    if (!numbers) {
        n->status = MP_FAIL(n->err, MP_NOMEM, "no memory for %lld positions", (long long)n->sequence);
        return;
    }
    for (int64_t k = 0; k < half; k++) numbers[k] = pow(10000, -(double)k / (double)half);
    const int frequency = mp_sketch_numbers(n, "rotary", 1, &half, numbers);
    for (int64_t k = 0; k < n->sequence; k++) numbers[k] = (double)k;
    const int position = mp_sketch_numbers(n, "rotary", 2, rows, numbers);
    const int angle = mp_sketch_of_two(n, "rotary", "Mul", position, frequency);
    const int both = mp_sketch_put(n, "rotary", "Concat", (int[]){angle, angle}, 2, &last, 1);
    n->cosine = mp_sketch_of(n, "rotary", "Cos", both);
    n->sine = mp_sketch_of(n, "rotary", "Sin", both);
}

/* Relative positions (Raffel et al. 2020): each small distance between query and key has its own row of the bias table. Larger
 * distances share rows, in ranges that grow with the distance. ROWS: number of rows. FARTHEST: distance from which on all
 * distances share the last row. */
enum { ROWS = 32, FARTHEST = 128 }; /* all distances beyond the largest range share the last row */

/* Returns the row of the bias table for a key `distance` positions after the query. Computed in single precision, as in
 * transformers. */
static int64_t row_of(int64_t distance, bool is_causal)
{
    const int64_t rows = is_causal ? ROWS : ROWS / 2, exact = rows / 2, first = !is_causal && distance > 0 ? rows : 0;
    const int64_t far = !is_causal && distance > 0 ? distance : distance < 0 ? -distance : 0;
    if (far < exact) return first + far;
    const float share = logf((float)far / (float)exact) / (float)log((double)FARTHEST / (double)exact) * (float)(rows - exact);
    const int64_t row = exact + (int64_t)share;
    return first + (row < rows ? row : rows - 1);
}

int mp_layers_distances(mp_sketch *n, const char *stack)
{
    const int64_t length = n->sequence, rows[] = {length, 1}, columns[] = {1, length}, table[] = {ROWS, n->shape->heads};
    MP_OWNED int64_t *numbers = mp_alloc((size_t)(2 * length), sizeof *numbers);
    char module[32], name[32];
    if (!numbers) {
        n->status = MP_FAIL(n->err, MP_NOMEM, "no memory for %lld distances", (long long)(2 * length));
        return -1;
    }
    snprintf(module, sizeof module, "%s/distances", stack);
    for (int64_t k = 0; k < 2 * length - 1; k++) numbers[k] = row_of(k - (length - 1), n->is_causal);
    const int row_of_distance = mp_sketch_list(n, module, 2 * length - 1, numbers);
    for (int64_t k = 0; k < length; k++) numbers[k] = k;
    const int query = mp_sketch_integers(n, module, 2, rows, numbers);
    /* offset that is added to the distances between query and key, so that all are >= 0 */
    for (int64_t k = 0; k < length; k++) numbers[k] = k + length - 1;
    const int key = mp_sketch_integers(n, module, 2, columns, numbers);
    const int distance = mp_sketch_of_two(n, module, "Sub", key, query);
    const int row = mp_sketch_of_two(n, module, "Gather", row_of_distance, distance);
    snprintf(name, sizeof name, "%s.distances.weight", stack);
    const int all = mp_sketch_of_two(n, module, "Gather", mp_sketch_parameter(n, name, 2, table), row);
    const int by_head = mp_sketch_transpose(n, module, all, (int64_t[]){2, 0, 1}, 3);
    return mp_sketch_of_two(n, module, "Unsqueeze", by_head, mp_sketch_list(n, module, 1, (int64_t[]){0}));
}

void mp_layers_share(mp_sketch *n)
{
    const mp_architecture *a = n->shape;
    const int64_t depth = n->depth, groups = a->heads / a->key_value_heads;
    if (a->dropout > 0) {
        n->ratio = number(n, "dropout", a->dropout);
        n->training = mp_sketch_truth(n, "dropout", true);
    }
    if (a->family != MP_FAMILY_T5)
        n->scale = number(n, "attention", pow((double)depth, a->attention_dropout > 0 ? -0.5 : -0.25));
    n->split_heads = n->split_pairs = mp_sketch_list(n, "attention", 4, (int64_t[]){0, 0, a->heads, depth});
    n->merge_heads = mp_sketch_list(n, "attention", 3, (int64_t[]){0, 0, a->heads * depth});
    if (groups > 1) {
        n->split_pairs = mp_sketch_list(n, "attention", 4, (int64_t[]){0, 0, a->key_value_heads, depth});
        n->repeat = mp_sketch_list(n, "attention", 5, (int64_t[]){1, 1, groups, 1, 1});
        n->join_groups = mp_sketch_list(n, "attention", 4, (int64_t[]){0, a->heads, n->sequence, depth});
    }
    n->is_causal = a->family == MP_FAMILY_GPT || a->family == MP_FAMILY_LLAMA;
    if (n->is_causal || a->family == MP_FAMILY_T5) share_mask(n);
    if (is_rotary(n)) share_angles(n);
}

/* Moves the dimension of the heads forward: (batch, sequence, heads * depth) -> (batch, heads, sequence, depth). `norms`: first
 * normalizes each head. */
static int by_heads(mp_sketch *n, const char *module, int x, int shape, bool norms)
{
    char name[2 * NAME_MAX_BYTES];
    int split = mp_sketch_of_two(n, module, "Reshape", x, shape);
    snprintf(name, sizeof name, "%s/norm", module);
    if (norms) split = mp_sketch_norm_of(n, name, split, n->depth);
    return mp_sketch_transpose(n, module, split, (int64_t[]){0, 2, 1, 3}, 4);
}

/* Rotates the pairs (k, k + depth / 2) of each head by the angle of the position. */
static int rotated(mp_sketch *n, const char *module, int x)
{
    const mp_attribute halves[] = {mp_attribute_int("axis", -1), mp_attribute_int("num_outputs", 2)};
    int half[2];
    mp_sketch_put_all(n, module, "Split", &x, 1, halves, 2, half, 2);
    const int turned =
        mp_sketch_put(n, module, "Concat", (int[]){mp_sketch_of(n, module, "Neg", half[1]), half[0]}, 2, &halves[0], 1);
    const int left = mp_sketch_of_two(n, module, "Mul", x, n->cosine);
    const int right = mp_sketch_of_two(n, module, "Mul", turned, n->sine);
    return mp_sketch_of_two(n, module, "Add", left, right);
}

/* Repeats each head of keys or values for every query head that shares it. */
static int for_groups(mp_sketch *n, const char *module, int x)
{
    if (n->repeat < 0) return x;
    const int one = mp_sketch_list(n, module, 1, (int64_t[]){2});
    const int apart = mp_sketch_of_two(n, module, "Unsqueeze", x, one);
    const int repeated = mp_sketch_of_two(n, module, "Expand", apart, n->repeat);
    return mp_sketch_of_two(n, module, "Reshape", repeated, n->join_groups);
}

/* Adds the products that give queries (from x), and keys and values (from `memory`). They are one fused product, or three
 * products. */
static void project(mp_sketch *n, const char *module, int x, int memory, int out[OPERANDS])
{
    static const char *const names[OPERANDS] = {"query", "key", "value"};
    const mp_architecture *a = n->shape;
    char name[NAME_MAX_BYTES];
    if (a->family == MP_FAMILY_GPT) {
        const mp_attribute thirds[] = {mp_attribute_int("axis", -1), mp_attribute_int("num_outputs", OPERANDS)};
        const int64_t widths[OPERANDS] = {a->heads * n->depth, a->key_value_heads * n->depth, a->key_value_heads * n->depth};
        const bool even = a->heads == a->key_value_heads;
        part_of(module, "qkv", name);
        const int joint = mp_sketch_linear(n, name, x, a->width, widths[QUERY] + widths[KEY] + widths[VALUE], true);
        const int in[] = {joint, even ? -1 : mp_sketch_list(n, name, OPERANDS, widths)};
        mp_sketch_put_all(n, name, "Split", in, even ? 1 : 2, thirds, even ? 2 : 1, out, OPERANDS);
    }
    for (int k = 0; k < OPERANDS; k++) {
        const int64_t heads = k == QUERY ? a->heads : a->key_value_heads;
        part_of(module, names[k], name);
        if (a->family != MP_FAMILY_GPT)
            out[k] = mp_sketch_linear(n, name, k == QUERY ? x : memory, a->width, heads * n->depth, has_biases(n));
        out[k] = by_heads(n, name, out[k], k == QUERY ? n->split_heads : n->split_pairs, n->shape->norms_heads && k != VALUE);
        if (is_rotary(n) && k != VALUE) out[k] = rotated(n, name, out[k]);
        if (k != QUERY) out[k] = for_groups(n, name, out[k]);
    }
}

/* Computes the scores of all pairs of positions. Without dropout, queries and keys are each multiplied by the root of the
 * scale, as in the export of F.scaled_dot_product_attention. With dropout the scores themselves are scaled, as in attention
 * that a program computes by separate operators. */
static int scores(mp_sketch *n, const char *module, const int part[OPERANDS])
{
    const int turned = mp_sketch_transpose(n, module, part[KEY], (int64_t[]){0, 1, 3, 2}, 4);
    if (n->shape->attention_dropout > 0 || n->scale < 0) {
        const int product = mp_sketch_of_two(n, module, "MatMul", part[QUERY], turned);
        return n->scale < 0 ? product : mp_sketch_of_two(n, module, "Mul", product, n->scale);
    }
    const int queries = mp_sketch_of_two(n, module, "Mul", part[QUERY], n->scale);
    const int keys = mp_sketch_of_two(n, module, "Mul", turned, n->scale);
    return mp_sketch_of_two(n, module, "MatMul", queries, keys);
}

/* Builds attention in which x gives the queries and `memory` gives keys and values. Mask and position bias are used only in
 * self-attention (memory equals x). */
static int attend(mp_sketch *n, const char *module, int x, int memory)
{
    const mp_attribute last = mp_attribute_int("axis", -1);
    int part[OPERANDS];
    char name[NAME_MAX_BYTES];
    project(n, module, x, memory, part);
    int shown = scores(n, module, part);
    if (n->is_causal && memory == x) shown = mp_sketch_put(n, module, "Where", (int[]){n->mask, shown, n->hidden}, 3, NULL, 0);
    if (n->bias >= 0 && memory == x) shown = mp_sketch_of_two(n, module, "Add", shown, n->bias);
    const int softmax = mp_sketch_put(n, module, "Softmax", &shown, 1, &last, 1);
    const int kept = n->shape->attention_dropout > 0 ? mp_sketch_dropout(n, module, softmax) : softmax;
    const int mixed = mp_sketch_of_two(n, module, "MatMul", kept, part[VALUE]);
    const int back = mp_sketch_transpose(n, module, mixed, (int64_t[]){0, 2, 1, 3}, 4);
    const int merged = mp_sketch_of_two(n, module, "Reshape", back, n->merge_heads);
    return mp_sketch_linear(n, part_of(module, "output", name), merged, n->shape->heads * n->depth, n->shape->width,
                            has_biases(n));
}

static int attention(mp_sketch *n, int x)
{
    return attend(n, "attention", x, x);
}

static int cross(mp_sketch *n, int x)
{
    return attend(n, "cross", x, n->memory);
}

static int feed_forward(mp_sketch *n, int x)
{
    const mp_architecture *a = n->shape;
    const mp_attribute by_tanh = {.name = "approximate", .kind = MP_ATTRIBUTE_TEXT, .text = "tanh"};
    int inner;
    if (a->experts) return mp_layers_experts(n, x);
    if (a->family == MP_FAMILY_LLAMA) {
        const int gate = mp_sketch_linear(n, "mlp/gate", x, a->width, a->feed_forward, false);
        const int up = mp_sketch_linear(n, "mlp/up", x, a->width, a->feed_forward, false);
        inner = mp_sketch_of_two(n, "mlp", "Mul", mp_sketch_of(n, "mlp/gate", "Swish", gate), up);
    } else if (a->family == MP_FAMILY_T5) {
        const int up = mp_sketch_linear(n, "mlp/up", x, a->width, a->feed_forward, false);
        inner = mp_sketch_dropout(n, "mlp/up", mp_sketch_of(n, "mlp", "Relu", up));
    } else {
        const int up = mp_sketch_linear(n, "mlp/up", x, a->width, a->feed_forward, true);
        inner = mp_sketch_put(n, "mlp", "Gelu", &up, 1, &by_tanh, a->family == MP_FAMILY_GPT ? 1 : 0);
    }
    return mp_sketch_linear(n, "mlp/down", inner, a->feed_forward, a->width, has_biases(n));
}

/* Adds attention or mlp to a layer, with normalization and residual connection. Depending on the family, the normalization
 * precedes the attention or mlp, or follows the residual sum. */
static int around(mp_sketch *n, const char *module, const char *norm, int (*part)(mp_sketch *n, int x), int x)
{
    const bool behind = n->shape->family == MP_FAMILY_BERT;
    const int y = mp_sketch_dropout(n, module, part(n, behind ? x : mp_sketch_norm(n, norm, x)));
    const int sum = mp_sketch_of_two(n, module, "Add", x, y);
    return behind ? mp_sketch_norm(n, norm, sum) : sum;
}

int mp_layers_add(mp_sketch *n, int x)
{
    int y = around(n, "attention", "attention/norm", attention, x);
    if (n->memory >= 0) y = around(n, "cross", "cross/norm", cross, y);
    return around(n, "mlp", "mlp/norm", feed_forward, y);
}

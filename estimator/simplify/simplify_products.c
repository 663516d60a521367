/* simplify_products.c - algebra of products: extracts common factors, and fuses transposed parameters and biases into products.
 *
 * A * B + A * C becomes A * (B + C). This saves a product with the size of the result, and backward saves A only once. The sums
 * round differently, so this applies only under the executor's rules. B + C gets the name of the later product, so that all
 * names exist in the file.
 *
 * An exporter writes a Linear layer as a product with a Transpose of its weight, and an addition of its bias. The transposed
 * weight would be an activation of the weight's size. Instead, a product with a transposed operand reads the parameter
 * directly. A separate addition would read and write the whole result once more. Instead, a product with bias adds the bias
 * while it writes. */
#include <string.h>

#include "estimator/simplify/rewrite.h"

/* Returns the product that writes this tensor, if no other operator reads the tensor; -1: none. */
static int only_product(const mp_rewriter *r, int tensor)
{
    return r->n_readers[tensor] == 1 && mp_written_by(r, tensor, "Mul") ? mp_producer(r, tensor) : -1;
}

mp_status mp_rewrite_common_factor(mp_rewriter *r, int index)
{
    mp_model *model = r->model;
    const mp_operator *sum = &model->operators[index];
    if (!mp_is_kind(sum, "Add") || !mp_dtype_is_float(model->tensors[sum->out[0]].dtype)) return MP_OK;
    int left = only_product(r, sum->in[0]), right = only_product(r, sum->in[1]), y = sum->out[0];
    if (left < 0 || right < 0) return MP_OK;
    for (int k = 0; k < 4; k++) {
        int a = model->operators[left].in[k / 2], b = model->operators[left].in[1 - k / 2];
        int c = model->operators[right].in[1 - k % 2];
        if (a != model->operators[right].in[k % 2] || !mp_same_shape(&model->tensors[b], &model->tensors[c])) continue;
        int earlier = left < right ? left : right, later = left < right ? right : left, bc = model->operators[later].out[0];
        mp_operator_draft add = mp_draft("Add", "", 7, (int[]){b, c}, 2, NULL, 0);
        mp_operator_draft multiply = mp_draft("Mul", "", 7, (int[]){a, bc}, 2, NULL, 0);
        int gone = model->operators[earlier].out[0];
        MP_CHECK(mp_rewriter_become(r, later, &add));
        MP_CHECK(mp_rewriter_become(r, index, &multiply));
        mp_rewriter_remove(r, earlier);
        model->tensors[gone].replaced_by = y;
        r->changes++;
        break;
    }
    return MP_OK;
}

/* True if the tensor comes from outside the model (except data), or is a view of such a tensor. */
static bool is_parameter_view(const mp_rewriter *r, int tensor)
{
    for (const mp_operator *view; (view = mp_view(r, tensor));) tensor = view->in[0];
    return !mp_writer(r, tensor) && r->model->tensors[tensor].role != MP_ROLE_DATA;
}

/* If the operand is the transpose of a parameter, returns the parameter; else -1. */
static int transposed_parameter(const mp_rewriter *r, int tensor)
{
    const mp_operator *op = mp_written_by(r, tensor, "Transpose");
    return op && mp_swaps_last_two(r->model, op) && is_parameter_view(r, op->in[0]) ? op->in[0] : -1;
}

static bool is_fused_product(const mp_operator *op)
{
    return !strcmp(op->kind, "FusedMatMul") && (!strcmp(op->domain, "com.microsoft") || !strcmp(op->domain, "memplan"));
}

/* True if the matrix of operand k is its last two dimensions. Exception: a FusedMatMul that transposes the batch has another
 * order of dimensions. */
static bool has_plain_batch(const mp_operator *op, int k)
{
    return !mp_operator_int(op, k == 0 ? "transBatchA" : "transBatchB", 0);
}

mp_status mp_rewrite_transposition(mp_rewriter *r, int index)
{
    static const char *const names[] = {"transA", "transB"};
    MP_OWNED mp_attribute *attributes = NULL;
    const mp_operator *op = &r->model->operators[index];
    bool is_gemm = mp_is_kind(op, "Gemm"), was_transposed[2];
    if (!is_gemm && !mp_is_kind(op, "MatMul") && !is_fused_product(op)) return MP_OK;
    int in[3] = {op->in[0], op->in[1], op->n_in > 2 ? op->in[2] : -1}, n_turned = 0;
    size_t n = 0;
    for (int k = 0; k < 2; k++) {
        int parameter = has_plain_batch(op, k) ? transposed_parameter(r, in[k]) : -1;
        was_transposed[k] = mp_operator_int(op, names[k], 0) != 0;
        if (parameter < 0) continue;
        in[k] = parameter;
        was_transposed[k] = !was_transposed[k];
        n_turned++;
    }
    if (!n_turned) return MP_OK;
    /* copies all attributes of the product except the two that state transposed operands, which are written again */
    MP_ENSURE(attributes = mp_alloc(op->n_attributes + 2, sizeof *attributes), r->err, MP_NOMEM,
              "no memory to rewrite operator '%s'", op->name);
    for (size_t k = 0; k < op->n_attributes; k++)
        if (strcmp(op->attributes[k].name, names[0]) != 0 && strcmp(op->attributes[k].name, names[1]) != 0)
            attributes[n++] = op->attributes[k];
    for (int k = 0; k < 2; k++)
        if (was_transposed[k]) attributes[n++] = mp_attribute_int(names[k], 1);
    const mp_operator_draft draft =
        is_gemm ? mp_draft("Gemm", "", op->version, in, op->n_in, attributes, n)
                : mp_draft("FusedMatMul", op->n_in > 2 ? "memplan" : "com.microsoft", 1, in, op->n_in, attributes, n);
    r->changes += n_turned;
    return mp_rewriter_become(r, index, &draft);
}

/* Returns the product with a parameter matrix that writes this tensor, if no other operator reads the tensor; -1: none. */
static int only_linear(const mp_rewriter *r, int tensor)
{
    int producer = mp_producer(r, tensor);
    if (producer < 0 || r->n_readers[tensor] != 1) return -1;
    const mp_operator *op = &r->model->operators[producer];
    if ((!mp_is_kind(op, "MatMul") && !is_fused_product(op)) || op->n_in != 2) return -1;
    bool is_matrix = mp_operator_in(r->model, op, 0)->rank >= 2 && mp_operator_in(r->model, op, 1)->rank == 2;
    return is_matrix && is_parameter_view(r, op->in[1]) && mp_operator_float(op, "alpha", 1) == 1 ? producer : -1;
}

/* True if the tensor can be the bias of product y: it has one value per column of y and is not data. */
static bool is_bias(const mp_rewriter *r, int tensor, const mp_tensor *y)
{
    const mp_tensor *t = &r->model->tensors[tensor];
    return t->rank == 1 && t->dims[0] == y->dims[y->rank - 1] && is_parameter_view(r, tensor);
}

mp_status mp_rewrite_bias(mp_rewriter *r, int index)
{
    const mp_operator *sum = &r->model->operators[index];
    const mp_tensor *y = mp_operator_out(r->model, sum, 0);
    if (!mp_is_kind(sum, "Add") || !mp_dtype_is_float(y->dtype)) return MP_OK;
    for (int k = 0; k < 2; k++) {
        int product = only_linear(r, sum->in[k]), bias = sum->in[1 - k];
        if (product < 0 || !is_bias(r, bias, mp_operator_out(r->model, &r->model->operators[product], 0))) continue;
        const mp_operator *op = &r->model->operators[product];
        const mp_pattern pattern = {{product, index}, 2};
        const int in[] = {op->in[0], op->in[1], bias};
        const mp_operator_draft draft = mp_draft("FusedMatMul", "memplan", 1, in, 3, op->attributes, op->n_attributes);
        return mp_pattern_fuse(r, &pattern, index, &draft);
    }
    return MP_OK;
}

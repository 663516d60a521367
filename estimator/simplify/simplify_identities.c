/* simplify_identities.c - removes operators that change nothing, and moves views to places where they change nothing.
 *
 * A table states, per operator type, which operand may equal the output. Type and dimensions of the two are always compared.
 * A reshape of a reshape is changed to read the input of the first reshape. If it restores the shape of this input, both
 * reshapes are removed. */
#include <string.h>

#include "estimator/rules/operands/layout.h"
#include "estimator/simplify/rewrite.h"

/* Returns the operand that equals the operator's first output, including type and dimensions; -1: no operand does. */
typedef int (*identity_rule)(const mp_rewriter *r, const mp_operator *op);

/* An Identity with the attribute `copies` is a contiguous copy in PyTorch. PyTorch's rules keep it as an operator that copies;
 * the executor's rules remove it. */
static bool is_copy(const mp_rewriter *r, const mp_operator *op)
{
    return r->rules == MP_RULES_PYTORCH && mp_is_kind(op, "Identity") && mp_operator_int(op, "copies", 0);
}

static int always(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    (void)op;
    return 0;
}

static int input_at(const mp_operator *op, int k)
{
    return k < op->n_in ? op->in[k] : -1;
}

static bool is_constant(const mp_rewriter *r, int tensor, double wanted)
{
    double c;
    return mp_known_scalar(r, tensor, &c) && c == wanted;
}

/* True for the dropout inside PyTorch's own attention. The TorchScript exporter writes this dropout only if the network is
 * in training mode, but never marks it as active. PyTorch's rules therefore treat it as active. */
static bool is_in_pytorchs_attention(const mp_rewriter *r, const mp_operator *op)
{
    const mp_operator *before = mp_writer(r, op->in[0]);
    if (r->rules != MP_RULES_PYTORCH || input_at(op, 2) >= 0 || !before) return false;
    const char *kind = before->kind;
    return !strcmp(kind, "Softmax") || !strcmp(kind, "SafeSoftmax") || !strcmp(kind, "Where");
}

/* since version 12 an input states whether dropout is active, before version 7 the attribute is_test. In between, dropout is
 * active in training */
static int dropout(const mp_rewriter *r, const mp_operator *op)
{
    if (op->version >= 12 && is_in_pytorchs_attention(r, op)) return is_constant(r, input_at(op, 1), 0) ? 0 : -1;
    if (op->version >= 12)
        return input_at(op, 2) < 0 || is_constant(r, op->in[2], 0) || is_constant(r, input_at(op, 1), 0) ? 0 : -1;
    if (op->version < 7 && mp_operator_int(op, "is_test", 0)) return 0;
    return mp_operator_float(op, "ratio", 0.5) == 0 ? 0 : -1;
}

static int one_operand(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    return op->n_in == 1 ? 0 : -1;
}

static int one_output(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    return op->n_out == 1 ? 0 : -1;
}

/* Returns 0 (input 0 equals the output) if the Transpose moves only dimensions of size 1; else -1. */
static int transpose(const mp_rewriter *r, const mp_operator *op)
{
    return mp_permutation_moves_ones(r->model, op) ? 0 : -1;
}

/* a slice that keeps every dimension's size keeps every element, unless it reverses the order */
static int slice(const mp_rewriter *r, const mp_operator *op)
{
    int steps = input_at(op, 4);
    if (steps < 0) return 0;
    const mp_value *value = r->model->tensors[steps].value;
    if (!value || value->is_real) return -1;
    for (int64_t k = 0; k < value->n; k++)
        if (value->i[k] < 0) return -1;
    return 0;
}

static int pad(const mp_rewriter *r, const mp_operator *op)
{
    size_t n;
    const int64_t *pads = mp_operator_ints(op, op->version < 2 ? "paddings" : "pads", &n);
    if (op->version >= 11) {
        const mp_value *value = input_at(op, 1) >= 0 ? r->model->tensors[op->in[1]].value : NULL;
        if (!value || value->is_real) return -1;
        pads = value->i;
        n = (size_t)value->n;
    }
    for (size_t k = 0; k < n; k++)
        if (pads[k]) return -1;
    return 0;
}

static const struct rule {
    const char *kind;
    identity_rule operand;
} rules[] = {{"Identity", always},  {"Cast", always},        {"CastLike", always},     {"Reshape", always},
             {"Flatten", always},   {"Squeeze", always},     {"Unsqueeze", always},    {"Expand", always},
             {"Tile", always},      {"Dropout", dropout},    {"Transpose", transpose}, {"Slice", slice},
             {"Pad", pad},          {"Sum", one_operand},    {"Max", one_operand},     {"Min", one_operand},
             {"Mean", one_operand}, {"Concat", one_operand}, {"Split", one_output}};

/* Arithmetic operators that change nothing if one operand is the neutral element `number`: the second operand, or with
 * is_on_either either operand. */
static const struct neutral {
    const char *kind;
    double number;
    bool is_on_either;
} neutrals[] = {{"Add", 0, true}, {"Sub", 0, false}, {"Mul", 1, true}, {"Div", 1, false}, {"Pow", 1, false}};

static int identical_operand(const mp_rewriter *r, const mp_operator *op)
{
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (mp_is_kind(op, rules[k].kind)) return rules[k].operand(r, op);
    for (size_t k = 0; k < sizeof neutrals / sizeof *neutrals; k++) {
        if (!mp_is_kind(op, neutrals[k].kind)) continue;
        if (is_constant(r, op->in[1], neutrals[k].number)) return 0;
        return neutrals[k].is_on_either && is_constant(r, op->in[0], neutrals[k].number) ? 1 : -1;
    }
    return -1;
}

/* True if a reshape gives the same result for all inputs with the same number of elements. Its shape must be known and must
 * not copy a dimension of the input (0). */
static bool shape_is_absolute(const mp_rewriter *r, const mp_operator *op)
{
    if (!strcmp(op->domain, "memplan"))
        return true; /* memplan's own reshape has its shape as an attribute, and copies no dimension */
    const mp_value *shape = mp_is_kind(op, "Reshape") && op->n_in == 2 ? r->model->tensors[op->in[1]].value : NULL;
    for (int64_t k = 0; shape && k < shape->n; k++)
        if (shape->is_real || shape->i[k] == 0) return false;
    return shape != NULL;
}

/* True if PyTorch stores the elements of a tensor in another order than that of its shape, or repeats them. A reshape may then
 * copy. */
static bool is_strided(const mp_rewriter *r, int tensor)
{
    const mp_operator *op = r->rules == MP_RULES_PYTORCH ? mp_writer(r, tensor) : NULL;
    return op && op->op && op->op->traits & (MP_TRAIT_PERMUTES | MP_TRAIT_EXPANDS | MP_TRAIT_PARTS);
}

/* If a reshape reads another reshape, makes it read the input of that reshape. */
static void pass_views(mp_rewriter *r, int index)
{
    mp_operator *op = &r->model->operators[index];
    if (!op->op || op->op->gradient != MP_GRADIENT_VIEW || !mp_view(r, op->in[0])) return;
    const int inner = op->in[0], before = mp_producer(r, inner), source = r->model->operators[before].in[0];
    if (mp_same_shape(&r->model->tensors[source], &r->model->tensors[op->out[0]]) && !r->model->tensors[op->out[0]].is_output) {
        /* PyTorch runs neither reshape if one call wrote both. Files of the newer exporter name the calls, unless another
         * program has removed the names */
        const bool is_one = mp_are_of_one_call(&r->model->operators[before], op, r->model->is_of_newer_exporter);
        if (is_strided(r, source) && !is_one) return;
        mp_rewriter_remove(r, index);
        mp_rewriter_replace(r, op->out[0], source);
        if (!r->n_readers[inner]) {
            mp_rewriter_remove(r, before);
            mp_rewriter_replace(r, inner, source);
        }
        r->changes++;
    } else if (r->n_readers[inner] == 1 && shape_is_absolute(r, op)) {
        mp_rewriter_remove(r, before);
        r->model->tensors[inner].replaced_by = op->out[0];
        r->n_readers[inner]--;
        r->n_readers[source]++;
        op->in[0] = source;
        r->changes++;
    }
}

mp_status mp_rewrite_identity(mp_rewriter *r, int index)
{
    const mp_operator *op = &r->model->operators[index];
    const mp_tensor *y = mp_operator_out(r->model, op, 0);
    if (is_copy(r, op)) {
        const mp_operator_draft copy = mp_draft("Reorder", "memplan", 1, op->in, 1, NULL, 0);
        r->changes++;
        return mp_rewriter_become(r, index, &copy);
    }
    const int from = y ? identical_operand(r, op) : -1;
    if (from >= 0 && mp_same_shape(y, &r->model->tensors[op->in[from]]) && mp_rewriter_bypass(r, index, op->in[from]))
        r->changes++;
    else
        pass_views(r, index);
    return MP_OK;
}

/* If a reshape splits dimensions of the output of a transposition, moves the reshape before the transposition.
 *
 *     x [17, 8, 16] -> Transpose [1, 0, 2] -> [8, 17, 16] -> Reshape [2, 4, 17, 16]
 *     x [17, 8, 16] -> Reshape [17, 2, 4, 16] -> Transpose [1, 2, 0, 3] -> [2, 4, 17, 16]
 *
 * Exporters merge batch and heads into one of the three dimensions of a stack of matrices. The moved reshape cancels the
 * reshape that merged them. Patterns then find the transposition next to the product that reads it. */

/* Finds how reshape `to` splits the dimensions of `from`. into[d] >= 1 is the number of consecutive dimensions of `to` that
 * dimension d becomes. Returns false if `to` does not split dimensions, or only adds dimensions of size 1. */
static bool splits(const mp_tensor *from, const mp_tensor *to, int into[MP_RANK_MAX])
{
    bool any = false;
    int t = 0;
    for (int d = 0; d < from->rank; d++) {
        int64_t product = 1;
        into[d] = 0;
        while (t < to->rank && (into[d] == 0 || (product < from->dims[d] && to->dims[t] > 1))) {
            product *= to->dims[t++];
            into[d]++;
        }
        if (product != from->dims[d]) return false;
        for (int k = t - into[d]; k < t; k++) any |= to->dims[k] > 1 && to->dims[k] < from->dims[d];
    }
    return any && t == to->rank;
}

mp_status mp_rewrite_split(mp_rewriter *r, int index)
{
    mp_model *model = r->model;
    const mp_operator *reshape = &model->operators[index];
    if (!reshape->op || reshape->op->gradient != MP_GRADIENT_VIEW || mp_is_kind(reshape, "Identity")) return MP_OK;
    const int between = reshape->in[0], before = mp_producer(r, between);
    const mp_tensor *middle = &model->tensors[between], *y = mp_operator_out(model, reshape, 0);
    int into[MP_RANK_MAX], begin[MP_RANK_MAX], place[MP_RANK_MAX], n = 0;
    int64_t shape[MP_RANK_MAX], perm[MP_RANK_MAX];
    if (before < 0 || !mp_is_kind(&model->operators[before], "Transpose") || r->n_readers[between] != 1) return MP_OK;
    if (!y || y->rank <= middle->rank || !mp_tensor_elements(y) || !splits(middle, y, into)) return MP_OK;
    const mp_operator *transpose = &model->operators[before];
    const int from = transpose->in[0], rank = middle->rank;
    size_t n_perm;
    const int64_t *order = mp_operator_ints(transpose, "perm", &n_perm);
    for (int d = 0; d < rank; d++) place[order ? order[d] : rank - 1 - d] = d;
    for (int d = 0, at = 0; d < rank; at += into[d], d++) begin[d] = at;
    for (int s = 0; s < rank; s++)
        for (int k = 0; k < into[place[s]]; k++, n++) {
            shape[n] = y->dims[begin[place[s]] + k];
            perm[begin[place[s]] + k] = n;
        }
    mp_attribute sizes = mp_attribute_ints("shape", shape, (size_t)n), turned = mp_attribute_ints("perm", perm, (size_t)n);
    const mp_operator_draft split = mp_draft("Reshape", "memplan", 1, &from, 1, &sizes, 1);
    const mp_operator_draft turn = mp_draft("Transpose", "", 1, &between, 1, &turned, 1);
    MP_CHECK(mp_rewriter_become(r, before, &split));
    MP_CHECK(mp_rewriter_become(r, index, &turn));
    r->changes++;
    return MP_OK;
}

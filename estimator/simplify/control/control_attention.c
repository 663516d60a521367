/* control_attention.c - replaces ONNX's Attention (operator sets 23 and 24) by its component operators.
 *
 * Y = softmax(cap(sqrt(s) Q (sqrt(s) K)^T) + mask) V, with the square root of the scale s applied to both operands, as ONNX
 * defines it. Inputs with three dimensions store heads side by side; their heads are moved to a dimension of their own. Keys
 * and values that several query heads share are repeated. If a mask hides every key of a query, the result is 0.
 * Simplification may later fuse these operators again. */
#include <math.h>
#include <string.h>

#include "estimator/simplify/control/control.h"

enum { VERSION = 12, SET = 23, RANK = 4, N_OPERANDS = 3, BATCH = 0, HEADS = 1, ROWS = 2, DEPTH = 3 };
/* indices of the optional inputs; SCORES is the index of the output that returns the scores */
enum { MASK = 3, PAST_KEY, PAST_VALUE, LENGTHS, SCORES = 3 };

typedef struct expansion {
    mp_inference *w;
    mp_operator op; /* a copy of the operator, because adding operators may move the operator array */
    mp_dtype dtype;
    int64_t heads,
        groups; /* heads: number of query heads. groups: number of query heads that share one head of keys and values */
    const char *stem;
} expansion;

bool mp_is_attention_operator(const mp_operator *op)
{
    return !strcmp(op->kind, "Attention") && (!*op->domain || !strcmp(op->domain, "ai.onnx")) && op->version >= SET;
}

static const mp_tensor *tensor_of(const expansion *x, int tensor)
{
    return &x->w->model->tensors[tensor];
}

static bool has_input(const expansion *x, int k)
{
    return k < x->op.n_in && x->op.in[k] >= 0;
}

static mp_status refuse(const expansion *x, mp_status code, const char *why)
{
    return MP_FAIL(x->w->err, code, "Attention '%s' %s", x->op.name, why);
}

static mp_status emit(const expansion *x, const char *kind, const int *in, int n_in, const mp_attribute *a, size_t n_a,
                      int *out)
{
    return mp_inference_emit(x->w, mp_draft(kind, "", VERSION, in, n_in, a, n_a), x->stem, out, 1);
}

static mp_status emit_pair(const expansion *x, const char *kind, int left, int right, int *out)
{
    *out = -1;
    return emit(x, kind, (const int[]){left, right}, 2, NULL, 0, out);
}

static mp_status constant(const expansion *x, mp_dtype dtype, int rank, const int64_t *dims, int *out, mp_value **value)
{
    return mp_model_constant(x->w->model, x->stem, dtype, rank, dims, out, value, x->w->err);
}

static mp_status number(const expansion *x, double c, int *out)
{
    mp_value *value;
    MP_CHECK(constant(x, x->dtype, 0, NULL, out, &value));
    value->f[0] = c;
    return MP_OK;
}

static mp_status integers(const expansion *x, const int64_t *list, int64_t n, int *out)
{
    mp_value *value;
    MP_CHECK(constant(x, MP_DTYPE_INT64, 1, &n, out, &value));
    memcpy(value->i, list, (size_t)n * sizeof *list);
    return MP_OK;
}

static mp_status reshape(const expansion *x, int from, const int64_t *dims, int rank, int *out)
{
    int shape;
    MP_CHECK(integers(x, dims, rank, &shape));
    return emit(x, "Reshape", (const int[]){from, shape}, 2, NULL, 0, out);
}

static mp_status transpose(const expansion *x, int from, const int64_t order[RANK], int *out)
{
    const mp_attribute perm = mp_attribute_ints("perm", order, RANK);
    return emit(x, "Transpose", &from, 1, &perm, 1, out);
}

/* Checks the attributes, and that required operands are not omitted. */
static mp_status check(const expansion *x)
{
    const mp_operator *op = &x->op;
    for (int k = 0; k < N_OPERANDS; k++)
        if (!has_input(x, k)) return refuse(x, MP_PARSE, "lacks its queries, keys or values");
    if (has_input(x, PAST_KEY) || has_input(x, PAST_VALUE) || has_input(x, LENGTHS))
        return refuse(x, MP_UNSUPPORTED,
                      "reads keys and values of earlier calls, which do not exist in training; export it without a cache");
    if (op->n_out > SCORES && op->out[SCORES] >= 0)
        return refuse(x, MP_UNSUPPORTED, "has its scores as an output, but only the result is supported");
    if (mp_operator_int(op, "left_window_size", -1) >= 0 || mp_operator_int(op, "right_window_size", -1) >= 0)
        return refuse(x, MP_UNSUPPORTED, "has a sliding window; give the window as a mask");
    if (op->n_out < 1 || op->out[0] < 0) return refuse(x, MP_PARSE, "lacks its result");
    for (int k = 0; k < N_OPERANDS; k++) {
        const mp_tensor *t = tensor_of(x, op->in[k]), *q = tensor_of(x, op->in[0]);
        if (t->sequence || t->rank != q->rank || (t->rank != 3 && t->rank != RANK))
            return refuse(x, MP_PARSE, "needs queries, keys and values that all have three or all have four dimensions");
        if (!mp_dtype_is_float(t->dtype) || t->dtype != q->dtype)
            return refuse(x, MP_UNSUPPORTED, "has queries, keys and values of different types");
    }
    return MP_OK;
}

/* If operand k stores its heads side by side, reshapes it to (batch, heads, rows, depth). */
static mp_status split_heads(const expansion *x, int k, int *tensor)
{
    static const int64_t to_front[RANK] = {0, 2, 1, 3};
    const mp_tensor t = *tensor_of(x, x->op.in[k]);
    const int64_t heads = mp_operator_int(&x->op, k ? "kv_num_heads" : "q_num_heads", 0);
    int apart = -1;
    *tensor = x->op.in[k];
    if (t.rank == RANK) return MP_OK;
    if (heads < 1 || t.dims[2] % heads) return refuse(x, MP_PARSE, "has a width that is not a multiple of its heads");
    const int64_t dims[RANK] = {t.dims[0], t.dims[1], heads, t.dims[2] / heads};
    *tensor = -1;
    MP_CHECK(reshape(x, x->op.in[k], dims, RANK, &apart));
    return transpose(x, apart, to_front, tensor);
}

/* Checks that the shapes of the operands match. All operands have four dimensions here. */
static mp_status check_shapes(expansion *x, const int operands[N_OPERANDS])
{
    const int64_t *q = tensor_of(x, operands[0])->dims, *k = tensor_of(x, operands[1])->dims,
                  *v = tensor_of(x, operands[2])->dims;
    const bool fit = q[BATCH] == k[BATCH] && k[BATCH] == v[BATCH] && k[HEADS] == v[HEADS] && k[ROWS] == v[ROWS] &&
                     q[DEPTH] == k[DEPTH] && q[DEPTH] > 0 && k[HEADS] > 0 && q[HEADS] % k[HEADS] == 0;
    if (!fit) return refuse(x, MP_PARSE, "has queries, keys and values whose shapes do not fit");
    x->heads = q[HEADS];
    x->groups = q[HEADS] / k[HEADS];
    return MP_OK;
}

/* Repeats each head of keys or values for all query heads that share it. */
static mp_status repeat_heads(const expansion *x, int *tensor)
{
    int apart = -1, shape, many = -1, all = -1;
    if (x->groups == 1) return MP_OK;
    const int64_t *d = tensor_of(x, *tensor)->dims;
    const int64_t one[] = {d[0], d[1], 1, d[2], d[3]}, repeated[] = {d[0], d[1], x->groups, d[2], d[3]},
                  joined[] = {d[0], x->heads, d[2], d[3]};
    MP_CHECK(reshape(x, *tensor, one, RANK + 1, &apart));
    MP_CHECK(integers(x, repeated, RANK + 1, &shape));
    MP_CHECK(emit(x, "Expand", (const int[]){apart, shape}, 2, NULL, 0, &many));
    MP_CHECK(reshape(x, many, joined, RANK, &all));
    *tensor = all;
    return MP_OK;
}

/* Computes the attention scores, before any mask. */
static mp_status multiply(const expansion *x, int q, int k, int *scores)
{
    static const int64_t turned[RANK] = {0, 1, 3, 2};
    const double depth = (double)tensor_of(x, q)->dims[DEPTH];
    double scale = mp_operator_float(&x->op, "scale", 0), cap = mp_operator_float(&x->op, "softcap", 0);
    int root, limit, scaled_q, scaled_k, kt = -1, small, bounded = -1;
    if (scale == 0) scale = 1 / sqrt(depth);
    if (scale < 0) return refuse(x, MP_UNSUPPORTED, "has a negative scale");
    MP_CHECK(transpose(x, k, turned, &kt));
    MP_CHECK(number(x, sqrt(scale), &root));
    MP_CHECK(emit_pair(x, "Mul", q, root, &scaled_q));
    MP_CHECK(emit_pair(x, "Mul", kt, root, &scaled_k));
    MP_CHECK(emit_pair(x, "MatMul", scaled_q, scaled_k, scores));
    if (cap <= 0) return MP_OK;
    MP_CHECK(number(x, cap, &limit));
    MP_CHECK(emit_pair(x, "Div", *scores, limit, &small));
    MP_CHECK(emit(x, "Tanh", &small, 1, NULL, 0, &bounded));
    return emit_pair(x, "Mul", bounded, limit, scores);
}

/* Creates the list of positions 0, 1, ... as a column or a row. */
static mp_status positions(const expansion *x, int64_t n, bool column, int *out)
{
    mp_value *value;
    MP_CHECK(constant(x, MP_DTYPE_INT64, 2, (const int64_t[]){column ? n : 1, column ? 1 : n}, out, &value));
    for (int64_t k = 0; k < n; k++) value->i[k] = k;
    return MP_OK;
}

/* Applies the causal mask and the mask operand to the scores. */
static mp_status hide(const expansion *x, int *scores)
{
    const mp_tensor s = *tensor_of(x, *scores);
    const int mask = has_input(x, MASK) ? x->op.in[MASK] : -1;
    const bool is_bool = mask >= 0 && tensor_of(x, mask)->dtype == MP_DTYPE_BOOL;
    int keeps = is_bool ? mask : -1, column, row, past, low, hidden = -1;
    if (mask >= 0) {
        const mp_tensor *t = tensor_of(x, mask);
        const int64_t columns = t->rank > 0 ? t->dims[t->rank - 1] : 1;
        if (columns != 1 && columns < s.dims[DEPTH])
            return refuse(x, MP_UNSUPPORTED, "has a mask for a part of the keys; give one for all keys");
    }
    if (mp_operator_int(&x->op, "is_causal", 0)) {
        MP_CHECK(positions(x, s.dims[ROWS], true, &column));
        MP_CHECK(positions(x, s.dims[DEPTH], false, &row));
        MP_CHECK(emit_pair(x, "GreaterOrEqual", column, row, &past));
        keeps = past;
        if (is_bool) MP_CHECK(emit_pair(x, "And", past, mask, &keeps));
    }
    if (keeps >= 0) {
        MP_CHECK(number(x, -INFINITY, &low));
        MP_CHECK(emit(x, "Where", (const int[]){keeps, *scores, low}, 3, NULL, 0, &hidden));
        *scores = hidden;
    }
    return mask >= 0 && !is_bool ? emit_pair(x, "Add", *scores, mask, scores) : MP_OK;
}

static mp_status cast(const expansion *x, mp_dtype to, int *tensor)
{
    const mp_attribute a = mp_attribute_int("to", to);
    const int from = *tensor;
    if (tensor_of(x, from)->dtype == to) return MP_OK;
    *tensor = -1;
    return emit(x, "Cast", &from, 1, &a, 1, tensor);
}

/* Computes the probabilities from the scores. With a mask, rows in which every key is hidden become zeros. */
static mp_status normalize(const expansion *x, int *tensor)
{
    const bool is_safe = has_input(x, MASK);
    const mp_attribute axis = mp_attribute_int("axis", -1);
    const int64_t precision = mp_operator_int(&x->op, "softmax_precision", x->dtype);
    int out = -1;
    if (precision <= 0 || precision >= MP_N_DTYPES || !mp_dtype_is_float((mp_dtype)precision))
        return refuse(x, MP_PARSE, "has a softmax_precision that is not a floating-point type");
    MP_CHECK(cast(x, (mp_dtype)precision, tensor));
    const mp_operator_draft draft =
        mp_draft(is_safe ? "SafeSoftmax" : "Softmax", is_safe ? "memplan" : "", is_safe ? 1 : 13, tensor, 1, &axis, 1);
    MP_CHECK(mp_inference_emit(x->w, draft, x->stem, &out, 1));
    *tensor = out;
    return cast(x, x->dtype, tensor);
}

/* Multiplies the probabilities by the values, and writes the product to the operator's output. It has three or four
 * dimensions, like the inputs. */
static mp_status finish(const expansion *x, int probabilities, int values)
{
    static const int64_t to_back[RANK] = {0, 2, 1, 3};
    int apart = -1, beside = -1, result = x->op.out[0];
    const bool joined = tensor_of(x, x->op.in[0])->rank == 3;
    const int product[] = {probabilities, values};
    if (!joined) return emit(x, "MatMul", product, 2, NULL, 0, &result);
    MP_CHECK(emit(x, "MatMul", product, 2, NULL, 0, &apart));
    const int64_t *d = tensor_of(x, apart)->dims;
    const int64_t dims[] = {d[BATCH], d[ROWS], d[HEADS] * d[DEPTH]};
    MP_CHECK(transpose(x, apart, to_back, &beside));
    return reshape(x, beside, dims, 3, &result);
}

mp_status mp_attention_expand(mp_inference *w, int index)
{
    expansion x = {.w = w, .op = w->model->operators[index]};
    int operands[N_OPERANDS], scores;
    MP_CHECK(check(&x));
    x.dtype = tensor_of(&x, x.op.in[0])->dtype;
    x.stem = mp_pool_format(w->model->pool, "%s/attention", x.op.name);
    MP_ENSURE(x.stem, w->err, MP_NOMEM, "no memory for Attention '%s'", x.op.name);
    mp_inference_remove(w, index);
    for (int k = 0; k < N_OPERANDS; k++) MP_CHECK(split_heads(&x, k, &operands[k]));
    MP_CHECK(check_shapes(&x, operands));
    for (int k = 1; k < N_OPERANDS; k++) /* without keys of earlier calls, these outputs are the keys and values of this call */
        if (k < x.op.n_out && x.op.out[k] >= 0) MP_CHECK(mp_inference_alias(w, operands[k], x.op.out[k]));
    MP_CHECK(repeat_heads(&x, &operands[1]));
    MP_CHECK(repeat_heads(&x, &operands[2]));
    MP_CHECK(multiply(&x, operands[0], operands[1], &scores));
    MP_CHECK(hide(&x, &scores));
    MP_CHECK(normalize(&x, &scores));
    return finish(&x, scores, operands[2]);
}

/* shapes_product.c - shapes of matrix products, attention and the determinant. MatMul follows numpy: batch dimensions
 * broadcast; a vector is a row as left operand and a column as right operand. The file also contains the fused and integer
 * forms of MatMul, and Gemm. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/attention.h"
#include "estimator/rules/operands/einsum.h"
#include "estimator/rules/operands/recurrent.h"

mp_status mp_shape_matmul(mp_infer *c)
{
    const mp_tensor *a, *b;
    char left[MP_SHAPE_TEXT], right[MP_SHAPE_TEXT];
    int64_t dims[MP_RANK_MAX];
    int rank;
    MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &a));
    MP_CHECK(mp_rule_input(c, 1, 1, MP_RANK_MAX, &b));
    mp_rule_shape_text(a->dims, a->rank, left);
    mp_rule_shape_text(b->dims, b->rank, right);
    mp_matrix m = mp_matmul_operand(c->model, c->op, 0), n = mp_matmul_operand(c->model, c->op, 1);
    MP_FIT(m.columns == n.rows, "'%s' %s and '%s' %s cannot be multiplied: %" PRId64 " columns meet %" PRId64 " rows", a->name,
           left, b->name, right, m.columns, n.rows);
    MP_FIT(mp_rule_broadcast(m.batch, m.n_batch, n.batch, n.n_batch, dims, &rank),
           "the batch dimensions of '%s' %s and '%s' %s do not fit together", a->name, left, b->name, right);
    if (!m.is_vector) dims[rank++] = m.rows; /* two dimensions of the maximum rank are reserved for rows and columns */
    if (!n.is_vector) dims[rank++] = n.columns;
    /* a product of 8-bit integers has an output of 32 bits */
    bool is_byte = a->dtype == MP_DTYPE_UINT8 || a->dtype == MP_DTYPE_INT8;
    return mp_infer_set(c, 0, is_byte ? MP_DTYPE_INT32 : a->dtype, rank, dims);
}

/* Checks that the bias of a product has one value per column. */
mp_status mp_shape_biased_matmul(mp_infer *c)
{
    const mp_tensor *bias;
    MP_CHECK(mp_shape_matmul(c));
    MP_CHECK(mp_rule_input(c, 2, 1, 1, &bias));
    int64_t columns = mp_matmul_operand(c->model, c->op, 1).columns;
    MP_FIT(bias->dims[0] == columns, "the bias '%s' has %" PRId64 " elements for rows of %" PRId64, bias->name, bias->dims[0],
           columns);
    return MP_OK;
}

mp_status mp_shape_gemm(mp_infer *c)
{
    const mp_tensor *a, *b, *bias;
    char text[MP_SHAPE_TEXT];
    int64_t dims[2];
    MP_CHECK(mp_rule_input(c, 0, 2, 2, &a));
    MP_CHECK(mp_rule_input(c, 1, 2, 2, &b));
    mp_matrix m = mp_matmul_operand(c->model, c->op, 0), n = mp_matmul_operand(c->model, c->op, 1);
    MP_FIT(m.columns == n.rows, "'%s' and '%s' cannot be multiplied: %" PRId64 " columns meet %" PRId64 " rows", a->name,
           b->name, m.columns, n.rows);
    dims[0] = m.rows;
    dims[1] = n.columns;
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 0, 2, &bias));
        bool fits = true;
        for (int k = 1; k <= bias->rank; k++)
            fits = fits && (bias->dims[bias->rank - k] == 1 || bias->dims[bias->rank - k] == dims[2 - k]);
        MP_FIT(fits, "'%s' %s cannot be added to a product of %" PRId64 " x %" PRId64, bias->name,
               mp_rule_shape_text(bias->dims, bias->rank, text), dims[0], dims[1]);
    }
    return mp_infer_set(c, 0, a->dtype, 2, dims);
}

/* Checks that every permutation attribute contains every dimension once. */
static mp_status check_transpositions(mp_infer *c, int rank)
{
    for (int k = 0; k <= MP_ATTENTION_Y; k++) {
        const char *name = mp_attention_perm_name(k);
        uint64_t seen = 0;
        size_t n;
        const int64_t *perm = mp_operator_ints(c->op, name, &n);
        MP_FIT(!perm || (int)n == rank, "%s has %zu dimensions instead of %d", name, n, rank);
        for (size_t d = 0; d < n; d++) {
            MP_FIT(perm[d] >= 0 && perm[d] < rank && !(seen >> perm[d] & 1), "%s is not a permutation of %d dimensions", name,
                   rank);
            seen |= UINT64_C(1) << perm[d];
        }
    }
    return MP_OK;
}

/* Checks that the views of Q, K and V are within the packed tensor, and together have as many elements as this tensor. */
static mp_status check_views(mp_infer *c, const mp_tensor *packed)
{
    int64_t all = 0;
    mp_attention_view first, view;
    for (int k = 0; k < MP_ATTENTION_Y; k++) {
        MP_FIT(mp_attention_view_read(c->op, k, &view), "%s is missing", mp_attention_view_name(k));
        if (!k) first = view;
        MP_FIT(view.rank >= 2 && view.rank <= MP_RANK_MAX && view.rank == first.rank, "%s has %d dimensions",
               mp_attention_view_name(k), view.rank);
        int64_t last = view.offset, elements = 1;
        bool inside = view.offset >= 0;
        for (int d = 0; inside && d < view.rank; d++) {
            int64_t step = 0;
            inside = view.dims[d] >= 1 && view.strides[d] >= 0 && mp_multiply(view.dims[d] - 1, view.strides[d], &step) &&
                     mp_add(last, step, &last) && mp_multiply(elements, view.dims[d], &elements);
        }
        MP_FIT(inside && last < mp_tensor_elements(packed) && mp_add(all, elements, &all), "%s is not a part of '%s'",
               mp_attention_view_name(k), packed->name);
    }
    MP_FIT(all == mp_tensor_elements(packed), "the views have %" PRId64 " elements, but '%s' has %" PRId64, all, packed->name,
           mp_tensor_elements(packed));
    return MP_OK;
}

mp_status mp_shape_attention(mp_infer *c)
{
    const mp_tensor *q, *k, *v, *mask;
    char own[MP_SHAPE_TEXT], whole[MP_SHAPE_TEXT];
    int64_t dims[MP_RANK_MAX], together[MP_RANK_MAX], keys[MP_RANK_MAX], values[MP_RANK_MAX];
    int rank;
    mp_attention_view view;
    if (mp_attention_view_read(c->op, 0, &view)) {
        MP_CHECK(mp_rule_input(c, 0, 1, MP_RANK_MAX, &q));
        MP_CHECK(check_views(c, k = v = q));
    } else {
        MP_CHECK(mp_rule_input(c, 0, 2, MP_RANK_MAX, &q));
        MP_CHECK(mp_rule_input(c, 1, q->rank, q->rank, &k));
        MP_CHECK(mp_rule_input(c, 2, q->rank, q->rank, &v));
    }
    const int r = mp_attention_rank(c->model, c->op), turned = mp_operator_int(c->op, "transK", 0) != 0;
    MP_CHECK(check_transpositions(c, r));
    mp_attention_dims(c->model, c->op, 0, dims);
    mp_attention_dims(c->model, c->op, 1, keys);
    mp_attention_dims(c->model, c->op, 2, values);
    const int64_t groups = mp_operator_int(c->op, "groups", 1);
    MP_FIT(groups >= 1 && (groups == 1 || (r > 2 && dims[r - 3] % groups == 0)), "%" PRId64 " heads cannot share one", groups);
    for (int d = 0; d < r - 2; d++)
        MP_FIT(dims[d] == keys[d] * (d == r - 3 ? groups : 1) && keys[d] == values[d],
               "the batch dimensions of '%s', '%s' and '%s' differ", q->name, k->name, v->name);
    mp_attention a = mp_attention_read(c->model, c->op);
    MP_FIT(keys[turned ? r - 2 : r - 1] == a.depth, "queries '%s' have depth %" PRId64 ", keys '%s' %" PRId64, q->name, a.depth,
           k->name, keys[turned ? r - 2 : r - 1]);
    MP_FIT(values[r - 2] == a.columns, "there are %" PRId64 " keys '%s' and %" PRId64 " values '%s'", a.columns, k->name,
           values[r - 2], v->name);
    dims[r - 1] = a.columns;
    for (int i = MP_ATTENTION_ADDED; i <= MP_ATTENTION_POSITIONS; i++) {
        if (!mp_infer_in(c, i)) continue;
        MP_CHECK(mp_rule_input(c, i, 0, r, &mask));
        bool fits = mp_rule_broadcast(dims, r, mask->dims, mask->rank, together, &rank);
        for (int d = 0; fits && d < r; d++) fits = together[d] == dims[d];
        MP_FIT(fits, "the mask '%s' %s does not fit the scores %s", mask->name, mp_rule_shape_text(mask->dims, mask->rank, own),
               mp_rule_shape_text(dims, r, whole));
    }
    dims[r - 1] = a.value_depth;
    const int64_t *perm = mp_attention_perm(c->op, MP_ATTENTION_Y);
    for (int d = 0; d < r; d++) together[d] = dims[perm ? perm[d] : d];
    return mp_infer_set(c, 0, q->dtype, r, together);
}

mp_status mp_shape_det(mp_infer *c)
{
    const mp_tensor *x;
    MP_CHECK(mp_rule_input(c, 0, 2, MP_RANK_MAX, &x));
    MP_FIT(x->dims[x->rank - 2] == x->dims[x->rank - 1], "the matrices of '%s' are not square: %" PRId64 " x %" PRId64, x->name,
           x->dims[x->rank - 2], x->dims[x->rank - 1]);
    return mp_infer_set(c, 0, x->dtype, x->rank - 2, x->dims);
}

/* Shapes of LSTM, GRU and RNN.
 *
 *     X (steps, batch, input)   W (directions, gates * hidden, input)   R (directions, gates * hidden, hidden)
 *     B (directions, 2 * gates * hidden)   sequence_lens (batch)   initial_h, initial_c (directions, batch, hidden)
 *     P, the LSTM's peepholes (directions, 3 * hidden)
 *     -> Y (steps, directions, batch, hidden)   Y_h, Y_c (directions, batch, hidden)
 *
 * With layout = 1 the batch dimension is first: X (batch, steps, input), Y (batch, steps, directions, hidden), states (batch,
 * directions, hidden). */

/* Checks that input k of a recurrent layer is omitted or has exactly the dimensions dims[0..rank). */
static mp_status check(mp_infer *c, int k, int rank, const int64_t *dims)
{
    const mp_tensor *t;
    char is[MP_SHAPE_TEXT], should_be[MP_SHAPE_TEXT];
    if (!mp_infer_in(c, k)) return MP_OK;
    MP_CHECK(mp_rule_input(c, k, rank, rank, &t));
    MP_FIT(!memcmp(t->dims, dims, (size_t)rank * sizeof *dims), "'%s' has the shape %s, but it must have %s", t->name,
           mp_rule_shape_text(t->dims, rank, is), mp_rule_shape_text(dims, rank, should_be));
    return MP_OK;
}

mp_status mp_shape_recurrent(mp_infer *c)
{
    const mp_tensor *x, *t;
    const int64_t gates = mp_cell_gates(c->op);
    MP_CHECK(mp_rule_input(c, 0, 3, 3, &x));
    MP_CHECK(mp_rule_input(c, 1, 3, 3, &t));
    MP_CHECK(mp_rule_input(c, 2, 3, 3, &t));
    const char *direction = mp_operator_text(c->op, "direction", "forward");
    bool both = !strcmp(direction, "bidirectional");
    MP_FIT(both || !strcmp(direction, "forward") || !strcmp(direction, "reverse"), "direction '%s' is unknown", direction);

    mp_recurrent r = mp_recurrent_read(c->model, c->op);
    int64_t n = both ? 2 : 1, hidden = mp_operator_int(c->op, "hidden_size", r.hidden), rows, biases;
    MP_FIT(hidden >= 1 && mp_multiply(hidden, gates, &rows) && mp_multiply(2, rows, &biases),
           "a hidden size of %" PRId64 " is out of range", hidden);
    const int64_t states[3] = {r.batch_first ? r.batch : n, r.batch_first ? n : r.batch, hidden};
    MP_CHECK(check(c, 1, 3, (int64_t[]){n, rows, r.input}));
    MP_CHECK(check(c, 2, 3, (int64_t[]){n, rows, hidden}));
    MP_CHECK(check(c, 3, 2, (int64_t[]){n, biases}));
    MP_CHECK(check(c, 4, 1, (int64_t[]){r.batch}));
    MP_CHECK(check(c, 5, 3, states));
    MP_CHECK(check(c, 6, 3, states));
    MP_CHECK(check(c, 7, 2, (int64_t[]){n, 3 * hidden}));
    MP_CHECK(
        mp_infer_set(c, 0, x->dtype, 4,
                     r.batch_first ? (int64_t[]){r.batch, r.n_steps, n, hidden} : (int64_t[]){r.n_steps, n, r.batch, hidden}));
    for (int k = 1; k < c->op->n_out; k++) MP_CHECK(mp_infer_set(c, k, x->dtype, 3, states));
    return MP_OK;
}

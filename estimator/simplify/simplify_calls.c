/* simplify_calls.c - marks operators that PyTorch runs as a part of one call, and that then save other values than alone.
 *
 *     function       operators of the file                        values that PyTorch saves
 *     torch.rsqrt    Reciprocal(Sqrt(x)), or Div(1, Sqrt(x))      the result.
 *     F.glu          Mul(a, Sigmoid(b)) of the halves of x        x.
 *     weight_norm    Mul(Div(v, ReduceL2(v)), g) of parameters    v, g and the norm.
 *     x.max(dim)     ReduceMax                                    indices.
 *
 * Files of the newer exporter name the calls. In other files the form decides. A formula of the program has the same form as
 * rsqrt, but glu has a Split of its own. */
#include <string.h>

#include "estimator/simplify/rewrite.h"

/* True if one operator alone reads the output. Otherwise PyTorch has computed the output in a call of its own. */
static bool is_read_once(const mp_rewriter *r, const mp_operator *op)
{
    return r->n_readers[*op->out] == 1;
}

/* Returns the Sqrt of which the operator computes the reciprocal; NULL: there is none. */
static const mp_operator *root_of_reciprocal(const mp_rewriter *r, const mp_operator *op)
{
    double one;
    if (mp_is_kind(op, "Reciprocal")) return mp_written_by(r, op->in[0], "Sqrt");
    if (!mp_is_kind(op, "Div") || !mp_known_scalar(r, op->in[0], &one) || one != 1) return NULL;
    return mp_written_by(r, op->in[1], "Sqrt");
}

/* Returns the Sigmoid of a gated linear unit; NULL: the operator is none. */
static const mp_operator *gate_of(const mp_rewriter *r, const mp_operator *op)
{
    for (int k = 0; mp_is_kind(op, "Mul") && k < 2; k++) {
        const mp_operator *sigmoid = mp_written_by(r, op->in[k], "Sigmoid");
        const mp_operator *split = sigmoid ? mp_written_by(r, sigmoid->in[0], "Split") : NULL;
        if (split && split == mp_writer(r, op->in[1 - k]) && split->n_out == 2 &&
            mp_are_of_one_call(op, split, split->n_in == 1))
            return sigmoid;
    }
    return NULL;
}

static bool is_parameter(const mp_rewriter *r, int tensor)
{
    return r->model->tensors[tensor].role == MP_ROLE_PARAMETER;
}

/* Returns the division of a weight normalization by the norm; NULL: the operator is none. */
static const mp_operator *division_by_norm(const mp_rewriter *r, const mp_operator *op)
{
    for (int k = 0; mp_is_kind(op, "Mul") && k < 2; k++) {
        const mp_operator *division = mp_written_by(r, op->in[k], "Div");
        const mp_operator *norm = division ? mp_written_by(r, division->in[1], "ReduceL2") : NULL;
        if (norm && norm->in[0] == division->in[0] && is_parameter(r, norm->in[0]) && is_parameter(r, op->in[1 - k]))
            return division;
    }
    return NULL;
}

/* True for x.max(dim) and x.min(dim). The whole tensor's maximum has the same name of a call, but no axis. */
static bool is_with_indices(const mp_rewriter *r, const mp_operator *op)
{
    const bool is_max = mp_is_kind(op, "ReduceMax");
    if ((!is_max && !mp_is_kind(op, "ReduceMin")) || !op->call) return false;
    if (strncmp(op->call, is_max ? "max" : "min", 3) != 0 || (op->call[3] && op->call[3] != '_')) return false;
    const mp_tensor *x = mp_operator_in(r->model, op, 0), *axes = mp_operator_in(r->model, op, 1);
    size_t n = 0;
    if (!mp_operator_ints(op, "axes", &n) && axes && axes->value) n = (size_t)axes->value->n;
    return n == 1 && x->rank > 1;
}

mp_status mp_rewrite_call(mp_rewriter *r, int index)
{
    mp_operator *op = &r->model->operators[index];
    const mp_operator *root = root_of_reciprocal(r, op);
    const bool is_rsqrt = root && is_read_once(r, root) && mp_are_of_one_call(op, root, true);
    const mp_operator *within = is_rsqrt ? root : gate_of(r, op);
    if (!within) within = division_by_norm(r, op);
    if (is_rsqrt) op->saves = MP_SAVES_OUTPUT;
    if (within && is_read_once(r, within)) r->model->operators[within - r->model->operators].saves = MP_SAVES_NO_OUTPUT;
    if (is_with_indices(r, op)) op->saves = MP_SAVES_INDICES;
    return MP_OK;
}

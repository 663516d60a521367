/* experts.c - finds products with stacked expert matrices, shards the stacked parameters, and inserts the exchanges of
 * tokens. */
#include "estimator/parallel/experts.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/model/order.h"
#include "estimator/rules/factors/factors.h"
#include "estimator/simplify/infer.h"

/* Positions of the dimensions in operands and results of expert products. */
enum { EXPERTS, TOKENS };

typedef struct spreader {
    mp_model *model;
    int64_t n;
    size_t n_tensors; /* number of tensors of the model before exchanges of tokens were added */
    bool *is_away;    /* per tensor: true if it is stored on the ranks of its experts */
    /* per tensor: `sent` is the index of the tensor after its exchange to the ranks of the experts, `back` the index after the
     * exchange back. 0: not exchanged (index 0 is never such a tensor) */
    int *sent, *back;
    bool found;
    mp_error *err;
} spreader;

static const mp_tensor *tensor_of(const spreader *x, int tensor)
{
    return &x->model->tensors[tensor];
}

/* Appends an all-to-all of a tensor. Tensors have the sizes of the whole model until all exchanges are added. */
static mp_status exchange(spreader *x, bool there, int *tensor)
{
    const int from = *tensor;
    int *made = there ? &x->sent[from] : &x->back[from];
    if (!*made) {
        const mp_attribute along = mp_attribute_int("axis", there ? EXPERTS : TOKENS);
        char name[256];
        snprintf(name, sizeof name, "%s:AllToAll", tensor_of(x, from)->name);
        *made = -1;
        MP_CHECK(mp_operator_put(x->model, mp_draft("AllToAll", "memplan", 1, &from, 1, &along, 1), name, made, x->err));
        const mp_tensor *t = tensor_of(x, from);
        x->model->tensors[*made].source = t->source;
        MP_CHECK(mp_tensor_set(x->model, *made, t->dtype, t->rank, t->dims, x->err));
    }
    *tensor = *made;
    return MP_OK;
}

/* Sets the sizes of a tensor to those on one rank: only the experts of this rank, but the tokens of all ranks. */
static mp_status resize(spreader *x, int tensor, bool has_tokens)
{
    const mp_tensor *t = tensor_of(x, tensor);
    const mp_role role = t->role;
    int64_t dims[MP_RANK_MAX];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[EXPERTS] /= x->n;
    if (has_tokens) dims[TOKENS] *= x->n;
    MP_CHECK(mp_tensor_set(x->model, tensor, t->dtype, t->rank, dims, x->err));
    x->model->tensors[tensor].role = role;
    x->model->tensors[tensor].value = NULL;
    return MP_OK;
}

/* ---- which operators run on the ranks of the experts ---- */

/* Returns the parameter from which transpositions and casts compute this tensor, if they keep the first dimension; -1: none. */
static int stack_of(const spreader *x, int tensor)
{
    for (;;) {
        const mp_tensor *t = tensor < 0 ? NULL : tensor_of(x, tensor);
        mp_operand_factors f;
        if (!t || t->producer < 0) return t && t->role == MP_ROLE_PARAMETER ? tensor : -1;
        const mp_operator *op = &x->model->operators[t->producer];
        const bool turns = op->n_in == 1 && op->op->traits & (MP_TRAIT_PERMUTES | MP_TRAIT_CASTS) && op->op->factors;
        if (!turns || !op->op->factors(x->model, op, &f) || !f.out[0][0] || f.out[0][0] != f.in[0][0]) return -1;
        tensor = op->in[0];
    }
}

static bool factors_of(const spreader *x, const mp_operator *op, mp_operand_factors *f)
{
    bool is_known =
        op->op->factors && op->n_out == 1 && op->n_in <= MP_OP_INPUTS && !mp_operator_out(x->model, op, 0)->is_output;
    return is_known && op->op->factors(x->model, op, f) && mp_operator_out(x->model, op, 0)->rank >= 3;
}

/* True if operand k has the same expert and token dimensions as the result. */
static bool goes_along(const mp_operand_factors *f, int k)
{
    return f->out[0][EXPERTS] && f->in[k][EXPERTS] == f->out[0][EXPERTS] && f->in[k][TOKENS] == f->out[0][TOKENS];
}

/* True if the operator is a product of each expert's tokens with the matrix of this expert. */
static bool is_of_experts(const spreader *x, const mp_operator *op, const mp_operand_factors *f)
{
    const int stack = f->columns && op->in[1] >= 0 ? stack_of(x, op->in[1]) : -1;
    return stack >= 0 && tensor_of(x, stack)->rank >= 3 && goes_along(f, 0) && f->in[1][EXPERTS] == f->out[0][EXPERTS];
}

/* True if each operand is either stored on the ranks of the experts, or has no expert and token dimensions. */
static bool stays_away(const spreader *x, const mp_operator *op, const mp_operand_factors *f)
{
    bool any = false;
    for (int k = 0; k < op->n_in; k++) {
        const int t = op->in[k];
        const bool is_away = t >= 0 && x->is_away[t];
        const bool is_same = t < 0 || (mp_factor_of_input(x->model, op, f, k, f->out[0][EXPERTS]) < 0 &&
                                       mp_factor_of_input(x->model, op, f, k, f->out[0][TOKENS]) < 0);
        const bool is_bias = t >= 0 && stack_of(x, t) >= 0 && tensor_of(x, t)->rank == mp_operator_out(x->model, op, 0)->rank &&
                             f->in[k][EXPERTS] == f->out[0][EXPERTS] && !f->in[k][TOKENS];
        if (!(is_away ? goes_along(f, k) : is_same || is_bias)) return false;
        any |= is_away;
    }
    return any;
}

/* ---- how one operator is changed ---- */

/* Marks a stacked parameter, and the tensors between the parameter and its product, as stored on the ranks of the experts. */
static mp_status take_stack(spreader *x, const mp_operator *op, int tensor)
{
    const int parameter = stack_of(x, tensor);
    const mp_tensor *stack = tensor_of(x, parameter);
    MP_ENSURE(stack->dims[EXPERTS] % x->n == 0, x->err, MP_INVALID,
              "the mesh has ep=%lld, which does not divide the %lld experts of '%s' in %s; choose a divisor", (long long)x->n,
              (long long)stack->dims[EXPERTS], stack->name, op->name);
    for (int t = tensor; t != parameter; t = x->model->operators[tensor_of(x, t)->producer].in[0]) x->is_away[t] = true;
    x->is_away[parameter] = x->model->tensors[parameter].is_spread = true;
    return MP_OK;
}

static mp_status visit(spreader *x, int index)
{
    mp_operand_factors f;
    const mp_operator *op = &x->model->operators[index];
    const bool is_known = factors_of(x, op, &f), is_product = is_known && is_of_experts(x, op, &f);
    const bool is_there = is_product || (is_known && stays_away(x, op, &f));
    const int n_in = op->n_in;
    x->found |= is_product;
    if (is_there) x->is_away[op->out[0]] = true;
    for (int k = 0; k < n_in; k++) {
        op = &x->model->operators[index];
        int t = op->in[k];
        const bool is_stack = t >= 0 && stack_of(x, t) >= 0;
        if (is_stack && is_there && f.in[k][EXPERTS] == f.out[0][EXPERTS])
            MP_CHECK(take_stack(x, op, t));
        else if (t >= 0 && !is_stack && x->is_away[t] != is_there && (!is_there || goes_along(&f, k)))
            MP_CHECK(exchange(x, is_there, &t));
        x->model->operators[index].in[k] = t;
    }
    return MP_OK;
}

/* Sets the sizes of all tensors that are stored on the ranks of the experts. */
static mp_status resize_all(spreader *x)
{
    for (int t = 0; t < (int)x->n_tensors; t++) {
        if (x->is_away[t]) MP_CHECK(resize(x, t, stack_of(x, t) < 0));
        if (x->sent[t]) MP_CHECK(resize(x, x->sent[t], true));
    }
    return MP_OK;
}

mp_status mp_model_spread_experts(mp_model *model, const mp_mesh *mesh, mp_error *err)
{
    const size_t n = model->n_tensors, n_operators = model->n_operators;
    MP_OWNED bool *is_away = mp_alloc(n + 1, sizeof *is_away);
    MP_OWNED int *sent = mp_alloc(n + 1, sizeof *sent), *back = mp_alloc(n + 1, sizeof *back);
    spreader x = {
        .model = model, .n = mesh->size[MP_DIM_EP], .n_tensors = n, .is_away = is_away, .sent = sent, .back = back, .err = err};
    if (x.n == 1) return MP_OK;
    MP_ENSURE(is_away && sent && back, err, MP_NOMEM, "no memory to spread the experts of %zu tensors", n);
    for (size_t k = 0; k < n_operators; k++)
        if (!model->operators[k].removed) MP_CHECK(visit(&x, (int)k));
    MP_ENSURE(x.found, err, MP_INVALID,
              "the mesh has ep=%lld, but the network has no experts (products with a stack of matrices); omit ep",
              (long long)x.n);
    MP_CHECK(resize_all(&x));
    return mp_model_sort(model, err);
}

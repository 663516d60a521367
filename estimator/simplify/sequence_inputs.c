/* sequence_inputs.c - what stands before a recurrent layer is cut with it. */
#include "estimator/simplify/sequence_inputs.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/simplify/infer.h"
#include "estimator/simplify/rewrite.h"

/* Adds an operator; its outputs are new tensors named after `stem`. */
static mp_status add(mp_chunks *c, mp_operator_draft draft, const char *stem, int *out)
{
    int index;
    for (int k = 0; k < draft.n_out; k++) {
        const char *name = mp_pool_format(c->model->pool, "%s:%d", stem, k);
        MP_ENSURE(name, c->err, MP_NOMEM, "out of memory");
        MP_CHECK(mp_model_fresh_tensor(c->model, name, &out[k], c->err));
    }
    draft.out = out;
    MP_CHECK(mp_model_operator(c->model, &draft, &index, c->err));
    return mp_operator_infer(c->model, index, c->err);
}

mp_status mp_cut_split(mp_chunks *c, int tensor, int axis, int n, const int64_t *sizes, int *parts)
{
    const mp_attribute attributes[] = {{.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = axis},
                                       {.name = "split", .kind = MP_ATTRIBUTE_INTS, .n = (size_t)n, .ints = (int64_t *)sizes}};
    const mp_operator_draft split = {.kind = "Split",
                                     .domain = "",
                                     .version = 11,
                                     .in = &tensor,
                                     .n_in = 1,
                                     .n_out = n,
                                     .attributes = attributes,
                                     .n_attributes = 2};
    return add(c, split, c->model->tensors[tensor].name, parts);
}

/* Does an operator read it that is not gone yet? O(operands). */
static bool is_read(const mp_model *model, int tensor)
{
    bool any = model->tensors[tensor].is_output;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int i = 0; !op->removed && i < op->n_in; i++) any |= op->in[i] == tensor;
    }
    return any;
}

/* Takes out the operator that wrote a tensor which nobody reads. */
static void take_out(mp_model *model, int tensor)
{
    model->operators[model->tensors[tensor].producer].removed = true;
    model->tensors[tensor].producer = -1;
}

static bool is_joined_of_chunks(const mp_chunks *c, const mp_operator *op, int axis)
{
    if (!mp_is_kind(op, "Concat") || mp_operator_int(op, "axis", -1) != axis || op->n_in != c->n) return false;
    for (int k = 0; k < c->n; k++)
        if (c->model->tensors[op->in[k]].dims[axis] != c->sizes[k]) return false;
    return true;
}

/* The axis of `from` that a view to `to` leaves alone as `axis` of it; -1: none. */
static int axis_before_view(const mp_tensor *from, const mp_tensor *to, int axis)
{
    const int64_t before = mp_product(to->dims, 0, axis);
    for (int d = 0; d < from->rank; d++)
        if (from->dims[d] == to->dims[axis] && mp_product(from->dims, 0, d) == before) return d;
    return -1;
}

static mp_status cut_view(mp_chunks *c, int tensor, int from, int from_axis, int axis, int *parts)
{
    const int rank = c->model->tensors[tensor].rank;
    int64_t shape[MP_RANK_MAX];
    MP_CHECK(mp_cut_input(c, from, from_axis, parts));
    memcpy(shape, c->model->tensors[tensor].dims, (size_t)rank * sizeof *shape);
    for (int k = 0; k < c->n; k++) {
        shape[axis] = c->sizes[k];
        const mp_attribute sizes = {.name = "shape", .kind = MP_ATTRIBUTE_INTS, .n = (size_t)rank, .ints = shape};
        const int part = parts[k];
        MP_CHECK(add(c,
                     (mp_operator_draft){.kind = "Reshape",
                                         .domain = "memplan",
                                         .version = 1,
                                         .in = &part,
                                         .n_in = 1,
                                         .n_out = 1,
                                         .attributes = &sizes,
                                         .n_attributes = 1},
                     c->model->tensors[tensor].name, &parts[k]));
    }
    return MP_OK;
}

/* The same operator on every chunk of operand `cut`. */
static mp_status cut_operator(mp_chunks *c, const mp_operator *op, int cut, int axis, int *parts)
{
    int in[2] = {op->in[0], op->n_in > 1 ? op->in[1] : -1};
    MP_CHECK(mp_cut_input(c, op->in[cut], axis, parts));
    for (int k = 0; k < c->n; k++) {
        in[cut] = parts[k];
        MP_CHECK(add(c,
                     (mp_operator_draft){.kind = op->kind,
                                         .domain = op->domain,
                                         .version = op->version,
                                         .in = in,
                                         .n_in = op->n_in,
                                         .n_out = 1,
                                         .attributes = op->attributes,
                                         .n_attributes = op->n_attributes},
                     c->model->tensors[op->out[0]].name, &parts[k]));
    }
    return MP_OK;
}

/* A slice of a batch for each chunk: what is there all the time is not copied as a whole. */
static mp_status slice(mp_chunks *c, int tensor, int axis, int *parts)
{
    int64_t from = 0, along = axis;
    for (int k = 0; k < c->n; k++) {
        int64_t to = from + c->sizes[k];
        const mp_attribute attributes[] = {{.name = "axes", .kind = MP_ATTRIBUTE_INTS, .n = 1, .ints = &along},
                                           {.name = "starts", .kind = MP_ATTRIBUTE_INTS, .n = 1, .ints = &from},
                                           {.name = "ends", .kind = MP_ATTRIBUTE_INTS, .n = 1, .ints = &to}};
        MP_CHECK(add(c,
                     (mp_operator_draft){.kind = "Slice",
                                         .domain = "",
                                         .version = 1,
                                         .in = &tensor,
                                         .n_in = 1,
                                         .n_out = 1,
                                         .attributes = attributes,
                                         .n_attributes = 3},
                     c->model->tensors[tensor].name, &parts[k]));
        from = to;
    }
    return MP_OK;
}

mp_status mp_cut_input(mp_chunks *c, int tensor, int axis, int *parts)
{
    const mp_model *model = c->model;
    const mp_tensor *t = &model->tensors[tensor];
    if (t->producer < 0 && t->role == MP_ROLE_DATA) return slice(c, tensor, axis, parts);
    if (t->producer < 0) return mp_cut_split(c, tensor, axis, c->n, c->sizes, parts);
    const mp_operator op = model->operators[t->producer]; /* a copy: the operators move */
    if (is_joined_of_chunks(c, &op, axis)) {
        memcpy(parts, op.in, (size_t)c->n * sizeof *parts);
        return MP_OK;
    }
    if (is_read(model, tensor) || op.n_out != 1) return mp_cut_split(c, tensor, axis, c->n, c->sizes, parts);
    if (mp_is_kind(&op, "Transpose")) {
        size_t n;
        const int64_t *perm = mp_operator_ints(&op, "perm", &n);
        take_out(c->model, tensor);
        return cut_operator(c, &op, 0, perm ? (int)perm[axis] : t->rank - 1 - axis, parts);
    }
    if (mp_is_kind(&op, "Gather") && mp_operator_int(&op, "axis", 0) == 0 &&
        model->tensors[op.in[0]].role == MP_ROLE_PARAMETER && axis < model->tensors[op.in[1]].rank) {
        take_out(c->model, tensor);
        return cut_operator(c, &op, 1, axis, parts);
    }
    if (op.op->gradient == MP_GRADIENT_VIEW) {
        const int before = axis_before_view(&model->tensors[op.in[0]], t, axis);
        if (before >= 0) {
            take_out(c->model, tensor);
            return cut_view(c, tensor, op.in[0], before, axis, parts);
        }
    }
    return mp_cut_split(c, tensor, axis, c->n, c->sizes, parts);
}

/* layouts.c - chooses the tensors that are channels-last in memory.
 *
 * Convolutions, pooling and normalization over channels run fastest with channels innermost. The operators between them work
 * element by element in any order. The tensors of all these operators are therefore channels-last. If an operator requires
 * another layout, a Reorder operator is inserted before it. Example: a reshape is a view only if its operand is row-major. */
#include "executor/operators/layouts.h"

#include "estimator/model/ops.h"
#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"

/* True if the row-major and the channels-last layout of a float tensor differ in memory: neither the channels nor all spatial
 * dimensions have size 1. */
static bool layout_matters(const mp_tensor *t)
{
    if (t->rank < 3 || !mp_dtype_is_float(t->dtype)) return false;
    int64_t rest = mp_product(t->dims, 2, t->rank);
    return t->dims[1] != 1 && rest != 1;
}

typedef struct chooser {
    mp_model *model;
    size_t n_tensors; /* number of tensors of the original model */
    int *reordered; /* per tensor of the original model: index of its copy in the other layout (row-major or channels-last); -1:
                       none */
    bool *settled;  /* per tensor of the original model: true once an operator that reads it has been visited */
    mp_error *err;
} chooser;

/* Provides operand i of operator k in `layout`: inserts a Reorder if the operand has another layout. An input of the network
 * gets the layout that its first reader requires. */
static mp_status want_layout(chooser *c, int k, int i, mp_layout layout)
{
    mp_model *m = c->model;
    int t = m->operators[k].in[i], copy, index;
    if (t < 0 || !layout_matters(&m->tensors[t])) return MP_OK;
    if (m->tensors[t].role == MP_ROLE_DATA && !c->settled[t]) m->tensors[t].stored.layout = layout;
    if (m->tensors[t].stored.layout == layout) return MP_OK;
    if (c->reordered[t] < 0) {
        MP_CHECK(mp_model_fresh_tensor(
            m, mp_pool_format(m->pool, "%s:%s", m->tensors[t].name, layout ? "channels-last" : "plain"), &copy, c->err));
        mp_operator_draft draft = {
            .kind = "Reorder", .domain = "memplan", .version = 1, .in = &t, .n_in = 1, .out = &copy, .n_out = 1};
        MP_CHECK(mp_model_operator(m, &draft, &index, c->err));
        MP_CHECK(mp_operator_infer(m, index, c->err));
        m->tensors[copy].stored.layout = layout;
        m->tensors[copy].part = m->tensors[t].part;
        c->reordered[t] = copy;
    }
    m->operators[k].in[i] = c->reordered[t];
    return MP_OK;
}

static mp_status choose(chooser *c, int k)
{
    mp_model *m = c->model;
    const mp_operator *op = &m->operators[k];
    mp_layout_habit habit = op->op->layout;
    mp_layout layout = MP_LAYOUT_PLAIN;
    int n_in = op->n_in, n_out = op->n_out, *inputs = op->in;
    if (habit == MP_HABIT_FROM_ROW_MAJOR) MP_CHECK(want_layout(c, k, 0, MP_LAYOUT_PLAIN));
    for (int i = 0; habit == MP_HABIT_MATRICES && i < n_in; i++) MP_CHECK(want_layout(c, k, i, MP_LAYOUT_PLAIN));
    if (habit == MP_HABIT_SPATIAL) {
        layout = MP_LAYOUT_CHANNELS_LAST;
        MP_CHECK(want_layout(c, k, 0, layout));
    }
    if (habit == MP_HABIT_AS_INPUTS) {
        const mp_tensor *y = mp_operator_out(m, op, 0);
        for (int i = 0; y && i < n_in; i++) {
            const mp_tensor *x = mp_operator_in(m, op, i);
            if (x && x->rank == y->rank && x->stored.layout == MP_LAYOUT_CHANNELS_LAST && layout_matters(x))
                layout = x->stored.layout;
        }
        for (int i = 0; y && layout && i < n_in; i++) {
            const mp_tensor *x = mp_operator_in(m, &m->operators[k], i);
            bool whole =
                x && x->rank == m->tensors[m->operators[k].out[0]].rank && (x->producer >= 0 || x->role == MP_ROLE_DATA);
            if (whole) MP_CHECK(want_layout(c, k, i, layout));
        }
    }
    for (int i = 0; i < n_in; i++)
        if (inputs[i] >= 0 && (size_t)inputs[i] < c->n_tensors) c->settled[inputs[i]] = true;
    for (int o = 0; o < n_out; o++) {
        mp_tensor *y = mp_operator_out(m, &m->operators[k], o);
        if (y && layout_matters(y)) y->stored.layout = layout;
    }
    return MP_OK;
}

static void chooser_free(chooser *c)
{
    mp_free(c->reordered);
    mp_free(c->settled);
}

mp_status mp_layouts_choose(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(chooser_free) chooser c = {.model = model, .n_tensors = model->n_tensors, .err = err};
    size_t n = model->n_operators;
    c.reordered = mp_alloc(c.n_tensors, sizeof *c.reordered);
    c.settled = mp_alloc(c.n_tensors, sizeof *c.settled);
    MP_ENSURE(c.reordered && c.settled, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < c.n_tensors; t++) c.reordered[t] = -1;
    for (size_t k = 0; k < n; k++)
        if (!model->operators[k].removed) MP_CHECK(choose(&c, (int)k));
    return mp_model_sort(model, err);
}

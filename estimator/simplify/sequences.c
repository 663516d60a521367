/* sequences.c - converts recurrent layers over long sequences into chains of layers over chunks. */
#include "estimator/simplify/sequences.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/model/order.h"
#include "estimator/rules/operands/recurrent.h"
#include "estimator/simplify/infer.h"
#include "estimator/simplify/rewrite.h"

typedef struct chunks {
    mp_model *model;
    int n;          /* number of chunks (ranges of time steps) into which a sequence is split */
    int64_t *sizes; /* number of time steps per sequence chunk */
    mp_error *err;
} chunks;

/* Adds a tensor for sequence chunk k (a range of time steps), named "stem:k". */
static mp_status fresh(chunks *c, const char *stem, int k, int *out)
{
    const char *name = mp_pool_format(c->model->pool, "%s:%d", stem, k);
    MP_ENSURE(name, c->err, MP_NOMEM, "out of memory");
    return mp_model_fresh_tensor(c->model, name, out, c->err);
}

/* Adds an operator that writes n tensors that exist already. */
static mp_status add_writing(chunks *c, mp_operator_draft draft, const int *out, int n)
{
    int index;
    draft.out = out;
    draft.n_out = n;
    MP_CHECK(mp_model_operator(c->model, &draft, &index, c->err));
    return mp_operator_infer(c->model, index, c->err);
}

/* Adds an operator whose n outputs are new tensors named after `stem`. */
static mp_status add(chunks *c, mp_operator_draft draft, const char *stem, int *out, int n)
{
    for (int k = 0; k < n; k++) MP_CHECK(fresh(c, stem, k, &out[k]));
    return add_writing(c, draft, out, n);
}

/* True if the tensor is still needed: a declared output, or read by an operator that is not removed. O(operands). */
static bool is_read(const mp_model *model, int tensor)
{
    bool any = model->tensors[tensor].is_output;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int i = 0; !op->removed && i < op->n_in; i++) any |= op->in[i] == tensor;
    }
    return any;
}

/* Removes the operator that wrote a tensor which nothing reads any more. */
static void take_out(mp_model *model, int tensor)
{
    model->operators[model->tensors[tensor].producer].removed = true;
    model->tensors[tensor].producer = -1;
}

static bool is_joined_of_chunks(const chunks *c, const mp_operator *op, int axis)
{
    if (!mp_is_kind(op, "Concat") || mp_operator_int(op, "axis", -1) != axis || op->n_in != c->n) return false;
    for (int k = 0; k < c->n; k++)
        if (c->model->tensors[op->in[k]].dims[axis] != c->sizes[k]) return false;
    return true;
}

/* Splits a tensor into one tensor per sequence chunk, along its time axis. The caller must first remove the operators that read
 * the tensor. If no reader remains, memplan looks at the operator that produces the tensor. If it is a view that keeps the
 * axis, a transposition, or a row look-up by indices, it is copied for each chunk. If the tensor is a concatenation of exactly
 * these chunks, the concatenated tensors are used. A batch input is sliced. Any other tensor gets a Split. MP_NOMEM. */
static mp_status cut_input(chunks *c, int tensor, int axis, int *parts);

/* Returns the axis of tensor `from` that becomes `axis` in its view `to`; -1: none. */
static int axis_before_view(const mp_tensor *from, const mp_tensor *to, int axis)
{
    const int64_t before = mp_product(to->dims, 0, axis);
    for (int d = 0; d < from->rank; d++)
        if (from->dims[d] == to->dims[axis] && mp_product(from->dims, 0, d) == before) return d;
    return -1;
}

static mp_status cut_view(chunks *c, int tensor, int from, int from_axis, int axis, int *parts)
{
    const int rank = c->model->tensors[tensor].rank;
    int64_t shape[MP_RANK_MAX];
    MP_CHECK(cut_input(c, from, from_axis, parts));
    memcpy(shape, c->model->tensors[tensor].dims, (size_t)rank * sizeof *shape);
    for (int k = 0; k < c->n; k++) {
        shape[axis] = c->sizes[k];
        const mp_attribute sizes = mp_attribute_ints("shape", shape, (size_t)rank);
        const int part = parts[k];
        MP_CHECK(add(c, mp_draft("Reshape", "memplan", 1, &part, 1, &sizes, 1), c->model->tensors[tensor].name, &parts[k], 1));
    }
    return MP_OK;
}

/* Copies an operator once per sequence chunk (range of time steps) of its operand `cut`. */
static mp_status cut_operator(chunks *c, const mp_operator *op, int cut, int axis, int *parts)
{
    int in[2] = {op->in[0], op->n_in > 1 ? op->in[1] : -1};
    MP_CHECK(cut_input(c, op->in[cut], axis, parts));
    for (int k = 0; k < c->n; k++) {
        in[cut] = parts[k];
        MP_CHECK(add(c, mp_draft_like(op, in, op->n_in), c->model->tensors[op->out[0]].name, &parts[k], 1));
    }
    return MP_OK;
}

/* Adds one Slice of the batch input per sequence chunk. A Split would copy the whole batch, which stays live anyway. */
static mp_status slice(chunks *c, int tensor, int axis, int *parts)
{
    int64_t from = 0, along = axis;
    for (int k = 0; k < c->n; k++) {
        int64_t to = from + c->sizes[k];
        const mp_attribute attributes[] = {mp_attribute_ints("axes", &along, 1), mp_attribute_ints("starts", &from, 1),
                                           mp_attribute_ints("ends", &to, 1)};
        MP_CHECK(add(c, mp_draft("Slice", "", 1, &tensor, 1, attributes, 3), c->model->tensors[tensor].name, &parts[k], 1));
        from = to;
    }
    return MP_OK;
}

static mp_status cut_input(chunks *c, int tensor, int axis, int *parts)
{
    const mp_model *model = c->model;
    const mp_tensor *t = &model->tensors[tensor];
    if (t->producer < 0 && t->role == MP_ROLE_DATA) return slice(c, tensor, axis, parts);
    if (t->producer < 0) return mp_operator_split(c->model, tensor, axis, c->sizes, c->n, parts, c->err);
    const mp_operator op =
        model->operators[t->producer]; /* a copy of the operator, because adding operators may move the array */
    if (is_joined_of_chunks(c, &op, axis)) {
        memcpy(parts, op.in, (size_t)c->n * sizeof *parts);
        return MP_OK;
    }
    if (is_read(model, tensor) || op.n_out != 1)
        return mp_operator_split(c->model, tensor, axis, c->sizes, c->n, parts, c->err);
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
    return mp_operator_split(c->model, tensor, axis, c->sizes, c->n, parts, c->err);
}

/* Indices of the inputs and outputs of a recurrent layer. */
enum { X, W, R, B, LENGTHS, H, C, P, N_IN };
enum { Y, Y_H, Y_C, N_OUT };

int64_t mp_sequence_steps(int64_t n_steps)
{
    int64_t root = 1;
    while (root * root < n_steps) root++;
    return n_steps < MP_SEQUENCE_LONG ? n_steps : root;
}

/* One direction of a recurrent layer that is being split. */
typedef struct layer {
    mp_operator op; /* a copy of the operator that is being split, because adding operators may move the array */
    chunks *cut;
    bool backwards;
    int in[N_IN];
    int out[N_OUT]; /* indices of the output tensors; -1: nothing reads the output */
    mp_attribute *attributes;
    size_t n_attributes;
} layer;

/* Concatenates the tensors in `parts` along dimension 0 or 1 into tensor `to`. */
static mp_status join(chunks *c, const int *parts, int n, int64_t axis, int to)
{
    const mp_attribute along = mp_attribute_int("axis", axis);
    return add_writing(c, mp_draft("Concat", "", 11, parts, n, &along, 1), &to, 1);
}

/* Adds the recurrent layer for sequence chunk k of n (a range of time steps), counted in the direction of the recurrence.
 * `state` contains the tensors h and c before the chunk; they are replaced by the states after the chunk. */
static mp_status add_chunk(const layer *l, int k, int x, int state[2], int *y)
{
    chunks *c = l->cut;
    const bool is_last = k == c->n - 1, is_lstm = l->op.op->max_out == N_OUT;
    int in[N_IN], out[N_OUT] = {-1, -1, -1};
    const char *name = mp_pool_format(c->model->pool, "%s:%d", l->op.name, l->backwards ? c->n - 1 - k : k);
    MP_ENSURE(name, c->err, MP_NOMEM, "out of memory");
    memcpy(in, l->in, sizeof in);
    in[X] = x;
    in[H] = state[0];
    in[C] = state[1];
    if (l->out[Y] >= 0) MP_CHECK(fresh(c, c->model->tensors[l->out[Y]].name, l->backwards ? c->n - 1 - k : k, &out[Y]));
    for (int o = Y_H; o < (is_lstm ? N_OUT : Y_C); o++) {
        out[o] = is_last ? l->out[o] : -1;
        if (!is_last) MP_CHECK(fresh(c, mp_pool_format(c->model->pool, "%s:%s", name, o == Y_H ? "h" : "c"), 0, &out[o]));
        state[o - Y_H] = out[o];
    }
    *y = out[Y];
    mp_operator_draft draft = mp_draft_like(&l->op, in, is_lstm ? N_IN : C);
    draft.name = name;
    draft.attributes = l->attributes;
    draft.n_attributes = l->n_attributes;
    return add_writing(c, draft, out, is_lstm ? N_OUT : Y_C);
}

static mp_status add_chunks(const layer *l, const int *parts)
{
    chunks *c = l->cut;
    int state[2] = {l->in[H], l->in[C]};
    MP_OWNED int *outputs = NULL;
    MP_ENSURE(outputs = mp_alloc((size_t)c->n, sizeof *outputs), c->err, MP_NOMEM, "out of memory");
    for (int k = 0; k < c->n; k++) {
        const int place = l->backwards ? c->n - 1 - k : k;
        MP_CHECK(add_chunk(l, k, parts[place], state, &outputs[place]));
    }
    if (l->out[Y] >= 0) MP_CHECK(join(c, outputs, c->n, 0, l->out[Y]));
    return MP_OK;
}

/* Sets the attributes for a layer of direction d only; `activations` keeps only this direction. */
static mp_status take_attributes(layer *l, int d, bool both)
{
    mp_model *model = l->cut->model;
    const mp_operator *op = &l->op;
    const int n_each = op->op->max_out == N_OUT ? 3 : op->op->max_in == C && !strcmp(op->kind, "GRU") ? 2 : 1;
    MP_ENSURE(l->attributes = mp_pool_alloc(model->pool, op->n_attributes + 1, sizeof *l->attributes), l->cut->err, MP_NOMEM,
              "out of memory");
    l->n_attributes = 0;
    for (size_t k = 0; k < op->n_attributes; k++) {
        mp_attribute a = op->attributes[k];
        if (both && !strcmp(a.name, "direction")) a.text = d ? "reverse" : "forward";
        if (both && !strcmp(a.name, "activations") && a.text) {
            const char *from = a.text, *end;
            for (int skip = d * n_each; skip > 0 && *from; skip--) from += strcspn(from, ",") + (strchr(from, ',') != NULL);
            end = from;
            for (int n = 0; n < n_each && *end; n++) end += strcspn(end, ",") + (n + 1 < n_each && strchr(end, ',') != NULL);
            MP_ENSURE(a.text = mp_pool_text(model->pool, from, (size_t)(end - from)), l->cut->err, MP_NOMEM, "out of memory");
        }
        l->attributes[l->n_attributes++] = a;
    }
    return MP_OK;
}

/* Splits a tensor in two along its first dimension: one half per direction of the recurrence. */
static mp_status halve(chunks *c, int tensor, int half[2])
{
    half[0] = half[1] = tensor;
    if (tensor >= 0) MP_CHECK(mp_operator_split(c->model, tensor, 0, (const int64_t[]){1, 1}, 2, half, c->err));
    return MP_OK;
}

/* Replaces a bidirectional layer by one layer per direction, and joins their outputs. */
static mp_status cut_both(chunks *c, const mp_operator *op, const int *parts)
{
    layer l[2] = {{.op = *op, .cut = c}, {.op = *op, .cut = c, .backwards = true}};
    int halves[N_OUT][2];
    for (int i = 0; i < N_IN; i++) {
        int half[2] = {-1, -1};
        if (i != X && i != LENGTHS) MP_CHECK(halve(c, i < op->n_in ? op->in[i] : -1, half));
        for (int d = 0; d < 2; d++) l[d].in[i] = half[d];
    }
    for (int d = 0; d < 2; d++) {
        MP_CHECK(take_attributes(&l[d], d, true));
        for (int o = 0; o < N_OUT; o++) {
            l[d].out[o] = -1;
            if (o < op->n_out && op->out[o] >= 0) MP_CHECK(fresh(c, c->model->tensors[op->out[o]].name, d, &l[d].out[o]));
            halves[o][d] = l[d].out[o];
        }
        MP_CHECK(add_chunks(&l[d], parts));
    }
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0) MP_CHECK(join(c, halves[o], 2, o == Y ? 1 : 0, op->out[o]));
    return MP_OK;
}

static mp_status cut_one(chunks *c, const mp_operator *op, const int *parts)
{
    layer l = {.op = *op, .cut = c, .backwards = !strcmp(mp_operator_text(op, "direction", "forward"), "reverse")};
    for (int i = 0; i < N_IN; i++) l.in[i] = i < op->n_in && i != LENGTHS ? op->in[i] : -1;
    for (int o = 0; o < N_OUT; o++) l.out[o] = o < op->n_out ? op->out[o] : -1;
    MP_CHECK(take_attributes(&l, 0, false));
    return add_chunks(&l, parts);
}

static bool is_recurrent(const mp_operator *op)
{
    return mp_is_kind(op, "LSTM") || mp_is_kind(op, "GRU") || mp_is_kind(op, "RNN");
}

static mp_status cut_layer(mp_model *model, int index, int64_t steps, mp_sequence_report *report, mp_error *err)
{
    const mp_operator op = model->operators[index]; /* a copy of the operator, because adding operators may move the array */
    const mp_recurrent sizes = mp_recurrent_read(model, &op);
    chunks c = {.model = model, .err = err};
    MP_OWNED int *parts = NULL;
    if (!steps) steps = mp_sequence_steps(sizes.n_steps);
    if (sizes.batch_first || mp_operator_in(model, &op, LENGTHS) || steps >= sizes.n_steps) return MP_OK;
    c.n = (int)((sizes.n_steps + steps - 1) / steps);
    MP_ENSURE(c.sizes = mp_pool_alloc(model->pool, (size_t)c.n, sizeof *c.sizes), err, MP_NOMEM, "out of memory");
    MP_ENSURE(parts = mp_alloc((size_t)c.n, sizeof *parts), err, MP_NOMEM, "out of memory");
    for (int k = 0; k < c.n; k++) c.sizes[k] = k < c.n - 1 ? steps : sizes.n_steps - steps * (c.n - 1);
    model->operators[index].removed = true;
    for (int o = 0; o < op.n_out; o++)
        if (op.out[o] >= 0) model->tensors[op.out[o]].producer = -1;
    MP_CHECK(cut_input(&c, op.in[X], 0, parts));
    MP_CHECK(sizes.n_directions == 2 ? cut_both(&c, &op, parts) : cut_one(&c, &op, parts));
    report->n_layers += (int)sizes.n_directions;
    report->n_chunks += c.n * (int)sizes.n_directions;
    return MP_OK;
}

mp_status mp_model_cut_sequences(mp_model *model, int64_t steps, mp_sequence_report *report, mp_error *err)
{
    const size_t n = model->n_operators;
    *report = (mp_sequence_report){0};
    for (size_t k = 0; k < n; k++) {
        const mp_operator *op = &model->operators[k];
        if (!op->removed && op->op && is_recurrent(op)) MP_CHECK(cut_layer(model, (int)k, steps, report, err));
    }
    if (!report->n_layers) return MP_OK;
    MP_OWNED int *n_readers = mp_alloc(model->n_tensors, sizeof *n_readers);
    MP_ENSURE(n_readers, err, MP_NOMEM, "out of memory");
    mp_rewriter r = {.model = model, .n_readers = n_readers, .rules = MP_RULES_EXECUTOR, .err = err};
    mp_rewriter_start(&r);
    MP_CHECK(mp_rewrite_dead(&r));
    mp_rewriter_start(&r);
    return mp_model_sort(model, err);
}

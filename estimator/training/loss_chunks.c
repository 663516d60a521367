/* loss_chunks.c - finds the chain of operators between a product and the loss, and copies it once per chunk of rows. */
#include "estimator/training/loss_chunks.h"

#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"
#include "estimator/simplify/rewrite.h"

enum { CHAIN_MAX = 16 }; /* more operators than heads of networks have between their product and the loss */

/* One operator of the chain. */
typedef struct link {
    int op;
    int operand; /* index of the operand that comes from the chain */
} link;

typedef struct head {
    mp_model *model;
    mp_consumers readers;
    int loss;                /* the operator of the loss */
    link chain[CHAIN_MAX];   /* operators of the chain that compute, from the loss to the product */
    int selected[CHAIN_MAX]; /* operators that select rows, from the loss to the product */
    int path[CHAIN_MAX];     /* all operators from the loss to the product, views included */
    int n_chain, n_selected, n_path;
    int64_t n_rows, n_columns; /* of the logits */
    const char *reason;
    mp_error *err;
} head;

static void head_clear(head *h)
{
    mp_consumers_free(&h->readers);
}

static mp_tensor *tensor_of(const head *h, int tensor)
{
    return &h->model->tensors[tensor];
}

/* Returns the producer of a tensor that only one operator reads; NULL: none. */
static const mp_operator *producer_for_one_reader(const head *h, int tensor)
{
    const int producer = tensor_of(h, tensor)->producer;
    const bool is_single = h->readers.start[tensor + 1] - h->readers.start[tensor] == 1;
    return producer >= 0 && is_single ? &h->model->operators[producer] : NULL;
}

/* True if a tensor has the same values for each row of a matrix: a number, or one row. */
static bool is_alike_for_rows(const mp_tensor *t)
{
    return t->rank < 2 || (t->rank == 2 && t->dims[0] == 1);
}

/* True for a product with a matrix whose rows are the rows of operand 0. */
static bool is_row_product(const head *h, const mp_operator *op)
{
    if (!op->op || op->op->flops != mp_flops_matmul) return false;
    if (mp_operator_int(op, "transA", 0) || mp_operator_int(op, "transBatchA", 0) || mp_operator_int(op, "transBatchB", 0))
        return false;
    const mp_tensor *x = mp_operator_in(h->model, op, 0), *w = mp_operator_in(h->model, op, 1),
                    *bias = op->n_in > 2 ? mp_operator_in(h->model, op, 2) : NULL;
    return x->rank >= 2 && w->rank == 2 && (!bias || is_alike_for_rows(bias));
}

/* Returns the operand of an elementwise operator that has a row per row of the result. All other operands must be alike for all
 * rows. -1: the operator is another one. */
static int row_operand(const head *h, const mp_operator *op)
{
    int found = -1;
    if (!op->op || op->n_out != 1 || op->op->factors != mp_factors_broadcast || op->op->traits & MP_TRAIT_RANDOM) return -1;
    for (int i = 0; i < op->n_in; i++) {
        const mp_tensor *t = mp_operator_in(h->model, op, i);
        if (!t) return -1;
        if (mp_same_shape(t, mp_operator_out(h->model, op, 0)) && found < 0)
            found = i;
        else if (!is_alike_for_rows(t))
            return -1;
    }
    return found;
}

/* True if the operator selects rows: a slice along other dimensions than the last one. */
static bool selects_rows(const head *h, const mp_operator *op)
{
    const mp_tensor *from = mp_operator_in(h->model, op, 0), *to = mp_operator_out(h->model, op, 0);
    return mp_is_kind(op, "Slice") && from->rank >= 2 && from->dims[from->rank - 1] == to->dims[to->rank - 1];
}

static bool keeps_columns(const head *h, const mp_operator *op)
{
    const mp_tensor *from = mp_operator_in(h->model, op, 0);
    return op->op && op->op->gradient == MP_GRADIENT_VIEW && from->rank >= 2 && from->dims[from->rank - 1] == h->n_columns;
}

/* Follows the logits back to the product. Returns false if another operator is met; h->reason then states why. */
static bool follow(head *h)
{
    int tensor = h->model->operators[h->loss].in[0];
    while (h->n_path < CHAIN_MAX) {
        const mp_operator *op = producer_for_one_reader(h, tensor);
        if (!op || op->removed) break;
        const int index = (int)(op - h->model->operators);
        int operand = 0;
        h->path[h->n_path++] = index;
        if (is_row_product(h, op)) {
            h->chain[h->n_chain++] = (link){index, 0};
            return true;
        }
        if (selects_rows(h, op)) {
            h->selected[h->n_selected++] = index;
        } else if (keeps_columns(h, op)) {
            if (h->n_selected) break; /* the dimensions of the slice are not those of the product */
        } else {
            operand = row_operand(h, op);
            if (operand < 0) break;
            h->chain[h->n_chain++] = (link){index, operand};
        }
        tensor = op->in[operand];
    }
    h->reason = "the logits are not a product with a matrix followed by functions of single rows";
    return false;
}

/* Finds the head. Returns false if the model has none that can be cut; h->reason then states why. */
static bool find(head *h, int loss)
{
    const mp_model *m = h->model;
    h->reason = "the model's loss is not a cross-entropy over the rows of logits";
    while (loss >= 0 && m->tensors[loss].producer >= 0) {
        const mp_operator *op = &m->operators[m->tensors[loss].producer];
        if (!op->op || op->op->gradient != MP_GRADIENT_VIEW) break;
        loss = op->in[0];
    }
    if (loss < 0 || (h->loss = m->tensors[loss].producer) < 0) return false;
    const mp_operator *op = &m->operators[h->loss];
    const mp_tensor *logits = mp_operator_in(m, op, 0);
    if (!mp_is_kind(op, "SoftmaxCrossEntropyLoss") || !strcmp(mp_operator_text(op, "reduction", "mean"), "none")) return false;
    if (logits->rank != 2 || (op->n_out > 1 && op->out[1] >= 0)) return false;
    h->n_rows = logits->dims[0];
    h->n_columns = logits->dims[1];
    return follow(h);
}

/* ---- building the chunks. */

/* Adds an operator with one output, a new tensor named after `stem`. */
static mp_status add(head *h, mp_operator_draft draft, const char *stem, int *out)
{
    *out = -1;
    return mp_operator_put(h->model, draft, stem, out, h->err);
}

/* Returns in *x the input of the product as a matrix with one row per row of the logits. */
static mp_status rows_of_input(head *h, int *x)
{
    const int64_t columns = tensor_of(h, *x)->dims[tensor_of(h, *x)->rank - 1], shape[] = {h->n_rows, columns};
    const mp_attribute sizes = mp_attribute_ints("shape", shape, 2);
    for (int k = h->n_selected - 1; k >= 0; k--) {
        const mp_operator op = h->model->operators[h->selected[k]]; /* a copy, because adding operators may move the array */
        int in[5];
        memcpy(in, op.in, (size_t)op.n_in * sizeof *in);
        in[0] = *x;
        MP_CHECK(add(h, mp_draft_like(&op, in, op.n_in), tensor_of(h, op.out[0])->name, x));
    }
    if (tensor_of(h, *x)->rank == 2) return MP_OK;
    const int from = *x;
    return add(h, mp_draft("Reshape", "memplan", 1, &from, 1, &sizes, 1), tensor_of(h, from)->name, x);
}

/* Adds a copy of an operator for chunk k. */
static mp_status add_copy(head *h, const mp_operator *op, mp_operator_draft draft, int k, int *out)
{
    draft.name = mp_pool_format(h->model->pool, "%s:%d", op->name, k);
    const char *stem = mp_pool_format(h->model->pool, "%s:%d", tensor_of(h, op->out[0])->name, k);
    MP_ENSURE(draft.name && stem, h->err, MP_NOMEM, "out of memory");
    MP_CHECK(add(h, draft, stem, out));
    h->model->operators[h->model->n_operators - 1].chunk = k + 1;
    return MP_OK;
}

/* Adds the chain and the loss for chunk k. *loss is the part of the loss. */
static mp_status add_chunk(head *h, int k, int rows, int labels, int *loss)
{
    for (int c = h->n_chain - 1; c >= 0; c--) {
        const mp_operator op = h->model->operators[h->chain[c].op];
        MP_OWNED int *in = mp_alloc((size_t)op.n_in, sizeof *in);
        MP_ENSURE(in, h->err, MP_NOMEM, "out of memory");
        memcpy(in, op.in, (size_t)op.n_in * sizeof *in);
        in[h->chain[c].operand] = rows;
        MP_CHECK(add_copy(h, &op, mp_draft_like(&op, in, op.n_in), k, &rows));
    }
    const mp_operator op = h->model->operators[h->loss];
    const int in[] = {rows, labels, op.n_in > 2 ? op.in[2] : -1, op.in[1]};
    return add_copy(h, &op, mp_draft("SoftmaxCrossEntropyPart", "memplan", 1, in, 4, op.attributes, op.n_attributes), k, loss);
}

/* Removes an operator of the old head. Its results are no longer outputs of the model. */
static void take_out(head *h, int index)
{
    mp_model *m = h->model;
    mp_operator *op = &m->operators[index];
    const int result = op->out[0];
    size_t n = 0;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (m->outputs[k] != result) m->outputs[n++] = m->outputs[k];
    m->n_outputs = n;
    op->removed = true;
    tensor_of(h, result)->producer = -1;
    tensor_of(h, result)->is_output = false;
}

static mp_status build(head *h, int n)
{
    const mp_operator op = h->model->operators[h->loss];
    int x = h->model->operators[h->chain[h->n_chain - 1].op].in[0], loss = op.out[0];
    MP_OWNED int64_t *sizes = mp_alloc((size_t)n, sizeof *sizes);
    MP_OWNED int *rows = mp_alloc(3 * (size_t)n, sizeof *rows);
    MP_ENSURE(sizes && rows, h->err, MP_NOMEM, "out of memory");
    int *labels = rows + n, *losses = labels + n;
    for (int k = 0; k < n; k++) sizes[k] = h->n_rows / n + (k < h->n_rows % n);
    MP_CHECK(rows_of_input(h, &x));
    MP_CHECK(mp_operator_split(h->model, x, 0, sizes, n, rows, h->err));
    MP_CHECK(mp_operator_split(h->model, op.in[1], 0, sizes, n, labels, h->err));
    for (int k = 0; k < n; k++) MP_CHECK(add_chunk(h, k, rows[k], labels[k], &losses[k]));
    for (int k = 0; k < h->n_path; k++) take_out(h, h->path[k]);
    h->model->operators[h->loss].removed = true;
    tensor_of(h, loss)->producer = -1;
    MP_CHECK(mp_operator_put(h->model, mp_draft("Sum", "", 13, losses, n, NULL, 0), "loss", &loss, h->err));
    h->model->operators[h->model->n_operators - 1].chunk = MP_CHUNK_SUM;
    return MP_OK;
}

mp_status mp_model_chunk_loss(mp_model *model, int loss, int n_wanted, mp_loss_chunks *out, mp_error *err)
{
    MP_CLEARED_BY(head_clear) head h = {.model = model, .err = err};
    *out = (mp_loss_chunks){0};
    MP_CHECK(mp_model_consumers(model, &h.readers, err));
    const bool is_found = find(&h, loss);
    out->reason = is_found ? NULL : h.reason;
    if (!is_found) return MP_OK;
    out->n_rows = h.n_rows;
    out->product = model->operators[h.chain[h.n_chain - 1].op].name;
    const int n = n_wanted < h.n_rows ? n_wanted : (int)h.n_rows;
    if (n < 2) return MP_OK;
    MP_CHECK(build(&h, n));
    out->n = n;
    return mp_model_sort(model, err);
}

int mp_loss_chunk_of(const mp_model *model, int chunk, int tensor)
{
    const int maker = model->tensors[tensor].producer;
    if (maker >= 0 && model->operators[maker].chunk == chunk) return chunk;
    for (size_t k = 0; chunk && k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        for (int i = 0; i < op->n_in && !op->removed; i++)
            if (op->in[i] == tensor && op->chunk != chunk) return 0;
    }
    return chunk;
}

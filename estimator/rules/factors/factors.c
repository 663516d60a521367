/* factors.c - computes the splitting factors of every operator that can be split. */
#include "estimator/rules/factors/factors.h"

#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/attention.h"

static int find(const int *list, int rank, int factor)
{
    for (int d = 0; d < rank; d++)
        if (list[d] == factor) return d;
    return -1;
}

int mp_factor_of_input(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor)
{
    const mp_tensor *t = k < MP_OP_INPUTS && k < op->n_in ? mp_operator_in(model, op, k) : NULL;
    return t ? find(f->in[k], t->rank, factor) : -1;
}

int mp_factor_of_output(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor)
{
    const mp_tensor *t = k < MP_FACTOR_OUTPUTS && k < op->n_out ? mp_operator_out(model, op, k) : NULL;
    return t ? find(f->out[k], t->rank, factor) : -1;
}

/* Assigns factor d + 1 to dimension d of each result. Dimensions of size 1 have no factor. */
static void number_results(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    for (int o = 0; o < op->n_out && o < MP_FACTOR_OUTPUTS; o++) {
        const mp_tensor *y = mp_operator_out(model, op, o);
        for (int d = 0; y && d < y->rank; d++) f->out[o][d] = y->dims[d] > 1 ? d + 1 : 0;
    }
}

/* Gives the dimensions of operand k the factors of result 0. As in broadcasting, the last dimensions are aligned. */
static void align(const mp_model *model, const mp_operator *op, mp_operand_factors *f, int k)
{
    const mp_tensor *x = mp_operator_in(model, op, k), *y = mp_operator_out(model, op, 0);
    for (int d = 0; x && d < x->rank; d++) {
        const int at = d + y->rank - x->rank;
        f->in[k][d] = at >= 0 && x->dims[d] > 1 ? f->out[0][at] : 0;
    }
}

bool mp_factors_broadcast(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const bool is_alone =
        op->op->traits & (MP_TRAIT_EXPANDS | MP_TRAIT_CASTS); /* true: only operand 0 is split, because the operator reads no
                                                                 elements of operand 1, only its shape or type */
    *f = (mp_operand_factors){0};
    if (op->n_in > MP_OP_INPUTS) return false;
    number_results(model, op, f);
    for (int k = 0; k < (is_alone ? 1 : op->n_in); k++) align(model, op, f, k);
    return true;
}

/* Operators that normalize lines of elements. A softmax normalizes along its axis. Normalizations, and softmax before
 * version 13, use all dimensions from their axis on. These dimensions cannot be split, and neither can scale and shift. */
bool mp_factors_lines(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    const bool is_softmax = strstr(op->kind, "Softmax"), is_old = is_softmax && !*op->domain && op->version < 13;
    int64_t axis = mp_operator_int(op, "axis", is_old ? 1 : -1);
    if (axis < 0) axis += x->rank;
    *f = (mp_operand_factors){0};
    for (int d = 0; d < x->rank; d++) f->in[0][d] = d == axis || (d > axis && (is_old || !is_softmax)) ? 0 : d + 1;
    for (int o = 0; o < op->n_out && o < MP_FACTOR_OUTPUTS; o++) memcpy(f->out[o], f->in[0], sizeof f->out[o]);
    return true;
}

/* Batch normalization: only the channels can be split, because statistics are computed over all other dimensions. */
bool mp_factors_channels(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    (void)model;
    *f = (mp_operand_factors){.is_of_batch = true};
    f->in[0][1] = f->out[0][1] = 1;
    for (int k = 1; k < 5; k++) f->in[k][0] = 1;
    for (int o = 1; o < op->n_out && o < MP_FACTOR_OUTPUTS; o++)
        f->out[o][0] = 1; /* outputs 1 and up are statistics with one dimension, the channels */
    f->in[5][1] = 1;
    return op->n_out <= MP_FACTOR_OUTPUTS;
}

/* Pooling and interpolation: can be split by sample and channel, except along dimensions that are interpolated. */
bool mp_factors_images(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *x = mp_operator_in(model, op, 0), *y = mp_operator_out(model, op, 0);
    *f = (mp_operand_factors){0};
    for (int d = 0; d < 2 && d < x->rank; d++)
        if (x->dims[d] == y->dims[d]) f->in[0][d] = f->out[0][d] = f->out[1][d] = d + 1;
    return op->n_out <= 2;
}

bool mp_factors_matmul(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    enum { M = 1, K, N, BATCH };
    const mp_tensor *a = mp_operator_in(model, op, 0), *b = mp_operator_in(model, op, 1), *y = mp_operator_out(model, op, 0);
    const bool turned_a = mp_operator_int(op, "transA", 0), turned_b = mp_operator_int(op, "transB", 0);
    *f = (mp_operand_factors){.columns = N, .contracted = K};
    if (a->rank < 2 || b->rank < 2 || mp_operator_int(op, "transBatchA", 0) || mp_operator_int(op, "transBatchB", 0))
        return false;
    for (int d = 0; d < y->rank - 2; d++) f->out[0][d] = y->dims[d] > 1 ? BATCH + d : 0;
    f->out[0][y->rank - 2] = M;
    f->out[0][y->rank - 1] = N;
    for (int k = 0; k < op->n_in && k < 3; k++) align(model, op, f, k);
    f->in[0][a->rank - 2 + turned_a] = M;
    f->in[0][a->rank - 1 - turned_a] = K;
    f->in[1][b->rank - 2 + turned_b] = K;
    f->in[1][b->rank - 1 - turned_b] = N;
    return true;
}

bool mp_factors_conv(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    enum { BATCH = 1, INPUTS, OUTPUTS };
    const int64_t groups = mp_operator_int(op, "group", 1), channels = mp_operator_in(model, op, 0)->dims[1];
    const bool turned = op->op->traits & MP_TRAIT_TRANSPOSED;
    *f = (mp_operand_factors){0};
    f->in[0][0] = f->out[0][0] = BATCH;
    if (groups != 1 && (groups != channels || turned)) return true;
    f->out[0][1] = f->in[1][turned] = f->in[2][0] = OUTPUTS;
    f->in[0][1] = groups == 1 ? INPUTS : OUTPUTS; /* depthwise convolution: each channel is split together with its filter */
    if (groups > 1) return true;
    f->in[1][!turned] = INPUTS;
    f->columns = OUTPUTS;
    f->contracted = INPUTS;
    return true;
}

/* Attention: can be split along the batch dimensions, which include heads. If several heads of Q share one head of K and V,
 * they are split together. */
bool mp_factors_attention(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    mp_attention_view view;
    const int r = mp_attention_rank(model, op);
    *f = (mp_operand_factors){0};
    if (mp_attention_view_read(op, 0, &view)) return false; /* ranks split a model before a backend packs operands */
    for (int k = 0; k <= MP_ATTENTION_Y; k++) {
        const int64_t *perm = mp_attention_perm(op, k);
        int *to = k == MP_ATTENTION_Y ? f->out[0] : f->in[k];
        for (int d = 0; d < r - 2; d++) {
            const bool leads = k == MP_ATTENTION_Y &&
                               perm; /* the stored dimension d of the tensor is dimension perm[d] of attention's result Y */
            if (leads)
                for (int e = 0; e < r; e++) to[e] = perm[e] < r - 2 ? (int)perm[e] + 1 : 0;
            else
                to[perm ? perm[d] : d] = d + 1;
        }
    }
    for (int k = MP_ATTENTION_ADDED; k < op->n_in && k <= MP_ATTENTION_POSITIONS; k++) {
        const mp_tensor *mask = mp_operator_in(model, op, k);
        for (int d = 0; mask && d < mask->rank; d++) {
            const int at = d + r - mask->rank;
            f->in[k][d] = at >= 0 && at < r - 2 && mask->dims[d] > 1 ? at + 1 : 0;
        }
    }
    return true;
}

/* Row look-up: each rank looks up the rows that it holds, and returns zeros for all other rows. */
bool mp_factors_gather(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *table = mp_operator_in(model, op, 0), *index = mp_operator_in(model, op, 1);
    int64_t axis = mp_operator_int(op, "axis", 0);
    int n = 1, at = 0;
    if (axis < 0) axis += table->rank;
    *f = (mp_operand_factors){.rows = axis == 0 ? 1 : 0};
    f->in[0][axis] = f->rows;
    for (int d = 0; d < table->rank; d++) {
        if (d == axis)
            for (int e = 0; e < index->rank; e++) f->in[1][e] = f->out[0][at++] = ++n;
        else
            f->in[0][d] = f->out[0][at++] = ++n;
    }
    return true;
}

bool mp_factors_transpose(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    size_t n;
    const int64_t *perm = mp_operator_ints(op, "perm", &n);
    *f = (mp_operand_factors){0};
    for (int d = 0; d < x->rank; d++) {
        const int64_t from = perm ? perm[d] : x->rank - 1 - d;
        f->in[0][from < 0 ? from + x->rank : from] = f->out[0][d] = d + 1;
    }
    return true;
}

/* Operators that split a tensor into pieces along a dimension, or join tensors. The ranks can also split this dimension if
 * their number divides all pieces. The producer then distributes the elements so that every rank gets a share of each piece
 * (queries, keys and values of its heads). */
bool mp_factors_parts(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    *f = (mp_operand_factors){0};
    if (op->n_in > MP_OP_INPUTS || op->n_out > MP_FACTOR_OUTPUTS) return false;
    const bool joins = f->joins = !strcmp(op->kind, "Concat");
    f->cuts = !joins;
    /* unlike number_results, this loop gives a factor to dimensions of size 1 too; a size of 1 then prevents a split by this
     * factor */
    for (int k = 0; k < (joins ? op->n_in : 1); k++) {
        const mp_tensor *x = mp_operator_in(model, op, k);
        for (int d = 0; d < x->rank; d++) f->in[k][d] = d + 1;
    }
    for (int o = 0; o < op->n_out; o++) {
        const mp_tensor *y = mp_operator_out(model, op, o);
        for (int d = 0; y && d < y->rank; d++) f->out[o][d] = d + 1;
    }
    return true;
}

/* Reductions. If the ranks split a reduced dimension, a sum or mean adds the results of the ranks. Other reductions do not
 * permit such a split. */
bool mp_factors_reduce(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    const bool adds = !strcmp(op->kind, "ReduceSum") || !strcmp(op->kind, "ReduceMean"),
               keeps = mp_operator_int(op, "keepdims", 1);
    size_t n;
    const int64_t *axes = mp_operator_ints(op, "axes", &n);
    const mp_tensor *list = op->n_in > 1 ? mp_operator_in(model, op, 1) : NULL;
    bool is_reduced[MP_RANK_MAX] = {false};
    if (list && !list->value) return false;
    if (list) {
        axes = list->value->i;
        n = (size_t)list->value->n;
    }
    if (!n && mp_operator_int(op, "noop_with_empty_axes", 0)) return mp_factors_broadcast(model, op, f);
    if (!n) axes = NULL;
    for (size_t k = 0; axes && k < n; k++) is_reduced[axes[k] < 0 ? axes[k] + x->rank : axes[k]] = true;
    *f = (mp_operand_factors){0};
    for (int d = 0, at = 0; d < x->rank; d++) {
        const bool gone = is_reduced[d] || !axes;
        f->in[0][d] = !gone || adds ? d + 1 : 0;
        if (!gone) f->out[0][at] = d + 1;
        at += !gone || keeps;
    }
    return true;
}

/* Losses over classes. A line contains all scores of one label. The loss is a sum over labels, so it can be split by label.
 * If it is split by class, ranks exchange the largest score, the sum of exponentials and the target's score of each line. A
 * loss of a chunk of lines is split by class only, because it also reads the labels of all other chunks. */
bool mp_factors_classes(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    enum { CLASSES = 2, LABELS_OF_ALL = 3 };
    const mp_tensor *x = mp_operator_in(model, op, 0), *y = mp_operator_out(model, op, 0);
    const bool is_chunk = op->n_in > LABELS_OF_ALL;
    *f = (mp_operand_factors){.exchanged = CLASSES};
    for (int d = 0; d < x->rank; d++) {
        if (d != 1 && is_chunk) continue;
        f->in[0][d] = d + 1;
        if (d != 1) f->in[1][d ? d - 1 : 0] = d + 1;
    }
    f->in[2][0] = CLASSES; /* input 2 of the loss contains one weight per class */
    memcpy(f->out[1], f->in[0], sizeof f->out[1]);
    if (y->rank) memcpy(f->out[0], f->in[1], sizeof f->out[0]);
    return true;
}

/* Losses over elements: the loss is a sum over elements, so it can be split along all dimensions. */
bool mp_factors_elements(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    *f = (mp_operand_factors){0};
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < x->rank; d++) f->in[k][d] = d + 1;
    return op->n_in <= 2;
}

/* All-to-all of tokens between the ranks of the experts: only the dimensions after the first two can be split. */
bool mp_factors_all_to_all(const mp_model *model, const mp_operator *op, mp_operand_factors *f)
{
    *f = (mp_operand_factors){0};
    for (int d = 2; d < mp_operator_in(model, op, 0)->rank; d++) f->in[0][d] = f->out[0][d] = d + 1;
    return true;
}

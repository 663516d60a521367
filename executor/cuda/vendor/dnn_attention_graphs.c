/* dnn_attention_graphs.c - builds the graphs of attention from cuDNN's operations. */
#include <string.h>

#include "executor/cuda/vendor/dnn_attention_graphs.h"

enum { RANK = 4, BATCH = 0, HEAD = 1, ROW = 2, COLUMN = 3, DEPTH_UNIT = 8, DEEPEST = 128, TILE_ROWS = 64, TILE_COLUMNS = 128 };

typedef struct shape {
    int64_t dims[RANK], strides[RANK];
} shape;

/* Describes a stack of matrices as a tensor of four dimensions: batch, head, row, column. Absent batch dimensions get size 1,
 * and as stride the number of elements that the inner dimensions span. */
static shape shape_of(const mp_matrices *m, int64_t rows, int64_t columns)
{
    shape s = {{1, 1, rows, columns}, {0, 0, m->row_stride, m->column_stride}};
    for (int d = 0; d < m->n_batch; d++) {
        s.dims[HEAD - d] = m->batch[m->n_batch - 1 - d];
        s.strides[HEAD - d] = m->batch_stride[m->n_batch - 1 - d];
    }
    int64_t extent = 1;
    for (int d = RANK - 1; d >= 0; d--) {
        if (!s.strides[d]) s.strides[d] = extent;
        if (s.dims[d] * s.strides[d] > extent) extent = s.dims[d] * s.strides[d];
    }
    return s;
}

static shape packed(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return (shape){{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

static shape turned(shape s)
{
    return (shape){{s.dims[BATCH], s.dims[HEAD], s.dims[COLUMN], s.dims[ROW]},
                   {s.strides[BATCH], s.strides[HEAD], s.strides[COLUMN], s.strides[ROW]}};
}

/* As shape_of, but dimensions along which the matrices are broadcast (stride 0) get size 1. */
static shape broadcast_shape(const mp_matrices *m, int64_t rows, int64_t columns)
{
    mp_matrices once = *m;
    for (int d = 0; d < m->n_batch; d++)
        if (!m->batch_stride[d]) once.batch[d] = 1;
    return shape_of(&once, m->row_stride ? rows : 1, m->column_stride ? columns : 1);
}

/* ---- building a graph of operations. */

typedef struct builder {
    mp_dnn_graph *g;
    mp_dnn_attention *at;
    const mp_attention_spec *form;
    /* shapes of Q, K, V, Y and of the scores; row: the shape of a tensor with one number per row of Q */
    shape q, k, v, y, scores, row;
} builder;

static builder start(const mp_attention_spec *f, mp_dnn_graph *g, mp_dnn_attention *at)
{
    const mp_attention *size = &f->size;
    memset(g, 0, sizeof *g);
    g->may_compile = 1;
    memset(at, -1, sizeof *at); /* sets all indices to -1 */
    builder b = {.g = g, .at = at, .form = f};
    b.q = shape_of(&f->q, size->rows, size->depth);
    b.k = shape_of(&f->k, size->columns, size->depth);
    b.v = shape_of(&f->v, size->columns, size->value_depth);
    b.y = shape_of(&f->y, size->rows, size->value_depth);
    b.scores = packed(b.q.dims[BATCH], b.q.dims[HEAD], size->rows, size->columns);
    b.row = packed(b.q.dims[BATCH], b.q.dims[HEAD], size->rows, 1);
    return b;
}

static int given(builder *b, cudnnDataType_t type, const shape *s)
{
    return mp_dnn_tensor_add(b->g, type, RANK, s->dims, s->strides);
}

static int between(builder *b, cudnnDataType_t type, const shape *s)
{
    int k = given(b, type, s);
    if (k < MP_DNN_TENSORS) b->g->tensors[k].is_virtual = 1;
    return k;
}

/* Adds a pointwise operation on tensor x and tensor `second` (-1: none), and returns the index of its result, which has no
 * memory. */
static int point(builder *b, cudnnPointwiseMode_t mode, int x, int second, const shape *s)
{
    int y = between(b, CUDNN_DATA_FLOAT, s);
    mp_dnn_operation_add(b->g, MP_DNN_POINTWISE, mode, (int[]){x, second, y}, 3);
    return y;
}

static int reduce(builder *b, cudnnReduceTensorOp_t mode, int x)
{
    int y = between(b, CUDNN_DATA_FLOAT, &b->row);
    mp_dnn_operation_add(b->g, MP_DNN_REDUCE, mode, (int[]){x, y}, 2);
    return y;
}

static void product(builder *b, int x, int y, int to)
{
    mp_dnn_operation_add(b->g, MP_DNN_MATMUL, 0, (int[]){x, y, to}, 3);
}

static int scores_product(builder *b, int x, int y)
{
    int to = between(b, CUDNN_DATA_FLOAT, &b->scores);
    product(b, x, y, to);
    return to;
}

/* Adds the transpose of tensor x (rows and columns exchanged) in bfloat16, and returns its index. */
static int turn(builder *b, int x, shape of)
{
    shape s = turned(of);
    int y = between(b, CUDNN_DATA_BFLOAT16, &s);
    mp_dnn_operation_add(b->g, MP_DNN_RESHAPE, 0, (int[]){x, y}, 2);
    return y;
}

static int index_along(builder *b, int x, int axis)
{
    int y = between(b, CUDNN_DATA_INT32, &b->scores), k = (int)b->g->n_operations;
    mp_dnn_operation_add(b->g, MP_DNN_POINTWISE, CUDNN_POINTWISE_GEN_INDEX, (int[]){x, -1, y}, 3);
    if (k < MP_DNN_OPERATIONS) b->g->operations[k].axis = axis;
    return y;
}

/* Adds the scaled scores, with the additive mask if there is one, and returns their index. */
static int scaled_scores(builder *b, int q, int kt)
{
    const mp_attention_spec *f = b->form;
    int s = scores_product(b, q, kt);
    b->at->scale = mp_dnn_scalar_add(b->g, RANK);
    s = point(b, CUDNN_POINTWISE_MUL, s, b->at->scale, &b->scores);
    if (!f->added.dtype) return s;
    shape added = broadcast_shape(&f->added, f->size.rows, f->size.columns);
    b->at->added = given(b, mp_dnn_type(f->added.dtype), &added);
    return point(b, CUDNN_POINTWISE_ADD, s, b->at->added, &b->scores);
}

/* For causal attention, replaces all scores above the diagonal by -inf. Returns the index of the result. */
static int below_diagonal(builder *b, int s)
{
    if (!b->form->causal) return s;
    int row = index_along(b, s, ROW), column = index_along(b, s, COLUMN);
    int seen = between(b, CUDNN_DATA_BOOLEAN, &b->scores), y = between(b, CUDNN_DATA_FLOAT, &b->scores);
    mp_dnn_operation_add(b->g, MP_DNN_POINTWISE, CUDNN_POINTWISE_CMP_GE, (int[]){row, column, seen}, 3);
    b->at->hidden = mp_dnn_scalar_add(b->g, RANK);
    mp_dnn_operation_add(b->g, MP_DNN_POINTWISE, CUDNN_POINTWISE_BINARY_SELECT, (int[]){s, b->at->hidden, y, -1, -1, seen}, 6);
    return y;
}

/* Returns the bytes that dS, the gradient of the scores, occupies in the engine's workspace; INT64_MAX on overflow. As in
 * cudnn-frontend, rows and columns are rounded up to whole tiles. */
static int64_t score_gradient_bytes(const builder *b)
{
    int64_t rows, columns, bytes;
    const int64_t *dims = b->scores.dims;
    return mp_round_up(dims[ROW], TILE_ROWS, &rows) && mp_round_up(dims[COLUMN], TILE_COLUMNS, &columns) &&
                   mp_multiply(2 * dims[BATCH], dims[HEAD], &bytes) && mp_multiply(bytes, rows, &bytes) &&
                   mp_multiply(bytes, columns, &bytes)
               ? bytes
               : INT64_MAX;
}

/* Adds dropout's random tensor of zeros and ones, which depends only on seed and offset. Returns its index; -1: no dropout. */
static int drawn(builder *b)
{
    static const shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    if (!(b->form->ratio > 0)) return -1;
    int y = between(b, CUDNN_DATA_FLOAT, &b->scores), k = (int)b->g->n_operations;
    b->at->seed = given(b, CUDNN_DATA_INT64, &one);
    b->at->offset = given(b, CUDNN_DATA_INT64, &one);
    mp_dnn_operation_add(b->g, MP_DNN_RANDOM, 0, (int[]){y, b->at->seed, b->at->offset}, 3);
    if (k < MP_DNN_OPERATIONS) b->g->operations[k].probability = 1 - (double)b->form->ratio;
    b->at->growth = mp_dnn_scalar_add(b->g, RANK);
    return y;
}

/* Sets the dropped elements of tensor x to zero. Returns the index of the result; without dropout, x. */
static int dropped(builder *b, int x, int drawn)
{
    return drawn < 0 ? x : point(b, CUDNN_POINTWISE_MUL, x, drawn, &b->scores);
}

/* Multiplies tensor x by c, the inverse of the probability that dropout keeps an element. Returns the index of the result;
 * without dropout, x. */
static int grown(builder *b, int x, int drawn)
{
    return drawn < 0 ? x : point(b, CUDNN_POINTWISE_MUL, x, b->at->growth, &b->scores);
}

/* ---- forward and backward. */

void mp_dnn_attention_forward(const mp_attention_spec *f, mp_dnn_graph *g, mp_dnn_attention *at)
{
    builder b = start(f, g, at);
    const shape kt = turned(b.k);
    at->q = given(&b, CUDNN_DATA_BFLOAT16, &b.q);
    at->k = given(&b, CUDNN_DATA_BFLOAT16, &kt);
    int s = below_diagonal(&b, scaled_scores(&b, at->q, at->k));
    int best = reduce(&b, CUDNN_REDUCE_TENSOR_MAX, s);
    int e = point(&b, CUDNN_POINTWISE_EXP, point(&b, CUDNN_POINTWISE_SUB, s, best, &b.scores), -1, &b.scores);
    int sum = reduce(&b, CUDNN_REDUCE_TENSOR_ADD, e);
    int log = point(&b, CUDNN_POINTWISE_LOG, sum, -1, &b.row);
    at->statistics = given(&b, CUDNN_DATA_FLOAT, &b.row);
    mp_dnn_operation_add(g, MP_DNN_POINTWISE, CUDNN_POINTWISE_ADD, (int[]){best, log, at->statistics}, 3);
    int p = point(&b, CUDNN_POINTWISE_DIV, e, sum, &b.scores), r = drawn(&b);
    p = grown(&b, dropped(&b, p, r), r);
    /* the probabilities P are rounded to bfloat16 for their product with V */
    if (p < MP_DNN_TENSORS) g->tensors[p].type = CUDNN_DATA_BFLOAT16;
    at->v = given(&b, CUDNN_DATA_BFLOAT16, &b.v);
    at->y = given(&b, CUDNN_DATA_BFLOAT16, &b.y);
    product(&b, p, at->v, at->y);
}

void mp_dnn_attention_backward(const mp_attention_spec *f, bool adds_up, mp_dnn_graph *g, mp_dnn_attention *at)
{
    builder b = start(f, g, at);
    const shape kt = turned(b.k), vt = turned(b.v);
    const int r = drawn(&b);
    at->dy = given(&b, CUDNN_DATA_BFLOAT16, &b.y);
    at->y = given(&b, CUDNN_DATA_BFLOAT16, &b.y);
    const shape products = packed(b.y.dims[BATCH], b.y.dims[HEAD], b.y.dims[ROW], b.y.dims[COLUMN]);
    int sum = reduce(&b, CUDNN_REDUCE_TENSOR_ADD, point(&b, CUDNN_POINTWISE_MUL, at->dy, at->y, &products));
    at->kept = mp_dnn_scalar_add(g, RANK);
    at->row_sums = given(&b, CUDNN_DATA_FLOAT, &b.row);
    mp_dnn_operation_add(g, MP_DNN_POINTWISE, CUDNN_POINTWISE_MUL, (int[]){sum, at->kept, at->row_sums}, 3);

    at->q = given(&b, CUDNN_DATA_BFLOAT16, &b.q);
    at->k = given(&b, CUDNN_DATA_BFLOAT16, &kt);
    int s = scaled_scores(&b, at->q, at->k);
    at->statistics = given(&b, CUDNN_DATA_FLOAT, &b.row);
    s = below_diagonal(&b, point(&b, CUDNN_POINTWISE_SUB, s, at->statistics, &b.scores));
    int p = point(&b, CUDNN_POINTWISE_EXP, s, -1, &b.scores);
    at->dv = given(&b, CUDNN_DATA_BFLOAT16, &b.v);
    product(&b, turn(&b, grown(&b, dropped(&b, p, r), r), b.scores), at->dy, at->dv);

    at->v = given(&b, CUDNN_DATA_BFLOAT16, &vt);
    int ds = dropped(&b, scores_product(&b, at->dy, at->v), r);
    ds = point(&b, CUDNN_POINTWISE_SUB, ds, at->row_sums, &b.scores);
    ds = grown(&b, point(&b, CUDNN_POINTWISE_MUL, ds, p, &b.scores), r);
    ds = point(&b, CUDNN_POINTWISE_MUL, ds, at->scale, &b.scores);
    at->dk = given(&b, CUDNN_DATA_BFLOAT16, &b.k);
    product(&b, turn(&b, ds, b.scores), at->q, at->dk);

    int k = turn(&b, at->k, kt);
    at->dq = given(&b, CUDNN_DATA_BFLOAT16, &b.q);
    if (!adds_up) {
        product(&b, ds, k, at->dq);
        g->assumed_workspace_bytes = score_gradient_bytes(&b);
        return;
    }
    const shape sums = packed(b.q.dims[BATCH], b.q.dims[HEAD], b.q.dims[ROW], b.q.dims[COLUMN]);
    at->dq_sums = given(&b, CUDNN_DATA_FLOAT, &sums);
    product(&b, ds, k, at->dq_sums);
    mp_dnn_operation_add(g, MP_DNN_POINTWISE, CUDNN_POINTWISE_IDENTITY, (int[]){at->dq_sums, -1, at->dq}, 3);
}

/* ---- variants of attention that cuDNN's engines support. */

static bool is_depth(int64_t depth)
{
    return depth > 0 && depth <= DEEPEST && depth % DEPTH_UNIT == 0;
}

static bool lies_well(const mp_matrices *m)
{
    bool well = m->dtype == MP_DTYPE_BFLOAT16 && m->column_stride == 1 && m->row_stride > 0 && m->row_stride % DEPTH_UNIT == 0;
    for (int d = 0; d < m->n_batch; d++) well = well && m->batch_stride[d] % DEPTH_UNIT == 0;
    return well;
}

/* Oldest supported versions of cuDNN. Engines of 9.10.0 and 9.10.1 give wrong results, and older engines do not accept scores
 * of -inf. Up to 9.15.0, gradients require a padding mask if the number of columns is not a multiple of the tile size.
 * NVIDIA's cudnn-frontend adds such a mask; memplan's graphs do not. */
enum { OLDEST = 91002, OLDEST_WITH_ANY_COLUMNS = 91501 };

const char *mp_dnn_attention_refusal(const mp_attention_spec *f, size_t version)
{
    if (version < OLDEST) return "this cuDNN is older than 9.10.2";
    if (version < OLDEST_WITH_ANY_COLUMNS && f->size.columns % TILE_COLUMNS)
        return "cuDNN before 9.15.1 needs a multiple of 128 keys";
    if (f->positions.dtype && !(f->fill <= (float)MP_ATTENTION_HIDES)) return "its mask of booleans does not hide scores";
    if (f->safe && (f->added.dtype || f->positions.dtype)) return "its mask may hide a whole row, whose result must then be 0";
    if (f->wants[MP_ATTENTION_ADDED]) return "its mask has a gradient";
    if (f->q.dtype != MP_DTYPE_BFLOAT16 || f->k.dtype != MP_DTYPE_BFLOAT16 || f->v.dtype != MP_DTYPE_BFLOAT16)
        return "its type is not bfloat16";
    if (f->q.n_batch > 2) return "it has more than two batch dimensions";
    if (!is_depth(f->size.depth) || !is_depth(f->size.value_depth)) return "its depth is not a multiple of 8 up to 128";
    if (f->size.rows < 2 || f->size.columns < 2) return "it has a single query or key";
    if (!lies_well(&f->q) || !lies_well(&f->k) || !lies_well(&f->v) || !lies_well(&f->y))
        return "its rows are not 16 bytes apart, or a multiple of that";
    return NULL;
}

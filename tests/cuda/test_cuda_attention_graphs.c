/* test_cuda_attention_graphs.c - the results of attention's graphs for cuDNN. The test runs their operations one by one in
 * float, and compares with attention by its definition in double. Linked with the libraries. */
#include "executor/cuda/vendor/dnn_attention_graphs.h"
#include "executor/operators/attention/attention_spec.h"
#include "tests/cases/attention_case.h"
#include "tests/cases/test.h"

enum { RANK = 4, ROOM = 1 << 16 };
typedef float memory[MP_DNN_TENSORS][ROOM];

/* Returns element `at` of a tensor, broadcast along dimensions of one element. */
static float *element(const mp_dnn_graph *g, memory *m, int64_t t, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < RANK; d++)
        if (g->tensors[t].dims[d] > 1) offset += at[d] * g->tensors[t].strides[d];
    assert_in_range(offset, 0, ROOM - 1);
    return &(*m)[t][offset];
}

static bool next(const int64_t *dims, int64_t *at)
{
    for (int d = RANK - 1; d >= 0; d--) {
        if (++at[d] < dims[d]) return true;
        at[d] = 0;
    }
    return false;
}

static float pointwise(const mp_dnn_operation *o, float x, float b, float t, const int64_t *at)
{
    switch (o->mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return expf(x);
    case CUDNN_POINTWISE_LOG:
        return logf(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (float)at[o->axis];
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
    default:
        fail_msg("pointwise mode %d", (int)o->mode);
        return 0;
    }
}

static float given(int what, int64_t matrix, int64_t row, int64_t column);

/* A replacement for a random generator that depends only on the position. */
static bool is_kept(double probability, int64_t matrix, int64_t row, int64_t column)
{
    return (given(0, matrix, row, column) + 1) / 2 < probability;
}

static void compute_operation(const mp_dnn_graph *g, const mp_dnn_operation *o, memory *m)
{
    const int64_t *ids = o->operands;
    const int64_t result = ids[o->kind == MP_DNN_RANDOM ? 0 : o->kind == MP_DNN_REDUCE || o->kind == MP_DNN_RESHAPE ? 1 : 2];
    const int64_t *dims = g->tensors[result].dims;
    int64_t at[RANK] = {0};
    do {
        int64_t of[RANK], other[RANK];
        float value = 0;
        memcpy(of, at, sizeof of);
        memcpy(other, at, sizeof other);
        if (o->kind == MP_DNN_RANDOM) {
            value = is_kept(o->probability, at[0] * 4 + at[1], at[2], at[3]);
        } else if (o->kind == MP_DNN_MATMUL) {
            for (int64_t k = 0; k < g->tensors[ids[0]].dims[3]; k++) {
                of[3] = other[2] = k;
                value += *element(g, m, ids[0], of) * *element(g, m, ids[1], other);
            }
        } else if (o->kind == MP_DNN_REDUCE) {
            const bool most = o->mode == CUDNN_REDUCE_TENSOR_MAX;
            for (int64_t k = 0; k < g->tensors[ids[0]].dims[3]; k++) {
                of[3] = k;
                const float x = *element(g, m, ids[0], of);
                value = !k ? x : !most ? value + x : x > value ? x : value;
            }
        } else if (o->kind == MP_DNN_RESHAPE) {
            of[2] = at[3];
            of[3] = at[2];
            value = *element(g, m, ids[0], of);
        } else {
            value = pointwise(o, *element(g, m, ids[0], at), ids[1] < 0 ? 0 : *element(g, m, ids[1], at),
                              ids[5] < 0 ? 0 : *element(g, m, ids[5], at), at);
        }
        *element(g, m, result, at) = value;
    } while (next(dims, at));
}

static void compute(const mp_dnn_graph *g, memory *m)
{
    assert_true(g->n_tensors <= MP_DNN_TENSORS && g->n_operations <= MP_DNN_OPERATIONS);
    for (int64_t k = 0; k < g->n_operations; k++) compute_operation(g, &g->operations[k], m);
}

/* Returns a value that depends on matrix, row and column, but not on strides. */
static float given(int what, int64_t matrix, int64_t row, int64_t column)
{
    const uint32_t h = (uint32_t)(what * 7919 + matrix * 104729 + row * 1299709 + column * 15485863) * UINT32_C(2654435761);
    return (float)(h >> 8) / (float)(1 << 23) - 1;
}

static void fill(const mp_dnn_graph *g, memory *m, int t, int what, bool turned)
{
    int64_t at[RANK] = {0};
    do {
        const int64_t matrix = at[0] * 4 + at[1];
        *element(g, m, t, at) = turned ? given(what, matrix, at[3], at[2]) : given(what, matrix, at[2], at[3]);
    } while (next(g->tensors[t].dims, at));
}

static void assert_near(const mp_dnn_graph *g, memory *m, int t, int64_t matrix, int64_t row, int64_t column, double expected)
{
    const int64_t at[RANK] = {matrix / 4, matrix % 4, row, column};
    assert_float_equal(*element(g, m, t, at), (float)expected, 1e-4);
}

enum { Q = 1, K, V, DY, ADDED, POSITIONS };

/* Computes the probabilities of one row by the definition, and returns its log-sum-exp. */
static double row_of(const mp_attention_spec *f, int64_t matrix, int64_t row, double *p)
{
    const bool hides = f->positions.dtype;
    double sum = 0;
    for (int64_t c = 0; c < f->size.columns; c++) {
        double s = 0;
        for (int64_t d = 0; d < f->size.depth; d++) s += (double)given(Q, matrix, row, d) * given(K, matrix, c, d);
        s *= f->scale;
        if (f->added.dtype) s += given(ADDED, matrix / 4 * 4, 0, c);
        if (hides && (given(POSITIONS, 0, row, c) > 0) != f->keeps) s = -INFINITY;
        p[c] = f->causal && c > row ? 0 : exp(s);
        sum += p[c];
    }
    for (int64_t c = 0; c < f->size.columns; c++) p[c] /= sum;
    return log(sum);
}

enum { SIDE = 16, DEEP = 16 };

/* Converts the masks of `f` to the graph's added tensor as described in attention_spec.h; returns the converted form. */
static mp_attention_spec with_made_mask(const mp_attention_spec *f, mp_joint_mask *masks)
{
    mp_attention_spec made = *f;
    int64_t bytes;
    if (!f->added.dtype && !f->positions.dtype) return made;
    assert_true(mp_joint_mask_read(f, masks, &bytes));
    assert_true(bytes == masks->n * f->size.rows * masks->to.row_stride * 2 && masks->to.row_stride % 8 == 0);
    made.added = masks->to;
    made.positions = (mp_matrices){0};
    return made;
}

static void fill_mask(const mp_dnn_graph *g, memory *m, int t, const mp_attention_spec *f, const mp_joint_mask *masks)
{
    static float added[8 * SIDE * SIDE];
    static uint8_t positions[SIDE * SIDE];
    for (int64_t e = 0; e < f->size.columns; e++)
        for (int64_t b = 0; f->added.dtype && b < 2; b++)
            added[b * f->added.batch_stride[0] + e * f->added.column_stride] = given(ADDED, b * 4, 0, e);
    for (int64_t e = 0; f->positions.dtype && e < f->size.rows * f->size.columns; e++)
        positions[e] = given(POSITIONS, 0, e / f->size.columns, e % f->size.columns) > 0;
    for (int64_t k = 0; k < masks->n; k++) {
        int64_t batch[MP_ARRAY_RANK], start;
        mp_joint_mask_matrix(masks, k, batch, &start);
        for (int64_t r = 0; r < f->size.rows; r++)
            for (int64_t c = 0; c < f->size.columns; c++) {
                const int64_t at[RANK] = {batch[0], batch[1], r, c};
                float *to = element(g, m, t, at);
                assert_int_equal(to - (*m)[t], start + r * masks->to.row_stride + c); /* the kernel's output position */
                *to = mp_joint_mask_value(masks, added, positions, batch, r, c);
            }
    }
}

static void check_values(const mp_attention_spec *f)
{
    mp_joint_mask masks = {0};
    const mp_attention_spec made = with_made_mask(f, &masks);
    const double growth = 1 / (1 - (double)f->ratio);
    memory *m[2] = {calloc(1, sizeof *m[0]), calloc(1, sizeof *m[0])};
    mp_dnn_graph g[2];
    mp_dnn_attention at[2];
    const mp_attention *size = &f->size;
    assert_non_null(m[0]);
    assert_non_null(m[1]);
    for (int adds_up = 0; adds_up < 2; adds_up++) {
        for (int pass = 0; pass < 2; pass++) {
            memset(m[pass], 0, sizeof *m[pass]);
            if (pass)
                mp_dnn_attention_backward(&made, adds_up, &g[pass], &at[pass]);
            else
                mp_dnn_attention_forward(&made, &g[pass], &at[pass]);
            fill(&g[pass], m[pass], at[pass].q, Q, false);
            fill(&g[pass], m[pass], at[pass].k, K, true);
            fill(&g[pass], m[pass], at[pass].v, V, pass);
            (*m[pass])[at[pass].scale][0] = f->scale;
            if (at[pass].hidden >= 0) (*m[pass])[at[pass].hidden][0] = -INFINITY;
            if (at[pass].growth >= 0) (*m[pass])[at[pass].growth][0] = (float)growth;
            if (made.added.dtype) fill_mask(&g[pass], m[pass], at[pass].added, f, &masks);
            if (pass) {
                fill(&g[1], m[1], at[1].dy, DY, false);
                (*m[1])[at[1].kept][0] = 1 - f->ratio;
                memcpy((*m[1])[at[1].y], (*m[0])[at[0].y], sizeof(*m[0])[0]);
                memcpy((*m[1])[at[1].statistics], (*m[0])[at[0].statistics], sizeof(*m[0])[0]);
            }
            compute(&g[pass], m[pass]);
        }
        for (int64_t i = 0; i < size->n_batch; i++) {
            double dk[SIDE][DEEP] = {{0}}, dv[SIDE][DEEP] = {{0}};
            for (int64_t r = 0; r < size->rows; r++) {
                double p[SIDE], w[SIDE], dp[SIDE] = {0}, dq[DEEP] = {0}, mean = 0;
                assert_near(&g[0], m[0], at[0].statistics, i, r, 0, row_of(f, i, r, p));
                for (int64_t c = 0; c < size->columns; c++) w[c] = is_kept(1 - (double)f->ratio, i, r, c) ? growth : 0;
                for (int64_t e = 0; e < size->value_depth; e++) {
                    double y = 0;
                    for (int64_t c = 0; c < size->columns; c++) {
                        y += p[c] * w[c] * given(V, i, c, e);
                        dp[c] += w[c] * given(DY, i, r, e) * given(V, i, c, e);
                        dv[c][e] += p[c] * w[c] * given(DY, i, r, e);
                    }
                    assert_near(&g[0], m[0], at[0].y, i, r, e, y);
                }
                for (int64_t c = 0; c < size->columns; c++) mean += p[c] * dp[c];
                for (int64_t c = 0; c < size->columns; c++)
                    for (int64_t d = 0; d < size->depth; d++) {
                        const double ds = f->scale * p[c] * (dp[c] - mean);
                        dq[d] += ds * given(K, i, c, d);
                        dk[c][d] += ds * given(Q, i, r, d);
                    }
                for (int64_t d = 0; d < size->depth; d++) assert_near(&g[1], m[1], at[1].dq, i, r, d, dq[d]);
            }
            for (int64_t c = 0; c < size->columns; c++) {
                for (int64_t d = 0; d < size->depth; d++) assert_near(&g[1], m[1], at[1].dk, i, c, d, dk[c][d]);
                for (int64_t e = 0; e < size->value_depth; e++) assert_near(&g[1], m[1], at[1].dv, i, c, e, dv[c][e]);
            }
        }
    }
    free(m[0]);
    free(m[1]);
}

TEST(the_graphs_compute_attention)
{
    mp_attention_spec forms[] = {attention_case(12, 15, 8, 16, false), attention_case(15, 15, 16, 8, true),
                                 attention_case(9, 13, 8, 8, true),    attention_case(12, 15, 8, 16, true),
                                 attention_case(9, 13, 8, 8, false),   attention_case(14, 14, 8, 8, true),
                                 attention_case(14, 16, 8, 8, true)};
    forms[1].causal = true;
    forms[2].added = forms[4].added = forms[6].added =
        (mp_matrices){.dtype = MP_DTYPE_FLOAT, .n_batch = 2, .batch = {2, 4}, .batch_stride = {16}, .column_stride = 1};
    forms[3].ratio = forms[4].ratio = 0.25f;
    forms[5].ratio = 0.5f;
    forms[3].causal = true;
    for (int k = 5; k < 7; k++) {
        forms[k].positions = (mp_matrices){
            .dtype = MP_DTYPE_BOOL, .n_batch = 2, .batch = {2, 4}, .row_stride = forms[k].size.columns, .column_stride = 1};
        forms[k].fill = k == 5 ? -INFINITY : -3.4028235e38f;
        forms[k].keeps = k == 6;
    }
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) check_values(&forms[k]);
}

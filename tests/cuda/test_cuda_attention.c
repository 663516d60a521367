/* test_cuda_attention.c - attention's graphs for cuDNN, as far as it can be seen without a GPU: that they say what attention
 * is, that cuDNN's fused engines know them, and that the own kernel runs where there is no engine. Built with MEMPLAN_CUDA
 * only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef MEMPLAN_CUDA
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cpu/cpu.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/kernels.h"
#include "executor/cuda/vendor/dnn_attention_graphs.h"
#include "executor/cuda/vendor/dnn_describe.h"
#include "executor/cuda/vendor/dnn_plan.h"
#include "executor/kernel/backend.h"
#include "tests/cases/rule_case.h"

mp_module_entry mp_module_backend;
static mp_backend *gpu;
static long n_kept; /* allocations that a backend keeps before it is used */

static int make_backend(void **unused)
{
    (void)unused;
    gpu = mp_module_backend(&mp_cpu, 0);
    if (gpu) gpu->use(gpu);
    n_kept = mp_alloc_live;
    return gpu ? 0 : -1;
}

static int close_backend(void **unused)
{
    (void)unused;
    gpu->close(gpu);
    return 0;
}

/* Attention over 2 x 4 matrices; `by_head`: heads lie within rows, as a projection leaves them. */
static mp_attention_spec attention(int64_t rows, int64_t columns, int64_t depth, int64_t value_depth, bool by_head)
{
    mp_attention_spec f = {.size = {8, rows, columns, depth, value_depth}, .scale = 0.125f};
    const struct {
        mp_matrices *m;
        int64_t rows, columns;
    } all[] = {{&f.q, rows, depth}, {&f.k, columns, depth}, {&f.v, columns, value_depth}, {&f.y, rows, value_depth}};
    for (int k = 0; k < 4; k++)
        *all[k].m = (mp_matrices){
            .dtype = MP_DTYPE_BFLOAT16,
            .n_batch = 2,
            .batch = {2, 4},
            .batch_stride = {4 * all[k].rows * all[k].columns, by_head ? all[k].columns : all[k].rows * all[k].columns},
            .row_stride = by_head ? 4 * all[k].columns : all[k].columns,
            .column_stride = 1};
    return f;
}

/* ---- what the graphs say, computed here. */

enum { RANK = 4, ROOM = 1 << 16 };
typedef float memory[MP_DNN_TENSORS][ROOM];

/* Element `at` of a tensor, broadcast along dimensions of one element. */
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

static void compute_operation(const mp_dnn_graph *g, const mp_dnn_operation *o, memory *m)
{
    const int64_t *ids = o->operands, result = ids[o->kind == MP_DNN_REDUCE || o->kind == MP_DNN_RESHAPE ? 1 : 2];
    const int64_t *dims = g->tensors[result].dims;
    int64_t at[RANK] = {0};
    do {
        int64_t of[RANK], other[RANK];
        float value = 0;
        memcpy(of, at, sizeof of);
        memcpy(other, at, sizeof other);
        if (o->kind == MP_DNN_MATMUL) {
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

/* Values by their place in the tensor as a whole, whatever its strides: matrix, row, column. */
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

enum { Q = 1, K, V, DY, ADDED };

/* Probabilities of one row, and its log-sum-exp, by the definition. */
static double row_of(const mp_attention_spec *f, int64_t matrix, int64_t row, double *p)
{
    double sum = 0;
    for (int64_t c = 0; c < f->size.columns; c++) {
        double s = 0;
        for (int64_t d = 0; d < f->size.depth; d++) s += (double)given(Q, matrix, row, d) * given(K, matrix, c, d);
        s *= f->scale;
        if (f->added.dtype) s += given(ADDED, matrix / 4 * 4, 0, c);
        p[c] = f->causal && c > row ? 0 : exp(s);
        sum += p[c];
    }
    for (int64_t c = 0; c < f->size.columns; c++) p[c] /= sum;
    return log(sum);
}

enum { SIDE = 16, DEEP = 16 };

static void check_values(const mp_attention_spec *f)
{
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
                mp_dnn_attention_backward(f, adds_up, &g[pass], &at[pass]);
            else
                mp_dnn_attention_forward(f, &g[pass], &at[pass]);
            fill(&g[pass], m[pass], at[pass].q, Q, false);
            fill(&g[pass], m[pass], at[pass].k, K, true);
            fill(&g[pass], m[pass], at[pass].v, V, pass);
            (*m[pass])[at[pass].scale][0] = f->scale;
            if (at[pass].hidden >= 0) (*m[pass])[at[pass].hidden][0] = -INFINITY;
            if (f->added.dtype) fill(&g[pass], m[pass], at[pass].added, ADDED, false);
            if (pass) {
                fill(&g[1], m[1], at[1].dy, DY, false);
                (*m[1])[at[1].one][0] = 1;
                memcpy((*m[1])[at[1].y], (*m[0])[at[0].y], sizeof(*m[0])[0]);
                memcpy((*m[1])[at[1].statistics], (*m[0])[at[0].statistics], sizeof(*m[0])[0]);
            }
            compute(&g[pass], m[pass]);
        }
        for (int64_t i = 0; i < size->n_batch; i++) {
            double dk[SIDE][DEEP] = {{0}}, dv[SIDE][DEEP] = {{0}};
            for (int64_t r = 0; r < size->rows; r++) {
                double p[SIDE], dp[SIDE] = {0}, dq[DEEP] = {0}, mean = 0;
                assert_near(&g[0], m[0], at[0].statistics, i, r, 0, row_of(f, i, r, p));
                for (int64_t e = 0; e < size->value_depth; e++) {
                    double y = 0;
                    for (int64_t c = 0; c < size->columns; c++) {
                        y += p[c] * given(V, i, c, e);
                        dp[c] += (double)given(DY, i, r, e) * given(V, i, c, e);
                        dv[c][e] += p[c] * given(DY, i, r, e);
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

static void the_graphs_compute_attention(void **unused)
{
    (void)unused;
    mp_attention_spec forms[] = {attention(12, 15, 8, 16, false), attention(15, 15, 16, 8, true), attention(9, 13, 8, 8, true)};
    forms[1].causal = true;
    forms[2].added =
        (mp_matrices){.dtype = MP_DTYPE_FLOAT, .n_batch = 2, .batch = {2, 4}, .batch_stride = {13}, .column_stride = 1};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) check_values(&forms[k]);
}

/* ---- what cuDNN says. */

/* Asks cuDNN for engines. They look at the graph first and for a driver then: without a driver, it is what they miss. */
static void assert_known(const mp_dnn_graph *g)
{
    enum { MOST = 16 };
    mp_dnn_plan p = {.graph = *g};
    mp_error err = {0};
    cudnnBackendDescriptor_t heuristics = NULL, configs[MOST];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    char why[4000] = "";
    if (mp_dnn_describe(&p, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics), 0);
    assert_int_equal(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                              1, &p.made[p.n_made - 1]),
                     0);
    assert_int_equal(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode), 0);
    assert_int_equal(mp_dnn_set_device(heuristics, -1, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &err), MP_OK);
    assert_int_equal(cudnnBackendFinalize(heuristics), 0);
    for (int k = 0; k < MOST; k++)
        assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[k]), 0);
    assert_int_equal(
        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &n, configs),
        0);
    cudnnGetLastErrorString(why, sizeof why);
    if (!n && !strstr(why, "RUNTIME_PREREQUISITE_MISSING")) fail_msg("%s", why);
    for (int k = 0; k < MOST; k++) cudnnBackendDestroyDescriptor(configs[k]);
    cudnnBackendDestroyDescriptor(heuristics);
    mp_dnn_plan_close(&p);
}

/* Every tensor with memory has a name by which a run finds its address, and is there once. */
static void assert_all_named(const mp_dnn_graph *g, const mp_dnn_attention *at)
{
    const int *names = (const int *)at;
    int64_t n_named = 0, n_real = 0;
    uint64_t seen = 0;
    for (size_t k = 0; k < sizeof *at / sizeof *names; k++) {
        if (names[k] < 0) continue;
        assert_false(seen >> names[k] & 1 || g->tensors[names[k]].is_virtual);
        seen |= UINT64_C(1) << names[k];
        n_named++;
    }
    for (int64_t k = 0; k < g->n_tensors; k++) n_real += !g->tensors[k].is_virtual;
    assert_int_equal(n_named, n_real);
}

static void attention_is_a_pattern_that_cudnn_knows(void **unused)
{
    (void)unused;
    const mp_matrices per_batch = {
        .dtype = MP_DTYPE_BFLOAT16, .n_batch = 2, .batch = {2, 4}, .batch_stride = {200}, .column_stride = 1};
    mp_attention_spec forms[] = {attention(128, 128, 64, 64, false), attention(100, 200, 64, 128, true),
                                 attention(77, 77, 8, 8, false),     attention(128, 128, 64, 64, true),
                                 attention(100, 200, 32, 32, true),  attention(128, 128, 64, 64, false)};
    forms[3].causal = true;
    forms[4].added = per_batch;
    forms[5].q.n_batch = forms[5].k.n_batch = forms[5].v.n_batch = forms[5].y.n_batch = 0;
    forms[5].size.n_batch = 1;
    forms[5].causal = true;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        mp_dnn_graph g;
        mp_dnn_attention at;
        assert_null(mp_dnn_attention_refusal(&forms[k], 91900));
        mp_dnn_attention_forward(&forms[k], &g, &at);
        assert_known(&g);
        assert_all_named(&g, &at);
        assert_int_equal(at.added >= 0, k == 4);
        assert_int_equal(at.hidden >= 0, forms[k].causal);
        assert_int_equal(g.tensors[at.statistics].type, CUDNN_DATA_FLOAT);
        assert_int_equal(g.tensors[at.statistics].strides[1], forms[k].size.rows);
        for (int adds_up = 0; adds_up < 2; adds_up++) {
            mp_dnn_attention_backward(&forms[k], adds_up, &g, &at);
            assert_known(&g);
            assert_all_named(&g, &at);
            assert_int_equal(at.dq_sums >= 0, adds_up);
            assert_int_equal(g.tensors[at.dk].strides[2], forms[k].k.row_stride);
            assert_int_equal(g.tensors[at.dq].strides[2], forms[k].q.row_stride);
        }
    }
    mp_dnn_forget();
}

/* What cuDNN refuses, or would compute wrongly, is said in words. */
static void attention_that_cudnn_lacks_is_not_asked_for(void **unused)
{
    (void)unused;
    enum { NOW = 91900, THEN = 91500 };
    const mp_attention_spec good = attention(128, 96, 64, 64, false);
    mp_attention_spec f = good;
    assert_null(mp_dnn_attention_refusal(&f, NOW));
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, THEN), "9.15.1")); /* 96 columns */
    assert_null(mp_dnn_attention_refusal(&f, THEN + 1));
    f.size.columns = 256;
    assert_null(mp_dnn_attention_refusal(&f, THEN));
    assert_null(mp_dnn_attention_refusal(&f, 91002));
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, 91001), "9.10.2"));
    f = good;
    f.ratio = 0.5f;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "dropout"));
    f = good;
    f.positions = (mp_matrices){.dtype = MP_DTYPE_BOOL, .n_batch = 2, .batch = {2, 4}, .row_stride = 96, .column_stride = 1};
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "booleans"));
    f = good;
    f.v.dtype = MP_DTYPE_FLOAT;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "bfloat16"));
    f = good; /* as transK leaves it */
    f.k.row_stride = 1;
    f.k.column_stride = 96;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "rows"));
    f = good;
    f.added = (mp_matrices){.dtype = MP_DTYPE_FLOAT, .n_batch = 2, .batch = {2, 4}, .row_stride = 1};
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "mask"));
    f = good;
    f.q.n_batch = 3;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "batch"));
    for (int k = 0; k < 2; k++) {
        f = attention(128, 128, k ? 256 : 20, 64, false);
        assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "depth"));
    }
}

/* Without a driver cuDNN names no engine; what it knows is assumed, with dS in backward's workspace, and all else is the own
 * kernel's, with its workspace. */
static void calls_say_who_computes_them(void **unused)
{
    (void)unused;
    static const struct {
        const char *inputs, *attributes, *reason; /* of the own kernels; NULL: it is cuDNN's */
    } cases[] = {
        {"bfloat16[2,4,128,64] bfloat16[2,4,128,64] bfloat16[2,4,128,64]", "scale=0.125 causal=1", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,40,64] bfloat16[2,4,40,32] bfloat16[2,1,1,40]", "scale=0.125", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,96,64] bfloat16[2,4,96,32]", "ratio=0.5", "it has dropout"},
        {"bfloat16[2,4,100,64] bfloat16[2,4,64,96] bfloat16[2,4,96,32]", "transK=1", NULL},
        {"bfloat16[64,16,512,64] bfloat16[64,16,512,64] bfloat16[64,16,512,64]", "", "bytes of workspace"},
    };
    const mp_cuda_device *device;
    const bool has_gpu = mp_cuda_open(&device, NULL) == MP_OK;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const rule_case text = {"memplan:ScaledDotProductAttention", 1, cases[k].inputs, cases[k].attributes, ""};
        mp_model *model = rule_model(&text, 1);
        const mp_operator *op = &model->operators[0];
        mp_array in[4] = {0}, out, d_in[4] = {0};
        for (int i = -1; i < op->n_in; i++) {
            const mp_tensor *t = &model->tensors[i < 0 ? op->out[0] : op->in[i]];
            *(i < 0 ? &out : &in[i]) = mp_array_plain(MP_DTYPE_BFLOAT16, t->rank, t->dims);
        }
        memcpy(d_in, in, 3 * sizeof *in);
        for (int backward = 0; backward < 2; backward++) {
            mp_error err = {0};
            mp_call call, own;
            mp_operands x = {.model = model, .op = op, .is_backward = backward, .to = 3, .n_in = op->n_in, .n_out = 1};
            const int64_t rows = mp_array_elements(&out) / out.dims[out.rank - 1];
            x.in = in;
            x.out = &out;
            x.d_in = backward ? d_in : NULL;
            x.d_out = backward ? &out : NULL;
            x.extra[0] = mp_array_plain(MP_DTYPE_FLOAT, 1, &rows);
            if (mp_call_prepare(gpu, mp_cuda_dnn_attentions, &x, &call, &err) != MP_OK) fail_msg("%s", err.message);
            if (mp_call_prepare(gpu, mp_cuda_own_kernel(op), &x, &own, &err) != MP_OK) fail_msg("%s", err.message);
            if (cases[k].reason) {
                assert_ptr_equal(call.run, own.run);
                assert_int_equal(call.workspace_bytes, own.workspace_bytes);
                assert_string_equal(call.provider, "own kernels");
                assert_non_null(strstr(call.reason, cases[k].reason));
            } else {
                assert_string_equal(call.provider, "cuDNN");
                assert_string_equal(call.reason, has_gpu ? "" : "assumed: without a GPU cuDNN names no engine");
                /* dS in tiles of 64 x 128, and one number for each row */
                const int64_t ds = INT64_C(2) * 8 * 128 * 128, more = call.workspace_bytes - ds - rows * 4;
                if (!has_gpu && backward) assert_true(k == 3 ? more >= 0 : more == 0);
            }
            mp_call_release(&call);
            mp_call_release(&own);
        }
        mp_model_free(model);
        if (!has_gpu && !k) assert_int_equal(mp_dnn_plan_count(), 2); /* both are remembered */
    }
    mp_dnn_forget();
}

/* What is behind in the process afterwards is what was there before. */
static void nothing_is_kept(void **unused)
{
    (void)unused;
    assert_int_equal(mp_dnn_plan_count(), 0);
    assert_int_equal(mp_alloc_live, n_kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graphs_compute_attention),
        cmocka_unit_test(attention_is_a_pattern_that_cudnn_knows),
        cmocka_unit_test(attention_that_cudnn_lacks_is_not_asked_for),
        cmocka_unit_test(calls_say_who_computes_them),
        cmocka_unit_test(nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, make_backend, close_backend);
}
#else
static void needs_the_libraries(void **unused)
{
    (void)unused;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(needs_the_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

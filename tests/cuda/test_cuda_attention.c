/* test_cuda_attention.c - attention on cuDNN, as far as testable without a GPU: its fused engines accept the graphs, and calls
 * name their provider. test_cuda_attention_graphs.c checks the graphs' results. Linked with the libraries. */
#include "estimator/base/memory.h"
#include "executor/cpu/cpu.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/vendor/dnn_attention_graphs.h"
#include "executor/cuda/vendor/dnn_describe.h"
#include "executor/cuda/vendor/dnn_plan.h"
#include "tests/cases/attention_case.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"
#include "tests/cuda/module_case.h"

static bool has_gpu(void)
{
    return gpu->open(gpu, NULL) == MP_OK;
}

/* Requests engines from cuDNN, which first checks the graph and then the driver. Without a driver, only the driver may be
 * missing. With a GPU, a shape may have no engine; memplan's own kernel then runs. */
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
    if (!n && !strstr(why, has_gpu() ? "NOT_SUPPORTED" : "RUNTIME_PREREQUISITE_MISSING")) fail_msg("%s", why);
    for (int k = 0; k < MOST; k++) cudnnBackendDestroyDescriptor(configs[k]);
    cudnnBackendDestroyDescriptor(heuristics);
    mp_dnn_plan_close(&p);
}

/* Every tensor with memory has a unique name, by which a run finds its address. */
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

TEST(attention_is_a_pattern_that_cudnn_knows)
{
    const mp_matrices per_batch = {
        .dtype = MP_DTYPE_BFLOAT16, .n_batch = 2, .batch = {2, 4}, .batch_stride = {200}, .column_stride = 1};
    mp_attention_spec forms[] = {attention_case(128, 128, 64, 64, false), attention_case(100, 200, 64, 128, true),
                                 attention_case(77, 77, 8, 8, false),     attention_case(128, 128, 64, 64, true),
                                 attention_case(100, 200, 32, 32, true),  attention_case(128, 128, 64, 64, false),
                                 attention_case(128, 128, 64, 64, true),  attention_case(100, 96, 64, 64, true)};
    forms[6].ratio = forms[7].ratio = 0.1f;
    forms[6].causal = true;
    forms[7].added = per_batch;
    forms[7].added.row_stride = 96;
    forms[3].causal = true;
    forms[4].added = per_batch;
    forms[5].q.n_batch = forms[5].k.n_batch = forms[5].v.n_batch = forms[5].y.n_batch = 0;
    forms[5].size.n_batch = 1;
    forms[3].causal = true;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        mp_dnn_graph g;
        mp_dnn_attention at;
        assert_null(mp_dnn_attention_refusal(&forms[k], 91900));
        mp_dnn_attention_forward(&forms[k], &g, &at);
        assert_known(&g);
        assert_all_named(&g, &at);
        assert_int_equal(at.added >= 0, k == 4 || k == 7);
        assert_int_equal(at.seed >= 0, k >= 6);
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

/* Forms that cuDNN refuses, or computes wrongly, are refused with a message. */
TEST(attention_that_cudnn_lacks_is_not_asked_for)
{
    enum { NOW = 91900, THEN = 91500 };
    const mp_attention_spec good = attention_case(128, 96, 64, 64, false);
    mp_attention_spec f = good;
    assert_null(mp_dnn_attention_refusal(&f, NOW));
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, THEN), "9.15.1")); /* 96 columns */
    assert_null(mp_dnn_attention_refusal(&f, THEN + 1));
    f.size.columns = 256;
    assert_null(mp_dnn_attention_refusal(&f, THEN));
    assert_null(mp_dnn_attention_refusal(&f, 91002));
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, 91001), "9.10.2"));
    f = good;
    f.positions = (mp_matrices){.dtype = MP_DTYPE_BOOL, .n_batch = 2, .batch = {2, 4}, .row_stride = 96, .column_stride = 1};
    f.fill = -1;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "booleans"));
    f.fill = -1e9f;
    assert_null(mp_dnn_attention_refusal(&f, NOW));
    f = good;
    f.v.dtype = MP_DTYPE_FLOAT;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "bfloat16"));
    f = good; /* the layout of transK */
    f.k.row_stride = 1;
    f.k.column_stride = 96;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "rows"));
    f = good;
    f.q.n_batch = 3;
    assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "batch"));
    for (int k = 0; k < 2; k++) {
        f = attention_case(128, 128, k ? 256 : 20, 64, false);
        assert_non_null(strstr(mp_dnn_attention_refusal(&f, NOW), "depth"));
    }
}

/* Checks the algorithms of a node: cuDNN and own kernels, if both compute it. With dropout or a converted mask (`is_tied`),
 * forward and backward cannot choose independently, so there are none. same_with_fast: --fast gives the same provider. */
static void check_algorithms(const mp_operands *given, const char *provider, bool is_tied, bool same_with_fast)
{
    static const char *const names[2][3] = {{"cuDNN", "own kernels"}, {"cuDNN, any order", "cuDNN", "own kernels"}};
    for (int fast = 0; fast <= same_with_fast; fast++) {
        const int n = is_tied || strcmp(provider, "cuDNN") ? 0 : fast && given->is_backward ? 3 : 2;
        mp_algorithms found = {0};
        mp_operands x = *given;
        mp_error err = {0};
        gpu->settle(gpu, &(mp_backend_settings){.fast = fast, .workspace_limit = MP_BACKEND_SETTINGS.workspace_limit});
        if (gpu->algorithms(gpu, &x, &found, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(found.n, n);
        for (int k = 0; k < n; k++) {
            mp_call call;
            x.algorithm = found.list[k].name;
            assert_string_equal(x.algorithm, names[n == 3][k]);
            assert_int_equal(found.list[k].is_deterministic, !fast || k == n - 1);
            if (mp_call_prepare(gpu, mp_cuda_dnn_attentions, &x, &call, &err) != MP_OK) fail_msg("%s", err.message);
            assert_string_equal(call.provider, k == n - 1 ? "own kernels" : "cuDNN");
            mp_call_release(&call);
        }
    }
    gpu->settle(gpu, &MP_BACKEND_SETTINGS);
}

/* Without a driver cuDNN returns no engine. Supported forms are then assumed to run on cuDNN, with dS in backward's workspace.
 * Other forms use memplan's own kernel, with its workspace. */
TEST(calls_say_who_computes_them)
{
    static const struct {
        const char *inputs, *attributes, *reason; /* reason for memplan's own kernel; NULL: cuDNN runs it */
    } cases[] = {
        {"bfloat16[2,4,128,64] bfloat16[2,4,128,64] bfloat16[2,4,128,64]", "scale=0.125 causal=1", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,40,64] bfloat16[2,4,40,32] bfloat16[2,1,1,40]", "scale=0.125", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,96,64] bfloat16[2,4,96,32]", "ratio=0.5", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,96,64] bfloat16[2,4,96,32] - bool[1,1,100,96]", "ratio=0.5 fill=-2e9", NULL},
        {"bfloat16[2,4,100,64] bfloat16[2,4,96,64] bfloat16[2,4,96,32] - bool[1,1,100,96]", "fill=-2.0", "does not hide"},
        {"bfloat16[2,4,100,64] bfloat16[2,4,64,96] bfloat16[2,4,96,32]", "transK=1", NULL},
        {"bfloat16[2,128,768]",
         "viewQ=[0,2,4,128,64,98304,64,768,1] viewK=[256,2,4,128,64,98304,64,768,1] viewV=[512,2,4,128,64,98304,64,768,1]",
         NULL},
        {"bfloat16[64,16,512,64] bfloat16[64,16,512,64] bfloat16[64,16,512,64]", "", "bytes of workspace"},
    };
    const bool on_gpu = has_gpu();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const rule_case text = {"memplan:ScaledDotProductAttention", 1, cases[k].inputs, cases[k].attributes, ""};
        mp_model *model = rule_model(&text, 1);
        const mp_operator *op = &model->operators[0];
        mp_array in[5] = {0}, out, d_in[5] = {0};
        for (int i = -1; i < op->n_in; i++) {
            const mp_tensor *t = &model->tensors[i < 0 ? op->out[0] : op->in[i < 3 || op->in[i] >= 0 ? i : 0]];
            if (i == 3 && op->in[i] < 0) continue;
            *(i < 0 ? &out : &in[i]) = mp_array_plain(i == 4 ? MP_DTYPE_BOOL : MP_DTYPE_BFLOAT16, t->rank, t->dims);
        }
        memcpy(d_in, in, 3 * sizeof *in);
        for (int backward = 0; backward < 2; backward++) {
            mp_error err = {0};
            mp_call call, own, named;
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
            } else if (on_gpu && k && call.run == own.run) {
                assert_string_equal(call.provider, "own kernels");
                assert_true(*call.reason); /* the message says that cuDNN lacks the shape */
            } else {
                assert_string_equal(call.provider, "cuDNN");
                assert_string_equal(call.reason, on_gpu ? "" : "assumed: without a GPU cuDNN names no engine");
                /* dS in tiles of 64 x 128, and one number per row */
                const int64_t mask = k == 3 ? 100 * 96 * 2 : 0, seeds = k == 2 || k == 3 ? 128 : 0;
                const int64_t own_bytes = (backward ? INT64_C(2) * 8 * 128 * 128 : 0) + rows * 4 * backward + mask + seeds;
                if (!on_gpu && k < 4) assert_int_equal(call.workspace_bytes, (own_bytes + 63) / 64 * 64);
            }
            if (!on_gpu && !k && !backward) assert_int_equal(mp_dnn_plan_count(), 2); /* both plans are cached */
            if (!on_gpu) check_algorithms(&x, call.provider, k == 2 || k == 3, k < 7);
            x.algorithm = "another";
            assert_int_equal(mp_call_prepare(gpu, mp_cuda_dnn_attentions, &x, &named, &err), MP_UNSUPPORTED);
            mp_call_release(&call);
            mp_call_release(&own);
        }
        mp_model_free(model);
    }
    mp_dnn_forget();
}

/* No plans or allocations remain in the process. */
TEST(nothing_is_kept)
{
    assert_int_equal(mp_dnn_plan_count(), 0);
    assert_int_equal(mp_alloc_live, n_kept);
}

int main(void)
{
    return test_run(make_backend, close_backend);
}

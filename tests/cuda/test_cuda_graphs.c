/* test_cuda_graphs.c - the arguments for the GPU's libraries, as far as testable without a GPU: descriptors that cuDNN accepts,
 * engines that it lists for an H200, and prepared calls. Linked with the libraries. */
#include "estimator/base/memory.h"
#include "executor/cpu/cpu.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/vendor/blas_matmul.h"
#include "executor/cuda/vendor/dnn_convolutions.h"
#include "executor/cuda/vendor/dnn_describe.h"
#include "executor/cuda/vendor/dnn_plan.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"
#include "tests/cuda/module_case.h"

enum { PLAIN, LAST };

static mp_array image(mp_dtype dtype, int layout, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const int64_t dims[] = {n, c, h, w};
    return layout == LAST ? mp_array_channels_last(dtype, 4, dims) : mp_array_plain(dtype, 4, dims);
}

static void set(bool tf32, bool fast, int64_t limit)
{
    gpu->settle(gpu, &(mp_backend_settings){.tf32 = tf32, .fast = fast, .workspace_limit = limit});
}

static void set_window(mp_dnn_operation *o, int64_t stride, int64_t begin, int64_t end)
{
    o->n = 2;
    for (int d = 0; d < 2; d++) {
        o->stride[d] = stride;
        o->dilation[d] = 1;
        o->begin[d] = begin;
        o->end[d] = end;
    }
}

/* Returns a 3x3 convolution of 32 x 64 x 56 x 56 with stride 2, or one of its gradients. */
static mp_dnn_graph convolution(mp_dnn_kind kind, mp_dtype dtype, int layout, int64_t begin)
{
    mp_array x = image(dtype, layout, 32, 64, 56, 56), w = image(dtype, layout, 128, 64, 3, 3),
             y = image(dtype, layout, 32, 128, 28, 28);
    const mp_array *operands[][3] = {
        [MP_DNN_CONVOLVE] = {&x, &w, &y}, [MP_DNN_CONVOLVE_DATA] = {&y, &w, &x}, [MP_DNN_CONVOLVE_FILTER] = {&x, &y, &w}};
    mp_dnn_graph g = {0};
    int ids[3];
    for (int i = 0; i < 3; i++) ids[i] = mp_dnn_array_add(&g, operands[kind][i], 4);
    set_window(&g.operations[mp_dnn_operation_add(&g, kind, 0, ids, 3)], 2, begin, 1);
    return g;
}

static const mp_dnn_plan *plan_of(const mp_dnn_graph *g)
{
    const mp_dnn_plan *plan = NULL;
    mp_error err = {0};
    if (mp_dnn_plan_find(g, &plan, &err) != MP_OK) fail_msg("%s", err.message);
    return plan;
}

TEST(engines_are_deterministic_and_exact)
{
    for (mp_dnn_kind kind = MP_DNN_CONVOLVE; kind <= MP_DNN_CONVOLVE_FILTER; kind++)
        for (int layout = PLAIN; layout <= LAST; layout++)
            for (int bf16 = 0; bf16 < 2; bf16++)
                for (int64_t begin = 0; begin < 2; begin++) {
                    set(false, false, INT64_C(256) << 20);
                    mp_dnn_graph g = convolution(kind, bf16 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, layout, begin);
                    const mp_dnn_plan *p = plan_of(&g);
                    assert_false(mp_dnn_plan_notes(p, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
                    assert_int_equal(mp_dnn_plan_notes(p, CUDNN_NUMERICAL_NOTE_TENSOR_CORE), bf16);
                    assert_true(mp_dnn_plan_workspace_bytes(p) <= INT64_C(256) << 20);
                    set(true, false, INT64_C(256) << 20);
                    assert_true(mp_dnn_plan_notes(plan_of(&g), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
                }
    mp_dnn_forget();
}

/* Returns the factor of existing values in cuDNN's descriptors: three tensors, the window, then the operation. */
static float factor_of_what_is_there(const mp_dnn_plan *p, mp_dnn_kind kind)
{
    static const cudnnBackendAttributeName_t names[] = {[MP_DNN_CONVOLVE] = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                                        [MP_DNN_CONVOLVE_DATA] = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                                        [MP_DNN_CONVOLVE_FILTER] =
                                                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    float factor = -1;
    int64_t n = 0;
    assert_int_equal(cudnnBackendGetAttribute(p->made[4], names[kind], CUDNN_TYPE_FLOAT, 1, &n, &factor), 0);
    return factor;
}

/* The engine that writes a gradient also adds it to existing values, with at most one extra copy of the weights' gradient. */
TEST(gradients_are_added_by_the_engine_that_writes_them)
{
    const int64_t weights_bytes = 128 * 64 * 9 * 4;
    for (mp_dnn_kind kind = MP_DNN_CONVOLVE; kind <= MP_DNN_CONVOLVE_FILTER; kind++)
        for (int layout = PLAIN; layout <= LAST; layout++)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                set(false, false, INT64_C(256) << 20);
                mp_dnn_graph g = convolution(kind, bf16 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, layout, 1), adding = g;
                adding.operations[0].adds = 1;
                const mp_dnn_plan *write = plan_of(&g), *add = plan_of(&adding);
                assert_true(factor_of_what_is_there(write, kind) == 0 && factor_of_what_is_there(add, kind) == 1);
                assert_int_equal(mp_dnn_plan_engine(write), mp_dnn_plan_engine(add));
                assert_true(mp_dnn_plan_workspace_bytes(add) <= mp_dnn_plan_workspace_bytes(write) + weights_bytes + 64);
            }
    mp_dnn_forget();
}

TEST(equal_graphs_are_planned_once)
{
    set(false, false, INT64_C(256) << 20);
    mp_dnn_graph g = convolution(MP_DNN_CONVOLVE, MP_DTYPE_FLOAT, PLAIN, 1), same = g, other = g;
    other.operations[0].begin[0] = 0;
    const mp_dnn_plan *first = plan_of(&g);
    assert_ptr_equal(plan_of(&same), first);
    assert_int_equal(mp_dnn_plan_count(), 1);
    assert_ptr_not_equal(plan_of(&other), first);
    set(true, false, INT64_C(256) << 20);
    assert_ptr_not_equal(plan_of(&g), first);
    assert_int_equal(mp_dnn_plan_count(), 3);
    mp_dnn_forget();
    assert_int_equal(mp_dnn_plan_count(), 0);
}

TEST(workspace_stays_within_its_limit)
{
    const mp_dnn_plan *plan;
    mp_dnn_graph g = convolution(MP_DNN_CONVOLVE_FILTER, MP_DTYPE_BFLOAT16, LAST, 1);
    set(false, false, INT64_C(256) << 20);
    assert_true(mp_dnn_plan_workspace_bytes(plan_of(&g)) > 1000);
    set(false, false, 1000);
    mp_status st = mp_dnn_plan_find(&g, &plan, NULL);
    if (st == MP_OK)
        assert_true(mp_dnn_plan_workspace_bytes(plan) <= 1000);
    else
        assert_int_equal(st, MP_UNSUPPORTED);
    mp_dnn_forget();
}

/* Each listed algorithm is found by its name and equals the listed one. Without a name, the first is used. */
TEST(algorithms_are_found_again_by_their_names)
{
    int n_sizes = 0;
    set(true, false, INT64_C(256) << 20);
    for (mp_dnn_kind kind = MP_DNN_CONVOLVE; kind <= MP_DNN_CONVOLVE_FILTER; kind++) {
        mp_dnn_graph g = convolution(kind, MP_DTYPE_FLOAT, LAST, 1);
        mp_algorithms found = {0}, again = {0};
        const mp_dnn_plan *plan, *first = plan_of(&g);
        mp_error err = {0};
        if (mp_dnn_algorithms(&g, &found, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(mp_dnn_algorithms(&g, &again, NULL), MP_OK);
        assert_memory_equal(&found, &again, sizeof found);
        assert_true(found.n > 1);
        for (int k = 0; k < found.n; k++) {
            char engine[40];
            for (int j = 0; j < k; j++) assert_string_not_equal(found.list[j].name, found.list[k].name);
            if (mp_dnn_plan_find_named(&g, found.list[k].name, &plan, &err) != MP_OK) fail_msg("%s", err.message);
            snprintf(engine, sizeof engine, "engine %d", mp_dnn_plan_engine(plan));
            assert_memory_equal(found.list[k].name, engine, strlen(engine));
            assert_true(found.list[k].is_deterministic && !mp_dnn_plan_notes(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
            assert_true(mp_dnn_plan_workspace_bytes(plan) <= INT64_C(256) << 20);
            if (!k) assert_int_equal(mp_dnn_plan_engine(plan), mp_dnn_plan_engine(first));
            if (!k) assert_int_equal(mp_dnn_plan_workspace_bytes(plan), mp_dnn_plan_workspace_bytes(first));
            n_sizes += mp_dnn_plan_workspace_bytes(plan) != mp_dnn_plan_workspace_bytes(first);
        }
        assert_int_equal(mp_dnn_plan_find_named(&g, "abacus", &plan, &err), MP_UNSUPPORTED);
    }
    assert_true(n_sizes > 0); /* workspaces differ */
    mp_dnn_forget();
}

/* The reasons for the decisions of layouts.c; only for an H200. */
TEST(layouts_are_those_without_copies)
{
    const mp_cuda_device *device;
    if (mp_cuda_open(&device, NULL) == MP_OK && device->architecture != 90) skip();
    set(false, false, INT64_C(256) << 20);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        int64_t bytes[2];
        for (int layout = PLAIN; layout <= LAST; layout++) {
            mp_dnn_graph g = convolution(MP_DNN_CONVOLVE, bf16 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, layout, 1);
            bytes[layout] = mp_dnn_plan_workspace_bytes(plan_of(&g));
        }
        assert_true(bytes[bf16 ? LAST : PLAIN] < 1 << 20);
        assert_true(bytes[bf16 ? PLAIN : LAST] > 8 << 20);
    }
    mp_dnn_forget();
}

static void describe(const mp_dnn_graph *g)
{
    mp_dnn_plan p = {.graph = *g};
    mp_error err = {0};
    if (mp_dnn_describe(&p, &err) != MP_OK) fail_msg("%s", err.message);
    mp_dnn_plan_close(&p);
}

/* Operations without a usable engine must still be valid graphs for cuDNN. */
TEST(every_operation_can_be_described)
{
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    mp_array y = image(MP_DTYPE_FLOAT, LAST, 8, 32, 28, 28);
    mp_array m = mp_array_plain(MP_DTYPE_FLOAT, 3, (const int64_t[]){4, 64, 64});
    mp_dnn_graph g = {0};
    int a = mp_dnn_array_add(&g, &y, 4), c = mp_dnn_channels_add(&g, f, 4, 32), b = mp_dnn_array_add(&g, &y, 4);
    mp_dnn_operation_add(&g, MP_DNN_POINTWISE, CUDNN_POINTWISE_ADD, (int[]){a, c, b}, 3);
    describe(&g);
    g = (mp_dnn_graph){0};
    a = mp_dnn_array_add(&g, &y, 4), c = mp_dnn_channels_add(&g, f, 4, 32);
    mp_dnn_operation_add(&g, MP_DNN_REDUCE, CUDNN_REDUCE_TENSOR_ADD, (int[]){a, c}, 2);
    describe(&g);
    g = (mp_dnn_graph){0};
    a = mp_dnn_array_add(&g, &m, 3), c = mp_dnn_array_add(&g, &m, 3), b = mp_dnn_array_add(&g, &m, 3);
    mp_dnn_operation_add(&g, MP_DNN_MATMUL, 0, (int[]){a, c, b}, 3);
    describe(&g);
}

static const mp_kernel *row(const mp_kernel *table, const mp_operator *op)
{
    for (; table->kind; table++)
        if (!strcmp(table->kind, op->op->name) && !strcmp(table->domain, op->op->domain)) return table;
    fail_msg("%s has no row", op->op->name);
    return NULL;
}

/* Prepares a pass with every listed algorithm, and with an unknown one. Returns the number of listed ones. */
static int prepare_algorithms(const mp_kernel *table, mp_operands x)
{
    mp_algorithms found;
    mp_error err = {0};
    mp_call call;
    if (mp_cuda_convolution_algorithms(&x, &found, &err) != MP_OK) fail_msg("%s", err.message);
    for (int k = 0; k < found.n; k++) {
        x.algorithm = found.list[k].name;
        if (mp_call_prepare(gpu, row(table, x.op), &x, &call, &err) != MP_OK) fail_msg("%s: %s", x.algorithm, err.message);
        assert_true(call.workspace_bytes <= INT64_C(257) << 20);
        mp_call_release(&call);
    }
    x.algorithm = "abacus";
    assert_int_equal(mp_call_prepare(gpu, row(table, x.op), &x, &call, NULL), MP_UNSUPPORTED);
    return found.n;
}

/* Prepares forward and backward. Without a GPU, checks that running a convolution is refused. Returns the workspace of the
 * forward call. */
static int64_t prepare_case(const mp_kernel *table, const char *kind, const char *inputs, const char *attributes, bool bf16)
{
    const rule_case text = {kind, 13, inputs, attributes, ""};
    mp_model *model = rule_model(&text, 1);
    const mp_operator *op = &model->operators[0];
    mp_array in[3] = {0}, out, d_in[3] = {0};
    int64_t bytes = 0;
    for (int i = -1; i < op->n_in; i++) {
        const mp_tensor *t = &model->tensors[i < 0 ? op->out[0] : op->in[i]];
        *(i < 0 ? &out : &in[i]) = mp_array_plain(bf16 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, t->rank, t->dims);
    }
    memcpy(d_in, in, sizeof in);
    for (int backward = 0; backward < 2; backward++) {
        mp_error err = {0};
        mp_call call;
        mp_operands x = {.model = model, .op = op, .is_backward = backward, .to = op->n_in, .n_in = op->n_in, .n_out = 1};
        const mp_cuda_device *device;
        x.in = in;
        x.out = &out;
        if (backward) {
            x.d_in = d_in;
            x.d_out = &out;
            x.adds = MP_BIT(op->n_in) - 1;
        }
        if (mp_call_prepare(gpu, row(table, op), &x, &call, &err) != MP_OK)
            fail_msg("%s(%s)(%s): %s", kind, inputs, attributes, err.message);
        if (table == mp_cuda_convolutions && mp_cuda_open(&device, NULL) != MP_OK && !backward)
            assert_int_equal(call.run(&call, &x, &err), MP_UNSUPPORTED);
        if (backward) assert_int_equal(call.adds, x.adds); /* the call itself adds all gradients */
        if (!backward) bytes = call.workspace_bytes;
        mp_call_release(&call);
        for (int i = 0; table == mp_cuda_convolutions && i < 1 + backward;
             i++) { /* forward; or gradients of data and weights */
            if (backward) x.from = i;
            if (backward) x.to = i + 1;
            assert_true(prepare_algorithms(table, x) > 0);
        }
    }
    mp_model_free(model);
    return bytes;
}

TEST(convolutions_of_every_form_are_prepared)
{
    static const char *const cases[][3] = {
        {"Conv", "float32[2,8,20] float32[16,8,3]", "pads=[1,1]"},
        {"Conv", "float32[2,8,20,22] float32[16,8,3,3] float32[16]", "pads=[1,1,1,1] strides=[2,2]"},
        {"Conv", "float32[2,8,20,22] float32[16,8,3,3]", "pads=[0,1,2,0] strides=[2,1]"},
        {"Conv", "float32[2,8,20,22] float32[16,8,3,3]", "pads=[2,2,2,2] dilations=[2,2]"},
        {"Conv", "float32[2,8,20,22] float32[16,4,3,3] float32[16]", "group=2"},
        {"Conv", "float32[2,8,20,22] float32[8,1,3,3] float32[8]", "group=8 pads=[1,1,1,1]"},
        {"Conv", "float32[2,8,10,11,12] float32[16,8,3,3,3] float32[16]", "pads=[1,1,1,1,1,1]"},
        {"ConvTranspose", "float32[2,16,10,11] float32[16,8,3,3] float32[8]",
         "pads=[1,1,1,1] strides=[2,2] output_padding=[1,1]"},
        {"ConvTranspose", "float32[2,16,10] float32[16,8,4]", "strides=[2]"},
    };
    int64_t workspace = 0;
    set(false, false, INT64_C(256) << 20);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
            workspace += prepare_case(mp_cuda_convolutions, cases[k][0], cases[k][1], cases[k][2], bf16);
    assert_true(workspace > 0); /* row-major bfloat16 needs a copy */
    mp_dnn_forget();
}

TEST(products_of_every_form_are_prepared)
{
    static const char *const cases[][3] = {
        {"MatMul", "float32[4,5] float32[5,6]", ""},
        {"MatMul", "float32[3,4,5] float32[5,6]", ""},
        {"MatMul", "float32[2,3,4,5] float32[3,5,6]", ""},
        {"MatMul", "float32[7,1,4,5] float32[3,5,6]", ""},
        {"MatMul", "float32[5] float32[5,6]", ""},
        {"MatMul", "float32[4,5] float32[5]", ""},
        {"Gemm", "float32[4,5] float32[5,6] float32[6]", ""},
        {"memplan:FusedMatMul", "float32[3,4,5] float32[5,6] float32[6]", ""},
        {"memplan:FusedMatMul", "float32[3,4,5] float32[6,5] float32[6]", "transB=1"},
        {"Gemm", "float32[5,4] float32[6,5] float32[4,1]", "transA=1 transB=1 alpha=0.5 beta=2.0"},
        {"Gemm", "float32[4,5] float32[5,6] float32[6]", "beta=2.0"},
    };
    const mp_cuda_device *device;
    set(false, false, INT64_C(256) << 20);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            int64_t bytes = prepare_case(mp_cuda_products, cases[k][0], cases[k][1], cases[k][2], bf16);
            if (mp_cuda_open(&device, NULL) != MP_OK) assert_int_equal(bytes, MP_BLAS_WORKSPACE);
        }
}

/* Each backend has its own settings and plans, even for equal graphs and settings. Closing one leaves the other's plans. */
TEST(backends_share_nothing)
{
    mp_error err = {0};
    mp_backend *second = mp_module_backend(&mp_cpu, 1);
    const mp_dnn_plan *own, *others, *again;
    mp_dnn_graph g = convolution(MP_DNN_CONVOLVE, MP_DTYPE_FLOAT, PLAIN, 1);
    mp_dnn_graph next = convolution(MP_DNN_CONVOLVE, MP_DTYPE_BFLOAT16, LAST, 1);
    set(true, false, INT64_C(256) << 20);
    assert_int_equal(mp_dnn_plan_find(&g, &own, &err), MP_OK);
    second->use(second);
    assert_false(mp_cuda_settings_get()->tf32);
    assert_int_equal(mp_dnn_plan_count(), 0);
    assert_int_equal(mp_dnn_plan_find(&g, &others, &err), MP_OK);
    assert_false(mp_dnn_plan_notes(others, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    second->settle(second, &(mp_backend_settings){.tf32 = true, .workspace_limit = INT64_C(256) << 20});
    assert_int_equal(mp_dnn_plan_find(&g, &others, &err), MP_OK);
    assert_ptr_not_equal(own, others);
    assert_int_equal(mp_dnn_plan_count(), 2);
    if (second->open(second, &err) != MP_OK) assert_non_null(strstr(err.message, "--device cuda:1: "));
    second->close(second);
    gpu->use(gpu);
    assert_true(mp_cuda_settings_get()->tf32);
    assert_int_equal(mp_dnn_plan_count(), 1);
    assert_int_equal(mp_dnn_plan_find(&g, &again, &err), MP_OK);
    assert_ptr_equal(own, again);
    assert_int_equal(mp_dnn_plan_find(&next, &again, &err), MP_OK);
    mp_dnn_forget();
    set(false, false, INT64_C(256) << 20);
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

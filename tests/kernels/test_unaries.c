/* test_unaries.c - every elementwise operator with one operand: values compared with the C library in double, gradients with
 * finite differences. The test loops over the registry's rows and fails for a row without a case. */
#include "executor/cpu/base/families.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double leaky(double x)
{
    return x >= 0 ? x : 0.1 * x;
}
static double elu(double x)
{
    return x > 0 ? x : 1.5 * (exp(x) - 1);
}
static double selu(double x)
{
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (exp(x) - 1));
}
static double falling(double x)
{
    return x >= 0 ? x : -0.5 * x;
}
static double falling_elu(double x)
{
    return x > 0 ? x : -1.5 * (exp(x) - 1);
}
static double falling_selu(double x)
{
    return -2 * (x > 0 ? x : 1.6732632423543772 * (exp(x) - 1));
}
static double celu(double x)
{
    return fmax(0, x) + fmin(0, 2 * (exp(x / 2) - 1));
}
static double thresholded(double x)
{
    return x > 0.3 ? x : 0;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double hard_sigmoid(double x)
{
    return fmax(0, fmin(1, 0.2 * x + 0.5));
}
static double hard_swish(double x)
{
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double softplus(double x)
{
    return log(1 + exp(x));
}
static double softsign(double x)
{
    return x / (1 + fabs(x));
}
static double mish(double x)
{
    return x * tanh(log(1 + exp(x)));
}
static double swish(double x)
{
    return x / (1 + exp(-x));
}
static double quick_gelu(double x)
{
    return x / (1 + exp(-1.702 * x));
}
static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}
static double neg(double x)
{
    return -x;
}
static double shrink(double x)
{
    return x < -0.4 ? x + 0.1 : x > 0.4 ? x - 0.1 : 0;
}
static double clip(double x)
{
    return fmax(-0.5, fmin(0.6, x));
}
static double same(double x)
{
    return x;
}
static double sign(double x)
{
    return (x > 0) - (x < 0);
}

typedef struct function {
    const char *kind;
    int version;
    const char *attributes;
    double (*f)(double);
    double low, high;
    bool kinked; /* finite differences fail at a kink, so gradients are compared away from it with a small step */
} function;

static const function functions[] = {
    {"Relu", 14, "", relu, -2, 2, true},
    {"LeakyRelu", 16, "alpha=0.1", leaky, -2, 2, true},
    {"Elu", 6, "alpha=1.5", elu, -3, 2, false},
    {"Selu", 6, "", selu, -3, 2, true},
    {"memplan:LeakyRelu", 1, "alpha=-0.5", falling, -2, 2, true},
    {"memplan:Elu", 1, "alpha=-1.5", falling_elu, -3, 2, true},
    {"memplan:Selu", 1, "gamma=-2.0", falling_selu, -3, 2, true},
    {"Celu", 12, "alpha=2.0", celu, -3, 2, false},
    {"ThresholdedRelu", 10, "alpha=0.3", thresholded, -1, 1, true},
    {"Sigmoid", 13, "", sigmoid, -5, 5, false},
    {"Tanh", 13, "", tanh, -3, 3, false},
    {"Exp", 13, "", exp, -3, 2, false},
    {"Sqrt", 13, "", sqrt, 0.2, 3, false},
    {"Reciprocal", 13, "", reciprocal, 0.3, 2, false},
    {"HardSigmoid", 6, "", hard_sigmoid, -4, 4, true},
    {"HardSwish", 14, "", hard_swish, -4, 4, true},
    {"Softplus", 1, "", softplus, -4, 4, false},
    {"Softsign", 1, "", softsign, -3, 3, false},
    {"Mish", 18, "", mish, -4, 4, false},
    {"Swish", 24, "", swish, -4, 4, false},
    {"Gelu", 20, "", gelu, -4, 4, false},
    {"Gelu", 20, "approximate=tanh", gelu_tanh, -4, 4, false},
    {"com.microsoft:Gelu", 1, "", gelu, -4, 4, false},
    {"com.microsoft:QuickGelu", 1, "", quick_gelu, -4, 4, false},
    {"Log", 13, "", log, 0.3, 3, false},
    {"Neg", 13, "", neg, -1, 1, false},
    {"Abs", 13, "", fabs, -1, 1, true},
    {"Erf", 13, "", erf, -3, 3, false},
    {"Shrink", 9, "lambd=0.4 bias=0.1", shrink, -1, 1, true},
    {"Sin", 7, "", sin, -2, 2, false},
    {"Cos", 7, "", cos, -2, 2, false},
    {"Tan", 7, "", tan, -1, 1, false},
    {"Asin", 7, "", asin, -0.8, 0.8, false},
    {"Acos", 7, "", acos, -0.8, 0.8, false},
    {"Atan", 7, "", atan, -2, 2, false},
    {"Sinh", 9, "", sinh, -2, 2, false},
    {"Cosh", 9, "", cosh, -2, 2, false},
    {"Asinh", 9, "", asinh, -2, 2, false},
    {"Acosh", 9, "", acosh, 1.3, 3, false},
    {"Atanh", 9, "", atanh, -0.8, 0.8, false},
    {"Clip", 6, "min=-0.5 max=0.6", clip, -1, 1, true},
    {"Identity", 14, "", same, -1, 1, false},
    {"Cast", 13, "to=1", same, -1, 1, false},
    {"Sign", 13, "", sign, -1, 1, true},
    {"Floor", 13, "", floor, -2, 2, true},
    {"Ceil", 13, "", ceil, -2, 2, true},
    {"Round", 11, "", rint, -2, 2, true},
};

static kernel_case case_of(const function *f, const char *inputs)
{
    return (kernel_case){.kind = f->kind,
                         .version = f->version,
                         .inputs = inputs,
                         .attributes = f->attributes,
                         .n_outputs = 1,
                         .low = f->low,
                         .high = f->high,
                         .step = f->kinked ? 1e-4 : 2e-3,
                         .tolerance = f->kinked ? 5e-2 : 1e-2};
}

TEST(values_are_those_of_the_c_library)
{
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const function *f = &functions[k];
        kernel_case c = case_of(f, "float32[3,5,1367]");
        for (unsigned flags = 0; flags < 2; flags++) {
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags ? KERNEL_CHANNELS_LAST : 0);
            kernel_forward(r);
            for (int64_t e = 0; e < 3 * 5 * 1367; e++) {
                double x = kernel_get(&r->forward.in[0], e), y = kernel_get(&r->forward.out[0], e), z = f->f(x);
                if (!(fabs(y - z) <= 1e-6 * (fabs(z) + 0.3) + 2e-7 * fabs(x)))
                    fail_msg("%s(%.9g) is %.9g, not %.9g", f->kind, x, y, z);
            }
            kernel_end(r);
        }
    }
}

TEST(gradients_are_those_of_differences)
{
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        kernel_case c = case_of(&functions[k], "float32[2,3,4]");
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
        bool differentiable = mp_cpu_kernel(r->forward.op)->backward != NULL;
        assert_int_equal(differentiable, r->forward.op->op->gradient == MP_GRADIENT_ONE);
        kernel_end(r);
        if (differentiable) kernel_check_gradient(&c);
    }
}

/* Output in place of input; gradient, output gradient and saved value in one place. */
TEST(nothing_changes_in_place)
{
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        enum { N = 2 * 4500 };
        kernel_case c = case_of(&functions[k], "float32[2,4500]");
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, 0), *b = kernel_begin(&c, MP_MODE_TRAIN, 0);
        mp_array out = b->forward.out[0];
        kernel_forward(a);
        b->forward.out[0].data = b->forward.in[0].data;
        kernel_forward(b);
        assert_memory_equal(a->forward.out[0].data, b->forward.out[0].data, N * sizeof(float));
        b->forward.out[0] = out;
        kernel_end(a);
        kernel_end(b);
    }
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        enum { N = 2 * 4500 };
        kernel_case c = case_of(&functions[k], "float32[2,4500]");
        kernel_run *a = kernel_begin(&c, MP_MODE_TRAIN, 0);
        bool differentiable = mp_cpu_kernel(a->forward.op)->backward != NULL;
        kernel_end(a);
        if (!differentiable) continue;
        for (int where = 0; where < 3; where++) {
            a = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
            kernel_run *b = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
            mp_array d_in = b->backward.d_in[0];
            mp_array *from = where == 0 ? b->backward.d_out : where == 1 ? b->backward.in : b->backward.out;
            kernel_forward(a);
            kernel_forward(b);
            kernel_backward(a);
            if (from->data) {
                b->backward.d_in[0].data = from->data;
                kernel_backward(b);
                assert_memory_equal(a->backward.d_in[0].data, b->backward.d_in[0].data, N * sizeof(float));
            }
            b->backward.d_in[0] = d_in;
            kernel_end(a);
            kernel_end(b);
        }
    }
}

TEST(bounds_of_clip_may_be_operands)
{
    kernel_case c = {"Clip", 13, "float32[4]={-3,-1,1,3} float32[]={-2} float32[]={2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){-2, -1, 1, 2}, 4, 0);
    kernel_case d = {"Clip", 13, "float32[4]={-3,-1,1,3} - float32[]={2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&d, MP_MODE_TRAIN, 0, (double[]){-3, -1, 1, 2}, 4, 0);
    kernel_case e = {"Clip", 13, "int64[4]={-3,-1,1,3} int64[]={-2} int64[]={2}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&e, MP_MODE_TRAIN, 0, (double[]){-2, -1, 1, 2}, 4, 0);
    /* the upper bound takes precedence */
    kernel_case f = {"Clip", 13, "float32[4]={-3,-1,1,3} float32[]={1} float32[]={-1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&f, MP_MODE_TRAIN, 0, (double[]){-1, -1, -1, -1}, 4, 0);
    kernel_case g = {"Clip", 13, "int64[4]={-3,-1,1,3} int64[]={1} int64[]={-1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&g, MP_MODE_TRAIN, 0, (double[]){-1, -1, -1, -1}, 4, 0);
}

/* Prepares the call again with unknown bounds from operand `from` on. */
static void forget_bounds(mp_operands *x, mp_call *call, int from)
{
    const mp_backend *b = backend_of_tests();
    void *known[3] = {NULL};
    for (int k = from; k < x->n_in; k++) {
        known[k] = x->in[k].data;
        x->in[k].data = NULL;
    }
    mp_call_release(call);
    assert_int_equal(mp_call_prepare(b, b->kernel(b, x->op), x, call, NULL), MP_OK);
    for (int k = from; k < x->n_in; k++) x->in[k].data = known[k];
}

TEST(bounds_of_clip_may_be_computed)
{
    static const struct {
        const char *inputs;
        int from; /* index of the first computed bound */
        double y[4], dx[4];
    } cases[] = {{"float32[4]={-3,-1,1,3} float32[]={-2} float32[]={2}", 1, {-2, -1, 1, 2}, {0, 1, 1, 0}},
                 {"float32[4]={-3,-1,1,3} float32[]={-2} float32[]={2}", 2, {-2, -1, 1, 2}, {0, 1, 1, 0}},
                 {"float32[4]={-3,-1,1,3} - float32[]={2}", 1, {-3, -1, 1, 2}, {1, 1, 1, 0}},
                 {"float32[4]={-3,-1,1,3} float32[1]={-2}", 1, {-2, -1, 1, 3}, {0, 1, 1, 1}},
                 /* at a bound, and with equal bounds: values of torch.clamp with tensors as bounds */
                 {"float32[4]={-3,-2,1,2} float32[]={-2} float32[]={2}", 1, {-2, -2, 1, 2}, {0, .5, 1, .5}},
                 {"float32[4]={-3,-2,1,2} float32[]={-2}", 1, {-2, -2, 1, 2}, {0, .5, 1, 1}},
                 {"float32[4]={-3,1,2,2} float32[]={1} float32[]={1}", 1, {1, 1, 1, 1}, {0, 1, 0, 0}},
                 {"float32[4]={-3,-1,1,3} float32[]={1} float32[]={-1}", 1, {-1, -1, -1, -1}, {0, 0, 0, 0}},
                 {"int64[4]={-3,-1,1,3} int64[]={1} int64[]={-1}", 1, {-1, -1, -1, -1}, {0}},
                 {"int64[4]={-3,-1,1,3} int64[]={-2} int64[]={2}", 1, {-2, -1, 1, 2}, {0}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const bool whole = cases[k].inputs[0] == 'i';
        const kernel_case c = {"memplan:Clip", 13, cases[k].inputs, "", 1, 0, 0, 1, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, whole ? KERNEL_PLAIN : KERNEL_BACKWARD);
        forget_bounds(&r->forward, &r->forward_call, cases[k].from);
        kernel_forward(r);
        for (int64_t e = 0; e < 4; e++) assert_true(kernel_get(&r->forward.out[0], e) == cases[k].y[e]);
        if (!whole) forget_bounds(&r->backward, &r->backward_call, cases[k].from);
        for (int64_t e = 0; !whole && e < 4; e++) kernel_set(&r->backward.d_out[0], e, 1);
        if (!whole) kernel_backward(r);
        for (int64_t e = 0; !whole && e < 4; e++) assert_true(kernel_get(&r->backward.d_in[0], e) == cases[k].dx[e]);
        kernel_end(r);
    }
}

TEST(whole_numbers_stay_exact)
{
    kernel_case relu = {"Relu", 14, "int64[3]={-5,0,7}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&relu, MP_MODE_TRAIN, 0, (double[]){0, 0, 7}, 3, 0);
    kernel_case cast = {"Cast", 13, "float32[4]={-2.7,-0.2,0.0,3.9}", "to=7", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&cast, MP_MODE_TRAIN, 0, (double[]){-2, 0, 0, 3}, 4, 0);
    kernel_case far = {"Cast", 13, "float32[4]={1e30,-1e30,inf,nan}", "to=7", 1, 0, 0, 0, 0, 0}; /* as on x86 and in PyTorch */
    kernel_check_values(&far, MP_MODE_TRAIN, 0, (double[]){-0x1p63, -0x1p63, -0x1p63, -0x1p63}, 4, 0);
    kernel_case truth = {"Cast", 13, "float32[4]={-2.7,-0.2,0.0,3.9}", "to=9", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&truth, MP_MODE_TRAIN, 0, (double[]){1, 1, 0, 1}, 4, 0);
    kernel_case neg = {"Neg", 13, "int64[2]={9007199254740993,-5}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&neg, MP_MODE_TRAIN, 0, (double[]){-9007199254740992.0, 5}, 2, 0);
    kernel_case not = {"Not", 1, "bool[3]={1,0,1}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&not, MP_MODE_TRAIN, 0, (double[]){0, 1, 0}, 3, 0);
}

static const char *without_domain(const char *kind)
{
    const char *colon = strchr(kind, ':');
    return colon ? colon + 1 : kind;
}

/* Checks every registry row with one operand of any shape and an output of the same shape. */
TEST(no_operator_is_forgotten)
{
    static const char *const elsewhere[] = {"Not", "BitwiseNot", "IsNaN", "IsInf", "CastLike"};
    for (const mp_kernel *row = mp_cpu_unaries; row->kind; row++) {
        bool found = false;
        for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) found |= !strcmp(elsewhere[k], row->kind);
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
            found |= !strcmp(without_domain(functions[k].kind), row->kind);
        if (!found) fail_msg("%s has no case here", row->kind);
    }
}

/* At a jump of the slope, the gradient is a choice: choices.def has PyTorch's value. */
TEST(no_slope_that_jumps_is_without_a_choice)
{
#define CHOICE(kind, ...) kind,
    static const char *const chosen[] = {
#include "tests/kernels/choices.def"
    };
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const char *name = without_domain(functions[k].kind);
        bool found = !functions[k].kinked;
        for (const mp_kernel *row = mp_cpu_unaries; row->kind; row++) found |= !strcmp(row->kind, name) && !row->backward;
        for (size_t c = 0; c < sizeof chosen / sizeof *chosen; c++) found |= !strcmp(without_domain(chosen[c]), name);
        if (!found) fail_msg("the slope of %s jumps, and it is not in choices.def", name);
    }
}

/* test_backends.c - gradients of whole networks on the tested backend compared with the CPU's, in fp32 and bf16.
 * MEMPLAN_TEST_BACKEND selects the backend; on the CPU the test compares nothing. */
#include "executor/cpu/cpu.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

typedef struct gradients {
    training_case t;
    mp_plan *plan;
    mp_execution *execution;
    double loss;
} gradients;

/* Runs one keep-all step without an update, so that gradients stay in memory. */
static gradients gradients_on(const mp_backend *backend, const char *path, mp_dtype dtype)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_NONE, .dtype = dtype};
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    gradients g = {.t = training_begin_on(backend, path, 0, &options)};
    g.plan = training_keep_all(&g.t);
    g.execution = training_execution(&g.t, g.plan, &hyper);
    training_run(&g.t, g.execution, 0, 1, &g.loss);
    return g;
}

static void gradients_end(gradients *g)
{
    mp_execution_free(g->execution);
    mp_plan_free(g->plan);
    training_end(&g->t);
}

/* Returns the gradient of a parameter as floats on the host; the caller frees it. */
static float *gradient_of(gradients *g, int tensor, int64_t *n)
{
    mp_error err = {0};
    mp_array there;
    if (mp_execution_gradient(g->execution, tensor, &there, &err) != MP_OK) fail_msg("%s", err.message);
    mp_array host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    *n = mp_array_elements(&host);
    host.data = malloc((size_t)*n * sizeof(float));
    assert_non_null(host.data);
    const mp_backend *backend = g->t.program->backend;
    if (backend->download(backend, &there, &host, &err) != MP_OK) fail_msg("%s", err.message);
    return host.data;
}

/* |x - y|; y NULL: |x|. */
static double distance(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += pow((double)x[k] - (y ? (double)y[k] : 0), 2);
    return sqrt(sum);
}

static bool is_trained(const training_case *t, size_t tensor)
{
    return t->model->tensors[tensor].role == MP_ROLE_PARAMETER && t->program->bindings->storage[tensor] >= 0;
}

/* Compares |theirs - the CPU's| / |the CPU's| for every parameter. In bf16 both may also differ by rounding, as far as the
 * CPU's bf16 gradient differs from its fp32 gradient. A gradient that is zero except for rounding (a bias before a
 * normalization) consists of this difference only. In fp32 such a gradient is compared with one hundredth of all gradients
 * together. */
static void compare(const char *path, mp_dtype dtype, double most)
{
    const double part = dtype == MP_DTYPE_FLOAT ? 0.01 : 0;
    gradients exact = gradients_on(&mp_cpu, path, MP_DTYPE_FLOAT);
    gradients cpu = gradients_on(&mp_cpu, path, dtype), other = gradients_on(backend_of_tests(), path, dtype);
    const mp_model *model = cpu.t.model;
    double all = 0;
    int n_compared = 0;
    if (!(fabs(other.loss - cpu.loss) <= most * fabs(cpu.loss)))
        fail_msg("%s: loss %.9g, the CPU's %.9g", path, other.loss, cpu.loss);
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < model->n_tensors; k++) {
            int64_t n, n_other;
            if (!is_trained(&cpu.t, k)) continue;
            float *a = gradient_of(&cpu, (int)k, &n), *b = gradient_of(&other, (int)k, &n_other);
            assert_int_equal(n, n_other);
            float *c = gradient_of(&exact, (int)k, &n_other);
            const double size = distance(a, NULL, n), off = distance(b, a, n), rounding = distance(a, c, n);
            if (!pass) {
                all += size * size;
            } else if (!(off <= most * fmax(size, part * sqrt(all)) + 2 * rounding)) {
                fail_msg("%s: the gradient of %s is off by %.3g of %.3g, rounding is %.3g", path, model->tensors[k].name, off,
                         size, rounding);
            } else {
                n_compared++;
            }
            free(a);
            free(b);
            free(c);
        }
    assert_true(n_compared >= 8);
    gradients_end(&other);
    gradients_end(&cpu);
    gradients_end(&exact);
}

static const char *const networks[] = {"tests/gradients/mlp.onnx", "tests/gradients/cnn.onnx", "tests/gradients/unet.onnx",
                                       "tests/gradients/bert.onnx", "tests/gradients/gpt.onnx"};

TEST(gradients_in_float_are_the_cpus_to_one_in_10000)
{
    if (backend_of_tests() == &mp_cpu) skip();
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) compare(networks[k], MP_DTYPE_FLOAT, 1e-4);
}

TEST(gradients_in_bfloat16_are_the_cpus_to_one_in_50)
{
    if (backend_of_tests() == &mp_cpu) skip();
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) compare(networks[k], MP_DTYPE_BFLOAT16, 2e-2);
}

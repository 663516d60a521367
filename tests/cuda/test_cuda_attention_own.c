/* test_cuda_attention_own.c - runs memplan's own attention kernels on the host (their twin), in float, TF32 and bfloat16, and
 * compares them with the definition of attention in double. */
#include "executor/kernel/philox.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

enum { FLOATS, TF32, HALVES, N_NUMBERS };

typedef struct attention_row {
    int batch, heads, rows, columns, depth, value_depth;
    const char *attributes, *masks; /* masks: the inputs after V */
    double ratio;
    bool causal, keeps;
    double fill;
} attention_row;

static const attention_row rows[] = {
    /* the depths of common networks, causal or not, with lengths that are no multiples of tiles */
    {1, 2, 64, 64, 64, 64, "", "", 0, false, true, 0},
    {1, 2, 130, 130, 64, 64, "causal=1", "", 0, true, true, 0},
    {2, 1, 71, 133, 32, 32, "", "", 0, false, true, 0},
    {1, 1, 67, 65, 80, 80, "causal=1", "", 0, true, true, 0},
    {1, 1, 129, 67, 128, 128, "", "", 0, false, true, 0},
    {1, 1, 65, 130, 128, 128, "causal=1", "", 0, true, true, 0},
    /* depths of several slices and of several blocks of results, and odd depths */
    {1, 1, 66, 40, 144, 200, "", "", 0, false, true, 0},
    {1, 1, 40, 66, 200, 36, "", "", 0, false, true, 0},
    {1, 2, 33, 35, 17, 67, "causal=1", "", 0, true, true, 0},
    /* masks: added, boolean, both, with broadcast dimensions */
    {2, 2, 70, 75, 32, 32, "", "float32[2,1,1,75]", 0, false, true, 0},
    {2, 2, 70, 75, 64, 64, "", "float32[70,75]", 0, false, true, 0},
    {2, 2, 37, 66, 32, 32, "fill=-3.0", "- bool[2,1,1,66]", 0, false, true, -3},
    {2, 2, 70, 35, 32, 32, "keeps=0 causal=1", "float32[2,2,70,35] bool[70,35]", 0, true, false, -INFINITY},
    {1, 2, 70, 35, 32, 32, "fill=-2.0", "float32[1,2,1,1] bool[70,1]", 0, false, true, -2},
    /* dropout, with rows that begin within a group of four random words */
    {1, 2, 70, 131, 64, 64, "", "", 0.25, false, true, 0},
    {2, 2, 66, 66, 80, 32, "causal=1", "", 0.5, true, true, 0},
    {1, 2, 35, 67, 128, 128, "", "float32[1,1,1,67]", 0.125, false, true, 0},
};

/* Returns the index in a mask of (batch, head, row, column); dimensions of size 1 are broadcast. */
static int64_t in_mask(const mp_array *mask, const int at[4])
{
    int64_t k = 0;
    for (int d = 0; d < mask->rank; d++) k = k * mask->dims[d] + (mask->dims[d] == 1 ? 0 : at[4 - mask->rank + d]);
    return k;
}

typedef struct definition {
    double *y, *gradients[3];
} definition;

/* Reads one matrix of an array. */
static double *matrix_of(const mp_array *a, int64_t m, int64_t size)
{
    double *x = malloc((size_t)size * sizeof *x);
    for (int64_t k = 0; k < size; k++) x[k] = kernel_get(a, m * size + k);
    return x;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

static void add(double *to, const double *from, double factor, int n)
{
    for (int k = 0; k < n; k++) to[k] += factor * from[k];
}

/* Computes the probability of each score of a row. may_move[c]: false if a mask has replaced the score, so that it has no
 * gradient. */
static void probabilities(const attention_row *t, const kernel_run *r, int64_t m, int row, const double *scores, double *p,
                          bool *may_move)
{
    const mp_array *added = r->forward.n_in > 3 && r->forward.in[3].dtype ? &r->forward.in[3] : NULL;
    const mp_array *positions = r->forward.n_in > 4 ? &r->forward.in[4] : NULL;
    double best = -INFINITY, sum = 0;
    for (int c = 0; c < t->columns; c++) {
        const int at[] = {(int)m / t->heads, (int)m % t->heads, row, c};
        may_move[c] = !positions || (kernel_get(positions, in_mask(positions, at)) != 0) == t->keeps;
        p[c] = may_move[c] ? scores[c] : t->fill;
        if (added) p[c] += kernel_get(added, in_mask(added, at));
        if (t->causal && c > row) p[c] = -INFINITY;
        best = fmax(best, p[c]);
    }
    for (int c = 0; c < t->columns; c++) sum += p[c] = exp(p[c] - best);
    for (int c = 0; c < t->columns; c++) p[c] /= sum;
}

static void define_matrix(const attention_row *t, const kernel_run *r, int64_t m, double scale, definition *to)
{
    const mp_operands *x = &r->backward;
    const int depth = t->depth, deep = t->value_depth;
    double *q = matrix_of(&x->in[0], m, t->rows * depth), *k = matrix_of(&x->in[1], m, t->columns * depth),
           *v = matrix_of(&x->in[2], m, t->columns * deep), *dy = matrix_of(&x->d_out[0], m, t->rows * deep);
    double *p = calloc((size_t)t->columns, sizeof *p), *dp = calloc((size_t)t->columns, sizeof *dp);
    bool *may_move = calloc((size_t)t->columns, sizeof *may_move);
    double *dq = to->gradients[0] + m * t->rows * depth, *dk = to->gradients[1] + m * t->columns * depth,
           *dv = to->gradients[2] + m * t->columns * deep;
    for (int row = 0; row < t->rows; row++) {
        double mean = 0;
        for (int c = 0; c < t->columns; c++) p[c] = scale * dot(q + row * depth, k + c * depth, depth);
        probabilities(t, r, m, row, p, p, may_move);
        for (int c = 0; c < t->columns; c++) {
            const uint64_t element = (uint64_t)((m * t->rows + row) * t->columns + c);
            const bool keeps = (double)mp_random_uniform(r->run.seed, r->run.step, (uint32_t)x->op_index, element) >= t->ratio;
            const double w = keeps ? 1 / (1 - t->ratio) : 0;
            add(to->y + (m * t->rows + row) * deep, v + c * deep, w * p[c], deep);
            add(dv + c * deep, dy + row * deep, w * p[c], deep);
            dp[c] = w * dot(dy + row * deep, v + c * deep, deep);
            mean += p[c] * dp[c];
        }
        for (int c = 0; c < t->columns; c++) {
            const double ds = may_move[c] ? scale * p[c] * (dp[c] - mean) : 0;
            add(dq + row * depth, k + c * depth, ds, depth);
            add(dk + c * depth, q + row * depth, ds, depth);
        }
    }
    free(q), free(k), free(v), free(dy), free(p), free(dp), free(may_move);
}

/* Fails if an array differs from its defined values by more than `most`, relative to the largest defined value. */
static void compare(const attention_row *t, int numbers, const char *what, const mp_array *a, const double *defined,
                    double most)
{
    double largest = 1e-3, worst = 0;
    for (int64_t k = 0; k < mp_array_elements(a); k++) {
        largest = fmax(largest, fabs(defined[k]));
        if (!(fabs(kernel_get(a, k) - defined[k]) <= worst)) worst = fabs(kernel_get(a, k) - defined[k]);
    }
    if (getenv("MEMPLAN_TEST_ERRORS")) printf("%td numbers %d %s %g\n", t - rows, numbers, what, worst / largest);
    if (!(worst <= most * largest))
        fail_msg("row %td, numbers %d: %s is off by %g of its largest element", t - rows, numbers, what, worst / largest);
}

/* Draws boolean masks. If a mask hides scores, the first column stays visible, because a row without visible scores is NaN. */
static void fill_masks(const attention_row *t, const kernel_run *r)
{
    for (int i = 3; i < r->forward.n_in; i++) {
        const mp_array *mask = &r->forward.in[i];
        for (int64_t k = 0; mask->dtype == MP_DTYPE_BOOL && k < mp_array_elements(mask); k++)
            kernel_set(mask, k, isinf(t->fill) && k % mask->dims[mask->rank - 1] == 0 ? t->keeps : k % 3 != 1);
    }
}

static void check(const attention_row *t, int numbers)
{
    static const double most[N_NUMBERS] = {2e-6, 2e-3, 2e-2};
    char inputs[300], attributes[100];
    const float scale = (float)(1 / sqrt(t->depth));
    snprintf(inputs, sizeof inputs, "float32[%d,%d,%d,%d] float32[%d,%d,%d,%d] float32[%d,%d,%d,%d] %s", t->batch, t->heads,
             t->rows, t->depth, t->batch, t->heads, t->columns, t->depth, t->batch, t->heads, t->columns, t->value_depth,
             t->masks);
    snprintf(attributes, sizeof attributes, "scale=%.9f ratio=%.3f %s", (double)scale, t->ratio, t->attributes);
    const kernel_case c = {"memplan:ScaledDotProductAttention", 1, inputs, attributes, 1, -2, 2, 7, 0, 0};
    const int64_t n = t->batch * t->heads, y_size = n * t->rows * t->value_depth;
    const int64_t sizes[3] = {n * t->rows * t->depth, n * t->columns * t->depth, n * t->columns * t->value_depth};
    twin->settle(twin, &(mp_backend_settings){.tf32 = numbers == TF32, .workspace_limit = 1 << 20});
    kernel_use(twin);
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | (numbers == HALVES ? KERNEL_BFLOAT16 : 0));
    definition d = {calloc((size_t)y_size, sizeof(double)), {NULL}};
    for (int i = 0; i < 3; i++) d.gradients[i] = calloc((size_t)sizes[i], sizeof(double));
    fill_masks(t, r);
    /* one float per row; no mask is copied, and no scores are stored */
    assert_int_equal(r->forward_call.workspace_bytes, 0);
    assert_true(r->backward_call.workspace_bytes < n * t->rows * (int64_t)sizeof(float) + 256);
    kernel_forward(r);
    kernel_backward(r);
    for (int64_t m = 0; m < n; m++) define_matrix(t, r, m, (double)scale, &d);
    compare(t, numbers, "Y", &r->forward.out[0], d.y, most[numbers]);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"dQ", "dK", "dV"};
        mp_array *to = &r->backward.d_in[i];
        compare(t, numbers, names[i], to, d.gradients[i], most[numbers]);
        d.gradients[i] = realloc(d.gradients[i], (size_t)mp_array_bytes(to));
        memcpy(d.gradients[i], to->data, (size_t)mp_array_bytes(to));
    }
    kernel_backward(r); /* the second run must give the same bits */
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(d.gradients[i], r->backward.d_in[i].data, (size_t)mp_array_bytes(&r->backward.d_in[i]));
        free(d.gradients[i]);
    }
    free(d.y);
    kernel_end(r);
}

static void check_all(int numbers)
{
    if (!strcmp(twin->name, "cpu") || (numbers == HALVES && strcmp(twin->name, "cuda-twin") != 0)) skip();
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) check(&rows[k], numbers);
}

TEST(attention_in_float_is_its_definition)
{
    check_all(FLOATS);
}

TEST(attention_in_tf32_is_its_definition)
{
    check_all(TF32);
}

TEST(attention_in_bfloat16_is_its_definition)
{
    check_all(HALVES);
}

static int load(void **state)
{
    if (!getenv("MEMPLAN_TEST_BACKEND")) return twin_load(state);
    twin = backend_of_tests();
    return 0;
}

int main(void)
{
    return test_run(load, NULL);
}

/* test_cuda_channels.c - the GPU's batch normalization, alone and fused, run on the host by its twin. Statistics, values and
 * gradients are compared with two passes in double. Sizes range from one thread to many blocks, with means far from zero. */
#include "executor/cpu/cpu.h"
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

#define EPSILON 0.001

enum end { PLAIN, RELU, ADDED_RELU, N_ENDS };
static const char *const kinds[] = {"BatchNormalization", "memplan:BatchNormalizationRelu",
                                    "memplan:BatchNormalizationAddRelu"};

/* Backward's inputs: the saved statistics, and sums of one channel. */
typedef struct channel {
    double mean, variance, gain, shift, rstd, sum, product;
} channel;

/* Returns the row-major index of position p of channel c in (samples, channels, area). */
static int64_t at(int64_t p, int64_t c, int64_t channels, int64_t area)
{
    return (p / area * channels + c) * area + p % area;
}

static void near(const kernel_case *c, unsigned flags, const char *what, int64_t k, double value, double expected, double most)
{
    if (!(fabs(value - expected) <= most))
        fail_msg("%s(%s), flags %u: %s %lld is %.9g, not %.9g", c->kind, c->inputs, flags, what, (long long)k, value, expected);
}

/* Returns the tolerance: half a rounding step of the stored type, plus the error of float sums. */
static double allowed(unsigned flags, double value, double scale)
{
    return (flags & KERNEL_BFLOAT16 ? fabs(value) / 256 : fabs(value) * 1e-6) + 1e-5 * scale;
}

static void follow(const kernel_case *c, kernel_run *r, enum end end, unsigned flags)
{
    const mp_operands *f = &r->forward, *b = &r->backward;
    const mp_array *x = &f->in[0], *y = &f->out[0], *dy = &b->d_out[0], *dx = &b->d_in[0],
                   *dz = end == ADDED_RELU ? &b->d_in[5] : NULL;
    const int64_t channels = x->dims[1], area = mp_array_elements(x) / x->dims[0] / channels, n = x->dims[0] * area;
    double *old = calloc((size_t)(2 * channels), sizeof *old);
    for (int64_t k = 0; k < 2 * channels; k++) old[k] = flags & KERNEL_ADDS ? kernel_get(&b->d_in[1 + k % 2], k / 2) : 0;
    double *before = calloc((size_t)mp_array_elements(x), sizeof *before), *g = calloc((size_t)n, sizeof *g);
    for (int64_t e = 0; dz && (flags & KERNEL_ADDS) && e < mp_array_elements(x); e++) before[e] = kernel_get(dz, e);
    kernel_forward(r);
    kernel_backward(r);
    for (int64_t k = 0; k < channels; k++) {
        channel s = {.gain = kernel_get(&f->in[1], k), .shift = kernel_get(&f->in[2], k)};
        for (int64_t p = 0; p < n; p++) s.mean += kernel_get(x, at(p, k, channels, area)) / (double)n;
        for (int64_t p = 0; p < n; p++) s.variance += pow(kernel_get(x, at(p, k, channels, area)) - s.mean, 2) / (double)n;
        s.rstd = 1 / sqrt(s.variance + EPSILON);
        near(c, flags, "mean", k, kernel_get(&f->extra[0], k), s.mean, 1e-7 * fabs(s.mean) + 1e-6 / s.rstd);
        near(c, flags, "deviation", k, kernel_get(&f->extra[1], k), s.rstd, 2e-6 * s.rstd);
        s.mean = kernel_get(&f->extra[0], k); /* the rounded values */
        s.rstd = kernel_get(&f->extra[1], k);
        for (int64_t p = 0; p < n; p++) {
            const int64_t e = at(p, k, channels, area);
            const double v = (kernel_get(x, e) - s.mean) * s.rstd;
            double value = v * s.gain + s.shift + (dz ? kernel_get(&f->in[5], e) : 0);
            if (end != PLAIN && value < 0) value = 0;
            near(c, flags, "value", e, kernel_get(y, e), value, allowed(flags, value, 1));
            g[p] = end == PLAIN || kernel_get(y, e) > 0 ? kernel_get(dy, e) : 0;
            if (dz)
                near(c, flags, "gradient of what is added", e, kernel_get(dz, e), g[p] + before[e],
                     allowed(flags, g[p] + before[e], 1));
            s.sum += g[p];
            s.product += g[p] * v;
        }
        near(c, flags, "gradient of shift", k, kernel_get(&b->d_in[2], k), s.sum + old[2 * k + 1],
             allowed(flags, s.sum + old[2 * k + 1], sqrt((double)n)));
        near(c, flags, "gradient of scale", k, kernel_get(&b->d_in[1], k), s.product + old[2 * k],
             allowed(flags, s.product + old[2 * k], sqrt((double)n)));
        for (int64_t p = 0; p < n; p++) {
            const int64_t e = at(p, k, channels, area);
            const double v = (kernel_get(x, e) - s.mean) * s.rstd;
            const double d = s.gain * s.rstd * (g[p] - s.sum / (double)n - v * s.product / (double)n);
            near(c, flags, "gradient", e, kernel_get(dx, e), d, allowed(flags, d, fabs(s.gain) * s.rstd));
        }
    }
    free(old);
    free(before);
    free(g);
}

/* Checks both layouts and types. Gradients are overwritten and added, except the input's, which is only overwritten. */
static void check_end(enum end end, int64_t samples, int64_t channels, int64_t height, int64_t width, double mean)
{
    char inputs[300];
    const char *each = "float32[%d,%d,%d,%d] float32[%d] float32[%d] float32[%d] float32[%d]";
    const int m = (int)channels;
    int used = snprintf(inputs, sizeof inputs, each, (int)samples, m, (int)height, (int)width, m, m, m, m);
    if (end == ADDED_RELU)
        snprintf(inputs + used, sizeof inputs - (size_t)used, " float32[%d,%d,%d,%d]", (int)samples, m, (int)height,
                 (int)width);
    const kernel_case c = {.kind = kinds[end],
                           .version = end == PLAIN ? 15 : 1,
                           .inputs = inputs,
                           .attributes = "training_mode=1 epsilon=0.001",
                           .n_outputs = 1,
                           .low = mean - 1,
                           .high = mean + 1,
                           .wanted = end == ADDED_RELU ? 39 : 7};
    for (unsigned k = 0; k < 8; k++) {
        const unsigned flags =
            (k & 1 ? KERNEL_CHANNELS_LAST : 0) | (k & 2 ? KERNEL_BFLOAT16 : 0) | (k & 4 ? KERNEL_ADDS : 0) | KERNEL_BACKWARD;
        if (mean > 10 && (k & 2)) continue; /* in bfloat16 such values have too few digits */
        kernel_use(twin);
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags);
        for (int64_t e = 0; e < channels; e++) {
            for (int i = 1; i < 3; i++) kernel_set(&r->forward.in[i], e, (double)(e % 5) - 1.5 + i);
            for (int i = 1; i < 3; i++) kernel_set(&r->backward.d_in[i], e, (double)(e % 7) - 3);
        }
        for (int64_t e = 0; e < mp_array_elements(&r->backward.d_in[0]); e++) {
            if (end == ADDED_RELU) kernel_set(&r->forward.in[5], e, (double)(e % 9) / 3 - 1);
            if (k & 4) kernel_set(&r->backward.d_in[0], e, 0);
            if (end == ADDED_RELU) kernel_set(&r->backward.d_in[5], e, (double)(e % 3) - 1);
        }
        follow(&c, r, end, flags);
        kernel_end(r);
        kernel_use(&mp_cpu);
    }
}

static void check(int64_t samples, int64_t channels, int64_t height, int64_t width, double mean)
{
    for (int end = 0; end < N_ENDS; end++) check_end((enum end)end, samples, channels, height, width, mean);
}

TEST(channels_follow_their_definition)
{
    check(2, 5, 3, 4, 0);     /* no vectors */
    check(3, 8, 61, 59, 0.5); /* one vector or two, several blocks */
    check(4, 40, 19, 23, 0);  /* a block with threads to spare */
    check(2, 12, 9, 7, 0);    /* vectors in fp32 only */
    check(3, 2056, 5, 6, 0);  /* blocks side by side */
    check(1, 16, 1, 1, 0);    /* one position */
    check(2, 16, 1, 3, 0.5);
    check(1, 5, 3, 3, 0); /* a byte of bits that is not full */
}

/* Sums of squares would lose all digits of a variance below a millionth of the squared mean. */
TEST(a_large_mean_takes_no_digits)
{
    check(3, 16, 33, 41, 3000);
    check(3, 24, 70, 41, -500);
}

int main(void)
{
    return test_run(twin_load, NULL);
}

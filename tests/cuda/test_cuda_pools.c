/* test_cuda_pools.c - the GPU's pools, run on the host by their twin and compared with their definition in double. Covers
 * strides, dilations, pads, windows that begin before or end after the data, and both layouts. */
#include "executor/cpu/cpu.h"
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

enum { SPATIAL = 3 };

/* A pool over the last n of three spatial dimensions; the others have size 1. */
typedef struct pool {
    const char *kind;
    int n, samples, channels;
    int size[SPATIAL], kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], begin[SPATIAL], end[SPATIAL];
    int ceil_mode, counts_pads;
    double p;
} pool;

/* Lists the taps of the window at out[] that are inside the data, as flat indices of x's spatial dimensions. count: divisor of
 * an average. */
static int64_t places_of(const pool *p, const int *out, int64_t *places, int64_t *count)
{
    int64_t n = 0;
    *count = 0;
    for (int a = 0; a < p->kernel[0]; a++)
        for (int b = 0; b < p->kernel[1]; b++)
            for (int c = 0; c < p->kernel[2]; c++) {
                const int tap[] = {a, b, c};
                int64_t flat = 0;
                bool on_data = true, on_pads = true;
                for (int d = 0; d < SPATIAL; d++) {
                    const int at = out[d] * p->stride[d] - p->begin[d] + tap[d] * p->dilation[d];
                    on_data = on_data && at >= 0 && at < p->size[d];
                    on_pads = on_pads && at < p->size[d] + p->end[d];
                    flat = flat * p->size[d] + at;
                }
                *count += p->counts_pads ? on_pads : on_data;
                if (on_data) places[n++] = flat;
            }
    return n;
}

static void compare(const pool *p, const mp_array *a, const double *expected, const char *what, unsigned flags)
{
    double greatest = 1e-3, most = flags & KERNEL_BFLOAT16 ? 1.0 / 128 : 1e-5;
    for (int64_t k = 0; k < mp_array_elements(a); k++) greatest = fmax(greatest, fabs(expected[k]));
    for (int64_t k = 0; k < mp_array_elements(a); k++)
        if (!(fabs(kernel_get(a, k) - expected[k]) <= most * greatest))
            fail_msg("%s of %d x %d x %d, kernel %d stride %d dilation %d, flags %u: %s %d is %g, not %g", p->kind, p->size[0],
                     p->size[1], p->size[2], p->kernel[2], p->stride[2], p->dilation[2], flags, what, (int)k, kernel_get(a, k),
                     expected[k]);
}

static void follow(const pool *p, kernel_run *r, unsigned flags)
{
    const mp_array *x = &r->forward.in[0], *y = &r->forward.out[0], *dy = &r->backward.d_out[0], *dx = &r->backward.d_in[0];
    const bool is_max = strstr(p->kind, "Max"), is_average = strstr(p->kind, "Average");
    const int64_t area = (int64_t)p->size[0] * p->size[1] * p->size[2], n_taps = area + 1000;
    double *value = calloc((size_t)mp_array_elements(y) + 1, sizeof *value);
    double *gradient = calloc((size_t)mp_array_elements(x) + 1, sizeof *gradient);
    int64_t *places = calloc((size_t)n_taps, sizeof *places), stops = 1, count;
    int last[SPATIAL] = {1, 1, 1};
    kernel_forward(r);
    for (int d = 0; d < p->n; d++) last[SPATIAL - p->n + d] = (int)y->dims[2 + d];
    stops = (int64_t)last[0] * last[1] * last[2];
    for (int64_t e = 0; (flags & KERNEL_ADDS) && e < mp_array_elements(dx); e++) gradient[e] = kernel_get(dx, e);
    for (int64_t k = 0; k < mp_array_elements(y); k++) {
        const int out[] = {(int)(k % stops / last[2] / last[1]), (int)(k / last[2] % last[1]), (int)(k % last[2])};
        const int64_t n = places_of(p, out, places, &count), plane = k / stops * area;
        double sum = 0, g = kernel_get(dy, k);
        int64_t best = -1;
        for (int64_t t = 0; t < n; t++) {
            const double v = kernel_get(x, plane + places[t]);
            if (best < 0 || v > kernel_get(x, plane + best)) best = places[t];
            sum += is_average ? v : pow(fabs(v), p->p);
        }
        value[k] = is_max ? best < 0 ? 0 : kernel_get(x, plane + best) : is_average ? sum / (double)count : pow(sum, 1 / p->p);
        if (is_max && best >= 0) gradient[plane + best] += g;
        for (int64_t t = 0; !is_max && t < n; t++) {
            const double v = kernel_get(x, plane + places[t]);
            const double norm = kernel_get(y, k); /* the rounded value */
            gradient[plane + places[t]] += is_average ? g / (double)count : g * copysign(pow(fabs(v) / norm, p->p - 1), v);
        }
    }
    kernel_backward(r);
    compare(p, y, value, "value", flags);
    compare(p, dx, gradient, "gradient", flags);
    free(value);
    free(gradient);
    free(places);
}

static void list(char *to, size_t room, const char *name, const int *values, int n)
{
    size_t used = strlen(to);
    used += (size_t)snprintf(to + used, room - used, "%s%s=[", used ? " " : "", name);
    for (int d = 0; d < n; d++) used += (size_t)snprintf(to + used, room - used, d ? ",%d" : "%d", values[d]);
    snprintf(to + used, room - used, "]");
}

/* Checks both layouts and types, with gradients overwritten and added. */
static void check(const pool *p)
{
    char inputs[200] = "", attributes[400] = "";
    const int skip = SPATIAL - p->n;
    const bool is_global = strstr(p->kind, "Global");
    int dims[2 + SPATIAL] = {p->samples, p->channels}, pads[2 * SPATIAL];
    for (int d = 0; d < p->n; d++) {
        dims[2 + d] = p->size[skip + d];
        pads[d] = p->begin[skip + d];
        pads[p->n + d] = p->end[skip + d];
    }
    list(inputs, sizeof inputs, "", dims, 2 + p->n);
    memmove(inputs + 7, inputs + 1, strlen(inputs));
    memcpy(inputs, "float32", 7);
    if (!is_global) {
        list(attributes, sizeof attributes, "kernel_shape", p->kernel + skip, p->n);
        list(attributes, sizeof attributes, "strides", p->stride + skip, p->n);
        list(attributes, sizeof attributes, "dilations", p->dilation + skip, p->n);
        list(attributes, sizeof attributes, "pads", pads, 2 * p->n);
        const size_t used = strlen(attributes);
        snprintf(attributes + used, sizeof attributes - used, "%s%s", p->ceil_mode ? " ceil_mode=1" : "",
                 p->counts_pads ? " count_include_pad=1" : "");
    }
    if (strstr(p->kind, "Lp")) snprintf(attributes + strlen(attributes), 40, "%sp=%d", is_global ? "" : " ", (int)p->p);
    const kernel_case c = {p->kind, strstr(p->kind, "Average") ? 19 : is_global ? 2 : 18, inputs, attributes, 1, 0, 0, 1, 0, 0};
    for (unsigned flags = 0; flags < 8; flags++) {
        const unsigned all = (flags & 1 ? KERNEL_CHANNELS_LAST : 0) | (flags & 2 ? KERNEL_BFLOAT16 : 0) |
                             (flags & 4 ? KERNEL_ADDS : 0) | KERNEL_BACKWARD;
        kernel_use(twin);
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, all);
        for (int64_t e = 0; e < mp_array_elements(&r->backward.d_in[0]); e++)
            kernel_set(&r->backward.d_in[0], e, (double)(e % 5) - 2);
        follow(p, r, all);
        kernel_end(r);
        kernel_use(&mp_cpu);
    }
}

TEST(windows_follow_their_definition)
{
    static const int sizes[][2] = {{7, 9}, {10, 6}, {1, 5}, {13, 13}};
    static const char *const kinds[] = {"MaxPool", "AveragePool", "LpPool"};
    uint32_t draw = 1;
    for (int k = 0; k < 240; k++) {
        pool p = {kinds[k % 3], 2,   2,         k % 2 ? 16 : 3,          {1, 1, 1},    {1, 1, 1}, {1, 1, 1}, {1, 1, 1},
                  {0},          {0}, k / 3 % 2, k % 3 == 1 && k / 6 % 2, k % 4 ? 2 : 3};
        for (int d = 1; d < SPATIAL; d++) {
            int drawn[5];
            for (int i = 0; i < 5; i++) drawn[i] = (int)((draw = draw * 1664525u + 1013904223u) >> 16);
            p.size[d] = sizes[k % 4][d - 1];
            p.kernel[d] = 1 + drawn[0] % 4;
            p.stride[d] = 1 + drawn[1] % 4;
            p.dilation[d] = 1 + drawn[2] % 3;
            const int span = (p.kernel[d] - 1) * p.dilation[d] + 1;
            p.begin[d] = p.kernel[d] > 1 ? drawn[3] % p.kernel[d] : 0;
            p.end[d] = p.kernel[d] > 1 ? drawn[4] % p.kernel[d] : 0;
            if (p.size[d] + p.begin[d] + p.end[d] < span) p.dilation[d] = p.kernel[d] = 1, p.begin[d] = p.end[d] = 0;
        }
        check(&p);
    }
    const pool volume = {"MaxPool", 3, 2, 8, {5, 4, 7}, {2, 3, 2}, {2, 1, 3}, {1, 2, 1}, {1, 1, 0}, {0, 1, 1}, 1, 0, 0};
    check(&volume);
    const pool line = {"AveragePool", 1, 3, 8, {1, 1, 33}, {1, 1, 5}, {1, 1, 2}, {1, 1, 1}, {0, 0, 2}, {0, 0, 2}, 0, 1, 0};
    check(&line);
    /* taps whose number exceeds a byte */
    const pool wide = {"MaxPool", 2, 1, 8, {1, 19, 20}, {1, 17, 16}, {1, 2, 1}, {1, 1, 1}, {0}, {0, 0, 3}, 1, 0, 0};
    check(&wide);
}

TEST(a_global_window_is_everything)
{
    static const char *const kinds[] = {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"};
    for (int k = 0; k < 3; k++)
        for (int channels = 1; channels <= 24; channels += channels == 1 ? 4 : 19) {
            pool p = {kinds[k], 2, 3, channels, {1, 7, 9}, {1, 7, 9}, {1, 1, 1}, {1, 1, 1}, {0}, {0}, 0, 0, 2};
            check(&p);
            p.size[1] = p.size[2] = p.kernel[1] = p.kernel[2] = 1;
            check(&p);
        }
}

int main(void)
{
    return test_run(twin_load, NULL);
}

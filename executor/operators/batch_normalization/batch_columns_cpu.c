/* batch_columns_cpu.c - x (row, channel): stretches of rows are summed up per channel, then joined in their order. */
#include "executor/operators/batch_normalization/batch_columns_cpu.h"

#include <math.h>
#include <string.h>

#include "executor/operators/elementwise/elementwise_cpu.h"

enum { STRETCHES = 64, LEAST_ROWS = 256, FLUSH = 64 };

bool mp_batch_columns_of(const mp_array *x, mp_batch_columns *out)
{
    if (x->rank < 2 || x->packed) return false;
    mp_array like = x->rank > 2 ? mp_array_channels_last(x->dtype, x->rank, x->dims) : mp_array_plain(x->dtype, 2, x->dims);
    if (!mp_array_same_layout(x, &like)) return false;
    mp_batch_columns c = {.channels = x->dims[1]};
    c.rows = c.channels ? mp_array_elements(x) / c.channels : 0;
    c.rows_per_stretch = (c.rows + STRETCHES - 1) / STRETCHES;
    if (c.rows_per_stretch < LEAST_ROWS) c.rows_per_stretch = LEAST_ROWS;
    c.n_stretches = (c.rows + c.rows_per_stretch - 1) / c.rows_per_stretch;
    *out = c;
    return c.channels > 0 && c.rows > 0;
}

/* Per stretch two double sums and two float ones per channel; then four rows of channel factors. */
static int64_t stretch_bytes(const mp_batch_columns *c)
{
    return c->channels * 24;
}

int64_t mp_batch_columns_workspace_bytes(const mp_batch_columns *c)
{
    return c->n_stretches * stretch_bytes(c) + 4 * c->channels * (int64_t)sizeof(float) +
           2 * c->channels * (int64_t)sizeof(double);
}

/* Down the columns: sums of u and of u (v - shift). Where u is NULL it is v - shift itself. */
typedef struct pair_job {
    const mp_batch_columns *c;
    const void *u, *v;
    mp_dtype dtype;
    const float *shift;
    char *workspace;
} pair_job;

MP_VECTOR static void add_pair(const float *u, const float *v, const float *shift, int64_t n, float *first, float *second)
{
    for (int64_t k = 0; k < n; k++) {
        first[k] += u[k];
        second[k] += u[k] * (v[k] - shift[k]);
    }
}

MP_VECTOR static void add_squares(const float *v, const float *shift, int64_t n, float *first, float *second)
{
    for (int64_t k = 0; k < n; k++) {
        float d = v[k] - shift[k];
        first[k] += d;
        second[k] += d * d;
    }
}

MP_VECTOR static void flush(float *first, int64_t n, double *total)
{
    for (int64_t k = 0; k < n; k++) {
        total[k] += (double)first[k];
        first[k] = 0;
    }
}

static void pair_stretch(void *data, int64_t s)
{
    const pair_job *j = data;
    const mp_batch_columns *c = j->c;
    int64_t n = c->channels;
    float u_room[MP_BLOCK], v_room[MP_BLOCK];
    double *totals = (double *)(j->workspace + s * stretch_bytes(c));
    float *sums = (float *)(totals + 2 * n);
    memset(totals, 0, (size_t)stretch_bytes(c));
    int64_t last = (s + 1) * c->rows_per_stretch < c->rows ? (s + 1) * c->rows_per_stretch : c->rows;
    for (int64_t r = s * c->rows_per_stretch; r < last; r++) {
        for (int64_t k = 0; k < n; k += MP_BLOCK) {
            int64_t m = n - k < MP_BLOCK ? n - k : MP_BLOCK;
            const float *v = mp_floats(j->v, j->dtype, r * n + k, m, v_room);
            if (j->u)
                add_pair(mp_floats(j->u, j->dtype, r * n + k, m, u_room), v, j->shift + k, m, sums + k, sums + n + k);
            else
                add_squares(v, j->shift + k, m, sums + k, sums + n + k);
        }
        if (r % FLUSH == FLUSH - 1 || r == last - 1) flush(sums, 2 * n, totals);
    }
}

/* The sums of all stretches, in order, in the first one's place. */
static double *pair_sums(const mp_batch_columns *c, const void *u, const void *v, mp_dtype dtype, const float *shift,
                         void *workspace)
{
    pair_job j = {c, u, v, dtype, shift, workspace};
    mp_parallel(c->n_stretches, c->rows_per_stretch * c->channels, pair_stretch, &j);
    double *total = workspace;
    for (int64_t s = 1; s < c->n_stretches; s++) {
        const double *more = (const double *)((const char *)workspace + s * stretch_bytes(c));
        for (int64_t k = 0; k < 2 * c->channels; k++) total[k] += more[k];
    }
    return total;
}

static float *factors(const mp_batch_columns *c, void *workspace)
{
    return (float *)((char *)workspace + c->n_stretches * stretch_bytes(c));
}

static float parameter(const mp_array *p, int64_t k, float otherwise)
{
    float room;
    return p && p->data ? *mp_floats(p->data, p->dtype, k, 1, &room) : otherwise;
}

void mp_batch_columns_measure(const mp_batch_columns *c, const mp_array *x, double epsilon, float *mean, float *rstd,
                              void *workspace)
{
    float *shift = factors(c, workspace);
    /* the first row is near enough to the mean for sums of squares to keep their digits */
    for (int64_t k = 0; k < c->channels; k++) shift[k] = *mp_floats(x->data, x->dtype, k, 1, &shift[k]);
    const double *sums = pair_sums(c, NULL, x->data, x->dtype, shift, workspace);
    for (int64_t k = 0; k < c->channels; k++) {
        double d = sums[k] / (double)c->rows, variance = sums[c->channels + k] / (double)c->rows - d * d;
        mean[k] = (float)((double)shift[k] + d);
        rstd[k] = (float)(1 / sqrt((variance > 0 ? variance : 0) + epsilon));
    }
}

/* A row of factors as an operand that broadcasts over everything but channels. */
static mp_array row_of(const mp_array *x, float *values)
{
    int64_t dims[MP_ARRAY_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = d == 1 ? x->dims[1] : 1;
    mp_array a = mp_array_plain(MP_DTYPE_FLOAT, x->rank, dims);
    a.data = values;
    return a;
}

MP_VECTOR static void affine(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *x = in[0], *a = in[1], *b = in[2];
    (void)p;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = x[k] * a[k] + b[k];
}

MP_VECTOR static void affine_of_two(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *dy = in[0], *v = in[1], *a = in[2], *b = in[3], *d = in[4];
    (void)p;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = dy[k] * a[k] + (v[k] * b[k] + d[k]);
}

void mp_batch_columns_apply(const mp_batch_columns *c, const mp_array *x, const mp_array *scale, const mp_array *shift,
                            const float *mean, const float *rstd, const mp_array *y, void *workspace)
{
    float *a = factors(c, workspace), *b = a + c->channels;
    for (int64_t k = 0; k < c->channels; k++) {
        a[k] = parameter(scale, k, 1) * rstd[k];
        b[k] = parameter(shift, k, 0) - mean[k] * a[k];
    }
    mp_array a_row = row_of(x, a), b_row = row_of(x, b);
    const mp_array *in[] = {x, &a_row, &b_row};
    mp_elementwise(affine, NULL, in, 3, y);
}

void mp_batch_columns_backward(const mp_batch_columns *c, const mp_array *v, bool from_output, const mp_array *dy,
                               const mp_array *scale, const mp_array *shift, const float *mean, const float *rstd,
                               const mp_array *dx, float *d_scale, float *d_shift, void *workspace)
{
    int64_t n = c->channels;
    float *a = factors(c, workspace), *b = a + n, *d = b + n, *center = d + n;
    for (int64_t k = 0; k < n; k++) center[k] = from_output ? parameter(shift, k, 0) : mean[k];
    const double *sums = pair_sums(c, dy->data, v->data, v->dtype, center, workspace);
    for (int64_t k = 0; k < n; k++) {
        float gamma = parameter(scale, k, 1);
        /* v - center is xhat / unit */
        double unit = from_output ? 1 / (double)gamma : (double)rstd[k], products = sums[n + k] * unit, m = (double)c->rows;
        a[k] = gamma * rstd[k];
        b[k] = (float)(-(double)a[k] * products / m * unit);
        d[k] = (float)(-(double)a[k] * sums[k] / m - (double)b[k] * (double)center[k]);
        if (d_scale) d_scale[k] = (float)products;
        if (d_shift) d_shift[k] = (float)sums[k];
    }
    if (!dx) return;
    mp_array a_row = row_of(v, a), b_row = row_of(v, b), d_row = row_of(v, d);
    const mp_array *in[] = {dy, v, &a_row, &b_row, &d_row};
    mp_elementwise(affine_of_two, NULL, in, 5, dx);
}

/* normalize_cpu.c - computes statistics, results and gradients of rows, in pieces of at most MP_BLOCK elements. */
#include "executor/operators/normalizations/normalize_cpu.h"

#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/normalizations/softmaxes_cpu.h"

enum { STRETCHES = 32 };

static int64_t n_stretches(const mp_normalization *r)
{
    return r->n_rows < STRETCHES ? r->n_rows : STRETCHES;
}

int64_t mp_normalize_workspace_bytes(const mp_normalization *r)
{
    return 2 * n_stretches(r) * r->n_parameters * (int64_t)sizeof(double);
}

static void locate(const int64_t *dims, const int64_t *at, const int64_t *parameter, int n, int64_t k, int64_t *x, int64_t *p)
{
    for (int d = n - 1; d >= 0; d--) {
        *x += k % dims[d] * at[d];
        *p += k % dims[d] * parameter[d];
        k /= dims[d];
    }
}

/* A piece of a row: n elements at offset x with stride `stride`. Their scales and shifts are at offset p with stride `step`. */
typedef struct piece {
    int64_t x, p, n, stride, step;
} piece;

/* n_pieces returns the number of pieces of a row. A piece is a block of at most MP_BLOCK elements of the row's innermost
 * dimension. piece_of returns piece k of the row that begins at offset x, with its scales and shifts at offset p. */
static int64_t n_pieces(const mp_normalization *r)
{
    return r->n_runs * mp_block_count(r->run);
}
static piece piece_of(const mp_normalization *r, int64_t x, int64_t p, int64_t k)
{
    int64_t per_run = mp_block_count(r->run), part = k % per_run;
    int inner = r->n_inner - 1;
    piece out = {x, p, mp_block_size(r->run, part), r->inner_at[inner], r->inner_parameter[inner]};
    locate(r->inner, r->inner_at, r->inner_parameter, inner, k / per_run, &out.x, &out.p);
    out.x += part * MP_BLOCK * out.stride;
    out.p += part * MP_BLOCK * out.step;
    return out;
}

/* Returns the sum of (x - mean)^2, computed as sixteen partial sums. */
MP_VECTOR static double sum_of_squares(const float *x, int64_t n, float mean)
{
    float lanes[16] = {0};
    double total = 0;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) lanes[l] += (x[k + l] - mean) * (x[k + l] - mean);
    for (; k < n; k++) lanes[k % 16] += (x[k] - mean) * (x[k] - mean);
    for (int l = 0; l < 16; l++) total += (double)lanes[l];
    return total;
}

MP_VECTOR static void normalize(const float *x, int64_t n, float mean, float rstd, const float *scale, const float *shift,
                                float *y)
{
    if (scale && shift) {
        MP_INDEPENDENT
        for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean) * rstd * scale[k] + shift[k];
    } else if (scale) {
        MP_INDEPENDENT
        for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean) * rstd * scale[k];
    } else {
        MP_INDEPENDENT
        for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean) * rstd;
    }
}

MP_VECTOR static void restore(const float *y, int64_t n, const float *scale, const float *shift, float *xhat)
{
    for (int64_t k = 0; k < n; k++) xhat[k] = (y[k] - shift[k]) / scale[k];
}

MP_VECTOR static void times(const float *x, const float *y, int64_t n, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = x[k] * y[k];
}

MP_VECTOR static void combine(const float *g, const float *xhat, int64_t n, float rstd, float mean_g, float mean_product,
                              float *dx)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) dx[k] = rstd * (g[k] - mean_g - xhat[k] * mean_product);
}

typedef struct job {
    const mp_normalization *r;
    const mp_normalize_data *d;
    bool given; /* true: the caller provides mean and rstd of each row; false: the function that processes the rows computes
                   them */
} job;

static void measure(const mp_normalization *r, const mp_normalize_data *d, int64_t x, float *mean, float *rstd)
{
    float room[MP_BLOCK];
    double total = 0, squares = 0;
    for (int64_t k = 0; r->centered && k < n_pieces(r); k++) {
        piece q = piece_of(r, x, 0, k);
        total += mp_floats_sum(mp_floats_apart(d->x, d->dtype, q.x, q.stride, q.n, room), q.n);
    }
    *mean = (float)(total / (double)r->length);
    for (int64_t k = 0; k < n_pieces(r); k++) {
        piece q = piece_of(r, x, 0, k);
        squares += sum_of_squares(mp_floats_apart(d->x, d->dtype, q.x, q.stride, q.n, room), q.n, *mean);
    }
    *rstd = (float)(1 / sqrt(squares / (double)r->length + r->epsilon));
}

static void measure_row(void *data, int64_t row)
{
    const job *j = data;
    float mean;
    int64_t x = 0, p = 0;
    locate(j->r->outer, j->r->outer_at, j->r->outer_parameter, j->r->n_outer, row, &x, &p);
    measure(j->r, j->d, x, &mean, &j->d->rstd[row]);
    if (j->d->mean) j->d->mean[row] = mean;
}

void mp_normalize_measure(const mp_normalization *rows, const mp_normalize_data *data)
{
    job j = {rows, data, false};
    mp_parallel(rows->n_rows, rows->length, measure_row, &j);
}

static void forward_row(void *data, int64_t row)
{
    const job *j = data;
    const mp_normalization *r = j->r;
    const mp_normalize_data *d = j->d;
    float x_room[MP_BLOCK], scale_room[MP_BLOCK], shift_room[MP_BLOCK], y_room[MP_BLOCK], mean = 0, rstd;
    int64_t x = 0, p = 0;
    locate(r->outer, r->outer_at, r->outer_parameter, r->n_outer, row, &x, &p);
    if (j->given) {
        mean = d->mean ? d->mean[row] : 0;
        rstd = d->rstd[row];
    } else {
        measure(r, d, x, &mean, &rstd);
        if (d->mean) d->mean[row] = mean;
        if (d->rstd) d->rstd[row] = rstd;
    }
    for (int64_t k = 0; k < n_pieces(r); k++) {
        piece q = piece_of(r, x, p, k);
        const float *scale = d->scale ? mp_floats_apart(d->scale, d->parameter_dtype, q.p, q.step, q.n, scale_room) : NULL;
        const float *shift = d->shift ? mp_floats_apart(d->shift, d->parameter_dtype, q.p, q.step, q.n, shift_room) : NULL;
        float *y = q.stride == 1 ? mp_floats_room(d->out, d->dtype, q.x, y_room) : y_room;
        normalize(mp_floats_apart(d->x, d->dtype, q.x, q.stride, q.n, x_room), q.n, mean, rstd, scale, shift, y);
        mp_floats_put_apart(d->out, d->dtype, q.x, q.stride, q.n, y);
    }
}

void mp_normalize_forward(const mp_normalization *rows, const mp_normalize_data *data)
{
    job j = {rows, data, false};
    mp_parallel(rows->n_rows, rows->length, forward_row, &j);
}

void mp_normalize_apply(const mp_normalization *rows, const mp_normalize_data *data)
{
    job j = {rows, data, true};
    mp_parallel(rows->n_rows, rows->length, forward_row, &j);
}

/* Returns the normalized values of a piece, computed from the input x, or, if x is NULL, from the output y. */
static const float *normalized(const job *j, const piece *q, float mean, float rstd, const float *scale, float *room,
                               float *spare)
{
    const mp_normalize_data *d = j->d;
    float shift_room[MP_BLOCK];
    if (d->x) {
        normalize(mp_floats_apart(d->x, d->dtype, q->x, q->stride, q->n, spare), q->n, mean, rstd, NULL, NULL, room);
        return room;
    }
    const float *shift = d->shift ? mp_floats_apart(d->shift, d->parameter_dtype, q->p, q->step, q->n, shift_room) : NULL;
    if (!shift) memset(shift_room, 0, sizeof shift_room);
    restore(mp_floats_apart(d->y, d->dtype, q->x, q->stride, q->n, spare), q->n, scale, shift ? shift : shift_room, room);
    return room;
}

static void backward_row(const job *j, int64_t row, double *d_scale, double *d_shift)
{
    const mp_normalization *r = j->r;
    const mp_normalize_data *d = j->d;
    float xhat[MP_BLOCK], spare[MP_BLOCK], scale_room[MP_BLOCK], dy_room[MP_BLOCK], g_room[MP_BLOCK], mean = 0,
                                                                                                      rstd = d->rstd[row];
    double total = 0, products = 0;
    int64_t x = 0, p = 0;
    if (r->centered && d->mean) mean = d->mean[row];
    locate(r->outer, r->outer_at, r->outer_parameter, r->n_outer, row, &x, &p);
    for (int pass = 0; pass < 2; pass++) {
        float mean_g = r->centered ? (float)(total / (double)r->length) : 0,
              mean_product = (float)(products / (double)r->length);
        for (int64_t k = 0; k < n_pieces(r); k++) {
            piece q = piece_of(r, x, p, k);
            const float *scale = d->scale ? mp_floats_apart(d->scale, d->parameter_dtype, q.p, q.step, q.n, scale_room) : NULL;
            const float *dy = mp_floats_apart(d->dy, d->dtype, q.x, q.stride, q.n, dy_room), *g = dy;
            normalized(j, &q, mean, rstd, scale, xhat, spare);
            if (scale) times(dy, scale, q.n, g_room);
            if (scale) g = g_room;
            if (!pass) {
                total += mp_floats_sum(g, q.n);
                products += mp_row_dot(g, xhat, q.n);
            }
            if (!pass && r->n_parameters && !q.step) {
                d_shift[q.p] += mp_floats_sum(dy, q.n);
                d_scale[q.p] += mp_row_dot(dy, xhat, q.n);
            } else if (!pass && r->n_parameters) {
                for (int64_t e = 0; e < q.n; e++) {
                    d_shift[q.p + e * q.step] += (double)dy[e];
                    d_scale[q.p + e * q.step] += (double)(dy[e] * xhat[e]);
                }
            }
            if (pass && d->out) {
                float *dx = q.stride == 1 ? mp_floats_room(d->out, d->dtype, q.x, spare) : spare;
                combine(g, xhat, q.n, rstd, mean_g, mean_product, dx);
                mp_floats_put_apart(d->out, d->dtype, q.x, q.stride, q.n, dx);
            }
        }
    }
}

/* Computes the gradients for a stretch (range) of rows. Each stretch has separate partial sums for the gradients of scale
 * and shift. */
static void backward_stretch(void *data, int64_t stretch)
{
    const job *j = data;
    const mp_normalization *r = j->r;
    double *sums = j->d->partial + 2 * stretch * r->n_parameters;
    int64_t per = (r->n_rows + n_stretches(r) - 1) / n_stretches(r);
    if (r->n_parameters) memset(sums, 0, 2 * (size_t)r->n_parameters * sizeof *sums);
    for (int64_t row = stretch * per; row < (stretch + 1) * per && row < r->n_rows; row++)
        backward_row(j, row, sums, sums + r->n_parameters);
}

static void store_parameter(void *to, mp_dtype dtype, int64_t k, double value, bool add)
{
    mp_store_float(to, dtype, k, (float)value + (add ? mp_load_float(to, dtype, k) : 0));
}

static void parameter_sums(void *data, int64_t k)
{
    const job *j = data;
    const mp_normalization *r = j->r;
    double scale = 0, shift = 0;
    for (int64_t s = 0; s < n_stretches(r); s++) {
        scale += j->d->partial[2 * s * r->n_parameters + k];
        shift += j->d->partial[(2 * s + 1) * r->n_parameters + k];
    }
    if (j->d->d_scale) store_parameter(j->d->d_scale, j->d->parameter_dtype, k, scale, j->d->add_scale);
    if (j->d->d_shift) store_parameter(j->d->d_shift, j->d->parameter_dtype, k, shift, j->d->add_shift);
}

void mp_normalize_backward(const mp_normalization *rows, const mp_normalize_data *data)
{
    job j = {rows, data, true};
    mp_parallel(n_stretches(rows), rows->n_rows / (n_stretches(rows) ? n_stretches(rows) : 1) * rows->length, backward_stretch,
                &j);
    if (rows->n_parameters && (data->d_scale || data->d_shift))
        mp_parallel(rows->n_parameters, n_stretches(rows), parameter_sums, &j);
}

/* ---- calls of the operators in MP_NORMALIZATIONS. */

typedef struct state {
    mp_normalization rows;
    bool centered;
    /* workspace offset of the statistics, if forward does not save them for backward (as extra outputs) */
    int64_t statistics_at;
} state;

/* Return the addresses of mean and rstd: extra outputs 0 and 1 (without centering, rstd is extra output 0). If forward saves no
 * extra outputs, they are in the workspace. */
static float *mean_of(const state *s, const mp_operands *x)
{
    if (!s->centered) return NULL;
    return x->extra[0].data ? x->extra[0].data : (float *)((char *)x->workspace + s->statistics_at);
}
static float *rstd_of(const state *s, const mp_operands *x)
{
    const mp_array *kept = &x->extra[s->centered ? 1 : 0];
    return kept->data ? kept->data : (float *)((char *)x->workspace + s->statistics_at) + s->rows.n_rows;
}

static bool has(const mp_operands *x, int i)
{
    return i < x->n_in && x->in[i].dtype != MP_DTYPE_UNDEFINED;
}

static mp_normalize_data data_of(const state *s, const mp_operands *x)
{
    return (mp_normalize_data){.dtype = x->in[0].dtype,
                               .parameter_dtype = has(x, 1) ? x->in[1].dtype : MP_DTYPE_FLOAT,
                               .x = x->in[0].data,
                               .scale = has(x, 1) ? x->in[1].data : NULL,
                               .mean = mean_of(s, x),
                               .rstd = rstd_of(s, x)};
}

static void give(const mp_operands *x, int o, const float *values, int64_t n)
{
    if (o < x->n_out && x->out[o].data && values) mp_floats_put_apart(x->out[o].data, x->out[o].dtype, 0, 1, n, values);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_normalize_data d = data_of(s, x);
    (void)err;
    d.shift = has(x, 2) ? x->in[2].data : NULL;
    d.out = x->out[0].data;
    mp_normalize_forward(&s->rows, &d);
    give(x, s->centered ? 1 : x->n_out - 1, s->centered ? d.mean : x->n_out > 1 ? d.rstd : NULL, s->rows.n_rows);
    if (s->centered) give(x, 2, d.rstd, s->rows.n_rows);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_normalize_data d = data_of(s, x);
    (void)err;
    bool from_output = x->alternative == 1;
    /* if forward has saved no statistics, backward computes them again */
    if (!x->extra[0].data) mp_normalize_measure(&s->rows, &d);
    if (from_output) {
        d.x = NULL;
        d.y = x->out[0].data;
        d.shift = has(x, 2) ? x->in[2].data : NULL;
    }
    d.dy = x->d_out[0].data;
    d.out = x->d_in[0].dtype ? x->d_in[0].data : NULL;
    d.d_scale = x->n_in > 1 && x->d_in[1].dtype ? x->d_in[1].data : NULL;
    d.d_shift = x->n_in > 2 && x->d_in[2].dtype ? x->d_in[2].data : NULL;
    d.add_scale = x->adds & MP_BIT(1);
    d.add_shift = x->adds & MP_BIT(2);
    d.partial = x->workspace;
    mp_normalize_backward(&s->rows, &d);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    MP_CHECK(mp_normalization_read(x, &s->rows, err));
    s->centered = s->rows.centered;
    if (x->is_backward) call->workspace_bytes = mp_normalize_workspace_bytes(&s->rows);
    s->statistics_at = (call->workspace_bytes + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->rows.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

#define ROW(kind, domain, cut, centered, epsilon) {kind, domain, prepare, prepare},
const mp_kernel mp_cpu_normalizations[] = {MP_NORMALIZATIONS(ROW){0}};

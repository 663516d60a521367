/* pools_cpu.c - pools on the CPU: maximum, average and Lp norm of sliding windows, or of the whole input (global).
 *
 * A work item is a sample and a block of channels. Windows of different items do not overlap, so backward adds without races
 * and in a fixed order. If channels are innermost, a block is a vector of channels; otherwise it is one channel. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/pooling/sliding.h"

enum { DIMS = MP_ARRAY_RANK, VECTOR = 64 };

typedef struct state {
    mp_pooling pool;
    int n;                       /* number of spatial dimensions */
    int64_t in[DIMS], out[DIMS]; /* spatial sizes of input and output */
    int64_t n_out;
    int64_t channels, block, n_blocks; /* block: number of contiguous channels per item */
} state;

typedef struct job {
    const state *s;
    const mp_operands *x;
    /* the arrays that are read and written: input and output of the pool; in backward, their gradients */
    const mp_array *from, *to;
    bool add;
} job;

static void odometer(const int64_t *dims, int n, int64_t k, int64_t *index)
{
    for (int d = n - 1; d >= 0; d--) {
        index[d] = k % dims[d];
        k /= dims[d];
    }
}

/* Returns the offset of the input element that a tap (an element of the window) reads for an output position; -1: the tap is
 * outside of the input. Sets *inside to false if the tap is also beyond the padding at the end. */
static int64_t tap_at(const state *s, const mp_array *a, const int64_t *position, const int64_t *tap, bool *inside)
{
    int64_t at = 0;
    bool data = true;
    *inside = true;
    for (int d = 0; d < s->n; d++) {
        int64_t i = position[d] * s->pool.window.stride[d] - s->pool.window.begin[d] + tap[d] * s->pool.window.dilation[d];
        if (i < 0 || i >= s->in[d]) data = false;
        if (i >= s->in[d] + s->pool.window.end[d]) *inside = false;
        at += i * a->strides[d + 2];
    }
    return data ? at : -1;
}

static int64_t output_at(const state *s, const mp_array *a, const int64_t *position)
{
    int64_t at = 0;
    for (int d = 0; d < s->n; d++) at += position[d] * a->strides[d + 2];
    return at;
}

static float *room_of(const mp_array *a, int64_t at, float *room)
{
    return mp_floats_room(a->data, a->dtype, at, room);
}

MP_VECTOR static void take_larger(const float *x, int64_t n, int32_t tap, float *best, int32_t *where)
{
    for (int64_t k = 0; k < n; k++) {
        bool larger = x[k] > best[k] || where[k] < 0 || x[k] != x[k];
        best[k] = larger ? x[k] : best[k];
        where[k] = larger ? tap : where[k];
    }
}

MP_VECTOR static void add_to(const float *x, int64_t n, float factor, float *sum)
{
    for (int64_t k = 0; k < n; k++) sum[k] += factor * x[k];
}

static void add_powers(const float *x, int64_t n, double p, float *sum)
{
    for (int64_t k = 0; k < n; k++) sum[k] += p == 2 ? x[k] * x[k] : p == 1 ? fabsf(x[k]) : powf(fabsf(x[k]), (float)p);
}

static void set_index(const state *s, const mp_operands *x, int64_t at, int64_t n, const int32_t *where)
{
    if (!x->extra[0].data) return;
    for (int64_t k = 0; k < n; k++) {
        if (s->pool.wide)
            ((int32_t *)x->extra[0].data)[at + k] = where[k];
        else
            ((uint8_t *)x->extra[0].data)[at + k] = (uint8_t)where[k];
    }
}

/* Writes output 1: the index of each maximum in the whole input, counted row- or column-major. */
static void give_index(const job *j, const int64_t *position, int64_t sample, int64_t channel, int64_t n, const int32_t *where)
{
    const state *s = j->s;
    const mp_array *y = j->x->n_out > 1 ? &j->x->out[1] : NULL;
    if (!y || !y->data) return;
    for (int64_t k = 0; k < n; k++) {
        int64_t tap[DIMS], flat = 0, size = 1;
        odometer(s->pool.window.kernel, s->n, where[k], tap);
        for (int d = 0; d < s->n; d++) {
            int e = s->pool.backwards ? d : s->n - 1 - d;
            flat +=
                (position[e] * s->pool.window.stride[e] - s->pool.window.begin[e] + tap[e] * s->pool.window.dilation[e]) * size;
            size *= s->in[e];
        }
        ((int64_t *)y->data)[sample * y->strides[0] + (channel + k) * y->strides[1] + output_at(s, y, position)] =
            (sample * s->channels + channel + k) * size + flat;
    }
}

static void forward_piece(void *data, int64_t piece)
{
    const job *j = data;
    const state *s = j->s;
    const mp_array *x = j->from, *y = j->to;
    int64_t sample = piece / s->n_blocks, channel = piece % s->n_blocks * s->block, position[DIMS], tap[DIMS];
    int64_t n = s->channels - channel < s->block ? s->channels - channel : s->block;
    int64_t x_at = sample * x->strides[0] + channel * x->strides[1], y_at = sample * y->strides[0] + channel * y->strides[1];
    float x_room[VECTOR], y_room[VECTOR], best[VECTOR];
    int32_t where[VECTOR];
    for (int64_t o = 0; o < s->n_out; o++) {
        int64_t count = 0;
        odometer(s->out, s->n, o, position);
        memset(best, 0, sizeof best);
        memset(where, -1, sizeof where);
        for (int64_t t = 0; t < s->pool.n_taps; t++) {
            bool inside;
            odometer(s->pool.window.kernel, s->n, t, tap);
            int64_t at = tap_at(s, x, position, tap, &inside);
            if (at >= 0 || (s->pool.counts_pads && inside)) count++;
            if (at < 0) continue;
            const float *v = mp_floats(x->data, x->dtype, x_at + at, n, x_room);
            if (s->pool.rule == MP_POOLING_MAXIMUM)
                take_larger(v, n, (int32_t)t, best, where);
            else if (s->pool.rule == MP_POOLING_AVERAGE)
                add_to(v, n, 1, best);
            else
                add_powers(v, n, s->pool.p, best);
        }
        int64_t to = y_at + output_at(s, y, position);
        float *out = room_of(y, to, y_room);
        for (int64_t k = 0; k < n; k++)
            out[k] = s->pool.rule == MP_POOLING_MAXIMUM   ? best[k]
                     : s->pool.rule == MP_POOLING_AVERAGE ? best[k] / (float)(count ? count : 1)
                     : s->pool.p == 2                     ? sqrtf(best[k])
                                                          : powf(best[k], (float)(1 / s->pool.p));
        mp_floats_done(y->data, y->dtype, to, n, out);
        if (s->pool.rule == MP_POOLING_MAXIMUM) set_index(s, j->x, to, n, where);
        if (s->pool.rule == MP_POOLING_MAXIMUM) give_index(j, position, sample, channel, n, where);
    }
}

static void add_one(const mp_array *a, int64_t at, float value)
{
    mp_store_float(a->data, a->dtype, at, value + mp_load_float(a->data, a->dtype, at));
}

static void clear_piece(const state *s, const mp_array *dx, int64_t x_at, int64_t n)
{
    int64_t n_in = 1, position[DIMS];
    float zeros[VECTOR] = {0}, room[VECTOR];
    for (int d = 0; d < s->n; d++) n_in *= s->in[d];
    for (int64_t i = 0; i < n_in; i++) {
        odometer(s->in, s->n, i, position);
        int64_t at = x_at + output_at(s, dx, position);
        memcpy(room_of(dx, at, room), zeros, (size_t)n * sizeof *zeros);
        mp_floats_done(dx->data, dx->dtype, at, n, zeros);
    }
}

/* Backward of a maximum: adds the gradient of an output to the input element that was the maximum. */
static void scatter(const job *j, const int64_t *position, int64_t x_at, int64_t y_at, int64_t n, const float *dy)
{
    const state *s = j->s;
    int64_t tap[DIMS];
    for (int64_t k = 0; k < n; k++) {
        bool inside;
        int64_t t =
            s->pool.wide ? ((const int32_t *)j->x->extra[0].data)[y_at + k] : ((const uint8_t *)j->x->extra[0].data)[y_at + k];
        odometer(s->pool.window.kernel, s->n, t, tap);
        int64_t at = tap_at(s, j->from, position, tap, &inside);
        if (at >= 0) add_one(j->from, x_at + at + k * j->from->strides[1], dy[k]);
    }
}

/* Backward of an average or norm: adds to each element of the window its share of the output's gradient. */
static void spread(const job *j, const int64_t *position, int64_t x_at, int64_t y_at, int64_t n, const float *dy)
{
    const state *s = j->s;
    const mp_array *dx = j->from;
    int64_t tap[DIMS], count = 0;
    float room[VECTOR], x_room[VECTOR], y_room[VECTOR];
    bool inside;
    for (int64_t t = 0; t < s->pool.n_taps; t++) {
        odometer(s->pool.window.kernel, s->n, t, tap);
        if (tap_at(s, dx, position, tap, &inside) >= 0 || (s->pool.counts_pads && inside)) count++;
    }
    for (int64_t t = 0; t < s->pool.n_taps; t++) {
        odometer(s->pool.window.kernel, s->n, t, tap);
        int64_t at = tap_at(s, dx, position, tap, &inside);
        if (at < 0) continue;
        const float *old = mp_floats(dx->data, dx->dtype, x_at + at, n, room);
        float *sum = room_of(dx, x_at + at, room);
        if (sum != old) memcpy(sum, old, (size_t)n * sizeof *sum);
        if (s->pool.rule == MP_POOLING_AVERAGE) {
            add_to(dy, n, 1 / (float)count, sum);
        } else {
            const float *x = mp_floats(j->x->in[0].data, j->x->in[0].dtype, x_at + at, n, x_room);
            const float *y = mp_floats(j->x->out[0].data, j->x->out[0].dtype, y_at, n, y_room);
            for (int64_t k = 0; k < n; k++) {
                float sign = x[k] < 0 ? -1.0f : 1.0f;
                float slope = s->pool.p == 2 ? x[k] / y[k] : sign * powf(fabsf(x[k]) / y[k], (float)s->pool.p - 1);
                if (y[k] > 0 && x[k] != 0) sum[k] += dy[k] * slope;
            }
        }
        mp_floats_done(dx->data, dx->dtype, x_at + at, n, sum);
    }
}

static void backward_piece(void *data, int64_t piece)
{
    const job *j = data;
    const state *s = j->s;
    const mp_array *dx = j->from, *dy = j->to;
    int64_t sample = piece / s->n_blocks, channel = piece % s->n_blocks * s->block, position[DIMS];
    int64_t n = s->channels - channel < s->block ? s->channels - channel : s->block;
    int64_t x_at = sample * dx->strides[0] + channel * dx->strides[1],
            y_at = sample * dy->strides[0] + channel * dy->strides[1];
    float room[VECTOR];
    if (!j->add) clear_piece(s, dx, x_at, n);
    for (int64_t o = 0; o < s->n_out; o++) {
        odometer(s->out, s->n, o, position);
        int64_t at = y_at + output_at(s, dy, position);
        const float *g = mp_floats(dy->data, dy->dtype, at, n, room);
        if (s->pool.rule == MP_POOLING_MAXIMUM)
            scatter(j, position, x_at, at, n, g);
        else
            spread(j, position, x_at, at, n, g);
    }
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    job j = {.s = s, .x = x, .from = &x->in[0], .to = &x->out[0]};
    (void)err;
    int64_t pieces = x->in[0].dims[0] * s->n_blocks;
    if (x->is_backward) {
        j.from = &x->d_in[0];
        j.to = &x->d_out[0];
        j.add = x->adds & call->adds & MP_BIT(0);
    }
    mp_parallel(pieces, s->n_out * s->pool.n_taps * s->block, x->is_backward ? backward_piece : forward_piece, &j);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0], *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    MP_STATE(state, s, call, err);
    call->run = run;
    if (x->is_backward) call->adds = x->adds & MP_BIT(0);
    MP_CHECK(mp_pooling_read(x, &s->pool, err));
    s->n = a->rank - 2;
    s->n_out = 1;
    s->channels = a->dims[1];
    for (int d = 0; d < s->n; d++) {
        s->in[d] = a->dims[d + 2];
        s->out[d] = y->dims[d + 2];
        s->n_out *= s->out[d];
    }
    s->block = 1;
    if (a->strides[1] == 1 && y->strides[1] == 1) s->block = s->channels < VECTOR ? s->channels : VECTOR;
    s->n_blocks = s->block ? (s->channels + s->block - 1) / s->block : 0;
    return MP_OK;
}

#define ROW(kind, rule, is_global) {kind, "", prepare, prepare},
const mp_kernel mp_cpu_pools[] = {MP_POOLINGS(ROW){0}};

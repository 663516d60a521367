/* softmaxes_cpu.c - Softmax, SafeSoftmax, LogSoftmax and Hardmax on the CPU as loops over lines of scores, and the row
 * functions that losses and attention also use. */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/lines.h"
#include "executor/kernel/vector_math.h"
#include "executor/operators/normalizations/softmaxes_cpu.h"

typedef enum form { SOFTMAX, SAFE_SOFTMAX, LOG_SOFTMAX, HARDMAX } form;

typedef struct state {
    mp_lines lines;
    form form;
} state;

MP_VECTOR float mp_row_largest(const float *x, int64_t n)
{
    float lanes[16], best;
    int64_t k = 0;
    for (int l = 0; l < 16; l++) lanes[l] = x[0];
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) lanes[l] = x[k + l] > lanes[l] ? x[k + l] : lanes[l];
    for (; k < n; k++) lanes[0] = x[k] > lanes[0] ? x[k] : lanes[0];
    best = lanes[0];
    for (int l = 1; l < 16; l++) best = lanes[l] > best ? lanes[l] : best;
    return best;
}

MP_VECTOR double mp_row_exponentials(const float *x, int64_t n, float shift, float *out)
{
    float lanes[16] = {0};
    double total = 0;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) {
            float e = mp_exp_to_zero(x[k + l] - shift);
            out[k + l] = e;
            lanes[l] += e;
        }
    for (; k < n; k++) {
        out[k] = mp_exp_to_zero(x[k] - shift);
        lanes[k % 16] += out[k];
    }
    for (int l = 0; l < 16; l++) total += (double)lanes[l];
    return total;
}

MP_VECTOR void mp_row_scale(const float *x, int64_t n, float factor, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = x[k] * factor;
}

MP_VECTOR void mp_row_shift(const float *x, int64_t n, float shift, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = x[k] - shift;
}

void mp_log_sum_add(mp_log_sum *s, const float *x, int64_t n, float *room)
{
    float best = mp_row_largest(x, n), largest = best > s->largest ? best : s->largest;
    float shift = largest == -INFINITY
                      ? 0
                      : largest; /* if all scores are -infinity, the subtraction of the largest score would give NaN */
    s->sum = s->sum * exp((double)s->largest - (double)shift) + mp_row_exponentials(x, n, shift, room);
    s->largest = largest;
}

float mp_log_sum_value(const mp_log_sum *s)
{
    return s->largest + (float)log(s->sum);
}

static void log_softmax(const float *x, int64_t n, float *out)
{
    float room[MP_BLOCK];
    mp_log_sum s = mp_log_sum_none();
    for (int64_t k = 0; k < n; k += MP_BLOCK) mp_log_sum_add(&s, x + k, mp_block_size(n, k / MP_BLOCK), room);
    mp_row_shift(x, n, mp_log_sum_value(&s), out);
}

typedef struct job {
    const state *s;
    const mp_operands *x;
} job;

/* Returns the workspace of line k (the scores that are normalized together). It has three times as many floats as a line. Lines
 * k and k + MP_LINES_AT_ONCE share a workspace. */
static float *rooms(const job *j, int64_t k)
{
    return (float *)j->x->workspace + k % MP_LINES_AT_ONCE * 3 * j->s->lines.length;
}

static void forward_line(void *data, int64_t k)
{
    const job *j = data;
    const mp_lines *l = &j->s->lines;
    float *room = rooms(j, k), *out = room + l->length;
    const float *x = mp_line_read(l, &j->x->in[0], k, room);
    if (j->s->form == SOFTMAX || j->s->form == SAFE_SOFTMAX) {
        const float best = mp_row_largest(x, l->length);
        const bool is_closed = j->s->form == SAFE_SOFTMAX && best == -INFINITY;
        double total = mp_row_exponentials(x, l->length, is_closed ? 0 : best, out);
        mp_row_scale(out, l->length, is_closed ? 0 : (float)(1 / total), out);
    } else if (j->s->form == LOG_SOFTMAX) {
        log_softmax(x, l->length, out);
    } else {
        int64_t best = 0;
        for (int64_t e = 1; e < l->length; e++)
            if (x[e] > x[best]) best = e;
        memset(out, 0, (size_t)l->length * sizeof *out);
        out[best] = 1;
    }
    mp_line_write(l, &j->x->out[0], k, out);
}

MP_VECTOR double mp_row_dot(const float *x, const float *y, int64_t n)
{
    float lanes[16] = {0};
    double total = 0;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) lanes[l] += x[k + l] * y[k + l];
    for (; k < n; k++) lanes[k % 16] += x[k] * y[k];
    for (int l = 0; l < 16; l++) total += (double)lanes[l];
    return total;
}

MP_VECTOR static void softmax_gradient(const float *dy, const float *y, int64_t n, float sum, float *dx)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) dx[k] = y[k] * (dy[k] - sum);
}

MP_VECTOR static void log_softmax_gradient(const float *dy, const float *y, int64_t n, float sum, float *dx)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) dx[k] = dy[k] - mp_exp(y[k]) * sum;
}

static void backward_line(void *data, int64_t k)
{
    const job *j = data;
    const mp_lines *l = &j->s->lines;
    float *room = rooms(j, k), *y_room = room + l->length, *out = y_room + l->length;
    const float *dy = mp_line_read(l, &j->x->d_out[0], k, room), *y = mp_line_read(l, &j->x->out[0], k, y_room);
    if (j->s->form == SOFTMAX || j->s->form == SAFE_SOFTMAX) {
        softmax_gradient(dy, y, l->length, (float)mp_row_dot(dy, y, l->length), out);
    } else {
        double sum = 0;
        for (int64_t e = 0; e < l->length; e++) sum += (double)dy[e];
        log_softmax_gradient(dy, y, l->length, (float)sum, out);
    }
    mp_line_write(l, &j->x->d_in[0], k, out);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    job j = {call->state, x};
    (void)err;
    mp_lines_run(&j.s->lines, x->is_backward ? backward_line : forward_line, &j);
    return MP_OK;
}

static const char *const forms[] = {
    [SOFTMAX] = "Softmax", [SAFE_SOFTMAX] = "SafeSoftmax", [LOG_SOFTMAX] = "LogSoftmax", [HARDMAX] = "Hardmax"};

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0];
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(state, s, call, err);
    call->run = run;
    for (int k = SOFTMAX; k <= HARDMAX; k++)
        if (!strcmp(forms[k], x->op->op->name)) s->form = (form)k;
    s->lines = mp_softmax_lines(x);
    call->workspace_bytes = mp_lines_at_once(&s->lines) * 3 * s->lines.length * (int64_t)sizeof(float);
    return MP_OK;
}

const mp_kernel mp_cpu_softmaxes[] = {
    {"Softmax", "", prepare, prepare},
    {"SafeSoftmax", "memplan", prepare, prepare},
    {"LogSoftmax", "", prepare, prepare},
    {"Hardmax", "", prepare, NULL},
    {0},
};

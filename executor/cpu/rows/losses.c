/* losses.c - loss = sum over positions of -weight[target] log p[target], divided by the sum of weights (mean), or not (sum), or
 * each by itself (none). Positions are added up in their order, in double. */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise/elementwise.h"
#include "executor/cpu/rows/lines.h"
#include "executor/cpu/rows/softmaxes.h"
#include "executor/kernel/vector_math.h"
#include "executor/operators/rows/class_loss.h"

typedef struct state {
    mp_class_loss loss;
    int64_t lines_at; /* rooms of lines in the workspace, behind two doubles per position */
} state;

typedef struct job {
    const state *s;
    const mp_operands *x;
    double factor; /* backward: on every position's gradient, weights aside */
} job;

static int64_t target_at(const mp_array *t, int64_t k)
{
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        at += k % t->dims[d] * t->strides[d];
        k /= t->dims[d];
    }
    return t->dtype == MP_DTYPE_INT32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

static double weight_of(const job *j, int64_t target)
{
    float room;
    const mp_array *w = j->x->n_in > 2 ? &j->x->in[2] : NULL;
    if (j->s->loss.ignores && target == j->s->loss.ignored) return 0;
    return w && w->dtype ? (double)*mp_floats(w->data, w->dtype, target, 1, &room) : 1;
}

static void forward_line(void *data, int64_t k)
{
    const job *j = data;
    const state *s = j->s;
    double *losses = j->x->workspace, *weights = losses + s->loss.lines.n;
    float *room =
        (float *)((char *)j->x->workspace + s->lines_at) + k % mp_lines_at_once(&s->loss.lines) * 2 * s->loss.lines.length;
    float spare[MP_BLOCK], *out = room + s->loss.lines.length;
    int64_t target = target_at(&j->x->in[1], k);
    const float *scores = mp_line_read(&s->loss.lines, &j->x->in[0], k, room);
    if (s->loss.softmax) {
        mp_array log_p = mp_class_loss_log_probabilities(j->x);
        mp_row_log_softmax(scores, s->loss.lines.length, out, spare);
        if (log_p.data) mp_line_write(&s->loss.lines, &log_p, k, out);
        if (j->x->n_out > 1 && j->x->out[1].data) mp_line_write(&s->loss.lines, &j->x->out[1], k, out);
        scores = out;
    }
    weights[k] = weight_of(j, target);
    losses[k] = weights[k] != 0 ? -weights[k] * (double)scores[target] : 0;
}

static void store(const mp_array *a, int64_t at, float value)
{
    if (a->dtype == MP_DTYPE_FLOAT)
        ((float *)a->data)[at] = value;
    else
        mp_floats_done(a->data, a->dtype, at, 1, &value);
}

/* A target that is no class would be read outside the scores. */
static mp_status check_targets(const job *j, mp_error *err)
{
    for (int64_t k = 0; k < j->s->loss.lines.n; k++) {
        int64_t t = target_at(&j->x->in[1], k);
        if ((t < 0 || t >= j->s->loss.lines.length) && !(j->s->loss.ignores && t == j->s->loss.ignored))
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): target %lld is not one of %lld classes", j->x->op->kind, j->x->op->name,
                           (long long)t, (long long)j->s->loss.lines.length);
    }
    return MP_OK;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const state *s = call->state;
    job j = {s, x, 1};
    double *losses = x->workspace, *weights = losses + s->loss.lines.n, loss = 0, weight = 0;
    (void)run;
    MP_TRY(check_targets(&j, err));
    mp_lines_run(&s->loss.lines, forward_line, &j);
    for (int64_t k = 0; k < s->loss.lines.n; k++) {
        if (s->loss.reduction == MP_CLASS_LOSS_NONE) store(&x->out[0], k, (float)losses[k]);
        loss += losses[k];
        weight += weights[k];
    }
    if (s->loss.reduction != MP_CLASS_LOSS_NONE)
        store(&x->out[0], 0, (float)(s->loss.reduction == MP_CLASS_LOSS_MEAN ? loss / weight : loss));
done:
    return st;
}

/* p - 1 at the target, p elsewhere; without softmax only the target has a gradient. */
MP_VECTOR static void probabilities(const float *log_p, int64_t n, float factor, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = factor * mp_exp(log_p[k]);
}

static void backward_line(void *data, int64_t k)
{
    const job *j = data;
    const state *s = j->s;
    float *room =
        (float *)((char *)j->x->workspace + s->lines_at) + k % mp_lines_at_once(&s->loss.lines) * 2 * s->loss.lines.length;
    float *out = room + s->loss.lines.length, one;
    int64_t target = target_at(&j->x->in[1], k), n = s->loss.lines.length;
    const mp_array *dy = &j->x->d_out[0];
    double factor = j->factor * weight_of(j, target);
    if (s->loss.reduction == MP_CLASS_LOSS_NONE) factor *= (double)*mp_floats(dy->data, dy->dtype, k, 1, &one);
    if (s->loss.softmax && factor != 0) {
        mp_array log_p = mp_class_loss_log_probabilities(j->x);
        probabilities(mp_line_read(&s->loss.lines, &log_p, k, room), n, (float)factor, out);
    } else {
        memset(out, 0, (size_t)n * sizeof *out);
    }
    if (factor != 0) out[target] -= (float)factor;
    mp_line_write(&s->loss.lines, &j->x->d_in[0], k, out);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const state *s = call->state;
    job j = {s, x, 1};
    double weight = 0;
    float room;
    (void)run;
    MP_TRY(check_targets(&j, err));
    for (int64_t k = 0; s->loss.reduction == MP_CLASS_LOSS_MEAN && k < s->loss.lines.n; k++)
        weight += weight_of(&j, target_at(&x->in[1], k));
    if (s->loss.reduction != MP_CLASS_LOSS_NONE)
        j.factor = (double)*mp_floats(x->d_out[0].data, x->d_out[0].dtype, 0, 1, &room);
    if (s->loss.reduction == MP_CLASS_LOSS_MEAN) j.factor /= weight;
    mp_lines_run(&s->loss.lines, backward_line, &j);
done:
    return st;
}

static mp_status prepare_cross_entropy(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    MP_TRY(mp_class_loss_read(x, &s->loss, err));
    s->lines_at = (2 * s->loss.lines.n * (int64_t)sizeof(double) + 63) / 64 * 64;
    call->workspace_bytes = s->lines_at + mp_lines_at_once(&s->loss.lines) * 2 * s->loss.lines.length * (int64_t)sizeof(float);
done:
    return st;
}

/* loss = mean((prediction - target)^2): partial sums over fixed blocks, added in order. */
typedef struct square_job {
    const mp_array *prediction, *target;
    double *sums;
} square_job;

static void square_block(void *data, int64_t k)
{
    const square_job *j = data;
    int64_t n = mp_block_size(mp_array_elements(j->prediction), k);
    double sum = 0;
    for (int64_t e = k * MP_BLOCK; e < k * MP_BLOCK + n; e++) {
        float a, b;
        int64_t at[2] = {0}, rest = e;
        for (int d = j->prediction->rank - 1; d >= 0; d--) {
            at[0] += rest % j->prediction->dims[d] * j->prediction->strides[d];
            at[1] += rest % j->prediction->dims[d] * j->target->strides[d];
            rest /= j->prediction->dims[d];
        }
        double difference = (double)*mp_floats(j->prediction->data, j->prediction->dtype, at[0], 1, &a) -
                            (double)*mp_floats(j->target->data, j->target->dtype, at[1], 1, &b);
        sum += difference * difference;
    }
    j->sums[k] = sum;
}

static void difference_row(const double *p, int64_t n, const float *const *in, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = (float)p[0] * (in[0][k] - in[1][k]);
}

static mp_status run_squared_error(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    int64_t n = mp_array_elements(&x->in[0]);
    float room;
    (void)call, (void)run, (void)err;
    if (!x->is_backward) {
        square_job j = {&x->in[0], &x->in[1], x->workspace};
        double total = 0;
        mp_parallel(mp_block_count(n), MP_BLOCK, square_block, &j);
        for (int64_t k = 0; k < mp_block_count(n); k++) total += j.sums[k];
        store(&x->out[0], 0, (float)(total / (double)n));
        return MP_OK;
    }
    double dy = (double)*mp_floats(x->d_out[0].data, x->d_out[0].dtype, 0, 1, &room);
    /* the one that may lie where an operand does comes last */
    for (int i = 1; i >= 0; i--) {
        if (i < x->from || i >= x->to || !x->d_in[i].dtype) continue;
        double factor = (i ? -2 : 2) * dy / (double)n;
        const mp_array *in[] = {&x->in[0], &x->in[1]};
        mp_elementwise(difference_row, &factor, in, 2, &x->d_in[i]);
    }
    return MP_OK;
}

static mp_status prepare_squared_error(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    call->run = run_squared_error;
    if (!x->is_backward) call->workspace_bytes = mp_block_count(mp_array_elements(&x->in[0])) * (int64_t)sizeof(double);
    return MP_OK;
}

const mp_kernel mp_cpu_losses[] = {
    {"SoftmaxCrossEntropyLoss", "", prepare_cross_entropy, prepare_cross_entropy},
    {"NegativeLogLikelihoodLoss", "", prepare_cross_entropy, prepare_cross_entropy},
    {"MeanSquaredError", "memplan", prepare_squared_error, prepare_squared_error},
    {0},
};

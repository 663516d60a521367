/* losses.c - loss = sum over positions of -weight[target] log p[target], divided by the sum of weights (mean), or not (sum), or
 * each by itself (none). Positions are added up in their order, in double. Of a position's scores forward leaves the logarithm
 * of the sum of e^score, from which backward makes the probabilities again.
 */
#include <string.h>

#include "executor/cpu/elementwise/elementwise.h"
#include "executor/cpu/rows/lines.h"
#include "executor/cpu/rows/softmaxes.h"
#include "executor/kernel/element.h"
#include "executor/kernel/vector_math.h"
#include "executor/operators/rows/class_loss.h"

typedef struct job {
    const mp_class_loss *loss;
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
    const mp_array *w = j->x->n_in > 2 ? &j->x->in[2] : NULL;
    if (j->loss->ignores && target == j->loss->ignored) return 0;
    return w && w->dtype ? (double)mp_load_float(w->data, w->dtype, target) : 1;
}

/* The logarithm of the sum of e^score over line k. */
static float log_sum(const job *j, int64_t k)
{
    const mp_lines *l = &j->loss->lines;
    float room[MP_BLOCK], spare[MP_BLOCK];
    mp_log_sum sum = mp_log_sum_none();
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        mp_log_sum_add(&sum, mp_line_read_part(l, &j->x->in[0], k, e, n, room), n, spare);
    }
    return mp_log_sum_value(&sum);
}

static void write_log_probabilities(const job *j, int64_t k, float shift)
{
    const mp_lines *l = &j->loss->lines;
    float room[MP_BLOCK], out[MP_BLOCK];
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        mp_row_shift(mp_line_read_part(l, &j->x->in[0], k, e, n, room), n, shift, out);
        mp_line_write_part(l, &j->x->out[1], k, e, n, out);
    }
}

static void forward_line(void *data, int64_t k)
{
    const job *j = data;
    double *losses = j->x->workspace, *weights = losses + j->loss->lines.n;
    int64_t target = target_at(&j->x->in[1], k);
    float shift = j->loss->softmax ? log_sum(j, k) : 0, score;
    weights[k] = weight_of(j, target);
    losses[k] = 0;
    if (weights[k] != 0)
        losses[k] = -weights[k] * (double)(*mp_line_read_part(&j->loss->lines, &j->x->in[0], k, target, 1, &score) - shift);
    if (j->x->n_out > 1 && j->x->out[1].data) write_log_probabilities(j, k, shift);
    if (j->x->extra[0].data) ((float *)j->x->extra[0].data)[k] = shift;
}

/* A target that is no class would be read outside the scores. */
static mp_status check_targets(const job *j, mp_error *err)
{
    for (int64_t k = 0; k < j->loss->lines.n; k++) {
        int64_t t = target_at(&j->x->in[1], k);
        if ((t < 0 || t >= j->loss->lines.length) && !(j->loss->ignores && t == j->loss->ignored))
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): target %lld is not one of %lld classes", j->x->op->kind, j->x->op->name,
                           (long long)t, (long long)j->loss->lines.length);
    }
    return MP_OK;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_class_loss *s = call->state;
    job j = {s, x, 1};
    double *losses = x->workspace, *weights = losses + s->lines.n, loss = 0, weight = 0;
    const mp_array *to = &x->out[0];
    (void)run;
    MP_TRY(check_targets(&j, err));
    mp_parallel(s->lines.n, s->lines.length, forward_line, &j);
    for (int64_t k = 0; k < s->lines.n; k++) {
        if (s->reduction == MP_CLASS_LOSS_NONE) mp_store_float(to->data, to->dtype, k, (float)losses[k]);
        loss += losses[k];
        weight += weights[k];
    }
    if (s->reduction != MP_CLASS_LOSS_NONE)
        mp_store_float(to->data, to->dtype, 0, (float)(s->reduction == MP_CLASS_LOSS_MEAN ? loss / weight : loss));
done:
    return st;
}

/* out = factor e^(x - shift) */
MP_VECTOR static void probabilities(const float *x, int64_t n, float shift, float factor, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = factor * mp_exp(x[k] - shift);
}

MP_VECTOR static void add(const float *x, int64_t n, float *to)
{
    for (int64_t k = 0; k < n; k++) to[k] += x[k];
}

static double sum_of_line(const mp_lines *l, const mp_array *a, int64_t k)
{
    float room[MP_BLOCK];
    double sum = 0;
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        const float *part = mp_line_read_part(l, a, k, e, n, room);
        for (int64_t i = 0; i < n; i++) sum += (double)part[i];
    }
    return sum;
}

/* The gradient of a score is f p, less f at the target (f: the factor of the position's loss); and where the log-probabilities
 * have a gradient g of their own, it and p sum(g) less. Without softmax only the target has one. */
static void backward_line(void *data, int64_t k)
{
    const job *j = data;
    const mp_lines *l = &j->loss->lines;
    const mp_array *dy = &j->x->d_out[0], *g = j->x->n_out > 1 && j->x->d_out[1].dtype ? &j->x->d_out[1] : NULL;
    float room[MP_BLOCK], out[MP_BLOCK], shift = j->loss->softmax ? ((const float *)j->x->extra[0].data)[k] : 0;
    int64_t target = target_at(&j->x->in[1], k);
    double weight = weight_of(j, target), factor = weight != 0 ? j->factor * weight : 0, scale = 0;
    if (j->loss->reduction == MP_CLASS_LOSS_NONE && dy->dtype) factor *= (double)mp_load_float(dy->data, dy->dtype, k);
    if (j->loss->softmax) scale = factor - (g ? sum_of_line(l, g, k) : 0);
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        if (scale != 0)
            probabilities(mp_line_read_part(l, &j->x->in[0], k, e, n, room), n, shift, (float)scale, out);
        else
            memset(out, 0, (size_t)n * sizeof *out);
        if (factor != 0 && target >= e && target < e + n) out[target - e] -= (float)factor;
        if (g) add(mp_line_read_part(l, g, k, e, n, room), n, out);
        mp_line_write_part(l, &j->x->d_in[0], k, e, n, out);
    }
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_class_loss *s = call->state;
    const mp_array *dy = &x->d_out[0];
    job j = {s, x, dy->dtype ? 1 : 0};
    double weight = 0;
    (void)run;
    MP_TRY(check_targets(&j, err));
    for (int64_t k = 0; s->reduction == MP_CLASS_LOSS_MEAN && k < s->lines.n; k++)
        weight += weight_of(&j, target_at(&x->in[1], k));
    if (s->reduction != MP_CLASS_LOSS_NONE && dy->dtype) j.factor = (double)mp_load_float(dy->data, dy->dtype, 0);
    if (s->reduction == MP_CLASS_LOSS_MEAN) j.factor /= weight;
    mp_parallel(s->lines.n, s->lines.length, backward_line, &j);
done:
    return st;
}

static mp_status prepare_cross_entropy(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_class_loss *s;
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    MP_TRY(mp_class_loss_read(x, s, err));
    if (!x->is_backward) call->workspace_bytes = 2 * s->lines.n * (int64_t)sizeof(double);
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
        mp_store_float(x->out[0].data, x->out[0].dtype, 0, (float)(total / (double)n));
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

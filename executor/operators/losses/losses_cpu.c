/* losses_cpu.c - losses over classes and over elements, on the CPU. The loss of a position (one target) is -weight[target] log
 * p[target]. With label smoothing s, the loss of a position is (1 - s) times this value, plus s / classes times the sum over
 * all classes of -weight log p. The reduction "sum" adds all positions in order in double. "mean" divides this sum by the sum
 * of weights. "none" returns one loss per position. Forward saves log(sum(e^score)) of each position, from which backward
 * recomputes p. */
#include <string.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/cpu/base/lines.h"
#include "executor/kernel/element.h"
#include "executor/kernel/vector_math.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/losses/losses.h"
#include "executor/operators/normalizations/softmaxes_cpu.h"

typedef struct job {
    const mp_class_loss *loss;
    const mp_operands *x;
    double factor;      /* in backward: the factor of every position's (target's) gradient, apart from the position's weight */
    double all_weights; /* with label smoothing: the sum of the weights of all classes; else 0 */
    int64_t first;      /* index of this rank's first class */
} job;

static int64_t target_at(const mp_array *t, int64_t k)
{
    const int64_t at = mp_strided_offset(t->rank, t->dims, t->strides, k);
    return t->dtype == MP_DTYPE_INT32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

/* Returns the labels whose weights divide a mean: of all rows, also if the operator computes a part of the rows. */
static const mp_array *all_labels(const mp_operands *x)
{
    return x->n_in > 3 && x->in[3].dtype ? &x->in[3] : &x->in[1];
}

static double class_weight(const job *j, int64_t class)
{
    const mp_array *w = j->x->n_in > 2 ? &j->x->in[2] : NULL;
    return w && w->dtype ? (double)mp_load_float(w->data, w->dtype, class) : 1;
}

static bool is_ignored(const job *j, int64_t target)
{
    return j->loss->ignores && target == j->loss->ignored;
}

static double weight_of(const job *j, int64_t target)
{
    return is_ignored(j, target) ? 0 : class_weight(j, target);
}

static job job_of(const mp_class_loss *loss, const mp_operands *x, double factor)
{
    const mp_kernel_group *group = x->run.group;
    job j = {loss, x, factor, 0, loss->ranks > 1 ? group->index * loss->lines.length : 0};
    for (int64_t c = 0; loss->smoothing != 0 && c < loss->lines.length; c++) j.all_weights += class_weight(&j, c);
    return j;
}

/* Returns smoothing / classes: label smoothing adds -weight log p of every class to a position's (target's) loss, multiplied by
 * this number. */
static double smoothed_share(const job *j)
{
    return j->loss->smoothing / (double)j->loss->lines.length;
}

/* Returns log(sum(e^score)) over the classes of line k, the scores of one target. */
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

/* Returns the sum of -weight log p over all classes of line k, the scores of one target. */
static double loss_of_all(const job *j, int64_t k, float shift)
{
    const mp_lines *l = &j->loss->lines;
    float room[MP_BLOCK];
    double sum = 0;
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        const float *part = mp_line_read_part(l, &j->x->in[0], k, e, n, room);
        for (int64_t i = 0; i < n; i++) sum += class_weight(j, e + i) * (double)(shift - part[i]);
    }
    return sum;
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
    if (j->loss->smoothing != 0 && !is_ignored(j, target))
        losses[k] = (1 - j->loss->smoothing) * losses[k] + smoothed_share(j) * loss_of_all(j, k, shift);
    if (j->x->n_out > 1 && j->x->out[1].data) write_log_probabilities(j, k, shift);
    if (j->x->extra[0].data) ((float *)j->x->extra[0].data)[k] = shift;
}

/* ---- classes split over ranks: the results of all ranks are combined in the order of the ranks. */

/* Returns the index of a target among this rank's classes; -1: another rank holds the class. */
static int64_t own_class(const job *j, int64_t target)
{
    const int64_t class = target - j->first;
    return class < 0 || class >= j->loss->lines.length ? -1 : class;
}

static mp_class_part *parts_of(const job *j)
{
    return (mp_class_part *)((double *)j->x->workspace + 2 * j->loss->lines.n);
}

static void part_line(void *data, int64_t k)
{
    const job *j = data;
    const mp_lines *l = &j->loss->lines;
    const int64_t class = own_class(j, target_at(&j->x->in[1], k));
    float room[MP_BLOCK], spare[MP_BLOCK];
    mp_log_sum sum = mp_log_sum_none();
    for (int64_t e = 0; j->loss->softmax && e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        mp_log_sum_add(&sum, mp_line_read_part(l, &j->x->in[0], k, e, n, room), n, spare);
    }
    mp_class_part *part = &parts_of(j)[j->x->run.group->index * l->n + k];
    *part = (mp_class_part){.sum = sum.sum, .largest = sum.largest};
    if (class >= 0) part->score = *mp_line_read_part(l, &j->x->in[0], k, class, 1, room);
}

/* Returns log(sum(e^score)) of line k (the scores of one target) over the classes of all ranks, and in *score the target's
 * score. */
static float joined_log_sum(const job *j, int64_t k, float *score)
{
    const mp_lines *l = &j->loss->lines;
    const mp_class_part *parts = parts_of(j) + k;
    mp_log_sum all = mp_log_sum_none();
    const int64_t owner = target_at(&j->x->in[1], k) / l->length;
    *score = owner >= 0 && owner < j->loss->ranks ? parts[owner * l->n].score : 0;
    for (int64_t r = 0; r < j->loss->ranks; r++)
        if (parts[r * l->n].largest > all.largest) all.largest = parts[r * l->n].largest;
    for (int64_t r = 0; r < j->loss->ranks; r++)
        all.sum += parts[r * l->n].sum * exp((double)parts[r * l->n].largest - (double)all.largest);
    return mp_log_sum_value(&all);
}

static void joined_line(void *data, int64_t k)
{
    const job *j = data;
    double *losses = j->x->workspace, *weights = losses + j->loss->lines.n;
    float score, sum = joined_log_sum(j, k, &score), shift = j->loss->softmax ? sum : 0;
    weights[k] = weight_of(j, target_at(&j->x->in[1], k));
    losses[k] = weights[k] != 0 ? -weights[k] * (double)(score - shift) : 0;
    if (j->x->n_out > 1 && j->x->out[1].data) write_log_probabilities(j, k, shift);
    if (j->x->extra[0].data) ((float *)j->x->extra[0].data)[k] = shift;
}

static mp_status run_lines(job *j, mp_error *err)
{
    const mp_lines *l = &j->loss->lines;
    const mp_kernel_group *group = j->x->run.group;
    if (j->loss->ranks == 1) {
        mp_parallel(l->n, l->length, forward_line, j);
        return MP_OK;
    }
    const int64_t bytes = l->n * (int64_t)sizeof(mp_class_part);
    mp_parallel(l->n, l->length, part_line, j);
    MP_CHECK(group->gather(group, (char *)parts_of(j) + group->index * bytes, bytes, parts_of(j), err));
    mp_parallel(l->n, j->loss->ranks, joined_line, j);
    return MP_OK;
}

/* Fails with MP_INVALID if a target is neither a class nor ignored, because its score would be read outside of the tensor. */
static mp_status check_targets(const job *j, mp_error *err)
{
    const int64_t classes = j->loss->ranks * j->loss->lines.length;
    const mp_array *labels = all_labels(j->x);
    for (int64_t k = 0; k < mp_array_elements(labels); k++) {
        int64_t t = target_at(labels, k);
        if ((t < 0 || t >= classes) && !(j->loss->ignores && t == j->loss->ignored))
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): target %lld is not one of %lld classes", j->x->op->kind, j->x->op->name,
                           (long long)t, (long long)classes);
    }
    return MP_OK;
}

/* Returns the sum of the weights of all labels. */
static double sum_of_weights(const job *j)
{
    const mp_array *labels = all_labels(j->x);
    double sum = 0;
    for (int64_t k = 0; k < mp_array_elements(labels); k++) sum += weight_of(j, target_at(labels, k));
    return sum;
}

/* Replaces the sum of weights of this rank's positions (targets) by the sum over all ranks that share the positions; `room` has
 * one double per rank. */
static mp_status add_weights(const job *j, double *room, double *weight, mp_error *err)
{
    const mp_kernel_group *group = j->x->run.group;
    const int64_t sharers = j->loss->sharers;
    if (sharers == 1) return MP_OK;
    if (!j->loss->is_counted) {
        *weight *= (double)sharers;
        return MP_OK;
    }
    room[group->index] = *weight;
    MP_CHECK(group->gather(group, &room[group->index], sizeof *room, room, err));
    *weight = 0;
    for (int64_t r = 0; r < sharers; r++) *weight += room[r];
    return MP_OK;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_class_loss *s = call->state;
    job j = job_of(s, x, 1);
    double *losses = x->workspace, *weights = losses + s->lines.n, loss = 0, weight = 0;
    const mp_array *to = &x->out[0];
    MP_CHECK(check_targets(&j, err));
    MP_CHECK(run_lines(&j, err));
    for (int64_t k = 0; k < s->lines.n; k++) {
        if (s->reduction == MP_CLASS_LOSS_NONE) mp_store_float(to->data, to->dtype, k, (float)losses[k]);
        loss += losses[k];
    }
    if (s->reduction == MP_CLASS_LOSS_MEAN) weight = sum_of_weights(&j);
    if (s->reduction == MP_CLASS_LOSS_MEAN) MP_CHECK(add_weights(&j, weights + s->lines.n, &weight, err));
    if (s->reduction != MP_CLASS_LOSS_NONE)
        mp_store_float(to->data, to->dtype, 0, (float)(s->reduction == MP_CLASS_LOSS_MEAN ? loss / weight : loss));
    return MP_OK;
}

/* Computes out[i] = factor * e^(x[i] - shift) for n scores x. */
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

/* Subtracts the part of the gradient that label smoothing adds: to[i] -= share * weight of class e + i. */
static void take_shares(const job *j, double share, int64_t e, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) to[i] -= (float)(share * class_weight(j, e + i));
}

/* Computes the gradients of a line's scores. The gradient of a class's score is (f + s W - sum(g)) p - s w + g, minus f at the
 * target; without softmax the term with p is absent. f: the gradient of the position's loss, times its weight. s: fraction per
 * class from label smoothing; w: weight of the class; W: sum of all weights. g: gradient of the class's log-probability, if
 * log-probabilities are an output. */
static void backward_line(void *data, int64_t k)
{
    const job *j = data;
    const mp_lines *l = &j->loss->lines;
    const mp_array *dy = &j->x->d_out[0], *g = j->x->n_out > 1 && j->x->d_out[1].dtype ? &j->x->d_out[1] : NULL;
    float room[MP_BLOCK], out[MP_BLOCK], shift = j->loss->softmax ? ((const float *)j->x->extra[0].data)[k] : 0;
    const int64_t target = target_at(&j->x->in[1], k), class = own_class(j, target);
    double weight = weight_of(j, target), factor = weight != 0 ? j->factor * weight : 0, scale = 0, share = 0;
    if (j->loss->smoothing != 0 && !is_ignored(j, target)) share = j->factor * smoothed_share(j);
    if (j->loss->reduction == MP_CLASS_LOSS_NONE && dy->dtype) {
        const double given = (double)mp_load_float(dy->data, dy->dtype, k);
        factor *= given;
        share *= given;
    }
    factor *= 1 - j->loss->smoothing;
    if (j->loss->softmax) scale = factor + share * j->all_weights - (g ? sum_of_line(l, g, k) : 0);
    for (int64_t e = 0; e < l->length; e += MP_BLOCK) {
        int64_t n = mp_block_size(l->length, e / MP_BLOCK);
        if (scale != 0)
            probabilities(mp_line_read_part(l, &j->x->in[0], k, e, n, room), n, shift, (float)scale, out);
        else
            memset(out, 0, (size_t)n * sizeof *out);
        if (share != 0) take_shares(j, share, e, n, out);
        if (factor != 0 && class >= e && class < e + n) out[class - e] -= (float)factor;
        if (g) add(mp_line_read_part(l, g, k, e, n, room), n, out);
        mp_line_write_part(l, &j->x->d_in[0], k, e, n, out);
    }
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_class_loss *s = call->state;
    const mp_array *dy = &x->d_out[0];
    job j = job_of(s, x, dy->dtype ? 1 : 0);
    double weight = 0;
    MP_CHECK(check_targets(&j, err));
    if (s->reduction == MP_CLASS_LOSS_MEAN) weight = sum_of_weights(&j);
    if (s->reduction != MP_CLASS_LOSS_NONE && dy->dtype) j.factor = (double)mp_load_float(dy->data, dy->dtype, 0);
    if (s->reduction == MP_CLASS_LOSS_MEAN) {
        MP_CHECK(add_weights(&j, x->workspace, &weight, err));
        j.factor /= weight;
    }
    mp_parallel(s->lines.n, s->lines.length, backward_line, &j);
    return MP_OK;
}

static mp_status prepare_cross_entropy(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_STATE(mp_class_loss, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    MP_CHECK(mp_class_loss_read(x, s, err));
    if (s->ranks > 1 &&
        ((x->n_in > 2 && x->in[2].dtype) || s->smoothing != 0 || (x->is_backward && x->n_out > 1 && x->d_out[1].dtype)))
        return MP_NO_KERNEL(x, err,
                            "a split of its classes over ranks, with weights, smoothed labels or a use of its probabilities,");
    if (!x->is_backward) call->workspace_bytes = 2 * s->lines.n * (int64_t)sizeof(double);
    if (s->sharers > 1) call->workspace_bytes += s->sharers * (int64_t)sizeof(double);
    if (!x->is_backward && s->ranks > 1) call->workspace_bytes += s->ranks * s->lines.n * (int64_t)sizeof(mp_class_part);
    return MP_OK;
}

/* ---- losses over elements: partial sums of fixed blocks, added in order. */

MP_BODY_LOOP(mp_element_slope, mp_element_slope_item)

typedef struct mean_job {
    const mp_element_loss *loss;
    mp_array prediction, target, weight;
    double *sums;
} mean_job;

static void sum_block(void *data, int64_t k)
{
    const mean_job *j = data;
    const mp_array *of[] = {&j->prediction, &j->target, &j->weight};
    int64_t n = mp_block_size(mp_array_elements(of[0]), k);
    double sum = 0;
    for (int64_t e = k * MP_BLOCK; e < k * MP_BLOCK + n; e++) {
        int64_t at[3] = {0}, rest = e;
        float values[3];
        for (int d = of[0]->rank - 1; d >= 0; d--) {
            for (int i = 0; i < 3; i++) at[i] += rest % of[0]->dims[d] * of[i]->strides[d];
            rest /= of[0]->dims[d];
        }
        for (int i = 0; i < 3; i++) values[i] = of[i]->data ? mp_array_load(of[i], at[i]) : 1;
        sum += mp_element_loss_value(j->loss, values[0], values[1], values[2]);
    }
    j->sums[k] = sum;
}

static mp_status run_mean(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const int64_t n = mp_array_elements(&x->in[0]);
    mean_job j = {call->state, x->in[0], x->in[1], mp_element_loss_weights(x), x->workspace};
    double total = 0;
    (void)err;
    mp_parallel(mp_block_count(n), MP_BLOCK, sum_block, &j);
    for (int64_t k = 0; k < mp_block_count(n); k++) total += j.sums[k];
    mp_array_store(&x->out[0], 0, (float)(total / (double)n));
    return MP_OK;
}

static mp_status run_slopes(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_element_loss_backward(call, x, mp_element_slope_item_loop, err);
}

static mp_status prepare_mean(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = x->is_backward ? run_slopes : run_mean;
    if (!x->is_backward) call->workspace_bytes = mp_block_count(mp_array_elements(&x->in[0])) * (int64_t)sizeof(double);
    return mp_element_loss_prepare(x, call, err);
}

#define ROW(kind, is) {kind, "memplan", prepare_mean, prepare_mean},
const mp_kernel mp_cpu_losses[] = {{"SoftmaxCrossEntropyLoss", "", prepare_cross_entropy, prepare_cross_entropy},
                                   {"SoftmaxCrossEntropyPart", "memplan", prepare_cross_entropy, prepare_cross_entropy},
                                   {"NegativeLogLikelihoodLoss", "", prepare_cross_entropy, prepare_cross_entropy},
                                   MP_ELEMENT_LOSSES(ROW){0}};

/* losses_cuda.cu - losses over classes on the GPU. A kernel cannot report errors; if a target is not a
 * class, the loss is NaN. */
#include "executor/cuda/grid/blocks.cuh"
#include "executor/cuda/grid/bodies.cuh"
#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"
#include "executor/kernel/vector_math.h"

extern "C" {
#include "executor/operators/losses/losses.h"
}

namespace
{

/* ---- targets of positions, and their weights. */

struct targets {
    mp_operand target, weight; /* weight: one per class; data NULL: all weights are 1 */
    int64_t n_classes, ignored;
    bool ignores;
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];

    MP_BODY int64_t of(int64_t position) const
    {
        const int64_t at = mp_strided_offset(rank, dims, strides, position);
        return target.dtype == MP_DTYPE_INT32 ? ((const int32_t *)target.data)[at] : ((const int64_t *)target.data)[at];
    }
    MP_BODY bool is_ignored(int64_t t) const { return ignores && t == ignored; }
    MP_BODY float class_weight(int64_t c) const { return weight.data ? weight.load(c) : 1; }
    MP_BODY float weight_of(int64_t t) const
    {
        if (is_ignored(t)) return 0;
        if (t < 0 || t >= n_classes) return NAN;
        return class_weight(t);
    }
};

struct state {
    mp_class_loss form;
    /* Offsets in the workspace. A position is one target. Offset 0, forward: two floats per position. factors_at: the result of
     * mean_factor and the weight of all classes, for backward or a chain. sums_at: a float per position, with label smoothing
     * (forward) or if log-probabilities have gradients (backward). weight_at: a float, the weights of all labels (forward of a
     * part of the rows). stretches_at: the partial sums of reductions */
    int64_t factors_at, sums_at, weight_at, stretches_at;
};

/* Returns the operand with the labels whose weights divide a mean: of all rows, also if the operator computes a part of them.
 */
static int all_labels(const mp_operands *x)
{
    return x->n_in > 3 && x->in[3].dtype ? 3 : 1;
}

/* Returns the labels that are operand `from`. */
static targets targets_of(const state *s, const mp_operands *x, int from)
{
    const mp_array *t = &x->in[from];
    targets all = {};
    all.target = mp_input(x, from);
    all.weight = mp_input(x, 2);
    all.n_classes = s->form.lines.length;
    all.ignored = s->form.ignored;
    all.ignores = s->form.ignores;
    all.rank = t->rank;
    for (int d = 0; d < t->rank; d++) {
        all.dims[d] = t->dims[d];
        all.strides[d] = t->strides[d];
    }
    return all;
}

/* ---- forward: the loss and weight of each position (target), then their sums. */

/* Computes the largest score of a line (the scores of one target) and the sum of e^(score - largest) in one pass. When the
 * results of two parts of a line are joined, the sum with the smaller maximum is rescaled to the larger maximum. */
template <mp_dtype T> struct entropy_rows {
    struct value {
        float largest, sum;
    };
    enum { PHASES = 1 };
    mp_line_places lines;
    targets all;
    mp_operand scores, given, log_sums;
    bool softmax;
    float *losses; /* two values per position (target): -weight log p, and weight */
    /* a copy of the log(sum(e^score)) of each line (the scores of one target) for the kernel smoothed_rows; NULL: no label
     * smoothing */
    float *kept;
    MP_BODY float score(int64_t at) const { return mp_load_any(scores.data, T, at); }
    MP_BODY value none(int) const { return value{-INFINITY, 0}; }
    MP_BODY value join(int, value a, value b) const
    {
        const value less = b.largest > a.largest ? a : b, more = b.largest > a.largest ? b : a;
        if (less.largest == -INFINITY) return more;
        return value{more.largest, more.sum + less.sum * mp_exp_to_zero(less.largest - more.largest)};
    }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{softmax ? score(lines.find(row, column)) : 0, 1};
    }
    MP_BODY float log_sum(const value *totals) const { return softmax ? totals[0].largest + logf(totals[0].sum) : 0; }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        if (!given.data) return;
        const int64_t at = lines.find(row, column);
        mp_store_any(given.data, T, at, score(at) - log_sum(totals));
    }
    MP_BODY void end(int64_t row, const value *totals) const
    {
        const int64_t target = all.of(row);
        const float weight = all.weight_of(target);
        float log_of_target = 0;
        if (weight != 0 && weight == weight) log_of_target = score(lines.find(row, target)) - log_sum(totals);
        losses[2 * row] = weight != 0 ? -weight * log_of_target : 0;
        losses[2 * row + 1] = weight;
        if (log_sums.data) log_sums.store(row, log_sum(totals));
        if (kept) kept[row] = log_sum(totals);
    }
};

/* Label smoothing: replaces a fraction of every position's (target's) loss by the mean over all classes. */
template <mp_dtype T> struct smoothed_rows : mp_sums {
    enum { PHASES = 1 };
    mp_line_places lines;
    targets all;
    mp_operand scores;
    const float *log_sums;
    float *losses;
    float smoothing;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{all.class_weight(column) * (log_sums[row] - mp_load_any(scores.data, T, lines.find(row, column)))};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        if (all.is_ignored(all.of(row))) return;
        losses[2 * row] = (1 - smoothing) * losses[2 * row] + smoothing / (float)all.n_classes * totals[0].x;
    }
};

struct total_loss : mp_float_sums {
    const float *losses,
        *weight; /* weight: address of the result of the kernel label_weights; NULL: the positions' own weights */
    mp_operand to;
    bool mean;
    MP_BODY part at(const int64_t *at, int64_t) const { return part{losses[2 * at[0]], losses[2 * at[0] + 1]}; }
    MP_BODY void end(const int64_t *, value total) const
    {
        to.store(0, (float)(mean ? total.a / (weight ? (double)*weight : total.b) : total.a));
    }
};

/* Computes the sum of the weights of labels. */
struct label_weights : mp_float_sum {
    targets all;
    float *to;
    MP_BODY part at(const int64_t *at, int64_t) const { return part{all.weight_of(all.of(at[0]))}; }
    MP_BODY void end(const int64_t *, value total) const { *to = (float)total.x; }
};

struct each_loss {
    const float *losses;
    mp_operand to;
    MP_BODY void operator()(int64_t k) const { to.store(k, losses[2 * k]); }
};

/* Describes for mp_reduce a single sum over n adjacent terms. */
static mp_reduce_places<1> all_of(int64_t n)
{
    mp_loops loops = {};
    loops.rank = 1;
    loops.dims[0] = n;
    loops.strides[0][0] = 1;
    return mp_reduce_places<1>(&loops, -1);
}

template <mp_dtype T> static entropy_rows<T> rows_of(const state *s, const mp_operands *x)
{
    entropy_rows<T> f;
    f.lines = mp_line_places_of(&s->form.lines);
    f.all = targets_of(s, x, 1);
    f.scores = mp_input(x, 0);
    f.given = mp_output(x, 1);
    f.log_sums = mp_operand_of(&x->extra[0]);
    f.softmax = s->form.softmax;
    f.losses = (float *)x->workspace;
    f.kept = s->form.smoothing != 0 ? (float *)mp_workspace_at(x, s->sums_at) : NULL;
    return f;
}

/* Computes the loss from the losses and weights of all positions. */
static void add_up(const state *s, const mp_operands *x)
{
    const float *losses = (const float *)x->workspace;
    const int64_t n = s->form.lines.n;
    if (s->form.reduction == MP_CLASS_LOSS_NONE) {
        mp_each(n, each_loss{losses, mp_output(x, 0)});
    } else {
        const bool is_mean = s->form.reduction == MP_CLASS_LOSS_MEAN;
        const int labels = all_labels(x);
        float *weight = is_mean && labels != 1 ? (float *)mp_workspace_at(x, s->weight_at) : NULL;
        const label_weights weights = {{}, targets_of(s, x, labels), weight};
        if (weight) mp_reduce(all_of(mp_array_elements(&x->in[labels])), weights, mp_workspace_at(x, s->stretches_at));
        const total_loss sum = {{}, losses, weight, mp_output(x, 0), is_mean};
        mp_reduce(all_of(n), sum, mp_workspace_at(x, s->stretches_at));
    }
}

template <mp_dtype T> static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const int64_t n = s->form.lines.n;
    const entropy_rows<T> f = rows_of<T>(s, x);
    mp_rows_that_lie(!s->form.lines.contiguous, n, f.softmax ? s->form.lines.length : 1, f);
    if (f.kept) {
        const smoothed_rows<T> smoothed = {{}, f.lines, f.all, f.scores, f.kept, f.losses, (float)s->form.smoothing};
        mp_rows_that_lie(!s->form.lines.contiguous, n, s->form.lines.length, smoothed);
    }
    add_up(s, x);
    return mp_launched(err);
}

/* ---- backward. */

/* Computes the number by which the gradient of every position (target) is multiplied, apart from the position's weight: the
 * gradient of the mean, divided by the sum of weights. */
struct mean_factor : mp_float_sum {
    targets all;
    mp_operand dy;
    float *to;
    MP_BODY part at(const int64_t *at, int64_t) const { return part{all.weight_of(all.of(at[0]))}; }
    MP_BODY void end(const int64_t *, value total) const { *to = (float)((double)dy.load(0) / total.x); }
};

/* Computes the sum of the weights of all classes, for label smoothing. */
struct weight_total : mp_sums {
    enum { PHASES = 1 };
    targets all;
    float *to;
    MP_BODY value at(int, int64_t, int64_t column, const value *) const { return value{all.class_weight(column)}; }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t, const value *totals) const { *to = totals[0].x; }
};

/* For each position (target): sums the gradients of the log-probabilities over all classes. */
struct given_sums : mp_sums {
    enum { PHASES = 1 };
    mp_line_places lines;
    mp_operand given;
    float *to;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{given.load(lines.find(row, column))};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { to[row] = totals[0].x; }
};

/* Computes the gradient of a class's score: scale * p - share * weight of the class + gradient of its log-probability. At the
 * target class, `factor` is subtracted. */
template <mp_dtype T> struct entropy_gradient {
    /* The values that the gradients of all scores of one position (target) use. */
    struct position {
        int64_t target;
        float factor, share, scale, log_sum;
    };
    targets all;
    mp_operand dy, dx, scores, given, log_sums;
    bool softmax, each; /* each: true: the output has one loss per position (target) (reduction "none") */
    const float *mean;  /* address of the result of the kernel mean_factor; NULL: the reduction is not "mean" */
    const float *sums;  /* address of the results of the kernel given_sums; NULL: log-probabilities have no gradient */
    float smoothing;
    const float *all_weights; /* address of the result of the kernel weight_total; NULL: no label smoothing */
    MP_BODY position of(int64_t k) const
    {
        position p = {all.of(k), 0, 0, 0, 0};
        const float weight = all.weight_of(p.target), given_factor = !dy.data ? 0 : mean ? *mean : dy.load(each ? k : 0);
        if (weight != 0) p.factor = weight * given_factor * (1 - smoothing);
        if (smoothing != 0 && !all.is_ignored(p.target)) p.share = given_factor * smoothing / (float)all.n_classes;
        if (softmax) {
            p.scale = p.factor - (sums ? sums[k] : 0);
            if (p.share != 0) p.scale += p.share * *all_weights;
            p.log_sum = log_sums.load(k);
        }
        return p;
    }
    MP_BODY float score(int64_t at) const { return softmax ? mp_load_any(scores.data, T, at) : 0; }
    MP_BODY void put(const position &p, int64_t at, int64_t number, float x) const
    {
        float slope = p.scale != 0 ? p.scale * mp_exp(x - p.log_sum) : 0;
        if (number == p.target) slope -= p.factor;
        if (p.share != 0) slope -= p.share * all.class_weight(number);
        if (sums) slope += mp_load_any(given.data, T, at);
        mp_store_any(dx.data, T, at, slope);
    }
};

/* A kernel with one thread per score. Operands: the offset of the score, the index of its position (target), its class. */
template <mp_dtype T> struct entropy_gradient_each {
    enum { SCORE, POSITION, CLASS, N_OPERANDS };
    entropy_gradient<T> f;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        f.put(f.of(at[POSITION]), at[SCORE], at[CLASS], f.score(at[SCORE]));
    }
};

/* A kernel with one thread block per line, the contiguous scores of one target. A thread loads several scores before it uses
 * the first one. */
template <mp_dtype T> struct entropy_gradient_lines {
    enum { THREADS = MP_GRID_THREADS, UNDER_WAY = 8 };
    struct shared {
    };
    struct own {
        typename entropy_gradient<T>::position p;
    };
    mp_line_places lines;
    int64_t length;
    entropy_gradient<T> f;
    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        /* a separate phase first reads the weights and targets of the position (target): if there is a single line, the
         * gradients may overwrite the memory of the weights */
        b.phase([&](int, auto &, auto &o) { o.p = f.of(k); });
        b.phase([&](int t, auto &, auto &o) {
            const int64_t at = lines.find(k, 0);
            for (int64_t first = t; first < length; first += THREADS * UNDER_WAY) {
                float x[UNDER_WAY];
                MP_UNROLL
                for (int e = 0; e < UNDER_WAY; e++) x[e] = first + e * THREADS < length ? f.score(at + first + e * THREADS) : 0;
                MP_UNROLL
                for (int e = 0; e < UNDER_WAY; e++)
                    if (first + e * THREADS < length) f.put(o.p, at + first + e * THREADS, first + e * THREADS, x[e]);
            }
        });
    }
};

template <mp_dtype T> static void run_each(const mp_operands *x, const entropy_gradient<T> &f)
{
    mp_array position = x->in[0], number = x->in[0];
    int64_t step = 1;
    for (int d = position.rank - 1; d >= 0; d--) {
        number.strides[d] = d == 1;
        position.strides[d] = d == 1 ? 0 : step;
        if (d != 1) step *= position.dims[d];
    }
    const mp_array *in[] = {&position, &number};
    const mp_loops loops = mp_loops_of(in, 2, &x->d_in[0]);
    mp_each_placed<entropy_gradient_each<T>::N_OPERANDS>(&loops, entropy_gradient_each<T>{f});
}

/* `room`: a workspace of the layout that s states. */
template <mp_dtype T> static entropy_gradient<T> gradient_of(const state *s, const mp_operands *x, char *room)
{
    const mp_lines *lines = &s->form.lines;
    float *factors = (float *)(room + s->factors_at);
    entropy_gradient<T> f;
    f.all = targets_of(s, x, 1);
    f.dy = mp_operand_of(&x->d_out[0]);
    f.dx = mp_input_gradient(x, 0);
    f.scores = mp_input(x, 0);
    f.given = x->n_out > 1 ? mp_operand_of(&x->d_out[1]) : mp_operand{NULL, MP_DTYPE_FLOAT};
    f.log_sums = mp_operand_of(&x->extra[0]);
    f.softmax = s->form.softmax;
    f.each = s->form.reduction == MP_CLASS_LOSS_NONE;
    f.mean = f.sums = f.all_weights = NULL;
    f.smoothing = (float)s->form.smoothing;
    if (s->form.reduction == MP_CLASS_LOSS_MEAN && f.dy.data) {
        const int labels = all_labels(x);
        const mean_factor sum = {{}, targets_of(s, x, labels), f.dy, factors};
        f.mean = sum.to;
        mp_reduce(all_of(mp_array_elements(&x->in[labels])), sum, room + s->stretches_at);
    }
    if (f.smoothing != 0) {
        const weight_total total = {{}, f.all, factors + 1};
        f.all_weights = total.to;
        mp_rows(1, lines->length, total);
    }
    if (f.given.data) {
        const given_sums sums = {{}, mp_line_places_of(lines), f.given, (float *)(room + s->sums_at)};
        f.sums = sums.to;
        mp_rows_that_lie(!lines->contiguous, lines->n, lines->length, sums);
    }
    return f;
}

template <mp_dtype T> static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    const mp_lines *lines = &s->form.lines;
    const entropy_gradient<T> f = gradient_of<T>(s, x, (char *)x->workspace);
    if (lines->contiguous && (lines->length > MP_SHORT_ROW || lines->n == 1))
        mp_blocks(lines->n, entropy_gradient_lines<T>{mp_line_places_of(lines), lines->length, f});
    else
        run_each(x, f);
    return mp_launched(err);
}

/* ---- forward and backward as one launch. A block computes the loss of a line of scores, then the gradient, while the scores
 * are in the cache. */

template <mp_dtype T> struct entropy_chain {
    enum { THREADS = MP_GRID_THREADS };
    typedef typename entropy_rows<T>::value value;
    struct shared {
        value part[THREADS];
    };
    struct own {
        typename entropy_gradient<T>::position p;
    };
    entropy_rows<T> rows;
    entropy_gradient_lines<T> gradient;
    template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const
    {
        /* sums in the order of mp_rows */
        b.phase([&](int t, shared &s, own &) {
            value mine = rows.none(0);
            for (int64_t c = t; c < gradient.length; c += THREADS) mine = rows.join(0, mine, rows.at(0, k, c, NULL));
            s.part[t] = mine;
        });
        for (int half = THREADS / 2; half; half /= 2)
            b.phase([&](int t, shared &s, own &) {
                if (t < half) s.part[t] = rows.join(0, s.part[t], s.part[t + half]);
            });
        b.phase([&](int t, shared &s, own &) {
            if (t == 0) rows.end(k, s.part);
        });
        gradient.run(k, b);
    }
};

template <mp_dtype T> static mp_status run_chain(const mp_call_chain *chain, mp_error *err)
{
    const mp_operands *loss = chain->links[0].x, *slope = chain->links[1].x;
    const state *s = (const state *)chain->links[0].call->state;
    const mp_lines *lines = &s->form.lines;
    const entropy_gradient<T> f = gradient_of<T>(s, slope, (char *)loss->workspace);
    mp_blocks(lines->n, entropy_chain<T>{rows_of<T>(s, loss), {mp_line_places_of(lines), lines->length, f}});
    add_up(s, loss);
    return mp_launched(err);
}

static mp_status prepare_entropy(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_class_loss form;
    mp_status st = mp_class_loss_read(x, &form, err);
    if (st) return st;
    MP_STATE(state, s, call, err);
    const bool halves = x->in[0].dtype == MP_DTYPE_BFLOAT16;
    const bool sums = x->is_backward ? x->n_out > 1 && x->d_out[1].dtype : form.smoothing != 0;
    s->form = form;
    s->factors_at = x->is_backward ? 0 : mp_aligned(2 * form.lines.n * (int64_t)sizeof(float));
    s->sums_at = s->factors_at + mp_aligned(2 * (int64_t)sizeof(float));
    s->weight_at = s->sums_at + mp_aligned(sums ? form.lines.n * (int64_t)sizeof(float) : 0);
    s->stretches_at = s->weight_at + (all_labels(x) != 1 && !x->is_backward ? mp_aligned((int64_t)sizeof(float)) : 0);
    call->run = x->is_backward ? halves ? run_backward<MP_DTYPE_BFLOAT16> : run_backward<MP_DTYPE_FLOAT>
                : halves ? run_forward<MP_DTYPE_BFLOAT16>
                               : run_forward<MP_DTYPE_FLOAT>;
    call->workspace_bytes =
        s->stretches_at + mp_reduce_workspace_bytes<1, total_loss>(all_of(mp_array_elements(&x->in[all_labels(x)])));
    return MP_OK;
}

static bool takes(mp_call_chain *chain)
{
    const mp_operands *loss = chain->links[0].x, *slope = chain->links[1].x;
    if (chain->n != 2 || loss->op != slope->op || loss->is_backward || !slope->is_backward || slope->adds) return false;
    if (!(loss->op->op->traits & MP_TRAIT_CLASSES)) return false; /* other calls have a different state structure */
    const mp_class_loss *form = &((const state *)chain->links[0].call->state)->form;
    if (!form->softmax || form->smoothing != 0 || form->reduction == MP_CLASS_LOSS_NONE || !loss->extra[0].data ||
        !slope->d_in[0].dtype)
        return false;
    if (loss->n_out > 1 && (loss->out[1].data || slope->d_out[1].dtype)) return false;
    chain->links[1].uses_workspace = false;
    return form->lines.contiguous && form->lines.length > MP_SHORT_ROW;
}

} // namespace

extern "C" mp_call_chain_run mp_cuda_chain_loss(mp_call_chain *chain)
{
    if (!takes(chain)) return NULL;
    return chain->links[0].x->in[0].dtype == MP_DTYPE_BFLOAT16 ? run_chain<MP_DTYPE_BFLOAT16> : run_chain<MP_DTYPE_FLOAT>;
}

extern "C" const mp_kernel mp_cuda_losses[] = {{"SoftmaxCrossEntropyLoss", "", prepare_entropy, prepare_entropy},
                                               {"SoftmaxCrossEntropyPart", "memplan", prepare_entropy, prepare_entropy},
                                               {"NegativeLogLikelihoodLoss", "", prepare_entropy, prepare_entropy},
                                               {}};

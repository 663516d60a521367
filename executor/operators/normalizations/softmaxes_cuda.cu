/* softmaxes_cuda.cu - Softmax, SafeSoftmax, LogSoftmax and Hardmax on the GPU: with several threads per line, or, if there are
 * many lines that are not contiguous, with one thread per line. */
#include "executor/cuda/grid/family.cuh"

#include "executor/kernel/vector_math.h"

namespace
{

enum form { SOFTMAX, SAFE_SOFTMAX, LOG_SOFTMAX, HARDMAX };

struct state {
    mp_lines lines;
    form kind;
};

/* Computes the largest score of a line (the scores that are normalized together) in phase 0, and the sum of e^(score - largest)
 * in phase 1. */
template <form FORM> struct softmax_of {
    struct value {
        float x;
    };
    enum { PHASES = 2 };
    mp_line_places lines;
    mp_operand x, y;
    MP_BODY value none(int phase) const { return value{phase ? 0 : -INFINITY}; }
    MP_BODY value join(int phase, value a, value b) const
    {
        if (phase) return value{a.x + b.x};
        return b.x > a.x ? b : a;
    }
    MP_BODY value at(int phase, int64_t row, int64_t column, const value *totals) const
    {
        const float v = x.load(lines.find(row, column));
        return value{phase ? mp_exp_to_zero(v - totals[0].x) : v};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        const int64_t at = lines.find(row, column);
        const float v = x.load(at);
        if (FORM == SAFE_SOFTMAX && totals[0].x == -INFINITY)
            y.store(at, 0);
        else if (FORM != LOG_SOFTMAX)
            y.store(at, mp_exp_to_zero(v - totals[0].x) * (1 / totals[1].x));
        else
            y.store(at, v - (totals[0].x + logf(totals[1].x)));
    }
    MP_BODY void end(int64_t, const value *) const {}
};

/* Computes the gradient: dx = y (dy - sum(dy y)); for LogSoftmax dx = dy - e^y sum(dy). Sums run over a line, the scores that
 * are normalized together. */
template <form FORM> struct softmax_gradient : mp_sums {
    enum { PHASES = 1 };
    mp_line_places lines;
    mp_operand y, dy, dx;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t at = lines.find(row, column);
        return value{FORM == SOFTMAX ? dy.load(at) * y.load(at) : dy.load(at)};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        const int64_t at = lines.find(row, column);
        const float v = y.load(at), g = dy.load(at);
        dx.store(at, FORM == SOFTMAX ? v * (g - totals[0].x) : g - mp_exp(v) * totals[0].x);
    }
    MP_BODY void end(int64_t, const value *) const {}
};

/* Writes 1 for the first of the largest scores, and 0 for all others. */
struct hardmax_of : mp_largest {
    enum { PHASES = 1 };
    mp_line_places lines;
    mp_operand x, y;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        return value{x.load(lines.find(row, column)), column};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        y.store(lines.find(row, column), column == totals[0].column);
    }
    MP_BODY void end(int64_t, const value *) const {}
};

template <class F> static void run_lines(const state *s, F f)
{
    f.lines = mp_line_places_of(&s->lines);
    mp_rows_that_lie(!s->lines.contiguous, s->lines.n, s->lines.length, f);
}

template <class F> static void run_forward(const state *s, const mp_operands *x, F f)
{
    f.x = mp_input(x, 0);
    f.y = mp_output(x, 0);
    run_lines(s, f);
}

template <class F> static void run_backward(const state *s, const mp_operands *x, F f)
{
    f.y = mp_output(x, 0);
    f.dy = mp_operand_of(&x->d_out[0]);
    f.dx = mp_input_gradient(x, 0);
    run_lines(s, f);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = (const state *)call->state;
    if (x->is_backward && s->kind == LOG_SOFTMAX)
        run_backward(s, x, softmax_gradient<LOG_SOFTMAX>());
    else if (x->is_backward)
        run_backward(s, x, softmax_gradient<SOFTMAX>());
    else if (s->kind == SOFTMAX)
        run_forward(s, x, softmax_of<SOFTMAX>());
    else if (s->kind == SAFE_SOFTMAX)
        run_forward(s, x, softmax_of<SAFE_SOFTMAX>());
    else if (s->kind == LOG_SOFTMAX)
        run_forward(s, x, softmax_of<LOG_SOFTMAX>());
    else
        run_forward(s, x, hardmax_of());
    return mp_launched(err);
}

template <form FORM> static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(state, s, call, err);
    s->lines = mp_softmax_lines(x);
    s->kind = FORM;
    call->run = run;
    return MP_OK;
}

} // namespace

extern "C" const mp_kernel mp_cuda_softmaxes[] = {
    {"Softmax", "", prepare<SOFTMAX>, prepare<SOFTMAX>},
    {"SafeSoftmax", "memplan", prepare<SAFE_SOFTMAX>, prepare<SAFE_SOFTMAX>},
    {"LogSoftmax", "", prepare<LOG_SOFTMAX>, prepare<LOG_SOFTMAX>},
    {"Hardmax", "", prepare<HARDMAX>, NULL},
    {},
};

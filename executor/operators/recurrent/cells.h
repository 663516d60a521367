/* cells.h - one step of LSTM, GRU and RNN cells and their gradients, element by element, for every backend.
 *
 * Matrix products compute the preactivations of the gates without biases. The cells add the biases and compute gates and
 * states. Gates are in ONNX's order: LSTM i, o, f, c; GRU z, r, h. All arrays are contiguous floats: gates (batch, gates,
 * hidden), states (batch, hidden).
 *
 *   LSTM  c = f c' + i g, h = o tanh(c); peepholes add c' to i and f, and c to o
 *   GRU   h = (1 - z) n + z h'; n = tanh(x W + r (h' R + b)) with the product before the reset, else tanh(x W + (r h') R + b)
 *   RNN   h = tanh(x W + h' R)
 *
 * A prime marks the value of the previous step, in the direction of the recurrence. In a row whose sequence has ended, states
 * and their gradients are copied unchanged; the gates have no gradient. */
#pragma once

#include "estimator/rules/operands/recurrent.h"
#include "executor/kernel/vector_math.h"

typedef enum mp_cells_phase {
    MP_CELLS_FORWARD,
    MP_CELLS_FORWARD_CANDIDATE, /* GRU with the product after the reset, second phase of forward: computes h from (r h') R */
    MP_CELLS_BACKWARD,
    /* GRU with the product after the reset, second phase of backward: computes the gradients of r and h' from the gradient
     * of r h' */
    MP_CELLS_BACKWARD_RESET,
    MP_CELLS_STATES_BEFORE, /* phase that sets h' (the state of the previous step) to the initial state in rows whose sequence
                               ends before step t_before */
    MP_CELLS_PEEPHOLES      /* phase that adds the contribution of this time step to d_peepholes */
} mp_cells_phase;

typedef struct mp_cells {
    mp_cells_phase phase;
    mp_cell_kind kind;
    bool
        before_reset; /* true, for a GRU: the product h' R of the candidate gate is computed before the reset gate is applied */
    mp_activation f, g, h_of;
    int64_t batch, hidden;
    const void *lengths; /* number of time steps of each row's sequence; NULL: every sequence has all steps */
    mp_dtype lengths_type;
    int64_t t,
        t_before; /* t: index of this time step; t_before: index of the previous time step in the direction of the recurrence */
    const float *bias; /* the biases of W, then the biases of R, with dimensions (2, gates, hidden) */
    const float *peepholes;
    /* preactivations and gates: forward reads the products from this array, and writes the activated gates of an LSTM or GRU */
    float *gates;
    float *second;   /* LSTM: the cell state c; GRU: h' R + b if before_reset, else r h' (h': the previous state; r: the reset
                        gate) */
    float *c_before; /* c', the cell state of the previous time step; may have the address of c */
    float *h_before;
    float *h;
    float *shown;         /* the output Y: h, or 0 after the end of the sequence; NULL: not written */
    const float *h_first; /* the initial hidden state */
    /* backward only */
    const float *dy; /* gradient of the output Y at this time step */
    float *dh, *dc;  /* on entry: gradients of h and c from later steps; on return: gradients of h' and c', without the
                        contribution of the products */
    float *d_gates;  /* gradients of the preactivations */
    float *d_second; /* GRU: gradient of h' R (previous hidden state times R) if before_reset, else gradient of r h' */
    float *r_h;      /* GRU with the product after the reset: r h', written by backward */
    float *d_peepholes;
} mp_cells;

MP_INLINE float mp_activate(mp_activation a, float x)
{
    return a == MP_ACTIVATION_SIGMOID ? mp_sigmoid(x) : a == MP_ACTIVATION_TANH ? mp_tanh(x) : x > 0 ? x : 0;
}
/* Returns the derivative of an activation, given its value y. */
MP_INLINE float mp_activation_slope(mp_activation a, float y)
{
    return a == MP_ACTIVATION_SIGMOID ? y * (1 - y) : a == MP_ACTIVATION_TANH ? 1 - y * y : y > 0 ? 1.0f : 0.0f;
}

MP_INLINE bool mp_cells_have_ended(const mp_cells *x, int64_t b, int64_t t)
{
    return x->lengths && t >= mp_load_whole(x->lengths, x->lengths_type, b);
}

MP_INLINE void mp_lstm_forward(const mp_cells *x, int64_t b, int64_t j, mp_activation f, mp_activation g, mp_activation h)
{
    const int64_t n = x->hidden, at = b * n + j;
    float *gate = x->gates + b * 4 * n + j;
    const float *w = x->bias + j, *r = w + 4 * n, *p = x->peepholes + j, before = x->c_before[at];
    const float in = mp_activate(f, gate[0] + w[0] + r[0] + p[0] * before);
    const float forget = mp_activate(f, gate[2 * n] + w[2 * n] + r[2 * n] + p[2 * n] * before);
    const float candidate = mp_activate(g, gate[3 * n] + w[3 * n] + r[3 * n]);
    const float c = forget * before + in * candidate;
    const float out = mp_activate(f, gate[n] + w[n] + r[n] + p[n] * c);
    gate[0] = in;
    gate[n] = out;
    gate[2 * n] = forget;
    gate[3 * n] = candidate;
    x->second[at] = c;
    x->h[at] = out * mp_activate(h, c);
}

MP_INLINE void mp_lstm_backward(const mp_cells *x, int64_t b, int64_t j, mp_activation f, mp_activation g, mp_activation h)
{
    const int64_t n = x->hidden, at = b * n + j;
    const float *gate = x->gates + b * 4 * n + j, *p = x->peepholes + j;
    float *d = x->d_gates + b * 4 * n + j;
    const float in = gate[0], out = gate[n], forget = gate[2 * n], candidate = gate[3 * n];
    const float shown = mp_activate(h, x->second[at]), dh = x->dh[at] + x->dy[at];
    const float d_out = dh * shown * mp_activation_slope(f, out);
    const float dc = x->dc[at] + dh * out * mp_activation_slope(h, shown) + d_out * p[n];
    const float d_in = dc * candidate * mp_activation_slope(f, in);
    const float d_forget = dc * x->c_before[at] * mp_activation_slope(f, forget);
    d[0] = d_in;
    d[n] = d_out;
    d[2 * n] = d_forget;
    d[3 * n] = dc * in * mp_activation_slope(g, candidate);
    x->dc[at] = dc * forget + d_in * p[0] + d_forget * p[2 * n];
    x->dh[at] = 0;
}

MP_INLINE void mp_gru_forward(const mp_cells *x, int64_t b, int64_t j, mp_activation f, mp_activation g)
{
    const int64_t n = x->hidden, at = b * n + j;
    float *gate = x->gates + b * 3 * n + j;
    const float *w = x->bias + j, *r = w + 3 * n, before = x->h_before[at];
    const float update = mp_activate(f, gate[0] + w[0] + r[0]), reset = mp_activate(f, gate[n] + w[n] + r[n]);
    gate[0] = update;
    gate[n] = reset;
    if (!x->before_reset) {
        x->second[at] = reset * before;
        return;
    }
    const float product = x->second[at] + r[2 * n], candidate = mp_activate(g, gate[2 * n] + w[2 * n] + reset * product);
    x->second[at] = product;
    gate[2 * n] = candidate;
    x->h[at] = (1 - update) * candidate + update * before;
}

MP_INLINE void mp_gru_candidate(const mp_cells *x, int64_t b, int64_t j, mp_activation g)
{
    const int64_t n = x->hidden, at = b * n + j;
    float *gate = x->gates + b * 3 * n + j;
    const float *w = x->bias + j, update = gate[0];
    const float candidate = mp_activate(g, gate[2 * n] + w[2 * n] + w[5 * n]);
    gate[2 * n] = candidate;
    x->h[at] = (1 - update) * candidate + update * x->h_before[at];
}

MP_INLINE void mp_gru_backward(const mp_cells *x, int64_t b, int64_t j, mp_activation f, mp_activation g)
{
    const int64_t n = x->hidden, at = b * n + j;
    const float *gate = x->gates + b * 3 * n + j, update = gate[0], reset = gate[n], candidate = gate[2 * n];
    float *d = x->d_gates + b * 3 * n + j;
    const float dh = x->dh[at] + x->dy[at], before = x->h_before[at];
    const float d_candidate = dh * (1 - update) * mp_activation_slope(g, candidate);
    d[0] = dh * (before - candidate) * mp_activation_slope(f, update);
    d[2 * n] = d_candidate;
    x->dh[at] = dh * update;
    if (x->before_reset) {
        d[n] = d_candidate * x->second[at] * mp_activation_slope(f, reset);
        x->d_second[at] = d_candidate * reset;
    } else {
        x->r_h[at] = reset * before;
    }
}

MP_INLINE void mp_gru_reset(const mp_cells *x, int64_t b, int64_t j, mp_activation f)
{
    const int64_t n = x->hidden, at = b * n + j;
    const float reset = x->gates[b * 3 * n + n + j], d = x->d_second[at];
    x->d_gates[b * 3 * n + n + j] = d * x->h_before[at] * mp_activation_slope(f, reset);
    x->dh[at] += d * reset;
}

MP_INLINE void mp_rnn_forward(const mp_cells *x, int64_t b, int64_t j, mp_activation f)
{
    const int64_t n = x->hidden, at = b * n + j;
    x->h[at] = mp_activate(f, x->gates[at] + x->bias[j] + x->bias[n + j]);
}

MP_INLINE void mp_rnn_backward(const mp_cells *x, int64_t b, int64_t j, mp_activation f)
{
    const int64_t at = b * x->hidden + j;
    x->d_gates[at] = (x->dh[at] + x->dy[at]) * mp_activation_slope(f, x->h[at]);
    x->dh[at] = 0;
}

/* Computes element j of row b if the row's sequence has ended: states and their gradients are copied; gates and their
 * gradients are 0. */
MP_INLINE void mp_cells_pass(const mp_cells *x, int64_t b, int64_t j)
{
    const int64_t n = x->hidden, at = b * n + j, n_gates = x->kind == MP_CELL_LSTM ? 4 : x->kind == MP_CELL_GRU ? 3 : 1;
    const bool forward = x->phase == MP_CELLS_FORWARD;
    float *gates = forward ? x->gates : x->d_gates;
    if (forward) {
        x->h[at] = x->h_before[at];
        if (x->second) x->second[at] = x->kind == MP_CELL_LSTM ? x->c_before[at] : 0;
    } else if (x->d_second) {
        x->d_second[at] = 0;
    }
    if (!forward && x->r_h) x->r_h[at] = 0;
    for (int64_t k = 0; k < n_gates; k++) gates[(b * n_gates + k) * n + j] = 0;
}

/* Adds the contribution of one time step to element j of the gradients of the peepholes. The gradients of the gates i and f are
 * multiplied by the previous cell state c', the gradient of the gate o by the new cell state c. */
MP_INLINE void mp_cells_peepholes(const mp_cells *x, int64_t j)
{
    const int64_t n = x->hidden;
    float in = 0, out = 0, forget = 0;
    for (int64_t b = 0; b < x->batch; b++) {
        const float *d = x->d_gates + b * 4 * n + j;
        in += d[0] * x->c_before[b * n + j];
        out += d[n] * x->second[b * n + j];
        forget += d[2 * n] * x->c_before[b * n + j];
    }
    x->d_peepholes[j] += in;
    x->d_peepholes[n + j] += out;
    x->d_peepholes[2 * n + j] += forget;
}

/* Computes element j of row b in any phase except MP_CELLS_PEEPHOLES. */
MP_INLINE void mp_cells_element(const mp_cells *x, int64_t b, int64_t j)
{
    if (x->phase == MP_CELLS_STATES_BEFORE) {
        if (mp_cells_have_ended(x, b, x->t_before)) x->h_before[b * x->hidden + j] = x->h_first[b * x->hidden + j];
        return;
    }
    const bool ended = mp_cells_have_ended(x, b, x->t);
    if (ended && (x->phase == MP_CELLS_FORWARD || x->phase == MP_CELLS_BACKWARD))
        mp_cells_pass(x, b, j);
    else if (ended)
        ;
    else if (x->phase == MP_CELLS_FORWARD_CANDIDATE)
        mp_gru_candidate(x, b, j, x->g);
    else if (x->phase == MP_CELLS_BACKWARD_RESET)
        mp_gru_reset(x, b, j, x->f);
    else if (x->kind == MP_CELL_LSTM && x->phase == MP_CELLS_FORWARD)
        mp_lstm_forward(x, b, j, x->f, x->g, x->h_of);
    else if (x->kind == MP_CELL_LSTM)
        mp_lstm_backward(x, b, j, x->f, x->g, x->h_of);
    else if (x->kind == MP_CELL_GRU && x->phase == MP_CELLS_FORWARD)
        mp_gru_forward(x, b, j, x->f, x->g);
    else if (x->kind == MP_CELL_GRU)
        mp_gru_backward(x, b, j, x->f, x->g);
    else if (x->phase == MP_CELLS_FORWARD)
        mp_rnn_forward(x, b, j, x->f);
    else
        mp_rnn_backward(x, b, j, x->f);
    if (x->shown) x->shown[b * x->hidden + j] = ended ? 0 : x->h[b * x->hidden + j];
}

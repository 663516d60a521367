/* recurrence.h - a recurrent layer (LSTM, GRU, RNN) as matrix products and cells, in blocks of time steps, for every backend.
 *
 * Forward, for each direction and block: one product computes X W^T of all steps, written directly to the reserve (the tensors
 * that forward saves for backward) if the reserve stores the gates. Then each step adds h' R^T to its gates and runs the cells
 * (cells.h). Backward: each step runs the cells' gradients and dh' += dG R. Then products over the whole block compute dX +=
 * dG W, dW += dG^T X, dR += dG^T H', and, with a row of ones, the biases' gradients. Blocks limit the workspace of backward:
 * dG has about MP_RECURRENT_ROWS rows at a time instead of the rows of all time steps.
 *
 * Operands that are not contiguous floats (bfloat16, layout = 1, one of two directions) are copied to the workspace and back,
 * X and Y block by block. All products multiply matrices of floats.
 *
 * The sizes alone determine the order of all sums. O(steps batch gates hidden (input + hidden)). */
#pragma once

#include "executor/operators/products/stacks.h"
#include "executor/operators/recurrent/cells.h"

/* Approximate number of rows (steps times batch) per block. */
enum { MP_RECURRENT_ROWS = 256 };

/* The matrix products. Products over the rows of a block exist twice: for a whole block, and (_REST) for the shorter last
 * block. "most" stands for the gates that the first product with R computes: z and r of a GRU, all gates of an LSTM or RNN.
 * _N: the GRU's candidate. */
typedef enum mp_recurrent_product {
    MP_X_W, /* gates = X W^T */
    MP_X_W_REST,
    MP_H_R,   /* forward: gates of a step += h' R^T, where h' is the previous hidden state; for a GRU only the gates z and r */
    MP_H_R_N, /* GRU, candidate gate: second = h' R^T; with the product after the reset: gates += (r h') R^T */
    MP_G_R,   /* backward: dh' += dG R, where dG are the gradients of the gates; for a GRU only the gates z and r */
    MP_G_R_N, /* GRU, candidate gate: dh' += d_second R; with the product after the reset: d_second = dG R */
    MP_G_W,   /* dX += dG W */
    MP_G_W_REST,
    MP_G_X, /* dW += dG^T X */
    MP_G_X_REST,
    MP_G_H, /* gradient of R: dR += dG^T H', where H' are the previous hidden states; for a GRU only the gates z and r */
    MP_G_H_REST,
    MP_G_H_N, /* GRU, candidate gate: dR += d_second^T H'; with the product after the reset: dR += dG^T (r H') */
    MP_G_H_N_REST,
    MP_ONES, /* gradients of the biases: dB += 1^T dG, the column sums of dG; for a GRU only the gates z and r */
    MP_ONES_REST,
    MP_ONES_N, /* GRU, candidate gate, bias of W: dB += 1^T dG, the column sums */
    MP_ONES_N_REST,
    MP_ONES_S, /* GRU, candidate gate, bias of R: dB += 1^T d_second; with the product after the reset: dB += 1^T dG */
    MP_ONES_S_REST,
    MP_N_RECURRENT_PRODUCTS
} mp_recurrent_product;

/* The arrays in the workspace. Each holds data of one time step, of one block, or of one direction. A call needs only some of
 * the arrays. */
typedef enum mp_recurrent_room {
    MP_ROOM_X, /* per block */
    MP_ROOM_W, /* W of one direction; the arrays R, BIAS and PEEPHOLES are also per direction */
    MP_ROOM_R,
    MP_ROOM_BIAS,
    MP_ROOM_PEEPHOLES,
    MP_ROOM_GATES,   /* the gates of one block, if the reserve (saved for backward) does not store them */
    MP_ROOM_SECOND,  /* the second products (mp_cells.second) of one time step, if the reserve (saved for backward) does not
                        store them */
    MP_ROOM_STATES,  /* the hidden states h of one block, and of the step before it */
    MP_ROOM_SHOWN,   /* the output Y of one block, if the sequences have different lengths */
    MP_ROOM_H_FIRST, /* initial h of one direction; the arrays C_FIRST, DH and DC are also per direction */
    MP_ROOM_C_FIRST,
    MP_ROOM_DH,
    MP_ROOM_DC,
    MP_ROOM_DY, /* gradient of Y for one block; the arrays D_GATES to ONES are also per block */
    MP_ROOM_D_GATES,
    /* gradients of mp_cells.second: of one block, or of one time step if the product is computed after the reset */
    MP_ROOM_D_SECOND,
    MP_ROOM_R_H,
    MP_ROOM_DX,
    MP_ROOM_ONES,
    /* gradient of W for one direction, needed if the operand's gradient is not contiguous floats; DR, DB and DP likewise */
    MP_ROOM_DW,
    MP_ROOM_DR,
    MP_ROOM_DB,
    MP_ROOM_DP,
    MP_ROOM_PRODUCTS, /* workspace of the library that computes the products */
    MP_N_RECURRENT_ROOMS
} mp_recurrent_room;

typedef struct mp_recurrence {
    mp_recurrent sizes;
    mp_cell cell;
    mp_reserve reserve;
    int64_t gates; /* number of gates: LSTM 4, GRU 3, RNN 1 */
    int64_t most;  /* number of gates that the first product with R computes: GRU 2, LSTM and RNN all */
    int64_t steps,
        rest; /* steps: time steps per whole block; rest: time steps of the shorter last block, 0: all blocks are whole */
    int64_t n_blocks;
    bool after_reset; /* true, for a GRU: the candidate gate's product with R is computed after the reset gate is applied: (r
                         h') R */
    int64_t at[MP_N_RECURRENT_ROOMS]; /* offsets of the arrays in the workspace; -1: this call does not need the array */
    int64_t product_bytes;            /* bytes of the largest workspace that a product needs */
} mp_recurrence;

/* The functions with which a backend runs a recurrent layer. Their work runs in the order of the calls. */
typedef struct mp_recurrent_engine {
    /* Prepares product k: c = a b, or c += a b if add. Sets *bytes to the workspace that the product needs. */
    mp_status (*prepare)(const mp_operands *x, void *state, mp_recurrent_product k, const mp_stacks *stacks, bool add,
                         int64_t *bytes, mp_error *err);
    mp_status (*multiply)(const mp_operands *x, void *state, mp_recurrent_product k, const float *a, const float *b, float *c,
                          void *workspace, mp_error *err);
    void (*cells)(const mp_cells *cells);
    /* Copies each element of `from` to the same index of `to`, converted to the type of `to`. With `add`, adds the element to
     * the element of `to` instead. */
    void (*copy)(const mp_array *from, const mp_array *to, bool add);
    void (*fill)(float *to, int64_t n, float value);
    void (*zero)(const mp_array *a);
} mp_recurrent_engine;

/* Prepares a call of a recurrent layer. The state of the call has `bytes` bytes and begins with an mp_recurrence. This state is
 * passed to the engine's functions. The caller sets call->run and call->release. MP_UNSUPPORTED: the message names the part
 * without a kernel; MP_INVALID: the workspace is too large; MP_NOMEM. */
mp_status mp_recurrence_prepare(const mp_operands *x, const mp_recurrent_engine *engine, size_t bytes, mp_call *call,
                                mp_error *err);

/* Computes the requested outputs and the reserve, or the requested gradients. Gradients whose bit is set in x->adds are
 * accumulated. `state` is passed to the engine's functions. Errors: those of the engine. */
mp_status mp_recurrence_run(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                            mp_error *err);

/* ---- views of parts of the operands, and arrays in the workspace. */

/* Returns the part of `a` that starts at element `from`, with sizes `dims` and strides `strides`; its data is NULL if the data
 * of `a` is NULL. */
mp_array mp_part_of(const mp_array *a, int64_t from, int rank, const int64_t *dims, const int64_t *strides);
/* Returns time steps [t, t + n) of X or its gradient, as (step, batch, input). */
mp_array mp_steps_of_input(const mp_recurrence *r, const mp_array *x, int64_t t, int64_t n);
/* Returns time steps [t, t + n) of direction d of Y or its gradient, as (step, batch, hidden). */
mp_array mp_steps_of_output(const mp_recurrence *r, const mp_array *y, int d, int64_t t, int64_t n);
/* Returns direction d of a state (first or last h and c, and their gradients), as (batch, hidden). */
mp_array mp_state_of(const mp_recurrence *r, const mp_array *state, int d);
/* Returns direction d of W, R, B or P, without the dimension of directions. */
mp_array mp_direction_of(const mp_array *a, int d);
/* Returns the floats at address `data` as a row-major array with dimensions `dims`. */
mp_array mp_floats_at(float *data, int rank, const int64_t *dims);
/* True if an array is FLOAT and row-major without gaps. */
bool mp_is_floats(const mp_array *a);

/* mp_given returns operand i; NULL: it is absent. mp_asked returns the gradient of operand i; NULL: it is not requested. */
const mp_array *mp_given(const mp_operands *x, int i);
const mp_array *mp_asked(const mp_operands *x, int i);

static inline float *mp_room(const mp_recurrence *r, const mp_operands *x, mp_recurrent_room k)
{
    return r->at[k] < 0 ? NULL : (float *)((char *)x->workspace + r->at[k]);
}

/* True if direction d runs from the last time step to the first. */
static inline bool mp_runs_back(const mp_recurrence *r, int d)
{
    return d == 1 || r->cell.starts_reversed;
}

/* Indices of the operands of LSTM, GRU and RNN. */
enum {
    MP_RECURRENT_X,
    MP_RECURRENT_W,
    MP_RECURRENT_R,
    MP_RECURRENT_B,
    MP_RECURRENT_LENGTHS,
    MP_RECURRENT_H,
    MP_RECURRENT_C, /* initial c, for LSTM only; the following operand (peepholes) is for LSTM only, too */
    MP_RECURRENT_P
};

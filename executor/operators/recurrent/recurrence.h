/* recurrence.h - a recurrent layer as products and cells, in blocks of time steps: the same for every backend.
 *
 * Forward, for each direction: X W^T of a block of steps in one product, which puts the gates where backward finds them; then
 * step by step h' R^T, added to the step's gates, and the cells (cells.h). Backward the same way round: step by step the cells'
 * gradients and dh' = dG R, then for the whole block dX = dG W, dW += dG^T X, dR += dG^T H', and the biases' as a product with
 * ones. Blocks keep what backward needs besides small: dG of MP_RECURRENT_ROWS rows, not of all steps.
 *
 * What does not lie as contiguous floats (bfloat16, layout = 1, one direction of two) is copied to the workspace and back, a
 * block at a time. All products are of matrices of floats.
 *
 * The order of all sums is fixed by the sizes alone. O(steps batch gates hidden (input + hidden)).
 */
#pragma once

#include "executor/operators/products/stacks.h"
#include "executor/operators/recurrent/cells.h"

/* Rows (steps times batch) of a block, about. */
enum { MP_RECURRENT_ROWS = 256 };

/* The products. Those that stand twice are over the rows of a block: of a whole one, and of what the last one has left. `most`:
 * the gates that h' meets in one product: of a GRU two, of the others all. */
typedef enum mp_recurrent_product {
    MP_X_W, /* gates = X W^T */
    MP_X_W_REST,
    MP_H_R,   /* gates of a step += h' R^T, most */
    MP_H_R_N, /* GRU: the same of its candidate: to `second`; after the reset r h' R^T, added */
    MP_G_R,   /* dh' += dG R, most */
    MP_G_R_N, /* GRU: dh' += d_second R; after the reset d_second = dG R */
    MP_G_W,   /* dX += dG W */
    MP_G_W_REST,
    MP_G_X, /* dW += dG^T X */
    MP_G_X_REST,
    MP_G_H, /* dR += dG^T H', most */
    MP_G_H_REST,
    MP_G_H_N, /* GRU: dR += d_second^T H'; after the reset dG^T (r H') */
    MP_G_H_N_REST,
    MP_ONES, /* dB += 1^T dG, most */
    MP_ONES_REST,
    MP_ONES_N, /* GRU: the same of its candidate */
    MP_ONES_N_REST,
    MP_ONES_S, /* GRU before the reset: 1^T d_second */
    MP_ONES_S_REST,
    MP_N_RECURRENT_PRODUCTS
} mp_recurrent_product;

/* What lies in the workspace. */
typedef enum mp_recurrent_room {
    MP_ROOM_X, /* of a block */
    MP_ROOM_W, /* of a direction, like the next two */
    MP_ROOM_R,
    MP_ROOM_BIAS,
    MP_ROOM_PEEPHOLES,
    MP_ROOM_GATES,   /* of a block, where there is no reserve */
    MP_ROOM_SECOND,  /* of a step */
    MP_ROOM_STATES,  /* of a block and the step before it */
    MP_ROOM_SHOWN,   /* of a block: the output, where sequences end */
    MP_ROOM_H_FIRST, /* of a direction, like the next three */
    MP_ROOM_C_FIRST,
    MP_ROOM_DH,
    MP_ROOM_DC,
    MP_ROOM_DY, /* of a block, like the next four */
    MP_ROOM_D_GATES,
    MP_ROOM_D_SECOND,
    MP_ROOM_R_H,
    MP_ROOM_DX,
    MP_ROOM_ONES,
    MP_ROOM_DW, /* of a direction, where they are not summed in their place */
    MP_ROOM_DR,
    MP_ROOM_DB,
    MP_ROOM_DP,
    MP_ROOM_PRODUCTS, /* the library's */
    MP_N_RECURRENT_ROOMS
} mp_recurrent_room;

typedef struct mp_recurrence {
    mp_recurrent sizes;
    mp_cell cell;
    mp_reserve reserve;
    int64_t gates;       /* how many: 4, 3, 1 */
    int64_t most;        /* of them in the first product with R */
    int64_t steps, rest; /* of a whole block; of what is left over, 0: nothing */
    int64_t n_blocks;
    bool after_reset;                 /* GRU: the product with R comes behind the reset gate */
    int64_t at[MP_N_RECURRENT_ROOMS]; /* -1: none */
    int64_t product_bytes;            /* the most that the library takes for a product */
} mp_recurrence;

/* What a backend provides. All is float; what is enqueued runs in order. */
typedef struct mp_recurrent_engine {
    /* Prepares product k, c = a b, or added to c; *bytes: of workspace. */
    mp_status (*prepare)(const mp_operands *x, void *state, mp_recurrent_product k, const mp_stacks *stacks, bool add,
                         int64_t *bytes, mp_error *err);
    mp_status (*multiply)(const mp_operands *x, void *state, mp_recurrent_product k, const float *a, const float *b, float *c,
                          void *workspace, mp_error *err);
    void (*cells)(const mp_cells *cells);
    /* To the same indices of `to`, converted; added to what is there. */
    void (*copy)(const mp_array *from, const mp_array *to, bool add);
    void (*fill)(float *to, int64_t n, float value);
    void (*zero)(const mp_array *a);
} mp_recurrent_engine;

/* A call's state of `bytes`, which begins with an mp_recurrence and is what the engine's functions get; call->run and
 * call->release are the backend's. MP_UNSUPPORTED names what is not computed here; MP_NOMEM. */
mp_status mp_recurrence_prepare(const mp_operands *x, const mp_recurrent_engine *engine, size_t bytes, mp_call *call,
                                mp_error *err);

/* Outputs and reserve, or gradients, as they are asked for; gradients are added where x->adds says so. `state` is what the
 * engine's functions get. Fails as they do. */
mp_status mp_recurrence_run(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                            mp_error *err);

/* ---- where its operands lie: parts of them as arrays, and rooms of the workspace. */

/* A part of a, `rank` dimensions of these sizes and strides, from element `from` on; without data where a has none. */
mp_array mp_part_of(const mp_array *a, int64_t from, int rank, const int64_t *dims, const int64_t *strides);
/* Steps [t, t + n) of X or its gradient, in the order (step, batch, input). */
mp_array mp_steps_of_input(const mp_recurrence *r, const mp_array *x, int64_t t, int64_t n);
/* Steps [t, t + n) of direction d of Y or its gradient, as (step, batch, hidden). */
mp_array mp_steps_of_output(const mp_recurrence *r, const mp_array *y, int d, int64_t t, int64_t n);
/* Direction d of a state (first or last h and c, and their gradients), as (batch, hidden). */
mp_array mp_state_of(const mp_recurrence *r, const mp_array *state, int d);
/* Direction d of W, R, B or P, as it lies behind that dimension. */
mp_array mp_direction_of(const mp_array *a, int d);
/* Contiguous floats of these dimensions. */
mp_array mp_floats_at(float *data, int rank, const int64_t *dims);
/* Whether they lie as contiguous floats. */
bool mp_is_floats(const mp_array *a);

/* Operand i, its gradient; NULL: left out, or not asked for. */
const mp_array *mp_given(const mp_operands *x, int i);
const mp_array *mp_asked(const mp_operands *x, int i);

static inline float *mp_room(const mp_recurrence *r, const mp_operands *x, mp_recurrent_room k)
{
    return r->at[k] < 0 ? NULL : (float *)((char *)x->workspace + r->at[k]);
}

/* Whether direction d runs from the last step to the first. */
static inline bool mp_runs_back(const mp_recurrence *r, int d)
{
    return d == 1 || r->cell.starts_reversed;
}

/* The operands by their numbers. */
enum {
    MP_RECURRENT_X,
    MP_RECURRENT_W,
    MP_RECURRENT_R,
    MP_RECURRENT_B,
    MP_RECURRENT_LENGTHS,
    MP_RECURRENT_H,
    MP_RECURRENT_C, /* LSTM only, like the next one */
    MP_RECURRENT_P
};

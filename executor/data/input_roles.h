/* input_roles.h - what the numbers of an input mean to the network, and so what synthetic data may be.
 *
 * Uniform numbers break a network that takes masks, positions or row numbers: a row of attention of which nothing is left is
 * no number, a row number beyond its table is none at all. What an input is follows from use: it is followed through all that
 * passes its elements on (views, casts, slices, joins), and through arithmetic, which is tried on 0 and 1, to what finally
 * reads it. Where use leaves it open, the exporter's name decides. The first that applies:
 *
 *   1. compared by a loss: a target
 *   2. counts along an axis of a tensor, directly or after arithmetic (x + 2, 64 x): below that axis's size; ids, or positions
 *      if the name of the input or of the table says so
 *   3. how many time steps are looked at: a length, all of them
 *   4. chooses what is replaced by a single number, or adds a very negative number: a mask, open
 *   5. whole numbers that become an angle (rotary and sinusoid tables): positions
 *   6. whole numbers that activations are multiplied by: a mask, open
 *   7. called like a mask: that; whole numbers that are called like positions are those before rule 3
 *   8. otherwise: plain numbers
 */
#pragma once

#include "estimator/model/order.h"

typedef enum mp_input_kind {
    MP_INPUT_PLAIN,     /* floats uniform in [-1, 1); whole numbers and truth values 0 and 1 */
    MP_INPUT_TARGET,    /* of the loss: below n_values, or plain */
    MP_INPUT_IDS,       /* below n_values */
    MP_INPUT_POSITIONS, /* 0, 1, 2 ... along the last dimension, below n_values if that is not 0 */
    MP_INPUT_LENGTHS,   /* `fixed` everywhere: all time steps; legal are 0 .. n_values - 1 */
    MP_INPUT_MASK       /* `fixed` everywhere: open */
} mp_input_kind;
const char *mp_input_kind_name(mp_input_kind kind); /* "ids" */

typedef struct mp_input_role {
    mp_input_kind kind;
    int64_t n_values; /* whole numbers: legal are 0 .. n_values - 1; 0: any */
    double fixed;
    int op; /* the operator that decides; -1: none, a name did or nothing */
} mp_input_role;

/* Of a tensor from outside, in a model that is inferred. MP_NOMEM. O(operators that its elements reach). */
mp_status mp_input_role_of(const mp_model *model, const mp_consumers *consumers, int tensor, mp_input_role *out, mp_error *err);

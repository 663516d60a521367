/* input_roles.h - finds what the numbers of an input mean to the network, and so what synthetic data may be.
 *
 * Uniform numbers break a network that takes masks, positions or indices: a row of attention that is masked completely gives
 * NaN, an index beyond its table cannot be read. The role of an input follows from its use: its elements are followed through
 * all operators that pass them on (views, casts, slices, joins), and through arithmetic, which is evaluated on 0 and 1, to what
 * finally reads them. Where use leaves it open, the exporter's name decides. The first rule that applies:
 *
 * 1. compared by a loss: a target
 * 2. index along an axis of a tensor, directly or after arithmetic (x + 2, 64 x): below that axis's size; ids, or positions
 * if the name of the input or of the table says so
 * 3. number of time steps that are read: a length, all of them
 * 4. selects what is replaced by a single number, or adds a very negative number: a mask, open
 * 5. whole numbers that become an angle (rotary and sinusoid tables): positions
 * 6. whole numbers that activations are multiplied by: a mask, open
 * 7. named like a mask: a mask; whole numbers that are named like positions become positions before rule 3
 * 8. otherwise: plain numbers */
#pragma once

#include "estimator/model/order.h"

typedef enum mp_input_kind {
    MP_INPUT_PLAIN,     /* floats uniform in [-1, 1); whole numbers and truth values are 0 and 1 */
    MP_INPUT_TARGET,    /* target of the loss: in [0, n_values), or plain */
    MP_INPUT_IDS,       /* in [0, n_values) */
    MP_INPUT_POSITIONS, /* 0, 1, 2 ... along the last dimension, in [0, n_values) if n_values is not 0 */
    MP_INPUT_LENGTHS,   /* all are `fixed`, the number of all time steps; valid are [0, n_values) */
    MP_INPUT_MASK       /* all are `fixed`, which leaves the mask open */
} mp_input_kind;
const char *mp_input_kind_name(mp_input_kind kind); /* "ids" */

typedef struct mp_input_role {
    mp_input_kind kind;
    int64_t n_values; /* whole numbers are valid in [0, n_values); 0: all are */
    double fixed;
    int op; /* the operator that decides the role; -1: none, a name decided or no rule applied */
} mp_input_role;

/* Finds the role of an input tensor in an inferred model. MP_NOMEM. O(operators that its elements reach). */
mp_status mp_input_role_of(const mp_model *model, const mp_consumers *consumers, int tensor, mp_input_role *out, mp_error *err);

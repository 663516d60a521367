/* input_roles.h - finds the role of each network input (token ids, mask, positions, ...) from its use in the network.
 * Synthetic data is then generated to match the role.
 *
 * Uniform numbers break a network whose inputs are masks, positions or indices. An attention row that is masked completely
 * gives NaN, and an index beyond its table cannot be read. The role of an input follows from its use. Its elements are traced
 * through operators that pass them on (views, casts, slices, joins), and through arithmetic, which is evaluated for 0 and 1,
 * to the operator that finally uses them. If the use does not decide, the exporter's name for the input does. The first
 * matching rule applies:
 *
 *   1. a loss compares the input with its prediction: a target
 *   2. index along an axis of a tensor, directly or after arithmetic (x + 2, 64 x): integers below the axis's size; ids, or
 *      positions if the name of the input or of the table says so
 *   3. number of time steps to read: a length, set to all time steps
 *   4. selects elements that a single number replaces, or adds a very negative number: a mask, whose values mask nothing
 *   5. integers that become an angle (rotary and sinusoid tables): positions
 *   6. integers that multiply activations: a mask, whose values mask nothing
 *   7. a name like a mask: a mask; integers with a name like positions become positions already before rule 3
 *   8. otherwise: plain numbers */
#pragma once

#include "estimator/model/order.h"

typedef enum mp_input_kind {
    MP_INPUT_PLAIN,     /* plain numbers: floats uniform in [-1, 1); integers and booleans are 0 and 1 */
    MP_INPUT_TARGET,    /* target of the loss: classes in [0, n_values), or, if n_values is 0, plain numbers */
    MP_INPUT_IDS,       /* ids, such as token numbers: integers in [0, n_values) */
    MP_INPUT_POSITIONS, /* positions: 0, 1, 2 ... along the last dimension, in [0, n_values) if n_values is not 0 */
    /* numbers of time steps: all elements are `fixed`, the number of all time steps; values in [0, n_values) are valid */
    MP_INPUT_LENGTHS,
    MP_INPUT_MASK /* a mask: all elements are `fixed`, the value that masks nothing */
} mp_input_kind;
const char *mp_input_kind_name(mp_input_kind kind); /* "ids" */

typedef struct mp_input_role {
    mp_input_kind kind;
    int64_t n_values; /* integers in [0, n_values) are valid values of the input; n_values 0: all integers are valid */
    double fixed;
    int op; /* the operator that decides the role; -1: a name decides, or no rule applies */
} mp_input_role;

/* Finds the role of an input tensor in an inferred model. MP_NOMEM. O(operators reached by the trace). */
mp_status mp_input_role_of(const mp_model *model, const mp_consumers *consumers, int tensor, mp_input_role *out, mp_error *err);

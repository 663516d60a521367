/* shapes_recurrent.c - shapes of LSTM, GRU and RNN as whole operators.
 *
 *     X (steps, batch, input)   W (directions, gates * hidden, input)   R (directions, gates * hidden, hidden)
 *     B (directions, 2 * gates * hidden)   sequence_lens (batch)   initial_h, initial_c (directions, batch, hidden)
 *     P, the LSTM's peepholes (directions, 3 * hidden)
 *     -> Y (steps, directions, batch, hidden)   Y_h, Y_c (directions, batch, hidden)
 *
 * With layout = 1 the batch comes first: X (batch, steps, input), Y (batch, steps, directions, hidden), states (batch,
 * directions, hidden).
 */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"
#include "estimator/rules/operands/recurrent.h"

/* Input k, if it is there, has exactly these dimensions. */
static mp_status check(mp_infer *c, int k, int rank, const int64_t *dims)
{
    const mp_tensor *t;
    char is[MP_SHAPE_TEXT], should_be[MP_SHAPE_TEXT];
    if (!mp_infer_in(c, k)) return MP_OK;
    MP_CHECK(mp_rule_input(c, k, rank, rank, &t));
    MP_FIT(!memcmp(t->dims, dims, (size_t)rank * sizeof *dims), "'%s' is %s and should be %s", t->name,
           mp_rule_shape_text(t->dims, rank, is), mp_rule_shape_text(dims, rank, should_be));
    return MP_OK;
}

static mp_status recurrent(mp_infer *c, int64_t gates)
{
    const mp_tensor *x, *t;
    MP_CHECK(mp_rule_input(c, 0, 3, 3, &x));
    MP_CHECK(mp_rule_input(c, 1, 3, 3, &t));
    MP_CHECK(mp_rule_input(c, 2, 3, 3, &t));
    const char *direction = mp_operator_text(c->op, "direction", "forward");
    bool both = !strcmp(direction, "bidirectional");
    MP_FIT(both || !strcmp(direction, "forward") || !strcmp(direction, "reverse"), "direction '%s' is not known", direction);

    mp_recurrent r = mp_recurrent_read(c->model, c->op);
    int64_t n = both ? 2 : 1, hidden = mp_operator_int(c->op, "hidden_size", r.hidden), rows, biases;
    MP_FIT(hidden >= 1 && mp_multiply(hidden, gates, &rows) && mp_multiply(2, rows, &biases),
           "a hidden size of %" PRId64 " is out of range", hidden);
    const int64_t states[3] = {r.batch_first ? r.batch : n, r.batch_first ? n : r.batch, hidden};
    MP_CHECK(check(c, 1, 3, (int64_t[]){n, rows, r.input}));
    MP_CHECK(check(c, 2, 3, (int64_t[]){n, rows, hidden}));
    MP_CHECK(check(c, 3, 2, (int64_t[]){n, biases}));
    MP_CHECK(check(c, 4, 1, (int64_t[]){r.batch}));
    MP_CHECK(check(c, 5, 3, states));
    MP_CHECK(check(c, 6, 3, states));
    MP_CHECK(check(c, 7, 2, (int64_t[]){n, 3 * hidden}));
    MP_CHECK(
        mp_infer_set(c, 0, x->dtype, 4,
                     r.batch_first ? (int64_t[]){r.batch, r.n_steps, n, hidden} : (int64_t[]){r.n_steps, n, r.batch, hidden}));
    for (int k = 1; k < c->op->n_out; k++) MP_CHECK(mp_infer_set(c, k, x->dtype, 3, states));
    return MP_OK;
}

mp_status mp_shape_lstm(mp_infer *c)
{
    return recurrent(c, 4);
}
mp_status mp_shape_gru(mp_infer *c)
{
    return recurrent(c, 3);
}
mp_status mp_shape_rnn(mp_infer *c)
{
    return recurrent(c, 1);
}

/* recurrent.c - reads the sizes of recurrent layers from X and R, and the computation of their cells from the attributes. */
#include "estimator/rules/operands/recurrent.h"

#include <string.h>

mp_recurrent mp_recurrent_read(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *x = mp_operator_in(model, op, 0), *r = mp_operator_in(model, op, 2);
    bool batch_first = mp_operator_int(op, "layout", 0) != 0;
    return (mp_recurrent){.n_steps = x->dims[batch_first ? 1 : 0],
                          .batch = x->dims[batch_first ? 0 : 1],
                          .input = x->dims[2],
                          .n_directions = r->dims[0],
                          .hidden = r->dims[2],
                          .gates = r->dims[2] > 0 ? r->dims[1] / r->dims[2] : 0,
                          .batch_first = batch_first};
}

static mp_cell_kind kind_of(const mp_operator *op)
{
    return !strcmp(op->kind, "LSTM") ? MP_CELL_LSTM : !strcmp(op->kind, "GRU") ? MP_CELL_GRU : MP_CELL_RNN;
}

int64_t mp_cell_gates(const mp_operator *op)
{
    static const int64_t gates[] = {[MP_CELL_LSTM] = 4, [MP_CELL_GRU] = 3, [MP_CELL_RNN] = 1};
    return gates[kind_of(op)];
}

mp_reserve mp_reserve_of(const mp_model *model, const mp_operator *op)
{
    const mp_cell_kind kind = kind_of(op);
    const bool before_reset = mp_operator_int(op, "linear_before_reset", 0) != 0;
    return (mp_reserve){.gates = kind == MP_CELL_RNN ? 0 : mp_cell_gates(op),
                        .seconds = kind == MP_CELL_LSTM || (kind == MP_CELL_GRU && before_reset),
                        .states = !mp_operator_out(model, op, 0)};
}

/* Returns the activation whose name is the first `n` characters of the text; -1: not supported. */
static int activation_of(const char *text, size_t n)
{
    static const char *const names[] = {"Sigmoid", "Tanh", "Relu"};
    for (int k = 0; k < 3; k++)
        if (strlen(names[k]) == n && !strncmp(names[k], text, n)) return k;
    return -1;
}

/* Reads a comma-separated list of names: `n_each` activations of the first direction, then of the second. Returns false if a
 * name is unknown. */
static bool read_activations(const char *text, int n_each, mp_cell *out)
{
    for (int k = 0; *text && k < 2 * n_each; k++) {
        const size_t n = strcspn(text, ",");
        const int found = activation_of(text, n);
        if (found < 0) return false;
        out->activations[k / n_each][k % n_each] = (mp_activation)found;
        text += n + (text[n] == ',');
    }
    return !*text;
}

const char *mp_cell_read(const mp_operator *op, mp_cell *out)
{
    static const mp_activation gated[3] = {MP_ACTIVATION_SIGMOID, MP_ACTIVATION_TANH, MP_ACTIVATION_TANH};
    const mp_cell_kind kind = kind_of(op);
    *out = (mp_cell){.kind = kind,
                     .linear_before_reset = mp_operator_int(op, "linear_before_reset", 0) != 0,
                     .starts_reversed = !strcmp(mp_operator_text(op, "direction", "forward"), "reverse")};
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < 3; k++) out->activations[d][k] = kind == MP_CELL_RNN ? MP_ACTIVATION_TANH : gated[k];
    if (mp_operator_float(op, "clip", 0) > 0) return "clipping its gates ('clip')";
    if (mp_operator_int(op, "input_forget", 0)) return "coupling input and forget gate ('input_forget')";
    if (!read_activations(mp_operator_text(op, "activations", ""), kind == MP_CELL_LSTM ? 3 : kind == MP_CELL_GRU ? 2 : 1, out))
        return "an activation other than Sigmoid, Tanh and Relu";
    return NULL;
}

/* initialise.c - draws the first values of a parameter by the rule that its first reader asks for. */
#include "executor/data/initialise.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimator/model/ops.h"
#include "executor/kernel/philox.h"

static bool transposes(const mp_operator *op, int operand)
{
    return mp_operator_int(op, operand ? "transB" : "transA", 0) != 0;
}

/* What the first operator that reads a tensor asks for. *seen is the tensor in the shape in which that operator reads it: views
 * and transpositions are looked through. */
static mp_initial initial_of(const mp_model *model, const mp_consumers *consumers, int tensor, const mp_operator **reader,
                             int *seen)
{
    mp_initial found = MP_INITIAL_THROUGH;
    *seen = tensor;
    for (int hops = 0; hops < 8 && found == MP_INITIAL_THROUGH; hops++) {
        found = MP_INITIAL_SMALL;
        if (consumers->start[*seen] == consumers->start[*seen + 1]) break;
        const mp_operator *op = *reader = &model->operators[consumers->list[consumers->start[*seen]]];
        for (int i = op->n_in - 1; i >= 0; i--) {
            mp_initial own = mp_op_input_of(op->op, i).initial;
            if (op->in[i] == *seen && own > MP_INITIAL_SMALL) found = own;
        }
        if (found == MP_INITIAL_THROUGH) *seen = op->out[0];
    }
    return found == MP_INITIAL_THROUGH ? MP_INITIAL_SMALL : found;
}

static double fan_in(const mp_tensor *t, mp_initial initial, const mp_operator *reader)
{
    if (initial == MP_INITIAL_FILTER) return (double)mp_product(t->dims, 1, t->rank);
    if (t->rank < 2) return t->rank ? (double)t->dims[0] : 1;
    bool right = initial == MP_INITIAL_RIGHT_MATRIX, transposed = transposes(reader, right);
    int rows = t->rank - 2, columns = t->rank - 1;
    return (double)t->dims[right != transposed ? rows : columns];
}

/* Box and Muller 1958, from two words of the generator. */
static double normal(uint64_t seed, uint32_t key, uint64_t element)
{
    double u = ((double)mp_random_word(seed, UINT32_MAX, key, 2 * element) + 1) / 4294967297.0;
    double v = (double)mp_random_word(seed, UINT32_MAX, key, 2 * element + 1) / 4294967296.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void mp_initialise(const mp_model *model, const mp_consumers *consumers, int tensor, uint64_t seed, float *to)
{
    const mp_tensor *t = &model->tensors[tensor];
    const mp_operator *reader = NULL;
    int seen;
    int64_t n = mp_tensor_elements(t);
    mp_initial initial = initial_of(model, consumers, tensor, &reader, &seen);
    uint32_t key = (uint32_t)XXH64(t->name, strlen(t->name), 0);
    if (t->starts_at_zero) initial = MP_INITIAL_ZERO;
    if (initial == MP_INITIAL_TERM) initial = t->rank && t->dims[t->rank - 1] == n ? MP_INITIAL_ZERO : MP_INITIAL_SMALL;
    bool is_factor = initial == MP_INITIAL_LEFT_MATRIX || initial == MP_INITIAL_RIGHT_MATRIX || initial == MP_INITIAL_FILTER;
    double bound = is_factor ? 1 / sqrt(fan_in(&model->tensors[seen], initial, reader)) : 0;
    for (int64_t k = 0; k < n; k++) {
        double value = initial == MP_INITIAL_ONE ? 1 : initial == MP_INITIAL_QUARTER ? 0.25 : 0;
        if (bound > 0)
            value = bound * (2 * (double)mp_random_uniform(seed, UINT32_MAX, key, (uint64_t)k) - 1);
        else if (initial == MP_INITIAL_SMALL)
            value = 0.02 * normal(seed, key, (uint64_t)k);
        to[k] = (float)value;
    }
}

#include "executor/data/initialise.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimator/model/ops.h"
#include "executor/kernel/philox.h"

typedef enum rule { TABLE, ZERO, ONE, SLOPE, FAN_IN_COLUMNS, FAN_IN_ROWS, FAN_IN_SECOND, SHIFT } rule;

/* What an operand that is a parameter is for. FAN_IN_ROWS: a right factor (inputs, outputs); FAN_IN_COLUMNS: (outputs, inputs);
 * SECOND: a convolution's weight (outputs, inputs / groups, window). */
static const struct use {
    const char *kind;
    int operand;
    rule rule;
} uses[] = {
    {"Conv", 1, FAN_IN_SECOND},
    {"Conv", 2, ZERO},
    {"ConvTranspose", 1, FAN_IN_SECOND},
    {"ConvTranspose", 2, ZERO},
    {"Gemm", 1, FAN_IN_ROWS},
    {"Gemm", 2, ZERO},
    {"MatMul", 1, FAN_IN_ROWS},
    {"MatMul", 0, FAN_IN_COLUMNS},
    {"FusedMatMul", 1, FAN_IN_ROWS},
    {"BatchNormalization", 1, ONE},
    {"BatchNormalization", 2, ZERO},
    {"BatchNormalization", 3, ZERO},
    {"BatchNormalization", 4, ONE},
    {"LayerNormalization", 1, ONE},
    {"LayerNormalization", 2, ZERO},
    {"RMSNormalization", 1, ONE},
    {"SimplifiedLayerNormalization", 1, ONE},
    {"GroupNormalization", 1, ONE},
    {"GroupNormalization", 2, ZERO},
    {"InstanceNormalization", 1, ONE},
    {"InstanceNormalization", 2, ZERO},
    {"PRelu", 1, SLOPE},
    {"Mul", 0, ONE},
    {"Mul", 1, ONE},
    {"Div", 1, ONE},
    {"Add", 0, SHIFT},
    {"Add", 1, SHIFT},
    {"FastGelu", 1, ZERO},
};

static bool transposes(const mp_operator *op, int operand)
{
    return mp_operator_int(op, operand ? "transB" : "transA", 0) != 0;
}

/* The rule for a tensor by the first operator that reads it; views and transpositions are looked through. *seen is the tensor
 * in the shape in which that operator reads it. */
static rule rule_of(const mp_model *model, const mp_consumers *consumers, int tensor, const mp_operator **reader, int *seen)
{
    *seen = tensor;
    for (int hops = 0; hops < 8 && consumers->start[*seen] < consumers->start[*seen + 1]; hops++) {
        const mp_operator *op = &model->operators[consumers->list[consumers->start[*seen]]];
        *reader = op;
        for (size_t k = 0; k < sizeof uses / sizeof *uses; k++)
            for (int i = 0; i < op->n_in; i++)
                if (op->in[i] == *seen && i == uses[k].operand && !strcmp(uses[k].kind, op->op->name)) return uses[k].rule;
        bool passes = op->op->gradient == MP_GRADIENT_VIEW || (op->op->traits & MP_TRAIT_PERMUTES);
        if (!passes || op->n_in < 1 || op->in[0] != *seen || op->out[0] < 0) break;
        *seen = op->out[0];
    }
    return TABLE;
}

static double fan_in(const mp_tensor *t, rule r, const mp_operator *reader)
{
    if (r == FAN_IN_SECOND) return (double)mp_product(t->dims, 1, t->rank);
    if (t->rank < 2) return t->rank ? (double)t->dims[0] : 1;
    bool turned = transposes(reader, r == FAN_IN_ROWS);
    int rows = t->rank - 2, columns = t->rank - 1;
    return (double)t->dims[(r == FAN_IN_ROWS) != turned ? rows : columns];
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
    rule r = rule_of(model, consumers, tensor, &reader, &seen);
    uint32_t key = (uint32_t)XXH64(t->name, strlen(t->name), 0);
    if (r == SHIFT) r = t->rank && t->dims[t->rank - 1] == n ? ZERO : TABLE; /* a bias, or positions that are added */
    double bound = r >= FAN_IN_COLUMNS && r <= FAN_IN_SECOND ? 1 / sqrt(fan_in(&model->tensors[seen], r, reader)) : 0;
    for (int64_t k = 0; k < n; k++) {
        double value = r == ONE ? 1 : r == SLOPE ? 0.25 : 0;
        if (bound > 0)
            value = bound * (2 * (double)mp_random_uniform(seed, UINT32_MAX, key, (uint64_t)k) - 1);
        else if (r == TABLE)
            value = 0.02 * normal(seed, key, (uint64_t)k);
        to[k] = (float)value;
    }
}

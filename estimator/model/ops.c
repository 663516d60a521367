#include "estimator/model/ops.h"

#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

/* The words of the rows (ops.def). */
enum {
    ANY = -1,
    IN_PLACE = MP_TRAIT_IN_PLACE,
    GRADIENT_IN_PLACE = MP_TRAIT_GRADIENT_IN_PLACE,
    ELEMENTWISE = IN_PLACE + GRADIENT_IN_PLACE,
    RANDOM = MP_TRAIT_RANDOM,
    STATISTICS = MP_TRAIT_STATISTICS,
    GATHER = MP_TRAIT_GATHER,
    NEGATES = MP_TRAIT_NEGATES,
    COMMUTES = MP_TRAIT_COMMUTES,
    CASTS = MP_TRAIT_CASTS,
    CONVOLVES = MP_TRAIT_CONVOLVES,
    TRANSPOSED = MP_TRAIT_TRANSPOSED,
    LOSS = MP_TRAIT_LOSS,
    CLASSES = MP_TRAIT_CLASSES,
    FROM_OUTPUT = MP_TRAIT_FROM_OUTPUT,
    TILED = MP_TRAIT_TILED,
    PARTS = MP_TRAIT_PARTS,
    PERMUTES = MP_TRAIT_PERMUTES,
    EXPANDS = MP_TRAIT_EXPANDS,
    PADS = MP_TRAIT_PADS,
    PADS_ITSELF = MP_TRAIT_PADS_ITSELF,
    WHOLE = MP_TRAIT_WHOLE,
    IN0 = MP_IN(0),
    IN1 = MP_IN(1),
    IN2 = MP_IN(2),
    IN3 = MP_IN(3),
    IN4 = MP_IN(4),
    OUT0 = MP_OUT(0),
    OUT1 = MP_OUT(1),
    EXTRA0 = MP_EXTRA(0),
    EXTRA1 = MP_EXTRA(1),
    SELF = MP_SELF,
    ATTENTION = IN0 + IN1 + IN2 + IN3 + IN4 + OUT0 + EXTRA0 /* all that it reads and writes */
};

/* Operands: what for, and what a parameter there starts with. */
#define OPERAND(use, initial)              \
    {                                      \
        MP_USE_##use, MP_INITIAL_##initial \
    }
#define INTEGERS OPERAND(NONE, NONE)
#define DATA OPERAND(OTHER, SMALL)
#define WEIGHT OPERAND(WEIGHT, SMALL)
#define ROWS OPERAND(ROWS, SMALL)
#define LEFT_MATRIX OPERAND(OTHER, LEFT_MATRIX)
#define RIGHT_MATRIX OPERAND(WEIGHT, RIGHT_MATRIX)
#define FILTER OPERAND(WEIGHT, FILTER)
#define BIAS OPERAND(WEIGHT, ZERO)
#define SCALE OPERAND(WEIGHT, ONE)
#define SLOPE OPERAND(WEIGHT, QUARTER)
#define OFFSET OPERAND(OTHER, ZERO)
#define MEAN OPERAND(STATISTIC, ZERO)
#define VARIANCE OPERAND(STATISTIC, ONE)
#define SETTING OPERAND(SETTING, SMALL)
#define TABLE OPERAND(TABLE, SMALL)
#define TERM OPERAND(TABLE, TERM)
#define FACTOR OPERAND(TABLE, ONE)
#define COMPARED OPERAND(COMPARED, SMALL)
#define REARRANGED OPERAND(THROUGH, THROUGH)
#define SELECTED OPERAND(THROUGH, SMALL)
#define IN(least, most, ...) .min_in = least, .max_in = most, .inputs = {__VA_ARGS__}
#define NO_INPUT .min_in = 0, .max_in = 0
#define OUT(least, most) .min_out = least, .max_out = most

/* Layouts. */
#define ROW_MAJOR .layout = MP_HABIT_ROW_MAJOR
#define FROM_ROW_MAJOR .layout = MP_HABIT_FROM_ROW_MAJOR
#define AS_INPUTS .layout = MP_HABIT_AS_INPUTS
#define SPATIAL .layout = MP_HABIT_SPATIAL

/* Gradients. Inputs past the last stated need have what the last one has: a short list is filled up with its last entry. */
#define NEEDS_1(a) NEEDS_8(a, a, a, a, a, a, a, a)
#define NEEDS_2(a, b) NEEDS_8(a, b, b, b, b, b, b, b)
#define NEEDS_3(a, b, c) NEEDS_8(a, b, c, c, c, c, c, c)
#define NEEDS_4(a, b, c, d) NEEDS_8(a, b, c, d, d, d, d, d)
#define NEEDS_5(a, b, c, d, e) NEEDS_8(a, b, c, d, e, e, e, e)
#define NEEDS_6(a, b, c, d, e, f) NEEDS_8(a, b, c, d, e, f, f, f)
#define NEEDS_7(a, b, c, d, e, f, g) NEEDS_8(a, b, c, d, e, f, g, g)
#define NEEDS_8(a, b, c, d, e, f, g, h) \
    {                                   \
        a, b, c, d, e, f, g, h          \
    }
#define NEEDS_PICK(a, b, c, d, e, f, g, h, pick, ...) pick
#define NEEDS(...) \
    NEEDS_PICK(__VA_ARGS__, NEEDS_8, NEEDS_7, NEEDS_6, NEEDS_5, NEEDS_4, NEEDS_3, NEEDS_2, NEEDS_1, 0)(__VA_ARGS__)
_Static_assert(MP_GRADIENTS_MAX == 8, "the lists of needs are filled up to MP_GRADIENTS_MAX");
#define NO_GRADIENT .gradient = MP_GRADIENT_NONE
#define REFUSED .gradient = MP_GRADIENT_REFUSED
#define VIEW .gradient = MP_GRADIENT_VIEW
#define ALIAS .gradient = MP_GRADIENT_ALIAS
#define ONE_EACH(executor, pytorch) .gradient = MP_GRADIENT_ONE, .needs = {executor, pytorch}
#define ONE(...) ONE_EACH(NEEDS(__VA_ARGS__), NEEDS(__VA_ARGS__))
#define SPLIT(...) .gradient = MP_GRADIENT_SPLIT, .needs = {NEEDS(__VA_ARGS__), NEEDS(__VA_ARGS__)}

/* What not every row has. */
#define TRAITS(list) .traits = list
#define FLOPS(rule) .flops = rule
#define EXTRAS(rule) .extras = rule

#define mp_fold_none NULL /* declared with the others by ops_rules.h, and no function */
#define OP(op, of, version, in, out, shapes, folds, ...) \
    {.name = #op, .domain = of, .since = version, in, out, .shape = shapes, .fold = folds, __VA_ARGS__},
static const mp_op rows[] = {
#include "estimator/model/ops.def"
};
#undef OP

size_t mp_op_count(void)
{
    return sizeof rows / sizeof *rows;
}

const mp_op *mp_op_row(size_t k)
{
    return k < mp_op_count() ? &rows[k] : NULL;
}

mp_op_input mp_op_input_of(const mp_op *op, int k)
{
    mp_op_input none = {MP_USE_UNSTATED, MP_INITIAL_UNSTATED};
    if (!op || k < 0 || (k >= MP_OP_INPUTS && op->max_in >= 0)) return none;
    if (k >= MP_OP_INPUTS) k = MP_OP_INPUTS - 1;
    while (op->max_in < 0 && k > 0 && !op->inputs[k].use) k--;
    return op->inputs[k];
}

const mp_op *mp_op_find(const char *domain, const char *kind, int version)
{
    const mp_op *found = NULL;
    if (!strcmp(domain, "ai.onnx")) domain = "";
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = &rows[k];
        /* the first letters alone settle most comparisons */
        if (row->name[0] != kind[0] || strcmp(row->name, kind) || strcmp(row->domain, domain)) continue;
        if (row->since <= version && (!found || row->since > found->since)) found = row;
    }
    return found;
}

mp_tensor *mp_infer_in(mp_infer *c, int k)
{
    return mp_operator_in(c->model, c->op, k);
}

mp_tensor *mp_infer_out(mp_infer *c, int k)
{
    return mp_operator_out(c->model, c->op, k);
}

const mp_value *mp_infer_value(mp_infer *c, int k)
{
    static const mp_value nothing;
    const mp_tensor *t = mp_infer_in(c, k);
    if (!t) return NULL;
    if (t->value) return t->value;
    if (t->rank >= 0 && mp_tensor_elements(t) == 0 && mp_dtype_bits(t->dtype)) return &nothing;
    c->missing_value = c->op->in[k];
    return NULL;
}

mp_status mp_infer_integers(mp_infer *c, int k, const int64_t **list, size_t *n)
{
    static const int64_t none;
    const mp_value *v = mp_infer_value(c, k);
    if (v && v->n && v->is_real) return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, "input %d is not of integers", k);
    *list = !v ? NULL : v->n ? v->i : &none;
    *n = v ? (size_t)v->n : 0;
    return MP_OK;
}

mp_status mp_infer_set(mp_infer *c, int k, mp_dtype dtype, int rank, const int64_t *dims)
{
    if (!mp_infer_out(c, k)) return MP_OK;
    mp_error e = {0};
    mp_status st = mp_tensor_set(c->model, c->op->out[k], dtype, rank, dims, &e);
    return st == MP_OK ? st : mp_rule_raise(c, st, e.source, e.source_line, "%s", e.message);
}

void mp_infer_defer(mp_infer *c, int k, mp_dtype dtype)
{
    mp_tensor *t = mp_infer_out(c, k);
    if (t) t->dtype = dtype;
}

mp_status mp_infer_operand(mp_infer *c, int k, int *rank, int64_t *dims)
{
    const mp_tensor *t = mp_infer_in(c, k), *first = mp_infer_in(c, 0);
    *rank = t->rank;
    for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
    if (k == 0 || c->op->version >= 7 || !mp_operator_int(c->op, "broadcast", 0)) return MP_OK;
    int64_t axis = mp_operator_int(c->op, "axis", first->rank - t->rank);
    if (axis < 0) axis += first->rank;
    if (axis < 0 || axis > first->rank - t->rank)
        return mp_rule_raise(c, MP_PARSE, __FILE__, __LINE__, "%d dimensions do not fit under %d from axis %lld on", t->rank,
                             first->rank, (long long)axis);
    *rank = first->rank - (int)axis;
    for (int d = t->rank; d < *rank; d++) dims[d] = 1;
    return MP_OK;
}

int64_t mp_product(const int64_t *dims, int from, int to)
{
    int64_t product = 1;
    for (int k = from; k < to; k++)
        if (!dims[k]) return 0;
    for (int k = from; k < to; k++)
        if (!mp_multiply(product, dims[k], &product)) return INT64_MAX;
    return product;
}

/* ops.c - includes the rows of ops.def, and defines the words that these rows use as macros. */
#include "estimator/model/ops.h"

#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/requirement.h"

/* Bits for the operands and saved values that rows of ops.def name as needs of a gradient. */
enum {
    ANY = -1,
    IN_PLACE = MP_TRAIT_IN_PLACE,
    GRADIENT_IN_PLACE = MP_TRAIT_GRADIENT_IN_PLACE,
    ELEMENTWISE = IN_PLACE + GRADIENT_IN_PLACE,
    GRADIENT_IN_DATA = MP_TRAIT_GRADIENT_IN_DATA,
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
    OF_SHAPE = MP_TRAIT_OF_SHAPE,
    SMOOTH = MP_TRAIT_SMOOTH,
    REPLICATES = MP_TRAIT_REPLICATES,
    IN0 = MP_IN(0),
    IN1 = MP_IN(1),
    IN2 = MP_IN(2),
    IN3 = MP_IN(3),
    IN4 = MP_IN(4),
    IN5 = MP_IN(5),
    IN6 = MP_IN(6),
    IN7 = MP_IN(7),
    OUT0 = MP_OUT(0),
    OUT1 = MP_OUT(1),
    EXTRA0 = MP_EXTRA(0),
    EXTRA1 = MP_EXTRA(1),
    EXTRA2 = MP_EXTRA(2),
    INPUTS = MP_INPUTS,
    UNBUILT = MP_UNBUILT,
    ATTENTION = IN0 + IN1 + IN2 + IN3 + IN4 + OUT0 +
                EXTRA0, /* values that the gradient of attention reads: all inputs, the output, and the saved values */
    RELU_BATCH = IN0 + IN1 + IN2 + EXTRA0 +
                 EXTRA1, /* values that the gradient of a batch normalization reads if the normalization is fused with ReLU */
    ADDED_BATCH = IN0 + IN1 + EXTRA0 + EXTRA1 + EXTRA2,
    /* values that the gradient of attention reads under PyTorch's rules; extra 1 is a boolean mask, which PyTorch saves as
     * floats */
    PYTORCHS_ATTENTION = IN0 + IN1 + IN2 + IN3 + OUT0 + EXTRA0 + EXTRA1,
    LSTM_STEPS = IN2 + IN4 + IN6 + IN7 + EXTRA0, /* values that every gradient of a recurrent layer reads, because all of them
                                                    are computed from the gradients of the gates */
    GRU_STEPS = IN2 + IN4 + IN5 + OUT0 + EXTRA0,
    RNN_STEPS = IN2 + IN4 + OUT0 + EXTRA0
};

/* Words for operands in ops.def. A word states the operand's use and the initial values of a parameter. Some words also
 * state the meaning of an element. */
#define MEANING(use, initial, meaning)                         \
    {                                                          \
        MP_USE_##use, MP_INITIAL_##initial, MP_MEANS_##meaning \
    }
#define OPERAND(use, initial)                               \
    {                                                       \
        MP_USE_##use, MP_INITIAL_##initial, MP_MEANS_NUMBER \
    }
#define INTEGERS OPERAND(NONE, NONE)
#define INDEX MEANING(NONE, NONE, INDEX)
#define INDICES MEANING(NONE, NONE, INDICES)
#define CLASS MEANING(NONE, NONE, CLASS)
#define LENGTHS MEANING(NONE, NONE, LENGTH)
#define DATA OPERAND(OTHER, SMALL)
#define PASSED MEANING(OTHER, SMALL, PASSED)
#define ANGLE MEANING(OTHER, SMALL, ANGLE)
#define CONDITION MEANING(TABLE, SMALL, CONDITION)
#define HIDING MEANING(OTHER, SMALL, HIDING)
#define SEEN MEANING(OTHER, SMALL, SEEN)
#define WEIGHT OPERAND(WEIGHT, SMALL)
#define EXPANDED MEANING(WEIGHT, SMALL, PASSED)
#define ROWS MEANING(ROWS, SMALL, PASSED)
#define LEFT_MATRIX OPERAND(OTHER, LEFT_MATRIX)
#define RIGHT_MATRIX OPERAND(WEIGHT, RIGHT_MATRIX)
#define GATES OPERAND(WEIGHT, LEFT_MATRIX)
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
#define REARRANGED MEANING(THROUGH, THROUGH, PASSED)
#define SELECTED MEANING(THROUGH, SMALL, PASSED)
#define JOINED MEANING(OTHER, THROUGH, PASSED)
#define IN(least, most, ...) .min_in = least, .max_in = most, .inputs = {__VA_ARGS__}
#define NO_INPUT .min_in = 0, .max_in = 0
#define OUT(least, most) .min_out = least, .max_out = most

/* Words for memory layouts in the rows of ops.def. */
#define ROW_MAJOR .layout = MP_HABIT_ROW_MAJOR
#define FROM_ROW_MAJOR .layout = MP_HABIT_FROM_ROW_MAJOR
#define MATRICES .layout = MP_HABIT_MATRICES
#define AS_INPUTS .layout = MP_HABIT_AS_INPUTS
#define SPATIAL .layout = MP_HABIT_SPATIAL

/* Words that ops.def uses for gradients: the values that the gradient of each input reads. The last entry of such a list also
 * holds for all further inputs. */
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

/* Words for the optional columns of a row in ops.def. */
#define TRAITS(list) .traits = list
#define FLOPS(rule) .flops = rule
#define EXTRAS(rule) .extras = rule
#define FACTORS(rule) .factors = rule
#define COLLECTIVES(forward, backward) .collectives = {MP_OPERATOR_##forward, MP_OPERATOR_##backward}
#define AUTOCAST(how) .autocast = MP_AUTOCAST_##how

/* Words that ops.def uses for requirements. EACH: the requirement holds for every operand. FROM(13, AXIS, 0, -1): the
 * requirement holds only from operator set 13 on. */
#define REQUIRES(...)                                     \
    .requirements = (const mp_requirement[])              \
    {                                                     \
        __VA_ARGS__,                                      \
        {                                                 \
            0                                             \
        } /* marks the end of the list of requirements */ \
    }
#define EACH (-1)
#define DEMAND(what, ...)                       \
    {                                           \
        .kind = MP_REQUIRES_##what, __VA_ARGS__ \
    }
#define OF(k, class) DEMAND(TYPES, .operand = k, .types = MP_TYPES_##class)
#define OF_FLOATS(k) OF(k, FLOATS)
#define OF_NUMBERS(k) OF(k, NUMBERS)
#define OF_WHOLE(k) OF(k, WHOLE)
#define OF_BYTES(k) OF(k, BYTES)
#define OF_INDEX(k) OF(k, INDEX)
#define OF_BOOL(k) OF(k, BOOL)
#define OF_PLAIN(k) OF(k, PLAIN)
#define LIKE(k, j) DEMAND(LIKE, .operand = k, .other = j)
#define RANK(k, a, b) DEMAND(RANK, .operand = k, .least = a, .most = b)
#define SINGLE(k) DEMAND(NUMBER, .operand = k)
#define LIST(k) DEMAND(LIST, .operand = k)
#define PER(k, j, d) DEMAND(PER, .operand = k, .other = j, .least = d)
#define ONTO_FIELDS(k, j) .operand = k, .other = j
#define FILLED(k) DEMAND(FILLED, .operand = k)
#define AXIS_FIELDS(k, d) .operand = k, .least = d, .attribute = "axis"
#define AXIS(k, d) DEMAND(AXIS, AXIS_FIELDS(k, d))
#define AXES(name, k, d) DEMAND(AXES, .operand = k, .least = d, .attribute = name)
#define RANGE(name, a, b) DEMAND(RANGE, .least = a, .most = b, .attribute = name)
#define DIVIDES(name, k, d) DEMAND(DIVIDES, .operand = k, .least = d, .attribute = name)
#define WORD(name, list) DEMAND(WORD, .attribute = name, .words = list)
#define FROM(version, what, ...) DEMAND(what, what##_FIELDS(__VA_ARGS__), .from = version)
#define BEFORE(version, what, ...) DEMAND(what, what##_FIELDS(__VA_ARGS__), .before = version)

#define mp_fold_none NULL /* mp_fold_none stands for NULL, no fold rule, although ops_rules.h declares it like a function */
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
    mp_op_input none = {MP_USE_UNSTATED, MP_INITIAL_UNSTATED, MP_MEANS_NUMBER};
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
        /* a comparison of the first letter excludes most rows quickly */
        if (row->name[0] != kind[0] || strcmp(row->name, kind) || strcmp(row->domain, domain)) continue;
        if (row->since <= version && (!found || row->since > found->since)) found = row;
    }
    return found;
}

bool mp_op_is_elementwise(const mp_op *op)
{
    return op->traits & MP_TRAIT_IN_PLACE && op->factors == mp_factors_broadcast;
}

bool mp_op_gradient_reads_output(const mp_op *op, int k)
{
    for (int rules = 0; k < 8 && rules < MP_N_RULES; rules++)
        for (int j = 0; j < MP_GRADIENTS_MAX; j++)
            if (op->needs[rules][j] & MP_OUT(k)) return true;
    return false;
}

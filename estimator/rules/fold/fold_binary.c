/* fold_binary.c - functions of two elements, by operator name: the binary operators and the steps of reductions.
 *
 * Comparisons and logic return 0 or 1. Integers are computed with 128 bits, so that no sum or difference overflows. Products
 * are computed modulo 2^128. The result keeps the low bits that its type can store. */
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

typedef unsigned __int128 mp_wide_bits;

/* Defines functions that consist of one expression: for integers, for reals, or for both. */
#define INTEGERS(name, expression)                                                     \
    static bool name##_integers(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y) \
    {                                                                                  \
        (void)p;                                                                       \
        *y = (expression);                                                             \
        return true;                                                                   \
    }
#define REALS(name, expression)                                         \
    static double name##_reals(const mp_pairing *p, double a, double b) \
    {                                                                   \
        (void)p;                                                        \
        return (expression);                                            \
    }
#define BOTH(name, expression) INTEGERS(name, expression) REALS(name, expression)

BOTH(add, a + b)
BOTH(sub, a - b)
INTEGERS(mul, (mp_wide)((mp_wide_bits)a *(mp_wide_bits)b))
REALS(mul, a *b)
REALS(div, a / b)
REALS(pow, pow(a, b))
INTEGERS(max, a > b ? a : b)
REALS(max, isnan(a) || a > b ? a : b) /* a NaN operand gives NaN */
INTEGERS(min, a < b ? a : b)
REALS(min, isnan(a) || a < b ? a : b)
BOTH(equal, a == b)
BOTH(greater, a > b)
BOTH(less, a < b)
BOTH(greater_or_equal, a >= b)
BOTH(less_or_equal, a <= b)
INTEGERS(and, a &&b)
INTEGERS(or, a || b)
INTEGERS(xor, !a != !b)
INTEGERS(bitwise_and, a &b)
INTEGERS(bitwise_or, a | b)
INTEGERS(bitwise_xor, a ^ b)

/* Integer division truncates toward zero. */
static bool div_integers(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y)
{
    (void)p;
    if (!b) return false;
    *y = a / b;
    return true;
}

/* Computes the remainder. Its sign is the sign of the divisor; with fmod = 1, the sign of the dividend. */
static bool mod_integers(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y)
{
    if (!b) return false;
    *y = a % b;
    if (!p->c_remainder && *y && (*y < 0) != (b < 0)) *y += b;
    return true;
}

static double mod_reals(const mp_pairing *p, double a, double b)
{
    double y = fmod(a, b);
    return !p->c_remainder && y != 0 && (y < 0) != (b < 0) ? y + b : y;
}

/* Computes integer powers by repeated squaring, modulo 2^128. With a negative exponent, the result is an integer only for
 * bases 1 and -1. */
static bool pow_integers(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y)
{
    (void)p;
    if (b < 0) {
        if (!a) return false;
        *y = a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
        return true;
    }
    mp_wide_bits power = 1, square = (mp_wide_bits)a;
    for (; b; b >>= 1, square *= square)
        if (b & 1) power *= square;
    *y = (mp_wide)power;
    return true;
}

static bool bit_shift_integers(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y)
{
    if (a < 0 || b < 0) return false;
    if (b >= p->bits)
        *y = 0;
    else
        *y = p->shift_left ? (mp_wide)((mp_wide_bits)a << (int)b) : a >> (int)b;
    return true;
}

static const mp_binary functions[] = {{"Add", add_integers, add_reals},
                                      {"Sub", sub_integers, sub_reals},
                                      {"Mul", mul_integers, mul_reals},
                                      {"Div", div_integers, div_reals},
                                      {"Mod", mod_integers, mod_reals},
                                      {"Pow", pow_integers, pow_reals},
                                      {"Max", max_integers, max_reals},
                                      {"Min", min_integers, min_reals},
                                      {"Equal", equal_integers, equal_reals},
                                      {"Greater", greater_integers, greater_reals},
                                      {"Less", less_integers, less_reals},
                                      {"GreaterOrEqual", greater_or_equal_integers, greater_or_equal_reals},
                                      {"LessOrEqual", less_or_equal_integers, less_or_equal_reals},
                                      {"And", and_integers, NULL},
                                      {"Or", or_integers, NULL},
                                      {"Xor", xor_integers, NULL},
                                      {"BitwiseAnd", bitwise_and_integers, NULL},
                                      {"BitwiseOr", bitwise_or_integers, NULL},
                                      {"BitwiseXor", bitwise_xor_integers, NULL},
                                      {"BitShift", bit_shift_integers, NULL}};

const mp_binary *mp_binary_find(const char *name)
{
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
        if (!strcmp(functions[k].name, name)) return &functions[k];
    return NULL;
}

bool mp_binary_into(const mp_binary *f, mp_dtype dtype, mp_value *acc, int64_t i, const mp_value *x, int64_t j)
{
    const mp_pairing plain = {.bits = mp_dtype_bits(dtype)};
    mp_wide y;
    if (acc->is_real) {
        if (!f->reals) return false;
        acc->f[i] = mp_fold_round(dtype, f->reals(&plain, acc->f[i], x->f[j]));
        return true;
    }
    if (!f->integers || !f->integers(&plain, mp_fold_widen(dtype, acc->i[i]), mp_fold_widen(dtype, x->i[j]), &y)) return false;
    acc->i[i] = mp_fold_wrap(dtype, y);
    return true;
}

bool mp_fold_binary(const mp_fold *f)
{
    const mp_binary *function = mp_binary_find(f->c->op->kind);
    const mp_value *a = f->x, *b = mp_fold_in(f->c, 1);
    const mp_dtype dtype_a = f->in->dtype, dtype_b = mp_infer_in(f->c, 1)->dtype, dtype = f->out->dtype;
    const mp_pairing pairing = {.c_remainder = mp_operator_int(f->c->op, "fmod", 0),
                                .shift_left = !strcmp(mp_operator_text(f->c->op, "direction", ""), "LEFT"),
                                .bits = mp_dtype_bits(dtype_a)};
    const bool real = mp_dtype_is_float(dtype_a) || mp_dtype_is_float(dtype_b);
    bool defined = function && (real ? function->reals != NULL : function->integers != NULL);
    mp_walk walk;
    mp_walk_start(&walk, f->out->rank, f->out->dims);
    for (int k = 0; k < 2; k++) {
        int rank;
        int64_t dims[MP_RANK_MAX];
        if (mp_infer_operand(f->c, k, &rank, dims) != MP_OK || !mp_walk_broadcast(&walk, k, rank, dims)) return false;
    }
    for (; defined && walk.k < walk.n; mp_walk_next(&walk)) {
        const int64_t i = walk.at[0], j = walk.at[1];
        mp_wide exact = 0;
        if (real) {
            const double r = function->reals(&pairing, mp_fold_real(dtype_a, a, i), mp_fold_real(dtype_b, b, j));
            defined = mp_fold_store(dtype, f->y, walk.k, r);
            continue;
        }
        defined = function->integers(&pairing, mp_fold_widen(dtype_a, a->i[i]), mp_fold_widen(dtype_b, b->i[j]), &exact);
        if (f->y->is_real)
            f->y->f[walk.k] = mp_fold_round(dtype, (double)exact);
        else
            f->y->i[walk.k] = mp_fold_wrap(dtype, exact);
    }
    return defined;
}

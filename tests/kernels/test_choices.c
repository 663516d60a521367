/* test_choices.c - gradients at ties, borders and zeros, where a derivative has a choice, compared with PyTorch's in
 * choices.def (tests/gradients/make_choices.py). Every operator with a gradient has a case there, unless its table row states
 * that it has no choice. */
#include "estimator/model/ops.h"
#include "executor/cpu/base/families.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

typedef struct choice {
    const char *kind;
    int version;
    const char *attributes;
    int n_outputs;
    uint32_t wanted;
    const char *operands;
    int n;
    const double *expected;
} choice;

#define CHOICE(kind, version, attributes, n_outputs, wanted, operands, ...) \
    {kind,                                                                  \
     version,                                                               \
     attributes,                                                            \
     n_outputs,                                                             \
     wanted,                                                                \
     operands,                                                              \
     sizeof(double[]){__VA_ARGS__} / sizeof(double),                        \
     (const double[]){__VA_ARGS__}},
static const choice choices[] = {
#include "tests/kernels/choices.def"
};
enum { N_CHOICES = sizeof choices / sizeof *choices };

static bool agrees(double is, double expected, double tolerance)
{
    if (isnan(expected) || isinf(expected)) return isnan(expected) ? isnan(is) : is == expected;
    return fabs(is - expected) <= tolerance * (1 + fabs(expected));
}

/* Compares the gradients for output gradients 1, 2, 3 ... Gradients are overwritten or added to memory filled with `before`. */
static void check(const choice *row, unsigned flags, double before, double tolerance)
{
    const kernel_case c = {row->kind, row->version, row->operands, row->attributes, row->n_outputs, 0, 0, row->wanted, 0, 0};
    /* fused batch normalizations, which the CPU runs as separate operators */
    if (!strncmp(c.kind, "memplan:BatchNormalization", 26) && !strcmp(backend_of_tests()->name, "cpu")) return;
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, flags | KERNEL_BACKWARD);
    const mp_operands *b = &r->backward;
    for (int64_t k = 0; k < mp_array_elements(&b->d_out[0]); k++) kernel_set(&b->d_out[0], k, (double)(k + 1));
    for (int i = 0; i < b->n_in; i++)
        for (int64_t k = 0; b->d_in[i].dtype && k < mp_array_elements(&b->d_in[i]); k++) kernel_set(&b->d_in[i], k, before);
    kernel_forward(r);
    kernel_backward(r);
    int at = 0;
    for (int i = 0; i < b->n_in; i++)
        for (int64_t k = 0; b->d_in[i].dtype && k < mp_array_elements(&b->d_in[i]); k++, at++) {
            const double is = kernel_get(&b->d_in[i], k), sum = row->expected[at] + (flags & KERNEL_ADDS ? before : 0);
            if (at >= row->n || !agrees(is, sum, tolerance))
                fail_msg("%s(%s)(%s), flags %u: gradient %lld of input %d is %.9g, PyTorch has %.9g", row->kind, row->operands,
                         row->attributes, flags, (long long)k, i, is, sum);
        }
    assert_int_equal(at, row->n);
    kernel_end(r);
}

TEST(gradients_with_a_choice_are_those_of_pytorch)
{
    for (int k = 0; k < N_CHOICES; k++) check(&choices[k], KERNEL_PLAIN, 7, 2e-6);
}

TEST(they_are_the_same_with_channels_last_and_added_to_others)
{
    for (int k = 0; k < N_CHOICES; k++) {
        check(&choices[k], KERNEL_CHANNELS_LAST, 7, 2e-6);
        check(&choices[k], KERNEL_ADDS, 2, 2e-6);
    }
}

/* Operands with few digits are exact in bfloat16, so that ties remain; results are rounded. */
TEST(they_are_the_same_in_bfloat16)
{
    for (int k = 0; k < N_CHOICES; k++) check(&choices[k], KERNEL_BFLOAT16, 7, 2e-2);
}

/* Returns whether the operator is linear: its gradient reads no values of forward, at most positions. */
static bool is_linear(const mp_op *row)
{
    uint32_t numbers = ~0u;
    bool linear = true;
    for (int i = 0; i < MP_OP_INPUTS; i++)
        if (mp_op_input_of(row, i).use == MP_USE_NONE) numbers &= ~MP_IN(i);
    for (int k = 0; k < MP_GRADIENTS_MAX; k++) linear &= (row->needs[MP_RULES_EXECUTOR][k] & numbers & ~MP_UNBUILT) == 0;
    return linear;
}

/* Products, linear and smooth operators have no choice. test_unaries.c checks elementwise operators with one operand for a jump
 * in their slope. */
TEST(no_operator_with_a_gradient_is_forgotten)
{
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        bool found = row->gradient != MP_GRADIENT_ONE || is_linear(row) || row->traits & MP_TRAIT_SMOOTH;
        for (const mp_kernel *unary = mp_cpu_unaries; unary->kind; unary++) found |= !strcmp(unary->kind, row->name);
        for (int c = 0; c < N_CHOICES; c++) {
            const char *colon = strchr(choices[c].kind, ':');
            found |= !strcmp(colon ? colon + 1 : choices[c].kind, row->name);
        }
        if (!found) fail_msg("%s is neither in choices.def nor SMOOTH in ops.def", row->name);
    }
}

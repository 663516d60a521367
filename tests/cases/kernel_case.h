/* kernel_case.h - runs one operator, written as text as in rule_case.h, on a backend's kernels (backend_case.h). Checks forward
 * values, and compares gradients with finite differences.
 *
 * Float inputs without a stated value are drawn from [low, high); integers count 0, 1, 2, 0, 1, 2 ... Each failure fails the
 * test and shows the case. */
#pragma once

#include "executor/kernel/backend.h"

typedef struct kernel_case {
    const char *kind; /* may have a domain: "com.microsoft:FusedMatMul" */
    int version;
    const char *inputs, *attributes;
    int n_outputs;    /* -n: n outputs, the first omitted */
    double low, high; /* both 0: [-1, 1) */
    uint32_t wanted;  /* bits of inputs whose gradients are checked; 0: float inputs without a stated value */
    double step;      /* step of finite differences; 0: 1e-2 */
    double tolerance; /* relative to the largest gradient; 0: 2e-2 */
} kernel_case;

/* Sets the backend for all following runs, instead of the tests' default. */
void kernel_use(const mp_backend *backend);

/* A prepared forward and, if requested, backward call with memory for all operands. */
typedef struct kernel_run {
    const kernel_case *c;
    mp_model *model;
    mp_operands forward, backward;
    mp_call forward_call, backward_call;
    mp_run run;
} kernel_run;

enum {
    KERNEL_PLAIN = 0,
    KERNEL_CHANNELS_LAST = 1,
    KERNEL_BFLOAT16 = 2,
    KERNEL_BACKWARD = 4,
    KERNEL_ADDS = 8,
    KERNEL_ALIGNED_ROWS = 16
};

/* Prepares a case with the flags above. KERNEL_CHANNELS_LAST: each float operand with the first input's rank, >= 3, has this
 * layout. KERNEL_ALIGNED_ROWS: each float operand of rank >= 2 has aligned rows. KERNEL_BACKWARD: also its gradients. Release
 * with kernel_end. */
kernel_run *kernel_begin(const kernel_case *c, mp_mode mode, unsigned flags);
void kernel_forward(kernel_run *r);
void kernel_backward(kernel_run *r); /* uses the current contents of d_out */
void kernel_end(kernel_run *r);
/* Adds a byproduct of another alternative to forward and backward: n elements, between guards. */
void kernel_extra(kernel_run *r, int e, mp_dtype dtype, int64_t n);

/* Returns the element with row-major index k, for any type and layout. */
double kernel_get(const mp_array *a, int64_t k);
void kernel_set(const mp_array *a, int64_t k, double value);

/* Checks that preparation fails with MP_UNSUPPORTED and a sentence that contains this text. */
void kernel_check_refused(const kernel_case *c, const char *text);

/* Runs the case forward on the inputs' stated values and compares output o with expected[0..n). */
void kernel_check_values(const kernel_case *c, mp_mode mode, int output, const double *expected, int64_t n, double tolerance);

/* Compares backward with central differences of sum(weights * outputs): plain, channels-last (rank >= 3), and with each
 * gradient added to existing values. Backward gets only the operands that the registry lists, and each of them must affect the
 * result. A coarse comparison is also made in bfloat16. */
void kernel_check_gradient(const kernel_case *c);

/* kernel_case.h - one operator, written as text as in rule_case.h, through a backend's kernels (backend_case.h): forward
 * values, and gradients against finite differences.
 *
 * Float inputs without a stated value are drawn from [low, high); integers count 0, 1, 2, 0, 1, 2 ... Every failure is a failed
 * test that shows the case.
 */
#pragma once

#include "executor/kernel/backend.h"

typedef struct kernel_case {
    const char *kind; /* may carry a domain: "com.microsoft:FusedMatMul" */
    int version;
    const char *inputs, *attributes;
    int n_outputs;    /* -n: the first of n is left out */
    double low, high; /* both 0: [-1, 1) */
    uint32_t wanted;  /* bits of inputs whose gradients are checked; 0: float inputs without a stated value */
    double step;      /* of finite differences; 0: 1e-2 */
    double tolerance; /* relative to the largest gradient; 0: 2e-2 */
} kernel_case;

/* What runs from here on, instead of the backend of the tests. */
void kernel_use(const mp_backend *backend);

/* A prepared forward and, where asked for, backward call with memory for all operands. */
typedef struct kernel_run {
    const kernel_case *c;
    mp_model *model;
    mp_operands forward, backward;
    mp_call forward_call, backward_call;
    mp_run run;
} kernel_run;

enum { KERNEL_PLAIN = 0, KERNEL_CHANNELS_LAST = 1, KERNEL_BFLOAT16 = 2, KERNEL_BACKWARD = 4, KERNEL_ADDS = 8 };

/* Prepares; flags from above (KERNEL_CHANNELS_LAST: every float operand of the first input's rank >= 3 lies so;
 * KERNEL_BACKWARD: also its gradients). Release with kernel_end. */
kernel_run *kernel_begin(const kernel_case *c, mp_mode mode, unsigned flags);
void kernel_forward(kernel_run *r);
void kernel_backward(kernel_run *r); /* with d_out as it lies there */
void kernel_end(kernel_run *r);
/* Gives forward and backward a byproduct that only another alternative keeps: n elements, between guards. */
void kernel_extra(kernel_run *r, int e, mp_dtype dtype, int64_t n);

/* The element of row-major index k, of any type and layout. */
double kernel_get(const mp_array *a, int64_t k);
void kernel_set(const mp_array *a, int64_t k, double value);

/* Preparing the case fails with MP_UNSUPPORTED and a sentence that contains this text. */
void kernel_check_refused(const kernel_case *c, const char *text);

/* Runs the case forward on the inputs' stated values and compares output o with expected[0..n). */
void kernel_check_values(const kernel_case *c, mp_mode mode, int output, const double *expected, int64_t n, double tolerance);

/* Backward against central differences of sum(weights * outputs), plain, channels-last (rank >= 3) and with every gradient
 * added to what was there; backward sees only what the registry says it reads, and changes when a value that it reads is
 * changed; the same in bfloat16, coarsely. */
void kernel_check_gradient(const kernel_case *c);

/* test_attention_masks.c - attention whose masks close whole rows: zeros, against PyTorch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/cases/kernel_case.h"

#define KIND "memplan:ScaledDotProductAttention"

/* torch.nn.functional.scaled_dot_product_attention of the same numbers in double, and its gradients: the first row is closed.
 */
static void a_closed_row_is_zeros_as_pytorch_has_it(void **state)
{
    (void)state;
    static const char *const masks[] = {"float32[3,3]={-inf,-inf,-inf,-inf,0,0,0,0,-inf}", "- bool[3,3]={0,0,0,0,1,1,1,1,0}"};
    static const double y[] = {0, 0, 18.2119562, -0.642391234, 16.2245933, -0.244918662}, w[] = {1, 2, -1, 0.5, 2, -3},
                        d[3][6] = {{0, 0, 0.86619708, -3.46478832, -6.11009652, 9.16514478},
                                   {-3.05504826, -3.05504826, 3.05504826, 2.18885118, 0, 0.86619708},
                                   {0.755081338, -1.13262201, 0.364121584, -1.42697945, -0.119202922, 0.059601461}};
    for (int k = 0; k < 2; k++) {
        char text[256];
        snprintf(text, sizeof text, "float32[3,2]={1,0,0,1,1,1} float32[3,2]={2,0,0,3,1,-1} float32[3,2]={10,1,20,-1,5,2} %s",
                 masks[k]);
        kernel_case c = {KIND, 1, text, "scale=0.5 safe=1", 1, 0, 0, 7, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        for (int e = 0; e < 6; e++) kernel_set(&r->backward.d_out[0], e, w[e]);
        kernel_forward(r);
        kernel_backward(r);
        for (int e = 0; e < 6; e++) {
            assert_true(fabs(kernel_get(&r->forward.out[0], e) - y[e]) <= 2e-6 * 20);
            for (int i = 0; i < 3; i++) assert_true(fabs(kernel_get(&r->backward.d_in[i], e) - d[i][e]) <= 2e-6 * 10);
        }
        kernel_end(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_row_is_zeros_as_pytorch_has_it),
    };
    return cmocka_run_group_tests_name("executor/cpu/attention_masks", tests, NULL, NULL);
}

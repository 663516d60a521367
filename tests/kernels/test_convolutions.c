/* test_convolutions.c - convolutions: a value by hand, gradients compared with finite differences for all geometries, packed
 * weights. */
#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "executor/operators/products/convolution_cpu.h"
#include "executor/operators/products/packing_cpu.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

TEST(values_are_those_computed_by_hand)
{
    const kernel_case c = {
        "Conv", 11, "float32[1,1,3,3]={1,2,3,4,5,6,7,8,9} float32[1,1,2,2]={1,0,0,-1} float32[1]={10}", "", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){6, 6, 6, 6}, 4, 1e-6);
    const kernel_case lower = {
        "Conv", 11, "float32[1,1,1,4]={1,2,3,4} float32[1,1,1,2]={1,10}", "auto_pad=SAME_LOWER", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&lower, MP_MODE_TRAIN, 0, (double[]){10, 21, 32, 43}, 4, 1e-6);
    const kernel_case t = {"ConvTranspose",
                           11,
                           "float32[1,1,1,2]={1,2} float32[1,1,1,3]={1,2,3}",
                           "strides=[1,2] output_padding=[0,1]",
                           1,
                           0,
                           0,
                           0,
                           0,
                           0};
    kernel_check_values(&t, MP_MODE_TRAIN, 0, (double[]){1, 2, 5, 4, 6, 0}, 6, 1e-6);
}

TEST(gradients_are_those_of_differences)
{
    const kernel_case cases[] = {
        {"Conv", 11, "float32[2,3,5,4] float32[4,3,3,3] float32[4]", "pads=[1,1,1,1]", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[2,3,5,4] float32[4,3,1,1]", "", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[2,3,5,4] float32[4,3,3,3] float32[4]", "", 1, 0, 0, 4, 0, 0}, /* only the bias is trained */
        {"Conv", 11, "float32[1,2,7,6] float32[3,2,3,2] float32[3]", "strides=[2,1] pads=[0,1,2,0]", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[1,2,7,7] float32[2,2,3,3]", "dilations=[2,2] pads=[2,2,2,2]", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[2,4,4,4] float32[6,2,3,3] float32[6]", "group=2 auto_pad=SAME_UPPER strides=[2,2]", 1, 0, 0, 0, 0,
         0},
        {"Conv", 11, "float32[2,4,4,4] float32[4,1,3,3]", "group=4 pads=[1,1,1,1]", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[2,3,9] float32[4,3,3] float32[4]", "pads=[1,1] strides=[2]", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[1,2,3,4,3] float32[2,2,2,2,2]", "", 1, 0, 0, 0, 0, 0},
        {"Conv", 11, "float32[1,16,4,4] float32[32,16,3,3]", "pads=[1,1,1,1]", 1, 0, 0, 0, 0, 0},
        {"ConvTranspose", 11, "float32[1,3,3,4] float32[3,2,2,2] float32[2]", "strides=[2,2]", 1, 0, 0, 0, 0, 0},
        {"ConvTranspose", 11, "float32[1,4,3,3] float32[4,2,3,3]", "group=2 strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]",
         1, 0, 0, 0, 0, 0},
        {"ConvTranspose", 11, "float32[1,2,5] float32[2,3,3] float32[3]", "dilations=[2]", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* Checks that a convolution gives the same result with plain and packed weights. */
static void check_packed_forward(const kernel_case *c, const mp_array *plain, const mp_array *packed)
{
    kernel_run *a = kernel_begin(c, MP_MODE_TRAIN, KERNEL_CHANNELS_LAST),
               *b = kernel_begin(c, MP_MODE_TRAIN, KERNEL_CHANNELS_LAST);
    mp_error err = {0};
    mp_call call;
    mp_array own = b->forward.in[1];
    void *room = b->forward.workspace;
    for (int64_t e = 0; e < mp_array_elements(plain); e++) kernel_set(&a->forward.in[1], e, kernel_get(plain, e) / 1000);
    assert_int_equal(mp_cpu_reorder(&a->forward.in[1], packed, &err), MP_OK);
    b->forward.in[1].packed = packed->packed;
    b->forward.in[1].data = packed->data;
    assert_int_equal(mp_call_prepare(&mp_cpu, mp_cpu_kernel(b->forward.op), &b->forward, &call, &err), MP_OK);
    b->forward.workspace = aligned_alloc(64, (size_t)call.workspace_bytes + 64);
    kernel_forward(a);
    assert_int_equal(mp_call_run(&mp_cpu, &call, &b->forward, &err), MP_OK);
    for (int64_t e = 0; e < mp_array_elements(&a->forward.out[0]); e++) {
        double x = kernel_get(&a->forward.out[0], e), y = kernel_get(&b->forward.out[0], e);
        assert_true(fabs(x - y) <= 1e-4 * (1 + fabs(x)));
    }
    assert_int_equal(mp_cpu_reorder(plain, packed, &err), MP_OK);
    free(b->forward.workspace);
    mp_call_release(&call);
    b->forward.in[1] = own;
    b->forward.workspace = room;
    kernel_end(a);
    kernel_end(b);
}

/* Weights packed in the library's layout and unpacked are unchanged; padding is zero. */
TEST(packed_weights_come_back)
{
    static const char *const kinds[] = {"Conv", "Conv", "ConvTranspose"};
    static const char *const shapes[] = {"float32[2,20,6,6] float32[24,20,3,3]", "float32[2,8,6,6] float32[8,1,3,3]",
                                         "float32[2,20,6,6] float32[20,20,3,3]"};
    static const char *const attributes[] = {"pads=[1,1,1,1]", "pads=[1,1,1,1] group=8", ""};
    for (int k = 0; k < 3; k++) {
        const kernel_case c = {kinds[k], 11, shapes[k], attributes[k], 1, 0, 0, 0, 0, 0};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_CHANNELS_LAST);
        mp_error err = {0};
        mp_convolution conv;
        dnnl_primitive_desc_t desc;
        mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, 4, r->forward.in[1].dims), packed = plain, back = plain;
        assert_int_equal(
            mp_convolution_read(r->model, r->forward.op, &r->forward.in[0], &plain, &r->forward.out[0], NULL, &conv, &err),
            MP_OK);
        assert_int_equal(mp_convolution_best(&conv, MP_CONVOLVE_FORWARD, &desc, &err), MP_OK);
        dnnl_memory_desc_t best = *dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
        size_t bytes = dnnl_memory_desc_get_size(&best);
        int64_t n = mp_array_elements(&plain);
        mp_dnnl_packing packing = {best, conv.is_transposed};
        packed.packed = &packing;
        packed.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
        plain.data = malloc((size_t)n * sizeof(float));
        back.data = malloc((size_t)n * sizeof(float));
        for (int64_t e = 0; e < n; e++) ((float *)plain.data)[e] = (float)e;
        memset(packed.data, 0xa5, bytes);
        assert_int_equal(mp_cpu_reorder(&plain, &packed, &err), MP_OK);
        assert_int_equal(mp_cpu_reorder(&packed, &back, &err), MP_OK);
        assert_memory_equal(plain.data, back.data, (size_t)n * sizeof(float));
        check_packed_forward(&c, &plain, &packed);
        double sum = 0;
        for (size_t e = 0; e < bytes / sizeof(float); e++) sum += (double)((float *)packed.data)[e];
        assert_true(sum == (double)n * (double)(n - 1) / 2);
        free(packed.data);
        free(plain.data);
        free(back.data);
        dnnl_primitive_desc_destroy(desc);
        kernel_end(r);
    }
}

/* test_moves.c - operators that move elements: values from ONNX's reference evaluator (numpy), gradients compared with finite
 * differences. */
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "executor/operators/copies/copies_cpu.h"
#include "tests/cases/value_case.h"

static const value_case values[] = {
    {"Transpose", 13, "float32[2,3,2]", "perm=[2,0,1]", 1, 0, 12, {1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12}},
    {"Transpose", 13, "float32[2,3]", "", 1, 0, 6, {1, 4, 2, 5, 3, 6}},
    {"Transpose", 13, "int64[2,3]", "perm=[1,0]", 1, 0, 6, {0, 0, 1, 1, 2, 2}},
    {"Transpose", 13, "float32[2,3,2,2]", "perm=[0,3,1,2]", 1, 0, 24, {1,  3,  5,  7,  9,  11, 2,  4,  6,  8,  10, 12,
                                                                       13, 15, 17, 19, 21, 23, 14, 16, 18, 20, 22, 24}},
    {"Reshape", 13, "float32[2,3,2] int64[2]={4,3}", "", 1, 0, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"Reshape", 13, "float32[1,3,2,2] int64[4]={1,3,4,1}", "", 1, 0, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"Flatten", 13, "float32[2,3,2,2]", "axis=2", 1, 0, 24, {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                                             13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
    {"Squeeze", 13, "float32[1,3,1,2] int64[1]={2}", "", 1, 0, 6, {1, 2, 3, 4, 5, 6}},
    {"Unsqueeze", 13, "float32[3,2,2] int64[1]={0}", "", 1, 0, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"Concat",
     13,
     "float32[1,2,2] float32[1,1,2] float32[1,3,2]",
     "axis=1",
     1,
     0,
     12,
     {1, 2, 3, 4, 101, 102, 201, 202, 203, 204, 205, 206}},
    {"Concat", 13, "float32[2,1,2,2] float32[2,2,2,2]", "axis=-3", 1, 0, 24, {1,   2,   3,   4,   101, 102, 103, 104,
                                                                              105, 106, 107, 108, 5,   6,   7,   8,
                                                                              109, 110, 111, 112, 113, 114, 115, 116}},
    {"Split", 13, "float32[1,5,2,2] int64[2]={2,3}", "axis=1", 2, 0, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    {"Split", 13, "float32[1,5,2,2] int64[2]={2,3}", "axis=1", 2, 1, 12, {9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
    {"Split", 11, "float32[4,2]", "split=[1,3]", 2, 0, 2, {1, 2}},
    {"Split", 11, "float32[4,2]", "split=[1,3]", 2, 1, 6, {3, 4, 5, 6, 7, 8}},
    {"Split", 18, "float32[5,2]", "num_outputs=2", 2, 0, 6, {1, 2, 3, 4, 5, 6}},
    {"Split", 18, "float32[5,2]", "num_outputs=2", 2, 1, 4, {7, 8, 9, 10}},
    {"Slice",
     13,
     "float32[3,4,2] int64[2]={1,3} int64[2]={3,0} int64[2]={0,1} int64[2]={1,-1}",
     "",
     1,
     0,
     12,
     {15, 16, 13, 14, 11, 12, 23, 24, 21, 22, 19, 20}},
    {"Slice",
     13,
     "float32[2,4,5,2] int64[2]={0,-1} int64[2]={4,-6} int64[2]={1,2} int64[2]={2,-2}",
     "",
     1,
     0,
     24,
     {9, 10, 5, 6, 1, 2, 29, 30, 25, 26, 21, 22, 49, 50, 45, 46, 41, 42, 69, 70, 65, 66, 61, 62}},
    {"Slice", 9, "float32[4,3]", "starts=[1] ends=[1000]", 1, 0, 9, {4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"Slice", 13, "uint8[7] int64[1]={-2} int64[1]={-8} int64[1]={0} int64[1]={-2}", "", 1, 0, 3, {2, 0, 1}},
    {"Expand", 13, "float32[3,1] int64[3]={2,3,2}", "", 1, 0, 12, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3}},
    {"Expand", 13, "float32[2,3,1,1] int64[4]={2,3,2,2}", "", 1, 0, 24, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,
                                                                         4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6}},
    {"Tile", 13, "float32[2,3] int64[2]={2,2}", "", 1, 0, 24, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6,
                                                               1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
    {"Tile", 13, "float32[1,2,2,1] int64[4]={2,1,2,3}", "", 1, 0, 48, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4,
                                                                       4, 4, 3, 3, 3, 4, 4, 4, 1, 1, 1, 2, 2, 2, 1, 1,
                                                                       1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4}},
    {"Pad", 13, "float32[2,3] int64[4]={1,0,0,2} float32[]={7}", "", 1, 0, 15, {7, 7, 7, 7, 7, 1, 2, 3, 7, 7, 4, 5, 6, 7, 7}},
    {"Pad", 13, "float32[2,4] int64[4]={0,2,1,3}", "mode=edge", 1, 0, 27, {1, 1, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 6, 7,
                                                                           8, 8, 8, 8, 5, 5, 5, 6, 7, 8, 8, 8, 8}},
    {"Pad", 13, "float32[3,4] int64[4]={2,3,1,2}", "mode=reflect", 1, 0, 54, {12, 11, 10, 9,  10, 11, 12, 11, 10, 8,  7,
                                                                              6,  5,  6,  7,  8,  7,  6,  4,  3,  2,  1,
                                                                              2,  3,  4,  3,  2,  8,  7,  6,  5,  6,  7,
                                                                              8,  7,  6,  12, 11, 10, 9,  10, 11, 12, 11,
                                                                              10, 8,  7,  6,  5,  6,  7,  8,  7,  6}},
    {"Pad", 19, "float32[3,4] int64[4]={2,3,1,2}", "mode=wrap", 1, 0, 54, {6,  7,  8,  5,  6, 7, 8, 5, 6,  10, 11, 12, 9,  10,
                                                                           11, 12, 9,  10, 2, 3, 4, 1, 2,  3,  4,  1,  2,  6,
                                                                           7,  8,  5,  6,  7, 8, 5, 6, 10, 11, 12, 9,  10, 11,
                                                                           12, 9,  10, 2,  3, 4, 1, 2, 3,  4,  1,  2}},
    {"Pad", 18, "float32[1,2,2,3] int64[4]={1,1,0,2} float32[]={5} int64[2]={-2,3}", "", 1, 0, 36, {5,  5,  5, 5, 5, 5, 5, 1,
                                                                                                    2,  3,  5, 5, 5, 4, 5, 6,
                                                                                                    5,  5,  5, 5, 5, 5, 5, 5,
                                                                                                    5,  7,  8, 9, 5, 5, 5, 10,
                                                                                                    11, 12, 5, 5}},
    {"DepthToSpace", 13, "float32[1,8,2,1]", "blocksize=2", 1, 0, 16, {1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12, 16}},
    {"DepthToSpace",
     13,
     "float32[1,8,1,2]",
     "blocksize=2 mode=CRD",
     1,
     0,
     16,
     {1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14, 16}},
    {"SpaceToDepth", 13, "float32[1,2,2,4]", "blocksize=2", 1, 0, 16, {1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16}},
    {"Trilu", 14, "float32[2,3,4]", "", 1, 0, 24, {1,  2,  3,  4,  0, 6,  7,  8,  0, 0, 11, 12,
                                                   13, 14, 15, 16, 0, 18, 19, 20, 0, 0, 23, 24}},
    {"Trilu", 14, "float32[3,4] int64[]={1}", "upper=1", 1, 0, 12, {0, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 12}},
    {"Trilu", 14, "float32[2,3,4] int64[]={-1}", "upper=0", 1, 0, 24, {0, 0, 0, 0, 5,  0, 0, 0, 9,  10, 0, 0,
                                                                       0, 0, 0, 0, 17, 0, 0, 0, 21, 22, 0, 0}},
    {"Trilu", 14, "int64[4,3] int64[]={9}", "upper=1", 1, 0, 12, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    /* by hand: negative pads, and forms of old operator sets */
    {"Pad", 13, "float32[1,2,3] int64[6]={0,1,-1,0,0,2}", "", 1, 0, 12, {0, 0, 0, 0, 2, 3, 0, 0, 5, 6, 0, 0}},
    {"Pad", 13, "float32[2,3] int64[4]={-1,1,0,-2}", "mode=edge", 1, 0, 2, {4, 4}},
    {"Pad", 2, "float32[2,2]", "pads=[0,1,0,0] value=9.0", 1, 0, 6, {9, 1, 2, 9, 3, 4}},
    {"Pad", 1, "float32[2]", "paddings=[1,2]", 1, 0, 5, {0, 1, 2, 0, 0}},
    {"Tile", 1, "float32[2,2] int64[1]={3} int64[1]={1}", "", 1, 0, 12, {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}},
    {"Squeeze", 1, "float32[2,1,2]", "axes=[1]", 1, 0, 4, {1, 2, 3, 4}},
    {"Reshape", 1, "float32[2,3]", "shape=[3,2]", 1, 0, 6, {1, 2, 3, 4, 5, 6}},
    {"Slice", 13, "float32[2,2] int64[1]={5} int64[1]={9}", "", 1, 0, 0, {0}},
    {"Expand", 13, "float32[1] int64[1]={0}", "", 1, 0, 0, {0}},
    {"memplan:Reorder", 1, "float32[2,3,2,1]", "", 1, 0, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
};

TEST(every_form_gives_the_reference_values)
{
    value_check_table(values, sizeof values / sizeof *values);
}

TEST(gradients_are_those_of_finite_differences)
{
    static const kernel_case cases[] = {
        {"Transpose", 13, "float32[2,3,4,2]", "perm=[0,2,1,3]", .n_outputs = 1},
        {"Transpose", 13, "float32[2,9,10]", "perm=[0,2,1]", .n_outputs = 1},
        {"Reshape", 13, "float32[2,3,4] int64[2]={4,6}", "", .n_outputs = 1},
        {"Concat", 13, "float32[2,1,2,2] float32[2,3,2,2] float32[2,2,2,2]", "axis=1", .n_outputs = 1},
        {"Concat", 13, "float32[2,3] float32[2,1]", "axis=-1", .n_outputs = 1},
        {"Split", 13, "float32[2,5,2,3] int64[3]={2,0,3}", "axis=1", .n_outputs = 3},
        {"Slice", 13, "float32[2,4,5,2] int64[2]={1,-1} int64[2]={3,-5} int64[2]={1,2}", "", .n_outputs = 1},
        {"Slice", 13, "float32[3,4,5] int64[2]={3,-1} int64[2]={0,-5} int64[2]={1,2} int64[2]={-1,-2}", "", .n_outputs = 1},
        {"Slice", 13, "float32[2,3] int64[1]={3} int64[1]={9}", "", .n_outputs = 1},
        {"Expand", 13, "float32[3,1] int64[3]={2,3,4}", "", .n_outputs = 1},
        {"Expand", 13, "float32[2,3,1,1] int64[4]={2,3,2,2}", "", .n_outputs = 1},
        {"Expand", 13, "float32[2,3] int64[2]={2,3}", "", .n_outputs = 1},
        {"Expand", 13, "float32[1] int64[1]={0}", "", .n_outputs = 1},
        {"Tile", 13, "float32[2,3,2] int64[3]={2,1,3}", "", .n_outputs = 1},
        {"Tile", 13, "float32[2,3] int64[2]={1,1}", "", .n_outputs = 1},
        {"Pad", 13, "float32[2,2,3,2] int64[8]={0,1,1,-1,0,0,-1,2}", "", .n_outputs = 1},
        {"Pad", 13, "float32[2,3] int64[4]={-1,1,-1,0}", "", .n_outputs = 1},
        {"Pad", 13, "float32[2,4,3] int64[6]={0,2,1,0,1,2}", "mode=edge", .n_outputs = 1},
        {"Pad", 13, "float32[2,4,3] int64[6]={1,2,2,0,-1,1}", "mode=reflect", .n_outputs = 1},
        {"Pad", 19, "float32[2,4] int64[4]={3,1,2,5}", "mode=wrap", .n_outputs = 1},
        {"DepthToSpace", 13, "float32[2,8,2,1]", "blocksize=2", .n_outputs = 1},
        {"DepthToSpace", 13, "float32[2,8,1,3]", "blocksize=2 mode=CRD", .n_outputs = 1},
        {"SpaceToDepth", 13, "float32[1,3,2,4]", "blocksize=2", .n_outputs = 1},
        {"Trilu", 14, "float32[2,3,5] int64[]={1}", "", .n_outputs = 1},
        {"Trilu", 14, "float32[2,3,5,4] int64[]={-1}", "upper=0", .n_outputs = 1},
        {"memplan:Reorder", 1, "float32[2,3,2,5]", "", .n_outputs = 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_check_gradient(&cases[k]);
        value_check_overwriting(&cases[k]);
    }
}

/* Sets an array's layout. */
static void lay(mp_array *a, bool channels_last)
{
    void *data = a->data;
    *a = channels_last ? mp_array_channels_last(a->dtype, a->rank, a->dims) : mp_array_plain(a->dtype, a->rank, a->dims);
    a->data = data;
}

TEST(reorder_carries_elements_and_gradients_between_layouts)
{
    if (!backend_of_tests()->is_host) skip(); /* the test selects the CPU's kernel by name */
    kernel_case c = {.kind = "memplan:Reorder", .version = 1, .inputs = "float32[2,11,5,4]", .attributes = "", .n_outputs = 1};
    for (int into = 0; into < 2; into++) {
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | (into ? 0 : KERNEL_CHANNELS_LAST));
        value_count_up(r);
        mp_call_release(&r->forward_call);
        mp_call_release(&r->backward_call);
        lay(&r->forward.out[0], into);
        lay(&r->backward.d_out[0], into);
        r->backward.out[0] = r->forward.out[0];
        const mp_kernel *kernel = mp_cpu_kernel(r->forward.op);
        assert_int_equal(mp_call_prepare(&mp_cpu, kernel, &r->forward, &r->forward_call, NULL), MP_OK);
        r->backward.adds = (unsigned)into;
        assert_int_equal(mp_call_prepare(&mp_cpu, kernel, &r->backward, &r->backward_call, NULL), MP_OK);
        for (int k = 0; k < 440; k++) {
            kernel_set(&r->backward.d_out[0], k, k + 0.5);
            kernel_set(&r->backward.d_in[0], k, 1000);
        }
        kernel_forward(r);
        kernel_backward(r);
        for (int k = 0; k < 440; k++) {
            assert_true(kernel_get(&r->forward.out[0], k) == k + 1);
            assert_true(kernel_get(&r->backward.d_in[0], k) == k + 0.5 + (into ? 1000 : 0));
        }
        kernel_end(r);
    }
}

TEST(a_reshape_of_channels_last_reads_in_the_order_of_indices)
{
    kernel_case c = {
        .kind = "Reshape", .version = 13, .inputs = "float32[2,3,2,2] int64[2]={4,6}", .attributes = "", .n_outputs = 1};
    kernel_run *r = kernel_begin(&c, MP_MODE_EVALUATE, KERNEL_CHANNELS_LAST);
    value_count_up(r);
    assert_false(mp_array_is_plain(&r->forward.in[0]));
    kernel_forward(r);
    for (int k = 0; k < 24; k++) assert_true(kernel_get(&r->forward.out[0], k) == k + 1);
    kernel_end(r);
}

/* A Slice gradient that adds leaves the uncovered elements unchanged, and needs no workspace. */
TEST(adding_gradients_touches_only_the_part)
{
    kernel_case c = {
        .kind = "Slice", .version = 13, .inputs = "float32[4,3] int64[1]={1} int64[1]={3}", .attributes = "", .n_outputs = 1};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | KERNEL_ADDS);
    assert_int_equal(r->backward_call.workspace_bytes, 0);
    for (int k = 0; k < 12; k++) kernel_set(&r->backward.d_in[0], k, 10);
    for (int k = 0; k < 6; k++) kernel_set(&r->backward.d_out[0], k, k + 1);
    kernel_backward(r);
    for (int k = 0; k < 12; k++) assert_true(kernel_get(&r->backward.d_in[0], k) == (k >= 3 && k < 9 ? 10 + k - 2 : 10));
    kernel_end(r);
}

TEST(gradients_are_added_across_transpositions_of_every_type)
{
    kernel_case c = {.kind = "Transpose", .version = 13, .inputs = "float32[9,11]", .attributes = "", .n_outputs = 1};
    for (unsigned flags = 0; flags <= KERNEL_BFLOAT16; flags += KERNEL_BFLOAT16) {
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | KERNEL_ADDS | flags);
        for (int k = 0; k < 99; k++) {
            kernel_set(&r->backward.d_in[0], k, 100);
            kernel_set(&r->backward.d_out[0], k, k);
        }
        memset(r->backward.workspace, 0x44, (size_t)r->backward_call.workspace_bytes);
        kernel_backward(r);
        for (int k = 0; k < 99; k++) assert_true(kernel_get(&r->backward.d_in[0], k) == 100 + k % 11 * 9 + k / 11);
        kernel_end(r);
    }
}

TEST(an_output_without_gradient_counts_as_zero)
{
    kernel_case c = {
        .kind = "Split", .version = 13, .inputs = "float32[4,2] int64[3]={1,2,1}", .attributes = "axis=0", .n_outputs = 3};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    mp_array unused = r->backward.d_out[1];
    r->backward.d_out[1] = (mp_array){0};
    for (int k = 0; k < 2; k++) kernel_set(&r->backward.d_out[0], k, 1), kernel_set(&r->backward.d_out[2], k, 3);
    kernel_backward(r);
    const double expected[8] = {1, 1, 0, 0, 0, 0, 3, 3};
    for (int k = 0; k < 8; k++) assert_true(kernel_get(&r->backward.d_in[0], k) == expected[k]);
    r->backward.d_out[1] = unused;
    kernel_end(r);
}

TEST(trilu_works_in_place)
{
    static const double expected[2][9] = {{1, 0, 0, 4, 5, 0, 7, 8, 9}, {1, 2, 3, 0, 5, 6, 0, 0, 9}};
    for (unsigned form = 0; form < 8; form++) {
        int upper = form / 4;
        kernel_case c = {.kind = "Trilu",
                         .version = 14,
                         .inputs = "float32[1,3,3]",
                         .attributes = upper ? "upper=1" : "upper=0",
                         .n_outputs = 1};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, form % 4 | KERNEL_BACKWARD);
        value_count_up(r);
        void *own = r->forward.out[0].data, *own_gradient = r->backward.d_in[0].data;
        r->forward.out[0].data = r->forward.in[0].data;
        r->backward.d_in[0].data = r->backward.d_out[0].data;
        for (int k = 0; k < 9; k++) kernel_set(&r->backward.d_out[0], k, k + 1);
        kernel_forward(r);
        kernel_backward(r);
        for (int k = 0; k < 9; k++) {
            assert_true(kernel_get(&r->forward.out[0], k) == expected[upper][k]);
            assert_true(kernel_get(&r->backward.d_in[0], k) == expected[upper][k]);
        }
        r->forward.out[0].data = own;
        r->backward.d_in[0].data = own_gradient;
        kernel_end(r);
    }
}

/* Boxes of random sizes, orders and steps, compared with one loop over all indices. */
TEST(boxes_are_copied_as_one_loop_would)
{
    uint64_t draw = 12345;
    for (int round = 0; round < 400; round++) {
        enum { ROOM = 1 << 16 };
        static unsigned char from[ROOM * 8], to[ROOM * 8], expected[ROOM * 8];
        int size = 1 << round % 4, rank = 1 + (round / 4) % 4, order[4] = {0, 1, 2, 3};
        mp_box box = {0};
        int64_t dims[4], from_stride[4], to_stride[4], start_from = 0, stride = 1;
        for (int d = 0; d < rank; d++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            dims[d] = 1 + (int64_t)(draw >> 33) % (rank < 3 ? 90 : 10);
            int other = (int)((draw >> 20) % (unsigned)(d + 1)), t = order[d];
            order[d] = order[other];
            order[other] = t;
        }
        for (int k = rank - 1; k >= 0; k--) {
            int d = order[k];
            bool back = (draw >> (10 + k)) % 4 == 0;
            from_stride[d] = back ? -stride : stride;
            if (back) start_from += (dims[d] - 1) * stride;
            if ((draw >> (5 + k)) % 7 == 0) from_stride[d] = 0, start_from -= back ? (dims[d] - 1) * stride : 0;
            stride *= dims[d];
        }
        stride = 1 + (round % 5 == 0);
        for (int d = rank - 1; d >= 0; d--) {
            to_stride[d] = stride;
            stride *= dims[d] + (round % 3 == 0);
        }
        assert_true(stride < ROOM);
        for (size_t k = 0; k < sizeof from; k++) from[k] = (unsigned char)(k * 31 + k / 251);
        memset(to, 0xee, sizeof to);
        memset(expected, 0xee, sizeof expected);
        int64_t n = 1;
        for (int d = 0; d < rank; d++) n *= dims[d], mp_box_put(&box, dims[d], from_stride[d], to_stride[d]);
        for (int64_t k = 0; k < n; k++) {
            int64_t f = start_from, w = 0, rest = k;
            for (int d = rank - 1; d >= 0; d--) {
                f += rest % dims[d] * from_stride[d];
                w += rest % dims[d] * to_stride[d];
                rest /= dims[d];
            }
            memcpy(expected + w * size, from + f * size, (size_t)size);
        }
        mp_box_copy(&box, size, from + start_from * size, to);
        if (memcmp(to, expected, sizeof to)) fail_msg("box %d of %d dimensions, %d bytes an element", round, rank, size);
    }
}

TEST(results_do_not_depend_on_the_number_of_threads)
{
#ifdef _OPENMP
    kernel_case c = {
        .kind = "Expand", .version = 13, .inputs = "float32[1,33,1] int64[3]={50,33,40}", .attributes = "", .n_outputs = 1};
    float sums[2][33];
    int threads = omp_get_max_threads();
    for (int t = 0; t < 2; t++) {
        omp_set_num_threads(t ? 3 : 1);
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        kernel_backward(r);
        memcpy(sums[t], r->backward.d_in[0].data, sizeof sums[t]);
        kernel_end(r);
    }
    omp_set_num_threads(threads);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
#endif
}

/* test_shapes.c - shape rules, FLOPs and extras of operators with specific arithmetic. Cases are computed by hand or taken from
 * the operators' specifications. */
#include "estimator/simplify/infer.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

#define CHECK(...)                                       \
    do {                                                 \
        const rule_case cases[] = {__VA_ARGS__};         \
        rule_check(cases, sizeof cases / sizeof *cases); \
    } while (0)

TEST(a_convolution_slides_its_window_over_the_padded_input)
{
    CHECK({"Conv", 11, "float32[2,3,224,224] float32[64,3,7,7] float32[64]", "strides=[2,2] pads=[3,3,3,3] kernel_shape=[7,7]",
           "float32[2,64,112,112]"},
          {"Conv", 1, "float16[1,4,10] float16[6,2,3]", "group=2 dilations=[2]", "float16[1,6,6]"},
          {"Conv", 11, "float32[1,8,5,6,7] float32[8,1,2,3,3]", "group=8 pads=[0,1,1,1,1,1]", "float32[1,8,5,6,7]"},
          {"Conv", 11, "float32[1,1,6,6,6,6] float32[2,1,3,3,3,3]", "", "float32[1,2,4,4,4,4]"},
          {"Conv", 11, "float32[1,1,5,5] float32[1,1,3,3]", "auto_pad=SAME_UPPER strides=[2,2]", "float32[1,1,3,3]"},
          {"Conv", 11, "float32[1,1,6,5] float32[1,1,3,3]", "auto_pad=SAME_LOWER strides=[2,2]", "float32[1,1,3,3]"},
          {"Conv", 11, "float32[1,1,7,5] float32[1,1,1,1]", "auto_pad=SAME_LOWER strides=[4,3]", "float32[1,1,2,2]"},
          {"Conv", 11, "float32[1,1,7,5] float32[1,1,3,3]", "auto_pad=VALID strides=[2,2]", "float32[1,1,3,2]"},
          {"Conv", 11, "float32[0,1,7,5] float32[1,1,3,3]", "", "!has no elements"},
          {"ConvInteger", 10, "uint8[1,1,3,3] uint8[1,1,2,2] uint8[]", "pads=[1,1,1,1]", "int32[1,1,4,4]"});
}

TEST(a_convolution_whose_operands_do_not_fit_is_refused)
{
    CHECK(
        {"Conv", 11, "float32[1,3,8,8] float32[4,4,3,3]", "", "!has 3 channels"},
        {"Conv", 11, "float32[1,4,8,8] float32[3,2,3,3]", "group=2", "!3 output channels cannot be split into 2 groups"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "group=0", "!group may not be 0"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3]", "", "!has 3 dimensions"},
        {"Conv", 11, "float32[4,8] float32[4,4]", "", "!has 2 dimensions instead of at least 3"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "kernel_shape=[3,5]", "!kernel_shape is 5, but the weight has 3"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "strides=[2]", "!strides has 1 values instead of 2"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "strides=[0,1]", "!strides may not be 0"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "dilations=[1,-1]", "!dilations may not be -1"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "pads=[1,1]", "!pads has 2 values instead of 4"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "auto_pad=WHATEVER", "!auto_pad 'WHATEVER' is unknown"},
        {"Conv", 11, "float32[1,4,8,2] float32[4,4,3,3]", "", "!does not fit into 2"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3] float32[3]", "", "!has 3 elements for 4 output channels"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "pads=[9000000000000000000,0,9000000000000000000,0]",
         "!the padding is too large"},
        {"Conv", 11, "float32[1,4,8,8] float32[4,4,3,3]", "dilations=[9000000000000000000,1]", "!dilated kernel is too large"});
}

TEST(a_transposed_convolution_turns_the_sizes_around)
{
    CHECK({"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "", "float32[1,2,5,5]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "strides=[3,2]", "float32[1,2,9,7]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "strides=[3,2] output_padding=[1,1]", "float32[1,2,10,8]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "strides=[3,2] output_shape=[10,8]", "float32[1,2,10,8]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "strides=[3,2] pads=[1,2,1,2]", "float32[1,2,7,3]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,1,2,2]", "dilations=[2,2]", "float32[1,1,5,5]"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "auto_pad=SAME_UPPER strides=[2,2]", "float32[1,2,6,6]"},
          /* 2 * 4 + 1 is less than 3 * 4: padding never extends the output */
          {"ConvTranspose", 11, "float32[1,1,3] float32[1,1,1]", "auto_pad=SAME_UPPER strides=[4]", "float32[1,1,9]"},
          {"ConvTranspose", 11, "float32[2,8,5] float32[8,3,4] float32[12]", "group=4 strides=[2] pads=[1,1]",
           "float32[2,12,10]"},
          {"ConvTranspose", 11, "float32[1,6,3,3] float32[6,2,3,3]", "group=4",
           "!6 input channels cannot be split into 4 groups"},
          {"ConvTranspose", 11, "float32[1,4,3,3] float32[6,2,3,3]", "", "!has 4 channels"},
          {"ConvTranspose", 11, "float32[1,1,1,1] float32[1,2,3,3]", "pads=[2,2,2,2]", "!no size"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "output_shape=[10]", "!output_shape has 1 values"},
          {"ConvTranspose", 11, "float32[1,1,3,3] float32[1,2,3,3]", "output_padding=[1]", "!output_padding has 1 values"});
}

TEST(pools_round_down_or_up_but_no_window_begins_in_the_padding)
{
    CHECK({"MaxPool", 12, "float32[1,64,112,112]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", "float32[1,64,56,56]"},
          {"MaxPool", 12, "float32[1,64,55,55]", "kernel_shape=[3,3] strides=[2,2]", "float32[1,64,27,27] int64[1,64,27,27]"},
          {"MaxPool", 12, "float32[1,1,4,4]", "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", "float32[1,1,2,2]"},
          {"MaxPool", 12, "float32[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", "float32[1,1,2,2]"},
          /* (2 + 0 - 1) / 2 rounds up to 2 windows, but the second would begin at 2, after the input */
          {"MaxPool", 12, "float32[1,1,2]", "kernel_shape=[1] strides=[2] ceil_mode=1", "float32[1,1,1]"},
          {"AveragePool", 19, "float32[1,1,2,2]", "kernel_shape=[1,1] strides=[2,2] ceil_mode=1", "float32[1,1,1,1]"},
          /* 6 + 1 + 1 - 3 = 5 in steps of 3: 2 rounded down, 3 up; the third would begin at 6, inside 6 + 1 */
          {"MaxPool", 12, "float32[1,1,6]", "kernel_shape=[3] strides=[3] pads=[1,1] ceil_mode=1", "float32[1,1,3]"},
          {"MaxPool", 12, "float32[1,1,5]", "kernel_shape=[3] strides=[3] pads=[1,2] ceil_mode=1", "float32[1,1,2]"},
          /* rounding changes nothing, but the last window would begin at 6, after 4 + 1 */
          {"AveragePool", 19, "float32[1,1,4]", "kernel_shape=[1] pads=[1,2] ceil_mode=1", "float32[1,1,6]"},
          /* with rounding up, a window may be larger than the input: ceil((3 - 4) / 2) + 1 */
          {"MaxPool", 12, "float32[1,1,3]", "kernel_shape=[4] strides=[2] ceil_mode=1", "float32[1,1,1]"},
          {"MaxPool", 12, "float32[1,1,2]", "kernel_shape=[4] strides=[2] ceil_mode=1", "!does not fit into 2"},
          {"MaxPool", 12, "float32[1,1,4]", "kernel_shape=[3] strides=[2] ceil_mode=1 auto_pad=VALID", "float32[1,1,1]"},
          {"MaxPool", 12, "int8[1,1,4,4]", "kernel_shape=[2,2] dilations=[2,2]", "int8[1,1,2,2]"},
          {"AveragePool", 11, "float32[1,3,32,32]", "kernel_shape=[2,2] auto_pad=SAME_LOWER", "float32[1,3,32,32]"},
          {"LpPool", 18, "float32[1,3,32,30,28]", "kernel_shape=[2,2,2]", "float32[1,3,31,29,27]"},
          {"GlobalAveragePool", 1, "float32[2,3,5,6,7]", "", "float32[2,3,1,1,1]"},
          {"GlobalMaxPool", 1, "float32[2,3]", "", "float32[2,3]"},
          {"MaxPool", 12, "float32[1,1,4,4]", "", "!kernel_shape is missing"},
          {"MaxPool", 12, "float32[1,1,4,4]", "kernel_shape=[3]", "!kernel_shape has 1 values instead of 2"},
          {"MaxPool", 12, "float32[1,1,4,4]", "kernel_shape=[5,5]", "!does not fit into 4"},
          {"GlobalMaxPool", 1, "float32[2]", "", "!has 1 dimensions"});
}

TEST(sampling_takes_its_size_from_the_points)
{
    CHECK({"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2]", "kernel_shape=[2,2] strides=[2,2]", "float32[1,1,4,4]"},
          {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2] int64[4]={1,1,5,5}", "kernel_shape=[2,2] strides=[2,2]",
           "float32[1,1,5,5]"},
          {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,3]", "kernel_shape=[2,2]", "!do not have the shape"},
          {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2] int64[4]", "kernel_shape=[2,2]", "!known only at run time"},
          {"MaxRoiPool", 1, "float32[2,3,9,9] float32[7,5]", "pooled_shape=[4,5]", "float32[7,3,4,5]"},
          {"MaxRoiPool", 1, "float32[2,3,9,9] float32[7,4]", "pooled_shape=[4,5]", "!4 numbers each instead of 5"},
          {"RoiAlign", 16, "float32[2,3,9,9] float32[7,4] int64[7]", "output_height=4 output_width=5", "float32[7,3,4,5]"},
          {"RoiAlign", 16, "float32[2,3,9,9] float32[7,4] int64[6]", "", "!7 regions come with 6 batch indices"},
          {"GridSample", 16, "float32[2,3,9,9] float32[2,5,6,2]", "", "float32[2,3,5,6]"},
          {"GridSample", 20, "float32[2,3,9,9,9] float32[2,5,6,7,3]", "", "float32[2,3,5,6,7]"},
          {"GridSample", 16, "float32[2,3,9,9] float32[2,5,6,3]", "", "!3 coordinates instead of 2"},
          {"GridSample", 16, "float32[2,3,9,9] float32[1,5,6,2]", "", "!is for 1 samples"});
}

TEST(images_are_put_together_from_columns)
{
    CHECK({"Col2Im", 18, "float32[1,5,5] int64[2]={5,5} int64[2]={1,5}", "", "float32[1,1,5,5]"},
          {"Col2Im", 18, "float16[2,18,9] int64[2]={5,5} int64[2]={3,3}", "", "float16[2,2,5,5]"},
          {"Col2Im", 18, "float32[1,9,4] int64[2]={5,5} int64[2]={3,3}", "strides=[2,2]", "float32[1,1,5,5]"},
          {"Col2Im", 18, "float32[1,5,15] int64[2]={5,5} int64[2]={1,5}", "pads=[0,1,0,1]", "float32[1,1,5,5]"},
          {"Col2Im", 18, "float32[1,4,5] int64[2]={6,6} int64[2]={2,2}", "dilations=[1,5]", "float32[1,1,6,6]"},
          {"Col2Im", 18, "float32[3,10,12] int64[3]={3,4,5} int64[3]={1,1,5}", "", "float32[3,2,3,4,5]"},
          {"Col2Im", 18, "float32[3,4,8] int64[1]={9} int64[1]={2}", "", "float32[3,2,9]"},
          {"Col2Im", 18, "float32[1,5,6] int64[2]={5,5} int64[2]={1,5}", "", "!has 5 positions in the image"},
          {"Col2Im", 18, "float32[1,7,5] int64[2]={5,5} int64[2]={1,5}", "", "!7 rows cannot be split into blocks of 5"},
          {"Col2Im", 18, "float32[1,5,5] int64[2]={5,5} int64[2]={1,6}", "", "!does not fit into 5"},
          {"Col2Im", 18, "float32[1,5,5] int64[2]={5,5} int64[2]={0,5}", "", "!a block of 0"},
          {"Col2Im", 18, "float32[1,5,5] int64[2]={5,5} int64[1]={5}", "", "!a block of 1 dimensions"},
          {"Col2Im", 18, "float32[1,5,5] int64[2] int64[2]={1,5}", "", "!known only at run time"},
          {"Col2Im", 18, "float32[1,5,5] int64[2]={5,5} int64[2]={1,5}", "pads=[1,1]", "!pads has 2 values instead of 4"});
}

TEST(resizing_follows_factors_or_sizes_in_every_version)
{
    CHECK({"Upsample", 7, "float32[1,1,2,3]", "scales=[1.0,1.0,2.0,3.0]", "float32[1,1,4,9]"},
          {"Upsample", 1, "float32[1,1,2,3]", "height_scale=2.0 width_scale=1.5", "float32[1,1,4,4]"},
          {"Upsample", 9, "float32[1,1,2,3] float32[4]={1,1,2,3}", "", "float32[1,1,4,9]"},
          {"Resize", 10, "float32[1,1,5,5] float32[4]={1,1,0.6,2.5}", "", "float32[1,1,3,12]"},
          {"Resize", 11, "float32[1,1,10,5] float32[0] float32[4]={1,1,0.7,2}", "", "float32[1,1,7,10]"},
          {"Resize", 13, "float32[1,1,5,5] - - int64[4]={1,1,9,2}", "", "float32[1,1,9,2]"},
          {"Resize", 11, "float32[1,1,5,5] float32[0] float32[0] int64[4]={1,1,9,2}", "", "float32[1,1,9,2]"},
          {"Resize", 18, "float32[1,3,5,6] - - int64[2]={9,2}", "axes=[3,2]", "float32[1,3,2,9]"},
          {"Resize", 18, "float32[1,3,5,6] - float32[2]={3,0.5}", "axes=[-1,-2]", "float32[1,3,2,18]"},
          /* factors 7/2 and 8/4: the smaller one gives 4 x 8, the larger one 7 x 14 */
          {"Resize", 18, "float32[1,1,2,4] - - int64[2]={7,8}", "axes=[2,3] keep_aspect_ratio_policy=not_larger",
           "float32[1,1,4,8]"},
          {"Resize", 18, "float32[1,1,2,4] - - int64[2]={7,8}", "axes=[2,3] keep_aspect_ratio_policy=not_smaller",
           "float32[1,1,7,14]"},
          {"Resize", 18, "float32[4,2] - - int64[2]={1,9}", "keep_aspect_ratio_policy=not_larger", "float32[1,1]"},
          {"Resize", 18, "float32[3,2] - - int64[2]={1,1}", "keep_aspect_ratio_policy=not_larger", "float32[1,1]"},
          {"Resize", 11, "float32[1,1,4,4] float32[8]={0,0,0.25,0.5,1,1,0.75,0.75} float32[4]={1,1,2,4}",
           "coordinate_transformation_mode=tf_crop_and_resize", "float32[1,1,4,4]"},
          {"Resize", 13, "float32[1,1,5,5] - float32[4]={1,1,2,2} int64[4]={1,1,9,2}", "", "!both scales and sizes are given"},
          {"Resize", 13, "float32[1,1,5,5]", "", "!neither scales nor sizes are given"},
          {"Resize", 13, "float32[1,1,5,5] - float32[2]={2,2}", "", "!2 factors are given for 4 axes"},
          {"Resize", 13, "float32[1,1,5,5] - float32[4]={1,1,-2,2}", "", "!a factor of -2"},
          {"Resize", 18, "float32[1,3,5,6] - - int64[2]={9,2}", "axes=[3,3]", "!axis 3 is given twice"},
          {"Resize", 13, "float32[1,1,5,5] - float32[4]", "", "!known only at run time"});
}

TEST(matrix_products_broadcast_their_batches_and_take_vectors)
{
    CHECK({"MatMul", 13, "float32[3,4] float32[4,5]", "", "float32[3,5]"},
          {"MatMul", 13, "float32[7,1,3,4] float32[6,4,5]", "", "float32[7,6,3,5]"},
          {"MatMul", 13, "float32[4] float32[4]", "", "float32[]"},
          {"MatMul", 13, "float32[4] float32[6,4,5]", "", "float32[6,5]"},
          {"MatMul", 13, "float32[6,3,4] float32[4]", "", "float32[6,3]"},
          {"MatMulInteger", 10, "uint8[4,3] int8[3,2] uint8[] int8[]", "", "int32[4,2]"},
          {"com.microsoft:FusedMatMul", 1, "float32[2,4,3] float32[2,5,4]", "transA=1 transB=1 alpha=0.125", "float32[2,3,5]"},
          /* the batch dimension follows the rows: (rows, batch, columns) */
          {"com.microsoft:FusedMatMul", 1, "float32[3,2,4] float32[2,4,5]", "transBatchA=1", "float32[2,3,5]"},
          {"memplan:FusedMatMul", 1, "float32[2,3,4] float32[5,4] float32[5]", "transB=1", "float32[2,3,5]"},
          {"memplan:FusedMatMul", 1, "float32[3,4] float32[4,5] float32[4]", "", "!has 4 elements for rows of 5"},
          {"memplan:FusedMatMul", 1, "float32[3,4] float32[4,5] float32[1,5]", "", "!has 2 dimensions instead of 1"},
          {"com.microsoft:FusedMatMul", 1, "float32[4,2,3] float32[5,2,4]", "transBatchA=1 transA=1 transBatchB=1 transB=1",
           "float32[2,3,5]"},
          {"MatMul", 13, "float32[3,4] float32[5,4]", "", "!4 columns meet 5 rows"},
          {"MatMul", 13, "float32[2,3,4] float32[3,4,5]", "", "!batch dimensions"},
          {"MatMul", 13, "float32[] float32[5,4]", "", "!has 0 dimensions instead of at least 1"},
          {"Gemm", 13, "float32[3,4] float32[4,5] float32[5]", "", "float32[3,5]"},
          {"Gemm", 7, "float32[4,3] float32[5,4] float32[3,1]", "transA=1 transB=1", "float32[3,5]"},
          {"Gemm", 11, "float32[3,4] float32[4,5]", "", "float32[3,5]"},
          {"Gemm", 13, "float32[3,4] float32[4,5] float32[]", "", "float32[3,5]"},
          {"Gemm", 13, "float32[3,4] float32[4,5] float32[3]", "", "!cannot be added to a product of 3 x 5"},
          {"Gemm", 13, "float32[3,4] float32[3,5]", "", "!4 columns meet 3 rows"},
          {"Gemm", 13, "float32[2,3,4] float32[4,5]", "", "!has 3 dimensions instead of 2"},
          {"Det", 11, "float32[3,3]", "", "float32[]"}, {"Det", 11, "float32[2,4,3,3]", "", "float32[2,4]"},
          {"Det", 11, "float32[2,3]", "", "!not square"});
}

TEST(einsum_reads_its_equation)
{
    CHECK({"Einsum", 12, "float32[2,3,4] float32[2,4,5]", "equation=bij,bjk->bik", "float32[2,3,5]"},
          {"Einsum", 12, "float32[2,3,4] float32[2,4,5]", "equation=bij,bjk", "float32[3,5]"},
          {"Einsum", 12, "float32[3,4]", "equation=ij->ji", "float32[4,3]"},
          {"Einsum", 12, "float32[3,4]", "equation=ba", "float32[4,3]"},
          {"Einsum", 12, "float32[3,4]", "equation=aB", "float32[4,3]"},
          {"Einsum", 12, "float32[3,3,4]", "equation=iij->j", "float32[4]"},
          {"Einsum", 12, "float32[3,3]", "equation=ii", "float32[]"},
          {"Einsum", 12, "float32[7,2,3,4] float32[2,4,5]", "equation=...ij,...jk->...ik", "float32[7,2,3,5]"},
          {"Einsum", 12, "float32[7,2,3,4] float32[4]", "equation=...j,j", "float32[7,2,3]"},
          {"Einsum", 12, "float32[7,3,4]", "equation=...ii->...i", "!sizes 3 and 4 for 'i'"},
          {"Einsum", 12, "float32[7,4,4]", "equation=...ii->...i", "float32[7,4]"},
          {"Einsum", 12, "float32[3] float32[4]", "equation=i,j->ij", "float32[3,4]"},
          {"Einsum", 12, "float32[1,4] float32[3,5]", "equation=ij,ik->ijk", "float32[3,4,5]"},
          {"Einsum", 12, "float32[3,5] float32[1,4]", "equation=ij,ik->ijk", "float32[3,5,4]"},
          {"Einsum", 12, "float32[3,4] float32[5,6]", "equation=ij,jk->ik", "!'j' is 4 and 5"},
          {"Einsum", 12, "float32[3,4]", "equation=ijk->i", "!names 3 dimensions"},
          {"Einsum", 12, "float32[3,4]", "equation=ij->ijj", "!names 'j' twice"},
          {"Einsum", 12, "float32[3,4]", "equation=ij->ik", "!'k', which no operand contains"},
          {"Einsum", 12, "float32[3,4]", "equation=ij,jk->ik", "!does not have 1 terms"},
          {"Einsum", 12, "float32[3,4] float32[4]", "equation=ij->i", "!does not have 2 terms"},
          {"Einsum", 12, "float32[3,4]", "equation=i.j->i", "!misplaced '.'"},
          {"Einsum", 12, "float32[3,4]", "equation=i1->i", "!misplaced '1'"},
          {"Einsum", 12, "float32[3,4]", "", "!the equation is missing"},
          {"Einsum", 12, "float32[3] float32[3] float32[3]", "equation=i,i,i->i", "!3 operands is not supported"});
}

TEST(normalizations_give_their_statistics)
{
    CHECK({"BatchNormalization", 15, "float32[2,3,4,5] float32[3] float32[3] float64[3] float64[3]", "training_mode=1",
           "float32[2,3,4,5] float64[3] float64[3]"},
          {"BatchNormalization", 9, "float32[2,3,4,5] float32[3] float32[3] float32[3] float32[3]", "",
           "float32[2,3,4,5] float32[3] float32[3] - float32[3]"},
          {"BatchNormalization", 7, "float32[2,3,4] float32[3,4] float32[3,4] float32[3,4] float32[3,4]", "spatial=0",
           "float32[2,3,4]"},
          {"memplan:BatchNormalizationRelu", 1, "float32[2,3,4] float32[3] float32[3] float32[3] float32[3]", "",
           "float32[2,3,4]"},
          {"memplan:BatchNormalizationAddRelu", 1, "float32[2,3,4] float32[3] float32[3] float32[3] float32[3] float32[2,3,4]",
           "", "float32[2,3,4]"},
          {"memplan:BatchNormalizationAddRelu", 1, "float32[2,3,4] float32[3] float32[3] float32[3] float32[3] float32[2,3,1]",
           "", "!must have the shape of"},
          {"BatchNormalization", 15, "float32[7] float32[1] float32[1] float32[1] float32[1]", "", "float32[7]"},
          {"BatchNormalization", 15, "float32[2,3,4,5] float32[3] float32[3] float32[4] float32[3]", "",
           "!has 4 elements for the 3 channels"},
          {"LayerNormalization", 17, "float16[2,3,4,5] float16[4,5] float16[4,5]", "axis=-2",
           "float16[2,3,4,5] float32[2,3,1,1] float32[2,3,1,1]"},
          {"LayerNormalization", 17, "float32[2,3,4] float32[4]", "stash_type=16", "float32[2,3,4] bfloat16[2,3,1]"},
          {"SimplifiedLayerNormalization", 1, "float16[2,3] float16[3]", "", "float16[2,3] float32[2,1]"},
          {"RMSNormalization", 23, "float32[2,3,4] float32[4]", "axis=2", "float32[2,3,4]"},
          {"LayerNormalization", 17, "float32[2,3,4] float32[3]", "", "!does not fit"},
          {"LayerNormalization", 17, "float32[2,1,4] float32[3,4]", "axis=1", "!does not fit"},
          {"LayerNormalization", 17, "float32[2,3,4] float32[4] float32[5]", "", "!does not fit"},
          {"LayerNormalization", 17, "float32[2,3,4] float32[4]", "axis=3", "!there is no axis 3 in 3 dimensions"},
          {"LayerNormalization", 17, "float32[2,3,4] float32[4]", "stash_type=7", "!stash_type 7"});
}

TEST(reductions_take_their_axes_where_the_version_has_them)
{
    CHECK({"ReduceMean", 13, "float32[2,3,4]", "axes=[-1,0] keepdims=0", "float32[3]"},
          {"ReduceMean", 13, "float32[2,3,4]", "axes=[1]", "float32[2,1,4]"},
          {"ReduceMean", 13, "float32[2,3,4]", "", "float32[1,1,1]"},
          {"ReduceMean", 13, "float32[2,3,4]", "keepdims=0", "float32[]"},
          {"ReduceSum", 13, "float32[2,3,4] int64[1]={-2}", "", "float32[2,1,4]"},
          {"ReduceSum", 13, "float32[2,3,4] int64[0]", "noop_with_empty_axes=1", "float32[2,3,4]"},
          {"ReduceSum", 13, "float32[2,3,4] int64[0]", "", "float32[1,1,1]"},
          {"ReduceSum", 13, "float32[2,3,4]", "noop_with_empty_axes=1 keepdims=0", "float32[2,3,4]"},
          {"ReduceMax", 18, "int64[2,3,4] int64[2]={0,2}", "keepdims=0", "int64[3]"},
          {"ReduceMax", 18, "float32[2,3,4] int64[1]={3}", "", "!there is no axis 3"},
          {"ReduceMax", 18, "float32[2,3,4] int64[2]={2,-1}", "", "!axis 2 is given twice"},
          {"ReduceMax", 18, "float32[2,3,4] int64[1]", "", "!known only at run time"},
          {"ArgMax", 13, "float32[2,3,4]", "axis=-1 keepdims=0", "int64[2,3]"},
          {"ArgMin", 1, "float32[2,3,4]", "", "int64[1,3,4]"},
          {"ArgMin", 13, "float32[2,3,4]", "axis=3", "!there is no axis 3"});
}

TEST(recurrent_layers_know_directions_and_layouts)
{
    CHECK({"LSTM", 14, "float32[5,2,3] float32[1,28,3] float32[1,28,7]", "hidden_size=7",
           "float32[5,1,2,7] float32[1,2,7] float32[1,2,7]"},
          {"LSTM", 14, "float32[5,2,3] float32[2,28,3] float32[2,28,7] float32[2,56] int32[2] float32[2,2,7] float32[2,2,7]",
           "hidden_size=7 direction=bidirectional", "- float32[2,2,7] float32[2,2,7]"},
          {"GRU", 14, "float32[2,5,3] float32[1,21,3] float32[1,21,7] - - float32[2,1,7]", "layout=1 direction=reverse",
           "float32[2,5,1,7] float32[2,1,7]"},
          {"RNN", 14, "float32[5,2,3] float32[1,7,3] float32[1,7,7]", "hidden_size=7", "float32[5,1,2,7] float32[1,2,7]"},
          {"LSTM", 14, "float32[5,2,3] float32[1,28,3] float32[1,28,7]", "hidden_size=8", "!must have [1, 32, 3]"},
          {"GRU", 14, "float32[5,2,3] float32[1,28,3] float32[1,28,7]", "", "!must have [1, 21, 3]"},
          {"GRU", 14, "float32[5,2,3] float32[1,21,3] float32[1,21,7] float32[1,21]", "", "!must have [1, 42]"},
          {"RNN", 14, "float32[5,2,3] float32[1,7,3] float32[1,7,7]", "direction=sideways", "!'sideways' is unknown"});
}

TEST(losses_reduce_over_the_labels)
{
    CHECK({"SoftmaxCrossEntropyLoss", 13, "float32[4,10] int64[4]", "", "float32[] float32[4,10]"},
          {"SoftmaxCrossEntropyLoss", 13, "float32[4,10,5,6] int64[4,5,6] float32[10]", "reduction=none",
           "float32[4,5,6] float32[4,10,5,6]"},
          {"NegativeLogLikelihoodLoss", 13, "float32[4,10,5] int64[4,5]", "reduction=sum", "float32[]"},
          {"memplan:MeanSquaredError", 1, "float32[4,10] float32[4,10]", "", "float32[]"},
          {"SoftmaxCrossEntropyLoss", 13, "float32[4,10] int64[5]", "", "!have 5 along dimension 0"},
          {"SoftmaxCrossEntropyLoss", 13, "float32[4,10] int64[4,1]", "", "!has 2 dimensions"},
          {"SoftmaxCrossEntropyLoss", 13, "float32[4,10] int64[4] float32[9]", "", "!9 weights are given for 10 classes"},
          {"NegativeLogLikelihoodLoss", 13, "float32[4,10] int64[4]", "reduction=max", "!reduction 'max' is unknown"},
          {"memplan:MeanSquaredError", 1, "float32[4,10] float32[10]", "", "!have different shapes"},
          {"memplan:HuberLoss", 1, "float32[4,10] float32[4,10]", "delta=0.5", "float32[]"},
          {"memplan:HuberLoss", 1, "float32[4,10] float32[4,10]", "delta=0.0", "!must be over 0"},
          {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[4,10] float32[4,10] float32[10]", "", "float32[]"},
          {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[4,10] float32[4,10] float32[1]", "", "float32[]"},
          {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[4,10] float32[4,10] float32[4]", "", "!4 weights are given"});
}

TEST(attention_takes_stacks_of_matrices_over_one_batch)
{
#define ATTENTION "memplan:ScaledDotProductAttention"
#define PACKED "viewQ=[0,2,2,5,8,240,8,48,1] viewK=[16,2,2,5,8,240,8,48,1] "
    CHECK(
        {ATTENTION, 1, "float32[2,3,7,4] float32[2,3,5,4] float32[2,3,5,6]", "", "float32[2,3,7,6]"},
        {ATTENTION, 1, "bfloat16[7,4] bfloat16[4,5] bfloat16[5,6]", "transK=1", "bfloat16[7,6]"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,5,4] float32[2,5,6] float32[5]", "", "float32[2,7,6]"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,5,4] float32[2,5,6] - bool[2,1,5]", "", "float32[2,7,6]"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,5,4] float32[2,5,6] float32[7,1] bool[7,5]", "", "float32[2,7,6]"},
        {ATTENTION, 1, "float32[2,7,3,4] float32[5,4,2,3] float32[3,2,5,6] float32[2,1,1,5]",
         "permQ=[0,2,1,3] permK=[2,3,1,0] permV=[1,0,2,3] transK=1 permY=[2,0,1,3]", "float32[7,2,3,6]"},
        {ATTENTION, 1, "float32[2,5,48]", PACKED "viewV=[32,2,2,5,8,240,8,48,1]", "float32[2,2,5,8]"},
        {ATTENTION, 1, "float32[2,5,48] - - bool[5,5]", PACKED "viewV=[32,2,2,5,8,240,8,48,1] permY=[0,2,1,3]",
         "float32[2,5,2,8]"},
        {ATTENTION, 1, "float32[2,5,48]", PACKED "viewV=[33,2,2,5,8,240,8,48,1]", "!viewV is not a part of"},
        {ATTENTION, 1, "float32[2,5,48]", PACKED "viewV=[32,2,2,5,4,240,8,48,1]", "!the views have 400 elements"},
        {ATTENTION, 1, "float32[2,5,48]", PACKED "viewV=[32,2,10,8,240,48,1]", "!viewV has 3 dimensions"},
        {ATTENTION, 1, "float32[2,5,48]", PACKED, "!viewV is missing"},
        {ATTENTION, 1, "float32[7,4] - float32[5,6]", "", "!input 1 is missing"},
        {ATTENTION, 1, "float32[2,7,3,4] float32[2,3,5,4] float32[2,3,5,6]", "", "!batch dimensions"},
        {ATTENTION, 1, "float32[7,4] float32[5,4] float32[5,6]", "permV=[0,1,2]", "!permV has 3 dimensions instead of 2"},
        {ATTENTION, 1, "float32[7,4] float32[5,4] float32[5,6]", "permY=[1,1]", "!permY is not a permutation of 2 dimensions"},
        {ATTENTION, 1, "float32[7,4] float32[5,4] float32[5,6]", "permQ=[0,2]", "!permQ is not a permutation of 2 dimensions"},
        {ATTENTION, 1, "float32[2,7,4] float32[3,5,4] float32[2,5,6]", "", "!batch dimensions"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,5,4] float32[1,5,6]", "", "!batch dimensions"},
        {ATTENTION, 1, "float32[2,7,4] float32[5,4] float32[2,5,6]", "", "!has 2 dimensions instead of 3"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,4,5] float32[2,5,6]", "", "!have depth 4"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,4,5] float32[2,4,6]", "transK=1", "!5 keys"},
        {ATTENTION, 1, "float32[2,7,4] float32[2,5,4] float32[2,5,6] float32[7,4]", "", "!does not fit the scores [2, 7, 5]"},
        {ATTENTION, 1, "float32[2,1,4] float32[2,5,4] float32[2,5,6] float32[7,5]", "", "!does not fit the scores [2, 1, 5]"});
}

/* cmocka compares no doubles; the values are whole numbers */
#define SAME(flops, expected) assert_true((flops) == (expected))

TEST(products_cost_two_flops_per_multiply_add)
{
    /* ResNet's stem: 112 * 112 * 64 outputs of 3 * 7 * 7 products */
    SAME(rule_flops("Conv", 11, "float32[2,3,224,224] float32[64,3,7,7] float32[64]", "strides=[2,2] pads=[3,3,3,3]"),
         2.0 * 2 * 112 * 112 * 64 * 3 * 49);
    SAME(rule_flops("Conv", 11, "float32[1,32,8,8] float32[32,1,3,3]", "group=32 pads=[1,1,1,1]"), 2.0 * 32 * 64 * 9);
    SAME(rule_flops("ConvInteger", 10, "uint8[1,1,3,3] uint8[2,1,2,2]", ""), 2.0 * 2 * 4 * 4);
    /* each of 4 x 3 x 3 inputs is multiplied with 2 x 3 x 3 weights */
    SAME(rule_flops("ConvTranspose", 11, "float32[1,4,3,3] float32[4,2,3,3]", "strides=[2,2] group=2"), 2.0 * 36 * 18);
    SAME(rule_flops("MatMul", 13, "float32[7,1,3,4] float32[6,4,5]", ""), 2.0 * 7 * 6 * 3 * 4 * 5);
    SAME(rule_flops("MatMul", 13, "float32[4] float32[4]", ""), 8.0);
    SAME(rule_flops("com.microsoft:FusedMatMul", 1, "float32[4,2,3] float32[5,2,4]",
                    "transBatchA=1 transA=1 transBatchB=1 transB=1"),
         2.0 * 2 * 3 * 4 * 5);
    SAME(rule_flops("Gemm", 13, "float32[4,3] float32[5,4] float32[5]", "transA=1 transB=1"), 2.0 * 3 * 4 * 5);
    SAME(rule_flops("Einsum", 12, "float32[7,2,3,4] float32[2,4,5]", "equation=...Bj,...jk->...Bk"), 2.0 * 7 * 2 * 3 * 4 * 5);
    SAME(rule_flops("Einsum", 12, "float32[3,4]", "equation=ij->ji"), 0.0);
    SAME(rule_flops(ATTENTION, 1, "float32[2,3,7,4] float32[2,3,4,5] float32[2,3,5,6]", "transK=1"), 2.0 * 6 * 7 * 5 * (4 + 6));
    SAME(rule_flops(ATTENTION, 1, "float32[2,5,48]", PACKED "viewV=[32,2,2,5,8,240,8,48,1]"), 2.0 * 4 * 5 * 5 * (8 + 8));
    SAME(rule_flops("LSTM", 14, "float32[5,2,3] float32[2,28,3] float32[2,28,7]", "direction=bidirectional"),
         2.0 * 5 * 2 * 2 * 28 * (3 + 7));
}

TEST(extras_are_as_large_as_what_backward_reads)
{
    const mp_rules ours = MP_RULES_EXECUTOR, torch = MP_RULES_PYTORCH;
    rule_check_extras("Dropout", 13, "float32[4,10]", "", ours, "");
    rule_check_extras("Dropout", 13, "float32[4,10]", "", torch, "noise 160");
    rule_check_extras("MaxPool", 12, "float32[1,2,32,32]", "kernel_shape=[16,16] strides=[16,16]", ours, "indices 8");
    rule_check_extras("MaxPool", 12, "float32[1,2,32,32]", "kernel_shape=[16,17] strides=[16,16]", ours, "indices 16");
    rule_check_extras("MaxPool", 12, "float32[1,2,32,32]", "kernel_shape=[2,2] strides=[2,2]", torch, "indices 4096");
    rule_check_extras("GlobalMaxPool", 1, "float32[4,3,7,7]", "", ours, "indices 48");
    rule_check_extras("GlobalMaxPool", 1, "float32[4,3,7,7]", "", torch, "indices 96");
    rule_check_extras("BatchNormalization", 15, "float16[2,3,4,5] float32[3] float32[3] float32[3] float32[3]", "", ours,
                      "mean 12, invstd 12");
    rule_check_extras("memplan:BatchNormalizationAddRelu", 1,
                      "bfloat16[2,3,7,5] float32[3] float32[3] float32[3] float32[3] bfloat16[2,3,7,5]", "", ours,
                      "mean 12, invstd 12, positive 27");
    rule_check_extras("LayerNormalization", 17, "float32[2,3,4,5] float32[4,5]", "axis=-2", ours, "mean 24, rstd 24");
    rule_check_extras("RMSNormalization", 23, "float64[2,3,4] float64[4]", "", torch, "rstd 48");
    rule_check_extras("GroupNormalization", 21, "float32[2,6,4,5] float32[6] float32[6]", "num_groups=3", ours,
                      "mean 24, rstd 24");
    rule_check_extras("InstanceNormalization", 6, "float32[2,6,4,5] float32[6] float32[6]", "", ours, "mean 48, rstd 48");
    rule_check_extras("LRN", 13, "float32[2,6,4,5]", "size=3", ours, "scale 960");
    rule_check_extras("LRN", 13, "bfloat16[2,6,4,5]", "size=3", ours, "scale 960");
    rule_check_extras("LRN", 13, "bfloat16[2,6,4,5]", "size=3", torch, "scale 480");
    rule_check_extras(ATTENTION, 1, "bfloat16[2,3,7,4] bfloat16[2,3,5,4] bfloat16[2,3,5,6]", "ratio=0.5", ours, "lse 168");
    rule_check_extras("LSTM", 14, "float32[5,2,3] float32[1,28,3] float32[1,28,7]", "", ours, "reserve 1400");
    rule_check_extras("GRU", 14, "float32[5,2,3] float32[2,21,3] float32[2,21,7]", "direction=bidirectional", ours,
                      "reserve 1680");
    rule_check_extras("GRU", 14, "float32[5,2,3] float32[1,21,3] float32[1,21,7]", "linear_before_reset=1", ours,
                      "reserve 1120");
    rule_check_extras("RNN", 14, "float32[5,2,3] float32[1,7,3] float32[1,7,7]", "", ours, "");
    /* Measured by PyTorch 2.15's autograd on the CPU, without the input and, for the LSTM, the output. nn.LSTM(7, 16) over (5,
     * 3, 7), nn.LSTM(400, 256) over (100, 8, 400), nn.LSTM(20, 20) in both directions over (40, 8, 20); nn.GRU(7, 16) and
     * nn.RNN(7, 16) over (5, 3, 7). */
    rule_check_extras("LSTM", 14, "float32[5,3,7] float32[1,64,7] float32[1,64,16]", "", torch, "workspace 29440");
    rule_check_extras("LSTM", 14, "float32[100,8,400] float32[1,1024,400] float32[1,1024,256]", "", torch,
                      "workspace 15310848");
    rule_check_extras("LSTM", 14, "float32[40,8,20] float32[2,80,20] float32[2,80,20]", "direction=bidirectional", torch,
                      "workspace 1020928");
    rule_check_extras("GRU", 14, "float32[5,3,7] float32[1,48,7] float32[1,48,16]", "", torch, "workspace 6720");
    rule_check_extras("RNN", 14, "float32[5,3,7] float32[1,16,7] float32[1,16,16]", "", torch, "workspace 1152");
    rule_check_extras("SoftmaxCrossEntropyLoss", 13, "float16[4,10] int64[4]", "", torch, "log_probabilities 160");
    rule_check_extras("SoftmaxCrossEntropyLoss", 13, "float16[4,10,5] int64[4,5]", "", ours, "lse 80");
    rule_check_extras("MaxPool", 12, "int8[1152921504606846976,1,4]", "kernel_shape=[4]", torch, "indices 9223372036854775807");
}

static void add(mp_model *model, const char *kind, int n_in, const int *in, int out)
{
    int index;
    const mp_operator_draft draft = {
        .kind = kind, .domain = "", .version = 17, .in = in, .n_in = n_in, .out = &out, .n_out = 1};
    assert_int_equal(mp_model_operator(model, &draft, &index, NULL), MP_OK);
}

/* cos(-factor * Range(0, size, 1)). The size is known only at run time. Only the cosine has a declared shape, [10] or [1, 10].
 * The factor is computed after the range. */
static mp_model *counting_model(int factor_rank, int *counted)
{
    mp_model *model;
    int scaled, negative, cosine;
    assert_int_equal(mp_model_new("counting", "", &model, NULL), MP_OK);
    int start = hand_tensor(model, "start", MP_ROLE_CONSTANT, MP_DTYPE_FLOAT, 0);
    int size = hand_tensor(model, "size", MP_ROLE_DATA, MP_DTYPE_FLOAT, 0);
    int factor = hand_tensor(model, "factor", MP_ROLE_CONSTANT, MP_DTYPE_FLOAT, factor_rank, 1, 1);
    assert_int_equal(mp_model_tensor(model, "counted", counted, NULL), MP_OK);
    assert_int_equal(mp_model_tensor(model, "scaled", &scaled, NULL), MP_OK);
    assert_int_equal(mp_model_tensor(model, "negative", &negative, NULL), MP_OK);
    assert_int_equal(mp_model_tensor(model, "cosine", &cosine, NULL), MP_OK);
    add(model, "Range", 3, (int[]){start, size, start}, *counted);
    if (factor_rank) add(model, "Neg", 1, &factor, negative);
    add(model, "Mul", 2, (int[]){factor_rank ? negative : factor, *counted}, scaled);
    add(model, "Cos", 1, &scaled, cosine);
    mp_tensor *t = &model->tensors[cosine];
    t->declared_rank = factor_rank ? factor_rank : 1;
    t->declared_dims = mp_pool_alloc(model->pool, 2, sizeof *t->declared_dims);
    t->declared_dims[0] = 1;
    t->declared_dims[t->declared_rank - 1] = 10;
    return model;
}

TEST(a_shape_of_run_time_may_be_declared_further_down)
{
    int counted;
    mp_error err = {0};
    mp_model *model = counting_model(0, &counted);
    mp_alloc_budget = 0;
    assert_int_equal(mp_model_infer(model, NULL), MP_NOMEM);
    mp_alloc_budget = -1;
    assert_int_equal(mp_model_infer(model, &err), MP_OK);
    assert_int_equal(model->tensors[counted].rank, 1);
    assert_int_equal(model->tensors[counted].dims[0], 10);
    assert_int_equal(model->tensors[counted].dtype, MP_DTYPE_FLOAT);
    mp_model_free(model);

    model = counting_model(2, &counted); /* the declared [1, 10] is not the range's shape */
    assert_int_equal(mp_model_infer(model, &err), MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "depends on the value of"));
    mp_model_free(model);
}

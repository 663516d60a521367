/* test_achieved.c - seconds at achieved rates, compared with times computed by hand from tiles, waves and bytes. */
#include <math.h>
#include <string.h>

#include "estimator/training/accuracy.h"
#include "memplan/planning.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/test.h"

static bool is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-9 * expected;
}

/* A device with round numbers: 10 multiprocessors, 100 TFLOP/s in 16 bits, 10 in 32 bits, 1 TB/s, launches of 5 us. */
static mp_device round_device(void)
{
    mp_device d = *mp_device_find("rtx3090");
    d.fp16_flops = d.bf16_flops = 100e12;
    d.fp32_flops = d.tf32_flops = 10e12;
    d.bytes_per_second = 1e12;
    d.launch_seconds = 5e-6;
    d.multiprocessors = 10;
    d.reach = 0.5;
    d.rates = MP_RATES_ACHIEVED;
    return d;
}

TEST(a_product_takes_whole_waves_of_tiles)
{
    const mp_device d = round_device();
    /* 2 x 5 tiles of 256 x 128 elements fill the 10 multiprocessors once; one more row needs a second wave */
    mp_rate_kernel k = mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 512, 640, 64, 1e6);
    const double wave = 10 * 2.0 * 256 * 128 * 64 / (100e12 * 0.5);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, wave));
    k = mp_kernel_of_product(MP_DTYPE_FLOAT16, 10, 512, 640, 64, 1e6);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, 10 * wave));
    /* the depth is rounded up to 32 elements */
    k = mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 512, 640, 40, 1e6);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, wave));
    /* 513 rows: 15 tiles of 256 x 128 take two waves; smaller tiles take less */
    k = mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 513, 640, 64, 1e6);
    const double more = mp_kernel_at_peak(&d, &k).product;
    assert_true(more > wave && more <= 2 * wave);
    /* float32 has a tenth of the peak, and the bytes take 1 us */
    k = mp_kernel_of_product(MP_DTYPE_FLOAT, 1, 512, 640, 64, 1e6);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, 10 * wave));
    assert_true(is_near(mp_kernel_at_peak(&d, &k).memory, 1e-6));
}

TEST(a_deep_product_of_one_tile_is_split_over_the_multiprocessors)
{
    const mp_device d = round_device();
    /* one tile of 256 x 128 with a depth of 16384, in 8 parts: one wave, each part 2048 deep, plus 64 for the sum */
    const mp_rate_kernel k = mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 256, 128, 16384, 1e3);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, 10 * 2.0 * 256 * 128 * (2048 + 64) / (100e12 * 0.5)));
}

TEST(rows_of_an_odd_length_have_a_lower_share)
{
    assert_int_equal(mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 7, 64, 64, 0).family, MP_TIMED_PRODUCT);
    assert_int_equal(mp_kernel_of_product(MP_DTYPE_FLOAT16, 1, 64, 65, 64, 0).family, MP_TIMED_UNALIGNED);
    assert_int_equal(mp_kernel_of_product(MP_DTYPE_BFLOAT16, 2, 64, 64, 65, 0).family, MP_TIMED_BATCHED_UNALIGNED);
    assert_int_equal(mp_kernel_of_product(MP_DTYPE_FLOAT, 1, 64, 65, 64, 0).family, MP_TIMED_PRODUCT);
}

TEST(a_convolution_is_a_product_with_a_row_per_position)
{
    const mp_device d = round_device();
    /* 3x3 from 64 to 128 channels with stride 2, 8 images of 32 x 32 */
    mp_rate_convolution c = {1, 64, 128, 9, 8 * 32 * 32, 8 * 16 * 16, true};
    mp_rate_kernel k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 1e6);
    assert_true(k.family == MP_TIMED_WINDOW_FORWARD && k.rows == 2048 && k.columns == 128 && k.depth == 64 * 9);
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 1e6);
    assert_true(k.family == MP_TIMED_WINDOW_DATA && k.rows == 8192 && k.columns == 64 && k.depth == 128 * 9 / 4.0);
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_WEIGHT, 1e6);
    assert_true(k.family == MP_TIMED_WINDOW_WEIGHT && k.rows == 128 && k.columns == 64 * 9 && k.depth == 2048);
    assert_true(k.reordered_bytes == 0);
    /* NCHW: cuDNN reads and writes each activation once more to reorder it */
    c.is_channels_last = false;
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 1e6);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).reordering, 2 * 2.0 * (64 * 8192 + 128 * 2048) / 1e12));
    /* 18 channels are padded to 24 in copies of the activations, in both layouts; not in 32 bits */
    c = (mp_rate_convolution){1, 18, 36, 9, 100, 100, true};
    assert_true(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).reordered_bytes == 2 * (24 + 40) * 100);
    assert_true(mp_kernel_of_convolution(MP_DTYPE_FLOAT, &c, MP_CONVOLUTION_DATA, 0).reordered_bytes == 0);
    c.is_channels_last = false;
    assert_true(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).reordered_bytes == 2 * (24 + 40) * 100);
    assert_true(mp_kernel_of_convolution(MP_DTYPE_FLOAT, &c, MP_CONVOLUTION_DATA, 0).reordered_bytes == 4 * (18 + 36) * 100);
    /* an image of 3 channels has the depth of 8 */
    c = (mp_rate_convolution){1, 3, 64, 49, 1000, 1000, true};
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 1e6);
    assert_true(k.family == MP_TIMED_STEM_FORWARD && k.depth == 8 * 49);
    /* depthwise: 2 x 9 FLOPs per element of the result, without matrix units */
    c = (mp_rate_convolution){32, 1, 1, 9, 1000, 1000, true};
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 1e6);
    assert_true(k.family == MP_TIMED_DEPTHWISE_LAST_DATA && k.flops == 2 * 9 * 32 * 1000 && k.rows == 0);
    assert_true(is_near(mp_kernel_at_peak(&d, &k).product, 2 * 9 * 32 * 1000 / 10e12));
    /* 32 of the 256 channels that occupy the device */
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_WEIGHT, 1e6);
    assert_true(k.flops == 8 * 2 * 9 * 32 * 1000);
    c.window = 81;
    assert_int_equal(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 0).family,
                     MP_TIMED_LARGE_LAST_FORWARD);
    c.is_channels_last = false;
    assert_int_equal(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).family, MP_TIMED_LARGE_DATA);
    /* 32 groups of 8 channels: 8 products with 32 channels, of which three quarters are zeros */
    c = (mp_rate_convolution){32, 8, 8, 9, 1000, 1000, true};
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 1e6);
    assert_true(k.family == MP_TIMED_NARROW_LAST_FORWARD && k.batch == 8 && k.columns == 32 && k.depth == 32 * 9);
    /* in channels-last layout, few groups or a larger window have no such kernel */
    c.groups = 8;
    assert_int_equal(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).family, MP_TIMED_WIDE_LAST_DATA);
    c = (mp_rate_convolution){32, 8, 8, 25, 1000, 1000, true};
    assert_int_equal(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).family, MP_TIMED_WIDE_LAST_DATA);
    c.is_channels_last = false;
    assert_int_equal(mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_DATA, 0).family, MP_TIMED_NARROW_DATA);
    c = (mp_rate_convolution){4, 48, 48, 9, 1000, 1000, false};
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_WEIGHT, 1e6);
    assert_true(k.family == MP_TIMED_WIDE_WEIGHT && k.batch == 4 && k.rows == 48 && k.columns == 48 * 9 && k.depth == 1000);
    /* in channels-last layout, each load has the same cost for any number of results */
    c.is_channels_last = true;
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_WEIGHT, 1e6);
    assert_true(k.family == MP_TIMED_WIDE_LAST_WEIGHT && k.rows == 256 && k.columns == 48 * 9);
    k = mp_kernel_of_convolution(MP_DTYPE_FLOAT16, &c, MP_CONVOLUTION_FORWARD, 1e6);
    assert_true(k.columns == 256 && k.depth == 48 * 9);
}

TEST(the_seconds_are_the_larger_part_by_its_share_and_the_launch)
{
    double at_peak[3];
    const char *family;
    const double product[] = {1, 4096, 4096, 4096}, flops[] = {1e12};
    /* 1024 tiles of 128 x 128 on 82 multiprocessors: 13 waves at 95 %; 512 tiles of twice the size would take 7 waves of twice
     * the time */
    const double waves = 13 * 82 * 2.0 * 128 * 128 * 4096 / (71e12 * 1.15) / 0.95;
    const double found = mp_planning_achieved("rtx3090", "float16", "product", product, 4, 100, at_peak, &family);
    assert_true(is_near(at_peak[0], waves) && !strcmp(family, "matrix product") && at_peak[2] == 0);
    assert_true(found > 5e-6 && found < 5e-6 + 2 * at_peak[0]);
    const double pointwise = mp_planning_achieved("rtx3090", "float16", "pointwise", NULL, 0, 936000000, at_peak, &family);
    assert_true(is_near(at_peak[1], 1e-3) && pointwise > 1e-3 && pointwise < 2e-3);
    /* twice the bytes take twice the time without the launch */
    const double twice = mp_planning_achieved("rtx3090", "float16", "pointwise", NULL, 0, 1872000000, NULL, NULL);
    assert_true(is_near(twice - 5e-6, 2 * (pointwise - 5e-6)));
    assert_true(mp_planning_achieved("a100", "bfloat16", "fused attention, forward", flops, 1, 100, at_peak, NULL) > 0);
    assert_true(is_near(at_peak[0], 1e12 / (312e12 * 0.869)));
    assert_true(mp_planning_achieved("cpu", "float32", "pointwise", NULL, 0, 1, NULL, NULL) == -1);
    assert_true(mp_planning_achieved("rtx3090", "float16", "product", product, 3, 1, NULL, NULL) == -1);
    assert_true(mp_planning_achieved("rtx3090", "float16", "no such kernel", NULL, 0, 1, NULL, NULL) == -1);
}

/* Y = X W with X of 96 x 64 and W of 64 x 32: three products of 2 * 96 * 64 * 32 FLOPs with different sizes. */
TEST(nodes_of_a_graph_have_the_sizes_of_their_products)
{
    mp_model *m;
    assert_int_equal(mp_model_new("hand", "", &m, NULL), MP_OK);
    hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT16, 2, 96, 64);
    hand_tensor(m, "w", MP_ROLE_PARAMETER, MP_DTYPE_FLOAT16, 2, 64, 32);
    hand_operator(m, "MatMul", "x w", "y");
    const mp_binding left = {.task = MP_TASK_BACKWARD, .from = 0, .to = 1},
                     right = {.task = MP_TASK_BACKWARD, .from = 1, .to = 2};
    mp_work work = {.model = m, .op = &m->operators[0], .flops = 2.0 * 96 * 64 * 32, .dtype = MP_DTYPE_FLOAT16};
    mp_rate_kernel k = mp_kernel_of_work(&work);
    assert_true(k.family == MP_TIMED_PRODUCT && k.rows == 96 && k.columns == 32 && k.depth == 64 && k.batch == 1);
    work.binding = &left;
    k = mp_kernel_of_work(&work);
    assert_true(k.rows == 96 && k.columns == 64 && k.depth == 32);
    work.binding = &right;
    k = mp_kernel_of_work(&work);
    assert_true(k.rows == 64 && k.columns == 32 && k.depth == 96);
    mp_model_free(m);
}

TEST(foreach_kernels_of_an_update_move_its_numbers_several_times)
{
    const mp_device d = round_device();
    const mp_binding update = {.task = MP_TASK_UPDATE};
    mp_work work = {.moved_bytes = 28000000, .dtype = MP_DTYPE_FLOAT, .binding = &update};
    const mp_rate_kernel one = mp_kernel_of_work(&work);
    assert_true(one.family == MP_TIMED_UPDATE && one.moved_bytes == 28e6);
    work.foreach = "adamw"; /* 80 bytes per element instead of 28, in 8 kernels for 48 tensors */
    const mp_rate_kernel eight = mp_kernel_of_work(&work);
    assert_true(is_near(eight.moved_bytes, 80e6));
    const double share = mp_kernel_at_peak(&d, &one).memory / (mp_kernel_seconds(&d, &one) - 5e-6);
    assert_true(is_near(mp_kernel_seconds(&d, &eight), 80e6 / (share * 1e12) + 8 / 48.0 * 5e-6));
    work.foreach = "adamw8bit"; /* one kernel of bitsandbytes */
    assert_true(mp_kernel_of_work(&work).moved_bytes == 28e6);
}

TEST(the_accuracy_is_that_of_the_arithmetic_that_takes_most_time)
{
    char text[MP_ACCURACY_TEXT];
    mp_spending s = {
        .seconds = {[MP_TIMED_WINDOW_DATA] = 2, [MP_TIMED_POINT_FORWARD] = 2, [MP_TIMED_PRODUCT] = 3, [MP_TIMED_COPY] = 9}};
    assert_true(mp_accuracy_tell(&s, 1, text) && strstr(text, "mostly convolutions"));
    s.seconds[MP_TIMED_DEPTHWISE_WEIGHT] = 5;
    assert_true(mp_accuracy_tell(&s, 1, text) && strstr(text, "mostly depthwise:"));
    s.seconds[MP_TIMED_BATCHED_PRODUCT] = 3;
    assert_true(mp_accuracy_tell(&s, 1, text) && strstr(text, "mostly products"));
    assert_true(mp_accuracy_tell(&s, 8, text) && strstr(text, "mostly products on many devices: median error"));
    s.seconds[MP_TIMED_WINDOW_DATA] = 7;
    assert_false(mp_accuracy_tell(&s, 8, text));
    assert_non_null(strstr(text, "on many devices, only steps of mostly products are published"));
    s.seconds[MP_TIMED_WINDOW_DATA] = 2;
    /* 16 of 40 seconds have no published time */
    s.seconds[MP_TIMED_RECURRENT] = 16;
    assert_false(mp_accuracy_tell(&s, 1, text));
    assert_non_null(strstr(text, "40 % are in kernels without a published time"));
    s = (mp_spending){{0}};
    assert_false(mp_accuracy_tell(&s, 1, text));
}

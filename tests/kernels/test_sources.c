/* test_sources.c - tensors from attributes, shapes and numbers, compared with NumPy's values; also determinants. */
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

typedef struct expectation {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    int n;
    double values[12];
} expectation;

static const expectation expectations[] = {
    {"Constant", 13, "", "value_int=7", 1, {7}},
    {"Constant", 13, "", "value_ints=[3,-1,2]", 3, {3, -1, 2}},
    {"Constant", 13, "", "value_float=2.5", 1, {2.5}},
    {"Constant", 13, "", "value_floats=[0.5,-1.0]", 2, {.5, -1}},
    {"ConstantOfShape", 9, "int64[2]={2,3}", "", 6, {0}},
    {"Shape", 15, "float32[2,3,4]", "", 3, {2, 3, 4}},
    {"Shape", 15, "float32[2,3,4]", "start=-2", 2, {3, 4}},
    {"Shape", 15, "float32[2,3,4]", "start=1 end=-1", 1, {3}},
    {"Size", 13, "float32[2,3,4]", "", 1, {24}},
    {"Range", 11, "int64[]={3} int64[]={-4} int64[]={-2}", "", 4, {3, 1, -1, -3}},
    {"Range", 11, "float32[]={1} float32[]={2} float32[]={0.25}", "", 4, {1, 1.25, 1.5, 1.75}},
    {"EyeLike", 9, "int32[2,3]", "k=1", 6, {0, 1, 0, 0, 0, 1}},
    {"EyeLike", 9, "int32[3,2]", "k=-1 dtype=1", 6, {0, 0, 1, 0, 0, 1}},
    /* numpy.hanning(n + 1)[:n] and similar functions are periodic */
    {"HannWindow", 17, "int64[]={4}", "", 4, {0, .5, 1, .5}},
    {"HannWindow", 17, "int64[]={5}", "periodic=0", 5, {0, .5, 1, .5, 0}},
    {"HammingWindow", 17, "int64[]={4}", "", 4, {4.0 / 46, 25.0 / 46, 1, 25.0 / 46}},
    {"BlackmanWindow", 17, "int64[]={4}", "", 4, {0, .34, 1, .34}},
    {"BlackmanWindow", 17, "int64[]={5}", "periodic=0", 5, {0, .34, 1, .34, 0}},
    {"Det", 11, "float32[2,2]={1,2,3,4}", "", 1, {-2}},
    {"Det", 11, "float32[2,3,3]={0,2,1,4,1,0,1,1,1,1,2,3,4,5,6,7,8,9}", "", 2, {-5, 0}},
};

TEST(values_are_those_of_numpy)
{
    for (size_t k = 0; k < sizeof expectations / sizeof *expectations; k++) {
        const expectation *e = &expectations[k];
        kernel_case c = {e->kind, e->version, e->inputs, e->attributes, 1, 0, 0, 0, 0, 0};
        kernel_check_values(&c, MP_MODE_TRAIN, 0, e->values, e->n, 1e-6);
    }
}

TEST(long_ranges_are_filled_to_the_end)
{
    kernel_case c = {"Range", 11, "int64[]={5} int64[]={20005} int64[]={1}", "", 1, 0, 0, 0, 0, 0};
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
    kernel_forward(r);
    for (int64_t k = 0; k < 20000; k++) assert_true(kernel_get(&r->forward.out[0], k) == (double)(k + 5));
    kernel_end(r);
}

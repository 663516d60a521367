/* test_cuda_operators.c - the GPU runs every operator of the CPU. Rare operators run on the host by their twin and are compared
 * with the CPU's on equal values. Sizes need several threads, pieces and turns. */
#include "executor/cpu/cpu.h"
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

#define N_OF(a) (sizeof(a) / sizeof *(a))

/* Returns whether a GPU runs the operator by cuDNN or cublasLt. */
static bool is_of_a_library(const char *name)
{
    static const char *const names[] = {"Conv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm"};
    for (size_t k = 0; k < N_OF(names); k++)
        if (!strcmp(names[k], name)) return true;
    return false;
}

TEST(every_operator_of_the_cpu_has_a_kernel)
{
    int n = 0;
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        const mp_operator op = {.kind = row->name, .domain = row->domain, .op = row};
        const mp_kernel *cpu = mp_cpu.kernel(&mp_cpu, &op), *own = twin->kernel(twin, &op);
        const bool is_between_ranks = row->collectives[0] || row->collectives[1]; /* only CPUs run tp */
        if (!cpu || is_of_a_library(row->name) || is_between_ranks) continue;
        n++;
        if (own == cpu) fail_msg("%s has no kernel on the GPU", row->name);
        if (!own->backward != !cpu->backward) fail_msg("%s: only one of both has a gradient", row->name);
    }
    assert_true(n > 100);
}

typedef struct row {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    int n_outputs;
    bool has_gradient;
} row;

static void check_rows(const row *rows, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const kernel_case c = {.kind = rows[k].kind,
                               .version = rows[k].version,
                               .inputs = rows[k].inputs,
                               .attributes = rows[k].attributes,
                               .n_outputs = rows[k].n_outputs};
        twin_check(&c, rows[k].has_gradient);
    }
}

/* Sorted lines, with a length that is no power of two, and of length one; and lines from which elements are selected one at a
 * time. */
TEST(the_largest_agree_with_the_cpu)
{
    static const row rows[] = {
        {"TopK", 11, "float32[3,1000] int64[1]={700}", "", 2, true},
        {"TopK", 11, "float32[5,300,4] int64[1]={17}", "axis=1 largest=0", 2, true},
        {"TopK", 11, "float32[7,1] int64[1]={1}", "", 2, true},
        {"TopK", 11, "float32[9] int64[1]={9}", "largest=0", 2, true},
        {"TopK", 11, "float32[5000,12] int64[1]={5}", "", 2, true},
        {"TopK", 11, "float32[70,9,80] int64[1]={4}", "axis=1 largest=0", 2, true},
        {"TopK", 11, "int32[3,900] int64[1]={200}", "", 2, false}, /* has many equal elements */
        {"TopK", 11, "int64[6000,7] int64[1]={3}", "largest=0", 2, false},
    };
    check_rows(rows, N_OF(rows));
}

TEST(determinants_and_sums_of_products_agree_with_the_cpu)
{
    static const row rows[] = {
        {"Det", 11, "float32[6,5,7,7]", "", 1, false},
        {"Det", 11, "float32[4,4]", "", 1, false},
        {"Einsum", 12, "float32[7,9,40] float32[40,30]", "equation=bij,jk->bik", 1, true},
        {"Einsum", 12, "float32[3,1300] float32[3,1300]", "equation=ij,ij->", 1, true},
        {"Einsum", 12, "float32[2,17,3,14] float32[2,15,3,14]", "equation=bqhd,bkhd->bhqk", 1, true},
        {"Einsum", 12, "float32[90,60]", "equation=ij->ji", 1, true},
        {"Einsum", 12, "float32[50,50]", "equation=ii->i", 1, true},
    };
    check_rows(rows, N_OF(rows));
}

TEST(samplings_agree_with_the_cpu)
{
    static const char *const regions =
        "float32[2,9,14,11] float32[5,4]={0.3,0.4,7.9,8.1,2.2,3.1,14.3,9.7,-3.5,0,3,2,9.1,5,30,29.5,4,4,4.5,4.5} "
        "int64[5]={1,0,1,0,1}";
    const row rows[] = {
        {"GridSample", 20, "float32[2,9,24,20] float32[2,30,40,2]", "mode=linear", 1, true},
        {"GridSample", 20, "float32[2,3,9,8] float32[2,30,11,2]", "mode=cubic padding_mode=reflection align_corners=1", 1,
         true},
        {"GridSample", 20, "float32[2,3,9,8] float32[2,30,11,2]", "mode=cubic padding_mode=border", 1, true},
        {"GridSample", 20, "float32[2,3,9,8] float32[2,30,11,2]", "mode=nearest", 1, true},
        {"GridSample", 20, "float32[2,3,5,6,7] float32[2,4,5,6,3]", "mode=linear padding_mode=border", 1, true},
        {"RoiAlign", 16, regions, "output_height=4 output_width=3 sampling_ratio=2 spatial_scale=0.7", 1, true},
        {"RoiAlign", 16, regions, "output_height=2 output_width=5", 1, true},
        {"RoiAlign", 16, regions, "output_height=3 output_width=3 coordinate_transformation_mode=output_half_pixel", 1, true},
        {"RoiAlign", 16, regions, "output_height=3 output_width=3 mode=max", 1, false},
        {"MaxRoiPool", 1, "float32[2,9,14,11] float32[3,5]={1,0,1,9,8,0,2,2,30,11,1,5,6,4,4}",
         "pooled_shape=[3,4] spatial_scale=0.9", 1, false},
    };
    check_rows(rows, N_OF(rows));
}

TEST(picks_agree_with_the_cpu)
{
    static const row rows[] = {
        {"Compress", 11, "float32[6,9,5] bool[6]={1,0,1,1,0,1}", "axis=0", 1, true},
        {"Compress", 11, "float32[3,9,5] bool[7]={1,0,1,1,0,0,1}", "axis=1", 1, true},
        {"Compress", 11, "float32[3,4,2] bool[9]={0,0,1,1,0,0,1,1,1}", "", 1, true},
        {"MaxUnpool", 11,
         "float32[2,3,2,2] int64[2,3,2,2]={0,3,9,10,16,19,20,30,33,40,42,47,50,53,56,60,64,69,70,79,80,85,90,95}",
         "kernel_shape=[2,2] strides=[2,2]", 1, true},
        {"MaxUnpool", 11, "float32[1,1,2,2] int64[1,1,2,2]={5,5,13,5}", "kernel_shape=[2,2] strides=[2,2]", 1, true},
    };
    check_rows(rows, N_OF(rows));
}

/* A condition over many stretches: true elements are taken in order, and zeros follow if there are fewer. */
TEST(a_long_condition_is_listed_in_order)
{
    enum { N = 3000 };
    static const kernel_case c = {
        .kind = "Compress", .version = 11, .inputs = "float32[3000] bool[1]={1}", .attributes = "", .n_outputs = 1};
    kernel_use(twin);
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
    mp_operands x = r->forward;
    mp_array in[2] = {x.in[0], x.in[1]}, out = x.out[0];
    static uint8_t condition[N];
    static float values[N], wanted[N];
    static char room[1 << 16];
    mp_call call = {0};
    mp_error err = {0};
    int64_t taken = 0;
    for (int k = 0; k < N; k++) {
        condition[k] = k % 7 == 0 || k % 11 == 3;
        if (condition[k]) wanted[taken++] = (float)kernel_get(&in[0], k);
    }
    in[1] = mp_array_plain(MP_DTYPE_BOOL, 1, &(int64_t){N});
    in[1].data = condition;
    out = mp_array_plain(MP_DTYPE_FLOAT, 1, &(int64_t){taken + 5});
    out.data = values;
    x.in = in;
    x.out = &out;
    assert_int_equal(mp_call_prepare(twin, twin->kernel(twin, x.op), &x, &call, &err), MP_OK);
    assert_true(call.workspace_bytes <= (int64_t)sizeof room);
    x.workspace = room;
    memset(values, 1, sizeof values);
    assert_int_equal(mp_call_run(twin, &call, &x, &err), MP_OK);
    assert_memory_equal(values, wanted, (size_t)(taken + 5) * sizeof *values);
    mp_call_release(&call);
    kernel_end(r);
    kernel_use(&mp_cpu);
}

TEST(random_numbers_agree_with_the_cpu)
{
    static const row rows[] = {
        {"RandomUniform", 1, "", "shape=[70,33] low=-2.0 high=3.0", 1, false},
        {"RandomUniformLike", 1, "float32[7,5,3]", "low=1.0", 1, false},
        {"RandomNormal", 1, "", "shape=[70,33] mean=1.0 scale=0.5", 1, false},
        {"RandomNormalLike", 1, "float32[7,5,3]", "", 1, false},
        {"RandomNormal", 1, "", "shape=[31] dtype=11", 1, false},
        {"Bernoulli", 15, "float32[40,30]", "", 1, false},
        {"Bernoulli", 15, "float32[40,30]", "dtype=9", 1, false},
    };
    check_rows(rows, N_OF(rows));
}

/* More steps than a block has, and rows for several threads. Longer sequences would amplify rounding errors. */
TEST(recurrent_layers_agree_with_the_cpu)
{
    static const row rows[] = {
        {"LSTM", 14, "float32[6,60,21] float32[2,148,21] float32[2,148,37] float32[2,296] - float32[2,60,37] float32[2,60,37]",
         "direction=bidirectional", 3, true},
        {"LSTM", 14, "float32[60,6,21] float32[1,148,21] float32[1,148,37]", "layout=1", 3, true},
        {"GRU", 14, "float32[6,60,21] float32[1,111,21] float32[1,111,37] float32[1,222] - float32[1,60,37]",
         "linear_before_reset=1 direction=reverse", 2, true},
        {"GRU", 14, "float32[6,60,21] float32[1,111,21] float32[1,111,37] float32[1,222]", "", 2, true},
        {"RNN", 14, "float32[6,60,21] float32[2,37,21] float32[2,37,37]", "direction=bidirectional activations=Relu,Tanh", 2,
         true},
    };
    check_rows(rows, N_OF(rows));
}

TEST(the_tests_of_the_cpu_pass)
{
    static const char *const tests[] = {"products", "recurrents", NULL};
    twin_passes(tests);
}

int main(void)
{
    return test_run(twin_load, NULL);
}

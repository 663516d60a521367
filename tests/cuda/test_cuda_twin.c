/* test_cuda_twin.c - the GPU's own kernels, run on the host by their twin. They are compared with the CPU's on equal values, in
 * fp32 and bf16, and pass the CPU kernels' tests. */
#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "executor/cuda/grid/division.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

static const char *kind_of(const mp_kernel *row, char *text, size_t room)
{
    snprintf(text, room, "%s%s%s", row->domain, *row->domain ? ":" : "", row->kind);
    return text;
}

TEST(a_divisor_divides_as_division_does)
{
    uint64_t draw = 12345;
    for (int k = 0; k < 200000; k++) {
        int64_t values[2];
        for (int i = 0; i < 2; i++) { /* of all bit lengths, and near powers of two */
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            values[i] = (int64_t)(draw >> 1 >> draw % 63);
            if (draw >> 60 == 3) values[i] = (int64_t)((UINT64_C(1) << (draw >> 32) % 63) + (draw >> 50) % 3 - 1);
            if (values[i] < 0) values[i] = INT64_MAX;
        }
        int64_t n = values[0], by = values[1] ? values[1] : 1, rest;
        const mp_divisor d = mp_divisor_of(by);
        if (mp_divide_rest(n, &d, &rest) != n / by || rest != n % by)
            fail_msg("%lld / %lld is not %lld", (long long)n, (long long)by, (long long)mp_divide(n, &d));
    }
}

TEST(unaries_agree_with_the_cpu)
{
    for (const mp_kernel *row = mp_cpu_unaries; row->kind; row++) {
        char kind[64];
        bool whole = !strcmp(row->kind, "Not") || !strcmp(row->kind, "BitwiseNot");
        bool of_one = !strcmp(row->kind, "Acosh");
        if (!strcmp(row->kind, "CastLike")) continue;
        const char *inputs = !whole ? "float32[3,5,7,11]" : *row->kind == 'N' ? "bool[3,5,7]" : "int32[3,5,7]";
        kernel_case c = {.kind = kind_of(row, kind, sizeof kind),
                         .version = *row->domain ? 1 : 20,
                         .inputs = inputs,
                         .attributes = !strcmp(row->kind, "Cast") ? "to=1" : "",
                         .n_outputs = 1,
                         .low = of_one ? 1.2 : 0.1,
                         .high = of_one ? 3 : 0.9};
        if (!strcmp(row->kind, "Swish")) c.version = 24;
        twin_check(&c, row->backward != NULL);
        c.inputs = whole ? inputs : "float32[1]";
        twin_check(&c, row->backward != NULL);
    }
}

TEST(binaries_agree_with_the_cpu)
{
    static const char *const shapes[] = {
        "float32[3,6,5,7] float32[3,6,5,7]", "float32[3,6,5,7] float32[6,1,1]", "float32[3,6,5,7] float32[7]",
        "float32[6,1,7] float32[3,1,5,1]", "float32[2,3000] float32[]", "float32[40,64] float32[64]",
        "float32[9000,20] float32[20]", "float32[3,40000] float32[3,1]",
        /* rows and factors repeated by vectors */
        "float32[5,9,24] float32[9,24]", "float32[4,24,16] float32[24,1]", "float32[4,6,24] float32[4,6,1]",
        "float32[6,16] float32[5,1,16]", "float32[2,3,8] float32[2,1,8]"};
    static const char *const whole[] = {"And", "Or", "Xor"}, *const bits[] = {"BitwiseAnd", "BitwiseOr", "BitwiseXor",
                                                                              "BitShift"};
    for (const mp_kernel *row = mp_cpu_binaries; row->kind; row++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            char kind[64], inputs[200];
            const char *from = NULL;
            for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
                from = strcmp(whole[k], row->kind) ? from : "bool[4,6] bool[6]";
            for (size_t k = 0; k < sizeof bits / sizeof *bits; k++)
                from = strcmp(bits[k], row->kind) ? from : "uint8[4,6] uint8[6]";
            if (!strcmp(row->kind, "FastGelu")) from = s % 2 ? "float32[4,5,6] float32[6]" : "float32[4,5,6]";
            if (!strcmp(row->kind, "BiasGelu")) from = s % 2 ? "float32[4,5,6] float32[6]" : "float32[900,20] float32[20]";
            if (!strcmp(row->kind, "PRelu")) from = s % 2 ? "float32[4,5,6] float32[5,1]" : "float32[4,5,6] float32[1]";
            snprintf(inputs, sizeof inputs, "%s%s", strcmp(row->kind, "Where") ? "" : "bool[7,1,1,1] ",
                     from ? from : shapes[s]);
            if (!strcmp(row->kind, "Where")) snprintf(inputs, sizeof inputs, "bool[5,7] float32[3,6,5,7] float32[6,1,7]");
            kernel_case c = {.kind = kind_of(row, kind, sizeof kind),
                             .version = *row->domain ? 1 : 18,
                             .inputs = inputs,
                             .attributes = !strcmp(row->kind, "Mod")        ? "fmod=1"
                                           : !strcmp(row->kind, "BitShift") ? "direction=LEFT"
                                                                            : "",
                             .n_outputs = 1,
                             .low = 0.3,
                             .high = 2};
            twin_check(&c, row->backward != NULL);
            c.low = -2;
            if (row->backward && strcmp(row->kind, "Pow")) twin_check(&c, true);
        }
}

TEST(dropout_agrees_with_the_cpu)
{
    const kernel_case c = {"Dropout", 13, "float32[3,5,7,11] float32[]={0.25}", "", 2, 1, 2, 1, 0, 0};
    twin_check(&c, true);
}

/* Sizes with several tiles, pieces, blocks and digits, larger than in the tests of the CPU's kernels. */
TEST(moves_and_picks_agree_with_the_cpu)
{
    static const kernel_case cases[] = {
        {.kind = "Transpose", .version = 13, .inputs = "float32[3,70,133]", .attributes = "perm=[0,2,1]"},
        {.kind = "Transpose", .version = 13, .inputs = "float32[2,37,5,64]", .attributes = "perm=[0,2,1,3]"},
        {.kind = "Transpose", .version = 13, .inputs = "float32[130,3,66]", .attributes = "perm=[2,1,0]"},
        {.kind = "Concat", .version = 13, .inputs = "float32[3,8,6] float32[3,5,6] float32[3,8,6]", .attributes = "axis=1"},
        {.kind = "Tile", .version = 13, .inputs = "float32[33,40] int64[2]={3,2}", .wanted = 1},
        {.kind = "Expand", .version = 13, .inputs = "float32[40,1] int64[3]={300,40,50}", .wanted = 1},
        {.kind = "Pad", .version = 18, .inputs = "float32[2,3,40,9] int64[8]={0,0,3,2,0,0,5,1}", .attributes = "mode=reflect"},
        {.kind = "Pad", .version = 18, .inputs = "float32[2,3,40,9] int64[8]={0,1,-3,2,0,0,5,1} float32[]={2.5}", .wanted = 1},
        {.kind = "Trilu", .version = 14, .inputs = "float32[3,65,70] int64[]={2}", .attributes = "upper=0"},
        {.kind = "DepthToSpace", .version = 13, .inputs = "float32[2,16,9,8]", .attributes = "blocksize=2"},
        {.kind = "Gather", .version = 13, .inputs = "float32[50,40] int64[5000]"},
        {.kind = "Gather", .version = 13, .inputs = "float32[5000,3] int64[70,70]"},
        {.kind = "Gather", .version = 13, .inputs = "float32[6,9,5] int64[200]", .attributes = "axis=1"},
        {.kind = "GatherND", .version = 13, .inputs = "float32[9,8,6] int64[100,50,1]"},
        {.kind = "GatherElements", .version = 13, .inputs = "float32[30,70,4] int64[20,90,4]", .attributes = "axis=1"},
        {.kind = "ScatterND",
         .version = 16,
         .inputs = "float32[90,6] int64[300,1] float32[300,6]",
         .attributes = "reduction=add"},
        {.kind = "memplan:ScatterND",
         .version = 1,
         .inputs = "float32[90,6] int64[300,1] float32[300,6]",
         .attributes = "reduction=max"},
        {.kind = "memplan:ScatterElements",
         .version = 1,
         .inputs = "float32[30,70,4] int64[20,90,4] float32[20,90,4]",
         .attributes = "axis=1 reduction=mul"},
        {.kind = "MaxPool",
         .version = 12,
         .inputs = "float32[2,20,19,22]",
         .attributes = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]"},
        {.kind = "AveragePool",
         .version = 19,
         .inputs = "float32[2,20,19,22]",
         .attributes = "kernel_shape=[3,2] strides=[2,1] dilations=[2,3] pads=[1,1,2,1] count_include_pad=1 ceil_mode=1"},
        {.kind = "AveragePool",
         .version = 19,
         .inputs = "float32[2,20,19,22]",
         .attributes = "kernel_shape=[4,2] strides=[3,1] dilations=[2,3] pads=[3,1,2,1] ceil_mode=1"},
        {.kind = "Col2Im",
         .version = 18,
         .inputs = "float32[2,45,560] int64[2]={40,31} int64[2]={3,3}",
         .attributes = "strides=[2,1] dilations=[1,2] pads=[1,0,0,1]"},
        {.kind = "GlobalMaxPool", .version = 1, .inputs = "float32[3,17,30,31]"},
        {.kind = "GlobalAveragePool", .version = 1, .inputs = "float32[3,17,30,31]"},
        {.kind = "Resize",
         .version = 13,
         .inputs = "float32[2,6,31,29] float32[0] float32[4]={1.0,1.0,2.0,1.5}",
         .attributes = "mode=linear",
         .wanted = 1},
        {.kind = "Resize",
         .version = 13,
         .inputs = "float32[2,6,300,9] float32[0] float32[4]={1.0,1.0,2.0,2.0}",
         .attributes = "mode=nearest coordinate_transformation_mode=asymmetric",
         .wanted = 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_case c = cases[k];
        c.n_outputs = 1;
        if (!c.attributes) c.attributes = "";
        twin_check(&c, true);
    }
}

/* Increasing, repeated and invalid indices: sorted rows, and sums over many pieces. */
TEST(an_index_outside_reads_zero_and_writes_nothing)
{
    enum { ROWS = 50000, ENTRIES = 9000, COLUMNS = 3 };
    const kernel_case c = {
        .kind = "Gather", .version = 13, .inputs = "float32[50000,3] int64[9000]", .attributes = "", .n_outputs = 1};
    double *sums = calloc((size_t)ROWS * COLUMNS, sizeof *sums);
    kernel_use(twin);
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    int64_t *index = r->forward.in[1].data;
    for (int64_t k = 0; k < ENTRIES; k++) {
        index[k] = k % 3 == 0 ? 49999 : k * 7919 % ROWS;
        if (k % 5 == 1) index[k] -= ROWS;
        if (k % 11 == 2) index[k] = k % 2 ? ROWS : INT64_MIN;
    }
    kernel_forward(r);
    kernel_backward(r);
    for (int64_t k = 0; k < ENTRIES; k++) {
        int64_t row = index[k] < 0 && index[k] >= -ROWS ? index[k] + ROWS : index[k];
        bool there = row >= 0 && row < ROWS;
        for (int64_t e = 0; e < COLUMNS; e++) {
            double expected = there ? kernel_get(&r->forward.in[0], row * COLUMNS + e) : 0;
            if (kernel_get(&r->forward.out[0], k * COLUMNS + e) != expected) fail_msg("entry %d is not its row's", (int)k);
            if (there) sums[row * COLUMNS + e] += kernel_get(&r->backward.d_out[0], k * COLUMNS + e);
        }
    }
    for (int64_t k = 0; k < ROWS * COLUMNS; k++)
        if (fabs(kernel_get(&r->backward.d_in[0], k) - sums[k]) > 1e-3)
            fail_msg("element %d sums up to %g, not %g", (int)k, kernel_get(&r->backward.d_in[0], k), sums[k]);
    kernel_end(r);
    kernel_use(&mp_cpu);
    free(sums);
}

enum { N_MOST = 70, LENGTH = 1037 };

/* Lists longer than one launch, of all lengths, on both backends. */
TEST(updates_and_norms_agree_with_the_cpu)
{
    static float memory[2][N_MOST][6 * LENGTH];
    for (int optimizer = 0; optimizer < MP_N_OPTIMIZERS; optimizer++) {
        if (optimizer == MP_OPTIMIZER_NONE || optimizer == MP_OPTIMIZER_ADAMW_8BIT) continue;
        for (int half = 0; half < 2; half++) {
            mp_hyper h = mp_hyper_default((mp_optimizer)optimizer);
            mp_update_factors f = mp_update_factors_at(&h, 3);
            float factors[2];
            for (int b = 0; b < 2; b++) {
                const mp_backend *backend = b ? twin : &mp_cpu;
                mp_update updates[N_MOST];
                uint32_t draw = 12345;
                for (int k = 0; k < N_MOST; k++) {
                    float *m = memory[b][k];
                    updates[k] = (mp_update){.dtype = half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT,
                                             .n = LENGTH - 11 * k,
                                             .parameter = m,
                                             .gradient = m + LENGTH + 3,
                                             .state = m + 2 * LENGTH + 2,
                                             .clip = &factors[b]};
                    for (int e = 0; e < 6 * LENGTH; e++) {
                        draw = draw * 1664525u + 1013904223u;
                        m[e] = (float)(draw >> 8) / 16777216.0f;
                        if (half && e < 2 * LENGTH + 2) { /* two bfloat16 in [0, 1) */
                            uint32_t word = (draw >> 8 & 0x3fff) | (draw >> 9 & 0x3fff) << 16;
                            memcpy(&m[e], &word, sizeof word);
                        }
                    }
                }
                void *room = malloc((size_t)backend->norm_workspace_bytes(backend, LENGTH));
                backend->clip(backend, updates, N_MOST, 2, room, &factors[b]);
                backend->update(backend, updates, N_MOST, &f);
                free(room);
            }
            assert_true(factors[0] < 1 && fabs(factors[0] - factors[1]) <= 1e-6 * fabs(factors[0]));
            for (int k = 0; k < N_MOST; k++) {
                int64_t n = LENGTH - 11 * k;
                mp_array a = mp_array_plain(half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, 1, &n), c = a;
                a.data = memory[0][k];
                c.data = memory[1][k];
                assert_true(twin_difference(&a, &c) <= (half ? 1.0 / 128 : 2e-6));
                a = c = mp_array_plain(MP_DTYPE_FLOAT, 1, &(int64_t){4 * LENGTH - 2});
                a.data = memory[0][k] + 2 * LENGTH + 2;
                c.data = memory[1][k] + 2 * LENGTH + 2;
                assert_true(twin_difference(&a, &c) <= 2e-6);
            }
        }
    }
}

TEST(the_last_other_byte_is_found)
{
    enum { BYTES = 3 * (1 << 20) + 17 };
    unsigned char *memory = malloc(BYTES);
    memset(memory, 7, BYTES);
    assert_int_equal(twin->touched(twin, memory, 7, BYTES), 0);
    for (int k = 0; k < 6; k++) {
        const int64_t at[] = {0, 1000, (1 << 20) - 1, 1 << 20, 2 * (1 << 20) + 5, BYTES - 1};
        memory[at[k]] = 8;
        assert_int_equal(twin->touched(twin, memory, 7, BYTES), at[k] + 1);
    }
    free(memory);
}

TEST(the_tests_of_the_cpu_pass)
{
    static const char *const tests[] = {"unaries",   "binaries",  "choices",   "randoms",  "optimizer",      "pools",
                                        "moves",     "gathers",   "samplings", "sources",  "gradients",      "backends",
                                        "execution", "recording", "streams",   "products", "algorithm_runs", NULL};
    twin_passes(tests);
}

/* Without a GPU, opening the backend fails with a message; with a GPU, the test is skipped. */
TEST(a_machine_without_a_gpu_says_so)
{
    mp_error err = {0};
    if (backend_named("cuda", &err)) skip();
    assert_int_equal(err.code, MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--device cuda: "));
}

/* One gradient longer than all others together, among more than one launch takes, with empty and tiny ones. */
TEST(norms_of_uneven_gradients_are_whole)
{
    enum { N = 97, LONG = 30000001 };
    static const int64_t sizes[] = {1, 4096, 4097, 0, 777, 12289, 3, 100003};
    mp_update updates[N] = {0};
    float factor = 0, *values = malloc(LONG * sizeof *values);
    void *room = malloc((size_t)twin->norm_workspace_bytes(twin, LONG));
    for (int64_t k = 0; k < LONG; k++) values[k] = (float)((k * 7919) % 1000 - 500) / 500;
    for (int k = 0; k < N; k++) {
        updates[k] = (mp_update){.dtype = MP_DTYPE_FLOAT, .n = k == 50 ? LONG : sizes[k % 8], .gradient = values};
    }
    for (int n = N; n > 0; n -= 31) { /* with the long gradient, with it as the last one, without it */
        double sum = 0;
        for (int k = 0; k < n; k++)
            for (int64_t e = 0; e < updates[k].n; e++) sum += (double)values[e] * values[e];
        twin->clip(twin, updates, (size_t)n, 2, room, &factor);
        const double expected = 2 / sqrt(sum);
        if (!(fabs(factor - expected) <= 2e-6 * expected)) fail_msg("%d gradients: %g and not %g", n, factor, expected);
    }
    free(room);
    free(values);
}

int main(void)
{
    return test_run(twin_load, NULL);
}

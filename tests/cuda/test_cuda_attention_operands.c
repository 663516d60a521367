/* test_cuda_attention_operands.c - kernels that compute additional operands of cuDNN's attention, compiled for the host: masks
 * compared with their definition, and seeds. */
#include "executor/cuda/device/step_values.h"
#include "executor/kernel/philox.h"
#include "executor/operators/attention/attention_operands_cuda.h"
#include "tests/cases/attention_case.h"
#include "tests/cases/test.h"

enum { BATCH = 2, HEADS = 4, ROWS = 5, COLUMNS = 11, UNTOUCHED = 0x55 };

static mp_cuda_pass pass;

/* Replaces the device's function. */
const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    pass = (mp_cuda_pass){run->seed, run->step};
    return &pass;
}

/* Returns a mask [b, h, r, c]; a size of 1 is broadcast. */
static mp_matrices mask(mp_dtype dtype, int64_t b, int64_t h, int64_t r, int64_t c)
{
    return (mp_matrices){.dtype = dtype,
                         .n_batch = 2,
                         .batch = {BATCH, HEADS},
                         .batch_stride = {b > 1 ? h * r * c : 0, h > 1 ? r * c : 0},
                         .row_stride = r > 1 ? c : 0,
                         .column_stride = c > 1};
}

/* The elements depend on their position in memory and are exact in bfloat16. */
static double added_at(int64_t k)
{
    return (double)(k * 37 % 101 - 50) / 4;
}

static bool position_at(int64_t k)
{
    return k * 7 % 3 == 0;
}

static void check(mp_matrices added, mp_matrices positions, float fill, bool keeps)
{
    enum { ALL = BATCH * HEADS * ROWS * COLUMNS };
    float *floats = calloc(ALL, sizeof *floats);
    uint8_t *booleans = calloc(ALL, 1);
    uint16_t *to;
    mp_attention_spec form = attention_case(ROWS, COLUMNS, 8, 8, true);
    mp_joint_mask joint;
    int64_t bytes, n_written = 0, n_touched = 0;
    form.added = added;
    form.positions = positions;
    form.fill = fill;
    form.keeps = keeps;
    assert_true(mp_joint_mask_read(&form, &joint, &bytes));
    to = malloc((size_t)bytes);
    assert_true(floats && booleans && to);
    memset(to, UNTOUCHED, (size_t)bytes);
    for (int64_t k = 0; k < ALL; k++) {
        mp_store_float(floats, added.dtype == MP_DTYPE_BFLOAT16 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, k, (float)added_at(k));
        booleans[k] = position_at(k) ? 3 : 0;
    }
    mp_cuda_attention_mask(&joint, floats, booleans, to);
    for (int64_t k = 0; k < ALL; k++) {
        const int64_t batch[] = {k / (HEADS * ROWS * COLUMNS), k / (ROWS * COLUMNS) % HEADS}, r = k / COLUMNS % ROWS,
                      c = k % COLUMNS;
        double expected = 0;
        if (positions.dtype && position_at(mp_matrices_at(&positions, batch, r, c)) != keeps) expected = (double)fill;
        if (added.dtype) expected += added_at(mp_matrices_at(&added, batch, r, c));
        const float found = mp_load_float(to, MP_DTYPE_BFLOAT16, mp_matrices_at(&joint.to, batch, r, c));
        if (isinf(fill) || fabs(expected) < 1e30)
            assert_true(found == (float)expected || fabs((double)found / expected - 1) < 1.0 / 128);
        else
            assert_true(isfinite(found) && found < -3e38f);
    }
    for (int64_t k = 0; k < bytes / 2; k++) n_touched += to[k] != (UNTOUCHED << 8 | UNTOUCHED);
    n_written = joint.n * ROWS * COLUMNS; /* nothing is written between the rows */
    assert_int_equal(n_touched, n_written);
    free(floats);
    free(booleans);
    free(to);
}

TEST(masks_become_one_that_is_added)
{
    const mp_matrices none = {0};
    check(none, mask(MP_DTYPE_BOOL, 1, 1, ROWS, COLUMNS), -INFINITY, true);
    check(none, mask(MP_DTYPE_BOOL, BATCH, 1, 1, COLUMNS), -1e4f, false);
    check(none, mask(MP_DTYPE_BOOL, BATCH, HEADS, ROWS, 1), -3.4028235e38f, true);
    check(mask(MP_DTYPE_FLOAT, BATCH, 1, 1, COLUMNS), none, 0, true);
    check(mask(MP_DTYPE_BFLOAT16, 1, HEADS, ROWS, 1), none, 0, true);
    check(mask(MP_DTYPE_FLOAT, 1, HEADS, ROWS, COLUMNS), mask(MP_DTYPE_BOOL, BATCH, 1, 1, COLUMNS), -1e9f, true);
    check(mask(MP_DTYPE_BFLOAT16, BATCH, HEADS, ROWS, COLUMNS), mask(MP_DTYPE_BOOL, 1, 1, ROWS, COLUMNS), -INFINITY, false);
}

TEST(a_seed_is_that_of_pass_and_operator)
{
    for (uint32_t step = 0; step < 3; step++) {
        const mp_run run = {.seed = 5, .step = step};
        int64_t seed = 0, offset = 1;
        mp_cuda_attention_seed(&run, 7, &seed, &offset);
        assert_true(seed == mp_random_seed(5, step, 7) && offset == 0);
    }
}

/* attention_case.c - sets the strides of Q, K, V and Y. */
#include "tests/cases/attention_case.h"

mp_attention_spec attention_case(int64_t rows, int64_t columns, int64_t depth, int64_t value_depth, bool by_head)
{
    mp_attention_spec f = {.size = {8, rows, columns, depth, value_depth}, .scale = 0.125f};
    const struct {
        mp_matrices *m;
        int64_t rows, columns;
    } all[] = {{&f.q, rows, depth}, {&f.k, columns, depth}, {&f.v, columns, value_depth}, {&f.y, rows, value_depth}};
    for (int k = 0; k < 4; k++)
        *all[k].m = (mp_matrices){
            .dtype = MP_DTYPE_BFLOAT16,
            .n_batch = 2,
            .batch = {2, 4},
            .batch_stride = {4 * all[k].rows * all[k].columns, by_head ? all[k].columns : all[k].rows * all[k].columns},
            .row_stride = by_head ? 4 * all[k].columns : all[k].columns,
            .column_stride = 1};
    return f;
}

/* reduced.c - finds the table row of a Reduce operator, and the dimensions that it reduces. */
#include "executor/operators/reductions/reduced.h"

#include <string.h>

#define STEP(NAME, name, start, take, joined)
#define END(name, f)
#define SLOPE(name, f)
#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads) \
    {#kind, MP_STEP_##step, MP_END_##end, shifted, is_plain, MP_SLOPE_##slope, MP_##reads},
static const mp_reduction_row rows[] = {
#include "executor/operators/reductions/reductions.def"
};

const mp_reduction_row *mp_reduction_row_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, op->op->name)) return &rows[k];
    return NULL;
}

bool mp_reduction_takes_whole(const mp_reduction_row *row)
{
    return row->end == MP_END_none || row->end == MP_END_mean;
}

mp_status mp_reduced_dims(const mp_operands *x, bool reduced[MP_ARRAY_RANK], mp_error *err)
{
    size_t n = 0;
    const int64_t *axes = mp_operator_ints(x->op, "axes", &n);
    int rank = x->in[0].rank;
    if (x->n_in > 1 && x->in[1].dtype) {
        axes = x->in[1].data;
        n = (size_t)mp_array_elements(&x->in[1]);
        if (!axes && n) return MP_NO_KERNEL(x, err, "a list of axes that is computed");
        if (x->in[1].dtype != MP_DTYPE_INT64) return MP_NO_KERNEL(x, err, "a list of axes of this type");
    }
    bool all = n == 0 && !mp_operator_int(x->op, "noop_with_empty_axes", 0);
    for (int d = 0; d < rank; d++) reduced[d] = all;
    for (size_t k = 0; k < n; k++) {
        int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
        if (axis < 0 || axis >= rank) return MP_NO_KERNEL(x, err, "an axis that does not exist");
        reduced[axis] = true;
    }
    return MP_OK;
}

mp_array mp_reduction_kept_dims(const mp_array *result, int rank, const bool *reduced)
{
    mp_array a = {.data = result->data, .dtype = result->dtype, .rank = rank};
    bool there = result->rank ==
                 rank; /* true if the result has all dimensions of the input: with keepdims, or if no dimension is reduced */
    for (int d = 0, own = 0; d < rank; d++) {
        a.dims[d] = 1;
        if (!reduced[d]) {
            a.dims[d] = result->dims[there ? d : own];
            a.strides[d] = result->strides[there ? d : own];
            own++;
        }
    }
    return a;
}

/* gathers_cuda.cu - operators that select or write elements by index (gathers.h, scatters.h), on the GPU: rows (rows_cuda.h),
 * and elements with their own indices along one axis.
 *
 * A kernel cannot report errors: an index outside of its axis reads zero and writes nothing. */
#include "executor/operators/gathers/gather.cuh"

#include "executor/cuda/grid/bodies.cuh"
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/elementwise/elementwise_cuda.h"
#include "executor/operators/gathers/gathers.h"
#include "executor/operators/gathers/rows_cuda.h"
#include "executor/operators/gathers/scatters.h"
}

namespace
{

/* Offsets for element k of the indices, counted row-major, in a plan by elements: the offset of its line in the table, and the
 * offset of its element in the array of gathered elements or updates. */
struct lines_of {
    mp_boxed places; /* offsets of an element: `from` in the table, `to` in the array of gathered elements or updates */
    const void *indices;
    mp_dtype index_dtype, dtype, other_dtype;
    int size;
    int64_t axis_size, axis_stride, length, along_index, along_other;
    void *table, *other;

    lines_of(const mp_index_plan *plan, const mp_array *of, const mp_array *table_, const mp_array *other_, const mp_box *box)
        : places(box), indices(of->data), index_dtype(of->dtype), table(table_->data), other(other_->data)
    {
        const int axis = plan->axis;
        dtype = table_->dtype;
        other_dtype = other_->dtype;
        size = mp_dtype_bits(dtype) / 8;
        axis_size = table_->dims[axis];
        axis_stride = table_->strides[axis];
        length = of->dims[axis];
        along_index = 1;
        for (int d = axis + 1; d < of->rank; d++) along_index *= of->dims[d];
        along_other = other_->strides[axis];
    }
    /* Returns the offset in the table that corresponds to index k; -1: the index is outside of the axis. */
    MP_BODY int64_t along(int64_t k) const
    {
        const int64_t index = mp_index_of(indices, index_dtype, k);
        if (index < -axis_size || index >= axis_size) return -1;
        return (index < 0 ? index + axis_size : index) * axis_stride;
    }
};

struct picked {
    lines_of x;
    bool clears;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t table_at, other_at;
        x.places.find(k, &table_at, &other_at);
        const int64_t along = x.along(k);
        if (!clears)
            mp_element_copy(x.other, other_at, along < 0 ? NULL : x.table, table_at + along, x.size);
        else if (along >= 0)
            mp_element_copy(x.table, table_at + along, NULL, 0, x.size);
    }
};

/* One thread combines all elements of a line (along the axis) of the table with their updates, from the beginning of the line
 * to its end. */
struct line_reduced {
    lines_of x;
    mp_index_reduction how;
    MP_BODY void operator()(int64_t line) const
    {
        int64_t table_at, other_at, k = line / x.along_index * x.along_index * x.length + line % x.along_index;
        x.places.find(k, &table_at, &other_at);
        for (int64_t t = 0; t < x.length; t++, k += x.along_index, other_at += x.along_other) {
            const int64_t along = x.along(k);
            if (along < 0) continue;
            if (how == MP_INDEX_SET)
                mp_element_copy(x.table, table_at + along, x.other, other_at, x.size);
            else
                mp_element_reduce(how, x.table, x.dtype, table_at + along, x.other, x.other_dtype, other_at);
        }
    }
};

static lines_of lines_in(const mp_indexing *r, const mp_array *table, const mp_array *other)
{
    const int axis = r->plan->axis;
    mp_box box = {};
    for (int d = 0; d < r->indices.rank; d++)
        mp_box_put(&box, r->indices.dims[d], d == axis ? 0 : table->strides[d], other->strides[d]);
    return lines_of(r->plan, &r->indices, table, other, &box);
}

static void reduce_lines(const mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other)
{
    const int64_t n = mp_array_elements(&r->indices);
    if (n) mp_each(n / r->indices.dims[r->plan->axis], line_reduced{lines_in(r, table, other), how});
}

/* ---- the indexer */

/* Returns the workspace bytes for reducing rows; 0 if the plan does not reduce rows. */
static int64_t reducing_room(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype)
{
    return plan->by_rows && plan->uses & MP_INDEX_REDUCES ? mp_cuda_rows_workspace_bytes(&plan->rows, how, dtype) : 0;
}

/* Returns the workspace bytes of a plan. The workspace contains the memory for reducing rows, then the list of a condition's
 * true elements, or a table of sums in float. */
static int64_t room(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype)
{
    const int64_t bytes = mp_aligned(reducing_room(plan, how, dtype));
    return bytes + (plan->by_condition ? mp_rows_list_bytes(&plan->rows) : plan->sums_bytes);
}

static mp_status read_indices(mp_indexing *r, mp_error *)
{
    const mp_index_plan *p = r->plan;
    if (!p->by_condition) return MP_OK;
    const mp_array condition = r->indices;
    r->indices = mp_array_plain(MP_DTYPE_INT64, 1, &p->rows.n_entries);
    r->indices.data = (char *)r->room + mp_aligned(reducing_room(p, p->how, r->x->in[0].dtype));
    mp_cuda_list_true(&condition, p->rows.n_rows, &r->indices);
    return MP_OK;
}

static void pick(const mp_indexing *r, const mp_array *table, const mp_array *other)
{
    if (r->plan->by_rows)
        mp_cuda_rows_pick(&r->plan->rows, &r->indices, mp_dtype_bits(table->dtype) / 8, table->data, other->data);
    else
        mp_each(mp_array_elements(&r->indices), picked{lines_in(r, table, other), false});
}

static void reduce(mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other)
{
    if (r->plan->by_rows) {
        mp_cuda_rows_reduce(&r->plan->rows, &r->indices, how, table->dtype, table->data, other->data, r->room);
    } else if (r->plan->sums_bytes) {
        mp_array sums = mp_array_plain(MP_DTYPE_FLOAT, table->rank, table->dims);
        const mp_array *back = &sums;
        sums.data = r->room;
        mp_cuda_floats(MP_FORMULA_copy, NULL, &table, 1, &sums);
        reduce_lines(r, how, &sums, other);
        mp_cuda_floats(MP_FORMULA_copy, NULL, &back, 1, table);
    } else {
        reduce_lines(r, how, table, other);
    }
}

static void clear(mp_indexing *r, const mp_array *table)
{
    if (r->plan->by_rows)
        mp_cuda_rows_clear(&r->plan->rows, &r->indices, mp_dtype_bits(table->dtype) / 8, table->data);
    else
        mp_each(mp_array_elements(&r->indices), picked{lines_in(r, table, &r->indices), true});
}

MP_BODY_LOOP(mp_scatter_step, mp_scatter_step_item)

const mp_indexer indexer = {
    room,        read_indices, pick, reduce, clear, mp_cuda_array_copy, mp_cuda_array_zero, mp_scatter_step_item_loop,
    mp_launched, false};

MP_INDEX_KERNELS(MP_INDEX_KERNEL)

} // namespace

extern "C" const mp_kernel mp_cuda_gathers[] = {MP_INDEX_ROWS{}};

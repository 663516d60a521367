/* index_lines_cuda.cu - elements that each have their own index along one axis. */
#include "executor/operators/gathers/gather.cuh"

#include "executor/operators/gathers/index_lines_cuda.h"

namespace
{

/* The indices' elements, counted row-major: where each lies in the table (but for its index) and in the other array. */
struct lines_as {
    mp_boxed places; /* from: the table, to: the other array */
    const void *indices;
    mp_dtype index_dtype, dtype, other_dtype;
    int size;
    int64_t axis_size, axis_stride, length, along_index, along_other;
    void *table, *other;

    lines_as(const mp_index_lines *l, const mp_box *box)
        : places(box), indices(l->indices->data), index_dtype(l->indices->dtype)
    {
        dtype = l->table->dtype;
        other_dtype = l->other->dtype;
        size = mp_dtype_bits(dtype) / 8;
        axis_size = l->table->dims[l->axis];
        axis_stride = l->table->strides[l->axis];
        length = l->indices->dims[l->axis];
        along_index = 1;
        for (int d = l->axis + 1; d < l->indices->rank; d++) along_index *= l->indices->dims[d];
        along_other = l->other->strides[l->axis];
        table = l->table->data;
        other = l->other->data;
    }
    /* From the table's line to its element; -1: there is none. */
    MP_BODY int64_t along(int64_t k) const
    {
        const int64_t index = mp_index_of(indices, index_dtype, k);
        if (index < -axis_size || index >= axis_size) return -1;
        return (index < 0 ? index + axis_size : index) * axis_stride;
    }
};

struct picked {
    lines_as x;
    bool clears;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t table_at, other_at;
        x.places.find(k, &table_at, &other_at);
        const int64_t along = x.along(k);
        if (!clears)
            mp_copy_element(x.size, x.other, other_at, along < 0 ? NULL : x.table, table_at + along);
        else if (along >= 0)
            mp_copy_element(x.size, x.table, table_at + along, NULL, 0);
    }
};

/* A line is walked from its beginning by one thread. */
struct line_met {
    lines_as x;
    mp_meeting how;
    MP_BODY void operator()(int64_t line) const
    {
        int64_t table_at, other_at, k = line / x.along_index * x.along_index * x.length + line % x.along_index;
        x.places.find(k, &table_at, &other_at);
        for (int64_t t = 0; t < x.length; t++, k += x.along_index, other_at += x.along_other) {
            const int64_t along = x.along(k);
            if (along < 0) continue;
            if (how == MP_MEET_SET)
                mp_copy_element(x.size, x.table, table_at + along, x.other, other_at);
            else
                mp_meet_element(how, x.table, x.dtype, table_at + along, x.other, x.other_dtype, other_at);
        }
    }
};

static lines_as lines_of(const mp_index_lines *l)
{
    mp_box box = {};
    for (int d = 0; d < l->indices->rank; d++)
        mp_box_put(&box, l->indices->dims[d], d == l->axis ? 0 : l->table->strides[d], l->other->strides[d]);
    return lines_as(l, &box);
}

} // namespace

void mp_cuda_lines_gather(const mp_index_lines *l)
{
    mp_each(mp_array_elements(l->indices), picked{lines_of(l), false});
}

void mp_cuda_lines_clear(const mp_index_lines *l)
{
    mp_each(mp_array_elements(l->indices), picked{lines_of(l), true});
}

void mp_cuda_lines_meet(const mp_index_lines *l, mp_meeting how)
{
    const int64_t n = mp_array_elements(l->indices);
    if (n) mp_each(n / l->indices->dims[l->axis], line_met{lines_of(l), how});
}

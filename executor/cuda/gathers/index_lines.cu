/* gather_lines.cu - elements that each have their own index along one axis; one-hot rows; sequences turned around. */
#include "executor/cuda/gathers/gather.cuh"

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

/* Element k of the output, row-major: axis behind `inner`. */
struct hot {
    mp_boxed places;
    const void *indices, *values;
    mp_dtype index_dtype;
    int size;
    int64_t depth, inner;
    void *out;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t unused, at, index = k / inner / depth * inner + k % inner;
        const int64_t own = k / inner % depth;
        places.find(k, &unused, &at);
        if (index_dtype == MP_DTYPE_FLOAT || index_dtype == MP_DTYPE_BFLOAT16) {
            const float value = mp_load_any(indices, index_dtype, index); /* of which the whole part counts */
            index = value > -1e15f && value < 1e15f ? (int64_t)value : INT64_MIN;
        } else {
            index = mp_load_any_whole(indices, index_dtype, index);
        }
        const bool on = index >= -depth && index < depth && (index < 0 ? index + depth : index) == own;
        mp_copy_element(size, out, at, values, on);
    }
};

void mp_cuda_one_hot(const mp_array *indices, const mp_array *out, int axis, const void *values)
{
    mp_box box = {};
    int64_t inner = 1;
    for (int d = 0; d < out->rank; d++) mp_box_put(&box, out->dims[d], 0, out->strides[d]);
    for (int d = axis + 1; d < out->rank; d++) inner *= out->dims[d];
    mp_each(mp_array_elements(out), hot{mp_boxed(&box), indices->data, values, indices->dtype, mp_dtype_bits(out->dtype) / 8,
                                        out->dims[axis], inner, out->data});
}

/* Element k, row-major; batches and steps are counted by the sizes behind their axes. */
struct reversed {
    mp_boxed places;
    const void *lengths, *from;
    mp_dtype index_dtype;
    int size;
    int64_t n_batches, n_steps, behind_batch, behind_time, step_stride;
    void *to;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t from_at, to_at, length = mp_index_of(lengths, index_dtype, k / behind_batch % n_batches);
        const int64_t step = k / behind_time % n_steps;
        places.find(k, &from_at, &to_at);
        length = length < 0 ? 0 : length > n_steps ? n_steps : length;
        if (step < length) from_at += (length - 1 - 2 * step) * step_stride;
        mp_copy_element(size, to, to_at, from, from_at);
    }
};

void mp_cuda_reverse(const mp_array *from, const mp_array *to, const mp_array *lengths, int batch, int time)
{
    mp_box box = {};
    int64_t behind_batch = 1, behind_time = 1;
    for (int d = 0; d < to->rank; d++) mp_box_put(&box, to->dims[d], from->strides[d], to->strides[d]);
    for (int d = batch + 1; d < to->rank; d++) behind_batch *= to->dims[d];
    for (int d = time + 1; d < to->rank; d++) behind_time *= to->dims[d];
    mp_each(mp_array_elements(to),
            reversed{mp_boxed(&box), lengths->data, from->data, lengths->dtype, mp_dtype_bits(to->dtype) / 8, to->dims[batch],
                     to->dims[time], behind_batch, behind_time, from->strides[time], to->data});
}

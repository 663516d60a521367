/* sequences_cuda.cu - one-hot rows; sequences turned around. */
#include "executor/operators/gathers/gather.cuh"

#include "executor/operators/gathers/sequences_cuda.h"

namespace
{

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
        if (index_dtype == MP_DTYPE_FLOAT || index_dtype == MP_DTYPE_BFLOAT16)
            index = mp_whole_of((double)mp_load_any(indices, index_dtype, index));
        else
            index = mp_load_any_whole(indices, index_dtype, index);
        const bool on = index >= -depth && index < depth && (index < 0 ? index + depth : index) == own;
        mp_copy_element(size, out, at, values, on);
    }
};

} // namespace

void mp_cuda_one_hot(const mp_array *indices, const mp_array *out, int axis, const void *values)
{
    mp_box box = {};
    int64_t inner = 1;
    for (int d = 0; d < out->rank; d++) mp_box_put(&box, out->dims[d], 0, out->strides[d]);
    for (int d = axis + 1; d < out->rank; d++) inner *= out->dims[d];
    mp_each(mp_array_elements(out), hot{mp_boxed(&box), indices->data, values, indices->dtype, mp_dtype_bits(out->dtype) / 8,
                                        out->dims[axis], inner, out->data});
}

namespace
{

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

} // namespace

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

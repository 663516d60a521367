/* sums_cuda.cu - the sum over what was broadcast: gradients of biases, scales and scalars. */
#include "executor/cuda/grid/reduce.cuh"
#include "executor/cuda/grid/vectors.cuh"

#include "executor/operators/elementwise/sums_cuda.h"

namespace
{

/* Operand 0 is what is summed, of type T (MP_DTYPE_UNDEFINED: of a rare one), operand 1 where the sums go. */
template <mp_dtype T> struct sum_of : mp_float_sum {
    const void *from;
    void *to;
    mp_dtype from_dtype, to_dtype;
    float scale;
    bool add;
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        return part{T == MP_DTYPE_UNDEFINED ? mp_load_any(from, from_dtype, at[0]) : mp_load_one(from, T, at[0])};
    }
    MP_BODY void end(const int64_t *at, value total) const
    {
        const float old = add ? mp_load_any(to, to_dtype, at[1]) : 0;
        mp_store_any(to, to_dtype, at[1], old + (float)(total.x * scale));
    }
};

static mp_reduce_places<2> places_of(const mp_array *from, const mp_array *to)
{
    const mp_loops loops = mp_loops_of(&to, 1, from);
    return mp_reduce_places<2>(&loops, 1);
}

template <mp_dtype T> static void sum(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    const mp_reduce_places<2> places = places_of(from, to);
    sum_of<T> f;
    if (!places.n_terms) return;
    f.from = from->data;
    f.to = to->data;
    f.from_dtype = from->dtype;
    f.to_dtype = to->dtype;
    f.scale = scale;
    f.add = add;
    mp_reduce(places, f, workspace);
}

} // namespace

int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to)
{
    return mp_reduce_workspace_bytes<2, sum_of<MP_DTYPE_UNDEFINED>>(places_of(from, to));
}

void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace)
{
    if (mp_is_real(from->dtype))
        MP_BY_DTYPE(from->dtype, sum<T>(from, to, scale, add, workspace));
    else
        sum<MP_DTYPE_UNDEFINED>(from, to, scale, add, workspace);
}

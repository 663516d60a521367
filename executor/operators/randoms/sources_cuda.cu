/* sources_cuda.cu - tensors from a few numbers. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/operators/randoms/sources_cuda.h"

namespace
{

/* In double where the output is a float, as on the CPU. */
struct range_of {
    const void *start, *delta;
    void *out;
    mp_dtype start_dtype, delta_dtype, dtype;
    bool is_float;
    MP_BODY void operator()(int64_t k) const
    {
        if (!is_float) {
            const int64_t first = mp_load_any_whole(start, start_dtype, 0), step = mp_load_any_whole(delta, delta_dtype, 0);
            mp_store_any_whole(out, dtype, k, first + k * step);
            return;
        }
        const double first = mp_load_real(start, start_dtype, 0), step = mp_load_real(delta, delta_dtype, 0);
        mp_store_real(out, dtype, k, first + (double)k * step);
    }
};

struct eye_of {
    void *out;
    mp_dtype dtype;
    int64_t columns, diagonal;
    MP_BODY void operator()(int64_t k) const { mp_store_any_whole(out, dtype, k, k % columns - k / columns == diagonal); }
};

} // namespace

void mp_cuda_range(const mp_array *start, const mp_array *delta, const mp_array *out)
{
    mp_each(mp_array_elements(out), range_of{start->data, delta->data, out->data, start->dtype, delta->dtype, out->dtype,
                                             mp_dtype_is_float(out->dtype)});
}

void mp_cuda_eye(const mp_array *out, int64_t k)
{
    mp_each(mp_array_elements(out), eye_of{out->data, out->dtype, out->dims[1], k});
}

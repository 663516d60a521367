/* scatter_shares_cuda.cu - what each factor of a largest, a smallest or a product has of its gradient, an element to a thread.
 */
#include "executor/cuda/grid/family.cuh"

#include "executor/operators/gathers/scatter_shares_cuda.h"
extern "C" {
#include "executor/operators/gathers/scatter_shares.h"
}

namespace
{

struct part_taken {
    mp_meeting how;
    const void *factors;
    mp_dtype dtype;
    float *parts;
    MP_BODY void operator()(int64_t k) const { parts[k] = mp_scatter_part(how, mp_load_float(factors, dtype, k)); }
};

struct marked {
    mp_meeting how;
    const void *factors;
    mp_dtype dtype;
    const float *results;
    float *marks;
    MP_BODY void operator()(int64_t k) const { marks[k] = mp_scatter_mark(how, mp_load_float(factors, dtype, k), results[k]); }
};

struct shared_out {
    mp_meeting how;
    mp_array factors, dy, gradient;
    const float *results, *marks;
    MP_BODY void operator()(int64_t k) const
    {
        mp_store_float(gradient.data, gradient.dtype, k,
                       mp_scatter_share(how, mp_load_float(factors.data, factors.dtype, k), results[k],
                                        mp_load_float(dy.data, dy.dtype, k), marks[k]));
    }
};

} // namespace

void mp_cuda_scatter_parts(mp_meeting how, const mp_array *factors, const mp_array *parts)
{
    mp_each(mp_array_elements(factors), part_taken{how, factors->data, factors->dtype, (float *)parts->data});
}

void mp_cuda_scatter_marks(mp_meeting how, const mp_array *factors, const mp_array *results, const mp_array *marks)
{
    mp_each(mp_array_elements(factors),
            marked{how, factors->data, factors->dtype, (const float *)results->data, (float *)marks->data});
}

void mp_cuda_scatter_shares(mp_meeting how, const mp_array *factors, const mp_array *results, const mp_array *dy,
                            const mp_array *marks, const mp_array *gradient)
{
    mp_each(mp_array_elements(factors),
            shared_out{how, *factors, *dy, *gradient, (const float *)results->data, (const float *)marks->data});
}

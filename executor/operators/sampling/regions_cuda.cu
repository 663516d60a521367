/* regions_cuda.cu - RoiAlign (regions.h) on the GPU: one output element to a thread. Backward one element of the
 * images looks at all regions, in their order: O(elements times regions). A region of an image that is not there gives nothing.
 */
#include "executor/cuda/grid/bodies.cuh"

#include "executor/cuda/grid/families.h"
#include "executor/operators/copies/boxes_cuda.h"

extern "C" {
#include "executor/operators/sampling/regions.h"
}

namespace
{

MP_BODY_LOOP(mp_regions, mp_roi_align_item)

struct spread_regions {
    mp_regions s;

    /* What `n` points from `first` on, `step` apart, weigh at element i of an axis. */
    static MP_BODY double weigh(double first, double step, int64_t n, int64_t size, int64_t i)
    {
        double sum = 0;
        for (int64_t p = 0; p < n; p++) {
            int64_t below;
            double behind;
            if (!mp_between(first + (double)p * step, size, &below, &behind)) continue;
            if (below == i) sum += 1 - behind;
            if (below + 1 == i) sum += behind;
        }
        return sum;
    }
    /* Whether points between two coordinates are too far from element i. */
    static MP_BODY bool misses(double a, double b, int64_t i)
    {
        return fmax(a, b) < (double)(i - 1) || fmin(a, b) > (double)(i + 1);
    }
    MP_BODY void operator()(int64_t k) const
    {
        int64_t at[4];
        const mp_array *d = &s.x, *dy = &s.y;
        const int64_t to = mp_image_element(d, k, at);
        float sum = 0;
        for (int64_t region = 0; region < s.corners.dims[0]; region++) {
            if (mp_region_image(&s, region) != at[0]) continue;
            const mp_bin first = mp_bin_of(&s, region, 0, 0), last = mp_bin_of(&s, region, s.height - 1, s.width - 1);
            if (misses(first.top, last.top + (double)last.rows * last.row_step, at[2]) ||
                misses(first.left, last.left + (double)last.columns * last.column_step, at[3]))
                continue;
            for (int64_t row = 0; row < s.height; row++) {
                mp_bin b = mp_bin_of(&s, region, row, 0);
                const double high = weigh(b.top, b.row_step, b.rows, d->dims[2], at[2]);
                if (high == 0) continue;
                for (int64_t column = 0; column < s.width; column++) {
                    b = mp_bin_of(&s, region, row, column);
                    const double wide = weigh(b.left, b.column_step, b.columns, d->dims[3], at[3]);
                    if (wide == 0) continue;
                    const float g = mp_load_any(dy->data, dy->dtype,
                                                region * dy->strides[0] + at[1] * dy->strides[1] + row * dy->strides[2] +
                                                    column * dy->strides[3]);
                    sum += g * (float)(high * wide / (double)(b.rows * b.columns));
                }
            }
        }
        mp_store_any(d->data, d->dtype, to, sum);
    }
};

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_regions s = mp_regions_of(call, x);
    if (!x->is_backward) return mp_roi_align_item_loop(&s, mp_array_elements(&s.y), 16, err);
    if (mp_operands_wants(x, 0)) mp_each(mp_array_elements(&s.x), spread_regions{s});
    if (mp_operands_wants(x, 1)) mp_cuda_array_zero(&x->d_in[1]); /* as on the CPU */
    return mp_launched(err);
}

MP_PREPARE_TO_RUN(prepare, mp_roi_align_prepare, run)

} // namespace

extern "C" const mp_kernel mp_cuda_regions[] = {{"RoiAlign", "", prepare, prepare}, {}};

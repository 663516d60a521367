/* sampler_cuda.cu - GridSample and RoiAlign on the GPU. Backward of GridSample lists every tap with the input element that it
 * reads, sorts the list by element, and sums the taps of each element in the order of points. */
#include "executor/cuda/grid/bodies.cuh"
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/cuda/grid/families.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/gathers/rows_cuda.h"
#include "executor/operators/sampling/sampler.h"
}

namespace
{

MP_BODY_LOOP(mp_sampler, mp_sampler_item)
MP_BODY_LOOP(mp_sampler, mp_sampler_move_item)

/* Lists the taps of one point: their weights, and the indices of the input elements that they read, counted over the whole
 * batch (INT64_MIN: none). */
struct listed {
    mp_sampler s;
    int64_t n_positions, *element;
    float *weight;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t sample = k / s.n_points, point = k % s.n_points;
        int64_t plain[MP_SAMPLER_SPACE], size = 1, at;
        mp_sampler_axis axes[MP_SAMPLER_SPACE];
        for (int d = s.n - 1; d >= 0; d--) {
            plain[d] = size;
            size *= s.x.dims[2 + d];
        }
        mp_sampler_axes(&s, sample, point, axes);
        for (int t = 0; t < s.per_point; t++) {
            const int64_t entry = k * s.per_point + t;
            const bool there = mp_sampler_tap(&s, axes, t, plain, &at, &weight[entry], NULL);
            element[entry] = there ? sample * n_positions + at : INT64_MIN;
        }
    }
};

/* Computes one channel of the gradient of an input element. The taps that read this element begin at position k of the sorted
 * list. */
struct summed {
    mp_sampler s;
    int64_t n_entries, n_elements, n_positions;
    bool by_channel; /* true: adjacent threads process adjacent channels; false: adjacent entries of the sorted list */
    const uint64_t *list;
    const float *weight;

    MP_BODY int64_t element(int64_t k) const { return (int64_t)(list[k] >> 32); }
    MP_BODY void operator()(int64_t index) const
    {
        const mp_array *d = &s.dx, *dy = &s.y;
        int64_t k = by_channel ? index / d->dims[1] : index % n_entries;
        const int64_t channel = by_channel ? index % d->dims[1] : index / n_entries, own = element(k);
        if (own >= n_elements || (k > 0 && element(k - 1) == own)) return;
        const int64_t sample = own / n_positions, from = sample * dy->strides[0] + channel * dy->strides[1];
        float sum = 0;
        for (; k < n_entries && element(k) == own; k++) {
            const int64_t entry = (int64_t)(uint32_t)list[k], point = entry / s.per_point % s.n_points;
            sum += weight[entry] * mp_load_any(dy->data, dy->dtype, from + mp_array_offset(dy, 2, dy->rank, point));
        }
        mp_store_any(d->data, d->dtype,
                     sample * d->strides[0] + channel * d->strides[1] + mp_array_offset(d, 2, d->rank, own % n_positions), sum);
    }
};

/* Describes the sort: all taps are index entries, and the input's elements are the rows by which they are sorted. */
static mp_row_entries rows_of(const mp_sampler *s, const mp_array *x)
{
    mp_row_entries rows = {};
    rows.n_rows = x->dims[0];
    for (int d = 2; d < x->rank; d++) rows.n_rows *= x->dims[d];
    rows.n_entries = x->dims[0] * s->n_points * s->per_point;
    mp_rows_by_number(&rows);
    return rows;
}

static void spread(const mp_sampler *s, void *room)
{
    const mp_array *dx = &s->dx;
    const mp_row_entries rows = rows_of(s, dx);
    mp_cuda_array_zero(dx);
    if (!rows.n_entries || !rows.n_rows) return;
    const int64_t n_positions = rows.n_rows / dx->dims[0];
    mp_array elements = mp_array_plain(MP_DTYPE_INT64, 1, &rows.n_entries);
    elements.data = room;
    float *weight = (float *)((char *)room + mp_aligned(rows.n_entries * (int64_t)sizeof(int64_t)));
    void *rest = (char *)weight + mp_aligned(rows.n_entries * (int64_t)sizeof(float));
    mp_each(dx->dims[0] * s->n_points, listed{*s, n_positions, (int64_t *)room, weight});
    const uint64_t *list = mp_cuda_rows_sort(&rows, &elements, rest);
    mp_each(rows.n_entries * dx->dims[1],
            summed{*s, rows.n_entries, rows.n_rows, n_positions, dx->strides[1] == 1, list, weight});
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_sampler s = mp_sampler_of(call, x);
    const int64_t n_points = s.x.dims[0] * s.n_points;
    if (!x->is_backward) return mp_sampler_item_loop(&s, n_points * s.n_blocks, 0, err);
    if (s.dx.dtype) spread(&s, x->workspace);
    return s.d_grid.dtype ? mp_sampler_move_item_loop(&s, n_points, 0, err) : mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(mp_grid_sample_prepare(x, call, err));
    call->run = run;
    if (!mp_operands_wants(x, 0)) return MP_OK;
    const mp_row_entries rows = rows_of((const mp_sampler *)call->state, &x->d_in[0]);
    if (rows.n_rows > UINT32_MAX || rows.n_entries > UINT32_MAX) return MP_NO_KERNEL(x, err, "this many points");
    call->workspace_bytes = mp_aligned(rows.n_entries * (int64_t)sizeof(int64_t)) +
                            mp_aligned(rows.n_entries * (int64_t)sizeof(float)) + mp_cuda_rows_sort_workspace_bytes(&rows);
    return MP_OK;
}

/* ---- RoiAlign. In backward, each image element sums over all regions in order: O(elements times regions). Regions of images
 * that do not exist are skipped. */

MP_BODY_LOOP(mp_regions, mp_roi_align_item)

struct spread_regions {
    mp_regions s;

    /* Returns the sum of the weights with which n points read element i along an axis. The first point is at `first`, the
     * others follow at distances `step`. */
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
    /* True if no point between coordinates a and b reads element i, because all are at least one element away. */
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

static mp_status run_regions(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_regions s = mp_regions_of(call, x);
    if (!x->is_backward) return mp_roi_align_item_loop(&s, mp_array_elements(&s.y), 16, err);
    if (mp_operands_wants(x, 0)) mp_each(mp_array_elements(&s.x), spread_regions{s});
    if (mp_operands_wants(x, 1)) mp_cuda_array_zero(&x->d_in[1]); /* regions have no gradient */
    return mp_launched(err);
}

MP_PREPARE_TO_RUN(prepare_regions, mp_roi_align_prepare, run_regions)

} // namespace

extern "C" const mp_kernel mp_cuda_samplers[] = {
    {"GridSample", "", prepare, prepare}, {"RoiAlign", "", prepare_regions, prepare_regions}, {}};

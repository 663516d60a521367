/* grid_sample_cuda.cu - GridSample (executor/operators/sampling/grid_sample.h). Backward, what every tap adds to the input is
 * listed by the element it lies in: the list is sorted, and each element sums up its own in the order of points.
 */
#include "executor/cuda/grid/grid.cuh"

#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/gathers/row_sort_cuda.h"
#include "executor/operators/sampling/grid_sample_cuda.h"

namespace
{

enum { SPACE = MP_SAMPLER_SPACE, CHANNELS = 8 };

/* Samples of positions in space, each with some numbers. */
struct field {
    void *data;
    mp_dtype dtype;
    int n;
    int64_t sample, number, size[SPACE], stride[SPACE]; /* sample, number: strides */

    MP_BODY int64_t place(int64_t position) const
    {
        int64_t at = 0;
        for (int d = n - 1; d >= 0; d--) {
            at += position % size[d] * stride[d];
            position /= size[d];
        }
        return at;
    }
    MP_BODY float load(int64_t at) const { return mp_load_any(data, dtype, at); }
};

/* `number`: the dimension that counts the numbers; those of space begin at `first`. */
static field field_of(const mp_array *a, int first, int number)
{
    field f = {a->data, a->dtype, a->rank - 2, a->strides[0], a->strides[number], {1, 1, 1}, {0, 0, 0}};
    for (int d = 0; d < f.n && d < SPACE; d++) {
        f.size[d] = a->dims[first + d];
        f.stride[d] = a->strides[first + d];
    }
    return f;
}

struct sampling {
    mp_sampler s;
    field x, grid;

    MP_BODY void find(int64_t sample, int64_t point, mp_sampler_axis *axes) const
    {
        const int64_t at = sample * grid.sample + grid.place(point);
        for (int d = 0; d < s.n; d++)
            mp_sampler_along(&s, (double)grid.load(at + (s.n - 1 - d) * grid.number), x.size[d], &axes[d]);
    }
};

static sampling sampling_of(const mp_sampler *s, const mp_array *x, const mp_array *grid)
{
    return sampling{*s, field_of(x, 2, 1), field_of(grid, 1, grid->rank - 1)};
}

/* One point, some channels. */
struct sampled {
    sampling of;
    field y;
    int64_t n_channels, n_blocks;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t point = k % of.s.n_points, sample = k / of.s.n_points / n_blocks;
        const int64_t first = k / of.s.n_points % n_blocks * CHANNELS;
        const int64_t n = n_channels - first < CHANNELS ? n_channels - first : (int64_t)CHANNELS;
        const int64_t from = sample * of.x.sample + first * of.x.number;
        mp_sampler_axis axes[SPACE];
        float sums[CHANNELS] = {};
        of.find(sample, point, axes);
        for (int t = 0; t < of.s.per_point; t++) {
            int64_t at;
            float weight;
            if (!mp_sampler_tap(&of.s, axes, t, of.x.stride, &at, &weight, NULL)) continue;
            for (int c = 0; c < CHANNELS; c++)
                if (c < n) sums[c] += weight * of.x.load(from + at + c * of.x.number);
        }
        const int64_t to = sample * y.sample + first * y.number + y.place(point);
        for (int c = 0; c < CHANNELS; c++)
            if (c < n) mp_store_any(y.data, y.dtype, to + c * y.number, sums[c]);
    }
};

} // namespace

void mp_cuda_grid_sample(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *y)
{
    const int64_t n_blocks = (x->dims[1] + CHANNELS - 1) / CHANNELS;
    const sampled f = {sampling_of(s, x, grid), field_of(y, 2, 1), x->dims[1], n_blocks};
    mp_each(x->dims[0] * n_blocks * s->n_points, f);
}

namespace
{

/* ---- the gradient of the input */

/* Every tap of one point: which element of the input it reads, counted over all samples, and its weight. */
struct listed {
    sampling of;
    int64_t n_positions, *element;
    float *weight;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t sample = k / of.s.n_points, point = k % of.s.n_points;
        int64_t plain[SPACE], size = 1, at;
        mp_sampler_axis axes[SPACE];
        for (int d = of.s.n - 1; d >= 0; d--) {
            plain[d] = size;
            size *= of.x.size[d];
        }
        of.find(sample, point, axes);
        for (int t = 0; t < of.s.per_point; t++) {
            const int64_t entry = k * of.s.per_point + t;
            const bool there = mp_sampler_tap(&of.s, axes, t, plain, &at, &weight[entry], NULL);
            element[entry] = there ? sample * n_positions + at : INT64_MIN;
        }
    }
};

/* One channel of the element whose entries begin at k. */
struct summed {
    field d, dy;
    int64_t n_entries, n_elements, n_channels, n_positions, n_points;
    int per_point;
    bool by_channel; /* neighbours are channels, not entries */
    const uint64_t *list;
    const float *weight;

    MP_BODY int64_t element(int64_t k) const { return (int64_t)(list[k] >> 32); }
    MP_BODY void operator()(int64_t index) const
    {
        int64_t k = by_channel ? index / n_channels : index % n_entries;
        const int64_t channel = by_channel ? index % n_channels : index / n_entries, own = element(k);
        if (own >= n_elements || (k > 0 && element(k - 1) == own)) return;
        const int64_t sample = own / n_positions, from = sample * dy.sample + channel * dy.number;
        float sum = 0;
        for (; k < n_entries && element(k) == own; k++) {
            const int64_t entry = (int64_t)(uint32_t)list[k];
            sum += weight[entry] * dy.load(from + dy.place(entry / per_point % n_points));
        }
        mp_store_any(d.data, d.dtype, sample * d.sample + channel * d.number + d.place(own % n_positions), sum);
    }
};

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

} // namespace

bool mp_cuda_grid_rows(const mp_sampler *s, const mp_array *x, mp_row_entries *rows)
{
    *rows = {};
    rows->n_rows = x->dims[0];
    for (int d = 2; d < x->rank; d++) rows->n_rows *= x->dims[d];
    rows->n_entries = x->dims[0] * s->n_points * s->per_point;
    mp_rows_by_number(rows);
    return rows->n_rows <= UINT32_MAX && rows->n_entries <= UINT32_MAX;
}

int64_t mp_cuda_grid_room(const mp_row_entries *rows)
{
    return aligned(rows->n_entries * (int64_t)sizeof(int64_t)) + aligned(rows->n_entries * (int64_t)sizeof(float)) +
           mp_cuda_rows_sort_room(rows);
}

void mp_cuda_grid_spread(const mp_sampler *s, const mp_array *dx, const mp_array *grid, const mp_array *dy, void *room)
{
    mp_row_entries rows;
    mp_cuda_grid_rows(s, dx, &rows);
    mp_cuda_array_zero(dx);
    if (!rows.n_entries || !rows.n_rows) return;
    const int64_t n_points = dx->dims[0] * s->n_points, n_positions = rows.n_rows / dx->dims[0];
    mp_array elements = mp_array_plain(MP_DTYPE_INT64, 1, &rows.n_entries);
    elements.data = room;
    float *weight = (float *)((char *)room + aligned(rows.n_entries * (int64_t)sizeof(int64_t)));
    void *rest = (char *)weight + aligned(rows.n_entries * (int64_t)sizeof(float));
    mp_each(n_points, listed{sampling_of(s, dx, grid), n_positions, (int64_t *)room, weight});
    const summed f = {field_of(dx, 2, 1),
                      field_of(dy, 2, 1),
                      rows.n_entries,
                      rows.n_rows,
                      dx->dims[1],
                      n_positions,
                      s->n_points,
                      s->per_point,
                      dx->strides[1] == 1,
                      mp_cuda_rows_sort(&rows, &elements, rest),
                      weight};
    mp_each(rows.n_entries * dx->dims[1], f);
}

namespace
{

/* ---- the gradient of the grid: one point */

struct moved {
    sampling of;
    field d, dy;
    int64_t n_channels;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t sample = k / of.s.n_points, point = k % of.s.n_points;
        const int64_t from = sample * of.x.sample, out = sample * dy.sample + dy.place(point);
        mp_sampler_axis axes[SPACE];
        double sums[SPACE] = {};
        of.find(sample, point, axes);
        for (int t = 0; t < of.s.per_point; t++) {
            int64_t at;
            float weight, slope[SPACE];
            double product = 0;
            if (!mp_sampler_tap(&of.s, axes, t, of.x.stride, &at, &weight, slope)) continue;
            for (int64_t c = 0; c < n_channels; c++)
                product += (double)dy.load(out + c * dy.number) * (double)of.x.load(from + at + c * of.x.number);
            for (int e = 0; e < of.s.n; e++) sums[e] += product * (double)slope[e];
        }
        const int64_t to = sample * d.sample + d.place(point);
        for (int e = 0; e < of.s.n; e++) mp_store_any(d.data, d.dtype, to + (of.s.n - 1 - e) * d.number, (float)sums[e]);
    }
};

} // namespace

void mp_cuda_grid_move(const mp_sampler *s, const mp_array *x, const mp_array *grid, const mp_array *dy, const mp_array *d_grid)
{
    mp_each(x->dims[0] * s->n_points,
            moved{sampling_of(s, x, grid), field_of(d_grid, 1, d_grid->rank - 1), field_of(dy, 2, 1), x->dims[1]});
}

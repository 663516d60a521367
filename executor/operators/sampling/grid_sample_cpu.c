/* grid_sample_cpu.c - GridSample (grid_sample.h) on the CPU. Backward some channels of a sample belong to one thread, which
 * walks the points in order: nothing is added by two threads.
 */
#include "executor/operators/sampling/grid_sample.h"

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/sampling/sums_cpu.h"

MP_BODY_LOOP(mp_sampler, mp_sampler_item)
MP_BODY_LOOP(mp_sampler, mp_sampler_move_item)

typedef struct task {
    mp_sampler s;
    float *sums; /* the input's gradient in float, plain, where its type is another */
} task;

/* A block of channels of one sample of the input's gradient. */
static void scatter_channels(void *data, int64_t k)
{
    const task *t = data;
    const mp_sampler *s = &t->s;
    const mp_array *d = &s->dx, *dy = &s->y;
    int64_t sample = k / s->n_blocks, first = k % s->n_blocks * MP_SAMPLER_CHANNELS, size = 1;
    int64_t last = first + MP_SAMPLER_CHANNELS < d->dims[1] ? first + MP_SAMPLER_CHANNELS : d->dims[1];
    mp_array plain = mp_array_plain(MP_DTYPE_FLOAT, d->rank, d->dims);
    const mp_array *to = t->sums ? &plain : d;
    float *sums = (t->sums ? t->sums : (float *)d->data) + sample * to->strides[0];
    for (int e = 2; e < d->rank; e++) size *= d->dims[e];
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = first, at = mp_array_place(to, 2, to->rank, i); c < last; c++) sums[at + c * to->strides[1]] = 0;
    mp_sampler_point p;
    for (int64_t i = 0; i < s->n_points; i++) {
        mp_sampler_point_of(s, sample, i, to->strides + 2, false, &p);
        int64_t from = sample * dy->strides[0] + mp_array_place(dy, 2, dy->rank, i);
        for (int64_t c = first; c < last; c++) {
            float g = mp_array_load(dy, from + c * dy->strides[1]);
            for (int j = 0; j < p.n; j++) sums[c * to->strides[1] + p.at[j]] += p.weight[j] * g;
        }
    }
    for (int64_t i = 0; t->sums && i < size; i++)
        for (int64_t c = first; c < last; c++)
            mp_array_store(d, sample * d->strides[0] + c * d->strides[1] + mp_array_place(d, 2, d->rank, i),
                           sums[c * to->strides[1] + mp_array_place(to, 2, to->rank, i)]);
}

static mp_status run_grid(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {mp_sampler_of(call, x), mp_cpu_sums(x)};
    int64_t n = t.s.x.dims[0], channels = t.s.x.dims[1];
    if (!x->is_backward) return mp_sampler_item_loop(&t.s, n * t.s.n_blocks * t.s.n_points, 4 * MP_SAMPLER_CHANNELS, err);
    if (t.s.dx.dtype) mp_parallel(n * t.s.n_blocks, 64 * t.s.n_points, scatter_channels, &t);
    return t.s.d_grid.dtype ? mp_sampler_move_item_loop(&t.s, n * t.s.n_points, 8 * channels, err) : MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_grid;
    call->workspace_bytes = mp_cpu_sums_bytes(x);
    return mp_grid_sample_prepare(x, call, err);
}

const mp_kernel mp_cpu_grid_samples[] = {{"GridSample", "", prepare, prepare}, {0}};

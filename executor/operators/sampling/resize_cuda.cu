/* resize_cuda.cu - Resize, Upsample and their gradients (resize.h) on the GPU, with one thread per written position. */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/sampling/resize.h"
}

namespace
{

enum { DIMS = MP_ARRAY_RANK, RESIZED = 4 }; /* RESIZED: maximum number of dimensions that one Resize may change */

/* The taps (input positions with weights, mp_taps) of one resized dimension, in the GPU's memory. */
struct table {
    const int32_t *start, *index;
    const float *weight;
    int64_t stride; /* stride of the dimension in `from` */
};

struct resized {
    int rank;
    bool is_small;
    int64_t dims[DIMS], to_stride[DIMS], from_stride[DIMS];
    int which[DIMS]; /* for each dimension: the index of its table in `tables`; -1: the dimension is not resized */
    int n_tables;
    table tables[RESIZED];
    float empty;
    const void *from;
    void *to;
    mp_dtype dtype;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t to_at = 0, from_at = 0;
        int32_t first[RESIZED], end[RESIZED];
        for (int t = 0; t < RESIZED; t++) first[t] = end[t] = 0;
        for (int d = rank - 1; d >= 0; d--) {
            const int64_t i = is_small ? (uint32_t)k % (uint32_t)dims[d] : k % dims[d];
            k = is_small ? (uint32_t)k / (uint32_t)dims[d] : k / dims[d];
            to_at += i * to_stride[d];
            if (which[d] < 0) from_at += i * from_stride[d];
            for (int t = 0; t < RESIZED; t++)
                if (t == which[d]) {
                    first[t] = tables[t].start[i];
                    end[t] = tables[t].start[i + 1];
                }
        }
        bool is_empty = false;
        for (int t = 0; t < RESIZED; t++) is_empty |= t < n_tables && first[t] == end[t];
        mp_store_any(to, dtype, to_at, is_empty ? empty : blend<0>(first, end, from_at, 1));
    }
    /* Returns the interpolated value: the weighted sum over all combinations of the taps (input positions with weights) in the
     * tables T, T + 1, ... */
    template <int T> MP_BODY float blend(const int32_t *first, const int32_t *end, int64_t at, float weight) const
    {
        if constexpr (T < RESIZED) {
            if (T < n_tables) {
                float sum = 0;
                for (int32_t k = first[T]; k < end[T]; k++)
                    sum += blend<T + 1>(first, end, at + tables[T].index[k] * tables[T].stride, weight * tables[T].weight[k]);
                return sum;
            }
        }
        return weight * mp_load_any(from, dtype, at);
    }
};

static int64_t taps_of(const mp_taps *t)
{
    return t->start[t->n_out];
}

/* Returns the workspace bytes for all tables of a Resize. */
static int64_t room_of(const mp_resizing *s)
{
    int64_t words = 0;
    for (int d = 0; d < s->rank; d++)
        if (s->axis[d] >= 0) words += s->taps[s->axis[d]].n_out + 1 + 2 * taps_of(&s->taps[s->axis[d]]);
    return words * (int64_t)sizeof(int32_t);
}

/* Copies one table to *at in the GPU's memory, and advances *at to the end of the table. */
static table bring(const mp_taps *t, int64_t stride, int32_t **at)
{
    const int64_t n = t->n_out + 1, taps = taps_of(t);
    const table there = {*at, *at + n, (const float *)(*at + n + taps), stride};
    mp_cuda_put(t->start, n * (int64_t)sizeof *t->start, *at);
    mp_cuda_put(t->index, taps * (int64_t)sizeof *t->index, *at + n);
    mp_cuda_put(t->weight, taps * (int64_t)sizeof *t->weight, *at + n + taps);
    *at += n + 2 * taps;
    return there;
}

/* Copies the tables to `room`, then computes each position of `to` from the positions of `from` in the tables. */
static void resize(const mp_resizing *s, const mp_array *from, const mp_array *to, void *room)
{
    const int64_t n = mp_array_elements(to);
    int32_t *at = (int32_t *)room;
    resized f;
    f.rank = s->rank;
    f.is_small = n <= INT32_MAX;
    f.n_tables = 0;
    f.empty = s->empty;
    f.from = from->data;
    f.to = to->data;
    f.dtype = to->dtype;
    if (!n) return;
    for (int d = 0; d < DIMS; d++) {
        const bool there = d < s->rank;
        f.dims[d] = there ? s->n_to[d] : 1;
        f.to_stride[d] = there ? s->to_stride[d] : 0;
        f.from_stride[d] = there ? s->from_stride[d] : 0;
        f.which[d] = there && s->axis[d] >= 0 ? f.n_tables : -1;
        if (f.which[d] >= 0) f.tables[f.n_tables++] = bring(&s->taps[s->axis[d]], s->from_stride[d], &at);
    }
    for (int t = f.n_tables; t < RESIZED; t++) f.tables[t] = {NULL, NULL, NULL, 0};
    mp_each(n, f);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    resize((const mp_resizing *)call->state, x->is_backward ? &x->d_out[0] : &x->in[0],
           x->is_backward ? &x->d_in[0] : &x->out[0], x->workspace);
    return mp_launched(err);
}

static void release(mp_call *call)
{
    if (call->state) mp_resizing_free((mp_resizing *)call->state);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    int n = 0;
    MP_STATE(mp_resizing, s, call, err);
    call->release = release;
    call->run = run;
    MP_CHECK(mp_resizing_read(x, s, err));
    for (int d = 0; d < s->rank; d++) n += s->axis[d] >= 0;
    if (n > RESIZED) return MP_NO_KERNEL(x, err, "resizing this many dimensions");
    call->workspace_bytes = room_of(s);
    return MP_OK;
}

} // namespace

extern "C" const mp_kernel mp_cuda_resizes[] = {{"Resize", "", prepare, prepare}, {"Upsample", "", prepare, prepare}, {}};

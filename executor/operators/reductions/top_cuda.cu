/* top_cuda.cu - TopK (executor/operators/reductions/top.h) on the GPU. With many lines, each line has one thread with a heap,
 * as on the CPU. With few lines, a bitonic network sorts all elements of all lines at once (Batcher 1968), with O(length log^2
 * length) comparisons per line. */
#include "executor/cuda/grid/bodies.cuh"
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/reductions/top.h"
}

namespace
{

MP_BODY_LOOP(mp_top, mp_top_item)

/* ---- the sorting network. Each line (elements along the axis) has `room` entries in the workspace, a power of two. Entries
 * beyond the line's length are sorted to the end. */

enum { BEYOND = -1 };

struct counted_up {
    int64_t length, room;
    int32_t *list;
    MP_BODY void operator()(int64_t k) const { list[k] = k % room < length ? (int32_t)(k % room) : (int32_t)BEYOND; }
};

/* Compares and exchanges entries at distance `step` within blocks of `run` entries. Blocks are sorted in ascending and
 * descending order alternately. */
struct exchanged {
    mp_top s;
    int64_t room, run, step;
    int32_t *list;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t line = k / (room / 2), pair = k % (room / 2), i = pair / step * 2 * step + pair % step;
        int32_t *own = list + line * room;
        const int32_t a = own[i], b = own[i + step];
        int64_t value_at;
        const mp_top_line l = mp_top_line_of(&s, line, &value_at);
        const bool later = a == BEYOND || (b != BEYOND && mp_top_before(&l, b, a)), upwards = (i & run) == 0;
        if (a == b || later != upwards) return;
        own[i] = b;
        own[i + step] = a;
    }
};

struct taken {
    mp_top s;
    int64_t room;
    const int32_t *list;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t line = k / s.k, i = k % s.k, index = list[line * room + i];
        int64_t value_at;
        const mp_top_line l = mp_top_line_of(&s, line, &value_at);
        l.heap[i * l.heap_step] = index;
        mp_top_copy(l.data, l.at + index * l.step, s.to.data, value_at + i * s.value_step, l.dtype);
    }
};

static int64_t room_of(const mp_top *s)
{
    int64_t room = 2;
    while (room < s->length) room *= 2;
    return room;
}

static bool is_sorted(const mp_top *s)
{
    return s->n_lines < MP_MANY_ROWS && s->length <= INT32_MAX / 2;
}

static void sort(const mp_top &s, int32_t *list)
{
    const int64_t room = room_of(&s), n = s.n_lines * room;
    mp_each(n, counted_up{s.length, room, list});
    for (int64_t run = 2; run <= room; run *= 2)
        for (int64_t step = run / 2; step; step /= 2) mp_each(n / 2, exchanged{s, room, run, step, list});
    mp_each(s.n_lines * s.k, taken{s, room, list});
}

/* ---- backward: the gradient of each value is copied to the gradient of the element from which forward copied the value. */

struct cleared_line {
    mp_top s;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t value_at;
        const mp_top_line l = mp_top_line_of(&s, k / s.length, &value_at);
        mp_store_any(s.from.data, s.from.dtype, l.at + k % s.length * l.step, 0);
    }
};

struct put_back {
    mp_top s;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t i = k % s.k;
        int64_t value_at;
        const mp_top_line l = mp_top_line_of(&s, k / s.k, &value_at);
        mp_store_any(s.from.data, s.from.dtype, l.at + l.heap[i * l.heap_step] * l.step,
                     mp_load_any(s.to.data, s.to.dtype, value_at + i * s.value_step));
    }
};

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_top s = mp_top_of(call, x);
    if (!x->is_backward && !is_sorted(&s)) return mp_top_item_loop(&s, s.n_lines, s.length, err);
    if (x->is_backward) {
        mp_each(s.n_lines * s.length, cleared_line{s});
        mp_each(s.n_lines * s.k, put_back{s});
    } else {
        sort(s, (int32_t *)x->workspace);
    }
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_status st = mp_top_prepare(x, call, err);
    const mp_top *s = (const mp_top *)call->state;
    call->run = run;
    if (st == MP_OK && !x->is_backward && is_sorted(s))
        call->workspace_bytes = s->n_lines * room_of(s) * (int64_t)sizeof(int32_t);
    return st;
}

} // namespace

extern "C" const mp_kernel mp_cuda_tops[] = {{"TopK", "", prepare, prepare}, {}};

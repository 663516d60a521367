/* top_cuda.cu - TopK (executor/operators/reductions/top.h). Many lines: each by one thread, as on the CPU, the list of indices
 * being its heap. Few lines: all elements of all lines are sorted at once by a bitonic network (Batcher 1968), O(length log^2
 * length) comparisons a line.
 */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/reductions/top.h"
}

namespace
{

struct lines_of {
    mp_top s;
    mp_operand in, values;
    int64_t *indices;

    MP_BODY mp_top_line line(int64_t k, int64_t *value_at, int64_t *index_at) const
    {
        mp_top_line l = {in.data, in.dtype, 0, s.in_step, indices, s.index_step, s.largest};
        mp_top_locate(&s, k, &l.at, value_at, index_at);
        l.heap += *index_at;
        return l;
    }
};

struct chosen {
    lines_of x;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t value_at, index_at;
        const mp_top_line l = x.line(k, &value_at, &index_at);
        mp_top_choose(&l, x.s.length, x.s.k);
        for (int64_t i = 0; i < x.s.k; i++)
            mp_top_copy(x.in.data, l.at + l.heap[i * l.heap_step] * l.step, x.values.data, value_at + i * x.s.value_step,
                        x.in.dtype);
    }
};

/* ---- the network: `room` elements to a line, a power of two; what is beyond the line comes last. */

enum { BEYOND = -1 };

struct counted_up {
    int64_t length, room;
    int32_t *list;
    MP_BODY void operator()(int64_t k) const { list[k] = k % room < length ? (int32_t)(k % room) : (int32_t)BEYOND; }
};

/* Compares elements `step` apart within runs of `run`, every other one of which is sorted the other way round. */
struct exchanged {
    lines_of x;
    int64_t room, run, step;
    int32_t *list;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t line = k / (room / 2), pair = k % (room / 2), i = pair / step * 2 * step + pair % step;
        int32_t *own = list + line * room;
        const int32_t a = own[i], b = own[i + step];
        int64_t value_at, index_at;
        const mp_top_line l = x.line(line, &value_at, &index_at);
        const bool later = a == BEYOND || (b != BEYOND && mp_top_before(&l, b, a)), upwards = (i & run) == 0;
        if (a == b || later != upwards) return;
        own[i] = b;
        own[i + step] = a;
    }
};

struct taken {
    lines_of x;
    int64_t room;
    const int32_t *list;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t line = k / x.s.k, i = k % x.s.k, index = list[line * room + i];
        int64_t value_at, index_at;
        const mp_top_line l = x.line(line, &value_at, &index_at);
        x.indices[index_at + i * x.s.index_step] = index;
        mp_top_copy(x.in.data, l.at + index * l.step, x.values.data, value_at + i * x.s.value_step, x.in.dtype);
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

static void sort(const lines_of &x, int32_t *list)
{
    const int64_t room = room_of(&x.s), n = x.s.n_lines * room;
    mp_each(n, counted_up{x.s.length, room, list});
    for (int64_t run = 2; run <= room; run *= 2)
        for (int64_t step = run / 2; step; step /= 2) mp_each(n / 2, exchanged{x, room, run, step, list});
    mp_each(x.s.n_lines * x.s.k, taken{x, room, list});
}

/* ---- backward: values go to where they were. The lines' `in` is the gradient. */

struct cleared_line {
    lines_of x;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t value_at, index_at;
        const mp_top_line l = x.line(k / x.s.length, &value_at, &index_at);
        x.in.store(l.at + k % x.s.length * l.step, 0);
    }
};

struct put_back {
    lines_of x;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t i = k % x.s.k;
        int64_t value_at, index_at;
        const mp_top_line l = x.line(k / x.s.k, &value_at, &index_at);
        x.in.store(l.at + l.heap[i * l.heap_step] * l.step, x.values.load(value_at + i * x.s.value_step));
    }
};

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const mp_top *s = (const mp_top *)call->state;
    const lines_of lines = {*s, x->is_backward ? mp_input_gradient(x, 0) : mp_input(x, 0),
                            x->is_backward ? mp_operand_of(&x->d_out[0]) : mp_output(x, 0), (int64_t *)x->out[1].data};
    if (x->is_backward) {
        mp_each(s->n_lines * s->length, cleared_line{lines});
        mp_each(s->n_lines * s->k, put_back{lines});
    } else if (is_sorted(s)) {
        sort(lines, (int32_t *)x->workspace);
    } else {
        mp_each(s->n_lines, chosen{lines});
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

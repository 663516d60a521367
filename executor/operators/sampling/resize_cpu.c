/* resize_cpu.c - Resize, Upsample and their gradients (resize.h) on the CPU. Rows of the input are combined with the taps
 * (input positions with weights) of the outer axes. Then the taps of the innermost axis sample the combined row. Every element
 * is written once, by one thread. */
#include "executor/operators/sampling/resize.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"

enum { DIMS = MP_ARRAY_RANK };

/* Output lines are split into column ranges along the innermost dimension. `chunks` has three numbers per column range: its
 * end, and the first and last input position that it reads. */
typedef struct state {
    mp_resizing r;
    int64_t n_chunks, *chunks;
} state;

typedef struct task {
    const state *s;
    const mp_array *from, *to;
} task;

MP_VECTOR static void blend(const float *x, float weight, int64_t n, bool first, float *row)
{
    if (first)
        MP_INDEPENDENT for (int64_t k = 0; k < n; k++) row[k] = weight * x[k];
    else
        MP_INDEPENDENT for (int64_t k = 0; k < n; k++) row[k] += weight * x[k];
}

/* Compute n positions of the innermost axis, each from one, two or four input positions; row[i] is the value at input position
 * i. */
MP_VECTOR static void one_tap(const int32_t *index, const float *weight, const float *row, int64_t n, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = weight[k] * row[index[k]];
}
MP_VECTOR static void two_taps(const int32_t *index, const float *weight, const float *row, int64_t n, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = weight[2 * k] * row[index[2 * k]] + weight[2 * k + 1] * row[index[2 * k + 1]];
}
MP_VECTOR static void four_taps(const int32_t *index, const float *weight, const float *row, int64_t n, float *out)
{
    for (int64_t k = 0; k < n; k++) {
        const int32_t *i = index + 4 * k;
        const float *w = weight + 4 * k;
        out[k] = w[0] * row[i[0]] + w[1] * row[i[1]] + w[2] * row[i[2]] + w[3] * row[i[3]];
    }
}

static void sample_row(const mp_taps *t, int64_t first, int64_t n, const float *row, float empty, float *out)
{
    const int32_t *index = t->index + t->start[first];
    const float *weight = t->weight + t->start[first];
    if (t->uniform == 1) {
        one_tap(index, weight, row, n, out);
    } else if (t->uniform == 2) {
        two_taps(index, weight, row, n, out);
    } else if (t->uniform == 4) {
        four_taps(index, weight, row, n, out);
    } else {
        for (int64_t k = 0; k < n; k++) {
            int32_t from = t->start[first + k], to = t->start[first + k + 1];
            float sum = from == to ? empty : 0;
            for (int32_t i = from; i < to; i++) sum += t->weight[i] * row[t->index[i]];
            out[k] = sum;
        }
    }
}

/* One resized outer axis. All resized outer axes together enumerate the combinations of their taps (input positions with
 * weights) like the wheels of an odometer. */
typedef struct wheel {
    const mp_taps *taps;
    int32_t from, to, at;
    int64_t stride;
} wheel;

/* Returns the row that a line of the output samples: the weighted sum of input rows over all combinations of the outer axes'
 * taps (input positions with weights). NULL: an outer axis has no tap at this position. */
static const float *blended(const task *t, wheel *wheels, int n, int64_t base, int64_t length, float *row, float *room)
{
    for (int w = 0; w < n; w++) {
        if (wheels[w].from == wheels[w].to) return NULL;
        wheels[w].at = wheels[w].from;
    }
    for (bool first = true;; first = false) {
        int64_t at = base;
        float weight = 1;
        int turned = n - 1;
        for (int w = 0; w < n; w++) {
            at += wheels[w].taps->index[wheels[w].at] * wheels[w].stride;
            weight *= wheels[w].taps->weight[wheels[w].at];
        }
        while (turned >= 0 && ++wheels[turned].at == wheels[turned].to) {
            wheels[turned].at = wheels[turned].from;
            turned--;
        }
        const float *x =
            mp_floats_apart(t->from->data, t->from->dtype, at, t->s->r.from_stride[t->s->r.rank - 1], length, room);
        if (first && turned < 0 && weight == 1) return x;
        blend(x, weight, length, first, row);
        if (turned < 0) return row;
    }
}

static void run_line(void *data, int64_t k)
{
    const task *t = data;
    const state *s = t->s;
    int inner = s->r.rank - 1, n_wheels = 0;
    float row[MP_BLOCK], room[MP_BLOCK], result[MP_BLOCK];
    int64_t chunk = k % s->n_chunks, line = k / s->n_chunks, from = 0, to = 0;
    int64_t first = chunk ? s->chunks[3 * chunk - 3] : 0, n = s->chunks[3 * chunk] - first, low = s->chunks[3 * chunk + 1];
    int64_t length = s->chunks[3 * chunk + 2] - low + 1;
    wheel wheels[DIMS];
    for (int d = inner - 1; d >= 0; d--) {
        int64_t i = line % s->r.n_to[d];
        line /= s->r.n_to[d];
        to += i * s->r.to_stride[d];
        if (s->r.axis[d] < 0) {
            from += i * s->r.from_stride[d];
            continue;
        }
        const mp_taps *taps = &s->r.taps[s->r.axis[d]];
        wheels[n_wheels++] = (wheel){taps, taps->start[i], taps->start[i + 1], 0, s->r.from_stride[d]};
    }
    to += first * s->r.to_stride[inner];
    bool straight = s->r.to_stride[inner] == 1 && t->to->dtype == MP_DTYPE_FLOAT;
    float *out = straight ? (float *)t->to->data + to : result;
    bool samples = s->r.axis[inner] >= 0;
    const float *x = NULL;
    if (length > 0) x = blended(t, wheels, n_wheels, from + low * s->r.from_stride[inner], length, samples ? row : out, room);
    if (!x)
        for (int64_t e = 0; e < n; e++) out[e] = s->r.empty;
    else if (samples)
        sample_row(&s->r.taps[s->r.axis[inner]], first, n, x - low, s->r.empty, out);
    else if (x != out)
        memcpy(out, x, (size_t)n * sizeof *out);
    mp_floats_put_apart(t->to->data, t->to->dtype, to, s->r.to_stride[inner], n, out);
}

static mp_status run_resize(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {call->state, x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0]};
    (void)err;
    mp_parallel(t.s->r.n_lines * t.s->n_chunks, 4 * t.s->r.n_to[t.s->r.rank - 1] / (t.s->n_chunks ? t.s->n_chunks : 1),
                run_line, &t);
    return MP_OK;
}

/* Splits the innermost dimension into column ranges that read and write at most MP_BLOCK elements each. */
static mp_status cut(state *s, const mp_operands *x, mp_error *err)
{
    int inner = s->r.rank - 1;
    const mp_taps *t = s->r.axis[inner] < 0 ? NULL : &s->r.taps[s->r.axis[inner]];
    size_t capacity = 0;
    int64_t n = s->r.n_to[inner], low = 0, high = -1, first = 0;
    for (int64_t o = 0; o <= n; o++) {
        int64_t own_low = o, own_high = o;
        if (o < n && t) {
            own_low = INT64_MAX;
            own_high = -1;
            for (int32_t k = t->start[o]; k < t->start[o + 1]; k++) {
                if (t->index[k] < own_low) own_low = t->index[k];
                if (t->index[k] > own_high) own_high = t->index[k];
            }
        }
        if (own_high - own_low >= MP_BLOCK) return MP_NO_KERNEL(x, err, "a factor this far from 1");
        int64_t joint_low = high < 0 || own_low < low ? own_low : low, joint_high = own_high > high ? own_high : high;
        if (o == n || o - first == MP_BLOCK || (joint_high >= 0 && joint_high - joint_low >= MP_BLOCK)) {
            if (o == first) break;
            MP_ENSURE(mp_grow(&s->chunks, &capacity, 3 * ((size_t)s->n_chunks + 1), sizeof *s->chunks), err, MP_NOMEM,
                      "out of memory");
            int64_t *chunk = &s->chunks[3 * s->n_chunks++];
            chunk[0] = o;
            chunk[1] = high < 0 ? 0 : low;
            chunk[2] = high;
            first = o;
            joint_low = own_low;
            joint_high = own_high;
        }
        low = joint_low;
        high = joint_high;
    }
    return MP_OK;
}

static void release(mp_call *call)
{
    state *s = call->state;
    if (!s) return;
    mp_resizing_free(&s->r);
    mp_free(s->chunks);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_STATE(state, s, call, err);
    call->release = release;
    call->run = run_resize;
    MP_CHECK(mp_resizing_read(x, &s->r, err));
    return cut(s, x, err);
}

const mp_kernel mp_cpu_resizes[] = {{"Resize", "", prepare, prepare}, {"Upsample", "", prepare, prepare}, {0}};

/* triangles_cpu.c - Trilu: keeps a triangle of each matrix of (..., row, column); its gradient is the same triangle. */
#include "executor/operators/copies/triangle.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/copies/strided_planes_cpu.h"

enum { ROWS = 16 }; /* of a matrix, per item */

typedef struct triangle {
    const mp_array *from, *to;
    bool upper, add;
    int64_t k, blocks;
} triangle;

static float load(const mp_array *a, int64_t at)
{
    float room;
    return *mp_floats(a->data, a->dtype, at, 1, &room);
}

/* to[c] = from[c] for c in [first, last), 0 elsewhere; adding needs no zeros. */
static void row(const triangle *t, int64_t from, int64_t to, int64_t first, int64_t last, int64_t n)
{
    static const uint64_t zero = 0;
    int d = t->to->rank - 1, size = mp_dtype_bits(t->to->dtype) / 8;
    int64_t from_stride = t->from->strides[d], to_stride = t->to->strides[d];
    char *write = (char *)t->to->data + to * size;
    const char *read = (const char *)t->from->data + from * size;
    if (t->add) {
        for (int64_t c = first; c < last; c++) {
            float sum = load(t->to, to + c * to_stride) + load(t->from, from + c * from_stride);
            if (t->to->dtype == MP_DTYPE_FLOAT) ((float *)t->to->data)[to + c * to_stride] = sum;
            mp_floats_done(t->to->data, t->to->dtype, to + c * to_stride, 1, &sum);
        }
        return;
    }
    mp_plane before = {1, first, 0, 0, 0, to_stride}, kept = {1, last - first, 0, from_stride, 0, to_stride},
             behind = {1, n - last, 0, 0, 0, to_stride};
    mp_plane_copy(&before, size, &zero, write);
    if (read != write) mp_plane_copy(&kept, size, read + first * from_stride * size, write + first * to_stride * size);
    mp_plane_copy(&behind, size, &zero, write + last * to_stride * size);
}

static void matrix(void *data, int64_t item)
{
    const triangle *t = data;
    const mp_array *a = t->from, *b = t->to;
    int64_t rows = a->dims[a->rank - 2], n = a->dims[a->rank - 1], from = 0, to = 0, outer = item / t->blocks;
    for (int d = a->rank - 3; d >= 0; d--) {
        from += outer % a->dims[d] * a->strides[d];
        to += outer % a->dims[d] * b->strides[d];
        outer /= a->dims[d];
    }
    for (int64_t r = item % t->blocks * ROWS; r < rows && r < (item % t->blocks + 1) * ROWS; r++) {
        int64_t edge = t->k > n ? n : t->k < -rows ? -rows : t->k; /* far outside all are the same */
        edge += r + !t->upper;
        edge = edge < 0 ? 0 : edge > n ? n : edge;
        row(t, from + r * a->strides[a->rank - 2], to + r * b->strides[a->rank - 2], t->upper ? edge : 0, t->upper ? n : edge,
            n);
    }
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *r, mp_error *err)
{
    const mp_array *k = x->n_in > 1 && x->in[1].dtype ? &x->in[1] : NULL;
    triangle t = {.from = x->is_backward ? &x->d_out[0] : &x->in[0],
                  .to = x->is_backward ? &x->d_in[0] : &x->out[0],
                  .upper = mp_operator_int(x->op, "upper", 1) != 0,
                  .add = x->is_backward && (x->adds & 1),
                  .k = call->state ? *(const int64_t *)call->state : 0};
    (void)r, (void)err;
    if (k && k->data) memcpy(&t.k, k->data, sizeof t.k);
    int64_t n = mp_array_elements(t.to), rows = t.to->dims[t.to->rank - 2], columns = t.to->dims[t.to->rank - 1];
    if (!n) return MP_OK;
    t.blocks = (rows + ROWS - 1) / ROWS;
    mp_parallel(n / rows / columns * t.blocks, ROWS * columns, matrix, &t);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    call->adds = x->adds;
    return mp_triangle_prepare(x, call, err);
}

const mp_kernel mp_cpu_triangles[] = {{"Trilu", "", prepare, prepare}, {0}};

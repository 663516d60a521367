/* lines_cpu.c - elements that each have their own index along one axis. */
#include "executor/operators/gathers/lines_cpu.h"

#include <inttypes.h>

#include "executor/cpu/base/parallel.h"
#include "executor/operators/gathers/meet_cpu.h"

enum { LINES = 64 }; /* side by side, per item */

typedef struct lines_run {
    const mp_index_lines *l;
    mp_meeting how;
    enum { GATHER, MEET, CLEAR } task;
    int side;         /* the dimension along which lines lie side by side; -1: there is but one */
    int64_t per_side; /* items along it */
    int64_t index_stride[MP_ARRAY_RANK];
} lines_run;

mp_status mp_cpu_lines_check(const mp_index_lines *lines, const mp_operands *x, mp_error *err)
{
    int64_t size = lines->table->dims[lines->axis], n = mp_array_elements(lines->indices);
    for (int64_t k = 0; k < n; k++) {
        int64_t index = mp_index_at(lines->indices, k);
        if (index < -size || index >= size)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): index %" PRId64 " is outside an axis of %" PRId64 " elements",
                           x->op->kind, x->op->name, index, size);
    }
    return MP_OK;
}

static void copy_element(int size, void *to, int64_t to_at, const void *from, int64_t from_at)
{
    switch (size) {
    case 1:
        ((uint8_t *)to)[to_at] = ((const uint8_t *)from)[from_at];
        break;
    case 2:
        ((uint16_t *)to)[to_at] = ((const uint16_t *)from)[from_at];
        break;
    case 4:
        ((uint32_t *)to)[to_at] = ((const uint32_t *)from)[from_at];
        break;
    default:
        ((uint64_t *)to)[to_at] = ((const uint64_t *)from)[from_at];
    }
}

/* n elements along a line, or side by side; `step`: in the table, besides the index. */
static void walk(const lines_run *x, int64_t n, int64_t index_at, int64_t index_step, int64_t table, int64_t step,
                 int64_t other, int64_t other_step)
{
    static const uint64_t zero = 0;
    const mp_index_lines *l = x->l;
    int size = mp_dtype_bits(l->table->dtype) / 8;
    int64_t axis_size = l->table->dims[l->axis], axis_stride = l->table->strides[l->axis];
    for (int64_t k = 0; k < n; k++) {
        int64_t index = mp_index_at(l->indices, index_at + k * index_step);
        int64_t at = table + k * step + (index < 0 ? index + axis_size : index) * axis_stride;
        if (x->task == GATHER)
            copy_element(size, l->other->data, other + k * other_step, l->table->data, at);
        else if (x->task == CLEAR)
            copy_element(size, l->table->data, at, &zero, 0);
        else if (x->how == MP_MEET_SET)
            copy_element(size, l->table->data, at, l->other->data, other + k * other_step);
        else
            mp_cpu_meet(x->how, l->table->dtype, 1, l->table->data, at, 1, l->other->data, other + k * other_step, 1);
    }
}

/* Adds a line of bfloat16 to its line of the table: sums in float, for a stretch of the table at a time, rounded once. */
static void add_line(const lines_run *x, int64_t n, int64_t index_at, int64_t index_step, int64_t table, int64_t other,
                     int64_t other_step)
{
    const mp_index_lines *l = x->l;
    const mp_dtype dtype = MP_DTYPE_BFLOAT16;
    int64_t size = l->table->dims[l->axis], stride = l->table->strides[l->axis];
    float sums[MP_BLOCK], room;
    for (int64_t start = 0; start < size; start += MP_BLOCK) {
        int64_t m = size - start < MP_BLOCK ? size - start : MP_BLOCK, at = table + start * stride;
        if (stride == 1)
            mp_floats(l->table->data, dtype, at, m, sums);
        else
            for (int64_t k = 0; k < m; k++) sums[k] = *mp_floats(l->table->data, dtype, at + k * stride, 1, &room);
        for (int64_t k = 0; k < n; k++) {
            int64_t index = mp_index_at(l->indices, index_at + k * index_step);
            index += (index < 0 ? size : 0) - start;
            if (index >= 0 && index < m) sums[index] += *mp_floats(l->other->data, dtype, other + k * other_step, 1, &room);
        }
        if (stride == 1)
            mp_floats_done(l->table->data, dtype, at, m, sums);
        else
            for (int64_t k = 0; k < m; k++) mp_floats_done(l->table->data, dtype, at + k * stride, 1, &sums[k]);
    }
}

static void run_item(void *data, int64_t item)
{
    const lines_run *x = data;
    const mp_index_lines *l = x->l;
    const mp_array *indices = l->indices, *table = l->table, *other = l->other;
    int64_t block = item % x->per_side * LINES, rest = item / x->per_side, at[3] = {0}, side[3] = {0}, n = 1;
    int axis = l->axis;
    for (int d = indices->rank - 1; d >= 0; d--) {
        if (d == axis || d == x->side) continue;
        int64_t index = rest % indices->dims[d];
        rest /= indices->dims[d];
        at[0] += index * x->index_stride[d];
        at[1] += index * table->strides[d];
        at[2] += index * other->strides[d];
    }
    if (x->side >= 0) {
        n = indices->dims[x->side] - block < LINES ? indices->dims[x->side] - block : LINES;
        side[0] = x->index_stride[x->side];
        side[1] = table->strides[x->side];
        side[2] = other->strides[x->side];
        for (int k = 0; k < 3; k++) at[k] += block * side[k];
    }
    int64_t length = indices->dims[axis], along = x->index_stride[axis];
    bool wide = x->task == MEET && x->how == MP_MEET_ADD && table->dtype == MP_DTYPE_BFLOAT16 && length > 1;
    if (wide)
        for (int64_t k = 0; k < n; k++)
            add_line(x, length, at[0] + k * side[0], along, at[1] + k * side[1], at[2] + k * side[2], other->strides[axis]);
    else if (along == 1 || n == 1)
        for (int64_t k = 0; k < n; k++)
            walk(x, length, at[0] + k * side[0], along, at[1] + k * side[1], 0, at[2] + k * side[2], other->strides[axis]);
    else
        for (int64_t t = 0; t < length; t++)
            walk(x, n, at[0] + t * along, side[0], at[1], side[1], at[2] + t * other->strides[axis], side[2]);
}

static void run_lines(lines_run *x)
{
    const mp_array *indices = x->l->indices;
    int64_t n = mp_array_elements(indices), stride = 1, length = indices->dims[x->l->axis];
    if (!n) return;
    x->side = -1;
    x->per_side = 1;
    for (int d = indices->rank - 1; d >= 0; d--) {
        x->index_stride[d] = stride;
        stride *= indices->dims[d];
        if (x->side < 0 && d != x->l->axis && indices->dims[d] > 1) x->side = d;
    }
    int64_t lines = x->side >= 0 ? indices->dims[x->side] : 1;
    x->per_side = (lines + LINES - 1) / LINES;
    mp_parallel(n / length / lines * x->per_side, (lines < LINES ? lines : LINES) * length, run_item, x);
}

void mp_cpu_lines_gather(const mp_index_lines *lines)
{
    lines_run x = {.l = lines, .task = GATHER};
    run_lines(&x);
}

void mp_cpu_lines_meet(const mp_index_lines *lines, mp_meeting how)
{
    lines_run x = {.l = lines, .task = MEET, .how = how};
    run_lines(&x);
}

void mp_cpu_lines_clear(const mp_index_lines *lines)
{
    lines_run x = {.l = lines, .task = CLEAR};
    run_lines(&x);
}

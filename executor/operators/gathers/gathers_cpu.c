/* gathers_cpu.c - operators that select or write elements by index (gathers.h, scatters.h), on the CPU: rows by a list of
 * entries (rows_cpu.h), and elements with their own indices along one axis. One thread processes a whole line along the axis,
 * from its beginning. */
#include <inttypes.h>
#include <string.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/copies/copies_cpu.h"
#include "executor/operators/gathers/gathers.h"
#include "executor/operators/gathers/rows_cpu.h"
#include "executor/operators/gathers/scatters.h"

/* ---- elements */

enum { LINES = 64 }; /* maximum number of adjacent lines (elements along the axis) that one work item processes */

typedef struct lines {
    const mp_array *table, *other, *indices;
    int axis;
    mp_index_reduction how;
    enum { PICK, REDUCE, CLEAR } task;
    int side; /* dimension along which the lines (elements along the axis) of an item are adjacent; -1: an item is one line */
    int64_t per_side; /* number of items along `side` */
    int64_t index_stride[MP_ARRAY_RANK];
} lines;

/* Picks, reduces or clears n elements, as the call requires: along one line, or one element of each of n adjacent lines. `step`
 * is the distance of these elements in the table if all indices are equal. */
static void walk(const lines *x, int64_t n, int64_t index_at, int64_t index_step, int64_t table, int64_t step, int64_t other,
                 int64_t other_step)
{
    /* local copies of the members of *x: the compiler cannot know that stores to the arrays do not change *x */
    const mp_array to = *x->table, indices = *x->indices;
    const int task = x->task, size = mp_dtype_bits(to.dtype) / 8;
    const mp_index_reduction how = x->how;
    void *const table_data = to.data, *const other_data = x->other->data;
    int64_t axis_size = to.dims[x->axis], axis_stride = to.strides[x->axis];
    for (int64_t k = 0; k < n; k++) {
        int64_t index = mp_index_at(&indices, index_at + k * index_step);
        int64_t at = table + k * step + (index < 0 ? index + axis_size : index) * axis_stride;
        if (task == PICK)
            mp_element_copy(other_data, other + k * other_step, table_data, at, size);
        else if (task == CLEAR)
            mp_element_copy(table_data, at, NULL, 0, size);
        else if (how == MP_INDEX_SET)
            mp_element_copy(table_data, at, other_data, other + k * other_step, size);
        else
            mp_cpu_reduce(how, to.dtype, 1, table_data, at, 1, other_data, other + k * other_step, 1);
    }
}

/* Adds a line (elements along the axis) of BFLOAT16 values to the line of the table that the indices select. Sums are computed
 * in float, MP_BLOCK elements at a time, and rounded once. */
static void add_line(const lines *x, int64_t n, int64_t index_at, int64_t index_step, int64_t table, int64_t other,
                     int64_t other_step)
{
    const mp_dtype dtype = MP_DTYPE_BFLOAT16;
    int64_t size = x->table->dims[x->axis], stride = x->table->strides[x->axis];
    float sums[MP_BLOCK];
    for (int64_t start = 0; start < size; start += MP_BLOCK) {
        int64_t m = size - start < MP_BLOCK ? size - start : MP_BLOCK, at = table + start * stride;
        mp_floats_apart(x->table->data, dtype, at, stride, m, sums);
        for (int64_t k = 0; k < n; k++) {
            int64_t index = mp_index_at(x->indices, index_at + k * index_step);
            index += (index < 0 ? size : 0) - start;
            if (index >= 0 && index < m) sums[index] += mp_load_float(x->other->data, dtype, other + k * other_step);
        }
        mp_floats_put_apart(x->table->data, dtype, at, stride, m, sums);
    }
}

static void run_item(void *data, int64_t item)
{
    const lines *x = data;
    const mp_array *indices = x->indices, *table = x->table, *other = x->other;
    int64_t block = item % x->per_side * LINES, rest = item / x->per_side, at[3] = {0}, side[3] = {0}, n = 1;
    int axis = x->axis;
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
    bool wide = x->task == REDUCE && x->how == MP_INDEX_ADD && table->dtype == MP_DTYPE_BFLOAT16 && length > 1;
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

static void run_lines(lines *x)
{
    const mp_array *indices = x->indices;
    int64_t n = mp_array_elements(indices), stride = 1, length = indices->dims[x->axis];
    if (!n) return;
    x->side = -1;
    x->per_side = 1;
    for (int d = indices->rank - 1; d >= 0; d--) {
        x->index_stride[d] = stride;
        stride *= indices->dims[d];
        if (x->side < 0 && d != x->axis && indices->dims[d] > 1) x->side = d;
    }
    int64_t lines = x->side >= 0 ? indices->dims[x->side] : 1;
    x->per_side = (lines + LINES - 1) / LINES;
    mp_parallel(n / length / lines * x->per_side, (lines < LINES ? lines : LINES) * length, run_item, x);
}

/* ---- the indexer */

static int64_t room(const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype)
{
    int64_t list = mp_rows_list_bytes(&plan->rows);
    (void)how, (void)dtype;
    if (!plan->by_rows) return 0;
    return plan->uses == MP_INDEX_PICKS ? list : plan->uses == (MP_INDEX_PICKS | MP_INDEX_REDUCES) ? 3 * list : 2 * list;
}

/* Returns the list of index entries, sorted by row. If the call also picks rows, a copy of the list is sorted, because picking
 * uses the unsorted list. */
static const uint64_t *sorted(mp_indexing *r)
{
    const mp_row_entries *rows = &r->read;
    uint64_t *list = r->room;
    if (r->sorted) return r->sorted;
    if (r->plan->uses == (MP_INDEX_PICKS | MP_INDEX_REDUCES)) {
        list += rows->n_entries;
        memcpy(list, r->room, (size_t)mp_rows_list_bytes(rows));
    }
    return r->sorted = mp_cpu_rows_sort(rows, list);
}

/* Lists the true elements of a condition as index entries. MP_INVALID: the number of true elements differs from the output's
 * number of rows. */
static mp_status read_condition(const mp_operands *x, const mp_row_entries *rows, uint64_t *list, mp_error *err)
{
    const mp_array *condition = &x->in[1];
    const uint8_t *truth = condition->data;
    int64_t n = mp_array_elements(condition), taken = 0;
    for (int64_t k = 0; k < n && k < rows->n_rows; k++) {
        if (!truth[k]) continue;
        if (taken < rows->n_entries) list[taken] = (uint64_t)k << 32 | (uint64_t)taken;
        taken++;
    }
    if (taken != rows->n_entries)
        return MP_FAIL(err, MP_INVALID, "%s ('%s'): the condition takes %" PRId64 " elements, but the shape has %" PRId64,
                       x->op->kind, x->op->name, taken, rows->n_entries);
    return MP_OK;
}

static mp_status read_indices(mp_indexing *r, mp_error *err)
{
    const mp_index_plan *p = r->plan;
    r->read = p->rows;
    if (p->by_condition) return read_condition(r->x, &p->rows, r->room, err);
    if (p->by_rows) return mp_cpu_rows_read(&p->rows, r->x, &r->indices, r->room, &r->read.n_entries, err);
    int64_t size = r->x->in[0].dims[p->axis], n = mp_array_elements(&r->indices);
    for (int64_t k = 0; k < n; k++) {
        int64_t index = mp_index_at(&r->indices, k);
        if (index < -size || index >= size)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): index %" PRId64 " is outside an axis of %" PRId64 " elements",
                           r->x->op->kind, r->x->op->name, index, size);
    }
    return MP_OK;
}

static void pick(const mp_indexing *r, const mp_array *table, const mp_array *other)
{
    lines x = {.table = table, .other = other, .indices = &r->indices, .axis = r->plan->axis, .task = PICK};
    if (r->read.ranks > 1) mp_cpu_array_zero(other);
    if (r->plan->by_rows)
        mp_cpu_rows_pick(&r->read, r->room, mp_dtype_bits(table->dtype) / 8, table->data, other->data);
    else
        run_lines(&x);
}

static void reduce(mp_indexing *r, mp_index_reduction how, const mp_array *table, const mp_array *other)
{
    lines x = {table, other, &r->indices, r->plan->axis, how, .task = REDUCE};
    if (r->plan->by_rows)
        mp_cpu_rows_reduce(&r->read, sorted(r), how, table->dtype, table->data, other->data);
    else
        run_lines(&x);
}

static void clear(mp_indexing *r, const mp_array *table)
{
    lines x = {.table = table, .other = &r->indices, .indices = &r->indices, .axis = r->plan->axis, .task = CLEAR};
    if (r->plan->by_rows)
        mp_cpu_rows_reduce(&r->read, sorted(r), MP_INDEX_SET, table->dtype, table->data, NULL);
    else
        run_lines(&x);
}

static mp_status done(mp_error *err)
{
    (void)err;
    return MP_OK;
}

MP_BODY_LOOP(mp_scatter_step, mp_scatter_step_item)

static const mp_indexer indexer = {
    room, read_indices, pick, reduce, clear, mp_cpu_array_copy, mp_cpu_array_zero, mp_scatter_step_item_loop, done, true};

MP_INDEX_KERNELS(MP_INDEX_KERNEL)

const mp_kernel mp_cpu_gathers[] = {MP_INDEX_ROWS{0}};

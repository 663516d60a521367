/* strided_copy_cpu.c - cuts a settled box into items for threads, planes or parts of one. */
#include "executor/operators/copies/strided_copy_cpu.h"

#include "executor/cpu/base/parallel.h"
#include "executor/operators/copies/strided_planes_cpu.h"

enum { ITEM = 1 << 14 }; /* elements that one thread copies at a time, roughly */

/* How a settled box is cut into items: stretches of planes, or stretches of rows and columns of one plane. */
typedef struct cut {
    const mp_box *box;
    const char *from;
    char *to;
    int size;
    mp_plane plane;                           /* whole */
    int64_t rows, columns;                    /* of one item */
    int64_t n_outer, n_rows, n_columns, span; /* planes; items per plane; planes per item */
} cut;

static cut cut_box(const mp_box *box, int size, const void *from, void *to)
{
    int last = box->rank - 1;
    cut x = {.box = box, .from = from, .to = to, .size = size, .n_outer = 1, .span = 1};
    x.plane = (mp_plane){box->dims[last - 1], box->dims[last],   box->from[last - 1],
                         box->from[last],     box->to[last - 1], box->to[last]};
    for (int d = 0; d < last - 1; d++) x.n_outer *= box->dims[d];
    x.columns = x.plane.columns < ITEM ? x.plane.columns : ITEM;
    x.rows = ITEM / x.columns;
    if (mp_plane_is_transposed(&x.plane)) x.rows = (x.rows + MP_PLANE_ROWS - 1) / MP_PLANE_ROWS * MP_PLANE_ROWS;
    if (x.rows > x.plane.rows) x.rows = x.plane.rows;
    x.n_rows = (x.plane.rows + x.rows - 1) / x.rows;
    x.n_columns = (x.plane.columns + x.columns - 1) / x.columns;
    if (x.n_rows * x.n_columns == 1 && x.rows * x.columns < ITEM) x.span = ITEM / (x.rows * x.columns);
    return x;
}

static void copy_item(void *data, int64_t item)
{
    const cut *x = data;
    const mp_box *box = x->box;
    int64_t column = item % x->n_columns * x->columns, row = item / x->n_columns % x->n_rows * x->rows;
    int64_t first = item / x->n_columns / x->n_rows * x->span, index[MP_BOX_RANK], rest = first;
    mp_plane part = x->plane;
    if (part.rows - row < x->rows)
        part.rows -= row;
    else
        part.rows = x->rows;
    if (part.columns - column < x->columns)
        part.columns -= column;
    else
        part.columns = x->columns;
    int64_t from = row * part.from_row + column * part.from_column, to = row * part.to_row + column * part.to_column;
    for (int d = box->rank - 3; d >= 0; d--) {
        index[d] = rest % box->dims[d];
        rest /= box->dims[d];
        from += index[d] * box->from[d];
        to += index[d] * box->to[d];
    }
    for (int64_t k = first; k < first + x->span && k < x->n_outer; k++) {
        mp_plane_copy(&part, x->size, x->from + from * x->size, x->to + to * x->size);
        for (int d = box->rank - 3; d >= 0; d--) {
            from += box->from[d];
            to += box->to[d];
            if (++index[d] < box->dims[d]) break;
            index[d] = 0;
            from -= box->dims[d] * box->from[d];
            to -= box->dims[d] * box->to[d];
        }
    }
}

void mp_box_copy(const mp_box *box, int size, const void *from, void *to)
{
    mp_box settled = *box;
    if (!mp_box_elements(box)) return;
    mp_box_settle(&settled);
    cut x = cut_box(&settled, size, from, to);
    int64_t n = (x.n_outer + x.span - 1) / x.span * x.n_rows * x.n_columns;
    mp_parallel(n, x.span * x.rows * x.columns, copy_item, &x);
}

void mp_box_copy_settled(const mp_box *box, int size, const void *from, void *to)
{
    if (!mp_box_elements(box)) return;
    cut x = cut_box(box, size, from, to);
    int64_t n = (x.n_outer + x.span - 1) / x.span * x.n_rows * x.n_columns;
    for (int64_t k = 0; k < n; k++) copy_item(&x, k);
}

void mp_cpu_array_copy(const mp_array *from, const mp_array *to)
{
    mp_box box = mp_box_of(from, to);
    if (from->data == to->data && mp_array_same_layout(from, to)) return;
    mp_box_copy(&box, mp_dtype_bits(to->dtype) / 8, from->data, to->data);
}

void mp_cpu_array_zero(const mp_array *a)
{
    static const uint64_t zero = 0;
    mp_box all = mp_box_of(NULL, a);
    mp_box_copy(&all, mp_dtype_bits(a->dtype) / 8, &zero, a->data);
}

/* copies_cpu.c - copies boxes on the CPU: splits a normalized box into items for threads. The two innermost dimensions of a box
 * form a plane; an item is several planes, or a part of one. Planes are copied in rows, in transposed tiles, or element by
 * element. */
#include "executor/operators/copies/copies_cpu.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/copies/copies.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

/* ---- planes */

/* True if a plane is copied in tiles, because reads and writes have different innermost dimensions. Tiles are fastest if the
 * number of rows is a multiple of PLANE_ROWS. */
enum { PLANE_ROWS = 32 };
static bool is_transposed(const mp_plane *p)
{
    return p->to_column == 1 && p->from_row == 1 && p->from_column != 1 && p->columns > 1;
}

enum { TILE = 8, SHORT = 8 /* sizes in elements */, LONG = 1024 /* bytes */ };

#ifdef __clang__
#define SHUFFLE(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, mask, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

/* Copies n bytes, n >= 16, between separate buffers. The last vector ends at the last byte and may overlap the previous vector.
 * Rows are often so short that a call of memcpy for each would take longer than the copy. */
static inline __attribute__((always_inline)) void copy_short(char *to, const char *from, int64_t n)
{
    enum { WIDE = 32, NARROW = 16 };
    if (n >= WIDE) {
        for (int64_t k = 0; k < n - WIDE; k += WIDE) memcpy(to + k, from + k, WIDE);
        memcpy(to + n - WIDE, from + n - WIDE, WIDE);
    } else {
        memcpy(to, from, NARROW);
        memcpy(to + n - NARROW, from + n - NARROW, NARROW);
    }
}

MP_VECTOR static void copy_short_rows(int64_t rows, int64_t n, const char *from, int64_t from_row, char *to, int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++) copy_short(to + r * to_row, from + r * from_row, n);
}

static void copy_rows(int64_t rows, int64_t n, const char *from, int64_t from_row, char *to, int64_t to_row)
{
    if (n >= 16 && n <= LONG)
        copy_short_rows(rows, n, from, from_row, to, to_row);
    else
        for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, (size_t)n);
}

/* Defines functions that copy a plane (the two innermost dimensions of a box) with elements of type T. A tile is transposed by
 * three rounds of a perfect shuffle: row i and row i + 4 are interleaved into rows 2 i and 2 i + 1. */
#define PLANES(T)                                                                                                         \
    typedef T vector_##T __attribute__((vector_size(TILE * sizeof(T))));                                                  \
    static inline __attribute__((always_inline)) void tile_##T(const T *from, int64_t from_column, T *to, int64_t to_row) \
    {                                                                                                                     \
        vector_##T v[TILE], w[TILE];                                                                                      \
        for (int i = 0; i < TILE; i++) memcpy(&v[i], from + i * from_column, sizeof v[i]);                                \
        for (int round = 0; round < 3; round++) {                                                                         \
            for (int i = 0; i < TILE / 2; i++) {                                                                          \
                w[2 * i] = SHUFFLE(v[i], v[i + TILE / 2], vector_##T, 0, 8, 1, 9, 2, 10, 3, 11);                          \
                w[2 * i + 1] = SHUFFLE(v[i], v[i + TILE / 2], vector_##T, 4, 12, 5, 13, 6, 14, 7, 15);                    \
            }                                                                                                             \
            for (int i = 0; i < TILE; i++) v[i] = w[i];                                                                   \
        }                                                                                                                 \
        for (int i = 0; i < TILE; i++) memcpy(to + i * to_row, &v[i], sizeof v[i]);                                       \
    }                                                                                                                     \
    /* Transposes a band of rows that is as wide as a cache line, so that each cache line is read once. */                \
    MP_VECTOR static void transpose_##T(const mp_plane *p, const T *from, T *to)                                          \
    {                                                                                                                     \
        const int64_t band = 64 / sizeof(T), rows = p->rows / TILE * TILE, columns = p->columns / TILE * TILE;            \
        for (int64_t r = 0; r < rows; r += band)                                                                          \
            for (int64_t c = 0; c < columns; c += TILE)                                                                   \
                for (int64_t s = r; s < r + band && s < rows; s += TILE)                                                  \
                    tile_##T(from + s + c * p->from_column, p->from_column, to + s * p->to_row + c, p->to_row);           \
        for (int64_t c = columns; c < p->columns; c++)                                                                    \
            for (int64_t r = 0; r < rows; r++) to[r * p->to_row + c] = from[r + c * p->from_column];                      \
        for (int64_t r = rows; r < p->rows; r++)                                                                          \
            for (int64_t c = 0; c < p->columns; c++) to[r * p->to_row + c] = from[r + c * p->from_column];                \
    }                                                                                                                     \
    MP_VECTOR static void repeat_##T(const mp_plane *p, const T *from, T *to)                                             \
    {                                                                                                                     \
        for (int64_t r = 0; r < p->rows; r++) {                                                                           \
            const T value = from[r * p->from_row];                                                                        \
            T *row = to + r * p->to_row;                                                                                  \
            for (int64_t c = 0; c < p->columns; c++) row[c] = value;                                                      \
        }                                                                                                                 \
    }                                                                                                                     \
    static void copy_one_by_one_##T(const mp_plane *p, const T *from, T *to)                                              \
    {                                                                                                                     \
        for (int64_t r = 0; r < p->rows; r++) {                                                                           \
            const T *read = from + r * p->from_row;                                                                       \
            T *write = to + r * p->to_row;                                                                                \
            for (int64_t c = 0; c < p->columns; c++) write[c * p->to_column] = read[c * p->from_column];                  \
        }                                                                                                                 \
    }                                                                                                                     \
    static void copy_##T(const mp_plane *p, const T *from, T *to)                                                         \
    {                                                                                                                     \
        if (p->to_column == 1 && p->from_column == 1 && p->columns >= SHORT)                                              \
            copy_rows(p->rows, p->columns *(int64_t)sizeof(T), (const char *)from, p->from_row *(int64_t)sizeof(T),       \
                      (char *)to, p->to_row *(int64_t)sizeof(T));                                                         \
        else if (is_transposed(p))                                                                                        \
            transpose_##T(p, from, to);                                                                                   \
        else if (p->to_column == 1 && p->from_column == 0)                                                                \
            repeat_##T(p, from, to);                                                                                      \
        else                                                                                                              \
            copy_one_by_one_##T(p, from, to);                                                                             \
    }

PLANES(uint8_t)
PLANES(uint16_t)
PLANES(uint32_t)
PLANES(uint64_t)

void mp_plane_copy(const mp_plane *plane, int size, const void *from, void *to)
{
    switch (size) {
    case 1:
        copy_uint8_t(plane, from, to);
        break;
    case 2:
        copy_uint16_t(plane, from, to);
        break;
    case 4:
        copy_uint32_t(plane, from, to);
        break;
    default:
        copy_uint64_t(plane, from, to);
    }
}

/* ---- boxes */

enum { ITEM = 1 << 14 }; /* approximate number of elements per work item */

/* The split of a normalized box into work items for threads. An item is several planes, or a block of rows and columns of one
 * plane. */
typedef struct cut {
    const mp_box *box;
    const char *from;
    char *to;
    int size;
    mp_plane plane;        /* a whole plane */
    int64_t rows, columns; /* number of rows and of columns of a plane that one work item copies */
    /* n_outer: number of planes; n_rows, n_columns: work items per plane; span: planes per work item */
    int64_t n_outer, n_rows, n_columns, span;
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
    if (is_transposed(&x.plane)) x.rows = (x.rows + PLANE_ROWS - 1) / PLANE_ROWS * PLANE_ROWS;
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

/* ---- the operators. */

MP_VECTOR static void add_rows(const double *parameters, int64_t n, const float *const *in, float *out)
{
    const float *a = in[0], *b = in[1];
    (void)parameters;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = a[k] + b[k];
}

static void add(const mp_array *from, const mp_array *to)
{
    mp_elementwise(add_rows, NULL, (const mp_array *const[]){to, from}, 2, to);
}

static void sum(const mp_array *from, const mp_array *to, bool add, void *workspace)
{
    (void)workspace;
    mp_cpu_sum_to(from, to, 1, add);
}

static mp_status done(mp_error *err)
{
    (void)err;
    return MP_OK;
}

/* A transposed addition of bfloat16 would convert elements one by one. Instead, backward copies the gradient to the workspace,
 * and mp_call_run adds the copy, which is much faster. */
static void plan(const mp_operands *x, const mp_copies *m, mp_call *call)
{
    call->adds = x->adds;
    for (size_t k = 0; k < m->n_parts; k++) {
        const mp_box *box = &m->parts[k].box;
        bool meets = box->rank == 0 || m->overlaps || mp_copies_repeats(&m->parts[k]);
        for (int d = 0; d < box->rank; d++) meets |= box->from[d] == box->to[d] && box->from[d] == 1;
        if (!meets && mp_operands_in(x, m->parts[k].in)->dtype == MP_DTYPE_BFLOAT16) call->adds &= ~MP_BIT(m->parts[k].in);
    }
}

/* A fill is a copy with reading strides of 0, so mp_box_copy also fills. */
static const mp_copier copier = {mp_box_copy, mp_box_copy, mp_cpu_array_zero, add, sum, done, plan};

MP_COPIES_PREPARE

const mp_kernel mp_cpu_copies[] = {MP_COPIES(MP_COPIES_ROW){0}};

/* lines.c - reads and writes lines, and runs a function over lines in parallel. The workspace has a slot per line in progress;
 * the number of a line decides its slot. */
#include "executor/cpu/base/lines.h"

#include "executor/kernel/element.h"

int64_t mp_line_at(const mp_lines *l, int64_t k)
{
    return mp_strided_offset(l->n_outer, l->outer, l->outer_at, k);
}

static int64_t element_at(const mp_lines *l, int64_t e)
{
    return mp_strided_offset(l->n_inner, l->inner, l->inner_at, e);
}

const float *mp_line_read_part(const mp_lines *l, const mp_array *a, int64_t k, int64_t first, int64_t n, float *room)
{
    int64_t at = mp_line_at(l, k);
    if (l->contiguous) return mp_floats(a->data, a->dtype, at + first, n, room);
    for (int64_t e = 0; e < n; e++) room[e] = mp_load_float(a->data, a->dtype, at + element_at(l, first + e));
    return room;
}

const float *mp_line_read(const mp_lines *l, const mp_array *a, int64_t k, float *room)
{
    if (l->contiguous && a->dtype == MP_DTYPE_FLOAT) return (const float *)a->data + mp_line_at(l, k);
    for (int64_t e = 0; e < l->length; e += MP_BLOCK)
        mp_line_read_part(l, a, k, e, mp_block_size(l->length, e / MP_BLOCK), room + e);
    return room;
}

void mp_line_write_part(const mp_lines *l, const mp_array *a, int64_t k, int64_t first, int64_t n, const float *values)
{
    int64_t at = mp_line_at(l, k);
    if (!l->contiguous)
        for (int64_t e = 0; e < n; e++) mp_store_float(a->data, a->dtype, at + element_at(l, first + e), values[e]);
    else
        mp_floats_put_apart(a->data, a->dtype, at + first, 1, n, values);
}

void mp_line_write(const mp_lines *l, const mp_array *a, int64_t k, const float *values)
{
    mp_line_write_part(l, a, k, 0, l->length, values);
}

typedef struct strand {
    int64_t n;
    void (*body)(void *data, int64_t k);
    void *data;
} strand;

static void run_strand(void *data, int64_t s)
{
    const strand *all = data;
    for (int64_t k = s; k < all->n; k += MP_LINES_AT_ONCE) all->body(all->data, k);
}

void mp_lines_run(const mp_lines *l, void (*body)(void *data, int64_t k), void *data)
{
    strand all = {l->n, body, data};
    int64_t n = l->n < MP_LINES_AT_ONCE ? l->n : MP_LINES_AT_ONCE;
    mp_parallel(n, n ? l->n / n * l->length : 0, run_strand, &all);
}

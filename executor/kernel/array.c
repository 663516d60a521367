/* array.c - strides of row-major and channels-last arrays, and comparisons of layouts. */
#include "executor/kernel/array.h"

#include <string.h>

#include "executor/kernel/element.h"

mp_array mp_array_plain(mp_dtype dtype, int rank, const int64_t *dims)
{
    mp_array a = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        a.dims[d] = dims[d];
        a.strides[d] = stride;
        stride *= dims[d];
    }
    return a;
}

mp_array mp_array_channels_last(mp_dtype dtype, int rank, const int64_t *dims)
{
    mp_array a = mp_array_plain(dtype, rank, dims);
    int64_t stride = dims[1];
    a.strides[1] = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (d == 1) continue;
        a.strides[d] = stride;
        stride *= dims[d];
    }
    return a;
}

mp_array mp_array_padded_rows(mp_dtype dtype, int rank, const int64_t *dims, int64_t padding)
{
    mp_array a = mp_array_plain(dtype, rank, dims);
    const int64_t row = dims[rank - 1];
    for (int d = 0; row && d < rank - 1; d++) a.strides[d] = a.strides[d] / row * (row + padding);
    a.padding = padding;
    return a;
}

static mp_array column_major(mp_dtype dtype, const int64_t *dims)
{
    mp_array a = mp_array_plain(dtype, 2, dims);
    a.strides[0] = 1;
    a.strides[1] = dims[0];
    return a;
}

mp_status mp_array_of(const mp_tensor *tensor, mp_dtype dtype, mp_array *out, mp_error *err)
{
    if (tensor->rank > MP_ARRAY_RANK)
        return MP_FAIL(err, MP_UNSUPPORTED, "'%s' has %d dimensions, but at most %d are supported", tensor->name, tensor->rank,
                       MP_ARRAY_RANK);
    const int64_t padding = mp_row_padding(tensor);
    *out = tensor->stored.layout == MP_LAYOUT_CHANNELS_LAST ? mp_array_channels_last(dtype, tensor->rank, tensor->dims)
           : padding                                        ? mp_array_padded_rows(dtype, tensor->rank, tensor->dims, padding)
                                                            : mp_array_plain(dtype, tensor->rank, tensor->dims);
    if (tensor->stored.layout == MP_LAYOUT_COLUMN_MAJOR) *out = column_major(dtype, tensor->dims);
    out->packed = tensor->stored.packed;
    return MP_OK;
}

int64_t mp_array_elements(const mp_array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

int64_t mp_array_stored_elements(const mp_array *a)
{
    const int64_t n = mp_array_elements(a);
    return a->padding && n ? n / a->dims[a->rank - 1] * (a->dims[a->rank - 1] + a->padding) : n;
}

int64_t mp_array_bytes(const mp_array *a)
{
    return (mp_array_stored_elements(a) * mp_dtype_bits(a->dtype) + 7) / 8;
}

bool mp_array_is_plain(const mp_array *a)
{
    int64_t stride = 1;
    if (a->packed) return false;
    for (int d = a->rank - 1; d >= 0; d--) {
        if (a->dims[d] != 1 && a->strides[d] != stride) return false;
        stride *= a->dims[d];
    }
    return true;
}

bool mp_array_same_layout(const mp_array *a, const mp_array *b)
{
    if (a->rank != b->rank || a->packed != b->packed || a->padding != b->padding) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d] || (a->dims[d] != 1 && a->strides[d] != b->strides[d])) return false;
    return true;
}

/* True if the array is row-major, with or without unused elements between rows. */
static bool has_rows(const mp_array *a)
{
    if (!a->padding || !a->rank) return mp_array_is_plain(a);
    const mp_array rows = mp_array_padded_rows(a->dtype, a->rank, a->dims, a->padding);
    return mp_array_same_layout(a, &rows);
}

bool mp_array_same_rows(const mp_array *a, const mp_array *b)
{
    const bool same = !a->padding || (a->rank && b->rank && a->dims[a->rank - 1] == b->dims[b->rank - 1]);
    return same && a->padding == b->padding && mp_array_elements(a) == mp_array_elements(b) && has_rows(a) && has_rows(b);
}

bool mp_array_write(const mp_array *to, const mp_value *value)
{
    mp_dtype dtype = to->dtype;
    void *data = to->data;
    for (int64_t k = 0; k < value->n; k++) {
        double real = value->is_real ? value->f[k] : (double)value->i[k];
        int64_t whole = value->is_real ? mp_whole_of(value->f[k]) : value->i[k];
        if (dtype == MP_DTYPE_FLOAT)
            ((float *)data)[k] = (float)real;
        else if (dtype == MP_DTYPE_DOUBLE)
            ((double *)data)[k] = real;
        else if ((mp_dtype_is_integer(dtype) || dtype == MP_DTYPE_BOOL) && mp_dtype_bits(dtype) >= 8)
            memcpy((char *)data + k * (mp_dtype_bits(dtype) / 8), &whole,
                   (size_t)mp_dtype_bits(dtype) /
                       8); /* on a little-endian machine the first bytes of an int64_t are the same integer in a smaller type */
        else
            return false;
    }
    return true;
}

int mp_array_by_stride(const mp_array *a, int order[MP_ARRAY_RANK])
{
    int n = 0;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != 1) order[n++] = d;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && a->strides[order[j - 1]] < a->strides[order[j]]; j--) {
            int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    return n;
}

/* triangles_cuda.cu - Trilu, one element to a thread. */
#include "executor/operators/copies/box.cuh"

#include "executor/operators/copies/triangles_cuda.h"

namespace
{

/* Matrices lie by strides, counted row-major with their outer dimensions in the box. */
struct place_in_triangle {
    mp_boxed outer;
    int64_t rows, columns, row_stride, column_stride;
    bool upper;
    int64_t k;
    const int64_t *there;
    /* Where element e lies, and whether it is kept. */
    MP_BODY bool find(int64_t e, int64_t *at) const
    {
        const int64_t c = e % columns, r = e / columns % rows;
        int64_t unused, edge = there ? *there : k;
        outer.find(e / columns / rows, &unused, at);
        *at += r * row_stride + c * column_stride;
        edge = edge > columns ? columns : edge < -rows ? -rows : edge; /* far outside all are the same */
        return upper ? c - r >= edge : c - r <= edge;
    }
};

template <class T> struct triangle_of {
    place_in_triangle place;
    const T *from;
    T *to;
    MP_BODY void operator()(int64_t e) const
    {
        int64_t at;
        const bool kept = place.find(e, &at);
        to[at] = kept ? from[at] : T{};
    }
};

struct triangle_added {
    place_in_triangle place;
    mp_dtype dtype;
    const void *from;
    void *to;
    MP_BODY void operator()(int64_t e) const
    {
        int64_t at;
        if (place.find(e, &at)) mp_store_any(to, dtype, at, mp_load_any(to, dtype, at) + mp_load_any(from, dtype, at));
    }
};

} // namespace

void mp_cuda_triangle(const mp_array *from, const mp_array *to, bool upper, int64_t k, const int64_t *there, bool add)
{
    const int64_t n = mp_array_elements(to);
    const int last = to->rank - 1;
    mp_box outer = {};
    for (int d = 0; d < last - 1; d++) mp_box_put(&outer, to->dims[d], to->strides[d], to->strides[d]);
    const place_in_triangle place = {
        mp_boxed(&outer), to->dims[last - 1], to->dims[last], to->strides[last - 1], to->strides[last], upper, k, there};
    if (add)
        mp_each(n, triangle_added{place, to->dtype, from->data, to->data});
    else
        MP_BY_SIZE(mp_dtype_bits(to->dtype) / 8, (mp_each(n, triangle_of<T>{place, (const T *)from->data, (T *)to->data})));
}

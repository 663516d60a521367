/* boxes_cuda.cu - strided copies. If reads and writes of a box have different innermost dimensions, the box is copied in
 * square tiles through shared memory. All other boxes are copied with one element per thread. Elements are merged to up to 16
 * bytes if sizes, strides and addresses permit it. */

#include "executor/cuda/grid/grid.cuh"
#include "executor/cuda/grid/vectors.cuh"
#include "executor/operators/copies/box.cuh"

extern "C" {
#include "executor/operators/copies/boxes_cuda.h"
}

namespace
{

template <class T> struct copy_of {
    mp_boxed box;
    const T *from;
    T *to;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t from_at, to_at;
        box.find(k, &from_at, &to_at);
        to[to_at] = from[from_at];
    }
};

template <class T> struct fill_of {
    mp_boxed box;
    T value;
    T *to;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t from_at, to_at;
        box.find(k, &from_at, &to_at);
        to[to_at] = value;
    }
};

struct add_of {
    mp_boxed box;
    mp_dtype dtype;
    const void *from;
    void *to;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t from_at, to_at;
        box.find(k, &from_at, &to_at);
        mp_store_any(to, dtype, to_at, mp_load_any(to, dtype, to_at) + mp_load_any(from, dtype, from_at));
    }
};

template <mp_dtype T> struct add_vectors_of {
    enum { W = mp_width<T> };
    int64_t n;
    const void *from;
    void *to;
    MP_BODY void operator()(int64_t v) const
    {
        const int size = mp_vector_size<W>(n, v);
        float x[W], y[W];
        mp_load_vector(from, T, v, size, x);
        mp_load_vector(to, T, v, size, y);
        MP_UNROLL
        for (int e = 0; e < W; e++) y[e] += x[e];
        mp_store_vector(to, T, v, size, y);
    }
};

/* Transposes from[r + c * from_column] to to[r * to_row + c]: reads are contiguous in r, writes in c. One tile per thread
 * block. */
template <class T> struct transposed_of {
    enum { PHASES = 2, SIDE = sizeof(T) <= 2 ? 64 : 32, STEP = MP_GRID_THREADS / SIDE };
    struct room {
        T tile[SIDE][SIDE + 1];
    };
    mp_boxed outer;
    int64_t rows, columns, from_column, to_row, row_tiles, column_tiles;
    const T *from;
    T *to;
    MP_BODY void operator()(int phase, int64_t block, int thread, room &shared) const
    {
        int64_t from_at, to_at;
        const int64_t column = block % column_tiles * SIDE, row = block / column_tiles % row_tiles * SIDE;
        const int along = thread % SIDE, across = thread / SIDE;
        outer.find(block / column_tiles / row_tiles, &from_at, &to_at);
        if (phase == 0) {
            for (int k = across; k < SIDE; k += STEP)
                if (row + along < rows && column + k < columns)
                    shared.tile[k][along] = from[from_at + row + along + (column + k) * from_column];
        } else {
            for (int k = across; k < SIDE; k += STEP)
                if (row + k < rows && column + along < columns)
                    to[to_at + (row + k) * to_row + column + along] = shared.tile[along][k];
        }
    }
};

/* True if a normalized box is copied in tiles: its innermost dimension for reads differs from its innermost dimension for
 * writes, and both are longer than FEW. */
static bool is_transposed(const mp_box *box)
{
    enum { FEW = 4 };
    const int last = box->rank - 1;
    return box->to[last] == 1 && box->from[last - 1] == 1 && box->from[last] != 1 && box->dims[last] > FEW &&
           box->dims[last - 1] > FEW;
}

} // namespace

bool mp_cuda_box_is_transposed(const mp_box *box)
{
    mp_box settled = *box;
    mp_box_settle(&settled);
    return is_transposed(&settled);
}

namespace
{

template <class T> static void transpose(const mp_box *box, const void *from, void *to)
{
    const int last = box->rank - 1;
    const int64_t side = transposed_of<T>::SIDE;
    mp_box outer = *box;
    outer.rank = last - 1;
    const int64_t rows = box->dims[last - 1], columns = box->dims[last];
    const transposed_of<T> f = {mp_boxed(&outer),
                                rows,
                                columns,
                                box->from[last],
                                box->to[last - 1],
                                (rows + side - 1) / side,
                                (columns + side - 1) / side,
                                (const T *)from,
                                (T *)to};
    mp_each_block(mp_box_elements(&outer) * f.row_tiles * f.column_tiles, f);
}

} // namespace

void mp_cuda_box_copy(const mp_box *box, int size, const void *from, void *to)
{
    mp_box settled = *box;
    if (!mp_box_elements(box)) return;
    mp_box_settle(&settled);
    if (is_transposed(&settled)) {
        MP_BY_SIZE(size, transpose<T>(&settled, from, to));
        return;
    }
    size = mp_box_widen(&settled, size, from, to);
    const mp_boxed boxed(&settled);
    MP_BY_SIZE(size, (mp_each(boxed.n, copy_of<T>{boxed, (const T *)from, (T *)to})));
}

void mp_cuda_box_fill(const mp_box *box, int size, const void *value, void *to)
{
    unsigned char bytes[sizeof(mp_wide)];
    mp_box settled = *box;
    if (!mp_box_elements(box)) return;
    for (int d = 0; d < settled.rank; d++) settled.from[d] = 0;
    for (int k = 0; k < (int)sizeof bytes; k += size) memcpy(bytes + k, value, (size_t)size);
    mp_box_settle(&settled);
    size = mp_box_widen(&settled, size, NULL, to);
    const mp_boxed boxed(&settled);
    MP_BY_SIZE(size, {
        T pattern;
        memcpy(&pattern, bytes, sizeof pattern);
        mp_each(boxed.n, fill_of<T>{boxed, pattern, (T *)to});
    });
}

void mp_cuda_box_add(const mp_box *box, mp_dtype dtype, const void *from, void *to)
{
    mp_box settled = *box;
    if (!mp_box_elements(box)) return;
    mp_box_settle(&settled);
    const mp_boxed boxed(&settled);
    const int last = settled.rank - 1;
    const bool one_run = settled.dims[last] == boxed.n && settled.from[last] == 1 && settled.to[last] == 1;
    if (one_run && mp_takes_vectors(from, dtype) && mp_takes_vectors(to, dtype))
        MP_BY_DTYPE(dtype, mp_each(mp_vectors<mp_width<T>>(boxed.n), add_vectors_of<T>{boxed.n, from, to}));
    else
        mp_each(boxed.n, add_of{boxed, dtype, from, to});
}

void mp_cuda_array_copy(const mp_array *from, const mp_array *to)
{
    if (from->data == to->data && mp_array_same_layout(from, to)) return;
    const mp_box box = mp_box_of(from, to);
    mp_cuda_box_copy(&box, mp_dtype_bits(to->dtype) / 8, from->data, to->data);
}

void mp_cuda_array_zero(const mp_array *to)
{
    const uint64_t zero = 0;
    const mp_box box = mp_box_of(to, to);
    mp_cuda_box_fill(&box, mp_dtype_bits(to->dtype) / 8, &zero, to->data);
}

/* ---- copies of host bytes as kernel parameters; search for the last byte with a different value. */

namespace
{

enum { CARGO = 2048 };

struct put_of {
    uint8_t *to;
    int64_t n;
    uint32_t words[CARGO / 4];
    MP_BODY void operator()(int64_t k) const
    {
        const uint32_t word = words[k];
        for (int b = 0; b < 4; b++)
            if (4 * k + b < n)
                to[4 * k + b] = (uint8_t)(word >> 8 * b); /* the host packed the bytes of each word in little-endian order */
    }
};

} // namespace

void mp_cuda_put(const void *from, int64_t n, void *to)
{
    for (int64_t at = 0; at < n; at += CARGO) {
        put_of f = {(uint8_t *)to + at, n - at < CARGO ? n - at : (int64_t)CARGO, {0}};
        memcpy(f.words, (const char *)from + at, (size_t)f.n);
        mp_each((f.n + 3) / 4, f);
    }
}

namespace
{

/* Finds, for each stretch of bytes, the position after the last byte that differs from `byte`. */
struct others_of {
    struct value {
        int64_t end;
    };
    enum { PHASES = 1 };
    const unsigned char *memory;
    unsigned char byte;
    int64_t bytes, *stretches;
    MP_BODY value none(int) const { return value{0}; }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t k = row * MP_CUDA_STRETCH + column;
        return value{k < bytes && memory[k] != byte ? column + 1 : 0};
    }
    MP_BODY value join(int, value a, value b) const { return a.end > b.end ? a : b; }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const { stretches[row] = totals[0].end; }
};

} // namespace

void mp_cuda_last_others(const unsigned char *memory, unsigned char byte, int64_t bytes, int64_t *stretches)
{
    const others_of f = {memory, byte, bytes, stretches};
    mp_rows((bytes + MP_CUDA_STRETCH - 1) / MP_CUDA_STRETCH, bytes < MP_CUDA_STRETCH ? bytes : (int64_t)MP_CUDA_STRETCH, f);
}

/* strided_planes_cpu.c - copying one plane of elements: rows, transposed tiles, or one by one. */
#include "executor/operators/copies/strided_planes_cpu.h"

#include <string.h>

#include "executor/cpu/base/parallel.h"

enum { TILE = 8, SHORT = 8 /* elements */, LONG = 1024 /* bytes */ };

#ifdef __clang__
#define SHUFFLE(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, mask, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

/* n bytes, n >= 16, of places that do not overlap: what is left behind the last whole vector is copied with it once more, up to
 * its end. Rows are often so short that a call for each would cost more than the copying. */
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

/* For each element size: the functions below over elements of type T. Rows of a tile go in and columns come out by three rounds
 * of a perfect shuffle: row i and row i + 4 are interleaved into rows 2 i and 2 i + 1. */
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
    /* A band of rows is as wide as a cache line of what is read, so that each line is read once. */                      \
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
        else if (mp_plane_is_transposed(p))                                                                               \
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

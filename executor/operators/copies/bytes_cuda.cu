/* bytes_cuda.cu - bytes as parameters of kernels; where the last one that differs is. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/operators/copies/bytes_cuda.h"

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
            if (4 * k + b < n) to[4 * k + b] = (uint8_t)(word >> 8 * b); /* little-endian */
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

/* Per stretch, one after the last byte that is another. */
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

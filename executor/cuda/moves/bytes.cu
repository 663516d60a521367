/* put.cu - bytes as parameters of kernels. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/moves/bytes.h"

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

void mp_cuda_put(const void *from, int64_t n, void *to)
{
    for (int64_t at = 0; at < n; at += CARGO) {
        put_of f = {(uint8_t *)to + at, n - at < CARGO ? n - at : (int64_t)CARGO, {0}};
        memcpy(f.words, (const char *)from + at, (size_t)f.n);
        mp_each((f.n + 3) / 4, f);
    }
}

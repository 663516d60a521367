/* tensor_cores.cuh - products of small matrices on tensor cores, and the tiles in shared memory that they read.
 *
 * A warp multiplies A (16 x DEPTH) and B (DEPTH x 8) and adds the product to C (16 x 8). PTX defines how the registers of the
 * warp hold the matrices: mma.m16n8k16 for bfloat16, mma.m16n8k8 for TF32. With g = lane / 4 and t = lane % 4, a lane holds
 * C[g][2t], C[g][2t + 1], C[g + 8][2t] and C[g + 8][2t + 1].
 *
 * The order of a product's terms does not matter. The elements of C in a lane can therefore be the lane's elements of A in the
 * next product (mp_fragment_of_sums). B is then read in the matching order (mp_fragment_down). No shuffles are needed.
 *
 * On the host, the twin multiplies with the same layout and truncates the sum of a product to float, as tensor cores do. GPUs
 * before compute capability 8.0 multiply with shuffles. */
#pragma once

#include "executor/cuda/grid/blocks.cuh"
#include "executor/cuda/grid/vectors.cuh"

/* The number format of a product. HALVES: bfloat16. TF32: floats, rounded to 10 bits of mantissa. FLOATS: each float x is the
 * sum of two TF32 numbers, x = part + rest. Three TF32 products give part * part + part * rest + rest * part; rest * rest is
 * omitted. Their sum is added to C in float. The rounding error is that of products in float. An infinite operand gives a
 * NaN. */
enum mp_numbers { MP_HALVES, MP_TF32, MP_FLOATS };

template <mp_numbers N> struct mp_format {
    typedef float element;
    enum { DEPTH = 8, WIDTH = 4 }; /* WIDTH: number of elements in 16 bytes */
};
template <> struct mp_format<MP_HALVES> {
    typedef uint16_t element;
    enum { DEPTH = 16, WIDTH = 8 };
};

/* The 32-bit words of A (4 words) or of B (2 words) that a lane holds. */
template <mp_numbers N, int WORDS> struct mp_fragment {
    uint32_t x[WORDS];
    MP_BODY void set(int k, uint32_t bits) { x[k] = bits; }
};

MP_BODY uint32_t mp_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rounds to TF32: to the nearest number with 10 bits of mantissa. */
MP_BODY float mp_to_tf32(float value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return mp_bits_as_float(bits);
#else
    return value == value ? mp_bits_as_float((mp_float_bits(value) + 0x1000) & 0xffffe000) : value;
#endif
}

template <int WORDS> struct mp_fragment<MP_FLOATS, WORDS> {
    uint32_t x[WORDS], rest[WORDS];
    MP_BODY void set(int k, uint32_t bits)
    {
        const float value = mp_bits_as_float(bits), first = mp_to_tf32(value);
        x[k] = mp_float_bits(first);
        rest[k] = mp_float_bits(value - first);
    }
};

/* ---- tiles in shared memory. Rows are padded by 16 bytes, so that the reads below have no bank conflicts. */

template <mp_numbers N, int R, int C> struct mp_number_tile {
    typedef typename mp_format<N>::element element;
    enum { ROWS = R, COLUMNS = C, WIDTH = mp_format<N>::WIDTH };
    alignas(16) element at[R][C + WIDTH];
    MP_BODY uint32_t word(int row, int column) const
    {
        uint32_t bits;
        memcpy(&bits, &at[row][column], sizeof bits);
        return bits;
    }
};

/* mp_fragment_of_rows reads A from the tile; (row, column) is A's first element. mp_fragment_across reads B; the columns of B
 * are rows of the tile, from (row, column) on. */
template <mp_numbers N, class TILE>
MP_BODY void mp_fragment_of_rows(const TILE &tile, int row, int column, int lane, mp_fragment<N, 4> &a)
{
    enum { WORD = N == MP_HALVES ? 2 : 1, HALF = mp_format<N>::DEPTH / 2 };
    const int g = lane / 4, t = lane % 4 * WORD;
    a.set(0, tile.word(row + g, column + t));
    a.set(1, tile.word(row + g + 8, column + t));
    a.set(2, tile.word(row + g, column + t + HALF));
    a.set(3, tile.word(row + g + 8, column + t + HALF));
}
template <mp_numbers N, class TILE>
MP_BODY void mp_fragment_across(const TILE &tile, int row, int column, int lane, mp_fragment<N, 2> &b)
{
    enum { WORD = N == MP_HALVES ? 2 : 1, HALF = mp_format<N>::DEPTH / 2 };
    b.set(0, tile.word(row + lane / 4, column + lane % 4 * WORD));
    b.set(1, tile.word(row + lane / 4, column + lane % 4 * WORD + HALF));
}

/* Reads B from the tile; the rows of B are rows of the tile, from (row, column) on. In TF32 and FLOATS, B's rows are in the
 * order of mp_fragment_of_sums. */
template <mp_numbers N, class TILE>
MP_BODY void mp_fragment_down(const TILE &tile, int row, int column, int lane, mp_fragment<N, 2> &b)
{
    const int g = lane / 4, t = 2 * (lane % 4);
    if constexpr (N == MP_HALVES) {
#ifdef __CUDA_ARCH__
        const uint32_t from = (uint32_t)__cvta_generic_to_shared(&tile.at[row + lane % 16][column]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(b.x[0]), "=r"(b.x[1]) : "r"(from));
        (void)g, (void)t;
#else
        for (int k = 0; k < 2; k++)
            b.x[k] = tile.at[row + 8 * k + t][column + g] | (uint32_t)tile.at[row + 8 * k + t + 1][column + g] << 16;
#endif
    } else {
        b.set(0, tile.word(row + t, column + g));
        b.set(1, tile.word(row + t + 1, column + g));
    }
}

/* Makes A from the elements of a C that a lane holds. c[j] holds the elements of columns [8 j, 8 j + 8) of C. */
template <mp_numbers N> MP_BODY void mp_fragment_of_sums(const float (*c)[4], mp_fragment<N, 4> &a)
{
    if constexpr (N == MP_HALVES) {
        MP_UNROLL
        for (int k = 0; k < 4; k++) a.x[k] = mp_pair_of_halves(c[k / 2][k % 2 * 2], c[k / 2][k % 2 * 2 + 1]);
    } else {
        MP_UNROLL
        for (int k = 0; k < 4; k++) {
            const float value = c[0][k % 2 * 2 + k / 2];
            a.set(k, mp_float_bits(N == MP_TF32 ? mp_to_tf32(value) : value));
        }
    }
}

/* ---- products. mp_tensor_multiply(b, c, a, bs) multiplies in every warp of a block. c(own), a(own) and bs(own) return the
 * lane's elements of C and its parts of A and B. */

#ifdef MP_CUDA_TWIN

/* Element e of a lane's word of A or B. `term`: the position of this element along DEPTH. */
template <mp_numbers N> struct mp_unpacked {
    enum { DEPTH = mp_format<N>::DEPTH, EACH = N == MP_HALVES ? 2 : 1 };
    static float value(uint32_t word, int e)
    {
        if (N == MP_HALVES) return mp_bits_as_float(e ? word & 0xffff0000 : word << 16);
        return mp_bits_as_float(word & 0xffffe000);
    }
    static int term(int lane, int half, int e) { return lane % 4 * EACH + e + half * DEPTH / 2; }
};

static inline float mp_truncated(double x)
{
    const float nearest = (float)x;
    return fabs((double)nearest) > fabs(x) && std::isfinite(nearest) ? nextafterf(nearest, 0) : nearest;
}

template <mp_numbers N, class LANE> static void mp_tensor_words(float (*c)[4], const LANE &words)
{
    typedef mp_unpacked<N> U;
    double a[16][U::DEPTH], b[U::DEPTH][8];
    for (int lane = 0; lane < MP_WARP; lane++) {
        const uint32_t *of_a, *of_b;
        words(lane, &of_a, &of_b);
        for (int e = 0; e < U::EACH; e++) {
            for (int k = 0; k < 4; k++) a[lane / 4 + k % 2 * 8][U::term(lane, k / 2, e)] = U::value(of_a[k], e);
            for (int k = 0; k < 2; k++) b[U::term(lane, k, e)][lane / 4] = U::value(of_b[k], e);
        }
    }
    for (int row = 0; row < 16; row++) {
        double sums[8] = {0};
        for (int k = 0; k < U::DEPTH; k++)
            for (int n = 0; n < 8; n++) sums[n] += a[row][k] * b[k][n];
        for (int n = 0; n < 8; n++) {
            float *to = &c[row % 8 * 4 + n / 2][row / 8 * 2 + n % 2];
            *to = mp_truncated(*to + sums[n]);
        }
    }
}

template <mp_numbers N, class BLOCK, class C, class A, class B>
static void mp_tensor_multiply(BLOCK &block, const C &c, const A &a, const B &b)
{
    for (auto *warp = block.own; warp < block.own + sizeof block.own / sizeof *block.own; warp += MP_WARP) {
        float sums[MP_WARP][4];
        for (int lane = 0; lane < MP_WARP; lane++)
            for (int k = 0; k < 4; k++) sums[lane][k] = N == MP_FLOATS ? 0 : c(warp[lane])[k];
        if constexpr (N == MP_FLOATS) {
            mp_tensor_words<N>(sums, [&](int l, auto x, auto y) { *x = a(warp[l]).rest, *y = b(warp[l]).x; });
            mp_tensor_words<N>(sums, [&](int l, auto x, auto y) { *x = a(warp[l]).x, *y = b(warp[l]).rest; });
        }
        mp_tensor_words<N>(sums, [&](int l, auto x, auto y) { *x = a(warp[l]).x, *y = b(warp[l]).x; });
        for (int lane = 0; lane < MP_WARP; lane++)
            for (int k = 0; k < 4; k++) c(warp[lane])[k] = N == MP_FLOATS ? c(warp[lane])[k] + sums[lane][k] : sums[lane][k];
    }
}

/* Replaces x(own)[k] by the largest value, or the sum, over the four lanes that hold the same rows of C. */
template <bool IS_SUM, class BLOCK, class X> static void mp_join_columns(BLOCK &block, const X &x)
{
    enum { THREADS = sizeof block.own / sizeof *block.own };
    for (int step = 1; step < 4; step *= 2)
        for (int k = 0; k < 2; k++) {
            float before[THREADS];
            for (int t = 0; t < THREADS; t++) before[t] = x(block.own[t])[k];
            for (int t = 0; t < THREADS; t++)
                x(block.own[t])[k] = IS_SUM ? before[t] + before[t ^ step] : fmaxf(before[t], before[t ^ step]);
        }
}

#else

#if __CUDA_ARCH__ >= 800
template <mp_numbers N>
static __device__ __forceinline__ void mp_tensor_words(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (N == MP_HALVES)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
/* Not inlined: the compiler would need more than 20 minutes for the hundreds of copies of these loops in one kernel. */
template <mp_numbers N>
static __device__ __noinline__ void mp_tensor_words(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    const int lane = (int)(threadIdx.x % MP_WARP), row = lane / 4 * 4, column = lane % 4 * 8;
#pragma unroll 1
    for (int from = 0; from < 4; from++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t words[4] = {
                __shfl_sync(0xffffffff, a[2 * half], row + from), __shfl_sync(0xffffffff, a[2 * half + 1], row + from),
                __shfl_sync(0xffffffff, b[half], column + from), __shfl_sync(0xffffffff, b[half], column + 4 + from)};
            if (N == MP_HALVES) {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    c[k] += mp_bits_as_float(words[k / 2] << 16) * mp_bits_as_float(words[2 + k % 2] << 16) +
                            mp_bits_as_float(words[k / 2] & 0xffff0000) * mp_bits_as_float(words[2 + k % 2] & 0xffff0000);
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++) c[k] += mp_bits_as_float(words[k / 2]) * mp_bits_as_float(words[2 + k % 2]);
            }
        }
    }
}
#endif

template <mp_numbers N, class BLOCK, class C, class A, class B>
static __device__ __forceinline__ void mp_tensor_multiply(BLOCK &block, const C &c, const A &a, const B &b)
{
    if constexpr (N == MP_FLOATS) {
        float sums[4] = {0, 0, 0, 0};
        mp_tensor_words<N>(sums, a(block.own).rest, b(block.own).x);
        mp_tensor_words<N>(sums, a(block.own).x, b(block.own).rest);
        mp_tensor_words<N>(sums, a(block.own).x, b(block.own).x);
#pragma unroll
        for (int k = 0; k < 4; k++) c(block.own)[k] += sums[k];
    } else {
        mp_tensor_words<N>(c(block.own), a(block.own).x, b(block.own).x);
    }
}

template <bool IS_SUM, class BLOCK, class X> static __device__ __forceinline__ void mp_join_columns(BLOCK &block, const X &x)
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            float &own = x(block.own)[k];
            const float other = __shfl_xor_sync(0xffffffff, own, step);
            own = IS_SUM ? own + other : fmaxf(own, other);
        }
}

#endif

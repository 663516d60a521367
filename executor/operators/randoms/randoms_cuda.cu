/* randoms_cuda.cu - dropout and random numbers, drawn as on the CPU: by (seed, step, operator, element); one block of
 * words is four elements of a dropout. */
#include "executor/cuda/grid/vectors.cuh"

#include "executor/cuda/device/step.h"
#include "executor/kernel/philox.h"
#include "executor/operators/randoms/randoms_cuda.h"

namespace
{

/* What a mask says of a vector's elements, which are kept. */
template <int W> struct alignas(W) kept_bytes {
    uint8_t x[W];
};

template <int W> static MP_BODY void store_kept(uint8_t *mask, int64_t v, int size, const kept_bytes<W> &kept)
{
    if (!mask) return;
    if (size == W) {
        ((kept_bytes<W> *)mask)[v] = kept;
    } else {
        MP_UNROLL
        for (int e = 0; e < W; e++)
            if (e < size) mask[v * W + e] = kept.x[e];
    }
}

template <mp_dtype T> struct drops_of {
    enum { W = mp_width<T>, QUAD = 4 };
    const mp_cuda_pass *pass;
    uint32_t op;
    float ratio, factor;
    int64_t n;
    const void *from;
    void *to;
    const uint8_t *mask;
    uint8_t *keeps, *given;
    MP_BODY void operator()(int64_t v) const
    {
        const int size = mp_vector_size<W>(n, v);
        float x[W];
        kept_bytes<W> kept;
        mp_load_vector(from, T, v, size, x);
        if (mask && size == W) {
            kept = ((const kept_bytes<W> *)mask)[v];
        } else if (mask) {
            MP_UNROLL
            for (int e = 0; e < W; e++) kept.x[e] = e < size ? mask[v * W + e] : 0;
        } else {
            MP_UNROLL
            for (int q = 0; q < W / QUAD; q++) {
                const mp_philox_block words = mp_random_quad(pass->seed, pass->step, op, (uint64_t)(v * (W / QUAD) + q));
                MP_UNROLL
                for (int e = 0; e < QUAD; e++) kept.x[q * QUAD + e] = mp_uniform_of(words.word[e]) >= ratio;
            }
        }
        MP_UNROLL
        for (int e = 0; e < W; e++) x[e] = kept.x[e] ? x[e] * factor : 0;
        store_kept(keeps, v, size, kept);
        store_kept(given, v, size, kept);
        mp_store_vector(to, T, v, size, x);
    }
};

template <mp_dtype T>
static void drop(const mp_dropout *dropout, const mp_cuda_pass *pass, uint32_t op, const mp_array *from, const mp_array *to,
                 const uint8_t *mask, uint8_t *keeps, uint8_t *given)
{
    const drops_of<T> f = {pass, op,    dropout->ratio, mp_dropout_factor(dropout->ratio), dropout->n, from->data, to->data,
                           mask, keeps, given};
    mp_each(mp_vectors<mp_width<T>>(dropout->n), f);
}

struct draws_of {
    mp_random_source source;
    const mp_cuda_pass *pass;
    uint32_t op;
    const void *probabilities; /* NULL: none */
    void *to;
    mp_dtype probability_dtype, dtype;
    MP_BODY void operator()(int64_t k) const
    {
        const double probability = probabilities ? mp_load_real(probabilities, probability_dtype, k) : 0;
        mp_store_real(to, dtype, k, mp_random_value(&source, pass->seed, pass->step, op, (uint64_t)k, probability));
    }
};

} // namespace

void mp_cuda_drop(const mp_dropout *dropout, const mp_run *run, uint32_t op, const mp_array *from, const mp_array *to,
                  const uint8_t *mask, uint8_t *keeps, uint8_t *given)
{
    MP_BY_DTYPE(from->dtype, drop<T>(dropout, mp_cuda_pass_of(run), op, from, to, mask, keeps, given));
}

void mp_cuda_draw(const mp_random_source *source, const mp_run *run, uint32_t op, const mp_array *probabilities,
                  const mp_array *to)
{
    const bool reads = source->distribution == MP_BERNOULLI;
    mp_each(source->n, draws_of{*source, mp_cuda_pass_of(run), op, reads ? probabilities->data : NULL, to->data,
                                reads ? probabilities->dtype : MP_DTYPE_FLOAT, to->dtype});
}

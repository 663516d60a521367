/* randoms.cu - dropout and random numbers, drawn as on the CPU: by (seed, step, operator, element); dropout
 * makes four elements from one block of words. */
#include "executor/cuda/grid/grid.cuh"

#include "executor/cuda/device/step.h"
#include "executor/cuda/elementwise/randoms.h"
#include "executor/kernel/philox.h"

namespace
{

struct drops_of {
    const mp_cuda_pass *pass;
    uint32_t op;
    float ratio, factor;
    int64_t n;
    const void *from;
    void *to;
    mp_dtype dtype;
    const uint8_t *mask;
    uint8_t *keeps, *given;
    MP_BODY void operator()(int64_t quad) const
    {
        const int size = mp_quad_size(n, quad);
        float x[MP_QUAD];
        bool kept[MP_QUAD];
        if (mask) {
            for (int e = 0; e < size; e++) kept[e] = mask[quad * MP_QUAD + e] != 0;
        } else {
            const mp_philox_block words = mp_random_quad(pass->seed, pass->step, op, (uint64_t)quad);
            for (int e = 0; e < MP_QUAD; e++) kept[e] = mp_uniform_of(words.word[e]) >= ratio;
        }
        mp_load_quad(from, dtype, quad, size, x);
        for (int e = 0; e < size; e++) {
            x[e] = kept[e] ? x[e] * factor : 0;
            if (keeps) keeps[quad * MP_QUAD + e] = kept[e];
            if (given) given[quad * MP_QUAD + e] = kept[e];
        }
        mp_store_quad(to, dtype, quad, size, x);
    }
};

} // namespace

void mp_cuda_drop(const mp_dropout *dropout, const mp_run *run, uint32_t op, const mp_array *from, const mp_array *to,
                  const uint8_t *mask, uint8_t *keeps, uint8_t *given)
{
    drops_of f = {mp_cuda_pass_of(run),
                  op,
                  dropout->ratio,
                  mp_dropout_factor(dropout->ratio),
                  dropout->n,
                  from->data,
                  to->data,
                  from->dtype,
                  mask,
                  keeps,
                  given};
    mp_each(mp_quads(dropout->n), f);
}

namespace
{

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

void mp_cuda_draw(const mp_random_source *source, const mp_run *run, uint32_t op, const mp_array *probabilities,
                  const mp_array *to)
{
    const bool reads = source->distribution == MP_BERNOULLI;
    mp_each(source->n, draws_of{*source, mp_cuda_pass_of(run), op, reads ? probabilities->data : NULL, to->data,
                                reads ? probabilities->dtype : MP_DTYPE_FLOAT, to->dtype});
}

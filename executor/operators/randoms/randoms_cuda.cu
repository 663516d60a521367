/* randoms_cuda.cu - dropout, tensors of random numbers, and constants, ranges and windows (randoms.h) on the GPU. */
#include "executor/cuda/grid/bodies.cuh"
#include "executor/operators/randoms/dropout_cuda.cuh"

extern "C" {
#include "executor/cuda/grid/families.h"
#include "executor/operators/copies/boxes_cuda.h"
}

namespace
{

/* The mask of a vector's elements: 1 for kept elements, 0 for dropped ones. */
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
    enum { W = mp_width<T> };
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
            mp_draw_kept(pass, op, ratio, v, kept.x);
        }
        mp_drop_vector(kept.x, factor, x);
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

static mp_status run_dropout(const mp_call *call, const mp_operands *x, mp_error *err)
{
    mp_dropout s = *(const mp_dropout *)call->state;
    const mp_cuda_pass *pass = mp_cuda_pass_of(&x->run);
    const mp_array *from = x->is_backward ? &x->d_out[0] : &x->in[0], *to = x->is_backward ? &x->d_in[0] : &x->out[0];
    uint8_t *given = !x->is_backward && x->n_out > 1 ? (uint8_t *)x->out[1].data : NULL, *mask = NULL;
    if (!s.drops) s.ratio = 0; /* keeps all elements unchanged */
    if (s.drops && x->alternative == 1) mask = (uint8_t *)x->extra[0].data;
    MP_BY_DTYPE(from->dtype, drop<T>(&s, pass, (uint32_t)x->op_index, from, to, x->is_backward ? mask : NULL,
                                     x->is_backward ? NULL : mask, given));
    return mp_launched(err);
}

MP_PREPARE_TO_RUN(prepare_dropout, mp_dropout_prepare, run_dropout)

MP_BODY_LOOP(mp_random_source, mp_random_source_item)

static mp_status run_source(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_cuda_pass *pass = mp_cuda_pass_of(&x->run);
    return mp_random_source_run(call, x, &pass->seed, &pass->step, mp_random_source_item_loop, err);
}

MP_PREPARE_TO_RUN(prepare_source, mp_random_source_prepare, run_source)

/* ---- constants, ranges and windows. A list of values is converted to the output's type on the host when the call is prepared,
 * and each run copies it to the device. */

/* Maximum bytes of a list of values; the copy of a longer list would need too many launches. */
enum { LIST_BYTES = 1 << 20 };

MP_BODY_LOOP(mp_source, mp_source_item)

static mp_status run_known(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_source s = mp_source_of(call, x);
    return mp_source_item_loop(&s, mp_array_elements(&s.out), 1, err);
}

static mp_status run_list(const mp_call *call, const mp_operands *x, mp_error *err)
{
    mp_cuda_put(call->state, mp_array_bytes(&x->out[0]), x->out[0].data);
    return mp_launched(err);
}

static mp_status prepare_known(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_known;
    MP_CHECK(mp_source_prepare(x, call, err));
    mp_source s = mp_source_of(call, x);
    if (s.form != MP_SOURCE_VALUES) return MP_OK;
    const int64_t bytes = mp_array_bytes(&s.out);
    if (bytes > LIST_BYTES) return MP_NO_KERNEL(x, err, "a constant of this size");
    MP_ENSURE(s.out.data = mp_alloc(1, (size_t)bytes + 1), err, MP_NOMEM, "out of memory");
    for (int64_t k = 0; k < mp_array_elements(&s.out); k++) mp_source_item(&s, k);
    mp_free(call->state);
    call->state = s.out.data;
    call->run = run_list;
    return MP_OK;
}

} // namespace

#define RANDOM(kind) {kind, "", prepare_source, NULL},
#define KNOWN(kind) {kind, "", prepare_known, NULL},
extern "C" const mp_kernel mp_cuda_randoms[] = {{"Dropout", "", prepare_dropout, prepare_dropout},
                                                MP_RANDOM_SOURCES(RANDOM) MP_SOURCES(KNOWN){}};

/* sources_cuda.cu - constants, ranges and windows (sources.h) on the GPU. A list of values becomes elements on the host once,
 * when the call is prepared, and is brought there by each run.
 */
#include "executor/cuda/grid/bodies.cuh"

#include "executor/cuda/grid/families.h"
#include "executor/operators/copies/bytes_cuda.h"

extern "C" {
#include "executor/operators/randoms/sources.h"
}

namespace
{

/* More bytes than this are too many launches. */
enum { LIST_BYTES = 1 << 20 };

MP_BODY_LOOP(mp_source, mp_source_item)

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_source s = mp_source_of(call, x);
    return mp_source_item_loop(&s, mp_array_elements(&s.out), 1, err);
}

static mp_status run_list(const mp_call *call, const mp_operands *x, mp_error *err)
{
    mp_cuda_put(call->state, mp_array_bytes(&x->out[0]), x->out[0].data);
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    MP_CHECK(mp_source_prepare(x, call, err));
    mp_source s = mp_source_of(call, x);
    if (s.form != MP_SOURCE_VALUES) return MP_OK;
    const int64_t bytes = mp_array_bytes(&s.out);
    if (bytes > LIST_BYTES) return MP_NO_KERNEL(x, err, "a constant so large");
    MP_ENSURE(s.out.data = mp_alloc(1, (size_t)bytes + 1), err, MP_NOMEM, "out of memory");
    for (int64_t k = 0; k < mp_array_elements(&s.out); k++) mp_source_item(&s, k);
    mp_free(call->state);
    call->state = s.out.data;
    call->run = run_list;
    return MP_OK;
}

} // namespace

#define ROW(kind) {kind, "", prepare, NULL},
extern "C" const mp_kernel mp_cuda_sources[] = {MP_SOURCES(ROW){}};

/* sources_cuda.c - the table of operators that make tensors from attributes, shapes and a few numbers, on the GPU. What
 * attributes and shapes say is computed on the host once, when the call is prepared, and brought there by each run.
 */
#include "executor/operators/randoms/sources_cuda.h"

#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/copies/bytes_cuda.h"
#include "executor/operators/randoms/sources.h"

/* More bytes than this are too many launches. */
enum { KNOWN_BYTES = 1 << 20 };

typedef struct known {
    int64_t n_bytes;
    bool is_one; /* all elements are the first */
    uint64_t bytes[];
} known;

static mp_status run_known(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const known *s = call->state;
    const mp_array *out = &x->out[0];
    mp_box all = mp_box_of(NULL, out);
    (void)run;
    if (s->is_one)
        mp_cuda_box_fill(&all, mp_dtype_bits(out->dtype) / 8, s->bytes, out->data);
    else
        mp_cuda_put(s->bytes, s->n_bytes, out->data);
    return mp_cuda_launched(err);
}

/* Fills the output, or one element that stands for all, in the program's memory. */
static mp_status prepare_bytes(const mp_operands *x, bool is_one, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_call described = {0};
    mp_operands here = *x;
    mp_array out = x->out[0];
    known *s = NULL;
    if (is_one) out = mp_array_plain(out.dtype, 1, &(int64_t){1});
    here.out = &out;
    MP_TRY(mp_source_prepare(&here, &described, err));
    int64_t bytes = mp_array_bytes(&out);
    if (bytes > KNOWN_BYTES) {
        st = MP_NO_KERNEL(x, err, "a constant so large");
        goto done;
    }
    MP_REQUIRE(s = mp_alloc(1, sizeof *s + (size_t)bytes), err, MP_NOMEM, "out of memory");
    s->n_bytes = bytes;
    s->is_one = is_one;
    out.data = s->bytes;
    call->state = s;
    call->run = run_known;
    mp_source_fill(described.state, &here, 0, ((const mp_source *)described.state)->n);
done:
    mp_call_release(&described);
    return st;
}

static mp_status prepare_known(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_bytes(x, false, call, err);
}
static mp_status prepare_one(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_bytes(x, true, call, err);
}

static mp_status run_range(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)call, (void)run;
    mp_cuda_range(&x->in[0], &x->in[2], &x->out[0]);
    return mp_cuda_launched(err);
}

static mp_status run_eye(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)call, (void)run;
    mp_cuda_eye(&x->out[0], mp_operator_int(x->op, "k", 0));
    return mp_cuda_launched(err);
}

static mp_status prepare_range(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_range;
    return mp_source_prepare(x, call, err);
}

static mp_status prepare_eye(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_eye;
    return mp_source_prepare(x, call, err);
}

const mp_kernel mp_cuda_sources[] = {
    {"Constant", "", prepare_known, NULL},       {"ConstantOfShape", "", prepare_one, NULL},
    {"Shape", "", prepare_known, NULL},          {"Size", "", prepare_known, NULL},
    {"Range", "", prepare_range, NULL},          {"EyeLike", "", prepare_eye, NULL},
    {"HannWindow", "", prepare_known, NULL},     {"HammingWindow", "", prepare_known, NULL},
    {"BlackmanWindow", "", prepare_known, NULL}, {0},
};

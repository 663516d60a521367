/* sources_cpu.c - fills constants, ranges and windows (operators/randoms/sources.h) in blocks, in parallel. */
#include "executor/operators/randoms/sources.h"

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"

typedef struct job {
    const mp_source *source;
    const mp_operands *x;
} job;

static void fill_block(void *data, int64_t k)
{
    const job *j = data;
    mp_source_fill(j->source, j->x, k * MP_BLOCK, mp_block_size(j->source->n, k));
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    job j = {call->state, x};
    (void)run, (void)err;
    mp_parallel(mp_block_count(j.source->n), MP_BLOCK, fill_block, &j);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    return mp_source_prepare(x, call, err);
}

const mp_kernel mp_cpu_sources[] = {
    {"Constant", "", prepare, NULL},       {"ConstantOfShape", "", prepare, NULL},
    {"Shape", "", prepare, NULL},          {"Size", "", prepare, NULL},
    {"Range", "", prepare, NULL},          {"EyeLike", "", prepare, NULL},
    {"HannWindow", "", prepare, NULL},     {"HammingWindow", "", prepare, NULL},
    {"BlackmanWindow", "", prepare, NULL}, {0},
};

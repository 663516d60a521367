/* sources_cpu.c - constants, ranges and windows (sources.h) on the CPU. */
#include "executor/operators/randoms/sources.h"

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"

MP_BODY_LOOP(mp_source, mp_source_item)

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_source s = mp_source_of(call, x);
    return mp_source_item_loop(&s, mp_array_elements(&s.out), 1, err);
}

MP_PREPARE_TO_RUN(prepare, mp_source_prepare, run)

#define ROW(kind) {kind, "", prepare, NULL},
const mp_kernel mp_cpu_sources[] = {MP_SOURCES(ROW){0}};

/* bodies.cuh - the GPU's loop over the items of a body (executor/kernel/body.h): one thread per item. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/kernel/body.h"
}

/* Defines BODY_loop, an mp_body_loop over BODY(const DESCRIPTION *, int64_t item). */
#define MP_BODY_LOOP(description_type, body)                                                 \
    struct body##_of {                                                                       \
        description_type description;                                                        \
        MP_BODY void operator()(int64_t item) const { body(&description, item); }            \
    };                                                                                       \
    static mp_status body##_loop(const void *description, int64_t n, int64_t, mp_error *err) \
    {                                                                                        \
        mp_each(n, body##_of{*(const description_type *)description});                       \
        return mp_launched(err);                                                             \
    }

/* The number of items that hold workspace at the same time: one per element of the output. */
#define MP_BODY_SLOTS(x) mp_array_elements(&(x)->out[0])
/* No check on the GPU, because a kernel cannot report errors while it runs. */
#define MP_BODY_CHECK(question)

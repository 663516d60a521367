/* bodies.cuh - the GPU's loops for operators with a body, a function that computes one item of the result
 * (executor/kernel/body.h). One thread runs one item. */
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

/* The number of items that use workspace at the same time. On the GPU this is the number of elements of the output, because all
 * items of the loop use workspace at once. */
#define MP_BODY_SLOTS(x) mp_array_elements(&(x)->out[0])
/* Checks values of operands, such as indices, on the CPU only: a GPU kernel cannot report errors while it runs. */
#define MP_BODY_CHECK(question)

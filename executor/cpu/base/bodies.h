/* bodies.h - the CPU's loops for operators with a body, a function that computes one item of the result
 * (executor/kernel/body.h). Blocks of items run on several threads. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/body.h"

typedef struct mp_body_blocks {
    const void *description;
    int64_t n, size; /* n: number of items of the loop; size: number of items per block */
} mp_body_blocks;

/* Defines BODY_loop, an mp_body_loop over BODY(const DESCRIPTION *, int64_t item). Each block copies the description. The
 * compiler then knows that no store changes the copy, and keeps its members in registers. */
#define MP_BODY_LOOP(description_type, body)                                                                 \
    static void body##_block(void *data, int64_t block)                                                      \
    {                                                                                                        \
        const mp_body_blocks *b = data;                                                                      \
        const description_type own = *(const description_type *)b->description;                              \
        const int64_t first = block * b->size, end = b->n - first < b->size ? b->n : first + b->size;        \
        for (int64_t item = first; item < end; item++) body(&own, item);                                     \
    }                                                                                                        \
    static mp_status body##_loop(const void *description, int64_t n, int64_t work, mp_error *err)            \
    {                                                                                                        \
        mp_body_blocks b = {description, n, work < MP_BLOCK / 4 ? MP_BLOCK / 4 / (work > 0 ? work : 1) : 1}; \
        (void)err;                                                                                           \
        mp_parallel((n + b.size - 1) / b.size, b.size * work, body##_block, &b);                             \
        return MP_OK;                                                                                        \
    }

/* The number of items that use workspace at the same time. On the CPU this is 1, because items with workspace run one after the
 * other. */
#define MP_BODY_SLOTS(x) 1
/* Checks values of operands, such as indices, before a kernel runs. On the CPU this is possible, because the operands are in
 * host memory. */
#define MP_BODY_CHECK(question) MP_CHECK(question)

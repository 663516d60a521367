/* watch.h - finds the step that produced the first value that is not finite.
 *
 * A step of the plan is the origin if it writes infinities or NaNs and reads none. The first step that turns infinities into
 * NaNs is recorded separately, so that constant masks of -inf are not reported as the cause. Every operand is copied to the
 * host and inspected, which takes several times as long as the training step itself. Use this only to repeat a training step
 * that is known to fail. */
#pragma once

#include "executor/run/addresses.h"

typedef struct mp_origin {
    int node;   /* index in the graph of the node that wrote the first infinities or NaNs; -1: no such node was found */
    int tensor; /* the tensor whose value or gradient contains the first infinities or NaNs */
    /* true: the values are in the gradient of the tensor; false: in the tensor itself, also after an update */
    bool is_gradient;
    bool is_nan;      /* true: NaNs are among the values; false: the values are only infinities */
    int64_t n_bad, n; /* n_bad: number of elements that are not finite; n: number of all elements */
    int64_t pass;
} mp_origin;

typedef struct mp_watch {
    const mp_program *program;
    /* first: origin of all values that are not finite; first_nan: origin of the NaNs; node is -1 until an origin is found */
    mp_origin first, first_nan;
    int64_t pass; /* number of the current pass, set by the caller that runs the passes */
    /* kinds of bad values (infinities, NaNs) among the values that the current step reads, as a bit set */
    unsigned read;
    float *room; /* buffer in host memory, with room for n_room floats */
    int64_t n_room;
} mp_watch;

void mp_watch_begin(mp_watch *watch, const mp_program *program);
void mp_watch_end(mp_watch *watch); /* Releases the buffer of the inspection; does nothing if *watch is zeroed. */

/* Inspect the operands before and after a step of the plan. MP_NOMEM; MP_IO: the device has failed. O(elements read and
 * written). */
mp_status mp_watch_before(mp_watch *watch, const mp_ready_step *step, mp_error *err);
mp_status mp_watch_after(mp_watch *watch, const mp_ready_step *step, mp_error *err);

/* Counts the elements of an array in the backend's memory that are not finite, and reports whether some of them are NaNs.
 * Integers are always finite. MP_NOMEM; MP_IO: the device has failed. */
mp_status mp_watch_count(mp_watch *watch, const mp_array *there, int64_t *n_bad, bool *has_nan, mp_error *err);

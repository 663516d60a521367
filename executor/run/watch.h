/* watch.h - looks, step by step, for the first value that is not finite: where it came from, and not where it went.
 *
 * A step is its origin if what it writes holds infinities or NaNs and what it reads holds none; NaNs that come from infinities
 * are noted beside that. So masks of -inf that are constants are no one's fault. Everything is brought to the host and looked
 * at, which takes several times as long as the step itself: for a step that is known to fail.
 */
#pragma once

#include "executor/run/addresses.h"

typedef struct mp_origin {
    int node;         /* of the graph; -1: not found */
    int tensor;       /* what it has written: this one, or its gradient */
    bool is_gradient; /* a gradient; a parameter that was updated is none */
    bool is_nan;      /* NaNs, and not only infinities */
    int64_t n_bad, n; /* elements that are not finite, of how many */
    int64_t pass;
} mp_origin;

typedef struct mp_watch {
    const mp_program *program;
    mp_origin first, first_nan; /* nodes -1 to begin with */
    int64_t pass;               /* set by whoever runs passes */
    unsigned read;              /* what the step at hand reads */
    float *room;                /* on the host */
    int64_t n_room;
} mp_watch;

void mp_watch_begin(mp_watch *watch, const mp_program *program);
void mp_watch_end(mp_watch *watch); /* a zeroed one is fine */

/* Around a step of the plan. MP_NOMEM; MP_IO: the device has failed. O(elements read and written). */
mp_status mp_watch_before(mp_watch *watch, const mp_ready_step *step, mp_error *err);
mp_status mp_watch_after(mp_watch *watch, const mp_ready_step *step, mp_error *err);

/* How many elements of an array where calls run are not finite, and whether there are NaNs among them; whole numbers always
 * are. As above. */
mp_status mp_watch_count(mp_watch *watch, const mp_array *there, int64_t *n_bad, bool *has_nan, mp_error *err);

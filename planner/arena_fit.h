/* arena_fit.h - places items with lifetimes and sizes into one block. Private to the arena. */
#ifndef PLANNER_ARENA_FIT_H
#define PLANNER_ARENA_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "estimator/error.h"

typedef struct mp_item {
    int64_t bytes, offset;
    int first, last; /* steps in which it lives, inclusive */
    int again, end;  /* and lives once more, later or earlier; -1: it does not */
} mp_item;

/* Sets the offset of every item, multiples of `alignment`, so that no two items that live together overlap. MP_NOMEM. */
mp_status mp_fit_items(mp_item *items, size_t n, size_t n_steps, int64_t alignment, mp_error *err);

#endif

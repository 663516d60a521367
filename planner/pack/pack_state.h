/* pack_state.h - a block of memory that is filled from below, with undo. Private to the packer.
 *
 * Time is cut into sections, and only maximal ones are kept: a section whose live items are all live in its neighbour is left
 * out. An unplaced item over a section has its offset at the section's floor or above. Every change is noted on the trail, from
 * which it can be undone.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

typedef struct mp_pack_run { /* an item has one size in sections [begin, end) */
    int begin, end;
    int slot; /* index in `slots` of the first section */
    int64_t size;
} mp_pack_run;

typedef struct mp_pack_box { /* an item; boxes are sorted by their begin */
    int item;
    int begin, end; /* sections [begin, end) */
    int run, n_runs;
    int twin; /* the box before it with the same shape, -1: none */
    int64_t alignment, fixed, size;
} mp_pack_box;

typedef struct mp_pack_live { /* a box that is live in a section */
    int box, slot;
    int64_t size;
} mp_pack_live;

typedef struct mp_pack_state {
    mp_pool *pool; /* owns all arrays except the trail */
    int n_boxes, n_sections;
    mp_pack_box *boxes;
    mp_pack_run *runs;
    int *slots; /* per box and section of it: its index in `live` */
    int *live_start, *n_live;
    mp_pack_live *live;     /* section s has the unplaced boxes live[live_start[s] .. + n_live[s]), then the placed ones */
    int64_t *floor, *total; /* per section: floor; sum of the sizes of unplaced boxes */
    int *crossing;          /* per section: the number of unplaced boxes that are live in the section before it too */
    int *n_low;             /* per section: the number of boxes that may be placed at its floor (of twins only the first) */
    int64_t *least_top;     /* per section: the lowest top that an unplaced box can have; INT64_MAX: none is unplaced */
    int64_t *lowest;        /* per box: the lowest offset that is still possible; of a placed box its offset */
    unsigned char *placed;  /* per box: true if placed */
    int64_t capacity;
    bool raises_floors, counts_sections, tells_twins;
    bool clashes;    /* true if fixed boxes overlap */
    bool has_pieces; /* true if some box has several runs */
    struct mp_pack_change *trail;
    size_t n_trail, trail_capacity;
    int *dirty, n_dirty;
    bool *is_dirty;
    int conflict; /* the section in which boxes did not fit the last time */
    bool no_memory;
} mp_pack_state;

/* MP_INVALID, MP_NOMEM. Release with mp_pack_state_free in any case. */
mp_status mp_pack_state_make(mp_pack_state *state, const mp_pack_problem *problem, mp_error *err);
void mp_pack_state_free(mp_pack_state *state);

/* Empties the block. Returns false if it is too small for the fixed boxes or for a section. */
bool mp_pack_start(mp_pack_state *state, int64_t capacity, unsigned without);
/* Places a box at its lowest offset. Returns false if the others no longer fit, or memory is short; undo in both cases. */
bool mp_pack_put(mp_pack_state *state, int box);
/* Raises the floor of a section: nothing will be placed below it. Returns false as mp_pack_put does. */
bool mp_pack_raise(mp_pack_state *state, int section, int64_t floor);
void mp_pack_undo(mp_pack_state *state, size_t n_trail);

/* pack_state.h - internal to the packer: the state of a search for offsets. A block of memory is filled from the bottom, with
 * undo.
 *
 * Time is divided into sections. A section is omitted if its live items are all live in a neighbouring section. The floor of a
 * section is an offset: below it nothing more is placed in that section. Every change is recorded on the trail, for undo. */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

typedef struct mp_pack_run { /* a range of sections [begin, end) in which one item has one size */
    int begin, end;
    int slot; /* index in mp_pack_state.slots of the entry for the first section */
    int64_t size;
} mp_pack_run;

typedef struct mp_pack_box { /* an item of the problem; boxes are sorted by their begin */
    int item;
    int begin, end; /* the box is live in sections [begin, end) */
    int run, n_runs;
    int twin; /* the previous box with the same lifetime, sizes and alignment; -1: none */
    int64_t alignment, fixed, size;
} mp_pack_box;

typedef struct mp_pack_live { /* a box that is live in a section */
    int box, slot;
    int64_t size;
} mp_pack_live;

typedef struct mp_pack_state {
    mp_pool *pool; /* owns all arrays except `trail` */
    int n_boxes, n_sections;
    mp_pack_box *boxes;
    mp_pack_run *runs;
    int *slots; /* per box and section in which it is live: its index in `live` */
    int *live_start, *n_live;
    mp_pack_live *live; /* section s has the unplaced boxes live[live_start[s] .. + n_live[s]), followed by the placed ones */
    int64_t *floor, *total; /* per section: its floor (an offset); the sum of the sizes of its unplaced boxes */
    int *crossing;          /* per section: number of unplaced boxes that are also live in the previous section */
    int *n_low; /* per section: number of unplaced boxes whose lowest possible offset is the floor (of twins, only the first
                   counts) */
    int64_t *least_top;    /* per section: the lowest possible top of an unplaced box; INT64_MAX: no box is unplaced */
    int64_t *lowest;       /* per box: its lowest possible offset; for a placed box, its offset */
    unsigned char *placed; /* per box: it has been placed */
    int64_t capacity;
    bool raises_floors, counts_sections, tells_twins;
    bool clashes;    /* boxes with offsets fixed by the caller overlap */
    bool has_pieces; /* some box has several sizes over its lifetime */
    struct mp_pack_change *trail;
    size_t n_trail, trail_capacity;
    int *dirty, n_dirty;
    bool *is_dirty;
    int conflict; /* the section in which boxes failed to fit most recently */
    bool no_memory;
} mp_pack_state;

/* Builds the state of a problem. Release with mp_pack_state_free on any status. MP_INVALID. MP_NOMEM. */
mp_status mp_pack_state_make(mp_pack_state *state, const mp_pack_problem *problem, mp_error *err);
void mp_pack_state_free(mp_pack_state *state);

/* Removes all boxes from the block. Returns false if `capacity` is too small for the fixed boxes or for the boxes of one
 * section. */
bool mp_pack_start(mp_pack_state *state, int64_t capacity, unsigned without);
/* Places a box at its lowest possible offset. Returns false if the unplaced boxes no longer fit, or memory ran out. After
 * false, the caller must call mp_pack_undo. */
bool mp_pack_put(mp_pack_state *state, int box);
/* Raises the floor of a section, so that nothing more is placed below it. Returns false like mp_pack_put. */
bool mp_pack_raise(mp_pack_state *state, int section, int64_t floor);
void mp_pack_undo(mp_pack_state *state, size_t n_trail);

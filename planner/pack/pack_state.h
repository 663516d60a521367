/* pack_state.h - a block of memory is filled from below, and every change can be undone. Private to the packer.
 *
 * Time is cut into sections, and of these only the maximal ones matter: one whose live items are all live in the next, or in
 * the one before, is left out. What is unplaced over a section has its offset at the section's floor or above. Every change
 * goes to the trail, and is undone from there.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

typedef struct mp_pack_run { /* sections [begin, end) in which an item has one size */
    int begin, end;
    int slot; /* in `slots`: of the first section */
    int64_t size;
} mp_pack_run;

typedef struct mp_pack_box { /* an item; boxes are in the order in which they begin */
    int item;
    int begin, end; /* sections [begin, end) */
    int run, n_runs;
    int twin; /* the box before it that is alike; -1 */
    int64_t alignment, fixed, size;
} mp_pack_box;

typedef struct mp_pack_live { /* a box that is live in a section */
    int box, slot;
    int64_t size;
} mp_pack_live;

typedef struct mp_pack_state {
    mp_pool *pool; /* of all arrays but trail */
    int n_boxes, n_sections;
    mp_pack_box *boxes;
    mp_pack_run *runs;
    int *slots; /* per box and section of it: where in `live` */
    int *live_start, *n_live;
    mp_pack_live *live;     /* of section s, unplaced: live[live_start[s] .. + n_live[s]); behind them the placed ones */
    int64_t *floor, *total; /* per section; total: the sizes of what is unplaced */
    int *crossing;          /* per section: how many unplaced boxes are live in the section before it too */
    int *n_low;             /* per section: how many boxes may be placed at its floor, of twins the first */
    int64_t *least_top;     /* per section: the lowest top that an unplaced box can have; INT64_MAX: all are placed */
    int64_t *lowest;        /* per unplaced box: no offset is lower. Of a placed one: its offset */
    unsigned char *placed;  /* per box */
    int64_t capacity;
    bool raises_floors, counts_sections, tells_twins;
    bool clashes;    /* fixed boxes overlap */
    bool has_pieces; /* there are boxes of several runs */
    struct mp_pack_change *trail;
    size_t n_trail, trail_capacity;
    int *dirty, n_dirty;
    bool *is_dirty;
    int conflict; /* the section in which boxes last did not fit */
    bool no_memory;
} mp_pack_state;

/* MP_INVALID, MP_NOMEM. Release with mp_pack_state_free in any case. */
mp_status mp_pack_state_make(mp_pack_state *state, const mp_pack_problem *problem, mp_error *err);
void mp_pack_state_free(mp_pack_state *state);

/* Empties the block. False: it is too small for what is fixed, or for a section. */
bool mp_pack_start(mp_pack_state *state, int64_t capacity, unsigned without);
/* Places a box at its lowest offset. False: the rest does not fit, or no memory; undo in any case. */
bool mp_pack_put(mp_pack_state *state, int box);
/* Nothing will be placed below `floor` in the section. False as above. */
bool mp_pack_raise(mp_pack_state *state, int section, int64_t floor);
void mp_pack_undo(mp_pack_state *state, size_t n_trail);

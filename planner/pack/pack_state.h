/* pack_state.h - a block that is filled from below, and the way back. Private to the packer.
 *
 * Only sections of time that are largest matter: one in which less lives than in the next, or the one before, is left out. What
 * is still to come over a section lies at its floor or above. Every change goes to the trail, and back by it.
 */
#ifndef PLANNER_PACK_STATE_H
#define PLANNER_PACK_STATE_H

#include "memplan/pack.h"

typedef struct mp_pack_run { /* of sections in which an item has one size */
    int first, last;
    int slot; /* in `slots`: of the first section */
    int64_t size;
} mp_pack_run;

typedef struct mp_pack_box { /* an item, in the order of first sections */
    int item;
    int first, last; /* sections */
    int run, n_runs;
    int twin; /* the box before it that is alike; -1 */
    int64_t alignment, fixed, size;
} mp_pack_box;

typedef struct mp_pack_lives { /* a box in a section */
    int box, slot;
    int64_t size;
} mp_pack_lives;

typedef struct mp_pack_state {
    int n_boxes, n_sections;
    mp_pack_box *boxes;
    mp_pack_run *runs;
    int *slots; /* per box and section of it: where in `lives` */
    int *lives_start, *n_lives;
    mp_pack_lives *lives;   /* of section s, still to come: lives[lives_start[s] .. + n_lives[s]); behind them what lies */
    int64_t *floor, *total; /* per section: total of what is still to come */
    int *crossing;          /* per section: what is still to come that is there before it too */
    int *n_low;             /* per section: the boxes that may lie at its floor, of twins the first */
    int64_t *least_top;     /* per section: where the lowest of what is still to come ends at least; INT64_MAX: nothing is */
    int64_t *lowest;        /* per box still to come: no offset is lower. Of one that lies: its offset */
    unsigned char *lies;    /* per box */
    int64_t capacity;
    bool raises_floors, counts_sections, tells_twins;
    bool clashes;    /* fixed boxes overlap */
    bool has_pieces; /* there are boxes of several runs */
    struct mp_pack_change *trail;
    size_t n_trail, trail_capacity;
    int *dirty, n_dirty;
    bool *is_dirty;
    int narrow; /* the section where things last did not fit */
    bool no_memory;
} mp_pack_state;

/* MP_INVALID, MP_NOMEM. Release with mp_pack_state_free in any case. */
mp_status mp_pack_state_make(mp_pack_state *state, const mp_packing *packing, mp_error *err);
void mp_pack_state_free(mp_pack_state *state);

/* Empties the block. False: it is too small for what is fixed, or for a section. */
bool mp_pack_start(mp_pack_state *state, int64_t capacity, unsigned without);
/* Puts a box at its lowest offset. False: there is no way on from there, or no memory; undo in any case. */
bool mp_pack_put(mp_pack_state *state, int box);
/* Nothing will lie below `floor` in the section. The same. */
bool mp_pack_raise(mp_pack_state *state, int section, int64_t floor);
void mp_pack_undo(mp_pack_state *state, size_t n_trail);

#endif

/* pack.h - internal to the packer: the state of a search for offsets, and the search. */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

/* ---- pack_state.c ---- */

/* Internal to the packer: the state of a search for offsets. The search fills a block of memory from the bottom. Time is
 * divided into sections, and a box is an item whose lifetime is a range of sections. If all live items of a section are also
 * live in a neighbouring section, the section is omitted. The floor of a section is an offset; no further box is placed below
 * it in this section. Every change is recorded on the trail, so that it can be undone. */

typedef struct mp_pack_run { /* an interval of sections [begin, end) in which a box has one size */
    int begin, end;
    int slot; /* index in mp_pack_state.slots of the element for this box and section `begin` */
    int64_t size;
} mp_pack_run;

typedef struct mp_pack_box { /* an item of the packing problem, with its lifetime in sections; boxes are sorted by `begin` */
    int item;
    int begin, end; /* the box is live in the sections [begin, end) */
    int run, n_runs;
    int twin; /* an earlier box with the same lifetime, sizes and alignment; -1: none */
    int64_t alignment, fixed, size;
} mp_pack_box;

typedef struct mp_pack_live { /* an element of the list `live`: a box and a section in which the box is live */
    int box, slot;
    int64_t size;
} mp_pack_live;

typedef struct mp_pack_state {
    mp_pool *pool; /* owns all arrays except `trail` */
    int n_boxes, n_sections;
    mp_pack_box *boxes;
    mp_pack_run *runs;
    int *slots; /* per box and section in which the box is live: index of their common element in `live` */
    int *live_start, *n_live;
    /* elements for section s: first its unplaced boxes live[live_start[s] .. + n_live[s]), then its placed boxes */
    mp_pack_live *live;
    /* per section. floor: no further box is placed below this offset. total: the sum of the sizes of its unplaced boxes */
    int64_t *floor, *total;
    int *crossing; /* per section: number of unplaced boxes that are also live in the previous section */
    int *n_low; /* per section: number of unplaced boxes that can be placed at its floor (of several twins, one is counted) */
    int64_t *least_top;    /* per section: the lowest top that an unplaced box can have; INT64_MAX: all boxes are placed */
    int64_t *lowest;       /* per box: its lowest possible offset, or its offset if it is placed */
    unsigned char *placed; /* per box: it has been placed */
    int64_t capacity;
    bool raises_floors, counts_sections, tells_twins;
    bool clashes;    /* true: two boxes with fixed offsets overlap */
    bool has_pieces; /* true: some box changes its size during its lifetime */
    struct mp_pack_change *trail;
    size_t n_trail, trail_capacity;
    int *dirty, n_dirty;
    bool *is_dirty;
    int conflict; /* the section in which boxes most recently did not fit */
    bool no_memory;
} mp_pack_state;

/* Builds the state of a packing problem, with no box placed. Release with mp_pack_state_free on any status. MP_INVALID.
 * MP_NOMEM. */
mp_status mp_pack_state_make(mp_pack_state *state, const mp_pack_problem *problem, mp_error *err);
void mp_pack_state_free(mp_pack_state *state);

/* Removes all boxes from the block. `without`: the parts of the search that are switched off (MP_PACK_FLOORS, ...). Returns
 * false if `capacity` is too small for the boxes with fixed offsets or for the boxes of one section. */
bool mp_pack_start(mp_pack_state *state, int64_t capacity, unsigned without);
/* Places a box at its lowest possible offset. Returns false if the unplaced boxes no longer fit, or if memory ran out. The
 * caller must then call mp_pack_undo. */
bool mp_pack_put(mp_pack_state *state, int box);
/* Raises the floor of a section, so that no further box is placed below it. Returns false in the same cases as mp_pack_put. */
bool mp_pack_raise(mp_pack_state *state, int section, int64_t floor);
void mp_pack_undo(mp_pack_state *state, size_t n_trail);

/* ---- pack_search.c ---- */

/* Internal to the packer: a branch-and-bound search for the offsets of all items within a given capacity. */

typedef struct mp_pack_search mp_pack_search;

/* Creates a search that works on a state. Returns NULL if out of memory. The state must outlive the search. The node limit in
 * `options` is ignored. */
mp_pack_search *mp_pack_search_new(mp_pack_state *state, const mp_pack_options *options);
void mp_pack_search_free(mp_pack_search *search); /* NULL is allowed */

/* Searches for offsets of all boxes within `capacity`. If the verdict is MP_PACK_PLACED, the offsets are in state->lowest. Adds
 * the visited nodes of the search tree to *nodes. The search ends when *nodes reaches node_limit (<= 0: no limit). *stopped:
 * the caller's `stop` ended the search, so the caller should not continue. MP_NOMEM. */
mp_status mp_pack_search_run(mp_pack_search *search, int64_t capacity, int64_t node_limit, mp_pack_verdict *verdict,
                             int64_t *nodes, bool *stopped, mp_error *err);

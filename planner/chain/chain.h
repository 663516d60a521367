/* chain.h - the searcher `chain`: Beaumont et al. 2019, the cheapest persistent schedule of a chain of blocks in a given
 * memory. */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/order/boundaries.h"

/* Nodes in the order in which they run. */
typedef struct mp_chain_run {
    int *nodes;
    size_t n;
    int64_t ticks; /* of its forward nodes */
} mp_chain_run;

/* The peak bytes of a run beside all that is kept for other blocks; [1]: with the block's input among them, freed
 * after its last read; [0]: without it. */
typedef struct mp_chain_need {
    int64_t bytes[2];
} mp_chain_need;

/* One way to run a block forward and, later, backward. The first of a block holds all that its backward nodes read, the others
 * less and less. */
typedef struct mp_chain_option {
    int64_t kept_bytes;                   /* from its forward run to its backward run */
    bool frees_input;                     /* backward does without the block's input */
    bool keeps_output;                    /* the block's output is kept, too */
    mp_chain_run rerun, backward;         /* forward in any pass but the first; backward and what it lacks */
    mp_chain_need first_need, rerun_need; /* forward in the first pass (pinned bytes included) and in another (without) */
    int64_t backward_bytes;               /* the peak of that, kept storages of this block and gradients included */
} mp_chain_option;

typedef struct mp_chain_block {
    int64_t output_bytes;
    int64_t pinned_bytes;       /* pinned storages that are live while this block runs again or backward */
    int64_t first_pinned_bytes; /* and while it runs for the first time */
    int64_t gradient_bytes;     /* what backward holds between the next block and this one */
    mp_chain_run first;         /* all forward nodes */
    mp_chain_run advance;       /* what the output needs */
    mp_chain_need first_need, advance_need;
    mp_chain_run alone; /* backward at once after forward: in the last block after its first run, in others what it lacks */
    mp_chain_need alone_need;
    size_t n_options;
    mp_chain_option options[MP_CHAIN_OPTIONS]; /* none in the last block */
} mp_chain_block;

typedef struct mp_chain {
    const mp_graph *graph;
    int n; /* blocks */
    mp_chain_block *blocks;
    int *block;          /* per node: its block, -1 for updates */
    int *backward;       /* loss and backward nodes in the order in which they run */
    int *backward_start; /* those of block k: backward[backward_start[k] .. + n_backward[k]) */
    int *n_backward;
    int *producer_block; /* per storage: the block whose run makes it, -1: none or always live */
    int *
        until; /* per storage that backward produces or that is pinned: the block whose backward uses it last, -1: beyond all */
    bool *pinned;  /* per storage of forward nodes */
    bool *crosses; /* per storage: part of the output of its block */
    mp_pool *pool; /* owns the runs */
} mp_chain;

/* The chain of blocks that end at ends[0..boundaries->n) (the last position always ends one): what belongs where. Released with
 * mp_chain_free (NULL is fine). MP_NOT_APPLICABLE: no backward phase, or data that flows in other ways. MP_NOMEM. O(list
 * lengths). */
mp_status mp_chain_new(const mp_boundaries *boundaries, const bool *ends, mp_chain **out, mp_error *err);
void mp_chain_free(mp_chain *chain);
MP_OWNER(mp_chain_free, mp_chain)

/* ---- chain_measure.c: the ways to run each block, with their ticks and bytes ---- */

/* Fills in the ways to run every block, with their ticks and bytes. MP_NOMEM. O(blocks * nodes + options * list lengths), and a
 * bounded number of steps per block to order what can be dropped. */
mp_status mp_chain_measure(mp_chain *chain, mp_error *err);

/* ---- chain_table.c: the cheapest persistent schedule of every stretch of a chain ---- */

/* The cheapest persistent schedules for every memory of 0 .. n_slots slots: dynamic programming over (first block, last block,
 * slots). */
typedef struct mp_chain_table {
    const mp_chain *chain;
    int64_t slot_bytes;
    int n_slots;
    int64_t *ticks;  /* per stretch and number of slots: the least ticks beside the first pass */
    uint8_t *choice; /* how */
} mp_chain_table;

enum { MP_CHAIN_NEVER = -1 };

/* Solves for every memory from 0 to mp_chain_whole_bytes, or to 1/part of it: the same table, cut off. All bytes are rounded up
 * to slots, so that no schedule needs more than its slots. *out is NULL if the search was stopped meanwhile (`search` may be
 * NULL), else released with mp_chain_table_free. MP_NOMEM. O(blocks^3 * slots) time, 9 * blocks^2 * slots bytes. */
mp_status mp_chain_solve(const mp_chain *chain, int part, mp_search *search, mp_chain_table **out, mp_error *err);
void mp_chain_table_free(mp_chain_table *table);
MP_OWNER(mp_chain_table_free, mp_chain_table)
/* Returns the bytes, static ones excluded, in which the chain runs with everything kept that backward reads. */
int64_t mp_chain_whole_bytes(const mp_chain *chain);
/* Returns the ticks of recomputation within a memory of so many slots, MP_CHAIN_NEVER if it does not suffice. */
int64_t mp_chain_ticks(const mp_chain_table *table, int slots);

/* The blocks [begin, end) and the memory for them. */
typedef struct mp_chain_stretch {
    int begin, end, slots;
    bool owns_input; /* the input of the first block is counted in these slots and may be freed */
} mp_chain_stretch;

/* How to run a stretch: without `after`, its one block at once; with an option, the first block, `after`, and the first
 * block's backward; else advance up to `after`, run that, then `before`. A stretch without blocks has begin >= end. */
typedef struct mp_chain_choice {
    int option; /* -1: none */
    mp_chain_stretch after, before;
} mp_chain_choice;
mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch stretch);

/* ---- chain.c: where blocks end, and the schedule ---- */

/* The kind of positions where blocks may end: cut tensors, or seams (chain.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Ends of at most MP_CHAIN_BLOCKS blocks, the last one's not among them; *n_ends 0: there are none. `ends` has boundaries->n
 * elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);

/* The schedule, updates included; *steps is released with mp_free. `slots` must suffice. MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);

/* chain.h - the searcher `chain`: the cheapest persistent schedule of a chain of blocks in a given memory (Beaumont et al.
 * 2019). */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/order/boundaries.h"

/* Some nodes of a block, in the order in which they run. */
typedef struct mp_chain_run {
    int *nodes;
    size_t n;
    int64_t ticks; /* of the forward nodes in the run */
} mp_chain_run;

/* The peak bytes of a run, without what other blocks keep. [1]: the block's input counts, and is freed after its last read;
 * [0]: the input does not count. */
typedef struct mp_chain_need {
    int64_t bytes[2];
} mp_chain_need;

/* One way to run a block forward and later backward. A block's first option keeps all that its backward nodes read, later
 * ones less and less. */
typedef struct mp_chain_option {
    int64_t kept_bytes;                   /* kept from the block's forward to its backward */
    bool frees_input;                     /* true if backward does not need the block's input */
    bool keeps_output;                    /* true if the block's output is kept too */
    mp_chain_run rerun, backward;         /* forward in any pass but the first; backward with its recomputations */
    mp_chain_need first_need, rerun_need; /* forward in the first pass (with pinned bytes), in later ones (without) */
    int64_t movable_bytes;  /* of kept_bytes: what may be copied to another tier instead (docs/internals/offload.md) */
    int n_movable;          /* storages that these are */
    int64_t backward_bytes; /* the peak of `backward`, kept storages and gradients of the block included */
} mp_chain_option;

typedef struct mp_chain_block {
    int64_t output_bytes;
    int64_t pinned_bytes;       /* pinned storages that are live in a rerun of this block and in its backward */
    int64_t first_pinned_bytes; /* pinned storages that are live in its first run */
    int64_t gradient_bytes;     /* gradients that are live between the backward of the next block and of this one */
    mp_chain_run first;         /* all forward nodes of the block */
    mp_chain_run advance;       /* only the forward nodes that the output depends on */
    mp_chain_need first_need, advance_need;
    mp_chain_run alone; /* backward right after forward: in the last block its first run, in others a rerun of what backward
                         * lacks */
    mp_chain_need alone_need;
    size_t n_options;
    mp_chain_option options[MP_CHAIN_OPTIONS]; /* the last block has none */
} mp_chain_block;

typedef struct mp_chain {
    const mp_graph *graph;
    int n; /* number of blocks */
    mp_chain_block *blocks;
    int *block;          /* per node: its block, -1 for updates */
    int *backward;       /* loss and backward nodes in the order in which they run */
    int *backward_start; /* block k has backward[backward_start[k] .. + n_backward[k]) */
    int *n_backward;
    int *producer_block; /* per storage: the block that produces it, -1: none or always live */
    int *last_user; /* per backward or pinned storage: the block whose backward is its last user, -1: it lives beyond all */
    bool *pinned;   /* per storage of a forward node: it is live whatever the blocks keep */
    bool *crosses;  /* per storage: part of the output of its block */
    mp_pool *pool;  /* owns the arrays of all runs */
} mp_chain;

/* Makes the chain of blocks that end at ends[0..boundaries->n) (the last position always ends one), without times and bytes.
 * Released with mp_chain_free (NULL is fine). MP_NOT_APPLICABLE: no backward phase, or data flow that is no chain. MP_NOMEM.
 * O(list lengths). */
mp_status mp_chain_new(const mp_boundaries *boundaries, const bool *ends, mp_chain **out, mp_error *err);
void mp_chain_free(mp_chain *chain);
MP_OWNER(mp_chain_free, mp_chain)

/* ---- chain_measure.c: the ways to run each block, with their ticks and bytes ---- */

/* Fills in the options of every block with their ticks and bytes. MP_NOMEM. O(blocks * nodes + options * list lengths), and
 * a bounded number of steps per block to order what can be dropped. */
mp_status mp_chain_measure(mp_chain *chain, mp_error *err);

/* ---- chain_table.c: the cheapest persistent schedule of every stretch of a chain ---- */

/* The cheapest persistent schedules for every memory of 0 .. n_slots slots: dynamic programming over (first block, last block,
 * slots). */
typedef struct mp_chain_table {
    const mp_chain *chain;
    int64_t slot_bytes;
    int n_slots;
    int64_t *ticks;  /* per stretch and number of slots: the least ticks in addition to the first pass */
    uint8_t *choice; /* per stretch and number of slots: the code of the choice */
} mp_chain_table;

enum { MP_CHAIN_NEVER = -1 };

/* Solves for every memory from 0 to mp_chain_whole_bytes, or to 1/part of it: the same table, cut off. All bytes are rounded up
 * to slots, so that no schedule needs more than its slots. *out is NULL if the search was stopped meanwhile (`search` may be
 * NULL), else released with mp_chain_table_free. MP_NOMEM. O(blocks^3 * slots) time, 9 * blocks^2 * slots bytes. */
mp_status mp_chain_solve(const mp_chain *chain, int part, mp_search *search, mp_chain_table **out, mp_error *err);
void mp_chain_table_free(mp_chain_table *table);
MP_OWNER(mp_chain_table_free, mp_chain_table)
/* Returns the bytes that the chain needs, static ones excluded, if everything that backward reads is kept. */
int64_t mp_chain_whole_bytes(const mp_chain *chain);
/* Returns the ticks of recomputation in this many slots of memory, MP_CHAIN_NEVER if they do not suffice. */
int64_t mp_chain_ticks(const mp_chain_table *table, int slots);

/* The blocks [begin, end), and the memory for them in slots. */
typedef struct mp_chain_stretch {
    int begin, end, slots;
    bool owns_input; /* true if the input of the first block counts in these slots and may be freed */
} mp_chain_stretch;

/* How to run a stretch. With an option: the first block's forward, `after`, the first block's backward. Without: forward up
 * to `after`, then `after`, then `before`; if there is no `after`, the one block at once. A stretch without blocks has begin
 * >= end. */
typedef struct mp_chain_choice {
    int option; /* -1: none */
    mp_chain_stretch after, before;
} mp_chain_choice;
mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch stretch);

/* ---- chain.c: where blocks end, and the schedule ---- */

/* The kind of positions where blocks may end: cut tensors, or seams (chain.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Finds the ends of at most MP_CHAIN_BLOCKS blocks, without the last block's; *n_ends is 0 if there are none. `ends` has
 * boundaries->n elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);

/* Gives the schedule within these slots, which must suffice; *steps is released with mp_free. MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);

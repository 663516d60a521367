/* chain.h - the searcher `chain`: finds the fastest persistent schedule of a chain of blocks within a given memory (Beaumont et
 * al. 2019). In a persistent schedule, a storage that is kept for backward is never evicted before backward has read it. */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/order/boundaries.h"

/* A list of nodes of one block of the chain, in the order in which they run. */
typedef struct mp_chain_run {
    int *nodes;
    size_t n;
    int64_t ticks; /* sum of the ticks of the forward nodes in the list */
} mp_chain_run;

/* The peak bytes while a list of nodes runs. Storages kept by other blocks are not included. bytes[1] counts the block's input
 * until its last read. bytes[0] does not count it. */
typedef struct mp_chain_need {
    int64_t bytes[2];
} mp_chain_need;

/* One way to run a block forward and later backward. The first option keeps all storages that the block's backward nodes read.
 * Each later option keeps fewer storages. */
typedef struct mp_chain_option {
    int64_t kept_bytes; /* bytes of the storages that stay live from the block's forward to its backward */
    bool frees_input;   /* true if the block's backward does not need the block's input */
    bool keeps_output;  /* true: kept_bytes contains the bytes of the block's whole output */
    /* rerun: the nodes of the block's forward, in every pass but the first; backward: the nodes of its backward, with
     * recomputations */
    /* peak bytes while the block's forward runs. first_need: in the first pass, pinned storages counted. rerun_need: in later
     * passes, pinned storages not counted */
    mp_chain_run rerun, backward;
    mp_chain_need first_need, rerun_need;
    int64_t movable_bytes;  /* part of kept_bytes that may be offloaded to another tier (docs/internals/offload.md) */
    int n_movable;          /* number of storages in movable_bytes */
    int64_t backward_bytes; /* peak bytes while `backward` runs, with the block's kept storages and gradients */
} mp_chain_option;

typedef struct mp_chain_block {
    int64_t output_bytes;
    int64_t pinned_bytes;       /* bytes of pinned storages that are live while the block is rerun and during its backward */
    int64_t first_pinned_bytes; /* bytes of pinned storages that are live while the block runs for the first time */
    /* bytes of the gradients that are live between the backward of the next block and the backward of this block */
    int64_t gradient_bytes;
    mp_chain_run first;   /* the nodes that the first pass runs: all forward nodes of the block */
    mp_chain_run advance; /* the nodes that a later pass runs if nothing is kept: those that the block's output requires */
    mp_chain_need first_need, advance_need;
    /* the nodes of the block's forward, directly followed by the nodes of its backward. In the last block of the chain, all
     * forward nodes run, because this is their first run. In other blocks, only recomputations run that backward requires */
    mp_chain_run alone;
    mp_chain_need alone_need;
    size_t n_options;
    mp_chain_option options[MP_CHAIN_OPTIONS]; /* empty for the last block */
} mp_chain_block;

typedef struct mp_chain {
    const mp_graph *graph;
    int n; /* number of blocks */
    mp_chain_block *blocks;
    int *block;          /* per node: the block to which it belongs; -1: an update */
    int *backward;       /* the loss and backward nodes in execution order */
    int *backward_start; /* the backward nodes of block k are backward[backward_start[k] .. + n_backward[k]) */
    int *n_backward;
    int *producer_block; /* per storage: the block that produces it; -1: none, or static */
    /* per backward or pinned storage: the block with the last backward node that uses it; -1: it is live after the last
     * block */
    int *last_user;
    bool *pinned;  /* per storage of a forward node: it stays live whichever options the blocks use */
    bool *crosses; /* per storage: it belongs to the output of its block, so that the next block reads it */
    mp_pool *pool; /* owns the lists of nodes of all mp_chain_run */
} mp_chain;

/* Creates the chain of blocks that end at the positions marked in ends[0..boundaries->n). Ticks and bytes are not computed yet.
 * The last position always ends a block. Release with mp_chain_free (NULL is allowed). MP_NOT_APPLICABLE: no backward phase, or
 * the blocks do not form a chain. MP_NOMEM. O(list lengths). */
mp_status mp_chain_new(const mp_boundaries *boundaries, const bool *ends, mp_chain **out, mp_error *err);
void mp_chain_free(mp_chain *chain);
MP_OWNER(mp_chain_free, mp_chain)

/* ---- chain_measure.c: the options of each block, with their ticks and bytes ---- */

/* Computes the options of every block, with ticks and bytes. MP_NOMEM. O(blocks * nodes + options * list lengths). The storages
 * that an option may omit are sorted in a bounded number of steps per block. */
mp_status mp_chain_measure(mp_chain *chain, mp_error *err);

/* ---- chain_table.c: the fastest persistent schedule of every range of blocks ---- */

/* The fastest persistent schedule of every range of blocks in every size of memory, from 0 to n_slots slots of slot_bytes.
 * Computed by dynamic programming over (first block, last block, slots). */
typedef struct mp_chain_table {
    const mp_chain *chain;
    int64_t slot_bytes;
    int n_slots;
    int64_t *ticks; /* per range and number of slots: the least ticks of recomputation, without the first pass */
    /* per range of blocks and number of slots: the first decision (mp_chain_choice, encoded) of the schedule with the least
     * ticks */
    uint8_t *choice;
} mp_chain_table;

enum { MP_CHAIN_NEVER = -1 };

/* Computes the table for memories of up to mp_chain_whole_bytes / part bytes. The bytes of storages are rounded up to slots, so
 * no schedule exceeds its slots. *out is NULL if the search was stopped (`search` may be NULL). Otherwise release it with
 * mp_chain_table_free. MP_NOMEM. O(blocks^3 * slots) time, 9 * blocks^2 * slots bytes. */
mp_status mp_chain_solve(const mp_chain *chain, int part, mp_search *search, mp_chain_table **out, mp_error *err);
void mp_chain_table_free(mp_chain_table *table);
MP_OWNER(mp_chain_table_free, mp_chain_table)
/* Returns the peak bytes of the chain, without static bytes, if every storage that backward reads is kept. */
int64_t mp_chain_whole_bytes(const mp_chain *chain);
/* Returns the least ticks of recomputation of the whole chain in this number of slots; MP_CHAIN_NEVER if the memory is too
 * small. */
int64_t mp_chain_ticks(const mp_chain_table *table, int slots);

/* A range of blocks [begin, end), and the number of slots in which it must run. */
typedef struct mp_chain_stretch {
    int begin, end, slots;
    bool owns_input; /* true if `slots` includes the input of the first block, which may then be freed */
} mp_chain_stretch;

/* The first decision in the schedule of a range of blocks. It may divide the range in `after` (the later blocks) and `before`
 * (the earlier blocks).
 * - With an option of the first block: run the block's forward, then `after`, then the block's backward.
 * - Without an option: run forward up to the begin of `after` and keep nothing, then run `after`, then `before`.
 * - Without an option and without `after`: the range is a single block, run forward and backward at once.
 *
 * A range without blocks has begin >= end. */
typedef struct mp_chain_choice {
    int option; /* index of the chosen option of the first block; -1: no option is used */
    mp_chain_stretch after, before;
} mp_chain_choice;
mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch stretch);

/* ---- chain.c: the positions at which blocks end, and the schedule ---- */

/* The kind of positions at which blocks may end: cut tensors, or seams (chain.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Marks in `ends` the positions at which blocks end, except the last position. There are at most MP_CHAIN_BLOCKS blocks.
 * *n_ends is 0 if no position is suitable. `ends` has boundaries->n elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);

/* Returns the schedule of the whole chain in this number of slots, which must be sufficient. Release *steps with mp_free.
 * MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);

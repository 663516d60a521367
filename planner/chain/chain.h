/* chain.h - the searcher `chain`: finds the fastest persistent schedule of a chain of blocks within a given memory (Beaumont
 * et al. 2019). In a persistent schedule, a storage kept for backward stays live until backward has read it. */
#pragma once

#include "memplan/memory.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/order/boundaries.h"

/* Nodes of one block that run one after the other. */
typedef struct mp_chain_run {
    int *nodes;
    size_t n;
    int64_t ticks; /* ticks of the forward nodes among `nodes` */
} mp_chain_run;

/* The peak bytes while a list of nodes runs, without storages kept by other blocks. bytes[1] includes the block's input, which
 * is freed after its last read. bytes[0] excludes the input. */
typedef struct mp_chain_need {
    int64_t bytes[2];
} mp_chain_need;

/* One way to run a block forward and later backward. The first option of a block keeps everything that its backward nodes read.
 * Later options keep less and less. */
typedef struct mp_chain_option {
    int64_t kept_bytes; /* bytes that are live from the block's forward to its backward */
    bool frees_input;   /* backward does not need the block's input */
    bool keeps_output;  /* kept_bytes contains the block's whole output */
    /* nodes of forward in every pass except the first; nodes of backward with its recomputations */
    /* needs of forward: in the first pass, with pinned storages; in later passes, without them */
    mp_chain_run rerun, backward;
    mp_chain_need first_need, rerun_need;
    int64_t movable_bytes;  /* part of kept_bytes that may be offloaded to another tier (docs/internals/offload.md) */
    int n_movable;          /* number of storages in movable_bytes */
    int64_t backward_bytes; /* peak bytes while `backward` runs, including the block's kept storages and gradients */
} mp_chain_option;

typedef struct mp_chain_block {
    int64_t output_bytes;
    int64_t pinned_bytes;       /* bytes of pinned storages that are live in a rerun of the block and in its backward */
    int64_t first_pinned_bytes; /* bytes of pinned storages that are live in the first run of the block */
    int64_t gradient_bytes;     /* bytes of gradients that are live between the backward of the next block and of this block */
    mp_chain_run first;         /* all forward nodes of the block, for the first pass */
    mp_chain_run advance;       /* only the forward nodes that the block's output requires */
    mp_chain_need first_need, advance_need;
    mp_chain_run alone; /* forward directly followed by backward: for the last block its first run, for other blocks a rerun of
                           the storages that backward reads and that are not live */
    mp_chain_need alone_need;
    size_t n_options;
    mp_chain_option options[MP_CHAIN_OPTIONS]; /* empty for the last block */
} mp_chain_block;

typedef struct mp_chain {
    const mp_graph *graph;
    int n; /* number of blocks */
    mp_chain_block *blocks;
    int *block;          /* per node: its block; -1: an update */
    int *backward;       /* loss and backward nodes in execution order */
    int *backward_start; /* block k has backward[backward_start[k] .. + n_backward[k]) */
    int *n_backward;
    int *producer_block; /* per storage: the block that produces it; -1: none, or static */
    /* per backward or pinned storage: the block with the last backward node that uses it; -1: it outlives all blocks */
    int *last_user;
    bool *pinned;  /* per storage of a forward node: it is live regardless of the blocks' options */
    bool *crosses; /* per storage: it is part of the output of its block */
    mp_pool *pool; /* owns the arrays of all mp_chain_run */
} mp_chain;

/* Creates the chain of blocks that end at ends[0..boundaries->n), without times and bytes. The last position always ends a
 * block. Release with mp_chain_free (NULL is allowed). MP_NOT_APPLICABLE: no backward phase, or the data flow is not a chain.
 * MP_NOMEM. O(list lengths). */
mp_status mp_chain_new(const mp_boundaries *boundaries, const bool *ends, mp_chain **out, mp_error *err);
void mp_chain_free(mp_chain *chain);
MP_OWNER(mp_chain_free, mp_chain)

/* ---- chain_measure.c: the ways to run each block, with their ticks and bytes ---- */

/* Computes the options of every block with their ticks and bytes. MP_NOMEM. O(blocks * nodes + options * list lengths), and a
 * bounded number of steps per block to order the storages that can be dropped. */
mp_status mp_chain_measure(mp_chain *chain, mp_error *err);

/* ---- chain_table.c: the cheapest persistent schedule of every range of blocks ---- */

/* The fastest persistent schedules of every range of blocks, for every memory of 0 to n_slots slots of slot_bytes. Dynamic
 * programming over (first block, last block, slots). */
typedef struct mp_chain_table {
    const mp_chain *chain;
    int64_t slot_bytes;
    int n_slots;
    int64_t *ticks;  /* per range and number of slots: the least ticks of recomputation beyond the first pass */
    uint8_t *choice; /* per range and number of slots: the code of the mp_chain_choice with these ticks */
} mp_chain_table;

enum { MP_CHAIN_NEVER = -1 };

/* Computes the table for every memory up to mp_chain_whole_bytes / part. Bytes are rounded up to slots, so no schedule exceeds
 * its slots. *out is NULL if the search was stopped (`search` may be NULL). Otherwise release it with mp_chain_table_free.
 * MP_NOMEM. O(blocks^3 * slots) time, 9 * blocks^2 * slots bytes. */
mp_status mp_chain_solve(const mp_chain *chain, int part, mp_search *search, mp_chain_table **out, mp_error *err);
void mp_chain_table_free(mp_chain_table *table);
MP_OWNER(mp_chain_table_free, mp_chain_table)
/* Returns the peak bytes of the chain, without static bytes, if everything that backward reads is kept. */
int64_t mp_chain_whole_bytes(const mp_chain *chain);
/* Returns the least ticks of recomputation with this number of slots of memory; MP_CHAIN_NEVER if the memory is too small. */
int64_t mp_chain_ticks(const mp_chain_table *table, int slots);

/* The blocks [begin, end), and their memory in slots. */
typedef struct mp_chain_stretch {
    int begin, end, slots;
    bool owns_input; /* the input of the first block is part of these slots and may be freed */
} mp_chain_stretch;

/* The first decision in the schedule of a range of blocks. `after` contains the later blocks of the range, `before` the
 * earlier ones.
 * - With an option: the first block's forward, `after`, the first block's backward.
 * - Without an option: forward up to the begin of `after`, then `after`, then `before`.
 * - Without an option and without `after`: the range is a single block, run forward and backward at once.
 *
 * A range without blocks has begin >= end. */
typedef struct mp_chain_choice {
    int option; /* index in the options of the first block; -1: none */
    mp_chain_stretch after, before;
} mp_chain_choice;
mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch stretch);

/* ---- chain.c: block ends, and the schedule ---- */

/* The kind of positions where blocks may end: cut tensors, or seams (chain.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Finds the ends of at most MP_CHAIN_BLOCKS blocks, not counting the end of the last block. *n_ends is 0 if there are none.
 * `ends` has boundaries->n elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);

/* Returns the schedule for this number of slots, which must suffice. Release *steps with mp_free. MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);

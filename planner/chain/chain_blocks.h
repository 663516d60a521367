/* chain_blocks.h - a training graph as a chain of blocks.
 *
 * The forward list is cut into blocks at positions where little crosses. A block's `output` is what crosses its end and is read
 * by the next block only; what is read from further away, is small, or comes from a node that runs once is pinned: live from
 * its first production to its last reader. Backward is cut into the same blocks, from the last to the first.
 *
 * A block may run forward in these ways: `advance` keeps only its output; an option keeps its output and besides some of what
 * its backward nodes read. Its backward nodes follow what they lack, recomputed from the block's input.
 *
 * Sources: Beaumont et al. 2019, "Optimal checkpointing for heterogeneous chains" (rotor); Gruslys et al. 2016,
 * "Memory-efficient backpropagation through time" (options that need the block's input no more).
 */
#pragma once

#include "estimator/base/memory.h"
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

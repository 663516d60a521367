/* loads.h - what a network asks of its ranks, block by block: seconds, and bytes for each way to keep less.
 *
 * The blocks and the ways to run them are those of the searcher `chain` (planner/chain): a block ends at a cut tensor, its
 * first option keeps all that its backward reads, later ones less, and each says what is recomputed for that. Blocks that are
 * equal are measured alike, so that a search over thousands of splits asks for a graph once per network, split and batch.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_LOAD_OPTIONS = 9 };

/* One way to run a block forward and later backward. */
typedef struct mp_load_option {
    int64_t kept_bytes;      /* from the block's forward to its backward, for one micro-batch */
    int64_t extra_ticks;     /* of recomputation */
    int64_t transient_bytes; /* beyond what is kept, while its forward or backward runs */
    int64_t movable_bytes;   /* of what is kept: it may be copied to the host and back instead */
    int n_movable;           /* in so many copies */
} mp_load_option;

typedef struct mp_block_load {
    int64_t forward_ticks, backward_ticks; /* without recomputation */
    int64_t weights_ticks;                 /* of backward: of what makes gradients of parameters alone, which may wait */
    int64_t weights_bytes;                 /* that this reads of a micro-batch, each storage once */
    int64_t output_bytes;                  /* what the next block reads */
    int64_t movable_output_bytes;          /* of these: what may be copied to the host, in n_movable_outputs copies */
    int n_movable_outputs;
    int64_t largest_bytes; /* the most that one of its nodes reads and works with */
    int n_options;
    mp_load_option options[MP_LOAD_OPTIONS]; /* ascending in ticks, descending in bytes */
} mp_block_load;

/* A parameter; of a frozen one there is the value alone. */
typedef struct mp_parameter_load {
    int64_t value_bytes, gradient_bytes, state_bytes, update_ticks;
    int widened;     /* ranks hold so many times these bytes of values and gradients: 2 where they exchange 16 bits of 32 */
    bool is_part;    /* each rank of tp has a part of the gradient's sum */
    bool is_spread;  /* of experts of which other ranks of ep have others */
    int first, last; /* blocks that read it: a tied embedding is read at both ends */
} mp_parameter_load;

typedef struct mp_load {
    mp_pool *pool; /* owns the arrays */
    double tick_seconds;
    int64_t sent_bytes;  /* of a micro-batch: by operators to other ranks. Its owner sets it */
    int64_t other_bytes; /* always live besides parameters, gradients and state: the batch, buffers, constants */
    int n_blocks;
    mp_block_load *blocks;
    int *block; /* per node: its block; -1: an update */
    size_t n_parameters;
    mp_parameter_load *parameters;
} mp_load;

/* Measures a training graph; a network without cut tensors is one block. `merged` blocks, 1 or more, are taken as one, whose
 * options keep less than theirs do together: not what each of them reads. *out is released with mp_load_free (NULL is fine).
 * MP_NOT_APPLICABLE: no backward phase. MP_NOMEM. O(blocks * list lengths). */
mp_status mp_load_of(const mp_graph *graph, int merged, mp_load **out, mp_error *err);
void mp_load_free(mp_load *load);

/* True if a backward node makes gradients of parameters alone, so that no other stage waits for it. */
bool mp_makes_weights_alone(const mp_graph *graph, const mp_node *node);
MP_OWNER(mp_load_free, mp_load)

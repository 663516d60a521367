/* loads.h - the cost of a network per block: ticks, and the bytes kept under each recomputation option.
 *
 * Blocks and options are those of the searcher `chain` (planner/chain). A block ends at a cut tensor. The first option of a
 * block keeps everything that its backward reads. Each later option keeps less and recomputes more. Equal blocks are measured
 * once. Graphs are reused: a search over thousands of meshes builds one graph per network, tensor split and micro-batch. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_LOAD_OPTIONS = 9 };

/* One recomputation option of a block. */
typedef struct mp_load_option {
    int64_t kept_bytes;      /* bytes per micro-batch that are live from the block's forward to its backward */
    int64_t extra_ticks;     /* ticks of recomputation */
    int64_t transient_bytes; /* peak bytes beyond kept_bytes while the block's forward or backward runs */
    int64_t movable_bytes;   /* part of kept_bytes that may be copied to the host and back */
    int n_movable;           /* number of copies that move movable_bytes */
} mp_load_option;

typedef struct mp_block_load {
    /* ticks per micro-batch of the block's forward and of its backward, without recomputation */
    int64_t forward_ticks, backward_ticks;
    int64_t weights_ticks; /* ticks of the backward nodes that compute weight gradients only and may be postponed (ZB-H1) */
    int64_t weights_bytes; /* bytes that these nodes read per micro-batch, each storage once */
    int64_t output_bytes;  /* bytes that the next block reads */
    int64_t movable_output_bytes; /* part of output_bytes that may be copied to the host, in n_movable_outputs copies */
    int n_movable_outputs;
    int64_t largest_bytes; /* bytes of operands and workspace of the block's largest node */
    int n_options;
    mp_load_option options[MP_LOAD_OPTIONS]; /* sorted by ascending extra_ticks and descending kept_bytes */
} mp_block_load;

/* One parameter. A frozen parameter has value_bytes only. */
typedef struct mp_parameter_load {
    int64_t value_bytes, gradient_bytes, state_bytes, update_ticks;
    int widened;  /* factor on the bytes of values and gradients on a rank: 2 if ranks exchange 16-bit copies of 32-bit values,
                     otherwise 1 */
    bool is_part; /* each rank of tp holds a partial sum of the gradient */
    bool is_spread;  /* it belongs to an expert; the ranks of direction ep hold different experts */
    int first, last; /* first and last block that read it; a tied embedding is read at both ends */
} mp_parameter_load;

typedef struct mp_load {
    mp_pool *pool; /* owns the arrays */
    double tick_seconds;
    int64_t sent_bytes;  /* per micro-batch: bytes that operators send to other ranks. The caller sets it */
    int64_t other_bytes; /* bytes that are live all the time, without parameters, gradients and optimizer state: batch, buffers,
                            constants */
    int n_blocks;
    mp_block_load *blocks;
    int *block; /* per node: its block; -1: an update */
    size_t n_parameters;
    mp_parameter_load *parameters;
} mp_load;

/* Measures a training graph. A network without cut tensors is one block. If `merged` is above 1, that number of neighbouring
 * blocks becomes one block. Its options can keep less, since they need not keep the inputs of the inner blocks. Release *out
 * with mp_load_free (NULL is allowed). MP_NOT_APPLICABLE: the graph has no backward phase. MP_NOMEM. O(blocks * list
 * lengths). */
mp_status mp_load_of(const mp_graph *graph, int merged, mp_load **out, mp_error *err);
void mp_load_free(mp_load *load);

/* True if a backward node computes weight gradients alone, so that no other stage waits for it. */
bool mp_makes_weights_alone(const mp_graph *graph, const mp_node *node);
MP_OWNER(mp_load_free, mp_load)

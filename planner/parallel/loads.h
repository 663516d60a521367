/* loads.h - the load of a network: per block the ticks, and the bytes kept with each recomputation option. Blocks and options
 * are those of the searcher `chain` (planner/chain). A block ends at a cut tensor. The first option of a block keeps everything
 * that its backward reads. Each later option keeps less and recomputes more. A load is measured once and reused: a search over
 * thousands of meshes builds only one graph for each combination of network, tensor split and micro-batch size. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MP_LOAD_OPTIONS = 9 };

/* One recomputation option of a block: the bytes that it keeps, and the ticks that it recomputes. */
typedef struct mp_load_option {
    int64_t kept_bytes;  /* bytes of one micro-batch that are live from the block's forward to its backward */
    int64_t extra_ticks; /* ticks of recomputation */
    /* the part of extra_ticks that exchanges of gradients over tp hide under PyTorch's rules */
    int64_t hidden_ticks;
    int64_t transient_bytes; /* peak bytes while the block's forward or backward runs, less kept_bytes */
    int64_t movable_bytes;   /* part of kept_bytes that may be offloaded to the host */
    int n_movable;           /* number of copies for movable_bytes */
} mp_load_option;

typedef struct mp_block_load {
    /* ticks of one micro-batch in the block's forward and in its backward, without recomputation */
    int64_t forward_ticks, backward_ticks;
    /* part of backward_ticks: backward nodes that only compute weight gradients, and so may be postponed (ZB-H1) */
    int64_t weights_ticks;
    int64_t weights_bytes;        /* bytes of one micro-batch that the postponed nodes read, each storage once */
    int64_t sent_bytes;           /* bytes of one micro-batch that the operators of the block send to other ranks */
    int64_t output_bytes;         /* bytes of the block's output, which the next block reads */
    int64_t movable_output_bytes; /* part of output_bytes that may be offloaded to the host, in n_movable_outputs copies */
    int n_movable_outputs;
    int64_t largest_bytes; /* bytes of operands and workspace of the node of the block that needs the most */
    int n_options;
    mp_load_option options[MP_LOAD_OPTIONS]; /* the options, by ascending extra_ticks and descending kept_bytes */
} mp_block_load;

/* The load of one parameter. A frozen parameter has value_bytes only. */
typedef struct mp_parameter_load {
    int64_t value_bytes, gradient_bytes, state_bytes, update_ticks;
    /* factor on the bytes of values and gradients on a rank: 2 if the rank also holds 16-bit copies of 32-bit values for
     * communication, otherwise 1 */
    int widened;
    bool is_part;   /* true: the gradient on each rank of tp is a partial sum, so these ranks must sum it */
    bool is_spread; /* true: the parameter belongs to an expert, and the ranks of direction ep hold different experts */
    /* the first and the last block that read the parameter; they differ for a tied embedding, which is read at both ends */
    int first, last;
} mp_parameter_load;

typedef struct mp_load {
    mp_pool *pool; /* owns the arrays */
    double tick_seconds;
    int64_t other_bytes; /* static bytes other than parameters, gradients and optimizer state: batch, buffers, constants */
    int n_blocks;
    mp_block_load *blocks;
    int *block; /* per node: the block to which it belongs; -1: the node is an update */
    size_t n_parameters;
    mp_parameter_load *parameters;
} mp_load;

/* Measures the load of a training graph. A network without cut tensors is one block. If `merged` is above 1, that number of
 * neighbouring blocks becomes one block. The options of a merged block can keep less, because the inputs of its inner blocks
 * need not be kept. Release *out with mp_load_free (NULL is allowed). MP_NOT_APPLICABLE: the graph has no backward phase.
 * MP_NOMEM. O(blocks * list lengths). */
mp_status mp_load_of(const mp_graph *graph, int merged, mp_load **out, mp_error *err);
void mp_load_free(mp_load *load);
MP_OWNER(mp_load_free, mp_load)

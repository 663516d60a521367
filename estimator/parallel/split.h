/* split.h - a model whose operators are split over the ranks of one dimension of a mesh.
 *
 * Every tensor lies whole on each rank, or each rank has a part of one of its dimensions. Operators are gone through in order,
 * and each is split by one of its factors (factors.h), or works on whole tensors:
 *
 *  - a product with a weight that reads whole data is split by the weight's columns; one that reads data of which each rank has
 *    a part along the contracted dimension by its rows: then the partial results are summed over the ranks. A look-up is split
 *    by the table's rows if the table is larger than what is read of it;
 *  - anything else is split as its first operand that is in parts; what cannot be, gets its operands gathered. What has been
 *    gathered so is whole for all that follow.
 *
 * So the columns of a block's first product and the rows of its last one meet, with one sum per pair in forward and one in
 * backward (Shoeybi et al. 2019, "Megatron-LM"). With `sequence` such a sum leaves each rank its part of the sequence, so that
 * what stands between two pairs is split too (Korthikanti et al. 2022). Parameters are made as parts. What crosses ranks is an
 * operator of the domain "memplan": AllReduce, Replicate (the same value, whose gradient is a sum over the ranks), AllGather,
 * Assemble, ReduceScatter, TakePart. A gathered tensor is an activation like any other, which a plan may drop and gather again.
 *
 * With `data` the ranks share the batch out, and only weights are split whose gradients would take longer to sum than what the
 * operator reads and makes takes to exchange: a last classifier of 100,000 classes (Krizhevsky 2014, "One weird trick for
 * parallelizing convolutional neural networks"). A parameter that is whole on ranks which see different samples, or parts of
 * the sequence, is marked (is_summed): its gradient is summed as those of data parallelism are.
 *
 *     hidden [8, 1024, 768], tp=4, sequence        forward                          backward
 *     normalized [8, 256, 768]                      AllGather -> [8, 1024, 768]      ReduceScatter
 *     up: weight [768, 768] of [768, 3072]          [8, 1024, 768]                   by columns: no exchange
 *     gelu                                          [8, 1024, 768]
 *     down: weight [768, 768] of [3072, 768]        partial sums [8, 1024, 768],
 *                                                   ReduceScatter -> [8, 256, 768]   AllGather
 */
#pragma once

#include "estimator/model/order.h"
#include "estimator/rules/factors/factors.h"
#include "memplan/ranks/exchange.h"
#include "memplan/target.h"

/* How a tensor of the split model lies: each rank has 1/n of a dimension. Its elements are dealt in `outer` runs, of each of
 * which every rank has its part: rows of a batch, say. */
typedef struct mp_shard {
    int dim; /* -1: whole */
    int64_t outer;
} mp_shard;

typedef struct mp_split {
    mp_rank_group group;
    size_t n_tensors;
    mp_shard *placements;            /* per tensor of the split model */
    int64_t whole_bytes, part_bytes; /* of parameters: before, and of this rank */
    size_t n_gathered;               /* tensors that had to be put together for an operator that is not split */
    const char *gathered_for;        /* the first such operator; NULL: none */
    const char *misdealt_for;        /* the first operator whose elements ranks would need in another order; NULL: none */
} mp_split;
void mp_split_free(mp_split *split); /* of the placements */

/* Splits a simplified model with its loss over mesh.tp, in place; for a group of one it does nothing. The model has no program
 * of a backend yet. Release *out with mp_split_free. MP_NOMEM. O(operands). */
mp_status mp_model_split(mp_model *model, const mp_ranks *ranks, mp_split *out, mp_error *err);

/* Returns how many pieces of one size an operator cuts a tensor into, or joins, along the dimension that carries a factor; 1:
 * it does neither there; 0: they are of several sizes. O(operands). */
int64_t mp_split_pieces(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int factor);
/* Returns into how many pieces the last dimension of a product is cut by what reads it; each can be shared out. */
int64_t mp_split_pieces_of_columns(const mp_model *model, const mp_consumers *readers, int64_t ranks, int tensor);

/* Returns how a tensor lies that has the elements of one in parts in another shape; whole where that has no such parts. */
mp_shard mp_split_reshaped(const mp_tensor *from, mp_shard at, const mp_tensor *to);

/* Marks parameters of whose gradient each rank has a part, and takes out the Replicate of each. Called by mp_model_split.
 * MP_NOMEM. O(operands). */
mp_status mp_split_mark_sums(mp_model *model, mp_error *err);

/* Prices what a node sends while it runs: the seconds of an exchange of a split model instead of *cost, to which a loss and
 * shared statistics add; *traffic counts it. O(rank). */
void mp_split_cost(const mp_ranks *ranks, const mp_work *work, mp_cost *cost, mp_rank_traffic *traffic);

/* Returns the target `own` with exchanges between ranks at the network's rate; `space` keeps what it needs. */
typedef struct mp_split_target {
    const mp_target *own;
    const mp_ranks *ranks;
    mp_rank_traffic traffic; /* of all nodes so far */
} mp_split_target;
mp_target mp_target_of_split(mp_split_target *space);

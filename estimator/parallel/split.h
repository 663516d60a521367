/* split.h - tensor parallelism: splits the operators of a model over the ranks of one mesh dimension.
 *
 * Every tensor is replicated, or each rank holds a shard along one dimension. Operators are processed in order. Each is split
 * along one of its factors (factors.h), or runs on replicated tensors:
 *
 * - A product of a weight with replicated data is split by the weight's columns. A product with data that is sharded along the
 *   contracted dimension is split by the weight's rows, and the partial results are summed over the ranks. A look-up is split
 *   by the table's rows if the table is larger than the rows read from it.
 * - Any other operator is split like its first sharded operand. If an operator cannot be split, its operands are gathered. A
 *   gathered tensor is replicated for all later readers.
 *
 * As a result, the first product of a block is split by columns and the last one by rows (Shoeybi et al. 2019, "Megatron-LM").
 * Each pair of products has one sum over the ranks in forward and one in backward. With `sequence`, such a sum leaves each rank
 * its shard of the sequence, so the operators between two pairs are split too (Korthikanti et al. 2022). Parameters are created
 * as shards. Collectives are operators of the domain "memplan": AllReduce, Replicate (the same value, whose gradient is a sum
 * over the ranks), AllGather, Assemble, ReduceScatter, TakePart. A gathered tensor is an ordinary activation, which a plan may
 * drop and gather again.
 *
 * With `data`, the ranks shard the batch. A weight is split only if summing its gradient would take longer than exchanging the
 * operator's input and output. Example: a final classifier with 100,000 classes (Krizhevsky 2014, "One weird trick for
 * parallelizing convolutional neural networks"). A parameter that is replicated on ranks with different samples, or different
 * shards of the sequence, is marked (is_summed). Its gradient is summed as in data parallelism.
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

/* The placement of a tensor in the split model: replicated, or each rank holds 1/n of one dimension. The dimension is
 * divided into `outer` runs, such as one per sample of a batch, and every rank holds an equal share of each run. */
typedef struct mp_shard {
    int dim; /* index of the sharded dimension; -1: the tensor is replicated */
    int64_t outer;
} mp_shard;

typedef struct mp_split {
    mp_rank_group group;
    size_t n_tensors;
    mp_shard *placements; /* per tensor of the split model: its placement */
    /* bytes of all parameters: `whole_bytes` before the split, `part_bytes` on one rank after it */
    int64_t whole_bytes, part_bytes;
    size_t n_gathered;        /* number of tensors that are gathered because their reader cannot be split */
    const char *gathered_for; /* name of the first operator for which a tensor was gathered; NULL: none */
    const char *misdealt_for; /* name of the first operator that needed the elements of a tensor in another distribution over
                                 the ranks; NULL: none */
} mp_split;
void mp_split_free(mp_split *split); /* releases the array of placements, not the struct */

/* Splits a simplified model, including its loss, over the ranks of mesh.tp, in place. If tp is 1, the model is unchanged.
 * Call it before a backend prepares the model. Release *out with mp_split_free. MP_NOMEM. O(operands). */
mp_status mp_model_split(mp_model *model, const mp_ranks *ranks, mp_split *out, mp_error *err);

/* Returns the number of equal pieces into which an operator splits a tensor, or which it joins, along the dimension with
 * this factor. 1: the operator does neither. 0: the pieces have different sizes. O(operands). */
int64_t mp_split_pieces(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int factor);
/* Returns the number of pieces into which the readers of a product split its last dimension. Each rank can receive a share
 * of every piece. */
int64_t mp_split_pieces_of_columns(const mp_model *model, const mp_consumers *readers, int64_t ranks, int tensor);

/* Returns the placement of tensor `to`, a reshape of tensor `from` that has placement `at`. If no dimension of `to`
 * corresponds to the sharded one, the result is replicated. */
mp_shard mp_split_reshaped(const mp_tensor *from, mp_shard at, const mp_tensor *to);

/* Sets is_summed for parameters of whose gradient each rank computes a partial sum, and removes their Replicate operators.
 * Called by mp_model_split. MP_NOMEM. O(operands). */
mp_status mp_split_mark_sums(mp_model *model, mp_error *err);

/* Bytes that each rank sends to every other rank per position, if the classes of a loss are split: the largest score, the sum
 * of exponentials and the score of the target (mp_class_part of the executor). */
enum { MP_CLASS_PART_BYTES = 16 };
/* Returns the number of ranks over which the classes of a loss are split; 1: not split, or not a loss over classes. */
int64_t mp_class_loss_ranks(const mp_model *model, const mp_operator *op);
/* Returns the number of ranks over which the positions (targets) of a scalar loss over classes are split; 1: not split. */
int64_t mp_class_loss_sharers(const mp_model *model, const mp_operator *op);
/* True if the weights of positions are known only at run time, because classes have weights or targets can be ignored. The
 * ranks that share the positions then exchange the sums of their weights. */
bool mp_class_loss_is_counted(const mp_operator *op);

/* Sets the record of the collectives of a node, and adds their seconds to the cost. For a collective operator the seconds
 * replace those of the cost; for a loss or shared statistics they are added. O(rank). */
void mp_split_cost(const mp_ranks *ranks, const mp_work *work, mp_cost *cost);

/* A target that computes exchanges between ranks with the rates of the network, and all other nodes with target `own`.
 * mp_target_of_split returns it; `space` holds its state and must outlive it. */
typedef struct mp_split_target {
    const mp_target *own;
    const mp_ranks *ranks;
} mp_split_target;
mp_target mp_target_of_split(mp_split_target *space);

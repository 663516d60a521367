/* factors.h - splitting factors: the dimensions of an operator's operands and results that are split together over ranks.
 *
 * A factor is a positive number attached to dimensions of operands and results. To split an operator by a factor, each rank
 * takes its share of all dimensions with that factor, and all of the other dimensions. Example: in a product (M x K) (K x N),
 * factor N splits the second operand and the result by columns. A factor without a result dimension is summed over: with K
 * every rank computes a partial sum of the whole result. Dimensions without a factor (0) cannot be split. Examples are the
 * dimension of a softmax, or of a sliding window.
 *
 *     mp_operand_factors f;
 *     if (op->op->factors && op->op->factors(model, op, &f)) f.in[1][0];   // the factor of the first dimension of operand 1
 */
#pragma once

#include "estimator/model/ops.h"

enum { MP_FACTOR_OUTPUTS = 3 };

struct mp_operand_factors {
    int in[MP_OP_INPUTS][MP_RANK_MAX];       /* per dimension: its factor, > 0; 0: cannot be split */
    int out[MP_FACTOR_OUTPUTS][MP_RANK_MAX]; /* factors of the results' dimensions, in the same form as `in` */
    int columns, contracted; /* product with a weight: the factor of the weight's outputs, and of its inputs; else 0 */
    int rows;                /* look-up: the factor of the table's rows; else 0 */
    bool cuts, joins;        /* splits its operand into pieces, or joins operands, along any dimension */
    bool is_of_batch;        /* a normalization with statistics over all samples */
    int exchanged; /* the factor for which the operator itself exchanges a few numbers per line when it is split: the classes of
                      a loss */
};
typedef struct mp_operand_factors mp_operand_factors;

/* Returns the dimension of operand k, or of result k, with this factor; -1: none. O(rank). */
int mp_factor_of_input(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);
int mp_factor_of_output(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);

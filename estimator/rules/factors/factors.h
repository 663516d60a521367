/* factors.h - splitting factors: the dimensions of an operator's operands and results that are split together over ranks.
 *
 * A factor is a positive number attached to dimensions of operands and results. If an operator is split by a factor, each rank
 * computes with its share of every dimension that has this factor, and with the whole of all other dimensions. Example: in a
 * product (M x K) (K x N), factor N splits the second operand and the result by columns. If no result dimension has a factor,
 * results are sums over it: with factor K, every rank computes a partial sum of the whole result. Dimensions without a factor
 * (0) cannot be split. Examples are the dimension of a softmax, or of a sliding window.
 *
 *     mp_operand_factors f;
 *     if (op->op->factors && op->op->factors(model, op, &f)) f.in[1][0];   // the factor of the first dimension of operand 1
 */
#pragma once

#include "estimator/model/ops.h"

enum { MP_FACTOR_OUTPUTS = 3 };

struct mp_operand_factors {
    int in[MP_OP_INPUTS][MP_RANK_MAX];       /* per input and dimension: its factor, > 0; 0: the dimension cannot be split */
    int out[MP_FACTOR_OUTPUTS][MP_RANK_MAX]; /* per result and dimension: its factor, as in `in` */
    /* for a product with a weight. columns: the factor of the weight's output dimension; contracted: the factor of its input
     * dimension. Otherwise 0 */
    int columns, contracted;
    int rows; /* for a row look-up: the factor of the table's rows; else 0 */
    /* cuts: the operator splits its operand into pieces along a dimension. joins: it joins its operands along a dimension */
    bool cuts, joins;
    bool is_of_batch; /* true for a normalization with statistics over all samples */
    int exchanged; /* factor that the operator can be split by only if ranks exchange a few numbers per label: the classes of a
                      loss; 0: none */
};
typedef struct mp_operand_factors mp_operand_factors;

/* Returns the dimension of operand k, or of result k, with this factor; -1: none. O(rank). */
int mp_factor_of_input(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);
int mp_factor_of_output(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);

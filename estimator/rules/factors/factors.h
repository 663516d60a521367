/* factors.h - which dimensions of an operator's operands go together when it is split over ranks.
 *
 * A factor is a number that some dimensions of operands and results carry. To split the operator by a factor, each rank takes
 * its part of those dimensions and the whole of all others: of a product (M x K) (K x N) the factor N splits the second operand
 * and the result by columns. A factor that no result carries is summed over: with K every rank has a partial sum of the whole
 * result. Dimensions that carry none (0) have to be whole: those that a softmax runs along, or a window slides over.
 *
 *     mp_operand_factors f;
 *     if (op->op->factors && op->op->factors(model, op, &f)) f.in[1][0];   // the factor of the first dimension of operand 1
 */
#pragma once

#include "estimator/model/ops.h"

enum { MP_FACTOR_OUTPUTS = 3 };

struct mp_operand_factors {
    int in[MP_OP_INPUTS][MP_RANK_MAX];       /* per dimension: its factor, > 0; 0: it has to be whole */
    int out[MP_FACTOR_OUTPUTS][MP_RANK_MAX]; /* likewise */
    int columns, contracted; /* of a product with a weight: what splits the weight by its outputs, by its inputs; else 0 */
    int rows;                /* of a look-up: what splits the table by its rows; else 0 */
    bool cuts, joins;        /* gives pieces of its operand, or joins operands, along any dimension */
    bool is_of_batch;        /* a normalization whose statistics are over all samples */
    int exchanged; /* the operator itself exchanges a few numbers per line when it is split by this one: the classes of a loss
                    */
};
typedef struct mp_operand_factors mp_operand_factors;

/* Returns the dimension of operand k, or of result k, that carries a factor; -1: none does. O(rank). */
int mp_factor_of_input(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);
int mp_factor_of_output(const mp_model *model, const mp_operator *op, const mp_operand_factors *f, int k, int factor);

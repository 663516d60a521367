/* regions.h - subgraphs of control operators, while a model has any: from its reader to mp_model_infer.
 *
 *     If      inputs: condition                                then the results of both regions, one for each output
 *     Loop    inputs: trip count, condition, what is carried   then the results of the region: condition, what is carried,
 * scans Scan    inputs: (lengths, before operator set 9), what is carried, what is scanned; then the same without a condition
 */
#pragma once

#include "estimator/model/model.h"

/* A new, empty region within `outer`. The prefix is not copied: it lies in the pool. MP_NOMEM. */
mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err);

/* Operands that the node has itself: the others are the results of its regions. */
int mp_operator_explicit_inputs(const mp_model *model, const mp_operator *op);
/* The input that its region's k-th formal stands for in the first run, -1: none. */
int mp_operator_input_of_formal(const mp_model *model, const mp_operator *op, int k);
/* The output that gets the k-th result of a region, in the end or piece by piece; -1: none. */
int mp_operator_output_of_result(const mp_operator *op, int k);

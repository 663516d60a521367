/* program_split.h - adapts a rank's program to operators that are split over ranks (tp). */
#pragma once

#include "executor/program/program.h"
#include "memplan/ranks/exchange.h"

/* Fails with MP_UNSUPPORTED if an operator of a split model can be planned but not run; the message names the operator. `loss`
 * is the index of the loss tensor, -1: none. O(operands). */
mp_status mp_split_check(const mp_model *model, const mp_mesh *mesh, int loss, mp_error *err);
/* Completes a newly built program of a split model. Only the first rank adds biases whose results are summed over ranks. Sets
 * this rank's part of the loss. Does nothing for a model that is not split. MP_NOMEM. O(operators x nodes). */
mp_status mp_program_split(mp_program *program, mp_error *err);
/* Sets out[k] for each operator k of the model: true if it has a bias that only the first rank adds. O(operands of all
 * nodes). */
void mp_split_list_added_once(const mp_program *program, bool *out);
/* Operators that are split over ranks exchange data while they run. Adds the network seconds of these exchanges to the nodes'
 * costs, and records the collectives in the nodes. Must run before the program is cut into stages. MP_NOMEM. O(nodes). */
mp_status mp_program_price_split(mp_program *program, const mp_ranks *ranks, mp_error *err);

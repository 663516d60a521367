/* program_split.h - programs of models that are split over ranks (tp). */
#pragma once

#include "executor/run/program.h"
#include "memplan/ranks/exchange.h"

/* Fails with MP_UNSUPPORTED where an operator of a split model can be planned, but not run; the sentence names it. `loss`: the
 * tensor, -1: none. O(operands). */
mp_status mp_split_check(const mp_model *model, const mp_mesh *mesh, int loss, mp_error *err);
/* Completes a program that has just been built: what is added once for all ranks, and which part of the loss a rank has; of a
 * model that is not split nothing changes. MP_NOMEM. O(operators x nodes). */
mp_status mp_program_split(mp_program *program, mp_error *err);
/* Says for each operator of the model in out[] whether it has a bias that the first rank adds alone. O(slots). */
void mp_split_list_added_once(const mp_program *program, bool *out);
/* Gives what operators exchange the seconds of the network, before the program is cut into stages. MP_NOMEM. O(nodes). */
mp_status mp_program_price_split(mp_program *program, const mp_ranks *ranks, mp_error *err);
/* Adds to *traffic what operators exchange in a step, of a pipeline's stage with each of its micro-batches. O(nodes). */
void mp_program_split_traffic(const mp_program *program, const mp_ranks *ranks, mp_rank_traffic *traffic);

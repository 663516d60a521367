/* loss_forms.h - the operators that compute a loss of an output. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/training.h"

/* Appends the target and the operators of a loss that is neither AUTO nor NONE; *loss is its value, a tensor of rank 0. Options
 * of other losses are not looked at. MP_INVALID: an output that the loss does not fit, weights that are not as many. MP_NOMEM.
 */
mp_status mp_loss_append(mp_model *model, mp_loss kind, const mp_loss_options *options, int output, int *loss, mp_error *err);

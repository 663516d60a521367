/* onnx_roles.h - which tensors from outside are the batch, which are trained. Private to formats/. */
#ifndef FORMATS_ONNX_ROLES_H
#define FORMATS_ONNX_ROLES_H

#include "estimator/model/model.h"

/* Sets role and role_reason of every declared input and initializer (whose role is MP_ROLE_CONSTANT so far). The operators are
 * all there, the type of every input is known, and its shape if it is fixed (rank -1: a dimension is open). With n_data > 0
 * exactly the named inputs are data. MP_INVALID: a name that is no input; MP_NOMEM. O(operands). */
mp_status mp_onnx_roles(mp_model *model, const char *const *data, size_t n_data, mp_error *err);

#endif

/* parameters.h - writes initial values (memplan/parameters.h) into an execution. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/parameters.h"

/* Fills parameters, master copies, buffers and constants of an execution. Optimizer moments are already zero. MP_INVALID: a
 * constant has neither a value in the file nor one that memplan computed (constant folding). Other errors: as
 * mp_onnx_weights_read. */
mp_status mp_parameters_load(const mp_parameter_source *source, const mp_program *program, mp_execution *execution,
                             mp_error *err);

/* parameters.h - a source of first values (memplan/parameters.h) is written into an execution. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/parameters.h"

/* Fills parameters, master copies, buffers and constants of an execution; moments are zero already. MP_INVALID: a constant that
 * neither file nor folding gives; the rest as mp_onnx_weights_read. */
mp_status mp_parameters_load(const mp_parameter_source *source, const mp_program *program, mp_execution *execution,
                             mp_error *err);

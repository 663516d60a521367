/* workload_source.h - reads the model of a workload. */
#pragma once

#include "memplan/architecture.h"
#include "memplan/workload.h"

/* Reads a model: an ONNX file, or, if there is no such file, the network that memplan knows by this name, with sizes from
 * `dims`. MP_INVALID: neither exists (the message suggests the nearest name), or a network without a file was given settings
 * for files. */
mp_status mp_workload_model(const char *path, const mp_workload_options *o, mp_model **out, mp_error *err);
/* Builds the network that memplan knows by this name, even if a file has the same name. Errors: as mp_workload_model. */
mp_status mp_workload_named(const char *name, const mp_workload_options *o, mp_model **out, mp_error *err);
/* Returns the network that memplan knows by this name; NULL if there is none, or if a file has the name. */
const mp_architecture *mp_workload_architecture(const char *path);

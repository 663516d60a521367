/* workload_passes.h - the passes from a model to the training graph of one rank. */
#pragma once

#include "memplan/workload.h"

/* Runs all passes on out->model: builds graph or program, and sets the fields that depend on them. MP_INVALID: settings
 * contradict each other. Other errors as the functions of the passes. */
mp_status mp_workload_build(mp_workload *w, const mp_workload_options *o, const mp_pipeline_shape *pipeline, mp_error *err);

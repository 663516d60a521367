/* control.h - control operators whose conditions and trip counts are known are replaced by what they run.
 *
 * Sources: ONNX's operator descriptions of If, Loop and Scan. Errors: MP_UNSUPPORTED where a condition or a trip count depends
 * on data, or unrolling takes more than MP_UNROLLED_MAX operators; MP_PARSE: numbers of inputs or outputs that do not fit;
 * MP_NOMEM.
 */
#pragma once

#include "estimator/simplify/control/inference.h"

/* Sorts the operators of regions into lists, for a model that has any. */
mp_status mp_control_start(mp_inference *w);
/* What the walk no longer needs. Parameters that nothing reads any more, since only branches that are not taken did, become
 * constants. */
mp_status mp_control_finish(mp_inference *w);
void mp_control_free(mp_inference *w);

/* The operators of a region run where they stand. */
mp_status mp_control_enter(mp_inference *w, int region);
/* One run of a region as a copy, inferred at once: actual[k] stands for its k-th formal. Names begin with `prefix` in place of
 * the region's own. results[k] becomes the tensor that is the k-th result. */
mp_status mp_control_run(mp_inference *w, int region, const int *actual, const char *prefix, int *results);
/* Takes a region out that runs no more. */
void mp_control_drop(mp_inference *w, int region);

/* program.h - a model made ready to run on a backend: its training graph, and a prepared call per node.
 *
 * The graph is built for the backend as target: each node's call is prepared as the node is built, and its workspace goes into
 * the graph. So what a plan counts is what the calls will use. Seconds come from the roofline of the backend's device profile.
 */
#pragma once

#include "memplan/backend.h"
#include "memplan/training.h"

typedef struct mp_program mp_program;

/* Adapts the model to the backend (it is changed) and builds its training graph and calls. `model` must outlive the
 * program. On MP_OK *out is released with mp_program_free. Other errors as mp_training_graph; MP_UNSUPPORTED: the
 * backend lacks kernels, all of which are named. O(operators), and what a library takes to prepare its calls. */
mp_status mp_program_build(const mp_backend *backend, mp_model *model, const mp_training_options *options, int loss,
                           mp_program **out, mp_error *err);
void mp_program_free(mp_program *program); /* NULL is fine */
MP_OWNER(mp_program_free, mp_program)

/* Its training graph, which lives as long as the program: plans for it are what mp_train (train.h) runs. */
const mp_graph *mp_program_graph(const mp_program *program);

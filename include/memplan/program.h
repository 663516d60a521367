/* program.h - a model prepared for execution on a backend: its training graph, and a prepared backend call per node.
 *
 * The backend is the target of the graph. When a node is added to the graph, the backend prepares the node's call, and the
 * graph records the workspace of the call. A plan therefore counts the same bytes that the calls use. Seconds are roofline
 * estimates from the backend's device profile. */
#pragma once

#include "memplan/backend.h"
#include "memplan/training.h"

typedef struct mp_program mp_program;

/* Adapts the model to the backend, which changes the model, and builds its training graph and its calls. `model` must
 * outlive the program. On MP_OK release *out with mp_program_free. MP_UNSUPPORTED: the backend lacks kernels; the message
 * names all of them. Other errors as mp_training_graph. O(operators), plus the preparation time of vendor libraries. */
mp_status mp_program_build(const mp_backend *backend, mp_model *model, const mp_training_options *options, int loss,
                           mp_program **out, mp_error *err);
void mp_program_free(mp_program *program); /* releases a program; NULL is allowed */
MP_OWNER(mp_program_free, mp_program)

/* Returns the program's training graph, valid as long as the program. mp_train (train.h) executes plans for this graph. */
const mp_graph *mp_program_graph(const mp_program *program);

/* updates.h - places the optimizer's updates in an order of all other nodes.
 *
 * The graph's `fuse` decides where updates may run. Each update runs at the earliest allowed position.
 * - MP_FUSE_NONE: after all other nodes.
 * - MP_FUSE_BACKWARD: after the last step that reads its outputs, or produces or reads its inputs.
 * - MP_FUSE_FORWARD: before all other nodes, so that the gradients of the previous training step are freed before activations
 *   are produced.
 */
#pragma once

#include "memplan/timeline.h"

/* Inserts the updates into steps[0..n), an order of all other nodes. On MP_OK *out contains the n steps and one more per
 * update; release it with mp_free. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

/* Returns the steps of keep-all: all nodes in list order, with each update at the position that mp_updates_place gives it.
 * Errors as mp_updates_place. */
mp_status mp_updates_place_early(const mp_graph *graph, mp_step **out, size_t *n_out, mp_error *err);

/* Places updates like mp_updates_place, but postpones an update if its step would exceed the budget because of the update's
 * workspace and gradients. A postponed update runs after all other nodes, or with MP_FUSE_FORWARD after all other updates. It
 * may exceed the budget there too. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                  size_t *n_out, mp_error *err);

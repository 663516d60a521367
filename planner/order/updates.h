/* updates.h - places the optimizer's updates in an order of all other nodes.
 *
 * An update runs as early as the graph's `fuse` allows.
 * - MP_FUSE_NONE: after all other nodes.
 * - MP_FUSE_BACKWARD: after the last step that reads its outputs, or produces or reads its inputs.
 * - MP_FUSE_FORWARD: before all other nodes, so that the gradients of the previous training step are freed before activations
 *   are produced.
 */
#pragma once

#include "memplan/timeline.h"

/* Inserts the updates into steps[0..n), an order of all other nodes. On MP_OK *out holds n steps plus one per update; release
 * it with mp_free. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

/* Returns the steps of keep-all (all nodes in list order), with each update placed as early as mp_updates_place does. Errors
 * as mp_updates_place. */
mp_status mp_updates_place_early(const mp_graph *graph, mp_step **out, size_t *n_out, mp_error *err);

/* Like mp_updates_place, but postpones an update if its step would exceed the budget with the update's workspace and
 * gradients. A postponed update runs after all other nodes; with MP_FUSE_FORWARD, after all other updates. It may exceed the
 * budget even there. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                  size_t *n_out, mp_error *err);

/* updates.h - the placement of the optimizer's updates in an order of all other nodes.
 *
 * An update runs as early as the graph's `fuse` allows. MP_FUSE_NONE: after all other nodes. MP_FUSE_BACKWARD: after the last
 * step that reads what it writes, or produces or reads what it reads. MP_FUSE_FORWARD: before all other nodes, so that the
 * gradients of the training step before are freed before activations are produced.
 */
#pragma once

#include "memplan/timeline.h"

/* Puts the updates into steps[0..n), an order of all other nodes. On MP_OK *out holds n steps and one for each update, released
 * with mp_free. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

/* Gives keep-all, all other nodes in list order, with its updates placed as in mp_updates_place. Errors as there. */
mp_status mp_updates_place_early(const mp_graph *graph, mp_step **out, size_t *n_out, mp_error *err);

/* Like mp_updates_place, but an update whose step would exceed the budget (its workspace beside its gradients) waits until
 * all other nodes have run; with MP_FUSE_FORWARD, until all other updates have. It may exceed the budget even there.
 * MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                  size_t *n_out, mp_error *err);

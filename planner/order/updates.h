/* updates.h - the placement of the optimizer's updates in an order of all other nodes.
 *
 * An update runs as early as the graph's `fuse` allows. MP_FUSE_NONE: after all other nodes. MP_FUSE_BACKWARD: after the last
 * step that reads what it writes, or produces or reads what it reads. MP_FUSE_FORWARD: before all other nodes, so that the
 * gradients of the training step before are freed before activations come.
 */
#pragma once

#include "memplan/timeline.h"

/* Puts the updates into steps[0..n), an order of all other nodes. On MP_OK *out holds n steps and one for each update, released
 * with mp_free. MP_NOMEM. O(list lengths + n). */
mp_status mp_updates_place(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

/* Keep-all with its updates so: all nodes but updates in the order of the list. As mp_updates_place. */
mp_status mp_updates_place_early(const mp_graph *graph, mp_step **out, size_t *n_out, mp_error *err);

/* The same, but updates whose step would be over the budget (their workspace is live beside their gradients) are put off until
 * all other nodes have run; MP_FUSE_FORWARD: all other updates. Some may be over the budget even there. MP_NOMEM. O(list
 * lengths
 * + n). */
mp_status mp_updates_place_within(const mp_graph *graph, const mp_step *steps, size_t n, int64_t budget_bytes, mp_step **out,
                                  size_t *n_out, mp_error *err);

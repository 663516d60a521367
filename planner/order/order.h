/* order.h - the list order, kept: forward nodes run for the first time in the order of the graph's list, and loss and backward
 * nodes run in it. The bound for `this-order` assumes it. Recomputations and updates may be anywhere.
 */
#pragma once

#include "memplan/timeline.h"

/* True if a schedule keeps the order. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

/* The schedule with runs of forward nodes inserted: before a first run that comes too early, those that the list has before it.
 * What was their first run is then a recomputation; nodes that run once only move. Loss and backward nodes stay where they are.
 * On MP_OK *out is released with mp_free. MP_NOMEM. O(n). */
mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

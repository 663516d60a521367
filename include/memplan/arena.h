/* arena.h - offsets in one block for everything that comes and goes in a plan.
 *
 * An item is an instance of a storage, or the workspace of a step; instances that take over each other's memory in place are
 * one item, and so are the two lives of a carried gradient, whose bytes have to stay where they are from one step of training
 * to the next. Items that live together must not overlap. This is dynamic storage allocation (NP-hard: Garey, Johnson 1979,
 * SR2).
 *
 * Method: items are placed one after the other into the lowest, or the tightest, gap; in several orders (by size, by size times
 * lifetime, by lifetime, by start, around the fullest step), and then again with whatever was on top put first. The lowest
 * height wins; the sum of what lives at the fullest step is a lower bound, and where it is reached the search ends. Where it is
 * not, an exact search (memplan/pack.h) of bounded length looks for something lower, or for the proof that there is
 * nothing.
 */
#ifndef MEMPLAN_ARENA_H
#define MEMPLAN_ARENA_H

#include "memplan/pack.h"
#include "memplan/plan.h"

/* Gives every instance and workspace of the plan's steps its offset, a multiple of the graph's alignment: sets places, n_places
 * and arena_bytes, replacing what was there. Deterministic. O(rounds * n^2) for n items, with a small constant; of more than
 * 20,000 a few orders by an index, in practice about O(n log^2 n). MP_INVALID: as mp_timeline_build. MP_NOMEM. */
mp_status mp_arena_layout(const mp_graph *graph, mp_plan *plan, mp_error *err);

/* The same, with the exact search as long as the options say (NULL: as short as there). Height and bound are bytes; of
 * `enough` too, which is a height that will do. */
mp_status mp_arena_pack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* No layout of the plan's steps, in-place items at one offset, has a lower arena: what is live at the fullest step,
 * or more if mp_arena_layout's search has proved more. As mp_arena_layout, but the plan is not changed. */
mp_status mp_arena_bound(const mp_graph *graph, const mp_plan *plan, int64_t *bytes, mp_error *err);

#endif

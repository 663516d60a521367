/* searchers.h - the function of each searcher, for their table (planner/solve/portfolio.c) and for code that tells searchers
 * apart. Each proposes plans with mp_search_offer, and fails as that does or as its comment says. `moves` is the number of
 * offers. */
#pragma once

#include "memplan/search.h"

/* Runs every searcher that is worth its time, one after the other. Fails as these do, but never with MP_NOT_APPLICABLE. */
mp_status mp_run_auto(mp_search *search, mp_error *err);

/* Offers keep-all, the baseline. At most two offers. */
mp_status mp_run_none(mp_search *search, mp_error *err);

/* Chen et al. 2016: segments of sqrt(n) cut tensors, and the greedy search over segment sizes. MP_NOT_APPLICABLE: no forward or
 * no backward nodes. O(sizes * (n + offer)). */
mp_status mp_run_chen(mp_search *search, mp_error *err);

/* One list of checkpoints, as a framework takes it: the user's list, or one that this finds. MP_INVALID: a checkpoint that
 * forward does not compute. MP_NOT_APPLICABLE: no forward or no backward nodes. O(moves * offer). */
mp_status mp_run_segments(mp_search *search, mp_error *err);

/* Kusumoto et al. 2019: sequences of lower sets of the forward graph. MP_NOT_APPLICABLE: no backward phase. O(rungs * pairs *
 * levels + offers). */
mp_status mp_run_lower_set(mp_search *search, mp_error *err);

/* A* over all schedules of a tiny graph. It claims a proof: the least ticks within the budget, or that no plan fits.
 * MP_NOT_APPLICABLE: more than 64 nodes or storages, or alternatives that differ in more than time and memory. Exponential;
 * `moves` bounds the states. */
mp_status mp_run_exact(mp_search *search, mp_error *err);

/* Jain et al. 2020 (Checkmate): an integer linear programme. MP_NOT_APPLICABLE: no backward phase, or too many columns.
 * MP_LIMIT: GLPK broke off. Exponential; `moves` bounds the nodes of the tree. */
mp_status mp_run_ilp(mp_search *search, mp_error *err);

/* Beaumont et al. 2019: the cheapest persistent schedule of a chain of blocks in a given memory. MP_NOT_APPLICABLE: no
 * tensor cuts the network in two. O(blocks^3 * slots + offers). */
mp_status mp_run_chain(mp_search *search, mp_error *err);

/* Minimum cuts with Lagrange multipliers on memory decide what is kept and what is recomputed. O(cuts * (graph + one cut));
 * larger graphs get fewer cuts (MP_LAGRANGE_WORK). */
mp_status mp_run_lagrange(mp_search *search, mp_error *err);
/* Finds some plan within the budget soon, even if the search is stopped: segments, halved until they fit. */
mp_status mp_run_lagrange_first(mp_search *search, mp_error *err);

/* Simulated annealing over whole schedules, from the best plan that other searchers have found. It changes what is
 * recomputed, how often and where, and, unless the list order is to be kept, when every node runs. O(moves); without `moves`
 * and on large graphs a second or two. */
mp_status mp_run_anneal(mp_search *search, mp_error *err);

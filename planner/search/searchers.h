/* searchers.h - the function of each searcher, for their table (planner/solve/portfolio.c) and for code that tells searchers
 * apart. Each proposes plans with mp_search_offer, and fails as that does or as its comment says. `moves` is the number of
 * offers. */
#pragma once

#include "memplan/search.h"

/* Runs every searcher that is worth its time, one after the other. Fails as these do, but never with MP_NOT_APPLICABLE. */
mp_status mp_run_auto(mp_search *search, mp_error *err);
/* The same, but what takes the most seconds, to find a first plan by moves where no other searcher has one, is left out. */
mp_status mp_run_auto_or_none(mp_search *search, mp_error *err);

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

/* Runs the three rules for copies that follow; and proves what plans with copies take, then runs
 * mp_run_anneal. */
mp_status mp_run_offload_rules(mp_search *search, mp_error *err);
mp_status mp_run_copies(mp_search *search, mp_error *err);

/* Rules of others for graphs with copies: which storages are copied to another tier and back, and which computed again. They
 * are there to compare with. O(candidates * offer), at most MP_OFFLOAD_WORK steps.
 *
 * torchtitan's auto_perf_maxing, greedily (pytorch/torchtitan#4636): what takes the most time per byte to compute is copied, as
 * much as the link carries unnoticed; then what takes the least is computed again. */
mp_status mp_run_cheapest_first(mp_search *search, mp_error *err);
/* DeepCompile's pass offload_activation (Tanaka et al. 2025): everything is copied, then stays if it fits, the largest first.
 * Nothing is computed again. */
mp_status mp_run_largest_first(mp_search *search, mp_error *err);
/* Peng et al. 2020 (Capuchin): copied is what is free the longest between two uses while that is unnoticed; then what saves the
 * most bytes per second of recomputation is computed again, or copied if that takes less. */
mp_status mp_run_saved_per_second(mp_search *search, mp_error *err);
/* Simulated annealing over the choices that these rules make, from those of the best plan. O(MP_CHOICES * offer), at most
 * MP_CHOICES_WORK steps. */
mp_status mp_run_choices(mp_search *search, mp_error *err);
/* Anneals from largest-first's plan with evictions that copy, and never computes anything again. */
mp_status mp_run_copy_only(mp_search *search, mp_error *err);

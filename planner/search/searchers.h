/* searchers.h - the functions of all searchers, for the table in planner/solve/portfolio.c and for code that compares them.
 * Each function offers plans with mp_search_offer. It fails as mp_search_offer does, or as its own comment states. `moves` is
 * the number of offers that the search allows. */
#pragma once

#include "memplan/search.h"

/* Runs all searchers that suit the graph, one after the other. Fails as these searchers do, but never with
 * MP_NOT_APPLICABLE. */
mp_status mp_run_auto(mp_search *search, mp_error *err);
/* Runs the same searchers as mp_run_auto, without the slowest part: annealing for a first plan after all other searchers have
 * failed to find one. */
mp_status mp_run_auto_or_none(mp_search *search, mp_error *err);

/* Offers keep-all, the baseline, in at most two offers. */
mp_status mp_run_none(mp_search *search, mp_error *err);

/* Chen et al. 2016: segments of sqrt(n) cut tensors, and a greedy search over sizes of segments. MP_NOT_APPLICABLE: no forward
 * or no backward nodes. O(k (n + t)) for k sizes of segments, n nodes, and the time t of one offer. */
mp_status mp_run_chen(mp_search *search, mp_error *err);

/* Offers the schedule of one list of checkpoints, as frameworks accept it. The list is the user's, or is found by search.
 * MP_INVALID: the forward pass does not compute a listed checkpoint. MP_NOT_APPLICABLE: no forward or no backward nodes. At
 * most `moves` offers. */
mp_status mp_run_segments(mp_search *search, mp_error *err);

/* Kusumoto et al. 2019: dynamic programming over sequences of lower sets of the forward graph. MP_NOT_APPLICABLE: no backward
 * phase. O(r n l) for r model budgets, n transitions and l classes of overhead (lower_set.h), plus the offers. */
mp_status mp_run_lower_set(mp_search *search, mp_error *err);

/* A* over all schedules of a tiny graph. It proves that its plan has the fewest ticks within the budget, or that no plan fits.
 * MP_NOT_APPLICABLE: more than 64 nodes or storages, or alternatives that differ in more than time and memory. Exponential;
 * `moves` limits the number of states. */
mp_status mp_run_exact(mp_search *search, mp_error *err);

/* Jain et al. 2020 (Checkmate): an integer linear programme. MP_NOT_APPLICABLE: no backward phase, or too many columns.
 * MP_LIMIT: GLPK failed or ran out of memory. Its time is exponential; `moves` limits the nodes of the search tree. */
mp_status mp_run_ilp(mp_search *search, mp_error *err);

/* Beaumont et al. 2019: the fastest persistent schedule of a chain of blocks within a given memory. MP_NOT_APPLICABLE: no
 * tensor cuts the network in two. O(blocks^3 * slots), as defined in chain.h, plus the offers. */
mp_status mp_run_chain(mp_search *search, mp_error *err);

/* Lagrangian relaxation: minimum cuts with multipliers on memory decide which storages are kept and which are recomputed. The
 * time is that of the minimum cuts and their schedules. Larger graphs get fewer minimum cuts (MP_LAGRANGE_WORK). */
mp_status mp_run_lagrange(mp_search *search, mp_error *err);
/* Finds a plan within the budget quickly, even if the search is stopped. It cuts the forward list into segments, and halves
 * their size until the plan fits. */
mp_status mp_run_lagrange_first(mp_search *search, mp_error *err);

/* Simulated annealing over whole schedules, starting from the best plan of the other searchers. It changes which nodes are
 * recomputed, how often and when. If the list order is not fixed, it also changes when nodes run first. O(moves). Without
 * `moves`, it takes a second or two on large graphs. */
mp_status mp_run_anneal(mp_search *search, mp_error *err);

/* mp_run_offload_rules runs three rules that choose the storages to offload: mp_run_cheapest_first, mp_run_largest_first and
 * mp_run_saved_per_second. mp_run_copies proves a bound on plans with copies, then runs mp_run_anneal. */
mp_status mp_run_offload_rules(mp_search *search, mp_error *err);
mp_status mp_run_copies(mp_search *search, mp_error *err);

/* The next three rules are published methods for graphs with copies to another tier. They choose which storages are offloaded
 * and which are recomputed, and serve as baselines. At most MP_OFFLOAD_WORK steps in all offers.
 *
 * mp_run_cheapest_first is torchtitan's auto_perf_maxing (pytorch/torchtitan#4636), a greedy rule. It offloads the storages
 * with the most recomputation time per byte, as many as the link can copy while compute hides the copies. Then it recomputes
 * the storages with the least recomputation time per byte. */
mp_status mp_run_cheapest_first(mp_search *search, mp_error *err);
/* The rule of DeepCompile's pass offload_activation (Tanaka et al. 2025). It first offloads every storage. Then it keeps
 * storages on the device as long as the plan fits, the largest first. It recomputes nothing. */
mp_status mp_run_largest_first(mp_search *search, mp_error *err);
/* The rule of Capuchin (Peng et al. 2020). It offloads the storages that are unused for the longest time, as long as compute
 * hides the copies. Then it recomputes the storages that save the most bytes per second of recomputation, or offloads them if
 * that takes less time. */
mp_status mp_run_saved_per_second(mp_search *search, mp_error *err);
/* Our own rule. It plans recomputation as if the device also had the memory of the other tiers, or a part of this memory. Then
 * it offloads the kept storages. It makes up to four trials, each with up to three runs of mp_run_lagrange. */
mp_status mp_run_pooled_memory(mp_search *search, mp_error *err);
/* Simulated annealing over one choice per storage: kept, offloaded or recomputed. It starts from the best plan found before. At
 * most MP_ANNEAL_TENSORS_OFFERS offers, with at most MP_ANNEAL_TENSORS_WORK steps in all. */
mp_status mp_run_anneal_tensors(mp_search *search, mp_error *err);
/* Simulated annealing over plans without recomputation, starting from the plan of mp_run_largest_first. Evicted storages are
 * copied to another tier and back. */
mp_status mp_run_copy_only(mp_search *search, mp_error *err);

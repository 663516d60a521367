/* portfolio.c - one row per searcher, from the simplest on. */
#include "planner/solve/portfolio.h"

#include "planner/anneal/anneal.h"
#include "planner/chain/chain.h"
#include "planner/exact/exact.h"
#include "planner/ilp/ilp.h"
#include "planner/priced/priced.h"
#include "planner/segments/chen.h"
#include "planner/segments/lower_set.h"
#include "planner/segments/none.h"
#include "planner/segments/segments.h"

static const mp_solver rows[] = {
    {"none", "keeps everything: the baseline", "", mp_run_none, true, true, false},
    {"chen", "sqrt(n) segments and the greedy search over segment sizes, between cut tensors", "Chen et al. 2016", mp_run_chen,
     true, false, true},
    {"segments", "one list of checkpoints, the user's own or the best that is found; recomputes segment by segment",
     "PaddlePaddle's RecomputeOptimizer", mp_run_segments, true, false, true},
    {"lower-set", "dynamic programming over sequences of lower sets, exact where their number allows", "Kusumoto et al. 2019",
     mp_run_lower_set, true, false, true},
    {"exact", "the cheapest of all schedules, for tiny networks; best first over what has run and what is held",
     "Hart, Nilsson and Raphael 1968", mp_run_exact, false, true, false},
    {"ilp", "an integer linear programme over which tensor is held when, for small networks; starts from lower-set's plans",
     "Checkmate, Jain et al. 2020", mp_run_ilp, false, false, false},
    {"chain", "dynamic programming over a chain of blocks and memory, several ways to run each block", "Beaumont et al. 2019",
     mp_run_chain, true, false, true},
    {"priced", "minimum cuts with memory priced decide what is stored and what made again; segments; for graphs of any size",
     "Everett 1963, Picard 1976", mp_run_priced, false, false, true},
    {"anneal", "simulated annealing over whole schedules, from the best of the others", "", mp_run_anneal, false, true, false},
};

size_t mp_portfolio_count(void)
{
    return sizeof rows / sizeof *rows;
}

const mp_solver *mp_portfolio_row(size_t k)
{
    return k < mp_portfolio_count() ? &rows[k] : NULL;
}

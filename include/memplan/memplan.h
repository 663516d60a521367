/* memplan.h - the whole library: memory estimates for a training step, and plans that recompute or offload tensors to fit a
 * budget.
 *
 * The functions from a model file to a trained plan, with their headers:
 *
 *     mp_onnx_read          onnx.h         model.onnx -> mp_model
 *     mp_model_simplify     simplify.h     constants folded, patterns recognised
 *     mp_model_add_loss     training.h     appends the loss if the model has none
 *     mp_training_graph     training.h     mp_model -> mp_graph: forward, loss, backward, update for a target (target.h)
 *     mp_timeline_build     timeline.h     an order of steps -> live bytes per step, the peak and the live storages there
 *     mp_floor              floor.h        certified minimum memory over all orders of steps
 *     mp_solve_with_arena   arena_solve.h  mp_graph and budget -> mp_plan with offsets, and a bound on the time of all plans
 *     mp_plan_check         check.h        replays a plan and verifies its claims
 *     mp_plan_write         plan_json.h    mp_plan -> plan.json
 *     mp_train              train.h        executes a plan on a backend (backend.h, program.h)
 *
 * A graph of your own replaces the first four steps: graph.h, graph_json.h, graph_dot.h. Other languages use one opaque handle:
 * planning.h.
 *
 * Terms (docs/reference/glossary.md has all of them):
 *
 * - A *node* is the forward, loss, backward or update part of an operator. It reads and writes *storages*.
 * - A *step* is one run of a node. A *plan* is a list of steps. A second run of a node in a plan is a *recomputation*.
 * - A storage is *live* from its production to its last read.
 * - The *peak* is the maximum of live bytes over all steps. It includes *static bytes*: parameters, optimizer state, inputs.
 * - *Keep-all* is the baseline plan, which recomputes nothing.
 * - The *floor* is a certified minimum: no order of steps has a lower peak.
 * - The *bound* is a certified minimum: no plan within the budget takes less time.
 * - The *arena* is the memory block of all storages that are not static. Each has an *offset* in it.
 *
 * Intervals are half-open, [begin, end). Exception: intervals with fields named `first` and `last` include both ends.
 *
 * Units: bytes are int64_t and end in _bytes. Time is an int64_t number of ticks. The graph's tick_seconds is the length of a
 * tick. Sums of ticks are exact.
 *
 * Errors: a function that can fail returns an mp_status: MP_OK or the kind of failure. Its last parameter is an mp_error that
 * starts as {0}; NULL is allowed. On failure the mp_error holds one sentence that names the operator, node or storage. On
 * failure the other outputs are untouched. Every function that allocates can return MP_NOMEM. The library never prints, exits
 * or aborts.
 *
 * Ownership: the caller owns each object returned through `out`. The function's comment names the function that releases it.
 * Arguments stay the caller's. If an argument must outlive the result, the function's comment says so. Releasing NULL is
 * allowed.
 *
 * Threads: memplan has no global state of its own. Graphviz (graph_dot.h, the pictures), igraph and the linear programmes of a
 * search do have global state. Call functions that use these libraries from one thread at a time.
 *
 * Examples in the headers are bodies of functions that return mp_status. `// given:` lists the parameters. `make check`
 * compiles all of them.
 *
 * Example program: examples/peak.c. To build it: cc peak.c $(pkg-config --cflags --libs memplan). The headers also compile as
 * C++. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "memplan/architecture.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/backend.h"
#include "memplan/bound.h"
#include "memplan/bound_stage.h"
#include "memplan/budget.h"
#include "memplan/check.h"
#include "memplan/costs_json.h"
#include "memplan/costs_measure.h"
#include "memplan/error.h"
#include "memplan/execution.h"
#include "memplan/feed.h"
#include "memplan/floor.h"
#include "memplan/framework_code.h"
#include "memplan/graph.h"
#include "memplan/graph_dot.h"
#include "memplan/graph_json.h"
#include "memplan/inputs.h"
#include "memplan/makespan.h"
#include "memplan/memory.h"
#include "memplan/model.h"
#include "memplan/onnx.h"
#include "memplan/optimizer.h"
#include "memplan/pack.h"
#include "memplan/pack_csv.h"
#include "memplan/parameters.h"
#include "memplan/pictures/curve_picture.h"
#include "memplan/pictures/graph_picture.h"
#include "memplan/pictures/loss_picture.h"
#include "memplan/pictures/pipeline_picture.h"
#include "memplan/pictures/timeline_picture.h"
#include "memplan/plan.h"
#include "memplan/plan_json.h"
#include "memplan/planning.h"
#include "memplan/problem.h"
#include "memplan/program.h"
#include "memplan/ranks/collective.h"
#include "memplan/ranks/communicator.h"
#include "memplan/ranks/exact_mesh.h"
#include "memplan/ranks/exchange.h"
#include "memplan/ranks/mesh.h"
#include "memplan/ranks/meshes.h"
#include "memplan/ranks/network.h"
#include "memplan/ranks/pipeline.h"
#include "memplan/ranks/pipeline_cut.h"
#include "memplan/ranks/pipeline_report.h"
#include "memplan/ranks/pipeline_smallest.h"
#include "memplan/ranks/rank.h"
#include "memplan/ranks/rank_plan.h"
#include "memplan/ranks/rank_report.h"
#include "memplan/ranks/schedule.h"
#include "memplan/ranks/workload_ranks.h"
#include "memplan/search.h"
#include "memplan/simplify.h"
#include "memplan/smallest.h"
#include "memplan/solver.h"
#include "memplan/studies/card_budget.h"
#include "memplan/studies/checkpoints.h"
#include "memplan/studies/fit.h"
#include "memplan/studies/share.h"
#include "memplan/studies/sweep.h"
#include "memplan/studies/update_effect.h"
#include "memplan/studies/worth.h"
#include "memplan/summary.h"
#include "memplan/target.h"
#include "memplan/timeline.h"
#include "memplan/train.h"
#include "memplan/training.h"
#include "memplan/workload.h"
#include "memplan/workloads/caching_allocator.h"
#include "memplan/workloads/card_plan.h"
#include "memplan/workloads/needs.h"
#include "memplan/workloads/other_rules.h"
#include "memplan/workloads/own_device.h"
#include "memplan/workloads/process_memory.h"
#include "memplan/workloads/row_chunks.h"
#include "memplan/workloads/savings.h"
#include "memplan/workloads/sharing.h"
#include "memplan/workloads/sharing_run.h"
#include "memplan/workloads/workload_budget.h"
#include "memplan/workloads/workload_needs.h"
#include "memplan/workloads/workload_train.h"

#ifdef __cplusplus
}
#endif

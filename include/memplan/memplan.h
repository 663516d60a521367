/* memplan.h - how much memory a training step needs, and what to recompute so that it needs less: the whole library.
 *
 * From a file to a plan, one header per step:
 *
 *     mp_onnx_read          onnx.h         model.onnx -> mp_model
 *     mp_model_simplify     simplify.h     constants folded, patterns recognised
 *     mp_model_add_loss     training.h     the loss, where the model has none
 *     mp_training_graph     training.h     mp_model -> mp_graph: forward, loss, backward, update for a target (target.h)
 *     mp_timeline_build     timeline.h     an order of steps -> live bytes over the steps, the peak and what is live there
 *     mp_floor              floor.h        no order of steps needs less
 *     mp_solve_with_arena   arena_solve.h  mp_graph and budget -> mp_plan with offsets, and a bound on what any plan takes
 *     mp_plan_check         check.h        replays a plan and verifies what it claims
 *     mp_plan_write         plan_json.h    plans as files
 *     mp_train              train.h        trains as a plan says, on a backend (backend.h, program.h)
 *
 * A graph of your own, in place of the first four steps: graph.h, graph_json.h, graph_dot.h. The same from other languages,
 * through one opaque handle: planning.h.
 *
 * Words (docs/reference/glossary.md has all of them): a *node* is the forward, loss, backward or update part of an operator; it
 * reads and writes *storages*. A *step* is one run of a node; a *plan* is a list of steps, and whatever runs twice in it is
 * *recomputed*. A storage is *live* from its production to its last read. The *peak* is the most that is live at any step,
 * *static bytes* (parameters, optimizer state, inputs) included. *Keep-all* recomputes nothing: the baseline. The *floor* is
 * certified: no order of steps has a lower peak. The *bound* is certified: no plan within the budget takes less time. The
 * *arena* is the one block in which everything that comes and goes has an *offset*. Intervals are half-open, [begin, end), but
 * for fields named `first` and `last`, which both belong to it.
 *
 * Units: bytes are int64_t, named ..._bytes. Time is int64_t ticks, of tick_seconds of the graph each; so sums are exact.
 *
 * Errors: a function that can fail returns an mp_status, MP_OK or why not, and describes a failure in its last parameter, an
 * mp_error that starts as {0} (NULL is fine): one sentence that names the operator, node or storage. On failure its other
 * outputs are untouched. Every function that allocates can return MP_NOMEM. The library never prints, exits or aborts.
 *
 * Ownership: what a function returns through `out` is the caller's, and its comment names the function that releases it. What
 * is passed in stays the caller's, and has to outlive what is made of it where the comment says so. Releasing NULL is fine.
 *
 * Threads: there is no shared state but what Graphviz (graph_dot.h, the pictures), igraph and the linear programmes of a search
 * keep for themselves: call those from one thread at a time.
 *
 * A program that uses it: examples/peak.c; built by  cc peak.c $(pkg-config --cflags --libs memplan). Also from C++.
 */
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
#include "memplan/check.h"
#include "memplan/costs_json.h"
#include "memplan/error.h"
#include "memplan/execution.h"
#include "memplan/feed.h"
#include "memplan/fit.h"
#include "memplan/floor.h"
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
#include "memplan/ranks/communicator.h"
#include "memplan/ranks/exchange.h"
#include "memplan/ranks/mesh.h"
#include "memplan/ranks/meshes.h"
#include "memplan/ranks/network.h"
#include "memplan/ranks/pipeline.h"
#include "memplan/ranks/rank.h"
#include "memplan/ranks/rank_report.h"
#include "memplan/ranks/schedule.h"
#include "memplan/search.h"
#include "memplan/second_stream.h"
#include "memplan/share.h"
#include "memplan/simplify.h"
#include "memplan/smallest.h"
#include "memplan/solver.h"
#include "memplan/summary.h"
#include "memplan/sweep.h"
#include "memplan/target.h"
#include "memplan/timeline.h"
#include "memplan/train.h"
#include "memplan/training.h"
#include "memplan/update_effect.h"

#ifdef __cplusplus
}
#endif

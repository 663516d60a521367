/* planning.h - a graph, a search and its answer behind one opaque handle: the interface whose binary form never changes.
 *
 * For other languages (Python's ctypes, FFIs) and for programs that are not built again when the library is: nothing but
 * pointers, integers, doubles and texts crosses it, and no layout of a struct has to be known. Settings and answers go by
 * name, so new ones do not change it. docs/reference/library.md has an example; python/ is built on it.
 *
 *     mp_planning *p = mp_planning_new("chain", 1e-9);
 *     int a = mp_planning_add_storage(p, "a", "activation", 100);
 *     int g = mp_planning_add_storage(p, "g", "gradient", 100);
 *     int f = mp_planning_add_node(p, "f", "Layer", "forward", 1, 0);
 *     int b = mp_planning_add_node(p, "b", "Layer", "backward", 2, 0);
 *     mp_planning_connect(p, f, "writes", &a, 1);
 *     mp_planning_connect(p, b, "reads", &a, 1);
 *     mp_planning_connect(p, b, "writes", &g, 1);
 *     if (mp_planning_finish(p) != MP_OK || mp_planning_solve(p, 200) != MP_OK) puts(mp_planning_message(p));
 *     mp_planning_free(p);
 *
 * A call that fails leaves the handle as it was, and its sentence in mp_planning_message until the next call that can fail. A
 * call fails, or answers that there is nothing, if a required handle, text, plan or list is NULL; only a list to be written to
 * may be NULL: then its numbers are just counted. A handle is used by one thread at a time. Functions of other headers that
 * take an mp_graph, an mp_plan or an mp_error serve with what mp_planning_graph, _plan and _error return: mp_graph_write,
 * mp_plan_write, mp_timeline_picture.
 */
#pragma once

#include "memplan/plan.h"

typedef struct mp_planning mp_planning;

/* Returns 1; it would be another number if a function or a name below changed its meaning. O(1). */
int mp_planning_interface(void);

/* Returns a handle with an empty graph (name NULL: ""), in which seconds are tick_seconds times ticks. NULL if memory is short.
 * Released with mp_planning_free (NULL is fine). O(1). */
mp_planning *mp_planning_new(const char *name, double tick_seconds);
void mp_planning_free(mp_planning *planning);

/* Returns one sentence, without a full stop, about the last call that failed; "" if the last call did not. Valid until the next
 * call. O(1). */
const char *mp_planning_message(const mp_planning *planning);

/* Returns an empty mp_error for a function of another header; its sentence is then mp_planning_message's. NULL only without a
 * handle. O(1). */
mp_error *mp_planning_error(mp_planning *planning);
const char *mp_planning_hash(const mp_planning *planning);      /* 32 hexadecimal digits of the finished graph; "" before.
                                                                 * O(1) */
const mp_graph *mp_planning_graph(const mp_planning *planning); /* belongs to the handle; complete once it is finished. O(1) */
const mp_plan *mp_planning_plan(const mp_planning *planning);   /* of the last search, owned by the handle; NULL: none. O(1) */

/* ---- the graph (docs/internals/plan-rules.md) ---- */

/* Adds a storage of a kind ("parameter", "activation", ...; mp_kind) and returns its number, counted from 0. -1: no such kind,
 * the graph is finished, out of memory. Amortised O(1). */
int mp_planning_add_storage(mp_planning *planning, const char *name, const char *kind, int64_t bytes);

/* Adds a node of a phase ("forward", "loss", "backward", "update") and returns its number; -1 as for a storage. Amortised
 * O(1). */
int mp_planning_add_node(mp_planning *planning, const char *name, const char *op, const char *phase, int64_t ticks,
                         int64_t workspace_bytes);

/* Says how a node uses n storages: it "reads" them, "writes" them or "adds" to them, each list once; for "in_place"
 * they are pairs: the second may take over the memory of the first. MP_INVALID: no such word, no such node or storage
 * (yet), a finished graph; MP_NOMEM. O(n). */
mp_status mp_planning_connect(mp_planning *planning, int node, const char *how, const int *storages, size_t n);

/* Sets a node's flag: "once" (may not be recomputed), "random", "view". MP_INVALID: no such flag or node, finished. O(1). */
mp_status mp_planning_flag(mp_planning *planning, int node, const char *flag);

/* Checks the graph; it cannot be changed afterwards. Errors as mp_graph_finish and mp_timeline_build. */
mp_status mp_planning_finish(mp_planning *planning);

/* Lets plans of the finished graph copy some of these n storages to the host's memory and back, as mp_graph_offload does,
 * however small they are. What is optimizer state among them then lies there, and comes to the device for its update only.
 * Nodes and storages keep their numbers, and what keep-all needs stays; "static_bytes" are less by that state. `link` is a link
 * or a device of `memplan devices`, or the driver's name for a card, whose link is then meant; bytes_per_second, if not 0,
 * replaces its rates. Once. MP_INVALID: no such link or storage, a rate that is none, a graph that is not finished or has
 * copies. After MP_NOMEM the handle can only be freed. O(graph + n^2). */
mp_status mp_planning_offload(mp_planning *planning, const int *storages, size_t n, const char *link, double bytes_per_second);

/* ---- the search ---- */

/* Sets an option of searches to come, as the command line spells it: "solver", "seed", "moves", "effort", "time_limit"
 * (seconds), "gap" (a fraction), "bound" ("yes", which is the default, or "no"), "host_bytes" (the most that is live there of
 * what is copied; 0: any). "fuse" belongs to the graph and is set
 * before it is finished: its updates run after all of backward ("none", the default) or within it ("backward").
 * MP_INVALID: no such option or value, or a finished graph. O(1). */
mp_status mp_planning_set(mp_planning *planning, const char *option, const char *value);

/* Called now and then by mp_planning_solve, in its thread; a number is -1 if there is no value yet. Returns false to end the
 * search with the best plan so far. NULL: not called. O(1). */
typedef bool (*mp_planning_call)(double elapsed_seconds, int64_t best_ticks, int64_t bound_ticks, int64_t smallest_bytes,
                                 void *data);
void mp_planning_on_progress(mp_planning *planning, mp_planning_call call, void *data);

/* Searches for the cheapest plan whose peak is within the budget (INT64_MAX: any), without offsets: for an allocator of the
 * caller's. The plan has passed mp_plan_check. MP_INFEASIBLE: none was found; the sentence says what the smallest found needs,
 * which mp_planning_plan then returns. MP_INVALID: the graph is not finished. Otherwise as mp_solve_or_smallest. */
mp_status mp_planning_solve(mp_planning *planning, int64_t budget_bytes);

/* Finds the smallest plan (smallest.h), which fits every budget that an earlier answer offered. It does not depend on
 * earlier requests, nor on the time that nodes take. MP_INVALID: the graph is not finished. Otherwise as mp_solve. */
mp_status mp_planning_solve_smallest(mp_planning *planning);

/* Answers like mp_planning_solve, with a plan from an earlier answer (mp_plan_write, mp_plan_read) instead of a search. The
 * bound is the one that the plan claims. MP_REFUTED: the plan does not hold (mp_plan_check). MP_INVALID: it is NULL or for
 * another graph, or the graph is not finished. MP_NOMEM. On any error the earlier answer stays. */
mp_status mp_planning_take(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan);

/* Returns a number by name; -1 if it is not known (yet), or there is no such name.
 *   of a finished graph: "keep_all_bytes", "keep_all_ticks", "static_bytes"; "floor_bytes" and "floor_node", which are computed
 *     when they are first asked for (as mp_floor)
 *   of the last search: "planned_bytes", "planned_ticks", "n_steps", "host_bytes" (of the plan within the budget),
 * "bound_ticks" (proved: no plan within the budget takes less), "smallest_bytes", "smallest_ticks", "stopped" (1: ended by a
 * limit or the caller) */
int64_t mp_planning_number(mp_planning *planning, const char *name);

/* Writes the nodes of the plan's steps in order, at most `most` of them. Returns the number of steps; 0 if there is no plan.
 * O(steps). */
size_t mp_planning_steps(const mp_planning *planning, int *nodes, size_t most);

/* Writes per step the storage that it copies, -1 if it copies none, and the step that waits for it (until; n_steps: the end). A
 * step of a node that the caller has added brings the storage back, another one copies it out; of the two steps that copy
 * optimizer state the first brings it in. Returns as mp_planning_steps. */
size_t mp_planning_copies(const mp_planning *planning, int *storages, int *until, size_t most);

/* Writes the storages that are live at the peak of mp_planning_plan (or, if that is NULL, of keep-all), largest first, at
 * most `most`, without always-live ones. State that has come counts as its storage. *node (may be NULL): the node that runs
 * there. Returns how many there are; 0 on an error, with its message. As mp_timeline_build. */
size_t mp_planning_holders(mp_planning *planning, int *node, int *storages, size_t most);

/* ---- devices that need not be here (devices.def) ---- */

/* Returns the name of row k, counted from 0, of the devices that are known. NULL: there are no more. O(1). */
const char *mp_planning_device(size_t k);

/* Returns the seconds that a device takes for so many floating-point operations and bytes read and written, by the roofline
 * model (target.h). dtype "float32", "tfloat32", "float16" or "bfloat16" is of the operations, others count as float32. -1: no
 * such device. O(devices). */
double mp_planning_roofline(const char *device, const char *dtype, double flops, int64_t moved_bytes);

/* Returns what a step may have of a device's memory: all but what the card, its driver and libraries keep. -1: no such device.
 * O(devices). */
int64_t mp_planning_room(const char *device);

/* Returns the network that joins such devices as they usually come, "nvlink4+ib400" (networks.def). NULL: no such device. */
const char *mp_planning_network(const char *device);

/* Returns the seconds of a collective there ("all-reduce", memplan/ranks/network.h) among n ranks, each `stride` from the next,
 * on a tensor of so many bytes before it is split or when it is put together. -1: no such device or collective. O(rows). */
double mp_planning_collective(const char *device, const char *collective, int64_t n, int64_t stride, int64_t bytes);

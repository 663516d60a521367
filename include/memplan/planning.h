/* planning.h - a graph, a search and its answer behind one opaque handle, with a stable binary interface.
 *
 * It serves other languages (Python's ctypes, FFIs) and programs that are not rebuilt when the library changes. The interface
 * uses only pointers, integers, doubles and strings; callers need no struct layouts. Settings and results have string names, so
 * new names do not change the interface. docs/reference/library.md has an example; python/ is built on this header.
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
 * A call that fails leaves the handle unchanged. mp_planning_message returns its error sentence until the next call that can
 * fail. If a required handle, string, plan or list is NULL, a call fails or returns its "none" value. If an output list is
 * NULL, the call returns only the length. Use a handle from one thread at a time. mp_planning_graph, _plan and _error
 * connect to functions of other headers that take an mp_graph, an mp_plan or an mp_error, such as mp_graph_write,
 * mp_plan_write and mp_timeline_picture. */
#pragma once

#include "memplan/plan.h"

typedef struct mp_planning mp_planning;

/* Returns the version of this interface, 1. The version changes if a function or a string name of this header changes its
 * meaning. O(1). */
int mp_planning_interface(void);

/* Returns a handle with an empty graph. `name` is the name of the graph (NULL: ""), tick_seconds the length of its tick.
 * NULL: out of memory. Release with mp_planning_free (NULL is allowed). O(1). */
mp_planning *mp_planning_new(const char *name, double tick_seconds);
void mp_planning_free(mp_planning *planning);

/* If the most recent call failed, returns its error as one sentence without a full stop; else "". Valid until the next call.
 * O(1). */
const char *mp_planning_message(const mp_planning *planning);

/* Returns an empty mp_error to pass to a function of another header. If that function fails, mp_planning_message returns its
 * sentence. Returns NULL if the handle is NULL. O(1). */
mp_error *mp_planning_error(mp_planning *planning);
const char *mp_planning_hash(const mp_planning *planning); /* returns the hash of the finished graph as 32 hexadecimal digits;
                                                              "": the graph is not finished. O(1) */
const mp_graph *mp_planning_graph(
    const mp_planning *planning); /* returns the graph, which the handle owns. It is complete after mp_planning_finish. O(1) */
const mp_plan *mp_planning_plan(
    const mp_planning *planning); /* returns the plan of the last search, which the handle owns; NULL: there is no plan. O(1) */

/* ---- the graph (docs/internals/plan-rules.md) ---- */

/* Adds a storage to the graph. `kind` is a name of mp_kind ("parameter", "activation", ...). Returns its number, counted
 * from 0. -1: unknown kind, the graph is finished, or out of memory. Amortised O(1). */
int mp_planning_add_storage(mp_planning *planning, const char *name, const char *kind, int64_t bytes);

/* Adds a node to the graph. `phase` is "forward", "loss", "backward" or "update". Returns its number, counted from 0. -1:
 * unknown phase, the graph is finished, or out of memory. Amortised O(1). */
int mp_planning_add_node(mp_planning *planning, const char *name, const char *op, const char *phase, int64_t ticks,
                         int64_t workspace_bytes);

/* Connects n storages to a node: the node "reads" or "writes" them or "adds" to them. Each of these lists of a node can be
 * set once. For "in_place" the list contains pairs of storages; the second storage of a pair may take over the memory of the
 * first. MP_INVALID: unknown `how`, unknown node or storage, or the graph is finished. MP_NOMEM. O(n). */
mp_status mp_planning_connect(mp_planning *planning, int node, const char *how, const int *storages, size_t n);

/* Sets a flag of a node: "once" (may not be recomputed), "random", "view" or "turn". The flag "turn" belongs to one node, the
 * last that sets it: the caller may run the steps after this node again. So storages that are copied to the host before this
 * node and back after it keep their place in the slab until the end (mp_planning_offsets). MP_INVALID: unknown flag or node, or
 * the graph is finished. O(1). */
mp_status mp_planning_flag(mp_planning *planning, int node, const char *flag);

/* Checks and finishes the graph. Afterwards the graph cannot be changed. Errors as mp_graph_finish and mp_timeline_build. */
mp_status mp_planning_finish(mp_planning *planning);

/* Allows plans to offload these n storages of the finished graph to host memory, as mp_graph_offload does, but without a
 * minimum size. Optimizer state in the list moves to the host and is copied to the device only for its update. The bytes of
 * this state no longer count in "static_bytes". Numbers of nodes and storages do not change, and neither does the memory
 * that keep-all requires. `link` is a link, a device, the card name that the driver reports, or the rates of a link
 * (mp_link_parse). If bytes_per_second is not 0, it replaces the link's rates. Call once.
 * MP_INVALID: unknown link or storage, an invalid rate, or a graph that is not finished or already has copies. After
 * MP_NOMEM the handle can only be freed. O(graph + n^2). */
mp_status mp_planning_offload(mp_planning *planning, const int *storages, size_t n, const char *link, double bytes_per_second);

/* ---- the search ---- */

/* Sets an option of later searches. Values are spelled as on the command line. The options are "solver", "seed", "moves",
 * "effort", "time_limit" (seconds), "gap" (a fraction), "bound" ("yes", the default, or "no"), "host_bytes" (limit of live
 * bytes in host memory; 0: no limit) and "slab_bytes" (limit of the host memory of a plan with offsets: its slab and its
 * optimizer state, see mp_planning_offsets; 0: no limit). If a slab is too large, the search is repeated with a lower limit of
 * live bytes.
 *
 * The option "fuse" belongs to the graph and must be set before mp_planning_finish. With "none", the default, updates run
 * after all of backward. With "backward", they run within backward. MP_INVALID: unknown option or value, or "fuse" on a
 * finished graph. O(1). */
mp_status mp_planning_set(mp_planning *planning, const char *option, const char *value);

/* Sets a progress function that mp_planning_solve calls repeatedly, in its own thread. An argument is -1 while its value
 * does not exist. If the function returns false, the search ends with the best plan so far. `call` NULL: no calls. O(1). */
typedef bool (*mp_planning_call)(double elapsed_seconds, int64_t best_ticks, int64_t bound_ticks, int64_t smallest_bytes,
                                 void *data);
void mp_planning_on_progress(mp_planning *planning, mp_planning_call call, void *data);

/* Searches for the fastest plan whose peak is within the budget (INT64_MAX: unlimited). The plan has no offsets; the
 * caller's allocator assigns them. The plan has passed mp_plan_check. MP_INFEASIBLE: no plan was found. The message states
 * the memory of the smallest plan found, and mp_planning_plan returns that plan. MP_INVALID: the graph is not finished.
 * Other errors as mp_solve_or_smallest. */
mp_status mp_planning_solve(mp_planning *planning, int64_t budget_bytes);

/* Finds the smallest plan of the graph (smallest.h). The plan depends neither on earlier requests nor on the times of nodes.
 * If an earlier answer stated a budget as feasible, the smallest plan is within that budget. MP_INVALID: the graph is not
 * finished. Other errors as mp_solve. */
mp_status mp_planning_solve_smallest(mp_planning *planning);

/* Uses a plan from an earlier answer (mp_plan_write, mp_plan_read) instead of a search. Afterwards the other functions
 * answer as after mp_planning_solve. The bound is the one that the plan claims. MP_REFUTED: the plan fails mp_plan_check.
 * MP_INVALID: the plan is NULL or belongs to another graph, or the graph is not finished. MP_NOMEM. On an error the earlier
 * answer remains. */
mp_status mp_planning_take(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan);

/* Answers like mp_planning_take, with the steps of a plan for the same graph at other sizes: bytes and ticks of storages and
 * nodes may differ. The steps are replayed with the sizes of this graph, so the answer's peak and time are those of this graph.
 * There is no bound. MP_REFUTED, or MP_INVALID as mp_timeline_build: the steps are no plan of this graph. Other errors as
 * mp_planning_take. */
mp_status mp_planning_replay(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan);

/* Returns a number of the graph, the plan or the search by its name. -1: the name is unknown, or the value does not exist yet.
 *
 * - For a finished graph: "keep_all_bytes", "keep_all_ticks", "static_bytes", "floor_bytes", "floor_node". The first request
 *   for a floor value computes the floor (as mp_floor).
 * - For the plan within the budget: "planned_bytes", "planned_ticks", "n_steps", "host_bytes" (peak of live bytes),
 *   "slab_bytes" (size of the slab, mp_planning_offsets).
 * - For the last search: "bound_ticks" (proved: no plan within the budget takes less time), "smallest_bytes",
 *   "smallest_ticks", "stopped" (1: a limit or the caller ended it). */
int64_t mp_planning_number(mp_planning *planning, const char *name);

/* Writes the node of each step of the plan, in order, at most `most` of them. Returns the number of steps; 0: there is no
 * plan. O(steps). */
size_t mp_planning_steps(const mp_planning *planning, int *nodes, size_t most);

/* Describes the copies of the plan. For each step, writes the storage that the step copies (-1: none) and the step that
 * waits for the end of the copy (n_steps: the end of the plan). If the caller added the step's node, the step copies the
 * storage back; otherwise it copies the storage out. Optimizer state has two copy steps; the first copies it in. Returns the
 * number of steps as mp_planning_steps. */
size_t mp_planning_copies(const mp_planning *planning, int *storages, int *until, size_t most);

/* Describes the slab: one block of host memory for the copies of one run of the plan. For each step, writes the offset in bytes
 * of the storage that the step copies out or back. -1: the step copies nothing, or optimizer state, or a storage that no step
 * copies back. Storages that are in the slab at the same time do not overlap. Offsets are multiples of 512 bytes. The number
 * "slab_bytes" is the size of the slab. Returns the number of steps as mp_planning_steps. O(steps).
 *
 *     // given: mp_planning *p
 *     int64_t offsets[64];
 *     const size_t n = mp_planning_offsets(p, offsets, 64);
 *     printf("a slab of %lld bytes\n", (long long)mp_planning_number(p, "slab_bytes"));
 *     for (size_t t = 0; t < n && t < 64; t++)
 *         if (offsets[t] >= 0) printf("step %zu copies at offset %lld\n", t, (long long)offsets[t]); */
size_t mp_planning_offsets(const mp_planning *planning, int64_t *offsets, size_t most);

/* Writes the storages that are live at the peak of mp_planning_plan, largest first, at most `most` of them. If there is no
 * plan, keep-all is used. Static storages are omitted. Optimizer state that has been copied in is reported as its
 * original storage. *node (may be NULL) receives the node that runs at the peak. Returns the number of these storages. On an
 * error it returns 0 and sets mp_planning_message. Cost as mp_timeline_build. */
size_t mp_planning_holders(mp_planning *planning, int *node, int *storages, size_t most);

/* ---- devices of the table devices.def; the machine need not have them ---- */

/* Returns the name of device k, counted from 0. NULL: k is beyond the last device. O(1). */
const char *mp_planning_device(size_t k);

/* Returns the seconds of an operation on a device by the roofline model (target.h), from its floating-point operations and its
 * bytes read and written. dtype is the operand type: "float32", "tfloat32", "float16" or "bfloat16"; other types count as
 * float32. -1: unknown device. O(devices). */
double mp_planning_roofline(const char *device, const char *dtype, double flops, int64_t moved_bytes);

/* Returns the seconds of one kernel on a device at achieved rates (estimator/training/rates.def), launch included. dtype is as
 * in mp_planning_roofline.
 *
 * - "product": sizes are batch, rows, columns and depth of a matrix product.
 * - "convolution forward", "convolution data" and "convolution weight" (the gradients of input and weight): sizes are groups,
 *   input and output channels per group, elements of the window, positions of the window in the input and in the output of the
 *   batch, and 1 if the input is stored channels-last, else 0.
 * - The name of a row of rates.def: size 0 is the number of floating-point operations.
 *
 * at_peak: if it is not NULL, at_peak[0 .. 3) receives the seconds of arithmetic, memory and reordering at peak rates, and
 * family receives the name of the kernel's row. -1: an unknown device, name, or number of sizes, or a device without achieved
 * rates. O(devices + rows). */
double mp_planning_achieved(const char *device, const char *dtype, const char *kernel, const double *sizes, size_t n_sizes,
                            int64_t moved_bytes, double *at_peak, const char **family);

/* Writes a sentence about the accuracy of seconds at achieved rates into `text`, which needs 256 bytes. families[i] is a row of
 * rates.def, seconds[i] the seconds of the step in it. Unknown families are ignored. Returns false if no published step
 * resembles the step; the sentence then begins with "warning: " and states the reason. O(n * rows). */
bool mp_planning_accuracy(const char *const *families, const double *seconds, size_t n, char *text);

/* Returns the bytes of a device's memory that a training step can use: all memory except the reserve for the card, its
 * driver and libraries. -1: unknown device. O(devices). */
int64_t mp_planning_capacity(const char *device);

/* Returns the bytes of a device's memory that are reserved for the card, its driver and libraries. `device` is a device, or the
 * card name that the driver reports. -1: unknown device. O(devices). */
int64_t mp_planning_reserve(const char *device);

/* Parses a budget as users write it (budget.h). Returns its kind: "bytes", "peak" (per cent of keep-all), "min" (the smallest
 * plan and a part of the way to keep-all), "auto" or "device"; NULL: the text is not a budget. *bytes becomes the bytes of the
 * budget, given keep-all's peak and the memory of the smallest plan; -1 for "auto" and "device". O(length). */
const char *mp_planning_budget(const char *text, int64_t keep_all_bytes, int64_t smallest_bytes, int64_t *bytes);

/* Returns the rate in bytes per second of the text of a link with one rate for both directions, such as "24GB/s"; 0: the text
 * is another link (mp_link_parse), with rates of its own; -1: it is not a link. O(devices). */
double mp_planning_link_rate(const char *link);

/* Returns the name of the usual network between devices of this type, such as "nvlink4+ib400" (networks.def). NULL: unknown
 * device. */
const char *mp_planning_network(const char *device);

/* Returns the seconds of a collective ("all-reduce", ranks/network.h) on the usual network of a device, among n ranks whose
 * numbers differ by `stride`. `bytes` is the size of the whole tensor, before scattering or after gathering. -1: unknown
 * device or collective. O(devices). */
double mp_planning_collective(const char *device, const char *collective, int64_t n, int64_t stride, int64_t bytes);

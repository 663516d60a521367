/* execution.h - a plan on a program's backend: the memory it needs, and steps of training in it.
 *
 * Everything lies in two blocks: one for what is always live (parameters, optimizer state, inputs, ...), and the arena, in
 * which the plan's offsets say where everything else lies and when. Both are allocated when the execution is made; a step
 * allocates nothing.
 */
#pragma once

#include "executor/run/program.h"
#include "executor/run/watch.h"
#include "memplan/execution.h"
#include "memplan/memory.h"
#include "memplan/plan.h"

typedef struct mp_execution mp_execution;

/* Memory for this plan, which has offsets (mp_arena) and was checked. On MP_OK *out is released with mp_execution_free; program
 * and plan must outlive it. MP_NOMEM says how much was asked for; MP_INVALID: a plan without offsets. */
mp_status mp_execution_new(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_execution **out,
                           mp_error *err);
void mp_execution_free(mp_execution *execution); /* NULL is fine */
MP_OWNER(mp_execution_free, mp_execution)

/* Where tensor t lies, if it is always live (parameter, buffer, constant, input); *out has its address. MP_INVALID: it is not.
 */
mp_status mp_execution_tensor(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* The gradient of parameter t, where it is always live (no optimizer, or several micro-batches). MP_INVALID: it is not. */
mp_status mp_execution_gradient(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* The optimizer state of parameter t: moments, and the master copy behind 16-bit ones, each of mp_stored_elements(t) floats in
 * the layout of t; *n_floats 0: it has none. */
float *mp_execution_state(mp_execution *execution, int tensor, int64_t *n_floats);

/* Fills the inputs of one micro-batch. */
typedef mp_status (*mp_fill_inputs)(void *data, int64_t micro_batch, mp_execution *execution, mp_error *err);

/* Runs step `step` (0, 1, ...): as many micro-batches as the program accumulates, and the updates. *loss is their mean. With
 * forward-fused updates the gradients of this step change the parameters when the next one starts, or at mp_execution_flush.
 * Where the backend records, the first pass of each kind runs call by call (libraries load what they need), the next one is
 * recorded. What fails on a device is seen at the end of a pass at the latest: MP_IO. */
mp_status mp_execution_step(mp_execution *execution, int64_t step, mp_fill_inputs fill, void *data, double *loss,
                            mp_error *err);
/* From now on what every step of the plan reads and writes is looked at; NULL: no longer. Only where passes are not recorded
 * and nothing runs on a second stream (by_call, profile). */
void mp_execution_watch(mp_execution *execution, mp_watch *watch);
/* Runs the updates that wait for the next step (forward-fused); before saving, evaluating, and at the end. */
mp_status mp_execution_flush(mp_execution *execution, mp_error *err);

/* What the inputs took within the last step: waiting for them and bringing them to where they are read. */
double mp_execution_input_seconds(const mp_execution *execution);
/* How many kinds of pass were recorded by the backend, to be run in one go: 0: none. */
int mp_execution_recordings(const mp_execution *execution);
/* What was measured: the arena's high-water mark (the block is filled with a pattern before the first step; what is no longer
 * the pattern was used; rounded up to the alignment), and seconds per node (profile: one double per node of the graph, over all
 * steps). */
int64_t mp_execution_arena_bytes(const mp_execution *execution);
int64_t mp_execution_touched_bytes(const mp_execution *execution);
const double *mp_execution_seconds(const mp_execution *execution);
void mp_execution_forget_seconds(mp_execution *execution); /* counts from here on */
/* A hash over all parameters and buffers, byte by byte as they lie in memory. */
void mp_execution_hash(const mp_execution *execution, char hash[33]);

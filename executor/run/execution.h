/* execution.h - runs a plan on a program's backend: allocates its memory, and runs training steps in it.
 *
 * The memory has two blocks. One holds all storages that are always live (parameters, optimizer state, inputs, ...). The other
 * is the arena, in which the plan assigns an offset and a lifetime to every other storage. Offloaded storages have copies in
 * other tiers: host memory or files. All memory is allocated when the execution is created; a step allocates nothing. */
#pragma once

#include "executor/program/program.h"
#include "executor/run/rank_channel.h"
#include "executor/run/watch.h"
#include "executor/tiers/copy_queue.h"
#include "memplan/execution.h"
#include "memplan/memory.h"
#include "memplan/plan.h"

typedef struct mp_execution mp_execution;

/* Allocates the memory of a plan. The plan must have offsets (mp_arena) and must be checked. The caller releases *out with
 * mp_execution_free; program and plan must outlive *out. Errors: as mp_addresses_of. */
mp_status mp_execution_new(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_execution **out,
                           mp_error *err);
void mp_execution_free(mp_execution *execution); /* does nothing for NULL */
MP_OWNER(mp_execution_free, mp_execution)

/* Describes tensor t with its address in *out. MP_INVALID: the tensor is not always live. Parameters, buffers, constants and
 * inputs are always live. */
mp_status mp_execution_tensor(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* Describes the gradient of parameter t. MP_INVALID: the gradient is not always live. Gradients are always live if the program
 * has no optimizer, or several micro-batches per step. */
mp_status mp_execution_gradient(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* Returns the address of this rank's part of a parameter, and in *own the elements of the part. NULL: the rank stores the whole
 * parameter. O(nodes). */
char *mp_execution_part(const mp_execution *execution, int tensor, mp_range *own);
/* True if a parameter has optimizer state. O(nodes). */
bool mp_execution_has_state(const mp_execution *execution, int tensor);
/* Returns in *state the optimizer state of a parameter: the moments, then the master copy of a 16-bit parameter. Each has
 * mp_stored_elements(t) floats in the layout of t. NULL: the parameter has no state. State in a file is read into a buffer that
 * is valid until the next call. To change such state, change the buffer and call mp_execution_keep_state. MP_NOMEM, MP_IO. */
mp_status mp_execution_state(mp_execution *execution, int tensor, float **state, mp_error *err);
mp_status mp_execution_keep_state(mp_execution *execution, int tensor, mp_error *err);

/* The type of a function that fills the inputs of one micro-batch. */
typedef mp_status (*mp_fill_inputs)(void *data, int64_t micro_batch, mp_execution *execution, mp_error *err);

/* Runs step `step` (0, 1, ...): all micro-batches that the program accumulates, and the updates. *loss is the mean of the
 * losses. With forward-fused updates, the gradients of this step change the parameters at the start of the next step or in
 * mp_execution_flush. If the backend records passes (CUDA graphs), the first pass of each kind runs call by call, because
 * libraries load code at first use. The second pass of the kind is recorded. MP_IO: a copy or the device failed; a device
 * failure is detected at the end of a pass at the latest. MP_REFUTED: the copied bytes differ from the plan. */
mp_status mp_execution_step(mp_execution *execution, int64_t step, mp_fill_inputs fill, void *data, double *loss,
                            mp_error *err);
/* From now on `watch` inspects the operands of every step; NULL ends the inspection. Inspection supports neither recordings
 * nor a second stream, so the execution needs the options by_call and profile. */
void mp_execution_watch(mp_execution *execution, mp_watch *watch);
/* Runs the pending updates of forward-fused training. Must be called before saving, before evaluating, and at the end of a
 * training. */
mp_status mp_execution_flush(mp_execution *execution, mp_error *err);

/* Returns the seconds that the last training step waited for its input data and copied it to the inputs. */
double mp_execution_input_seconds(const mp_execution *execution);
/* Returns the number of recordings of passes, at most one for each kind of pass (execution_state.h); 0: none. */
int mp_execution_recordings(const mp_execution *execution);
/* Return the size of the arena, and its high-water mark in bytes, rounded up to the alignment. The arena is filled with a fixed
 * byte before the first step; the high-water mark is the position of the last changed byte. */
int64_t mp_execution_arena_bytes(const mp_execution *execution);
int64_t mp_execution_touched_bytes(const mp_execution *execution);
/* Return the bytes allocated in tier `tier`; and the bytes copied from the device to other tiers, and back, so far. */
int64_t mp_execution_tier_bytes(const mp_execution *execution, int tier);
mp_copied mp_execution_copied(const mp_execution *execution);
/* Return the seconds that all training steps spent waiting for copies and for other ranks; and, with the option profile, the
 * seconds of every node of the graph, summed over all steps. */
double mp_execution_wait_seconds(const mp_execution *execution);
const double *mp_execution_seconds(const mp_execution *execution);
void mp_execution_forget_seconds(mp_execution *execution); /* resets the measured seconds of all nodes to zero */
/* Writes a hash of the bytes of all parameters and buffers, in the order of their storages. */
void mp_execution_hash(const mp_execution *execution, char hash[33]);
/* Compares the parameters of all ranks, bit for bit. Whole parameters must be equal on all ranks; parts must be equal on all
 * ranks that hold the same part. MP_INVALID: they differ. */
mp_status mp_execution_compare_ranks(const mp_execution *execution, mp_error *err);
const mp_rank_channel *mp_execution_ranks(
    const mp_execution *execution); /* returns the network channel, with the statistics of exchanges with other ranks */
/* Returns the bytes copied between the arena and the stash of waiting micro-batches, in both directions. */
int64_t mp_execution_set_aside_bytes(const mp_execution *execution);
const mp_rank_position *mp_execution_position(const mp_execution *execution);
/* The connection of a process to the other ranks: a communicator (with one process, it has a single rank), and the seconds
 * after which a silent rank counts as failed. */
typedef struct mp_company {
    mp_communicator *world;
    double timeout;
} mp_company;
mp_company mp_execution_company(const mp_execution *execution);

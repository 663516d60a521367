/* execution.h - runs a plan on a program's backend: allocates its memory, and runs steps of training in it.
 *
 * Everything lies in two blocks: one for what is always live (parameters, optimizer state, inputs, ...), and the arena, in
 * which the plan's offsets say where everything else lies and when. What the plan copies lies in other tiers besides: memory,
 * or a file. All are allocated when the execution is made; a step allocates nothing. */
#pragma once

#include "executor/run/program.h"
#include "executor/run/rank_channel.h"
#include "executor/run/watch.h"
#include "executor/tiers/copy_queue.h"
#include "memplan/execution.h"
#include "memplan/memory.h"
#include "memplan/plan.h"

typedef struct mp_execution mp_execution;

/* Allocates the memory of a plan, which must have offsets (mp_arena) and be checked. The caller releases *out with
 * mp_execution_free; program and plan must outlive it. Fails as mp_addresses_of. */
mp_status mp_execution_new(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_execution **out,
                           mp_error *err);
void mp_execution_free(mp_execution *execution); /* does nothing for NULL */
MP_OWNER(mp_execution_free, mp_execution)

/* Describes tensor t with its address in *out, if it is always live (parameter, buffer, constant, input). MP_INVALID: it is
 * not. */
mp_status mp_execution_tensor(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* Describes the gradient of parameter t, if it is always live (no optimizer, or several micro-batches). MP_INVALID: it is
 * not. */
mp_status mp_execution_gradient(mp_execution *execution, int tensor, mp_array *out, mp_error *err);
/* Gives where this rank's part of a parameter is that is whole nowhere, and which elements it has; NULL: there is a whole one.
 * O(nodes). */
char *mp_execution_part(const mp_execution *execution, int tensor, mp_range *own);
/* True if a parameter has optimizer state. O(nodes). */
bool mp_execution_has_state(const mp_execution *execution, int tensor);
/* Gives the optimizer state of a parameter: moments, then the master copy of a 16-bit one, each of mp_stored_elements(t)
 * floats in the layout of t; NULL: it has none. State that lies in a file is read into memory, which is valid until the next
 * call; to change it, change that and call mp_execution_keep_state. MP_NOMEM, MP_IO. */
mp_status mp_execution_state(mp_execution *execution, int tensor, float **state, mp_error *err);
mp_status mp_execution_keep_state(mp_execution *execution, int tensor, mp_error *err);

/* Fills the inputs of one micro-batch. */
typedef mp_status (*mp_fill_inputs)(void *data, int64_t micro_batch, mp_execution *execution, mp_error *err);

/* Runs step `step` (0, 1, ...): as many micro-batches as the program accumulates, and the updates. *loss is the mean of
 * their losses. With forward-fused updates the gradients of this step change the parameters when the next one starts, or at
 * mp_execution_flush. Where the backend records, the first pass of each kind runs call by call (libraries load what they
 * need), the next one is recorded. MP_IO: the device failed, noticed at the end of a pass at the latest, or a copy. MP_REFUTED:
 * not as many bytes were copied as the plan says. */
mp_status mp_execution_step(mp_execution *execution, int64_t step, mp_fill_inputs fill, void *data, double *loss,
                            mp_error *err);
/* From now on `watch` inspects what every step reads and writes; NULL ends that. Not together with recordings or a second
 * stream, so the program needs the options by_call and profile. */
void mp_execution_watch(mp_execution *execution, mp_watch *watch);
/* Runs the pending updates of forward-fused training. Call it before saving, evaluating, and at the end. */
mp_status mp_execution_flush(mp_execution *execution, mp_error *err);

/* Returns the seconds that the last step spent waiting for its inputs and copying them to where they are read. */
double mp_execution_input_seconds(const mp_execution *execution);
/* Returns how many kinds of pass have been recorded; 0: none. */
int mp_execution_recordings(const mp_execution *execution);
/* The high-water mark of the arena, rounded up to the alignment: the block is filled with a byte before the first step, and
 * what differs from it was used. And, with the option profile, the seconds of every node of the graph, over all steps. */
int64_t mp_execution_arena_bytes(const mp_execution *execution);
int64_t mp_execution_touched_bytes(const mp_execution *execution);
/* Return what another tier takes, and the bytes that have been copied to other tiers and back. */
int64_t mp_execution_tier_bytes(const mp_execution *execution, int tier);
mp_copied mp_execution_copied(const mp_execution *execution);
/* Returns the seconds that all steps have waited for copies. */
double mp_execution_wait_seconds(const mp_execution *execution);
const double *mp_execution_seconds(const mp_execution *execution);
void mp_execution_forget_seconds(mp_execution *execution); /* sets them to zero */
/* Writes a hash over the bytes of all parameters and buffers, in their order in memory. */
void mp_execution_hash(const mp_execution *execution, char hash[33]);
/* Compares the parameters of all ranks, which are to be the same, bit for bit; parts with those of ranks that have the same
 * ones. MP_INVALID: they are not. */
mp_status mp_execution_compare_ranks(const mp_execution *execution, mp_error *err);
const mp_rank_channel *mp_execution_ranks(const mp_execution *execution); /* what has been sent to other ranks */
/* Returns the bytes that what waiting micro-batches of a pipeline keep has been copied out of its place, and back. */
int64_t mp_execution_set_aside_bytes(const mp_execution *execution);
const mp_rank_place *mp_execution_place(const mp_execution *execution);
/* The processes of all ranks, or of one that is alone, and how long they are waited for. */
typedef struct mp_company {
    mp_communicator *world;
    double timeout;
} mp_company;
mp_company mp_execution_company(const mp_execution *execution);

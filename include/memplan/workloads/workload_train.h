/* workload_train.h - trains a workload: its inputs, the memory of its tiers, and the runs that are compared.
 *
 *     // given: mp_workload *workload; mp_error *err
 *     const mp_workload_inputs_request from = {.seed = 1, .draws_missing = true}; // synthetic data
 *     mp_workload_inputs inputs;
 *     mp_report report;
 *     MP_CHECK(mp_workload_check_trains(workload, err));
 *     MP_CHECK(mp_workload_open_inputs(workload, &from, &inputs, err));
 *     mp_train_request request = {.program = workload->program, .plan = workload->plan, .n_steps = 10,
 *                                 .feed = inputs.feed, .parameters = inputs.parameters,
 *                                 .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)}};
 *     mp_workload_use_tiers(workload, &request.execution);
 *     MP_CHECK(mp_train(&request, &report, err));
 *     mp_report_free(&report);
 *     mp_workload_inputs_free(&inputs);
 */
#pragma once

#include "memplan/train.h"
#include "memplan/workload.h"

/* Checks that the workload can be trained: it has a model, a loss and a program. MP_INVALID: it has no model or no loss, or it
 * follows PyTorch's rules. MP_UNSUPPORTED: no program can run it yet, or its device is a profile. */
mp_status mp_workload_check_trains(const mp_workload *w, mp_error *err);

/* The sources of a training's inputs. A source of data is written as for --data: "NAME=FILE", "text=FILE", "synthetic". */
typedef struct mp_workload_inputs_request {
    mp_text_list data, test; /* test empty: no test data */
    uint64_t seed;
    bool draws_missing;     /* true: draw parameters whose external file is missing, or that a checkpoint will replace */
    const char *folder;     /* folder of the unnamed files that store columns of tables; NULL: columns are stored in memory */
    mp_communicator *world; /* the ranks of the training; NULL: a single process */
} mp_workload_inputs_request;

/* The opened inputs of a training. */
typedef struct mp_workload_inputs {
    mp_parameter_source *parameters;
    mp_feed *feed, *test;         /* feed: the part of the data that this rank reads; test: NULL if there are no test data */
    size_t n_parameters, n_drawn; /* number of parameters; number of those that are drawn at random */
    int64_t n_samples, n_test_samples; /* n_test_samples -1: there are no test data */
    uint64_t data_digest, test_digest; /* with several ranks: digests of data and test data, which the ranks compare */
} mp_workload_inputs;

/* Opens the source of initial values, the data and the test data. On MP_OK release *out with mp_workload_inputs_free. Errors:
 * as mp_parameter_source_open and mp_inputs_open_feed. */
mp_status mp_workload_open_inputs(const mp_workload *w, const mp_workload_inputs_request *request, mp_workload_inputs *out,
                                  mp_error *err);
void mp_workload_inputs_free(mp_workload_inputs *inputs); /* releases the members; a zeroed struct is allowed */

/* Counts the parameters that influence the loss only through a step function, whose gradient is zero. They are not trained.
 * *first is the name of the first one; NULL: there is none. O(tensors). */
size_t mp_workload_untrained(const mp_workload *w, const char **first);

/* True if copies to this tier are written to a file. False for host memory. */
bool mp_workload_tier_is_file(const mp_workload *w, size_t tier);
/* Sets the memory of each tier and the rates of copies in the options of an execution. */
void mp_workload_use_tiers(const mp_workload *w, mp_execution_options *execution);
/* If the plan copies to other tiers: allocates all memory of the plan and releases it again, so that a lack of memory is found
 * before the training. Errors: as mp_train. */
mp_status mp_workload_try_tiers(const mp_workload *w, const mp_execution_options *execution, mp_error *err);

/* Makes the plan of keep-all with the algorithms of the workload's plan, and with offsets. Different algorithms have different
 * rounding errors; with equal algorithms both plans give bit-identical results. *out is NULL if no node
 * has several algorithms. On MP_OK release *out with mp_plan_free. Errors: as mp_arena_layout. */
mp_status mp_workload_keep_all_like(const mp_workload *w, mp_plan **out, mp_error *err);
/* Sets the stash of a pipeline rank to the bytes that `plan` keeps for the other micro-batches in flight. Does nothing without
 * a pipeline. MP_NOMEM. */
mp_status mp_workload_hold_for(mp_workload *w, const mp_plan *plan, mp_error *err);
/* Returns the bytes that n_steps training steps copy, given the planned bytes of one pass. Optimizer state is copied once per
 * training step, however many passes the step has. */
int64_t mp_workload_copied_bytes(const mp_workload *w, int64_t pass_bytes, size_t n_steps);

/* Writes a trace of a training step to a file. times[k] is the time of step k of the plan. With several ranks, every rank calls
 * this function, and rank 0 writes the events of all ranks. MP_IO, MP_NOMEM. */
mp_status mp_workload_write_trace(const mp_workload *w, mp_communicator *world, const struct mp_step_time *times,
                                  const char *path, double timeout, mp_error *err);

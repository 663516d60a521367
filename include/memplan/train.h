/* train.h - executes a training with a plan, and measures its memory and time. examples/train_plan.c is a whole program.
 *
 *     // given: mp_program *program; const mp_plan *plan; mp_feed *feed; const mp_parameter_source *parameters; mp_error *err
 *     const mp_train_request request = {
 *         .program = program, .plan = plan, .feed = feed, .parameters = parameters, .n_steps = 100,
 *         .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)}};
 *     mp_report report = {0};
 *     MP_CHECK(mp_train(&request, &report, err));
 *     mp_report_free(&report);
 */
#pragma once

#include "memplan/execution.h"
#include "memplan/inputs.h"
#include "memplan/parameters.h"
#include "memplan/plan.h"
#include "memplan/ranks/rank_report.h"

/* The progress of a training, passed to the caller's function after each step. If the function returns false, the training
 * ends. */
typedef struct mp_train_progress {
    int64_t step, n_steps; /* number of completed training steps, and number of all steps of this run */
    double loss, seconds;  /* loss of the last training step, and its duration in seconds */
} mp_train_progress;
typedef bool (*mp_train_progress_call)(const mp_train_progress *now, void *data);

typedef struct mp_train_request {
    mp_program *program;
    const mp_plan *plan; /* a checked plan with offsets */
    mp_execution_options execution;
    mp_feed *feed;
    mp_feed *test; /* samples on which the model is evaluated after the training; NULL: no evaluation */
    const mp_parameter_source *parameters;
    const char *resume; /* checkpoint file or folder to resume from; NULL: start from the initial parameters */
    int64_t n_steps;    /* number of training steps to run now */
    const char
        *save; /* checkpoint file to write, or a folder if the optimizer state is sharded; NULL: the training is not saved */
    int64_t save_every; /* number of training steps between saves; 0: save only at the end */
    mp_train_progress_call progress;
    void (*saving)(bool begins,
                   void *data); /* function that is called before and after every save, with progress_data; NULL: none */
    void *progress_data;
} mp_train_request;

/* Loss and accuracy on samples that are not in the training set. */
typedef struct mp_accuracy {
    int64_t n_samples; /* number of evaluated samples, a multiple of the batch. For a text, about the number of non-overlapping
                          windows */
    double loss;       /* mean loss over the evaluated batches */
    double accuracy;   /* fraction of samples for which the label's class has the highest score; -1: the loss has no classes */
    char fault[400];   /* if the loss is not finite: the sample that causes it; "": this sample was not found, or the loss is
                          finite */
} mp_accuracy;

typedef struct mp_report {
    int64_t static_bytes, planned_peak_bytes, arena_bytes, measured_arena_bytes;
    int64_t process_bytes;      /* peak memory of the process during the run, in bytes; -1: not known */
    int64_t idle_process_bytes; /* process memory before the run allocated its own blocks: program, libraries and model */
    int64_t n_allocations;      /* number of allocations by memplan during the training steps */
    /* Bytes in use on a device with its own memory. device_bytes is measured during the run. idle_device_bytes is measured
     * before the run allocates its two blocks, so it is the memory of the context and loaded libraries. -1: the device uses
     * host memory. */
    int64_t device_bytes, idle_device_bytes;
    int64_t next_batch_bytes; /* part of device_bytes: the buffer into which the next batch is prefetched. The plan does not
                                 include it */
    bool device_is_shared;    /* true if device_bytes includes all processes, because the system cannot separate them */
    int n_recordings; /* number of kinds of passes that the backend recorded (CUDA graphs); 0: the backend was called for every
                         node */
    double step_seconds;  /* median seconds per training step, without the first (warm-up) step */
    double input_seconds; /* part of step_seconds in which the training waits for a batch and copies it; median over the same
                             steps */
    size_t n_losses;
    double *losses;       /* the loss of each training step; released with mp_report_free */
    double *node_seconds; /* only with execution.profile: seconds per node in the fastest training step (never the first step);
                             else NULL */
    double fastest_seconds; /* only with execution.profile: seconds of the fastest training step, at least the sum of
                               node_seconds */
    char weights_hash[33];
    bool has_test;
    mp_accuracy test;
    int64_t first_step; /* the training step at which the resumed checkpoint ended; 0: the training was not resumed */
    bool stopped;       /* true if the progress function ended the training */
    /* Only for plans with copies: bytes allocated per tier (except the device), and bytes copied out and in over all steps. */
    int64_t tier_bytes[MP_MAX_TIERS], out_bytes, in_bytes;
    double wait_seconds; /* mean seconds per training step in which the training does nothing but wait for copies or for other
                            ranks */
    int n_ranks;         /* number of ranks that trained together; 1 without a mesh */
    char network[64];    /* name of the communication library; "": the training had a single rank */
    int64_t sent_bytes,
        planned_sent_bytes; /* bytes sent to other ranks in all training steps: measured, and according to the plan */
    mp_rank_report *ranks;  /* reports of all ranks; released with mp_report_free */
} mp_report;

/* Trains a model. On MP_OK and MP_REFUTED *report is filled; release it with mp_report_free. MP_REFUTED: a loss is not
 * finite, or a parameter is not finite at a save or at the end. The message names the step and the operator with the first
 * value that is not finite. To find the operator, the training is repeated with all operands checked. After such a failure
 * nothing is saved. MP_IO: saving or resuming failed. MP_PARSE: the checkpoint is malformed. MP_NOMEM. */
mp_status mp_train(const mp_train_request *request, mp_report *report, mp_error *err);
/* True if the losses of two trainings, and the weights of all their ranks, are bit-identical. O(steps). */
bool mp_reports_are_same(const mp_report *a, const mp_report *b);
void mp_report_free(mp_report *report); /* releases the members of a report, not the struct; a zeroed struct is allowed */

/* Measurements of several trainings that share one arena. */
typedef struct mp_turns {
    size_t n;
    mp_report
        *reports; /* per training: its report, as from mp_train. measured_arena_bytes is -1, because the arena is shared */
    int64_t static_bytes, arena_bytes; /* planned bytes: the sum of all static bytes, and the largest arena */
    int64_t measured_arena_bytes;      /* highest byte of the shared arena that any training wrote to, counted from its start */
} mp_turns;

/* Trains several models by turns: each unfinished training in turn runs one training step. All trainings use one arena,
 * which has the size of the largest. This is possible because a training holds nothing in the arena between two training
 * steps. Losses and parameters are bit-identical to separate trainings. execution.arena of the requests is ignored. On MP_OK
 * release *out with mp_turns_free. Errors as mp_train; but MP_REFUTED fills no report. MP_INVALID: there is no training, the
 * trainings use different backends, or a training carries gradients between steps. */
mp_status mp_train_turns(const mp_train_request *requests, size_t n, mp_turns *out, mp_error *err);
void mp_turns_free(mp_turns *turns); /* releases the reports, not the struct; a zeroed struct is allowed */

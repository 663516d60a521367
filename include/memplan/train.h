/* train.h - executes a training as planned, and measures it. examples/train_plan.c is a whole program.
 *
 *     const mp_train_request request = {.program = program, .plan = plan, .feed = feed, .parameters = parameters,
 *                                       .n_steps = 100,
 *                                       .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)}};
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
    int64_t step, n_steps; /* number of completed steps, and of all steps of this run */
    double loss, seconds;  /* loss of the last step, and its duration in seconds */
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
    int64_t n_steps;    /* number of steps to run now */
    const char *save;   /* checkpoint file to write, or a folder if state is sharded; NULL: none */
    int64_t save_every; /* steps between saves; 0: save at the end only */
    mp_train_progress_call progress;
    void (*saving)(bool begins, void *data); /* called before and after every save, with progress_data; may be NULL */
    void *progress_data;
} mp_train_request;

/* Loss and accuracy on samples outside the training set. */
typedef struct mp_accuracy {
    int64_t n_samples; /* evaluated samples, in whole batches; for a text, about the number of non-overlapping windows */
    double loss;       /* mean loss over the evaluated batches */
    double accuracy;   /* fraction of samples whose label has the highest score; -1: the loss is not over classes */
    char fault[400];   /* if the loss is not finite: the position in the data that causes it; "": not found */
} mp_accuracy;

typedef struct mp_report {
    int64_t static_bytes, planned_peak_bytes, arena_bytes, measured_arena_bytes;
    int64_t process_bytes;      /* peak memory of the process during the run; -1: not known */
    int64_t idle_process_bytes; /* process memory before the run allocated its blocks: program, libraries, model */
    int64_t n_allocations;      /* allocations by memplan inside the loop over the steps */
    /* Bytes in use on a device with its own memory: during the run, and before the run allocated its two blocks (context and
     * loaded libraries). -1: the device uses host memory. */
    int64_t device_bytes, idle_device_bytes;
    int64_t next_batch_bytes; /* part of device_bytes: the prefetch buffer of the next batch, which is not in the plan */
    bool device_is_shared;    /* true if device bytes include all processes, because the system cannot separate them */
    int n_recordings;         /* number of recorded pass types (CUDA graphs); 0: every node was called individually */
    double step_seconds;      /* median seconds per step, without the first (warm-up) step */
    double input_seconds;     /* part of step_seconds in which the training waits for a batch and copies it; the median over the
                                 same steps */
    size_t n_losses;
    double *losses;         /* the loss of each step; released with mp_report_free */
    double *node_seconds;   /* with profile: seconds per node in the fastest step (never the first); else NULL */
    double fastest_seconds; /* with profile: seconds of the fastest step, at least the sum of its nodes */
    char weights_hash[33];
    bool has_test;
    mp_accuracy test;
    int64_t first_step; /* 0, or the step at which the resumed checkpoint ended */
    bool stopped;       /* true if the progress call ended the training */
    /* For plans with copies: bytes allocated per tier (except the device), bytes copied in all steps, and mean seconds per step
     * spent waiting only for copies. */
    int64_t tier_bytes[MP_MAX_TIERS], out_bytes, in_bytes;
    double wait_seconds; /* mean seconds per step in which the training waits only for copies or for other ranks */
    int n_ranks;         /* number of ranks that trained together */
    char network[64];    /* name of the communication library; "": a single rank */
    int64_t sent_bytes, planned_sent_bytes; /* bytes sent to other ranks in all steps: measured, and according to the plan */
    mp_rank_report *ranks;                  /* one report per rank; released with mp_report_free */
} mp_report;

/* Trains. On MP_OK and MP_REFUTED *report is filled; release it with mp_report_free. MP_REFUTED: a loss, or a parameter at a
 * save or at the end, is not finite. The message names the step and the operator with the first such value. To find the
 * operator, the training is repeated with all operands checked. Nothing is saved after the failure. MP_NOMEM, MP_IO (saving,
 * resuming), MP_PARSE (resuming). */
mp_status mp_train(const mp_train_request *request, mp_report *report, mp_error *err);
void mp_report_free(mp_report *report); /* releases the members, not the struct; a zeroed struct is allowed */

/* Measurements of several trainings that share one arena. */
typedef struct mp_turns {
    size_t n;
    mp_report *reports; /* per training, as from mp_train; measured_arena_bytes is -1, because the arena is shared */
    int64_t static_bytes, arena_bytes; /* planned: the sum of static bytes, and the largest arena */
    int64_t measured_arena_bytes;      /* high-water mark of the shared arena over all trainings */
} mp_turns;

/* Trains several models by turns: one step of each unfinished training after the other. All trainings use one arena of the size
 * of the largest, because between two steps a training holds nothing in the arena. Losses and parameters are bit-identical to
 * separate trainings. Arenas in the requests are ignored. On MP_OK release *out with mp_turns_free. Errors as mp_train;
 * MP_REFUTED comes without a report. MP_INVALID: no trainings, different backends, or a training that carries gradients between
 * steps. */
mp_status mp_train_turns(const mp_train_request *requests, size_t n, mp_turns *out, mp_error *err);
void mp_turns_free(mp_turns *turns); /* releases the members, not the struct; a zeroed struct is allowed */

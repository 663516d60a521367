/* train.h - training as a plan says, with what was measured on the way. examples/train_plan.c is a whole program.
 *
 *     const mp_train_request request = {.program = program, .plan = plan, .feed = feed, .parameters = parameters, .n_steps =
 * 100, .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)}}; mp_report report = {0}; MP_CHECK(mp_train(&request,
 * &report, err)); mp_report_free(&report);
 */
#pragma once

#include "memplan/execution.h"
#include "memplan/inputs.h"
#include "memplan/parameters.h"
#include "memplan/plan.h"

/* Called after each step with what has happened so far; false ends the training after this step. */
typedef struct mp_train_progress {
    int64_t step, n_steps; /* steps done, of how many in all */
    double loss, seconds;  /* of the last step */
} mp_train_progress;
typedef bool (*mp_train_progress_call)(const mp_train_progress *now, void *data);

typedef struct mp_train_request {
    mp_program *program;
    const mp_plan *plan; /* checked, with offsets */
    mp_execution_options execution;
    mp_feed *feed;
    mp_feed *test; /* NULL: none; looked at when the training has ended */
    const mp_parameter_source *parameters;
    const char *resume; /* NULL: from the first values */
    int64_t n_steps;    /* to do from here */
    const char *save;   /* NULL: nothing is saved */
    int64_t save_every; /* 0: at the end only */
    mp_train_progress_call progress;
    void (*saving)(bool begins, void *data); /* NULL, or called before and after every save, with progress_data */
    void *progress_data;
} mp_train_request;

/* The loss and accuracy on samples that the parameters were not trained on. */
typedef struct mp_accuracy {
    int64_t n_samples; /* looked at: whole batches; of a text, about as many windows as fit side by side in it */
    double loss;       /* the mean over the batches */
    double accuracy;   /* the share of labels that have the highest score; -1: the loss is not over classes */
} mp_accuracy;

typedef struct mp_report {
    int64_t static_bytes, planned_peak_bytes, arena_bytes, measured_arena_bytes;
    int64_t process_bytes;      /* the process's peak over the run; -1: not known */
    int64_t idle_process_bytes; /* before the run had its memory: the program, its libraries, the model */
    int64_t n_allocations;      /* by memplan, inside the loop over the steps */
    /* Of a device with memory of its own: what is in use there with everything, and what was before the run had its two blocks:
     * the context, and what the libraries had loaded by then. -1: the memory is the host's. */
    int64_t device_bytes, idle_device_bytes;
    int64_t next_batch_bytes; /* of them, room in which the next batch waits, beside the plan */
    bool device_is_shared;    /* these are of all processes, since the system does not say what is this one's */
    int n_recordings;         /* kinds of pass that ran as recorded; 0: all ran call by call */
    double step_seconds;      /* the median of the steps but the first, which warms up */
    double input_seconds;     /* of it, waiting for the batch and bringing it to where it is read; the median of the same */
    size_t n_losses;
    double *losses;         /* per step; released with mp_report_free */
    double *node_seconds;   /* with profile: per node of the graph, in the fastest step but the first; else NULL */
    double fastest_seconds; /* with profile: what that step took; its nodes take no more together */
    char weights_hash[33];
    bool has_test;
    mp_accuracy test;
    int64_t first_step; /* 0, or where the resumed file ended */
    bool stopped;       /* the progress call asked for it */
} mp_report;

/* Trains. On MP_OK and MP_REFUTED *report is filled and released with mp_report_free. MP_REFUTED: a loss, or a parameter
 * in the end or where it is to be saved, is not finite; the message names the step and, found by repeating the training with
 * every operand looked at, the operator that gave the first value that is not; nothing is saved from then on. MP_NOMEM, MP_IO
 * (saving, resuming), MP_PARSE (resuming). */
mp_status mp_train(const mp_train_request *request, mp_report *report, mp_error *err);
void mp_report_free(mp_report *report); /* a zeroed one is fine */

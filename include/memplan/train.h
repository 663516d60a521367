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
#include "memplan/ranks/rank_report.h"

/* Called after each step with what has happened so far; false ends the training after this step. */
typedef struct mp_train_progress {
    int64_t step, n_steps; /* steps done, of how many in all */
    double loss, seconds;  /* of the last step */
} mp_train_progress;
typedef bool (*mp_train_progress_call)(const mp_train_progress *now, void *data);

typedef struct mp_train_request {
    mp_program *program;
    const mp_plan *plan; /* it must be checked and have offsets */
    mp_execution_options execution;
    mp_feed *feed;
    mp_feed *test; /* evaluated when the training has ended; NULL: no evaluation */
    const mp_parameter_source *parameters;
    const char *resume; /* the checkpoint file or folder to go on from; NULL: start from the first values */
    int64_t n_steps;    /* steps to run from here */
    const char *save;   /* the checkpoint file to write, or folder where ranks share state out; NULL: none */
    int64_t save_every; /* steps between saves; 0: save at the end only */
    mp_train_progress_call progress;
    void (*saving)(bool begins, void *data); /* NULL, or called before and after every save, with progress_data */
    void *progress_data;
} mp_train_request;

/* The loss and accuracy on samples that the parameters were not trained on. */
typedef struct mp_accuracy {
    int64_t n_samples; /* samples evaluated: whole batches; of a text, about as many windows as fit side by side in it */
    double loss;       /* the mean over the batches */
    double accuracy;   /* the share of labels with the highest score; -1: the loss is not over classes */
    char fault[400];   /* of a loss that is not finite: the place in the data that makes it so; "": none was found */
} mp_accuracy;

typedef struct mp_report {
    int64_t static_bytes, planned_peak_bytes, arena_bytes, measured_arena_bytes;
    int64_t process_bytes;      /* the process's peak over the run; -1: not known */
    int64_t idle_process_bytes; /* of the process before the run had its memory: the program, its libraries, the model */
    int64_t n_allocations;      /* made by memplan inside the loop over the steps */
    /* Bytes in use on a device with memory of its own: during the run, and before the run had its two blocks (the
     * context, and what libraries had loaded by then). -1: the memory is the host's. */
    int64_t device_bytes, idle_device_bytes;
    int64_t next_batch_bytes; /* of device_bytes, the buffer in which the next batch waits, beside the plan */
    bool device_is_shared;    /* device bytes count all processes, because the system does not tell them apart */
    int n_recordings;         /* kinds of pass that ran as a recording; 0: every node was called by itself */
    double step_seconds;      /* median over the steps, without the first, which warms up */
    double
        input_seconds; /* of step_seconds, waiting for the batch and copying it to where it is read; a median over the same */
    size_t n_losses;
    double *losses;         /* per step; released with mp_report_free */
    double *node_seconds;   /* with profile: per node of the graph, in the fastest step (never the first); else NULL */
    double fastest_seconds; /* with profile: seconds of that fastest step; its nodes together take no more */
    char weights_hash[33];
    bool has_test;
    mp_accuracy test;
    int64_t first_step; /* 0, or the step at which the resumed file ended */
    bool stopped;       /* the progress call ended the training */
    /* Of a plan that copies: bytes taken of each tier but the device, bytes copied in all steps, and seconds per step during
     * which nothing but copies was waited for (a mean over all steps). */
    int64_t tier_bytes[MP_MAX_TIERS], out_bytes, in_bytes;
    double wait_seconds;                    /* for other ranks, too */
    int n_ranks;                            /* that trained together */
    char network[64];                       /* what joined them; "": there is one */
    int64_t sent_bytes, planned_sent_bytes; /* to other ranks, in all steps */
    mp_rank_report *ranks;                  /* per rank; released with mp_report_free */
} mp_report;

/* Trains. On MP_OK and MP_REFUTED *report is filled and released with mp_report_free. MP_REFUTED: a loss, or a
 * parameter at the end or at a save, is not finite. The message names the step and the operator with the first such
 * value, found by repeating the training with every operand checked; nothing is saved from then on. MP_NOMEM, MP_IO
 * (saving, resuming), MP_PARSE (resuming). */
mp_status mp_train(const mp_train_request *request, mp_report *report, mp_error *err);
void mp_report_free(mp_report *report); /* a zeroed one is fine */

/* What several trainings took that had one arena. */
typedef struct mp_turns {
    size_t n;
    mp_report *reports; /* per training, as mp_train has it; but measured_arena_bytes is -1, since all use one arena */
    int64_t static_bytes, arena_bytes; /* as planned: the sum of what is always live, and the highest of the arenas */
    int64_t measured_arena_bytes;      /* of that arena, the high-water mark of all trainings */
} mp_turns;

/* Trains by turns, a step of each training that is not over, in one arena as high as the highest of theirs: at the border of
 * two steps a training has nothing there. Each has the losses and parameters that it has alone, bit for bit. The requests' own
 * arenas are not looked at. On MP_OK *out is released with mp_turns_free. Fails as mp_train, also with MP_REFUTED, without a
 * report; MP_INVALID: no trainings, different backends, or one that carries gradients from step to step. */
mp_status mp_train_turns(const mp_train_request *requests, size_t n, mp_turns *out, mp_error *err);
void mp_turns_free(mp_turns *turns); /* a zeroed one is fine */

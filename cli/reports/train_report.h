/* train_report.h - the results of the two runs of `memplan train`: one with everything kept, one by the plan. */
#pragma once

#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "memplan/makespan.h"
#include "memplan/workloads/workload_train.h"

typedef struct train_outcome {
    mp_workload workload;
    mp_plan *keep_all; /* the plan of the keep-all run; the plan of the other run is workload.plan */
    bool has_before;
    int no_plan;  /* exit status if no plan was found and the reason was printed; 0: there is a plan */
    bool verbose; /* true: -v was given, so exact bytes are printed */
    bool fast;    /* true: --fast was given, so the results of the two runs may differ by rounding errors */
    /* n_parameters: number of parameters. n_drawn: number of parameters for which the model's file has no values, so that they
     * are drawn at random */
    size_t n_parameters, n_drawn;
    mp_copying copying;      /* planned copies per forward and backward pass, and planned waits for them */
    mp_report before, after; /* before: report of the keep-all run; after: report of the planned run */
} train_outcome;

void train_outcome_free(train_outcome *t);
/* True if both runs were made with the same number of steps, so that they can be compared. */
bool train_compares(const train_outcome *t);
/* True if losses and weights of both runs are bit-identical. */
bool train_identical(const train_outcome *t);
/* Prints the seconds of the fastest training step, by operator and phase. */
void print_profile(const mp_graph *graph, const mp_report *report);
json_t *profile_json(const mp_graph *graph, const mp_report *report); /* NULL: out of memory */
void print_train(const train_outcome *t, const options *o);
mp_status print_train_json(const train_outcome *t, mp_error *err);

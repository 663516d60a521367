/* train_report.h - the results of the two runs of `memplan train`. */
#pragma once

#include "cli/subject/subject.h"
#include "memplan/makespan.h"
#include "memplan/second_stream.h"
#include "memplan/train.h"

typedef struct train_outcome {
    subject subject;
    mp_plan *keep_all; /* the plan of keep-all; the subject has the plan of the second run */
    bool has_before;
    int no_plan;                  /* exit status if there is no plan and the reason was printed; 0: a plan exists */
    bool verbose;                 /* -v: with exact bytes */
    bool fast;                    /* --fast: results may differ in their last bits */
    size_t n_parameters, n_drawn; /* number of parameters; of parameters without values in the model's file */
    bool has_second_stream;       /* --second-stream was given */
    mp_second_stream second_stream;
    mp_copying copying;      /* planned copies and waits per pass */
    mp_report before, after; /* report of the keep-all run; of the planned run */
} train_outcome;

void train_outcome_free(train_outcome *t);
/* True if both runs exist and have the same steps. */
bool train_compares(const train_outcome *t);
/* True if losses and weights of both runs are bit-identical. */
bool train_identical(const train_outcome *t);
/* True if copies to this tier are written to a file, in the folder of --offload. */
bool train_tier_is_file(const mp_graph *graph, size_t tier);
/* Builds a plan of keep-all with offsets. Node k uses alternative alternatives[k] (NULL: the base alternatives). Release with
 * mp_plan_free. */
mp_status train_keep_all(const mp_graph *graph, const int *alternatives, mp_plan **out, mp_error *err);
/* Prints the time of the fastest step by kind of operator and phase. */
void print_profile(const mp_graph *graph, const mp_report *report);
json_t *profile_json(const mp_graph *graph, const mp_report *report); /* NULL: out of memory */
void print_train(const train_outcome *t, const options *o);
mp_status print_train_json(const train_outcome *t, mp_error *err);

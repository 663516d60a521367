/* train_report.h - what `memplan train` reports about its two runs. */
#pragma once

#include "cli/subject/subject.h"
#include "memplan/makespan.h"
#include "memplan/second_stream.h"
#include "memplan/train.h"

typedef struct train_outcome {
    subject subject;
    mp_plan *keep_all; /* the plan of keep-all; the subject has the other plan */
    bool has_before;
    int no_plan;                  /* the exit status if there is no plan and the reason is printed; 0: there is a plan */
    bool verbose;                 /* -v: with exact bytes */
    bool fast;                    /* --fast: results may differ in their last bits */
    size_t n_parameters, n_drawn; /* parameters; those of them without values in the model's file */
    bool has_second_stream;       /* --second-stream was given */
    mp_second_stream second_stream;
    mp_copying copying;      /* what a pass of the plan copies and waits, as planned */
    mp_report before, after; /* report of keep-all; of the plan */
} train_outcome;

void train_outcome_free(train_outcome *t);
/* True if there are two runs over the same steps. */
bool train_compares(const train_outcome *t);
/* True if both runs have the same losses and the same weights, bit for bit. */
bool train_identical(const train_outcome *t);
/* True if what is copied to this tier lies in a file: it is --offload's folder. */
bool train_tier_is_file(const mp_graph *graph, size_t tier);
/* Makes a plan of keep-all with offsets, with node k in its alternative alternatives[k] (NULL: the base). Released with
 * mp_plan_free. */
mp_status train_keep_all(const mp_graph *graph, const int *alternatives, mp_plan **out, mp_error *err);
/* Prints where the time of the fastest step goes, by kind of operator and phase. */
void print_profile(const mp_graph *graph, const mp_report *report);
json_t *profile_json(const mp_graph *graph, const mp_report *report); /* NULL: memory is short */
void print_train(const train_outcome *t, const options *o);
mp_status print_train_json(const train_outcome *t, mp_error *err);

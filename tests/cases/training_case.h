/* training_case.h - programs made from model files, their plans, and training steps, for tests. Each failure fails the test. */
#pragma once

#include "estimator/training/adapters.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/run/execution.h"
#include "memplan/train.h"
#include "memplan/workload.h"

/* Loads a model file or a network known by name. Release with mp_workload_free. */
mp_workload training_workload(const char *path, const mp_workload_options *options);

typedef struct training_case {
    mp_model *model;
    mp_program *program;
    mp_parameter_source *source;
    mp_feed *feed;
} training_case;

/* `batch` 0: the file's batch size. Inputs are synthetic. Release with training_end. */
training_case training_begin(const char *path, int64_t batch, const mp_training_options *options);
/* The same with fused attention; the model must have some. */
training_case training_begin_fused(const char *path, int64_t batch, const mp_training_options *options);
/* The same as on the command line: any attention is fused, and long sequences are cut. */
training_case training_begin_as_users_do(const char *path, const mp_training_options *options);
/* The same, but batch normalizations exported in inference mode stay in that mode. Attention is not fused. */
training_case training_begin_fixed(const char *path, int64_t batch, const mp_training_options *options);
/* The same with sequences cut into chunks of 4 steps; the model must have some. Attention is not fused. */
training_case training_begin_cut(const char *path, int64_t batch, const mp_training_options *options);
/* The same with the logits and their loss in 3 chunks of rows; the model must have a head that can be cut. Attention is not
 * fused. */
training_case training_begin_chunked(const char *path, int64_t batch, const mp_training_options *options);
/* The same with all other regions of independent rows in 3 chunks: MLPs, attention, runs of rows. The model must have one. */
training_case training_begin_in_regions(const char *path, int64_t batch, const mp_training_options *options);
/* The same with adapters; attention is not fused. */
training_case training_begin_adapted(const char *path, int64_t batch, const mp_training_options *options,
                                     const mp_adapters *adapters);
/* The first two on the given backend. */
training_case training_begin_fused_on(const mp_backend *backend, const char *path, int64_t batch,
                                      const mp_training_options *options);
training_case training_begin_on(const mp_backend *backend, const char *path, int64_t batch, const mp_training_options *options);
void training_end(training_case *t);

/* Returns keep-all; or the cheapest plan within floor + part * (keep-all - floor), or the smallest plan if none fits. With
 * offsets, checked. Release with mp_plan_free. */
mp_plan *training_keep_all(const training_case *t);
mp_plan *training_plan(const training_case *t, double part);

/* Returns a request for n steps with SGD, which a test may change. */
mp_train_request training_request(const training_case *t, const mp_plan *plan, int64_t n_steps);

/* Returns an execution with initial values, released with mp_execution_free. It overwrites dead storages. */
mp_execution *training_execution(training_case *t, const mp_plan *plan, const mp_hyper *hyper);
/* Runs steps [from, to) and flushes; losses[k] is the loss of step from + k. */
void training_run(training_case *t, mp_execution *e, int64_t from, int64_t to, double *losses);

/* The result of a training: bit-identical trainings have equal losses and hashes. */
enum { TRAINING_STEPS = 8 };
typedef struct training_outcome {
    double losses[TRAINING_STEPS];
    char hash[33]; /* of the parameters and the state of the optimizer */
} training_outcome;
/* Trains n <= TRAINING_STEPS steps from the initial values. */
training_outcome training_outcome_of(training_case *t, const mp_plan *plan, const mp_execution_options *options, int64_t n);
bool training_outcomes_are_same(const training_outcome *a, const training_outcome *b);

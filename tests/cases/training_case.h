/* training_case.h - a model file made into a program, plans for it, and steps of training, for tests. Every failure is a failed
 * test. */
#pragma once

#include "estimator/training/adapters.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/run/execution.h"
#include "memplan/train.h"

typedef struct training_case {
    mp_model *model;
    mp_program *program;
    mp_parameter_source *source;
    mp_feed *feed;
} training_case;

/* `batch` 0: as the file fixes it. Inputs are synthetic. Release with training_end. */
training_case training_begin(const char *path, int64_t batch, const mp_training_options *options);
/* The same with its attention fused, of which there must be some. */
training_case training_begin_fused(const char *path, int64_t batch, const mp_training_options *options);
/* As the command line makes it: any attention is fused, long sequences are cut. */
training_case training_begin_as_users_do(const char *path, const mp_training_options *options);
/* The same with the batch normalizations that are in inference mode left there, attention not fused. */
training_case training_begin_fixed(const char *path, int64_t batch, const mp_training_options *options);
/* The same with sequences cut into chunks of 4 steps, of which there must be some, attention not fused. */
training_case training_begin_cut(const char *path, int64_t batch, const mp_training_options *options);
/* The same with adapters instead of attention that is fused. */
training_case training_begin_adapted(const char *path, int64_t batch, const mp_training_options *options,
                                     const mp_adapters *adapters);
/* The first two on this backend. */
training_case training_begin_fused_on(const mp_backend *backend, const char *path, int64_t batch,
                                      const mp_training_options *options);
training_case training_begin_on(const mp_backend *backend, const char *path, int64_t batch, const mp_training_options *options);
void training_end(training_case *t);

/* Everything kept; or the cheapest plan within floor + part * (keep-all - floor), or the smallest plan where there is none.
 * With offsets, checked. Release with mp_plan_free. */
mp_plan *training_keep_all(const training_case *t);
mp_plan *training_plan(const training_case *t, double part);

/* A training of n steps with SGD, to be changed where a test wants it otherwise. */
mp_train_request training_request(const training_case *t, const mp_plan *plan, int64_t n_steps);

/* An execution with its first values; released with mp_execution_free. What has died is overwritten in it. */
mp_execution *training_execution(training_case *t, const mp_plan *plan, const mp_hyper *hyper);
/* Runs steps [from, to) and flushes; losses[k] of step from + k. */
void training_run(training_case *t, mp_execution *e, int64_t from, int64_t to, double *losses);

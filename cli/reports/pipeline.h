/* pipeline.h - all ranks of a pipeline, for the answers of `estimate`, `plan` and `timeline`. With --rank, these commands are
 * about the graph of one rank. */
#pragma once

#include <jansson.h>

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"

enum { PIPELINE_FILE_MAX = 512 };

/* One rank, with everything kept or with a plan. */
typedef struct pipeline_rank {
    int64_t parameter_bytes, gradient_bytes, state_bytes;
    int64_t held_bytes;          /* stash of other micro-batches while one runs */
    int64_t in_flight;           /* micro-batches in flight, including the running one */
    int64_t peak_bytes;          /* everything together */
    int64_t keep_all_peak_bytes; /* the same for keep-all */
    int64_t ticks, keep_all_ticks;
    double tick_seconds;
    char file[PIPELINE_FILE_MAX]; /* the plan's file; "": none */
    bool has_plan;
    int64_t budget_bytes, floor_bytes; /* of a search; the floor only if it found no plan */
} pipeline_rank;

typedef struct pipeline {
    const options *asked;
    mp_pipeline_shape shape;
    char title[256], mesh[128];
    const char *program; /* as from subject_program */
    int n_blocks, *begins;
    int64_t micro_batch; /* samples; 0: unknown */
    device_room room;    /* of the named device; without one its name is "" */
    other_rules other;   /* peak of the fullest rank under the other rules */
    pipeline_rank *ranks;
    mp_stage_seconds *seconds, *keep_all_seconds; /* per stage */
    mp_played *played, *keep_all_played;
    mp_pool *pool;
} pipeline;

/* Sets *out to true if the options are about a pipeline as a whole. MP_INVALID as subject_pipeline. */
mp_status pipeline_asked(const options *o, bool *out, mp_error *err);
/* Starts an answer. Release it with pipeline_free in any case. */
mp_status pipeline_start(const options *o, pipeline *out, mp_error *err);
void pipeline_free(pipeline *p);
/* Returns the options for one rank. `space` holds texts that they point to. */
typedef struct rank_options {
    char rank[16];
} rank_options;
options pipeline_rank_options(const pipeline *p, int rank, rank_options *space);
/* Records the values of a rank's subject, and the busy seconds of these steps; steps NULL: of keep-all. */
mp_status pipeline_take(pipeline *p, int rank, const subject *s, const mp_step *steps, size_t n, mp_error *err);
/* Simulates a step of all ranks. Sets p->played and p->keep_all_played. */
mp_status pipeline_play(pipeline *p, mp_error *err);

/* The search for a plan of one rank. */
typedef struct rank_plan_request {
    const options *asked;
    const budget *budget;
    unsigned stages_off, solvers_off; /* as in mp_request */
    int64_t budget_bytes;             /* result: the budget in bytes */
    int64_t floor_bytes;              /* result if no plan was found: no schedule needs less, even without a stash */
} rank_plan_request;
/* Searches for a plan of the subject, which is one rank, and sets the stash to the exact bytes that the plan keeps. *out is
 * NULL if no plan was found; otherwise release it with mp_plan_free. As mp_solve. */
mp_status pipeline_plan_rank(rank_plan_request *request, subject *s, mp_plan **out, mp_error *err);
/* Returns the largest peak. */
int64_t pipeline_peak(const pipeline *p);
/* Prints the time of a step and its bubble. */
void pipeline_print_step(const pipeline *p);
/* Returns the answer as JSON, a new reference; NULL if out of memory. */
json_t *pipeline_json(const pipeline *p);

/* Estimates every rank with everything kept. Release *out with pipeline_free in any case. As subject_load. */
mp_status pipeline_estimate_ranks(const options *o, pipeline *out, mp_error *err);

/* The commands for a whole pipeline. Each returns the exit status. */
int pipeline_timeline(const options *o);
int pipeline_estimate(const options *o);
int pipeline_plan(const options *o, const budget *b, unsigned stages_off, unsigned solvers_off);

/* pipeline.h - all ranks of a pipeline, as `estimate`, `plan` and `timeline` answer with them; with --rank these commands are
 * about the graph of one. */
#pragma once

#include <jansson.h>

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"

enum { PIPELINE_FILE_MAX = 512 };

/* One rank, with everything kept or with a plan. */
typedef struct pipeline_rank {
    int64_t parameter_bytes, gradient_bytes, state_bytes;
    int64_t held_bytes;          /* of other micro-batches, while one runs */
    int64_t in_flight;           /* micro-batches that have gone forward and not yet backward, the one that runs included */
    int64_t peak_bytes;          /* of all together */
    int64_t keep_all_peak_bytes; /* likewise, of keep-all */
    int64_t ticks, keep_all_ticks;
    double tick_seconds;
    char file[PIPELINE_FILE_MAX]; /* of its plan; "": none */
    bool has_plan;
} pipeline_rank;

typedef struct pipeline {
    const options *asked;
    mp_pipeline_shape shape;
    char title[256], mesh[128];
    const char *program; /* as subject_program */
    int n_blocks, *begins;
    int64_t micro_batch; /* samples; 0: not known */
    device_room room;    /* of the device that was named; without one its name is "" */
    other_rules other;   /* the fullest rank's peak under the other rules */
    pipeline_rank *ranks;
    mp_stage_seconds *seconds, *keep_all_seconds; /* per stage */
    mp_played *played, *keep_all_played;
    mp_pool *pool;
} pipeline;

/* True if the options ask for a pipeline as a whole. MP_INVALID as subject_pipeline. */
mp_status pipeline_asked(const options *o, bool *out, mp_error *err);
/* Starts an answer. Release it with pipeline_free in any case. */
mp_status pipeline_start(const options *o, pipeline *out, mp_error *err);
void pipeline_free(pipeline *p);
/* Returns the options of one rank; `space` keeps what they point to. */
typedef struct rank_options {
    char rank[16];
} rank_options;
options pipeline_rank_options(const pipeline *p, int rank, rank_options *space);
/* Takes over what the subject of a rank says, and how long these steps keep it busy; steps NULL: those of keep-all. */
mp_status pipeline_take(pipeline *p, int rank, const subject *s, const mp_step *steps, size_t n, mp_error *err);
/* Plays a step of all ranks: p->played and p->keep_all_played. */
mp_status pipeline_play(pipeline *p, mp_error *err);

/* How a plan for one rank is looked for. */
typedef struct rank_plan_request {
    const options *asked;
    const budget *budget;
    unsigned stages_off, solvers_off; /* as in mp_request */
    int64_t budget_bytes;             /* found: what the budget comes to */
} rank_plan_request;
/* Looks for a plan of the subject, which is one rank, and lets exactly what that keeps be held. *out is NULL if none was found;
 * else it is released with mp_plan_free. As mp_solve. */
mp_status pipeline_plan_rank(rank_plan_request *request, subject *s, mp_plan **out, mp_error *err);
/* Returns the largest peak. */
int64_t pipeline_peak(const pipeline *p);
/* Prints how long a step is and what of it is bubble. */
void pipeline_print_step(const pipeline *p);
/* Returns the answer as JSON, a new reference; NULL if memory is short. */
json_t *pipeline_json(const pipeline *p);

/* Finds what every rank takes with everything kept. Release *out with pipeline_free in any case. As subject_load. */
mp_status pipeline_estimate_ranks(const options *o, pipeline *out, mp_error *err);

/* The commands. Return the exit status. */
int pipeline_timeline(const options *o);
int pipeline_estimate(const options *o);
int pipeline_plan(const options *o, const budget *b, unsigned stages_off, unsigned solvers_off);

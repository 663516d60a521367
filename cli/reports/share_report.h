/* share_report.h - the answer of `memplan share`: the split of a card among jobs, or the first job that does not fit. */
#pragma once

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"
#include "memplan/share.h"

typedef struct sharing_job {
    subject subject;
    mp_share_plans plans; /* ticks are nanoseconds, for all steps of the job */
    int64_t n_steps;
    other_rules other; /* peak of keep-all under the other rules */
    size_t as; /* index of the first job with the same file and number of steps, possibly its own. That job owns the subject and
                  plans; a later equal job has none */
} sharing_job;

/* One way to share the card (at once, by turns, lock-step). Bytes are those of the jobs, without reserves. */
typedef struct sharing_way {
    mp_share_split split;
    mp_share_split
        /* split by the jobs' lower bounds. No split takes less time. If it does not fit, no split fits */
        bound;
    size_t refused; /* index of the first job that does not fit together with the jobs before it; n_jobs: all fit */
} sharing_way;

typedef struct sharing {
    size_t n_jobs;
    sharing_job *jobs;
    device_room room; /* memory of the card; its reserve_bytes are needed once per process */
    mp_share_way way; /* the way of sharing that the user requested */
    mp_share_goal goal;
    sharing_way ways[MP_N_SHARE_WAYS];
    mp_share_lockstep lockstep; /* for two jobs with equal numbers of steps; n is 0 for other jobs */
    mp_arena_pair arena;        /* offsets for two jobs in lock-step, if they fit */
    bool is_searched;           /* plans with less memory were searched; false: all jobs fit with everything kept */
    bool stopped;
} sharing;

void sharing_free(sharing *s);
/* Returns the job that owns the subject and plans of job i. */
sharing_job *sharing_job_of(const sharing *s, size_t i);
/* Returns the bytes of the card that n_jobs jobs may use: its memory minus the reserves. Jobs that run at the same time have a
 * process and a reserve each. Jobs by turns share one process. */
int64_t sharing_capacity(const sharing *s, mp_share_way way, size_t n_jobs);

/* Returns the goal of the split. By turns it is always the total time, because the times of the jobs add up. */
mp_share_goal sharing_goal(const sharing *s, mp_share_way way);

/* Writes the plans of a split that fits, one file per job. For the name "plan.json", the first job's file is "plan.job1.json".
 * In lock-step both plans have offsets in one arena. Errors as mp_plan_write. */
mp_status sharing_write_plans(const sharing *s, const char *name, mp_error *err);
void print_sharing(const sharing *s, const options *o);
/* Prints the answer as JSON. `run` is the result of --run, or JSON null; the function takes ownership. MP_NOMEM, MP_IO. */
mp_status print_sharing_json(const sharing *s, json_t *run, mp_error *err);

/* share_report.h - the answer of `memplan share`: the split of a card among jobs, or the job that cannot join. */
#pragma once

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"
#include "memplan/share.h"

typedef struct sharing_job {
    subject subject;
    mp_share_plans plans; /* ticks are nanoseconds of all steps of the job */
    int64_t n_steps;
    other_rules other; /* keep-all under the other rules */
    size_t as; /* index of the first job with the same file and number of steps. It owns the subject and plans of both; the
                  later job has none */
} sharing_job;

/* One way to share the card. Bytes are of jobs only, without reserves. */
typedef struct sharing_way {
    mp_share_split split;
    mp_share_split
        /* of the jobs' lower bounds: no split is better. If it does not fit, it is proved that no split fits */
        bound;
    size_t refused; /* the first job that does not fit together with the previous ones; n_jobs: none */
} sharing_way;

typedef struct sharing {
    size_t n_jobs;
    sharing_job *jobs;
    device_room room; /* of the card; reserve_bytes applies to each process */
    mp_share_way way; /* the requested way */
    mp_share_goal goal;
    sharing_way ways[MP_N_SHARE_WAYS];
    mp_share_lockstep lockstep; /* for two jobs with equal numbers of steps; n 0: not applicable */
    mp_arena_pair arena;        /* of two jobs in lock-step, if they fit */
    bool is_searched;           /* false: all jobs fit with everything kept, so that no smaller plans were searched */
    bool stopped;
} sharing;

void sharing_free(sharing *s);
/* Returns the job that owns the subject and plans of job i. */
sharing_job *sharing_job_of(const sharing *s, size_t i);
/* Returns the card's memory minus the reserves for n_jobs jobs. Jobs that run at the same time have a process each. Jobs by
 * turns share one process. */
int64_t sharing_capacity(const sharing *s, mp_share_way way, size_t n_jobs);

/* Returns the goal for a way of sharing. By turns it is always the total time, since the times add up. */
mp_share_goal sharing_goal(const sharing *s, mp_share_way way);

/* Writes the plans of a split that fits. For the name "plan.json", the first job's file is "plan.job1.json". In lock-step the
 * plans have offsets in one arena. Errors as mp_plan_write. */
mp_status sharing_write_plans(const sharing *s, const char *name, mp_error *err);
void print_sharing(const sharing *s, const options *o);
/* `run`: the result of --run, or JSON null. The function takes ownership. MP_NOMEM, MP_IO. */
mp_status print_sharing_json(const sharing *s, json_t *run, mp_error *err);

/* share_report.h - the answer of `memplan share`: how the memory of a card is divided among jobs, or which job does not fit. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "executor/workload/other_rules.h"
#include "executor/workload/workload.h"
#include "memplan/share.h"

typedef struct sharing_job {
    mp_workload workload;
    mp_share_plans plans; /* the plans of the job; their ticks are nanoseconds, for all steps of the job */
    int64_t n_steps;
    mp_other_rules other; /* peak of keep-all under the other rules (PyTorch's or memplan's) */
    /* index of the first job with the same file and number of steps, which may be this job. That job owns the workload and the
     * plans; later equal jobs have none */
    size_t as;
} sharing_job;

/* One way of sharing the card: at once, by turns or lock-step. Its bytes are those of the jobs, without reserves. */
typedef struct sharing_way {
    mp_share_split split;
    mp_share_split
        /* the split of the jobs' lower bounds: no split takes less time. If this split does not fit, no split fits */
        bound;
    size_t refused; /* index of the first job that does not fit together with all jobs before it; n_jobs: all jobs fit */
} sharing_way;

typedef struct sharing {
    size_t n_jobs;
    sharing_job *jobs;
    mp_device_room room; /* memory of the card; every process needs reserve_bytes */
    mp_share_way way;    /* the way of sharing that the user chose */
    mp_share_goal goal;
    sharing_way ways[MP_N_SHARE_WAYS];
    mp_share_lockstep lockstep; /* the result for two jobs with equal numbers of steps; n is 0 for other jobs */
    mp_arena_pair arena;        /* offsets in the arena for two jobs in lock-step, if they fit */
    /* true if plans with less memory than keep-all were searched; false if all jobs fit with everything kept */
    bool is_searched;
    bool stopped;
} sharing;

void sharing_free(sharing *s);
/* Returns the job that owns the workload and the plans of job i. */
sharing_job *sharing_job_of(const sharing *s, size_t i);
/* Returns the bytes of the card that n_jobs jobs may use: the card's memory minus the reserves. If jobs run at the same time,
 * each has its own process and reserve. Jobs by turns share one process and reserve. */
int64_t sharing_capacity(const sharing *s, mp_share_way way, size_t n_jobs);

/* Returns the quantity that the split minimises. For jobs by turns it is always the total time, because the times of the jobs
 * add up. */
mp_share_goal sharing_goal(const sharing *s, mp_share_way way);

/* Writes the plans of a split that fits, one file per job. For the name "plan.json", the first job's file is "plan.job1.json".
 * In lock-step both plans have offsets in one arena. Errors as mp_plan_write. */
mp_status sharing_write_plans(const sharing *s, const char *name, mp_error *err);
void print_sharing(const sharing *s, const options *o);
/* Prints the answer as JSON. `run` is the result of --run, or JSON null; the function takes ownership of it. MP_NOMEM,
 * MP_IO. */
mp_status print_sharing_json(const sharing *s, json_t *run, mp_error *err);

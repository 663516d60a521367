/* sharing.h - the division of a card's memory among jobs, each with its own workload: the plans of the jobs, and for each way
 * of sharing the split that finishes first. */
#pragma once

#include "memplan/studies/share.h"
#include "memplan/workload.h"
#include "memplan/workloads/other_rules.h"
#include "memplan/workloads/workload_budget.h"

typedef struct mp_sharing_job {
    mp_workload workload;
    mp_share_plans plans; /* the plans of the job; their ticks are nanoseconds, for all steps of the job */
    int64_t n_steps;
    mp_other_rules other; /* peak of keep-all under the other rules (PyTorch's or memplan's), if the request asks for it */
    /* index of the first job with the same file and number of steps, which may be this job. That job owns the workload and the
     * plans; later equal jobs have none */
    size_t as;
} mp_sharing_job;

/* One way of sharing the card: all jobs at once, or by turns. The struct's numbers of bytes exclude reserves. */
typedef struct mp_sharing_way {
    mp_share_split split;
    /* the split computed from lower bounds instead of plans: no split of the plans takes less time. If it does not fit, no
     * split of the plans fits */
    mp_share_split bound;
    size_t refused; /* index of the first job that does not fit together with all jobs before it; n_jobs: all jobs fit */
} mp_sharing_way;

typedef struct mp_sharing {
    size_t n_jobs;
    mp_sharing_job *jobs;
    mp_device_capacity room; /* memory of the card; every process reserves reserve_bytes of it */
    mp_share_way way;        /* the way of sharing that the user chose */
    mp_share_goal goal;
    mp_sharing_way ways[MP_N_SHARE_WAYS];
    /* true if plans with less memory than keep-all were searched; false if all jobs fit with everything kept */
    bool is_searched;
    bool stopped;
} mp_sharing;

/* Seconds of a tick of mp_share_plans: times of jobs are compared in whole nanoseconds. */
#define MP_SHARING_TICK 1e-9

/* The request of a sharing. */
typedef struct mp_sharing_request {
    const mp_workload_options *options; /* the settings of all jobs */
    const mp_request *search;           /* searcher, seed, moves, effort and order of the searches */
    int64_t memory_bytes;               /* memory of the card; -1: the memory of the jobs' device */
    bool wants_other_rules;             /* true: each job is also measured under the other rules (PyTorch's or memplan's) */
    bool runs;                          /* true: the jobs will be trained on this machine */
    /* Called as mp_share_plans_request.progress, with the job whose plans are searched. Returns false to stop. NULL: none */
    bool (*progress)(size_t job, size_t k, size_t n, const mp_progress *search, void *data);
    void *data;
} mp_sharing_request;

/* Loads the workloads of s->jobs from these paths. The caller has set s->n_jobs, jobs[].n_steps, way and goal. Equal jobs are
 * loaded once. Finds the card. MP_INVALID: jobs for different devices; a carried storage (--fuse forward); no memory is known;
 * with `runs`, a job that cannot be trained. Other errors as mp_workload_load. */
mp_status mp_sharing_load(mp_sharing *s, const char *const *paths, const mp_sharing_request *r, mp_error *err);
/* Searches for the plans of all jobs, and divides the card in each way. If all jobs fit with everything kept, no further plan
 * is searched. Errors as mp_share_plans_of and mp_share_split_of. */
mp_status mp_sharing_search(mp_sharing *s, const mp_sharing_request *r, mp_error *err);
void mp_sharing_free(mp_sharing *s);

/* Returns the job that owns the workload and the plans of job i. */
mp_sharing_job *mp_sharing_job_of(const mp_sharing *s, size_t i);
/* Returns the number of processes of n_jobs jobs: one per job if they run at the same time, else one. */
int64_t mp_sharing_processes(mp_share_way way, size_t n_jobs);
/* Returns the bytes of the card that n_jobs jobs may use: the card's memory minus one reserve per process. */
int64_t mp_sharing_capacity(const mp_sharing *s, mp_share_way way, size_t n_jobs);
/* Returns the quantity that the split minimises. For jobs by turns it is always the total time, because the times of the jobs
 * add up. */
mp_share_goal mp_sharing_goal(const mp_sharing *s, mp_share_way way);

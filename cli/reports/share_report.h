/* share_report.h - what `memplan share` answers: the split of a card among jobs, or which job cannot join. */
#pragma once

#include "cli/reports/budget_bytes.h"
#include "cli/subject/subject.h"
#include "memplan/share.h"

typedef struct sharing_job {
    subject subject;
    mp_share_plans plans; /* ticks are nanoseconds, of all its steps */
    int64_t n_steps;
    other_rules other; /* keep-all under the other rules */
    size_t as; /* the first job of the same file and as many steps: its subject and plans are also this one's, which has none */
} sharing_job;

/* One way to share the card. Bytes are those of jobs, without reserves. */
typedef struct sharing_way {
    mp_share_split split;
    mp_share_split bound; /* of the jobs' lower bounds: no split is better; if it does not fit, it is proved that none does */
    size_t refused;       /* the first job that does not fit with those before it; n_jobs: none */
} sharing_way;

typedef struct sharing {
    size_t n_jobs;
    sharing_job *jobs;
    device_room room; /* of the card; reserve_bytes is that of each process */
    mp_share_way way; /* the one that was asked for */
    mp_share_goal goal;
    sharing_way ways[MP_N_SHARE_WAYS];
    mp_share_lockstep lockstep; /* of two jobs of equally many steps; n 0: there are no two such */
    mp_arena_pair arena;        /* of the two in lock-step, if they fit */
    bool is_searched;           /* false: all jobs fit with everything kept, so no plan that needs less was looked for */
    bool stopped;
} sharing;

void sharing_free(sharing *s);
/* Returns the job whose subject and plans job i has. */
sharing_job *sharing_job_of(const sharing *s, size_t i);
/* Returns what the reserves leave of the card for so many jobs: beside each other each has a process of its own, by turns all
 * are in one. */
int64_t sharing_capacity(const sharing *s, mp_share_way way, size_t n_jobs);

/* Returns the goal of a way: by turns all time adds up, whatever is asked for. */
mp_share_goal sharing_goal(const sharing *s, mp_share_way way);

/* Writes the plans of a split that fits: "plan.json" of the first job as "plan.job1.json". In lock-step they have offsets in
 * one arena. Errors as mp_plan_write. */
mp_status sharing_write_plans(const sharing *s, const char *name, mp_error *err);
void print_sharing(const sharing *s, const options *o);
/* `run`: what came of --run, or JSON's null; owned by this function. MP_NOMEM, MP_IO. */
mp_status print_sharing_json(const sharing *s, json_t *run, mp_error *err);

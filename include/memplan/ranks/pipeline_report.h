/* pipeline_report.h - the memory of all ranks of a pipeline, and the time of a training step of the whole pipeline.
 *
 *     // given: mp_workload_options *options; mp_error *err
 *     mp_pipeline_report report;
 *     MP_CHECK(mp_pipeline_report_new(options, &report, err));
 *     for (int r = 0; r < report.shape.n_ranks; r++) {
 *         MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
 *         char rank[16];
 *         snprintf(rank, sizeof rank, "%d", r);
 *         options->rank = rank;
 *         MP_CHECK(mp_workload_load("gpt2", options, &workload, err));
 *         MP_CHECK(mp_pipeline_report_take(&report, &workload, NULL, err));
 *     }
 *     MP_CHECK(mp_pipeline_report_play(&report, err));
 *     printf("%lld bytes, %g s\n", (long long)mp_pipeline_report_peak(&report), report.played->seconds);
 *     mp_pipeline_report_free(&report);
 */
#pragma once

#include "memplan/ranks/schedule.h"
#include "memplan/workload.h"

/* The results for one rank, either with everything kept or with a plan. */
typedef struct mp_pipeline_rank {
    int64_t parameter_bytes, gradient_bytes, state_bytes;
    int64_t held_bytes;          /* bytes of the stash, in which other micro-batches in flight are held while one runs */
    int64_t in_flight;           /* number of micro-batches in flight, including the running one */
    int64_t peak_bytes;          /* peak bytes of the rank, including the stash */
    int64_t keep_all_peak_bytes; /* peak bytes of the rank if everything is kept */
    int64_t ticks, keep_all_ticks;
    double tick_seconds;
    bool has_plan;
} mp_pipeline_rank;

typedef struct mp_pipeline_report {
    mp_pipeline_shape shape;
    char title[MP_WORKLOAD_TITLE_MAX], mesh[128];
    int *begins;         /* per stage: its first block; one further element holds the number of blocks */
    int64_t micro_batch; /* samples per micro-batch; 0: unknown */
    mp_pipeline_rank *ranks;
    mp_stage_seconds *seconds, *keep_all_seconds; /* per stage: busy seconds; busy seconds with everything kept */
    mp_played *played, *keep_all_played;          /* a training step of all ranks, from mp_pipeline_report_play */
    mp_pool *pool;                                /* owns the arrays */
} mp_pipeline_report;

/* Prepares a report about the pipeline of the settings. Release *out with mp_pipeline_report_free on any status. MP_INVALID: as
 * mp_schedule_check; n_ranks is 0 if the settings have no pipeline. MP_NOMEM. */
mp_status mp_pipeline_report_new(const mp_workload_options *o, mp_pipeline_report *out, mp_error *err);
void mp_pipeline_report_free(mp_pipeline_report *report);
/* Records the memory and the busy seconds of the rank w->rank. plan NULL: everything is kept. For a
 * plan, call the function first without and then with the plan. MP_NOMEM. */
mp_status mp_pipeline_report_take(mp_pipeline_report *report, const mp_workload *w, const mp_plan *plan, mp_error *err);
/* Simulates a training step of all ranks, once with the plans and once with everything kept. MP_NOMEM. */
mp_status mp_pipeline_report_play(mp_pipeline_report *report, mp_error *err);
/* Returns the peak bytes of the rank with the highest peak. */
int64_t mp_pipeline_report_peak(const mp_pipeline_report *report);

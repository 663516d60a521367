/* pipeline.h - the answers of `estimate`, `plan` and `timeline` for a pipeline, about all of its ranks. (With --rank, these
 * commands answer about the graph of one rank instead.) */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "executor/workload/workload.h"
#include "memplan/budget.h"
#include "memplan/ranks/pipeline_report.h"
#include "memplan/workloads/needs.h"
#include "memplan/workloads/other_rules.h"
#include "memplan/workloads/row_chunks.h"

enum { PIPELINE_FILE_MAX = 512 };

/* The search for the plan of one rank. */
typedef struct pipeline_search {
    char file[PIPELINE_FILE_MAX]; /* name of the file to which the rank's plan was written; "": no file */
    /* budget_bytes: the budget of the search; floor_bytes: the floor, only if the search found no plan */
    int64_t budget_bytes, floor_bytes;
} pipeline_search;

typedef struct pipeline {
    const options *asked;
    mp_pipeline_report report;
    pipeline_search *searches; /* per rank */
    const char *program;       /* the program that trains, as from workload_program */
    mp_device_capacity room;   /* memory of the device named by --device; its name is "" if --device was not given */
    mp_needs needs;            /* memory of the largest process of a rank so far; process_bytes is 0 if the card is unknown */
    mp_other_rules other;      /* peak of the fullest rank under the other rules (PyTorch's or memplan's) */
    char row_chunks[MP_ROW_CHUNKS_TEXT]; /* the choice of --row-chunks auto; "": memplan did not choose */
    int64_t smallest_bytes;              /* the smallest budget found with which every rank has a plan; -1: unknown */
    bool is_only_enough; /* true if the search for smallest_bytes ended early, so a smaller budget may suffice */
    bool is_smallest;    /* true if the budget is relative to smallest_bytes (min, min+50%) */
} pipeline;

/* Sets *out to true if the options request an answer about a pipeline as a whole. MP_INVALID as mp_workload_pipeline. */
mp_status pipeline_asked(const options *o, bool *out, mp_error *err);
/* Prepares an answer about all ranks. Release it with pipeline_free on any status. */
mp_status pipeline_start(const options *o, pipeline *out, mp_error *err);
void pipeline_free(pipeline *p);
/* Space for the texts to which the options of one rank point. pipeline_rank_options returns the options with which the graph of
 * a rank is built. */
typedef struct rank_options {
    char rank[16];
} rank_options;
options pipeline_rank_options(const pipeline *p, int rank, rank_options *space);
/* Records the memory and the busy seconds of the rank s->rank with everything kept. */
mp_status pipeline_take(pipeline *p, const mp_workload *s, mp_error *err);
/* Records the memory of a rank's process if no earlier process is larger. */
void pipeline_take_needs(pipeline *p, const mp_needs *needs);

/* The request and the result of a search for the plan of one rank. */
typedef struct rank_plan_request {
    const options *asked;
    const mp_budget *budget;
    const int64_t *budgets;           /* bytes per rank, instead of `budget`; NULL: not given */
    unsigned stages_off, solvers_off; /* as in mp_request */
    int64_t budget_bytes;             /* result: bytes of the budget */
    /* result if no plan was found: the floor of the rank without a stash; no schedule of the rank needs less memory */
    int64_t floor_bytes;
    mp_needs needs; /* result: memory of the process that runs the plan */
} rank_plan_request;
/* Searches for a plan of one rank; *s is the workload of this rank. If the budget is a card and the process exceeds it, tries
 * smaller budgets. Sets the rank's stash to exactly the bytes that the plan keeps for other micro-batches. If no plan was
 * found, *out is NULL. Otherwise release *out with mp_plan_free. Errors: as mp_solve. */
mp_status pipeline_plan_rank(rank_plan_request *request, mp_workload *s, mp_plan **out, mp_error *err);
/* Prints the time of a training step of the whole pipeline, and its bubble. */
void pipeline_print_step(const mp_pipeline_report *p);
/* Returns the answer about all ranks as a new JSON reference; NULL if out of memory. */
json_t *pipeline_json(const pipeline *p);

/* Measures every rank with everything kept. Errors as mp_workload_load. */
mp_status pipeline_take_ranks(pipeline *p, mp_error *err);
/* Starts an answer, measures every rank with everything kept, and simulates a step. Release *out with pipeline_free on any
 * status. Errors as mp_workload_load. */
mp_status pipeline_estimate_ranks(const options *o, pipeline *out, mp_error *err);

/* The commands timeline, estimate and plan for a whole pipeline. Each prints its answer and returns the exit status. */
int pipeline_timeline(const options *o);
int pipeline_estimate(const options *o);
int pipeline_plan(const options *o, const mp_budget *b, unsigned stages_off, unsigned solvers_off);

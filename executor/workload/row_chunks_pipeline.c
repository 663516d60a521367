/* row_chunks_pipeline.c - chooses the numbers of chunks of rows for all ranks of a pipeline.
 *
 * All ranks have the same numbers, because the stage boundaries depend on the graph of the whole network. For each
 * candidate, memplan searches plans for all ranks. Then memplan simulates a training step of the whole pipeline with these
 * plans, so the slowest stage decides.
 *
 * The search begins with whole regions and changes one kind after the other. Each kind starts with 8 chunks, or with 4 or 2 if
 * the kind permits no more. If 8 chunks are better, the search tries 4. If 4 are better, it tries 2. If 4 are not better, it
 * tries 16, and then 32 if 16 are better. */
#include <stdio.h>
#include <string.h>

#include "executor/workload/chunk_numbers.h"
#include "memplan/ranks/pipeline_report.h"
#include "memplan/ranks/rank_plan.h"
#include "memplan/workloads/row_chunks.h"

/* The result of planning all ranks. */
typedef struct judgement {
    int n_without;       /* number of ranks without a plan */
    int64_t floor_bytes; /* sum of the floors of the ranks without a plan */
    double seconds;      /* seconds of a training step; only if each rank has a plan */
    double keep_all_seconds;
} judgement;

typedef struct pipeline_choice {
    const char *path;
    const mp_workload_options *options;
    const mp_request *request;
    const int64_t *budgets; /* per rank */
    bool with_offsets;
    int64_t most[MP_N_CHUNK_KINDS]; /* per kind: the largest number of chunks that the model permits */
    mp_error *err;
} pipeline_choice;

/* Plans one rank, and adds the result to the report and to *out. */
static mp_status judge_rank(pipeline_choice *c, const mp_workload_options *options, int rank, mp_pipeline_report *report,
                            judgement *out)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    mp_workload_options one = *options;
    mp_request request = *c->request;
    char name[16];
    snprintf(name, sizeof name, "%d", rank);
    one.rank = name;
    one.adopted = NULL;
    MP_CHECK(mp_workload_load(c->path, &one, &w, c->err));
    for (int k = 0; k < MP_N_CHUNK_KINDS && mp_row_chunks_are_open(options); k++)
        c->most[k] = k == MP_CHUNK_HEAD ? w.details->loss_chunks.n_rows : w.details->row_regions.kinds[k].n_most;
    MP_CHECK(mp_pipeline_report_take(report, &w, NULL, c->err));
    request.budget_bytes = c->budgets[rank];
    request.effort = MP_EFFORT_QUICK;
    MP_CHECK(mp_workload_plan(&w, &request, c->with_offsets, &plan, c->err));
    if (plan) return mp_pipeline_report_take(report, &w, plan, c->err);
    int64_t floor_bytes;
    MP_CHECK(mp_workload_floor(&w, &floor_bytes, c->err));
    out->n_without++;
    out->floor_bytes += floor_bytes;
    return MP_OK;
}

/* Judges the numbers of chunks `n`. With whole regions, also sets c->most. *is_possible is false if the graph cannot be built
 * with these numbers. */
static mp_status judge(pipeline_choice *c, const int n[MP_N_CHUNK_KINDS], judgement *out, bool *is_possible)
{
    MP_CLEARED_BY(mp_pipeline_report_free) mp_pipeline_report report = {0};
    char setting[MP_ROW_CHUNKS_TEXT];
    mp_workload_options options = *c->options;
    bool is_whole = true;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) is_whole &= n[k] == 1;
    mp_chunk_numbers_write(n, setting);
    if (!is_whole) options.row_chunks = setting;
    *out = (judgement){0};
    *is_possible = true;
    MP_CHECK(mp_pipeline_report_new(&options, &report, c->err));
    for (int r = 0; r < report.shape.n_ranks; r++) {
        const mp_status st = judge_rank(c, &options, r, &report, out);
        *is_possible = st != MP_INVALID || is_whole; /* MP_INVALID: the head overlaps another region */
        if (!*is_possible) return MP_OK;
        MP_CHECK(st);
    }
    MP_CHECK(mp_pipeline_report_play(&report, c->err));
    out->seconds = report.played->seconds;
    out->keep_all_seconds = report.keep_all_played->seconds;
    return MP_OK;
}

static bool is_better(const judgement *a, const judgement *b)
{
    if (a->n_without != b->n_without) return a->n_without < b->n_without;
    return a->n_without ? a->floor_bytes < b->floor_bytes : a->seconds < b->seconds;
}

/* Tries `number` chunks of one kind. If the result is better than *best, stores the number in n and sets *is_kept. */
static mp_status try_number(pipeline_choice *c, int kind, int number, int n[MP_N_CHUNK_KINDS], judgement *best, bool *is_kept)
{
    judgement found;
    const int before = n[kind];
    bool is_possible;
    *is_kept = false;
    if (number > c->most[kind]) return MP_OK;
    n[kind] = number;
    MP_CHECK(judge(c, n, &found, &is_possible));
    *is_kept = is_possible && is_better(&found, best);
    if (*is_kept)
        *best = found;
    else
        n[kind] = before;
    return MP_OK;
}

static mp_status improve_kind(pipeline_choice *c, int kind, int n[MP_N_CHUNK_KINDS], judgement *best)
{
    static const int fewer[] = {4, 2}, more[] = {16, 32};
    bool is_kept, is_fewer;
    const int first = c->most[kind] < 8 ? (c->most[kind] < 4 ? 2 : 4) : 8;
    MP_CHECK(try_number(c, kind, first, n, best, &is_kept));
    if (!is_kept || first < 8) return MP_OK;
    MP_CHECK(try_number(c, kind, fewer[0], n, best, &is_fewer));
    if (is_fewer) return try_number(c, kind, fewer[1], n, best, &is_kept);
    MP_CHECK(try_number(c, kind, more[0], n, best, &is_kept));
    return is_kept ? try_number(c, kind, more[1], n, best, &is_kept) : MP_OK;
}

mp_status mp_row_chunks_choose_for_ranks(const char *path, const mp_workload_options *options, const mp_request *request,
                                         const int64_t *budgets, bool with_offsets, char setting[MP_ROW_CHUNKS_TEXT],
                                         mp_error *err)
{
    pipeline_choice c = {path, options, request, budgets, with_offsets, {0}, err};
    int n[MP_N_CHUNK_KINDS];
    judgement best;
    bool is_possible;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) n[k] = 1;
    MP_CHECK(judge(&c, n, &best, &is_possible));
    /* a step as fast as keep-all cannot become faster with chunks */
    for (int k = 0; k < MP_N_CHUNK_KINDS && (best.n_without || best.seconds > best.keep_all_seconds); k++)
        if (c.most[k] > 1) MP_CHECK(improve_kind(&c, k, n, &best));
    mp_chunk_numbers_write(n, setting);
    return MP_OK;
}

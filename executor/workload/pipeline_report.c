/* pipeline_report.c - collects the results of all ranks of a pipeline, and simulates a training step of the whole pipeline. */
#include "memplan/ranks/pipeline_report.h"

#include <stdio.h>
#include <string.h>

#include "estimator/graph/liveness.h"
#include "estimator/graph/without_state_copies.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"

mp_status mp_pipeline_report_new(const mp_workload_options *o, mp_pipeline_report *out, mp_error *err)
{
    *out = (mp_pipeline_report){0};
    MP_CHECK(mp_workload_pipeline(o, &out->shape, err));
    const size_t n = (size_t)out->shape.n_ranks, n_stages = n * (size_t)out->shape.n_chunks;
    out->pool = mp_pool_new();
    out->ranks = mp_pool_alloc(out->pool, n, sizeof *out->ranks);
    out->begins = mp_pool_alloc(out->pool, n_stages + 1, sizeof *out->begins);
    out->seconds = mp_pool_alloc(out->pool, n_stages, sizeof *out->seconds);
    out->keep_all_seconds = mp_pool_alloc(out->pool, n_stages, sizeof *out->keep_all_seconds);
    return mp_pool_failed(out->pool) ? MP_NO_MEMORY(err) : MP_OK;
}

void mp_pipeline_report_free(mp_pipeline_report *p)
{
    mp_schedule_free(p->played);
    mp_schedule_free(p->keep_all_played);
    mp_pool_free(p->pool);
    *p = (mp_pipeline_report){0};
}

/* Records the makespan of the rank's keep-all without copies to other tiers. Extra time is relative to this time. */
static mp_status take_keep_all(mp_pipeline_report *p, const mp_workload *w, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    MP_OWNED mp_step *steps = mp_alloc(w->graph->n_nodes, sizeof *steps);
    mp_rank without_copies = w->rank; /* only the struct is copied, not its data: `w->rank` still owns the data */
    if (!steps) return MP_NO_MEMORY(err);
    if (mp_graph_n_state_copies(w->graph)) {
        MP_CHECK(mp_graph_without_state_copies(w->graph, &without_state, err));
        without_copies.graph = without_state;
    }
    MP_CHECK(mp_keep_all_ticks(w->graph, &p->ranks[w->rank.rank].keep_all_ticks, err));
    return mp_rank_seconds(&without_copies, steps, mp_keep_all(without_copies.graph, steps), p->keep_all_seconds, err);
}

static void take_bytes(mp_pipeline_rank *r, const mp_graph *g)
{
    int64_t bytes[MP_N_KINDS];
    mp_graph_kind_bytes(g, bytes);
    r->parameter_bytes = bytes[MP_KIND_PARAMETER];
    r->gradient_bytes = bytes[MP_KIND_GRADIENT];
    r->state_bytes = bytes[MP_KIND_OPTIMIZER_STATE];
}

mp_status mp_pipeline_report_take(mp_pipeline_report *p, const mp_workload *w, const mp_plan *plan, mp_error *err)
{
    const int rank = w->rank.rank;
    mp_pipeline_rank *r = &p->ranks[rank];
    const size_t n_stages = (size_t)(p->shape.n_ranks * p->shape.n_chunks);
    const mp_step *all;
    const mp_timeline *keep_all;
    MP_CHECK(mp_problem_keep_all(w->problem, &all, &keep_all, err));
    take_bytes(r, w->graph);
    r->held_bytes = mp_rank_most_held(&w->rank);
    r->in_flight = mp_schedule_in_flight(&p->shape, rank);
    r->tick_seconds = w->graph->tick_seconds;
    if (plan) {
        r->has_plan = true;
        r->ticks = plan->ticks;
        r->peak_bytes = mp_plan_need(plan);
        MP_CHECK(mp_rank_seconds(&w->rank, plan->steps, plan->n_steps, p->seconds, err));
    } else {
        r->keep_all_peak_bytes = r->peak_bytes = keep_all->peak_bytes;
        r->ticks = keep_all->ticks;
        MP_CHECK(take_keep_all(p, w, err));
        MP_CHECK(mp_rank_seconds(&w->rank, all, keep_all->n_steps, p->seconds, err));
    }
    snprintf(p->title, sizeof p->title, "%s", w->title);
    snprintf(p->mesh, sizeof p->mesh, "%s", mp_mesh_write(&w->ranks.mesh).text);
    p->micro_batch = mp_workload_batch(w) / p->shape.n_micro_batches;
    memcpy(p->begins, w->begins, n_stages * sizeof *p->begins);
    p->begins[n_stages] = w->n_blocks;
    return MP_OK;
}

mp_status mp_pipeline_report_play(mp_pipeline_report *p, mp_error *err)
{
    MP_CHECK(mp_schedule_play(&p->shape, p->keep_all_seconds, &p->keep_all_played, err));
    return mp_schedule_play(&p->shape, p->seconds, &p->played, err);
}

int64_t mp_pipeline_report_peak(const mp_pipeline_report *p)
{
    int64_t peak = 0;
    for (int r = 0; r < p->shape.n_ranks; r++)
        if (p->ranks[r].peak_bytes > peak) peak = p->ranks[r].peak_bytes;
    return peak;
}

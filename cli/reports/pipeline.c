/* pipeline.c - collects the results of all ranks of a pipeline, and simulates a training step of the whole pipeline. */
#include "cli/reports/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "estimator/graph/fold.h"
#include "estimator/graph/liveness.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "formats/json/json.h"

mp_status pipeline_asked(const options *o, bool *out, mp_error *err)
{
    MP_ABOUT(err, o->operands[0]);
    mp_pipeline_shape shape;
    *out = false;
    /* a graph file contains the graph of one rank and no pipeline; if options for models were given, loading the graph reports
     * an error later */
    if (mp_workload_is_graph(o->operands[0])) return MP_OK;
    MP_CHECK(mp_workload_pipeline(&o->model, &shape, err));
    *out = shape.n_ranks > 1 && !o->model.rank;
    return MP_OK;
}

mp_status pipeline_start(const options *o, pipeline *out, mp_error *err)
{
    *out = (pipeline){.asked = o, .smallest_bytes = -1};
    MP_CHECK(mp_workload_pipeline(&o->model, &out->shape, err));
    const size_t n = (size_t)out->shape.n_ranks, n_stages = n * (size_t)out->shape.n_chunks;
    out->pool = mp_pool_new();
    out->ranks = mp_pool_alloc(out->pool, n, sizeof *out->ranks);
    out->begins = mp_pool_alloc(out->pool, n_stages + 1, sizeof *out->begins);
    out->seconds = mp_pool_alloc(out->pool, n_stages, sizeof *out->seconds);
    out->keep_all_seconds = mp_pool_alloc(out->pool, n_stages, sizeof *out->keep_all_seconds);
    if (mp_pool_failed(out->pool)) return MP_NO_MEMORY(err);
    return MP_OK;
}

void pipeline_free(pipeline *p)
{
    mp_schedule_free(p->played);
    mp_schedule_free(p->keep_all_played);
    mp_pool_free(p->pool);
    *p = (pipeline){0};
}

options pipeline_rank_options(const pipeline *p, int rank, rank_options *space)
{
    options one = *p->asked;
    snprintf(space->rank, sizeof space->rank, "%d", rank);
    one.model.rank = space->rank;
    return one;
}

/* Copies the busy seconds of a rank's chunks to the pipeline stages of the chunks. */
static mp_status take_seconds(const pipeline *p, const mp_rank *of, int rank, const mp_step *steps, size_t n,
                              mp_stage_seconds *to, mp_error *err)
{
    MP_OWNED mp_stage_seconds *chunks = mp_alloc((size_t)p->shape.n_chunks, sizeof *chunks);
    if (!chunks) return MP_NO_MEMORY(err);
    MP_CHECK(mp_rank_seconds(of, steps, n, chunks, err));
    for (int c = 0; c < p->shape.n_chunks; c++) to[c * p->shape.n_ranks + rank] = chunks[c];
    return MP_OK;
}

/* Records the makespan of the rank's keep-all without copies to other tiers. Extra time is relative to this time. */
static mp_status take_plain(pipeline *p, const mp_workload *s, int rank, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *folded = NULL;
    MP_OWNED mp_step *steps = mp_alloc(s->graph->n_nodes, sizeof *steps);
    mp_rank plain = s->rank; /* only the struct is copied, not its data: `s->rank` still owns the data */
    if (!steps) return MP_NO_MEMORY(err);
    if (mp_graph_n_state_copies(s->graph)) {
        MP_CHECK(mp_state_fold(s->graph, &folded, err));
        plain.graph = folded;
    }
    MP_CHECK(mp_plain_ticks(s->graph, &p->ranks[rank].keep_all_ticks, err));
    return take_seconds(p, &plain, rank, steps, mp_keep_all(plain.graph, steps), p->keep_all_seconds, err);
}

mp_status pipeline_take(pipeline *p, int rank, const mp_workload *s, const mp_step *steps, size_t n, mp_error *err)
{
    pipeline_rank *r = &p->ranks[rank];
    const mp_graph *g = s->graph;
    const mp_step *all;
    const mp_timeline *keep_all;
    MP_CHECK(mp_problem_keep_all(s->problem, &all, &keep_all, err));
    r->parameter_bytes = r->gradient_bytes = r->state_bytes = 0;
    for (size_t k = 0; k < g->n_storages; k++) {
        if (g->storages[k].kind == MP_KIND_PARAMETER) r->parameter_bytes += g->storages[k].bytes;
        if (g->storages[k].kind == MP_KIND_GRADIENT) r->gradient_bytes += g->storages[k].bytes;
        if (g->storages[k].kind == MP_KIND_OPTIMIZER_STATE) r->state_bytes += g->storages[k].bytes;
    }
    r->held_bytes = mp_rank_most_held(&s->rank);
    r->in_flight = mp_schedule_in_flight(&p->shape, rank);
    r->tick_seconds = g->tick_seconds;
    if (!steps) {
        r->keep_all_peak_bytes = r->peak_bytes = keep_all->peak_bytes;
        r->ticks = keep_all->ticks;
        MP_CHECK(take_plain(p, s, rank, err));
        MP_CHECK(take_seconds(p, &s->rank, rank, all, keep_all->n_steps, p->seconds, err));
    } else {
        MP_CHECK(take_seconds(p, &s->rank, rank, steps, n, p->seconds, err));
    }
    const int64_t batch = mp_workload_batch(s);
    snprintf(p->title, sizeof p->title, "%s", s->title);
    p->program = workload_program(s);
    snprintf(p->mesh, sizeof p->mesh, "%s", mp_mesh_write(&s->ranks.mesh).text);
    p->micro_batch = batch / p->shape.n_micro_batches;
    p->n_blocks = s->n_blocks;
    memcpy(p->begins, s->begins, (size_t)(p->shape.n_ranks * p->shape.n_chunks) * sizeof *p->begins);
    p->begins[p->shape.n_ranks * p->shape.n_chunks] = s->n_blocks;
    if (option_given(p->asked, OPT_DEVICE)) mp_room_of_workload(s, &p->asked->model, &p->room);
    return MP_OK;
}

mp_status pipeline_play(pipeline *p, mp_error *err)
{
    MP_CHECK(mp_schedule_play(&p->shape, p->keep_all_seconds, &p->keep_all_played, err));
    return mp_schedule_play(&p->shape, p->seconds, &p->played, err);
}

int64_t pipeline_peak(const pipeline *p)
{
    int64_t peak = 0;
    for (int r = 0; r < p->shape.n_ranks; r++)
        if (p->ranks[r].peak_bytes > peak) peak = p->ranks[r].peak_bytes;
    return peak;
}

void pipeline_print_step(const pipeline *p)
{
    const int64_t n = p->shape.n_micro_batches;
    const char *of = p->micro_batch ? mp_text(" of %s", count_text(p->micro_batch)) : "";
    screen_text(2, "%s micro-batch%s%s, %s%s: a step takes %s, of which the busiest rank waits %s for others (%.1f %%).",
                count_text(n), n == 1 ? "" : "es", of, mp_schedule_name(p->shape.schedule),
                p->shape.n_chunks > 1 ? mp_text(" with %d chunks", p->shape.n_chunks) : "", seconds_text(p->played->seconds),
                seconds_text(p->played->bubble_seconds), 100 * p->played->bubble_seconds / p->played->seconds);
}

static json_t *stage_json(const pipeline *p, int q)
{
    const mp_stage_seconds *s = &p->seconds[q];
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "first_block", p->begins[q], "blocks", p->begins[q + 1] - p->begins[q],
                     "forward_seconds", s->forward, "backward_seconds", s->backward + s->weights, "weights_seconds", s->weights,
                     "send_seconds", s->send);
}

static json_t *rank_json(const pipeline *p, int rank)
{
    const pipeline_rank *r = &p->ranks[rank];
    json_t *stages = json_array();
    for (int c = 0; c < p->shape.n_chunks; c++) mp_json_append(&stages, stage_json(p, c * p->shape.n_ranks + rank));
    json_t *json =
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "rank", rank, "in_flight", (json_int_t)r->in_flight,
                  "parameter_bytes", (json_int_t)r->parameter_bytes, "gradient_bytes", (json_int_t)r->gradient_bytes,
                  "optimizer_state_bytes", (json_int_t)r->state_bytes, "held_bytes", (json_int_t)r->held_bytes, "peak_bytes",
                  (json_int_t)r->peak_bytes, "keep_all_peak_bytes", (json_int_t)r->keep_all_peak_bytes, "extra_seconds",
                  (double)(r->ticks - r->keep_all_ticks) * r->tick_seconds, "stages", stages);
    mp_json_set(&json, "file", *r->file ? mp_json_text(r->file) : json_null());
    return json;
}

json_t *pipeline_json(const pipeline *p)
{
    json_t *ranks = json_array();
    for (int r = 0; r < p->shape.n_ranks; r++) mp_json_append(&ranks, rank_json(p, r));
    json_t *smallest = p->smallest_bytes < 0 ? json_null() : json_integer((json_int_t)p->smallest_bytes);
    return json_pack("{s:o, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:f, s:I, s:o, s:o}", "model", mp_json_text(p->title), "mesh",
                     p->mesh, "schedule", mp_schedule_name(p->shape.schedule), "chunks", p->shape.n_chunks, "micro_batches",
                     (json_int_t)p->shape.n_micro_batches, "micro_batch", (json_int_t)p->micro_batch, "seconds",
                     p->played->seconds, "bubble_seconds", p->played->bubble_seconds, "keep_all_seconds",
                     p->keep_all_played->seconds, "peak_bytes", (json_int_t)pipeline_peak(p), "smallest_budget_bytes", smallest,
                     "ranks", ranks);
}

/* pipeline.c - the answer about all ranks of a pipeline: its parts that several commands print, and its JSON. */
#include "cli/reports/pipeline.h"

#include <stdio.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/plan.h"
#include "executor/workload/chunk_numbers.h"
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
    MP_CHECK(mp_pipeline_report_new(&o->model, &out->report, err));
    out->searches = mp_pool_alloc(out->report.pool, (size_t)out->report.shape.n_ranks, sizeof *out->searches);
    return out->searches ? MP_OK : MP_NO_MEMORY(err);
}

void pipeline_free(pipeline *p)
{
    mp_pipeline_report_free(&p->report);
}

options pipeline_rank_options(const pipeline *p, int rank, rank_options *space)
{
    options one = *p->asked;
    snprintf(space->rank, sizeof space->rank, "%d", rank);
    one.model.rank = space->rank;
    return one;
}

mp_status pipeline_take(pipeline *p, const mp_workload *s, mp_error *err)
{
    p->program = workload_program(s);
    if (option_given(p->asked, OPT_DEVICE)) mp_capacity_of_workload(s, &p->asked->model, &p->room);
    return mp_pipeline_report_take(&p->report, s, NULL, err);
}

void pipeline_take_needs(pipeline *p, const mp_needs *needs)
{
    if (needs->process_bytes > p->needs.process_bytes) p->needs = *needs;
}

void pipeline_print_step(const mp_pipeline_report *p)
{
    const int64_t n = p->shape.n_micro_batches;
    const char *of = p->micro_batch ? mp_text(" of %s", count_text(p->micro_batch)) : "";
    screen_text(2, "%s micro-batch%s%s, %s%s: a step takes %s, of which the busiest rank waits %s for others (%.1f %%).",
                count_text(n), n == 1 ? "" : "es", of, mp_schedule_name(p->shape.schedule),
                p->shape.n_chunks > 1 ? mp_text(" with %d chunks", p->shape.n_chunks) : "", seconds_text(p->played->seconds),
                seconds_text(p->played->bubble_seconds), 100 * p->played->bubble_seconds / p->played->seconds);
}

static json_t *stage_json(const mp_pipeline_report *p, int q)
{
    const mp_stage_seconds *s = &p->seconds[q];
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "first_block", p->begins[q], "blocks", p->begins[q + 1] - p->begins[q],
                     "forward_seconds", s->forward, "backward_seconds", s->backward + s->weights, "weights_seconds", s->weights,
                     "send_seconds", s->send);
}

static json_t *rank_json(const mp_pipeline_report *p, int rank, const char *file)
{
    const mp_pipeline_rank *r = &p->ranks[rank];
    json_t *stages = json_array();
    for (int c = 0; c < p->shape.n_chunks; c++) mp_json_append(&stages, stage_json(p, c * p->shape.n_ranks + rank));
    json_t *json =
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "rank", rank, "in_flight", (json_int_t)r->in_flight,
                  "parameter_bytes", (json_int_t)r->parameter_bytes, "gradient_bytes", (json_int_t)r->gradient_bytes,
                  "optimizer_state_bytes", (json_int_t)r->state_bytes, "held_bytes", (json_int_t)r->held_bytes, "peak_bytes",
                  (json_int_t)r->peak_bytes, "keep_all_peak_bytes", (json_int_t)r->keep_all_peak_bytes, "extra_seconds",
                  (double)(r->ticks - r->keep_all_ticks) * r->tick_seconds, "stages", stages);
    mp_json_set(&json, "file", *file ? mp_json_text(file) : json_null());
    return json;
}

json_t *pipeline_json(const pipeline *of)
{
    const mp_pipeline_report *p = &of->report;
    json_t *ranks = json_array();
    for (int r = 0; r < p->shape.n_ranks; r++) mp_json_append(&ranks, rank_json(p, r, of->searches[r].file));
    json_t *smallest = of->smallest_bytes < 0 ? json_null() : json_integer((json_int_t)of->smallest_bytes);
    json_t *json =
        json_pack("{s:o, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:f, s:I, s:o, s:o, s:o}", "model", mp_json_text(p->title), "mesh",
                  p->mesh, "schedule", mp_schedule_name(p->shape.schedule), "chunks", p->shape.n_chunks, "micro_batches",
                  (json_int_t)p->shape.n_micro_batches, "micro_batch", (json_int_t)p->micro_batch, "seconds",
                  p->played->seconds, "bubble_seconds", p->played->bubble_seconds, "keep_all_seconds",
                  p->keep_all_played->seconds, "peak_bytes", (json_int_t)mp_pipeline_report_peak(p), "smallest_budget_bytes",
                  smallest, "needs", needs_json(&of->needs), "ranks", ranks);
    json_t *chunks = chunk_setting_json(of->asked->model.row_chunks);
    if (chunks) mp_json_set(&json, "row_chunks", chunks);
    return json;
}

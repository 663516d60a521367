/* workload_train.c - the inputs, tiers and runs of a workload's training. */
#include "memplan/workloads/workload_train.h"

#include <string.h>

#include "executor/data/inputs.h"
#include "executor/program/program.h"
#include "executor/ranks/exchanges.h"
#include "executor/run/execution.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "formats/base/text.h"
#include "formats/pages/run_trace.h"
#include "memplan/arena.h"
#include "planner/search/algorithms.h"

mp_status mp_workload_check_trains(const mp_workload *w, mp_error *err)
{
    MP_ENSURE(w->model, err, MP_INVALID, "train needs a model; a training graph has no operators to run");
    MP_ENSURE(mp_workload_rules(w) != MP_RULES_PYTORCH, err, MP_INVALID,
              "train keeps the tensors that its own kernels read, so it cannot run --rules pytorch");
    MP_ENSURE(w->details->refusal.code == MP_OK, err, MP_UNSUPPORTED, "%s", w->details->refusal.message);
    const char *device = json_string_value(json_object_get(w->details->options, "device"));
    if (!device) device = w->graph->target;
    MP_ENSURE(w->program || !w->rank.shape.n_ranks || strcmp(device, "cpu") != 0, err, MP_UNSUPPORTED,
              "the schedule %s can be planned but not trained yet", mp_schedule_name(w->rank.shape.schedule));
    MP_ENSURE(w->program, err, MP_UNSUPPORTED, "the device '%s' is a profile for planning; train runs on cpu and cuda", device);
    MP_ENSURE(w->program->bindings->loss >= 0, err, MP_INVALID, "training needs a loss, so --loss none is not for train");
    return mp_program_check_ranks(w->program, err);
}

/* ---- inputs ---- */

mp_status mp_workload_open_inputs(const mp_workload *w, const mp_workload_inputs_request *r, mp_workload_inputs *out,
                                  mp_error *err)
{
    MP_CLEARED_BY(mp_workload_inputs_free) mp_workload_inputs in = {.n_test_samples = -1};
    const mp_feed_part all = {.n = 1, .n_batches = 1, .folder = r->folder};
    mp_rank_position place;
    MP_CHECK(mp_parameter_source_open(w->program, w->file, r->seed, r->draws_missing, &in.parameters, err));
    mp_parameter_source_count(in.parameters, &in.n_parameters, &in.n_drawn);
    MP_CHECK(mp_rank_position_of(w->program, r->world, &place, err));
    mp_feed_part part = mp_inputs_part(w->program, &place);
    part.folder = r->folder;
    MP_CHECK(mp_inputs_open_part(w->program, r->data.items, r->data.n, r->seed, &part, &in.feed, err));
    if (r->test.n) MP_CHECK(mp_inputs_open_part(w->program, r->test.items, r->test.n, r->seed, &all, &in.test, err));
    in.n_samples = mp_feed_samples(in.feed);
    if (in.test) in.n_test_samples = mp_feed_samples(in.test);
    if (r->world) MP_CHECK(mp_feed_digest(in.feed, &in.data_digest, err));
    if (r->world && in.test) MP_CHECK(mp_feed_digest(in.test, &in.test_digest, err));
    *out = in;
    in = (mp_workload_inputs){0};
    return MP_OK;
}

void mp_workload_inputs_free(mp_workload_inputs *in)
{
    mp_parameter_source_free(in->parameters);
    mp_feed_free(in->feed);
    mp_feed_free(in->test);
    *in = (mp_workload_inputs){0};
}

size_t mp_workload_untrained(const mp_workload *w, const char **first)
{
    const mp_model *model = w->program->model;
    const mp_bindings *bound = w->program->bindings;
    size_t n = 0;
    *first = NULL;
    for (size_t k = model->n_tensors; k-- > 0;) {
        const mp_tensor *x = &model->tensors[k];
        if (x->role != MP_ROLE_PARAMETER || x->is_frozen || bound->storage[k] < 0 || bound->gradient[k] >= 0) continue;
        n++;
        *first = x->name;
    }
    return n;
}

/* ---- tiers ---- */

bool mp_workload_tier_is_file(const mp_workload *w, size_t tier)
{
    return strcmp(w->graph->tiers[tier], "host") != 0;
}

void mp_workload_use_tiers(const mp_workload *w, mp_execution_options *execution)
{
    memcpy(execution->bytes_per_second, w->bytes_per_second, sizeof w->bytes_per_second);
    for (size_t m = 1; m < w->graph->n_tiers; m++)
        execution->tiers[m] =
            (mp_tier_memory){.folder = mp_workload_tier_is_file(w, m) ? w->folder : NULL, .capacity_bytes = w->tier_bytes[m]};
}

mp_status mp_workload_try_tiers(const mp_workload *w, const mp_execution_options *execution, mp_error *err)
{
    MP_OWNED_BY(mp_execution_free) mp_execution *tried = NULL;
    return w->graph->n_tiers > 1 ? mp_execution_new(w->program, w->plan, execution, &tried, err) : MP_OK;
}

int64_t mp_workload_copied_bytes(const mp_workload *w, int64_t pass_bytes, size_t n_steps)
{
    const int accumulate = w->program->options.accumulate;
    int64_t state = 0;
    for (int m = 1; m < (int)w->graph->n_tiers; m++) state += mp_graph_static_bytes_in(w->graph, m);
    return (int64_t)n_steps * ((pass_bytes - state) * (accumulate > 1 ? accumulate : 1) + state);
}

/* ---- runs ---- */

mp_status mp_workload_keep_all_like(const mp_workload *w, mp_plan **out, mp_error *err)
{
    if (!mp_graph_has_algorithms(w->graph)) {
        *out = NULL;
        return MP_OK;
    }
    MP_OWNED int *alternatives = mp_alloc(w->graph->n_nodes, sizeof *alternatives);
    MP_ENSURE(alternatives, err, MP_NOMEM, "%zu steps", w->graph->n_nodes);
    for (size_t k = 0; k < w->plan->n_steps; k++) {
        const mp_step *step = &w->plan->steps[k];
        const mp_node *node = &w->graph->nodes[step->node];
        if (mp_node_has_algorithms(node) && !node->alternatives[step->alternative].returns)
            alternatives[step->node] = step->alternative;
    }
    return mp_keep_all_plan(w->graph, alternatives, out, err);
}

mp_status mp_workload_hold_for(mp_workload *w, const mp_plan *plan, mp_error *err)
{
    if (!w->rank.shape.n_ranks) return MP_OK;
    MP_OWNED int64_t *bytes = mp_alloc((size_t)w->rank.shape.n_chunks, sizeof *bytes);
    if (!bytes) return MP_NO_MEMORY(err);
    MP_CHECK(mp_rank_held_bytes(&w->rank, plan->steps, plan->n_steps, bytes, err));
    return mp_workload_hold(w, bytes, err);
}

mp_status mp_workload_write_trace(const mp_workload *w, mp_communicator *world, const struct mp_step_time *times,
                                  const char *path, double timeout, mp_error *err)
{
    MP_OWNED char *own = NULL;
    MP_OWNED const char **texts = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *others = mp_pool_new();
    const int n = world ? mp_communicator_size(world) : 1, rank = world ? mp_communicator_rank(world) : 0;
    MP_CHECK(mp_run_trace_events(w->graph, w->plan, times, rank, n > 1 ? mp_text("rank %d of %s", rank, w->title) : w->title,
                                 &own, err));
    texts = mp_alloc((size_t)n, sizeof *texts);
    MP_ENSURE(texts && others, err, MP_NOMEM, "out of memory");
    texts[0] = own;
    if (world) MP_CHECK(mp_communicator_collect(world, own, texts, others, timeout, "the trace", err));
    return rank ? MP_OK : mp_run_trace_write(path, texts, (size_t)n, err);
}

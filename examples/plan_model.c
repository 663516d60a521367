/* plan_model.c - plans a model within a percentage of the memory of keep-all, and writes the plan to a file.
 *
 *     plan_model MODEL.onnx BATCH PERCENT PLAN.json
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

/* Reads a model and builds its training graph; node times are those of an A100's roofline. */
static mp_status read_graph(const char *path, int64_t batch, mp_graph **out, mp_error *err)
{
    const mp_onnx_options dimensions = {.batch = batch};
    const mp_training_options training = {.loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    int loss;
    MP_CHECK(mp_onnx_read(path, &dimensions, &model, err));
    MP_CHECK(mp_model_simplify(model, training.rules, true, NULL, err));
    MP_CHECK(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, NULL, err));
    MP_CHECK(mp_model_add_loss(model, &training, &loss, err));
    return mp_training_graph(model, &training, loss, &target, out, err);
}

/* Computes the peak memory of keep-all, which recomputes nothing. */
static mp_status keep_all_bytes(const mp_graph *graph, int64_t *bytes, mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "the steps");
    const size_t n = mp_keep_all(graph, steps);
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    *bytes = timeline->peak_bytes;
    return MP_OK;
}

static mp_status plan(const char *path, int64_t batch, int percent, const char *file, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    int64_t all = 0;
    MP_CHECK(read_graph(path, batch, &graph, err));
    MP_CHECK(keep_all_bytes(graph, &all, err));
    const mp_request request = {.graph = graph, .budget_bytes = all / 100 * percent, .wants_bound = true};
    MP_CHECK(mp_solve_with_arena(&request, &answer, err)); /* the returned plan has passed mp_plan_check */
    MP_ENSURE(answer.plan, err, MP_INFEASIBLE, "no plan in %lld bytes; the smallest found needs %lld",
              (long long)request.budget_bytes, (long long)mp_plan_need(answer.smallest));
    const mp_plan *p = answer.plan;
    printf("%s: %lld of %lld bytes, %.1f %% more time, found by %s; floor %lld bytes\n", graph->name,
           (long long)mp_plan_need(p), (long long)all,
           100.0 * (double)(p->ticks - p->baseline_ticks) / (double)p->baseline_ticks, p->solver,
           (long long)answer.floor_bytes);
    return mp_plan_write(p, graph, file, err);
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 5) return fprintf(stderr, "usage: plan_model MODEL.onnx BATCH PERCENT PLAN.json\n"), 2;
    if (plan(argv[1], strtoll(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10), argv[4], &err) == MP_OK) return 0;
    fprintf(stderr, "plan_model: %s: %s\n", argv[1], err.message);
    return 1;
}

/* training_case.c - makes programs and plans of model files, and runs whole steps. */
#include "tests/cases/training_case.h"
#include "tests/cases/test.h"

#include "estimator/simplify/inference_form.h"
#include "estimator/simplify/sequences.h"
#include "estimator/training/loss_chunks.h"
#include "estimator/training/row_regions.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "memplan/solver.h"
#include "tests/cases/backend_case.h"

#define OK(call) \
    if ((call) != MP_OK) fail_msg("%s", err.message)

mp_workload training_workload(const char *path, const mp_workload_options *options)
{
    mp_workload w;
    mp_error err = {0};
    if (mp_workload_load(path, options, &w, &err) != MP_OK) fail_msg("%s", err.message);
    return w;
}

/* Changes made to a model in addition to simplification. */
typedef struct adaptions {
    bool fused, fixed;
    bool by_rule;   /* fuses attention and cuts sequences where possible, like the command line */
    int64_t steps;  /* length of a sequence's chunks; 0: sequences stay whole */
    int row_chunks; /* number of chunks of the logits' rows; 0: the logits are computed as a whole */
    int regions;    /* number of chunks of all other regions of rows; 0: they are whole */
    const mp_adapters *adapters;
} adaptions;

static training_case begin(const mp_backend *backend, const char *path, int64_t batch, const mp_training_options *options,
                           adaptions how)
{
    training_case t = {0};
    mp_error err = {0};
    mp_onnx_options file = {.batch = batch};
    int loss;
    OK(mp_onnx_read(path, &file, &t.model, &err));
    if (how.fixed) OK(mp_model_keep_inference_norms(t.model, &err));
    OK(mp_model_simplify(t.model, MP_RULES_EXECUTOR, true, NULL, &err));
    if (how.fused || how.by_rule) {
        mp_attention_report report = {0};
        const bool biased = how.by_rule && backend->gives_mask_gradients;
        OK(mp_model_fuse_attention(t.model, MP_RULES_EXECUTOR, biased, &report, &err));
        assert_true(report.n > 0 || how.by_rule);
    }
    if (how.steps || how.by_rule) {
        mp_sequence_report report;
        OK(mp_model_cut_sequences(t.model, how.steps, &report, &err));
        assert_true(report.n_layers > 0 || how.by_rule);
    }
    if (how.adapters) OK(mp_model_add_adapters(t.model, how.adapters, &err));
    OK(mp_model_add_loss(t.model, options, &loss, &err));
    if (how.row_chunks) {
        mp_loss_chunks chunks;
        OK(mp_model_chunk_loss(t.model, loss, how.row_chunks, &chunks, &err));
        assert_int_equal(chunks.n, how.row_chunks);
    }
    if (how.regions) {
        const int n[] = {0, how.regions, how.regions, how.regions};
        mp_row_regions regions;
        OK(mp_model_chunk_rows(t.model, n, 4, &regions, &err));
        assert_true(regions.kinds[MP_CHUNK_MLP].n || regions.kinds[MP_CHUNK_ROWS].n);
        if (regions.kinds[MP_CHUNK_ATTENTION].n_regions) assert_true(regions.kinds[MP_CHUNK_ATTENTION].n > 1);
    }
    OK(mp_program_build(backend, t.model, options, loss, &t.program, &err));
    OK(mp_parameter_source_open(t.program, path, 1, false, &t.source, &err));
    OK(mp_inputs_open_feed(t.program, NULL, 0, 1, &t.feed, &err));
    return t;
}

training_case training_begin(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){0});
}

training_case training_begin_on(const mp_backend *backend, const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend, path, batch, options, (adaptions){0});
}

training_case training_begin_fused_on(const mp_backend *backend, const char *path, int64_t batch,
                                      const mp_training_options *options)
{
    return begin(backend, path, batch, options, (adaptions){.fused = true});
}

training_case training_begin_fixed(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.fixed = true});
}

training_case training_begin_fused(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.fused = true});
}

training_case training_begin_adapted(const char *path, int64_t batch, const mp_training_options *options,
                                     const mp_adapters *adapters)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.adapters = adapters});
}

training_case training_begin_cut(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.steps = 4});
}

training_case training_begin_chunked(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.row_chunks = 3});
}

training_case training_begin_in_regions(const char *path, int64_t batch, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, batch, options, (adaptions){.regions = 3});
}

training_case training_begin_as_users_do(const char *path, const mp_training_options *options)
{
    return begin(backend_of_tests(), path, 0, options, (adaptions){.by_rule = true});
}

void training_end(training_case *t)
{
    mp_feed_free(t->feed);
    mp_parameter_source_free(t->source);
    mp_program_free(t->program);
    mp_model_free(t->model);
}

static mp_plan *complete(const training_case *t, mp_plan *plan)
{
    mp_error err = {0};
    OK(mp_arena_layout(t->program->graph, plan, &err));
    OK(mp_plan_check(t->program->graph, plan, &err));
    return plan;
}

mp_plan *training_keep_all(const training_case *t)
{
    const mp_graph *g = t->program->graph;
    mp_error err = {0};
    mp_plan *plan;
    mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    mp_keep_all(g, steps);
    OK(mp_plan_new(g, "none", steps, g->n_nodes, &plan, &err));
    mp_free(steps);
    return complete(t, plan);
}

mp_plan *training_plan(const training_case *t, double part)
{
    const mp_graph *g = t->program->graph;
    mp_error err = {0};
    mp_plan *all = training_keep_all(t), *plan;
    mp_answer answer;
    int64_t floor;
    int node;
    OK(mp_floor(g, &floor, &node, &err));
    mp_request request = {.graph = g,
                          .budget_bytes = floor + (int64_t)(part * (double)(all->peak_bytes - floor)),
                          .solver = "auto",
                          .moves = 400};
    OK(mp_solve(&request, &answer, &err));
    plan = answer.plan ? answer.plan : answer.smallest;
    if (answer.plan)
        answer.plan = NULL;
    else
        answer.smallest = NULL;
    mp_answer_free(&answer);
    mp_plan_free(all);
    plan->budget_bytes = MP_NO_LIMIT; /* the arena may be slightly larger than the live bytes */
    return complete(t, plan);
}

mp_train_request training_request(const training_case *t, const mp_plan *plan, int64_t n_steps)
{
    return (mp_train_request){.program = t->program,
                              .plan = plan,
                              .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD)},
                              .feed = t->feed,
                              .parameters = t->source,
                              .n_steps = n_steps};
}

mp_execution *training_execution(training_case *t, const mp_plan *plan, const mp_hyper *hyper)
{
    mp_error err = {0};
    mp_execution *e;
    mp_execution_options options = {.hyper = *hyper, .seed = 3, .poison = true};
    OK(mp_execution_new(t->program, plan, &options, &e, &err));
    OK(mp_parameters_load(t->source, t->program, e, &err));
    return e;
}

void training_run(training_case *t, mp_execution *e, int64_t from, int64_t to, double *losses)
{
    mp_error err = {0};
    mp_input_filler filler;
    OK(mp_input_filler_new(t->program, t->feed, &filler, &err));
    for (int64_t k = from; k < to; k++) OK(mp_execution_step(e, k, mp_inputs_fill, &filler, &losses[k - from], &err));
    OK(mp_execution_flush(e, &err));
    mp_input_filler_free(&filler);
}

training_outcome training_outcome_of(training_case *t, const mp_plan *plan, const mp_execution_options *options, int64_t n)
{
    training_outcome o = {{0}, ""};
    mp_error err = {0};
    mp_execution *e;
    OK(mp_execution_new(t->program, plan, options, &e, &err));
    OK(mp_parameters_load(t->source, t->program, e, &err));
    training_run(t, e, 0, n, o.losses);
    mp_execution_hash(e, o.hash);
    mp_execution_free(e);
    return o;
}

bool training_outcomes_are_same(const training_outcome *a, const training_outcome *b)
{
    return !memcmp(a->losses, b->losses, sizeof a->losses) && !strcmp(a->hash, b->hash);
}

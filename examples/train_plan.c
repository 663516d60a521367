/* train_plan.c - trains a model on the CPU within a budget, on random data, and prints planned and measured memory.
 *
 *     train_plan MODEL.onnx BATCH BUDGET_BYTES STEPS
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

static void say(const mp_report *r)
{
    printf("planned %lld bytes; of its arena of %lld bytes %lld were written\n", (long long)r->planned_peak_bytes,
           (long long)r->arena_bytes, (long long)r->measured_arena_bytes);
    for (size_t k = 0; k < r->n_losses; k++) printf("step %zu: loss %.4f\n", k + 1, r->losses[k]);
}

/* Builds a program: the model adapted to the CPU, with its training graph and prepared calls. */
static mp_status build(const char *path, int64_t batch, mp_model **model, mp_program **program, mp_error *err)
{
    const mp_onnx_options dimensions = {.batch = batch};
    const mp_training_options training = {.loss = MP_LOSS_AUTO, .optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const mp_backend *cpu;
    int loss;
    MP_CHECK(mp_backend_open("cpu", &cpu, err));
    MP_CHECK(mp_onnx_read(path, &dimensions, model, err));
    MP_CHECK(mp_model_simplify(*model, training.rules, true, NULL, err));
    MP_CHECK(mp_model_add_loss(*model, &training, &loss, err));
    return mp_program_build(cpu, *model, &training, loss, program, err);
}

static mp_status train(const char *path, int64_t batch, int64_t budget_bytes, int64_t n_steps, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    MP_OWNED_BY(mp_program_free) mp_program *program = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED_BY(mp_parameter_source_free) mp_parameter_source *parameters = NULL;
    MP_OWNED_BY(mp_feed_free) mp_feed *feed = NULL;
    MP_CLEARED_BY(mp_report_free) mp_report report = {0};
    MP_CHECK(build(path, batch, &model, &program, err));
    const mp_request request = {.graph = mp_program_graph(program), .budget_bytes = budget_bytes};
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    MP_ENSURE(answer.plan, err, MP_INFEASIBLE, "no plan in %lld bytes", (long long)budget_bytes);
    MP_CHECK(mp_parameter_source_open(program, path, 0, false, &parameters, err));
    MP_CHECK(mp_inputs_open_feed(program, NULL, 0, 0, &feed, err)); /* no sources: random numbers */
    const mp_train_request training = {.program = program,
                                       .plan = answer.plan,
                                       .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)},
                                       .feed = feed,
                                       .parameters = parameters,
                                       .n_steps = n_steps};
    MP_CHECK(mp_train(&training, &report, err));
    say(&report);
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 5) return fprintf(stderr, "usage: train_plan MODEL.onnx BATCH BUDGET_BYTES STEPS\n"), 2;
    if (train(argv[1], strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10), &err) == MP_OK)
        return 0;
    fprintf(stderr, "train_plan: %s: %s\n", argv[1], err.message);
    return 1;
}

/* bench_updates.c - times of a training step with updates at four places. Usage: bench_updates MODEL BATCH [STEPS [DEVICE]].
 *
 * Measures forward, backward and update time of a keep-all step; on a GPU only the time of the whole step, which runs as a
 * captured graph. The updates run after backward (one parameter at a time, or all in one call), within backward, or before the
 * next forward. The four variants alternate step by step, so that they run under equal conditions. Times are medians. The final
 * weights are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/run/execution.h"
#include "memplan/arena.h"
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "memplan/studies/update_effect.h"
#include "planner/order/updates.h"

enum { VARIANTS = 4, WARM_UP = 2, MOST_STEPS = 1000 };

static const struct {
    const char *what;
    mp_fuse fuse;
    bool one_by_one;
} variants[VARIANTS] = {{"after, one at a time", MP_FUSE_NONE, true},
                        {"after, in one call", MP_FUSE_NONE, false},
                        {"within backward", MP_FUSE_BACKWARD, false},
                        {"before forward", MP_FUSE_FORWARD, false}};

typedef struct contender {
    mp_model *model;
    mp_program *program;
    mp_plan *plan;
    mp_parameter_source *source;
    mp_feed *feed;
    mp_input_filler filler;
    mp_execution *execution;
    mp_update_effect effect;
    double seconds[MP_N_PHASES][MOST_STEPS], step[MOST_STEPS];
    char hash[33];
} contender;

static mp_status make_plan(contender *c, mp_error *err)
{
    const mp_graph *g = c->program->graph;
    MP_OWNED mp_step *others = mp_alloc(g->n_nodes, sizeof *others), *steps = NULL;
    size_t n = 0, n_steps;
    MP_ENSURE(others, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < g->n_nodes; k++)
        if (g->nodes[k].phase != MP_PHASE_UPDATE) others[n++] = (mp_step){.node = (int)k};
    MP_CHECK(mp_updates_place(g, others, n, &steps, &n_steps, err));
    MP_CHECK(mp_plan_new(g, "none", steps, n_steps, &c->plan, err));
    MP_CHECK(mp_arena_layout(g, c->plan, err));
    return mp_update_effect_of(g, 0, &c->effect, err);
}

static mp_status begin(contender *c, const mp_backend *backend, const char *path, int64_t batch, int variant, mp_error *err)
{
    mp_onnx_options file = {.batch = batch};
    mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .fuse = variants[variant].fuse, .dtype = MP_DTYPE_FLOAT};
    mp_execution_options how = {
        .hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .one_by_one = variants[variant].one_by_one, .profile = backend->is_host};
    int loss;
    MP_CHECK(mp_onnx_read(path, &file, &c->model, err));
    MP_CHECK(mp_model_simplify(c->model, MP_RULES_EXECUTOR, true, NULL, err));
    MP_CHECK(mp_model_add_loss(c->model, &options, &loss, err));
    MP_CHECK(mp_program_build(backend, c->model, &options, loss, &c->program, err));
    MP_CHECK(make_plan(c, err));
    MP_CHECK(mp_parameter_source_open(c->program, path, 1, false, &c->source, err));
    MP_CHECK(mp_inputs_open_feed(c->program, NULL, 0, 1, &c->feed, err));
    MP_CHECK(mp_input_filler_new(c->program, c->feed, &c->filler, err));
    MP_CHECK(mp_execution_new(c->program, c->plan, &how, &c->execution, err));
    return mp_parameters_load(c->source, c->program, c->execution, err);
}

static mp_status run_step(contender *c, int64_t step, int64_t slot, mp_error *err)
{
    double loss, from = mp_clock_now();
    mp_execution_forget_seconds(c->execution);
    MP_CHECK(mp_execution_step(c->execution, step, mp_inputs_fill, &c->filler, &loss, err));
    if (slot < 0) return MP_OK;
    c->step[slot] = mp_clock_now() - from - mp_execution_input_seconds(c->execution);
    const double *seconds = mp_execution_seconds(c->execution);
    for (size_t k = 0; seconds && k < c->program->n_nodes; k++)
        c->seconds[c->program->graph->nodes[k].phase][slot] += seconds[k];
    return MP_OK;
}

static void end(contender *c)
{
    mp_execution_free(c->execution);
    mp_input_filler_free(&c->filler);
    mp_feed_free(c->feed);
    mp_parameter_source_free(c->source);
    mp_plan_free(c->plan);
    mp_program_free(c->program);
    mp_model_free(c->model);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(double *seconds, int64_t n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    return 500 * (seconds[(n - 1) / 2] + seconds[n / 2]);
}

static void print(contender *all, const char *path, int64_t batch, int64_t n)
{
    printf("%s, batch %lld, AdamW, %s, medians of %lld steps, ms\n", path, (long long)batch, all->program->graph->target,
           (long long)n);
    printf("  %-22s %9s %9s %9s %9s   %s\n", "updates", "forward", "backward", "update", "all",
           "gradients held at most, bytes");
    for (int k = 0; k < VARIANTS; k++) {
        contender *c = &all[k];
        for (int64_t s = 0; s < n; s++) c->seconds[MP_PHASE_FORWARD][s] += c->seconds[MP_PHASE_LOSS][s];
        printf("  %-22s %9.2f %9.2f %9.2f %9.2f   %lld (the largest: %lld)%s\n", variants[k].what,
               median_ms(c->seconds[MP_PHASE_FORWARD], n), median_ms(c->seconds[MP_PHASE_BACKWARD], n),
               median_ms(c->seconds[MP_PHASE_UPDATE], n), median_ms(c->step, n), (long long)c->effect.gradient_bytes,
               (long long)c->effect.largest_gradient_bytes, strcmp(c->hash, all->hash) ? "  OTHER WEIGHTS" : "");
    }
}

static mp_status compare(contender *all, const char *model, const char *device, int64_t batch, int64_t n, mp_error *err)
{
    const mp_backend *backend = NULL;
    MP_CHECK(mp_backend_open(device, &backend, err));
    MP_ENSURE(backend, err, MP_INVALID, "there is no backend '%s'", device);
    MP_CHECK(backend->open(backend, err));
    for (int k = 0; k < VARIANTS; k++) MP_CHECK(begin(&all[k], backend, model, batch, k, err));
    for (int64_t step = 0; step < n + WARM_UP; step++)
        for (int k = 0; k < VARIANTS; k++) MP_CHECK(run_step(&all[k], step, step - WARM_UP, err));
    for (int k = 0; k < VARIANTS; k++) {
        MP_CHECK(mp_execution_flush(all[k].execution, err));
        mp_execution_hash(all[k].execution, all[k].hash);
    }
    print(all, model, batch, n);
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0, n = argc > 3 ? strtoll(argv[3], NULL, 10) : 9;
    contender *all = calloc(VARIANTS, sizeof *all);
    if (!all || argc < 3 || batch < 1 || n < 1 || n > MOST_STEPS) {
        fprintf(stderr, "usage: bench_updates MODEL BATCH [STEPS [DEVICE]]\n");
        free(all);
        return 2;
    }
    const mp_status st = compare(all, argv[1], argc > 4 ? argv[4] : "cpu", batch, n, &err);
    if (st != MP_OK) fprintf(stderr, "bench_updates: %s\n", err.message);
    for (int k = 0; k < VARIANTS; k++) end(&all[k]);
    free(all);
    return st != MP_OK;
}

/* bench_choices.c - times of a training step with one choice of kernels changed. Usage: bench_choices MODEL BATCH TYPE [STEPS
 * [DEVICE [SECONDS]]]; TYPE is fp32, tf32 or bf16.
 *
 * Every kind of node with several algorithms gives a row for each of them. Each further row changes one other choice: attention
 * by memplan's own kernels (both passes, so also with dropout), rows of odd length without alignment, a launch of its own for
 * every call, attention with separate Q, K and V, or bias gradients as separate sums. All other nodes keep the backend's
 * default. The plan is keep-all. On a GPU a step is a captured graph. Times are medians. Rows are printed as they are measured,
 * until SECONDS have passed. The row of attention is always measured. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/base/memory.h"
#include "estimator/rules/operands/attention.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/operators/aligned_rows.h"
#include "executor/run/execution.h"
#include "memplan/arena.h"
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "planner/search/algorithms.h"

enum { WARM_UP = 3, MOST_STEPS = 1000 };
/* Changes of the backend. */
enum { WITH_OWN_ATTENTION = 1, WITHOUT_ALIGNED_ROWS, WITHOUT_CHAINS, WITHOUT_PACKED_ATTENTION, CHANGES };
static const char *const change_names[] = {"defaults", "attention by own kernels", "rows without alignment",
                                           "every call in a launch of its own", "attention with separate Q, K and V"};

typedef struct bench {
    const mp_backend *backend, *inner;
    mp_backend changed; /* the inner backend with one change */
    mp_model *model;
    mp_program *program;
    mp_parameter_source *source;
    mp_feed *feed;
    int64_t n_steps;
    double end, base_seconds; /* base_seconds: a step with the defaults; 0: not measured yet */
    char base_hash[33];
} bench;

/* A choice: nodes with this operator in this phase use an alternative; or all nodes use their first algorithm whose name
 * contains a text. */
typedef struct choice {
    const char *op, *text; /* both NULL: all nodes use their default */
    mp_phase phase;
    size_t alternative;
} choice;

/* Returns the alternative that a node uses; 0: its default. */
static size_t alternative_of(const choice *c, const mp_node *node)
{
    if (!mp_node_has_algorithms(node)) return 0;
    for (size_t k = 0; c->text && k < node->n_alternatives; k++) {
        const char *name = node->alternatives[k].algorithm;
        if (name && strstr(name, c->text)) return k;
    }
    const bool is_meant = c->op && node->phase == c->phase && !strcmp(node->op, c->op);
    return is_meant && node->n_alternatives > c->alternative ? c->alternative : 0;
}

static bool changes_a_node(const choice *c, const mp_graph *g)
{
    for (size_t k = 0; k < g->n_nodes; k++)
        if (alternative_of(c, &g->nodes[k])) return true;
    return false;
}

static mp_status plan_of(const bench *b, const choice *c, mp_plan **out, int *n_changed, mp_error *err)
{
    const mp_graph *g = b->program->graph;
    MP_OWNED mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
    *n_changed = 0;
    MP_ENSURE(steps, err, MP_NOMEM, "out of memory");
    const size_t n = mp_keep_all(g, steps);
    for (size_t k = 0; k < n; k++)
        if (alternative_of(c, &g->nodes[steps[k].node])) {
            steps[k].alternative = (int)alternative_of(c, &g->nodes[steps[k].node]);
            ++*n_changed;
        }
    MP_CHECK(mp_plan_new(g, "none", steps, n, out, err));
    return mp_arena_layout(g, *out, err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mp_status run(bench *b, const mp_plan *plan, double *seconds, char hash[33], mp_error *err)
{
    const mp_execution_options how = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW), .seed = 1};
    double times[MOST_STEPS], loss;
    MP_OWNED_BY(mp_execution_free) mp_execution *e = NULL;
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    MP_CHECK(mp_execution_new(b->program, plan, &how, &e, err));
    MP_CHECK(mp_parameters_load(b->source, b->program, e, err));
    MP_CHECK(mp_input_filler_new(b->program, b->feed, &filler, err));
    for (int64_t step = -WARM_UP; step < b->n_steps; step++) {
        const double from = mp_clock_now();
        MP_CHECK(mp_execution_step(e, step + WARM_UP, mp_inputs_fill, &filler, &loss, err));
        if (step >= 0) times[step] = mp_clock_now() - from - mp_execution_input_seconds(e);
    }
    qsort(times, (size_t)b->n_steps, sizeof *times, by_value);
    *seconds = (times[(b->n_steps - 1) / 2] + times[b->n_steps / 2]) / 2;
    mp_execution_hash(e, hash);
    return MP_OK;
}

/* Measures a choice and prints its row. A choice that cannot run gives a row with the reason. */
static void measure(bench *b, const choice *c, const char *what)
{
    mp_error err = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    double seconds;
    char hash[33];
    int n_changed;
    mp_status st = plan_of(b, c, &plan, &n_changed, &err);
    if (st == MP_OK) st = run(b, plan, &seconds, hash, &err);
    if (st != MP_OK) {
        printf("%-44s %s\n", what, err.message);
    } else {
        if (!b->base_seconds) {
            b->base_seconds = seconds;
            memcpy(b->base_hash, hash, sizeof hash);
        }
        printf("%-44s %9.2f ms %+6.1f %% %9.3f GiB arena, %d nodes, %s\n", what, 1e3 * seconds,
               100 * (seconds / b->base_seconds - 1), (double)plan->arena_bytes / (1 << 30), n_changed,
               strcmp(hash, b->base_hash) ? "other bits" : "same bits");
    }
    fflush(stdout);
}

/* True if no earlier node has the operator and phase of node k. */
static bool is_first(const mp_graph *g, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (mp_node_has_algorithms(&g->nodes[i]) && g->nodes[i].phase == g->nodes[k].phase &&
            !strcmp(g->nodes[i].op, g->nodes[k].op))
            return false;
    return true;
}

static void measure_algorithms(bench *b)
{
    const mp_graph *g = b->program->graph;
    int n_left_out = 0;
    /* the second algorithm of every kind comes before the third of any */
    for (size_t a = 1; a < MP_ALGORITHMS; a++)
        for (size_t k = 0; k < g->n_nodes; k++) {
            const mp_node *node = &g->nodes[k];
            char what[128];
            if (!mp_node_has_algorithms(node) || !is_first(g, k)) continue;
            const choice c = {.op = node->op, .phase = node->phase, .alternative = a};
            if (!changes_a_node(&c, g)) continue;
            snprintf(what, sizeof what, "%s %s: algorithm %zu", node->op,
                     node->phase == MP_PHASE_BACKWARD ? "backward" : "forward", a + 1);
            if (mp_clock_now() < b->end)
                measure(b, &c, what);
            else
                n_left_out++;
        }
    if (n_left_out) printf("%d more rows: no time\n", n_left_out);
}

static mp_status adapt_without_aligned_rows(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    const bench *b = (const bench *)((const char *)self - offsetof(bench, changed));
    MP_CHECK(b->inner->adapt(b->inner, model, dtype, err));
    for (size_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].stored.layout == MP_LAYOUT_ALIGNED_ROWS) model->tensors[t].stored.layout = MP_LAYOUT_PLAIN;
    return MP_OK;
}

/* Makes memplan's own kernels the only algorithm of every attention. */
static mp_status use_own_attention(mp_program *p, mp_error *err)
{
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_operator *op = p->nodes[k].operands.op;
        if (!op || !(op->op->traits & MP_TRAIT_TILED)) continue;
        p->graph->nodes[k].n_alternatives = 1;
        p->graph->nodes[k].alternatives[0].algorithm = "own kernels";
    }
    return mp_program_take_algorithms(p, err);
}

/* Declares the first operand of each attention as an output while the backend adapts the model. Tensors that others may read
 * are not packed. */
static mp_status adapt_without_packed_attention(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    const bench *b = (const bench *)((const char *)self - offsetof(bench, changed));
    const size_t n = model->n_tensors;
    MP_OWNED bool *was = mp_alloc(n, sizeof *was);
    MP_ENSURE(was, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++) was[t] = model->tensors[t].is_output;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (!op->removed && op->op->traits & MP_TRAIT_TILED) model->tensors[op->in[0]].is_output = true;
    }
    const mp_status st = b->inner->adapt(b->inner, model, dtype, err);
    for (size_t t = 0; t < n; t++) model->tensors[t].is_output = was[t];
    return st;
}

static bool has_packed_attention(const mp_model *model)
{
    mp_attention_view view;
    for (size_t k = 0; k < model->n_operators; k++)
        if (mp_attention_view_read(&model->operators[k], 0, &view)) return true;
    return false;
}

/* True if a change of the backend changes the step, and there is time for it. */
static bool is_change(const bench *b, int change, const char *type)
{
    if (change == WITH_OWN_ATTENTION) return !b->inner->is_host && !strcmp(type, "bf16");
    if (mp_clock_now() >= b->end) return false;
    if (change == WITHOUT_ALIGNED_ROWS) return mp_aligned_rows_of(b->model).n_tensors;
    return change == WITHOUT_CHAINS ? b->inner->chain != NULL : has_packed_attention(b->model);
}

static mp_status begin(bench *b, const char *path, int64_t batch, const char *type, const char *device, int change,
                       mp_error *err)
{
    const bool is_half = !strcmp(type, "bf16");
    const mp_onnx_options file = {.batch = batch};
    const mp_training_options options = {
        .optimizer = MP_OPTIMIZER_ADAMW, .dtype = is_half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, .options_json = "{}"};
    mp_backend_settings settings = MP_BACKEND_SETTINGS;
    mp_attention_report report = {0};
    int loss;
    settings.tf32 = !strcmp(type, "tf32");
    MP_CHECK(mp_backend_open(device, &b->backend, err));
    MP_ENSURE(b->backend, err, MP_INVALID, "there is no backend '%s'", device);
    MP_CHECK(b->backend->open(b->backend, err));
    if (b->backend->settle) b->backend->settle(b->backend, &settings);
    b->inner = b->backend;
    b->changed = *b->inner;
    b->changed.close = NULL;
    if (change == WITHOUT_ALIGNED_ROWS) b->changed.adapt = adapt_without_aligned_rows;
    if (change == WITHOUT_CHAINS) b->changed.chain = NULL;
    if (change == WITHOUT_PACKED_ATTENTION) b->changed.adapt = adapt_without_packed_attention;
    if (change) b->backend = &b->changed;
    MP_CHECK(mp_onnx_read(path, &file, &b->model, err));
    MP_CHECK(mp_model_simplify(b->model, MP_RULES_EXECUTOR, true, NULL, err));
    MP_CHECK(mp_model_fuse_attention(b->model, MP_RULES_EXECUTOR, b->backend->gives_mask_gradients, &report, err));
    MP_CHECK(mp_model_add_loss(b->model, &options, &loss, err));
    MP_CHECK(mp_program_build(b->backend, b->model, &options, loss, &b->program, err));
    MP_CHECK(mp_program_list_algorithms(b->program, err));
    if (change == WITH_OWN_ATTENTION) MP_CHECK(use_own_attention(b->program, err));
    MP_CHECK(mp_parameter_source_open(b->program, path, 1, false, &b->source, err));
    return mp_inputs_open_feed(b->program, NULL, 0, 1, &b->feed, err);
}

static void end(bench *b)
{
    mp_feed_free(b->feed);
    mp_parameter_source_free(b->source);
    mp_program_free(b->program);
    mp_model_free(b->model);
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    const int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    bench b = {.n_steps = argc > 4 ? strtoll(argv[4], NULL, 10) : 10};
    const double seconds = argc > 6 ? strtod(argv[6], NULL) : 1e9;
    if (argc < 4 || batch < 1 || b.n_steps < 1 || b.n_steps > MOST_STEPS) {
        fprintf(stderr, "usage: bench_choices MODEL BATCH fp32|tf32|bf16 [STEPS [DEVICE [SECONDS]]]\n");
        return 2;
    }
    b.end = mp_clock_now() + seconds;
    const char *device = argc > 5 ? argv[5] : "cpu";
    mp_status st = begin(&b, argv[1], batch, argv[3], device, 0, &err);
    if (st == MP_OK) measure(&b, &(choice){.op = NULL}, "defaults");
    for (int change = 1; st == MP_OK && change < CHANGES; change++) {
        bench other = {.n_steps = b.n_steps, .base_seconds = b.base_seconds};
        if (!is_change(&b, change, argv[3])) continue;
        memcpy(other.base_hash, b.base_hash, sizeof b.base_hash);
        st = begin(&other, argv[1], batch, argv[3], device, change, &err);
        if (st == MP_OK) measure(&other, &(choice){.op = NULL}, change_names[change]);
        end(&other);
    }
    const choice apart = {.text = "bias apart"};
    if (st == MP_OK && changes_a_node(&apart, b.program->graph)) measure(&b, &apart, "bias gradients as separate sums");
    if (st == MP_OK) measure_algorithms(&b);
    if (st != MP_OK) fprintf(stderr, "bench_choices: %s\n", err.message);
    end(&b);
    return st != MP_OK;
}

/* fuzz_step.c - networks of a few operators, trained for two steps on the CPU with a plan within a budget, and with keep-all.
 * Both must give exactly equal results, or both must refuse.
 *
 * An input line has the budget's position in percent, the kind of fused updates (0, 1, 2), then "; " and an operator
 * (operator_case.h) each:
 *
 *     60 1; Tanh 13 | float32[2,3] | | 1 255 0; MatMul 13 | float32[2,3] float32[3,4] | | 1 255 0
 *
 * An input with the type and shape of an earlier result reads this result. Other float inputs are parameters, except the first,
 * which is data. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "estimator/simplify/infer.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/run/execution.h"
#include "memplan/arena_solve.h"
#include "memplan/floor.h"
#include "memplan/simplify.h"
#include "memplan/train.h"
#include "tests/fuzz/operator_mutate.h"

enum { OPERATORS = 4, LINE = 4096, ELEMENTS_MAX = 1 << 12, FLOPS_MAX = 1 << 22, STEPS = 2 };

typedef struct network {
    int percent, fuse, n;
    operator_case cases[OPERATORS];
} network;

static bool read_network(const uint8_t *data, size_t n, network *net)
{
    char line[LINE], *rest = line, *part;
    if (n >= sizeof line) return false;
    memcpy(line, data, n);
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    *net = (network){0};
    if (!(part = strtok_r(rest, ";", &rest)) || sscanf(part, "%d %d", &net->percent, &net->fuse) != 2) return false;
    while (net->n < OPERATORS && (part = strtok_r(rest, ";", &rest)))
        if (!operator_case_read(part, strlen(part), &net->cases[net->n++])) return false;
    return net->n && net->fuse >= 0 && net->fuse < MP_N_FUSES;
}

static size_t write_network(const network *net, char *line)
{
    char one[4 * OPERATOR_TEXT];
    size_t n = (size_t)snprintf(line, LINE, "%d %d", net->percent, net->fuse);
    for (int k = 0; k < net->n; k++) {
        operator_case_write(&net->cases[k], one);
        if (n + strlen(one) + 3 < LINE) n += (size_t)snprintf(line + n, LINE - n, "; %s", one);
    }
    return n;
}

/* Finds or adds the network's tensor for input `from` of a single operator. */
static mp_status take_input(mp_model *model, const mp_tensor *from, bool is_wanted, int *tensor, mp_error *err)
{
    char name[32];
    for (size_t t = model->n_tensors; t-- && !from->value;)
        if (model->tensors[t].producer >= 0 && mp_same_shape(&model->tensors[t], from)) {
            *tensor = (int)t;
            return MP_OK;
        }
    snprintf(name, sizeof name, "t%zu", model->n_tensors);
    MP_CHECK(mp_model_tensor(model, name, tensor, err));
    MP_CHECK(mp_tensor_set(model, *tensor, from->dtype, from->rank, from->dims, err));
    mp_tensor *t = &model->tensors[*tensor];
    const bool is_trained = *tensor && is_wanted && from->dtype == MP_DTYPE_FLOAT;
    t->role = from->value ? MP_ROLE_CONSTANT : is_trained ? MP_ROLE_PARAMETER : MP_ROLE_DATA;
    if (from->value) {
        const int64_t n = mp_tensor_elements(from);
        MP_ENSURE(t->value = mp_value_new(model, n, from->value->is_real), err, MP_NOMEM, "out of memory");
        if (t->value->is_real) memcpy(t->value->f, from->value->f, (size_t)n * sizeof *t->value->f);
        if (!t->value->is_real) memcpy(t->value->i, from->value->i, (size_t)n * sizeof *t->value->i);
    } else if (t->role == MP_ROLE_DATA) {
        MP_CHECK(mp_model_declare_input(model, *tensor, err));
    }
    return MP_OK;
}

/* Appends an operator; `out` may be NULL. */
static mp_status append(mp_model *model, const mp_operator_draft *like, const int *in, int *out, mp_error *err)
{
    int outs[OPERATOR_OUTPUTS], index;
    char name[32];
    mp_operator_draft draft = *like;
    draft.name = NULL;
    draft.in = in;
    draft.out = outs;
    for (int k = 0; k < draft.n_out; k++) {
        snprintf(name, sizeof name, "y%zu", model->n_tensors);
        outs[k] = -1;
        if (!like->out || like->out[k] >= 0) MP_CHECK(mp_model_tensor(model, name, &outs[k], err));
    }
    MP_CHECK(mp_model_operator(model, &draft, &index, err));
    MP_CHECK(mp_operator_infer(model, index, err));
    if (out) *out = outs[0];
    return MP_OK;
}

static mp_status add_case(const operator_case *c, mp_model *model, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *one = NULL;
    int in[OPERATOR_INPUTS];
    MP_CHECK(operator_case_model(c, &one, err));
    const mp_operator *op = &one->operators[0];
    for (size_t t = 0; t < one->n_tensors; t++)
        MP_ENSURE(mp_tensor_elements(&one->tensors[t]) <= ELEMENTS_MAX && mp_dtype_bits(one->tensors[t].dtype), err,
                  MP_UNSUPPORTED, "too large for a test");
    MP_ENSURE(!op->op->flops || op->op->flops(one, op) <= FLOPS_MAX, err, MP_UNSUPPORTED, "too long for a test");
    for (int k = 0; k < op->n_in; k++) {
        in[k] = -1;
        for (int j = 0; j < k && op->in[k] >= 0; j++)
            if (op->in[j] == op->in[k]) in[k] = in[j];
        if (op->in[k] >= 0 && in[k] < 0) MP_CHECK(take_input(model, &one->tensors[op->in[k]], c->wanted >> k & 1, &in[k], err));
    }
    const mp_operator_draft draft = {.kind = op->kind,
                                     .domain = op->domain,
                                     .version = op->version,
                                     .n_in = op->n_in,
                                     .n_out = op->n_out,
                                     .out = op->out,
                                     .attributes = op->attributes,
                                     .n_attributes = op->n_attributes};
    return append(model, &draft, in, NULL, err);
}

/* Adds the operators. The loss is the sum of the means of all their outputs. */
static mp_status build(const network *net, mp_model **model, mp_error *err)
{
    int loss = -1;
    const mp_attribute flat = {.name = "keepdims", .kind = MP_ATTRIBUTE_INT};
    const mp_operator_draft mean = {.kind = "ReduceMean",
                                    .domain = "",
                                    .version = 13,
                                    .n_in = 1,
                                    .n_out = 1,
                                    .attributes = &flat,
                                    .n_attributes = 1},
                            sum = {.kind = "Add", .domain = "", .version = 14, .n_in = 2, .n_out = 1};
    MP_CHECK(mp_model_new("step", "", model, err));
    for (int k = 0; k < net->n; k++) MP_CHECK(add_case(&net->cases[k], *model, err));
    for (size_t t = 0, n = (*model)->n_tensors; t < n; t++) {
        int part;
        if ((*model)->tensors[t].producer < 0 || (*model)->tensors[t].dtype != MP_DTYPE_FLOAT) continue;
        MP_CHECK(append(*model, &mean, &(int){(int)t}, &part, err));
        if (loss >= 0) MP_CHECK(append(*model, &sum, (int[]){loss, part}, &part, err));
        loss = part;
    }
    MP_ENSURE(loss >= 0, err, MP_UNSUPPORTED, "nothing to train on");
    MP_CHECK(mp_model_declare_output(*model, loss, err));
    return mp_model_simplify(*model, MP_RULES_EXECUTOR, true, NULL, err);
}

/* Opens an empty model file, so that every parameter is drawn. */
static mp_status open_parameters(const mp_program *program, mp_parameter_source **out, mp_error *err)
{
    char path[] = "/tmp/memplan-fuzz-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0 || write(file, "\x3a\x00", 2) != 2 || close(file)) abort();
    const mp_status st = mp_parameter_source_open(program, path, 1, true, out, err);
    unlink(path);
    return st;
}

/* Trains with the plan; returns the last loss and a hash of all parameters. */
static mp_status train(mp_program *program, const mp_plan *plan, double *loss, char hash[33], mp_error *err)
{
    MP_OWNED_BY(mp_parameter_source_free) mp_parameter_source *source = NULL;
    MP_OWNED_BY(mp_feed_free) mp_feed *feed = NULL;
    MP_OWNED_BY(mp_execution_free) mp_execution *e = NULL;
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler filler = {0};
    const mp_execution_options options = {
        .hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .seed = 3, .poison = true, .guards = true};
    MP_CHECK(open_parameters(program, &source, err));
    MP_CHECK(mp_inputs_open_feed(program, NULL, 0, 1, &feed, err));
    MP_CHECK(mp_execution_new(program, plan, &options, &e, err));
    MP_CHECK(mp_parameters_load(source, program, e, err));
    MP_CHECK(mp_input_filler_new(program, feed, &filler, err));
    for (int k = 0; k < STEPS; k++) MP_CHECK(mp_execution_step(e, k, mp_inputs_fill, &filler, loss, err));
    MP_CHECK(mp_execution_flush(e, err));
    mp_execution_hash(e, hash);
    return MP_OK;
}

/* Makes a keep-all plan, or one within the budget (NULL: none fits), with offsets. */
static mp_status plan_for(const mp_graph *graph, int percent, mp_plan **out, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none"};
    if (percent >= 0) { /* between the floor and keep-all's bytes */
        int64_t floor_bytes;
        int node;
        MP_CHECK(mp_solve(&request, &answer, err));
        const int64_t all = answer.plan->peak_bytes;
        mp_answer_free(&answer);
        answer = (mp_answer){0};
        MP_CHECK(mp_floor(graph, &floor_bytes, &node, err));
        request = (mp_request){
            .graph = graph, .budget_bytes = floor_bytes + (all - floor_bytes) * (percent % 101) / 100, .moves = 60};
    }
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    mp_plan **found = answer.plan ? &answer.plan : &answer.smallest;
    *out = *found;
    if (answer.smallest == answer.plan) answer.smallest = NULL;
    *found = NULL;
    return MP_OK;
}

static void compare(const network *net, const mp_plan *plans[2], const double loss[2], char hash[2][33])
{
    char line[LINE];
    if (!memcmp(&loss[0], &loss[1], sizeof *loss) && !strcmp(hash[0], hash[1])) return;
    if (!isfinite(loss[0]) && !isfinite(loss[1])) return; /* two NaN may differ in their bits */
    write_network(net, line);
    fprintf(stderr, "%s\nloss %.17g and %.17g, %zu and %zu steps, %s and %s\n", line, loss[0], loss[1], plans[0]->n_steps,
            plans[1]->n_steps, hash[0], hash[1]);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static network net;
    const mp_backend *cpu;
    mp_error err = {0};
    mp_model *model = NULL;
    mp_program *program = NULL;
    mp_plan *plans[2] = {NULL, NULL};
    double loss[2] = {0, 0};
    char hash[2][33] = {"", ""};
    int of_loss;
    if (!read_network(data, n, &net)) return 0;
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT, .fuse = (mp_fuse)net.fuse};
    mp_status st = mp_backend_open("cpu", &cpu, &err);
    if (st == MP_OK) st = build(&net, &model, &err);
    if (st == MP_OK) st = mp_model_add_loss(model, &options, &of_loss, &err);
    if (st == MP_OK) st = mp_program_build(cpu, model, &options, of_loss, &program, &err);
    for (int k = 0; k < 2 && st == MP_OK; k++) {
        st = plan_for(mp_program_graph(program), k ? net.percent : -1, &plans[k], &err);
        if (st == MP_OK) st = train(program, plans[k], &loss[k], hash[k], &err);
    }
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s %.*s\n", st == MP_OK ? "trained" : err.message, (int)n, (const char *)data);
    if (st == MP_OK) compare(&net, (const mp_plan *[]){plans[0], plans[1]}, loss, hash);
    mp_plan_free(plans[0]);
    mp_plan_free(plans[1]);
    mp_program_free(program);
    mp_model_free(model);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    static network net;
    char line[LINE];
    if (!read_network(data, n, &net)) return 0;
    operator_case *c = &net.cases[seed / 8 % (unsigned)net.n];
    if (seed % 8 == 0) net.percent = (int)(seed / 8 % 101);
    if (seed % 8 == 1) net.fuse = (int)(seed / 8 % MP_N_FUSES);
    if (seed % 8 == 2 && net.n < OPERATORS) net.cases[net.n++] = *c;
    if (seed % 8 > 2) operator_mutate(c, seed);
    n = write_network(&net, line);
    if (n > most) n = most;
    memcpy(data, line, n);
    return n;
}

/* costs_measure.c - trains with everything kept, one round per algorithm, and records the seconds of each node. */
#include "memplan/costs_measure.h"

#include <stdlib.h>
#include <string.h>

#include "executor/program/program_nodes.h"
#include "memplan/arena.h"

typedef struct measurement {
    const mp_costs_request *request;
    const mp_graph *graph;
    mp_measured_costs found;
    mp_train_request train;
    size_t round, n_rounds;
    bool is_stopped;
} measurement;

static bool goes_on(const mp_train_progress *now, void *data)
{
    measurement *m = data;
    const mp_costs_request *r = m->request;
    if (r->progress) m->is_stopped |= !r->progress(m->round, m->n_rounds, now, r->progress_data);
    return !m->is_stopped;
}

/* Allocates the costs of all nodes, and counts the rounds; a round is a training with one algorithm per node. */
static mp_status new_costs(measurement *m, mp_error *err)
{
    mp_measured_costs *f = &m->found;
    const mp_program *program = m->request->program;
    f->n_nodes = m->graph->n_nodes;
    f->pool = mp_pool_new();
    f->costs = mp_pool_alloc(f->pool, f->n_nodes, sizeof *f->costs);
    m->n_rounds = 1;
    for (size_t i = 0; f->costs && i < f->n_nodes; i++) {
        if (!mp_program_has_node(program, (int)i)) continue;
        const mp_program_node *node = mp_program_node_at(program, (int)i);
        mp_algorithm_cost *list = f->costs[i].algorithms = mp_pool_alloc(f->pool, node->n_algorithms, sizeof *list);
        f->costs[i].n_algorithms = list ? node->n_algorithms : 0;
        if (f->costs[i].n_algorithms > m->n_rounds) m->n_rounds = f->costs[i].n_algorithms;
        for (size_t k = 0; k < f->costs[i].n_algorithms; k++) {
            const mp_alternative *alternative = &m->graph->nodes[i].alternatives[k];
            list[k] = (mp_algorithm_cost){.name = alternative->algorithm,
                                          .workspace_bytes = alternative->workspace_bytes,
                                          .is_deterministic = node->algorithms[k].is_deterministic};
        }
    }
    return mp_pool_failed(f->pool) ? MP_FAIL(err, MP_NOMEM, "the costs of %zu nodes", f->n_nodes) : MP_OK;
}

/* Measures one round. *measured becomes true if at least one step was measured after the warm-up. */
static mp_status measure_round(measurement *m, bool *measured, mp_error *err)
{
    mp_node_cost *costs = m->found.costs;
    const size_t round = m->round, n = m->graph->n_nodes;
    MP_CLEARED_BY(mp_report_free) mp_report report = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_OWNED int *alternatives = mp_alloc(n, sizeof *alternatives);
    MP_ENSURE(alternatives, err, MP_NOMEM, "%zu steps", n);
    for (size_t i = 0; i < n; i++)
        if (round && costs[i].n_algorithms)
            alternatives[i] = (int)(round < costs[i].n_algorithms ? round : costs[i].n_algorithms - 1);
    MP_CHECK(mp_keep_all_plan(m->graph, alternatives, &plan, err));
    m->train.plan = plan;
    MP_CHECK(mp_train(&m->train, &report, err));
    *measured = report.n_losses > 1;
    if (!*measured) return MP_OK;
    for (size_t i = 0; i < n; i++) {
        const double seconds = report.node_seconds[i];
        if (!round) costs[i].seconds = seconds;
        if (round < costs[i].n_algorithms) costs[i].algorithms[round].seconds = seconds;
    }
    if (!round) {
        m->found.report = report;
        report = (mp_report){0};
    }
    return MP_OK;
}

/* Keeps only the first `n_rounds` algorithms of each node, because no other algorithm was measured. Then sums the own and the
 * fastest seconds over all nodes with algorithms. */
static void sum_up(mp_measured_costs *f, size_t n_rounds)
{
    for (size_t i = 0; i < f->n_nodes; i++) {
        mp_node_cost *c = &f->costs[i];
        if (c->n_algorithms > n_rounds) c->n_algorithms = n_rounds;
        if (!c->n_algorithms) continue;
        double least = c->seconds;
        for (size_t k = 0; k < c->n_algorithms; k++)
            if (c->algorithms[k].seconds < least) least = c->algorithms[k].seconds;
        f->n_choosing++;
        f->n_algorithms += c->n_algorithms;
        f->own_seconds += c->seconds;
        f->fastest_seconds += least;
    }
}

static void measurement_free(measurement *m)
{
    mp_measured_costs_free(&m->found);
}

mp_status mp_costs_measure(const mp_costs_request *request, mp_measured_costs *out, mp_error *err)
{
    MP_CLEARED_BY(measurement_free)
    measurement m = {
        .request = request,
        .graph = request->program->graph,
        .train = {.program = request->program,
                  .execution = {.hyper = mp_hyper_default(request->optimizer), .seed = request->seed, .profile = true},
                  .feed = request->feed,
                  .parameters = request->parameters,
                  .n_steps = request->n_steps,
                  .progress = goes_on,
                  .progress_data = &m}};
    bool measured = true;
    MP_CHECK(mp_program_list_algorithms(request->program, err));
    MP_CHECK(new_costs(&m, err));
    while (m.round < m.n_rounds && !m.is_stopped) {
        MP_CHECK(measure_round(&m, &measured, err));
        if (!measured) break;
        m.round++;
    }
    MP_ENSURE(m.round > 0, err, MP_INFEASIBLE,
              "stopped before the second step; the first only warms up, so nothing is measured");
    sum_up(&m.found, m.round);
    m.found.n_left_out = m.n_rounds - m.round;
    *out = m.found;
    m.found = (mp_measured_costs){0};
    return MP_OK;
}

void mp_measured_costs_free(mp_measured_costs *costs)
{
    mp_report_free(&costs->report);
    mp_pool_free(costs->pool);
    *costs = (mp_measured_costs){0};
}

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const mp_operator_seconds *)a)->seconds, y = ((const mp_operator_seconds *)b)->seconds;
    return (x < y) - (x > y);
}

size_t mp_costs_by_operator(const mp_graph *graph, const double *node_seconds, mp_operator_seconds *out, size_t most)
{
    size_t n = 0;
    for (size_t k = 0; node_seconds && k < graph->n_nodes; k++) {
        const mp_node *node = &graph->nodes[k];
        size_t s = 0;
        while (s < n && (strcmp(out[s].op, node->op) != 0 || out[s].phase != node->phase)) s++;
        if (s == most) continue;
        if (s == n) out[n++] = (mp_operator_seconds){.op = node->op, .phase = node->phase};
        out[s].seconds += node_seconds[k];
        out[s].n_nodes++;
    }
    qsort(out, n, sizeof *out, by_seconds);
    return n;
}

/* test_times.c - the seconds per node in a profile of a device that records its own times. Each call's time belongs to its
 * node. Updates in one call share its time by size. Passes add up, and calls run without waits in between. */
#include "memplan/costs_measure.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 3 };

/* A device with a simulated clock. Note k of a pass is taken at k^2 milliseconds. Call c is between notes 2 c and 2 c + 1, so
 * it takes 4 c + 1 milliseconds. */
typedef struct noting {
    mp_backend backend; /* must be first; has the context of `inner` */
    const mp_backend *inner;
    int next; /* index of the next note in this pass */
    int n_waits, n_faults;
    bool is_lost;
} noting;

static noting noted;

static void begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    noting *n = (noting *)self;
    n->next = 0;
    n->inner->begin(n->inner, seed, step, factors);
}

static mp_status wait_for_all(const mp_backend *self, mp_error *err)
{
    noting *n = (noting *)self;
    n->n_waits++;
    return n->inner->wait(n->inner, err);
}

static mp_status note_time(const mp_backend *self, int k, mp_error *err)
{
    noting *n = (noting *)self;
    (void)err;
    n->n_faults += k != n->next++;
    return MP_OK;
}

static mp_status seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err)
{
    noting *n = (noting *)self;
    n->n_faults += from < 0 || to >= n->next || from >= to;
    if (n->is_lost) return MP_FAIL(err, MP_IO, "the device is lost");
    *seconds = 1e-3 * ((double)to * to - (double)from * from);
    return MP_OK;
}

static const mp_backend *noting_backend(const mp_backend *of)
{
    noted = (noting){.backend = *of, .inner = of};
    noted.backend.begin = begin;
    noted.backend.wait = wait_for_all;
    noted.backend.note_time = note_time;
    noted.backend.seconds_between = seconds_between;
    return &noted.backend;
}

TEST(seconds_are_those_that_the_device_notes)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    const mp_execution_options profiled = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .profile = true};
    training_case t = training_begin_on(noting_backend(backend_of_tests()), "tests/gradients/cnn.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    const mp_program *p = t.program;
    double *expected = calloc(p->n_nodes, sizeof *expected), losses[STEPS], total = 0, room = 0;
    mp_error err = {0};
    mp_execution *e;
    size_t n_updates = 0, call = 0;
    assert_int_equal(mp_execution_new(t.program, plan, &profiled, &e, &err), MP_OK);
    training_run(&t, e, 0, STEPS, losses);
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_binding *b = &p->bindings->nodes[k];
        if (b->task != MP_TASK_UPDATE) continue;
        room += (double)mp_stored_elements(&p->model->tensors[b->parameter]);
        n_updates++;
    }
    /* keep-all: one step per node, all updates at the end, in one call */
    assert_true(n_updates > 1 && plan->n_steps == p->n_nodes);
    for (size_t s = 0; s < plan->n_steps; s++) {
        const int node = plan->steps[s].node;
        const mp_binding *b = &p->bindings->nodes[node];
        const double share =
            b->task == MP_TASK_UPDATE ? (double)mp_stored_elements(&p->model->tensors[b->parameter]) / room : 1;
        expected[node] = STEPS * 1e-3 * (double)(4 * call + 1) * share;
        if (b->task != MP_TASK_UPDATE) call++;
    }
    for (size_t k = 0; k < p->n_nodes; k++) {
        const double is = mp_execution_seconds(e)[k];
        if (!(is > expected[k] * (1 - 1e-9) && is < expected[k] * (1 + 1e-9)))
            fail_msg("'%s' took %g and not %g", p->graph->nodes[k].name, is, expected[k]);
        total += is;
    }
    const double all = STEPS * 1e-3 * (double)((call + 1) * (2 * call + 1)); /* sum of 4 c + 1 for c in 0 .. call */
    assert_true(total > all * (1 - 1e-9) && total < all * (1 + 1e-9));
    assert_int_equal(noted.n_faults, 0);
    assert_int_equal(noted.n_waits, 1); /* the wait of the final flush */

    /* the costs of the nodes, and their sums by operator and phase, are the device's notes of one step */
    const mp_costs_request request = {
        .program = t.program, .feed = t.feed, .parameters = t.source, .optimizer = MP_OPTIMIZER_SGD, .n_steps = STEPS};
    mp_measured_costs costs;
    mp_operator_seconds sums[64];
    assert_int_equal(mp_costs_measure(&request, &costs, &err), MP_OK);
    for (size_t k = 0; k < p->n_nodes; k++) assert_true(fabs(costs.costs[k].seconds * STEPS / expected[k] - 1) < 1e-9);
    const size_t n_sums = mp_costs_by_operator(p->graph, costs.report.node_seconds, sums, 64);
    size_t n_nodes = 0;
    for (size_t s = 0; s < n_sums; s++) {
        double sum = 0;
        for (size_t k = 0; k < p->n_nodes; k++)
            if (!strcmp(p->graph->nodes[k].op, sums[s].op) && p->graph->nodes[k].phase == sums[s].phase) sum += expected[k];
        assert_true(fabs(sums[s].seconds * STEPS / sum - 1) < 1e-9);
        assert_true(!s || sums[s].seconds <= sums[s - 1].seconds);
        n_nodes += sums[s].n_nodes;
    }
    assert_int_equal(n_nodes, p->n_nodes);
    assert_int_equal(mp_costs_by_operator(p->graph, costs.report.node_seconds, sums, 2), 2);
    mp_measured_costs_free(&costs);
    free(expected);
    mp_execution_free(e);
    mp_plan_free(plan);
    training_end(&t);
}

TEST(a_device_that_fails_is_reported)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    const mp_execution_options profiled = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .profile = true};
    mp_error err = {0};
    mp_execution *e;
    mp_input_filler filler;
    double loss;
    training_case t = training_begin_on(noting_backend(backend_of_tests()), "tests/gradients/mlp.onnx", 0, &options);
    mp_plan *plan = training_keep_all(&t);
    assert_int_equal(mp_execution_new(t.program, plan, &profiled, &e, &err), MP_OK);
    assert_int_equal(mp_input_filler_new(t.program, t.feed, &filler, &err), MP_OK);
    noted.is_lost = true;
    assert_int_equal(mp_execution_step(e, 0, mp_inputs_fill, &filler, &loss, &err), MP_IO);
    assert_string_equal(err.message, "the device is lost");
    mp_input_filler_free(&filler);
    mp_execution_free(e);
    mp_plan_free(plan);
    training_end(&t);
}

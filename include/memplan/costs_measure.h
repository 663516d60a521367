/* costs_measure.h - measures the time of each node of a training step on a backend, and of each algorithm of a node.
 *
 *     // given: mp_program *program; mp_feed *feed; const mp_parameter_source *parameters; mp_error *err
 *     const mp_costs_request request = {.program = program, .feed = feed, .parameters = parameters, .n_steps = 5};
 *     mp_measured_costs measured;
 *     MP_CHECK(mp_costs_measure(&request, &measured, err));
 *     MP_CHECK(mp_costs_write("costs.json", mp_program_graph(program), measured.costs, err));
 *     mp_measured_costs_free(&measured);
 */
#pragma once

#include "memplan/costs_json.h"
#include "memplan/train.h"

/* Called after each step of a round. Return false to stop. */
typedef bool (*mp_costs_progress)(size_t round, size_t n_rounds, const mp_train_progress *now, void *data);

typedef struct mp_costs_request {
    mp_program *program;
    mp_feed *feed;
    const mp_parameter_source *parameters;
    mp_optimizer optimizer;
    uint64_t seed;
    int64_t n_steps; /* number of training steps per round, at least 2. The first step is a warm-up and is not measured */
    mp_costs_progress progress; /* NULL: none */
    void *progress_data;
} mp_costs_request;

typedef struct mp_measured_costs {
    size_t n_nodes;
    mp_node_cost *costs; /* per node; only measured algorithms are listed */
    mp_report report;    /* of the first round, in which the backend chooses the algorithms; with node_seconds */
    size_t n_left_out;   /* number of rounds that the progress function prevented */
    /* number of nodes that have several algorithms; sum of the numbers of their algorithms */
    size_t n_choosing, n_algorithms;
    /* seconds of these nodes in a step: with the backend's own choice of algorithms; with the fastest algorithm of each node */
    double own_seconds, fastest_seconds;
    mp_pool *pool; /* owns `costs` */
} mp_measured_costs;

/* Trains with everything kept, in rounds. In round k each node runs its algorithm number k; a node with fewer algorithms runs
 * its last one. The parameters of the program change. On MP_OK release *out with mp_measured_costs_free. MP_INFEASIBLE: the
 * progress function stopped the first round before its second step. Other errors as mp_train. */
mp_status mp_costs_measure(const mp_costs_request *request, mp_measured_costs *out, mp_error *err);
void mp_measured_costs_free(mp_measured_costs *costs); /* releases the members; a zeroed struct is allowed */

/* The seconds of the nodes with one operator in one phase. */
typedef struct mp_operator_seconds {
    const char *op;
    mp_phase phase;
    size_t n_nodes;
    double seconds;
} mp_operator_seconds;

/* Adds up the seconds of all nodes by operator and phase. Writes at most `most` sums, largest first; returns their number.
 * Nodes of further operators are left out. O(nodes * sums). */
size_t mp_costs_by_operator(const mp_graph *graph, const double *node_seconds, mp_operator_seconds *out, size_t most);

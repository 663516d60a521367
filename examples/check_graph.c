/* check_graph.c - reads your own graph (JSON or DOT), plans it within a budget, checks the plan, and lists its steps.
 * Recomputed steps are marked "again".
 *
 *     check_graph GRAPH.json|GRAPH.dot BUDGET_BYTES
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

static mp_status check(const char *path, int64_t budget_bytes, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_CHECK(mp_graph_dot_is(path) ? mp_graph_dot_read(path, &graph, err) : mp_graph_read(path, &graph, err));
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes};
    MP_CHECK(mp_solve(&request, &answer, err));
    MP_ENSURE(answer.plan, err, MP_INFEASIBLE, "no plan in %lld bytes; no order of steps needs less than %lld",
              (long long)budget_bytes, (long long)answer.floor_bytes);
    /* mp_solve has already checked this plan; plans from other sources need this call */
    MP_CHECK(mp_plan_check(graph, answer.plan, err));
    printf("peak %lld bytes, %g s\n", (long long)answer.plan->peak_bytes, answer.plan->seconds);
    for (size_t t = 0; t < answer.plan->n_steps; t++)
        printf("%3zu %s%s\n", t, graph->nodes[answer.plan->steps[t].node].name, answer.plan->recompute[t] ? " again" : "");
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 3) return fprintf(stderr, "usage: check_graph GRAPH.json|GRAPH.dot BUDGET_BYTES\n"), 2;
    if (check(argv[1], strtoll(argv[2], NULL, 10), &err) == MP_OK) return 0;
    fprintf(stderr, "check_graph: %s: %s\n", argv[1], err.message);
    return 1;
}

/* searcher.c - how to write your own searcher. This one evicts activations one by one, from the last to the first, until the
 * plan fits the budget.
 *
 *     searcher GRAPH.json|GRAPH.dot BUDGET_BYTES
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memplan/memplan.h>

/* Returns the first step, from the loss on, that reads an output of the node; n: none. */
static size_t first_late_read(const mp_graph *graph, const mp_step *steps, size_t n, int node)
{
    bool is_late = false;
    for (size_t t = 0; t < n; t++) {
        const mp_node *reader = &graph->nodes[steps[t].node];
        const mp_alternative *alternative = &reader->alternatives[steps[t].alternative];
        is_late = is_late || reader->phase != MP_PHASE_FORWARD;
        for (size_t k = 0; k < alternative->n_reads && is_late; k++)
            if (graph->producer[alternative->reads[k]] == node) return t;
    }
    return n;
}

static mp_status run_evict_late(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    const mp_graph *graph = request->graph;
    size_t n = graph->n_nodes;
    int64_t peak, least;
    MP_OWNED mp_step *steps = mp_alloc(2 * n, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "out of memory for %zu steps", n);
    mp_keep_all(graph, steps);
    MP_CHECK(mp_search_offer(search, steps, n, &least, NULL, err));
    for (int v = (int)graph->n_nodes - 1; v >= 0 && least > request->budget_bytes && !mp_search_stopped(search); v--) {
        const size_t at = first_late_read(graph, steps, n, v);
        if (graph->nodes[v].phase != MP_PHASE_FORWARD || graph->nodes[v].flags & MP_NODE_ONCE || at == n) continue;
        memmove(steps + at + 1, steps + at, (n - at) * sizeof *steps);
        steps[at] = (mp_step){.node = v}; /* recomputes the activation just before its reader */
        MP_CHECK(mp_search_offer(search, steps, n + 1, &peak, NULL, err));
        if (peak < least) {
            least = peak;
            n++;
        } else {
            memmove(steps + at, steps + at + 1, (n - at) * sizeof *steps);
        }
    }
    return MP_OK;
}

static const mp_solver evict_late = {.name = "evict-late", .run = run_evict_late};

static mp_status plan(const char *path, int64_t budget_bytes, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_CHECK(mp_graph_dot_is(path) ? mp_graph_dot_read(path, &graph, err) : mp_graph_read(path, &graph, err));
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .own = &evict_late};
    MP_CHECK(mp_solve(&request, &answer, err));
    MP_ENSURE(answer.plan, err, MP_INFEASIBLE, "no plan in %lld bytes; the smallest found needs %lld", (long long)budget_bytes,
              (long long)answer.smallest->peak_bytes);
    const mp_plan *p = answer.plan;
    printf("%s: peak %lld bytes, %.2f %% more time\n", p->solver, (long long)p->peak_bytes,
           100.0 * (double)(p->ticks - p->baseline_ticks) / (double)p->baseline_ticks);
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 3) return fprintf(stderr, "usage: searcher GRAPH.json|GRAPH.dot BUDGET_BYTES\n"), 2;
    if (plan(argv[1], strtoll(argv[2], NULL, 10), &err) == MP_OK) return 0;
    fprintf(stderr, "searcher: %s: %s\n", argv[1], err.message);
    return 1;
}

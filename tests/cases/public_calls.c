/* public_calls.c - the graphs, plans and files for the calls, and checks of unchanged outputs. */
#include "tests/cases/public_calls.h"

#include <unistd.h>

#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { MARK = 0xA5 };

static const char *name_now = ""; /* name of the called function */
static const public_world *world_now;
static bool is_wrong;

void public_begin(const char *name, const public_world *w)
{
    name_now = name;
    world_now = w;
    is_wrong = false;
}

void public_wrong(const char *what)
{
    print_error("%s with %ld allocations: %s\n", name_now, world_now->allowed, what);
    is_wrong = true;
}

bool public_is_wrong(void)
{
    return is_wrong;
}

void public_mark(void *out, size_t size)
{
    memset(out, MARK, size);
}

void public_is_marked(const void *out, size_t size)
{
    const unsigned char *bytes = out;
    for (size_t k = 0; k < size; k++)
        if (bytes[k] != MARK) {
            public_wrong("changes an output");
            return;
        }
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

mp_workload_options public_sgd(void)
{
    mp_workload_options o = mp_workload_defaults();
    o.optimizer = "sgd";
    return o;
}

public_world public_world_new(void)
{
    public_world w = {.allowed = -1};
    mp_step steps[64];
    static const mp_node_cost costs[64];
    char *const paths[] = {w.graph_file, w.plan_file, w.costs_file, w.csv_file, w.dot_file, w.written, w.picture};
    static const char *const endings[] = {"graph.json", "plan.json", "costs.json", "csv", "dot", "out.json", "svg"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++)
        snprintf(paths[k], sizeof w.written, "/tmp/memplan_public_%ld.%s", (long)getpid(), endings[k]);
    assert_int_equal(chain_graph(2, 8, 16, true, &w.graph, NULL), MP_OK);
    w.updates = random_graph(7, 4, MP_FUSE_BACKWARD, false);
    mp_keep_all(w.graph, steps);
    assert_int_equal(mp_plan_new(w.graph, "test", steps, w.graph->n_nodes, &w.plan, NULL), MP_OK);
    assert_int_equal(mp_arena_layout(w.graph, w.plan, NULL), MP_OK);
    assert_int_equal(mp_graph_write(w.graph, w.graph_file, NULL), MP_OK);
    assert_int_equal(mp_plan_write(w.plan, w.graph, w.plan_file, NULL), MP_OK);
    assert_int_equal(mp_costs_write(w.costs_file, w.graph, costs, NULL), MP_OK);
    put(w.csv_file, "id,lower,upper,size,gaps\na,0,9,7,3-4\nb,2,5,3,\n");
    put(w.dot_file, "digraph g { a [bytes=4, seconds=1]; b [bytes=4, seconds=1, phase=backward]; a -> b; }");
    return w;
}

void public_world_free(public_world *w)
{
    const char *const paths[] = {w->graph_file, w->plan_file, w->costs_file, w->csv_file, w->dot_file};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) unlink(paths[k]);
    mp_plan_free(w->plan);
    mp_graph_free(w->graph);
    mp_graph_free(w->updates);
}

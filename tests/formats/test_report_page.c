/* test_report_page.c - report and trace: out of memory is reported at every allocation and leaks nothing. Independent parsers
 * check their contents: tests/cli/pages/report_page.py and trace.py. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/pages/report_page.h"
#include "formats/pages/trace.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/memplan_page_%ld", (long)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static mp_status written(const mp_graph *graph, const mp_plan *plan, bool trace)
{
    const mp_report_request request = {.graph = graph, .plan = plan, .title = "x"};
    return trace ? mp_trace_write(graph, plan, "x", path, NULL) : mp_report_page(&request, path, NULL);
}

TEST(every_lack_of_memory_is_reported)
{
    for (int which = 0; which < 4; which++) {
        const bool trace = which % 2, copies = which / 2;
        mp_graph *g = copies ? random_copies(3) : random_graph(3, 6, MP_FUSE_NONE, false);
        size_t n;
        mp_step *steps = copies ? random_copies_schedule(g, 3, 0, &n) : random_schedule(g, 3, 4, &n);
        mp_plan *plan;
        assert_int_equal(mp_plan_new(g, "random", steps, n, &plan, NULL), MP_OK);
        const long live = mp_alloc_live;
        long k = 0;
        for (mp_status st = MP_NOMEM; st != MP_OK; k++) {
            mp_alloc_budget = k;
            st = written(g, k % 2 ? plan : NULL, trace);
            mp_alloc_budget = -1;
            if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
            assert_int_equal(mp_alloc_live, live);
        }
        assert_true(k > 10);
        assert_int_equal(written(g, plan, trace), MP_OK);
        mp_plan_free(plan);
        mp_free(steps);
        mp_graph_free(g);
    }
}

TEST(what_cannot_be_written_is_said)
{
    mp_graph *g = random_graph(1, 4, MP_FUSE_NONE, false);
    const mp_report_request request = {.graph = g, .title = "x"};
    assert_int_equal(mp_report_page(&request, "/nowhere/p.html", NULL), MP_IO);
    assert_int_equal(mp_trace_write(g, NULL, "x", "/nowhere/p.json", NULL), MP_IO);
    assert_true(mp_is_trace_path("a.b/step.JSON") && !mp_is_trace_path("json") && !mp_is_trace_path("a.json.svg"));
    mp_graph_free(g);
}

int main(void)
{
    return test_run(make_path, remove_path);
}

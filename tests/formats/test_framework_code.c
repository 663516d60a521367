/* test_framework_code.c - the settings of frameworks for a plan: their memory and time, against the timelines of all numbers of
 * blocks, and names that must not end a string of the code. */
#include "estimator/base/memory.h"
#include "memplan/framework_code.h"
#include "memplan/solver.h"
#include "memplan/timeline.h"
#include "planner/segments/module_schedule.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"

enum { LAYERS = 12, BYTES = 1000, STATIC_BYTES = 100 };

static char names[LAYERS][32];

/* A chain of layers with two operators in each of six modules, "h.0" to "h.5". */
static mp_graph *blocks_of_two(void)
{
    mp_graph *graph = NULL;
    assert_int_equal(chain_graph(LAYERS, BYTES, STATIC_BYTES, true, &graph, NULL), MP_OK);
    for (int k = 0; k < LAYERS; k++) {
        snprintf(names[k], sizeof names[k], "/h.%d/op%d/Relu", k / 2, k % 2);
        graph->nodes[k].name = names[k];
    }
    return graph;
}

/* Keep-all as a plan with this budget. */
static mp_plan *keep_all(const mp_graph *graph, int64_t budget_bytes)
{
    mp_plan *plan = NULL;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    assert_int_equal(mp_plan_new(graph, "test", steps, mp_keep_all(graph, steps), &plan, NULL), MP_OK);
    plan->budget_bytes = budget_bytes;
    return plan;
}

/* The peak and ticks if the modules h.0 to h.(k-1) are recomputed. */
static mp_timeline *with_blocks(const mp_graph *graph, int k)
{
    MP_OWNED_BY(mp_modules_free) mp_modules *m = NULL;
    MP_OWNED mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    bool chosen[64] = {false};
    size_t n;
    assert_int_equal(mp_modules_new(graph, &m, NULL), MP_OK);
    assert_true(m->n < 64);
    for (int i = 0; i < m->n; i++)
        chosen[i] = strlen(m->modules[i].name) == 3 && m->modules[i].name[0] == 'h' && m->modules[i].name[2] - '0' < k;
    assert_int_equal(mp_module_schedule(m, chosen, NULL, &steps, &n, NULL), MP_OK);
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    return timeline;
}

TEST(the_fewest_blocks_that_fit_are_checkpointed)
{
    mp_graph *graph = blocks_of_two();
    for (int64_t budget = 3 * BYTES; budget < (LAYERS + 4) * BYTES; budget += BYTES / 2) {
        mp_plan *plan = keep_all(graph, budget);
        const mp_framework_request request = {.graph = graph, .plan = plan, .title = "chain"};
        mp_framework_code code;
        char line[32];
        int k = 0;
        mp_timeline *timeline = with_blocks(graph, 0);
        while (timeline->peak_bytes > budget && k < LAYERS / 2) {
            mp_timeline_free(timeline);
            timeline = with_blocks(graph, ++k);
        }
        assert_int_equal(mp_framework_code_of(&request, MP_FRAMEWORK_MEGATRON, &code, NULL), MP_OK);
        assert_int_equal(code.fits, timeline->peak_bytes <= budget);
        if (code.fits) {
            snprintf(line, sizeof line, k ? "--recompute-num-layers %d\n" : "No block has to be", k);
            assert_non_null(strstr(code.text, line));
            assert_int_equal(code.peak_bytes, timeline->peak_bytes);
            assert_int_equal(code.ticks, timeline->ticks);
        } else {
            assert_int_equal(code.ticks, -1);
        }
        mp_framework_code_free(&code);
        mp_timeline_free(timeline);
        mp_plan_free(plan);
    }
    mp_graph_free(graph);
}

TEST(chunks_of_the_head_are_settings_of_other_programs)
{
    static const char *const settings[] = {"8 chunks of 512 tokens", "ChunkedLossWrapper.Config(num_chunks=8, ...)",
                                           "CEWithChunkedOutputLoss, with whole logits) and num_output_chunks: 8\n",
                                           "256 tokens with loss_type=\"chunked_nll\"", "use_liger_kernel=True"};
    mp_graph *graph = blocks_of_two();
    mp_plan *plan = keep_all(graph, 9 * BYTES);
    mp_framework_request request = {.graph = graph, .plan = plan, .title = "chain"};
    for (int n = 0; n <= 8; n += 8)
        for (int k = 0; k < MP_N_FRAMEWORKS; k++) {
            mp_framework_code code;
            const bool is_torch = k != MP_FRAMEWORK_PADDLE && k != MP_FRAMEWORK_MEGATRON && k != MP_FRAMEWORK_JAX;
            request.head_chunks = n;
            request.head_rows = 512;
            assert_int_equal(mp_framework_code_of(&request, (mp_framework)k, &code, NULL), MP_OK);
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
                assert_int_equal(strstr(code.text, settings[i]) != NULL, n && is_torch);
            mp_framework_code_free(&code);
        }
    mp_plan_free(plan);
    mp_graph_free(graph);
}

TEST(every_framework_has_a_name_and_an_answer)
{
    mp_graph *graph = blocks_of_two();
    mp_plan *plan = keep_all(graph, 9 * BYTES);
    const mp_framework_request request = {.graph = graph, .plan = plan, .title = "chain"};
    for (int k = 0; k < MP_N_FRAMEWORKS; k++) {
        mp_framework_code code;
        mp_error err = {0};
        assert_int_equal(mp_framework_find(mp_framework_name((mp_framework)k)), k);
        assert_int_equal(mp_framework_code_of(&request, (mp_framework)k, &code, &err), MP_OK);
        assert_int_equal(strncmp(code.text, code.fits ? "# chain: " : "chain: ", code.fits ? 9 : 7), 0);
        assert_true(!code.fits || k == MP_FRAMEWORK_PYTORCH || k == MP_FRAMEWORK_TORCH_REMAT ||
                    code.peak_bytes <= plan->budget_bytes); /* these two follow a plan that wraps modules */
        mp_framework_code_free(&code);
    }
    assert_int_equal(mp_framework_find("caffe"), -1);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

/* A name with a quotation mark and a line break stays inside its string, on one line. */
TEST(names_do_not_end_a_string)
{
    mp_graph *graph = blocks_of_two();
    char name[] = "/h.0/\"]\nimport os/Relu";
    graph->nodes[1].name = name;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->producer[s] >= 0 && graph->producer[s] < LAYERS) graph->storages[s].name = name;
    mp_plan *plan = keep_all(graph, 9 * BYTES);
    const mp_framework_request request = {.graph = graph, .plan = plan, .title = "chain"};
    mp_framework_code code;
    assert_int_equal(mp_framework_code_of(&request, MP_FRAMEWORK_JAX, &code, NULL), MP_OK);
    assert_true(code.fits);
    assert_null(strstr(code.text, "\nimport os"));
    assert_non_null(strstr(code.text, "    \"/h.0/\\\"]\\x0aimport os/Relu\",\n"));
    mp_framework_code_free(&code);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

/* A graph without a backward phase, and one whose modules are not a sequence. */
TEST(graphs_without_blocks_are_refused)
{
    mp_graph *forward = NULL, *graph = NULL;
    mp_framework_code code;
    assert_int_equal(chain_graph(2, BYTES, STATIC_BYTES, false, &forward, NULL), MP_OK);
    forward->nodes[0].name = "/h.0/Relu";
    forward->nodes[1].name = "/h.1/Relu";
    assert_int_equal(chain_graph(4, BYTES, STATIC_BYTES, true, &graph, NULL), MP_OK);
    mp_plan *forward_plan = keep_all(forward, BYTES), *plan = keep_all(graph, BYTES);
    const mp_framework_request of_forward = {.graph = forward, .plan = forward_plan, .title = "forward"},
                               request = {.graph = graph, .plan = plan, .title = "chain"};
    assert_int_equal(mp_framework_code_of(&of_forward, MP_FRAMEWORK_MEGATRON, &code, NULL), MP_NOT_APPLICABLE);
    assert_int_equal(mp_framework_code_of(&request, MP_FRAMEWORK_DEEPSPEED, &code, NULL), MP_NOT_APPLICABLE);
    mp_plan_free(plan);
    mp_plan_free(forward_plan);
    mp_graph_free(graph);
    mp_graph_free(forward);
}

/* test_gathers_ahead.c - in backward, a parameter's second gather overlaps with another block's computation, in chains too long
 * for a trial of each gather. */
#include "memplan/plan.h"
#include "memplan/solver.h"
#include "tests/cases/test.h"
#include "tests/oracles/hand_graph.h"

enum { BLOCKS = 200, GATHER = 8, FORWARD = 10, BACKWARD = 20, WHOLE_BYTES = 100 };

/* Blocks with parameters gathered from static parts; the outputs are small. */
static mp_graph *chain(void)
{
    mp_graph *graph;
    int network, output[BLOCKS], whole[BLOCKS], before = -1;
    assert_int_equal(mp_graph_new("chain", &graph, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(graph, "network", &network, NULL), MP_OK);
    for (int k = 0; k < BLOCKS; k++) {
        const int part = hand_storage(graph, MP_KIND_PARAMETER, 1);
        whole[k] = hand_storage(graph, MP_KIND_ACTIVATION, WHOLE_BYTES);
        output[k] = hand_storage(graph, MP_KIND_ACTIVATION, 1);
        hand_node(graph, MP_PHASE_FORWARD, GATHER, &part, 1, whole[k])->channel = network;
        hand_node(graph, MP_PHASE_FORWARD, FORWARD, (int[]){whole[k], before}, before < 0 ? 1 : 2, output[k]);
        before = output[k];
    }
    int gradient = hand_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1);
    hand_node(graph, MP_PHASE_LOSS, 1, &before, 1, gradient);
    for (int k = BLOCKS; k-- > 0;) {
        const int next = hand_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1);
        hand_node(graph, MP_PHASE_BACKWARD, BACKWARD, (int[]){whole[k], output[k], gradient}, 3, next);
        gradient = next;
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

TEST(all_gathers_but_the_first_ones_are_beside_compute)
{
    mp_answer answer;
    mp_graph *graph = chain();
    const int64_t compute = BLOCKS * (FORWARD + BACKWARD) + 1, room = 4 * WHOLE_BYTES + 2 * BLOCKS + 2;
    const mp_request request = {.graph = graph, .budget_bytes = room, .effort = MP_EFFORT_QUICK};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_non_null(answer.plan);
    assert_true(answer.plan->n_steps >= graph->n_nodes + BLOCKS - 4); /* all but four are gathered twice */
    /* the first gather overlaps with no computation; each later one takes less than a block */
    assert_in_range(answer.plan->ticks, compute + GATHER, compute + 4 * GATHER);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

int main(void)
{
    return test_run(NULL, NULL);
}

/* test_providers.c - operators are counted by the provider that computes them and by reason. */
#include "executor/program/program.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

TEST(operators_are_counted_by_provider_and_reason)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_fused("examples/gpt_bytes.onnx", 0, &options);
    static const char *const reasons[] = {"its depth", "", "its depth"};
    const char *const kind = "ScaledDotProductAttention";
    mp_provider_group groups[MP_PROVIDER_GROUPS];
    int n = 0;
    assert_int_equal(mp_program_providers(t.program, kind, groups), 0); /* only one provider */
    for (size_t k = 0; k < t.program->n_nodes; k++) {
        mp_program_node *node = &t.program->nodes[k];
        if (!node->operands.op || strcmp(node->operands.op->kind, kind) != 0) continue;
        node->call.provider = "a library";
        if (node->operands.is_backward) continue;
        if (reasons[n][0]) node->call.provider = "own kernels";
        snprintf(node->call.reason, sizeof node->call.reason, "%s", reasons[n++]);
    }
    assert_int_equal(n, 3);
    assert_int_equal(mp_program_providers(t.program, kind, groups), 2);
    assert_string_equal(groups[0].provider, "own kernels");
    assert_string_equal(groups[0].reason, "its depth");
    assert_int_equal(groups[0].n_operators, 2);
    assert_string_equal(groups[1].provider, "a library");
    assert_int_equal(groups[1].n_operators, 1);
    assert_int_equal(mp_program_providers(t.program, "MatMul", groups), 0);
    for (size_t k = 0; k < t.program->n_nodes; k++)
        if (t.program->nodes[k].call.reason[0] && --n == 2) t.program->nodes[k].call.reason[4] = 0;
    assert_int_equal(mp_program_providers(t.program, kind, groups), 3);
    training_end(&t);
}

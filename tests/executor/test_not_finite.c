/* test_not_finite.c - trainings with non-finite numbers: the message names the first non-finite tensor. */
#include "tests/cases/onnx_builder.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { FLOAT = 1, CONSTANT_STEPS = 6 };

/* One operator, named by its kind. */
typedef struct line {
    const char *kind, *inputs, *output;
} line;

/* Computes y from x (2, 4), the parameters w, v and u (4; u is all zeros), and low (4), which begins with -inf. Trains `steps`
 * steps. The message must contain `expected` and must not contain `unexpected` (NULL: any). */
static void fails(const line *lines, int64_t steps, int accumulate, const char *expected, const char *unexpected)
{
    static const float w[] = {0.5f, 1, 2, 1}, v[] = {0.5f, 1, 1, 2}, u[4] = {0}, low[] = {-INFINITY, 0, 0, 0};
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD,
                                         .loss = MP_LOSS_MSE,
                                         .accumulate = accumulate,
                                         .dtype = MP_DTYPE_FLOAT,
                                         .options_json = "{}"};
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_raw(onnx_initializer(&b, "w.weight", FLOAT, "4"), w, sizeof w);
    onnx_raw(onnx_initializer(&b, "v.weight", FLOAT, "4"), v, sizeof v);
    onnx_raw(onnx_initializer(&b, "u.weight", FLOAT, "4"), u, sizeof u);
    onnx_raw(onnx_initializer(&b, "causal_mask", FLOAT, "4"), low, sizeof low);
    for (; lines->kind; lines++) onnx_node(&b, lines->kind, lines->kind, lines->inputs, lines->output);
    onnx_output(&b, "y", FLOAT, "2,4");
    training_case t = training_begin(onnx_save(&b), 0, &options);
    mp_plan *plan = training_keep_all(&t);
    mp_train_request request = training_request(&t, plan, steps);
    mp_report report = {0};
    mp_error err = {0};
    mp_status st = mp_train(&request, &report, &err);
    if (st != MP_REFUTED || !strstr(err.message, expected) || (unexpected && strstr(err.message, unexpected)))
        fail_msg("'%s' is expected: %s: %s", expected, mp_status_text(st), err.message);
    mp_report_free(&report);
    mp_plan_free(plan);
    training_end(&t);
    onnx_end(&b);
}

TEST(the_operator_is_named_where_it_began)
{
    static const line log_of_negatives[] = {{"Mul", "x,w.weight", "a"}, {"Log", "a", "l"}, {"Add", "l,v.weight", "y"}, {0}};
    static const line no_quotient[] = {{"Mul", "x,w.weight", "a"},
                                       {"Abs", "a", "b"},
                                       {"Neg", "b", "n"},
                                       {"Relu", "n", "z"},
                                       {"Div", "z,z", "q"},
                                       {"Add", "q,v.weight", "y"},
                                       {0}};
    static const line overflow[] = {{"Div", "w.weight,x", "d"}, {"Mul", "d,d", "a"}, {"Mul", "a,a", "b"}, {"Add", "b,b", "c"},
                                    {"Mul", "c,c", "f"},        {"Exp", "f", "e"},   {"Sub", "e,e", "y"}, {0}};
    fails(log_of_negatives, 3, 1, "the loss is nan at step 1; first not finite: nan in ", "then");
    fails(log_of_negatives, 3, 1, "of 8 elements of 'l', by Log 'Log' in forward of step 1", NULL);
    fails(no_quotient, 3, 1, "nan in 8 of 8 elements of 'q', by Div 'Div' in forward of step 1", NULL);
    fails(overflow, 3, 1, "elements of 'e', by Exp 'Exp' in forward of step 1", NULL);
    fails(overflow, 3, 1, "first not finite: inf in ", NULL);
}

/* The square root has an infinite slope at 0: the loss is finite in the first step and not finite in the second. */
static const line root_of_zero[] = {
    {"Abs", "x", "a"}, {"Mul", "a,u.weight", "z"}, {"Sqrt", "z", "q"}, {"Add", "q,v.weight", "y"}, {0}};

TEST(backward_is_told_from_forward)
{
    fails(root_of_zero, 3, 1,
          "the loss is nan at step 2; first not finite: inf in 8 of 8 elements of the gradient of 'z', by "
          "Sqrt 'Sqrt' in backward of step 1",
          NULL);
    fails(root_of_zero, 3, 2, "by Sqrt 'Sqrt' in backward of step 1", NULL);
}

/* The last step's update is checked separately, because no loss follows it. */
TEST(weights_are_finite_in_the_end)
{
    fails(root_of_zero, 1, 1, "'u.weight' is not finite after step 1; first not finite: inf in 8 of 8 elements of the gradient",
          NULL);
}

/* If all labels are ignored, the mean over no labels is 0 / 0, as in PyTorch. The data are generated here, so no file is at
 * fault. */
TEST(a_mean_over_no_labels_is_named)
{
    static const double weights[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD,
                                   .dtype = MP_DTYPE_FLOAT,
                                   .loss_options = {.class_weights = weights, .n_class_weights = 10}};
    training_case t = training_begin("examples/fashion_cnn.onnx", 1, &options);
    mp_plan *plan = training_keep_all(&t);
    mp_train_request request = training_request(&t, plan, 200);
    mp_report report = {0};
    mp_error err = {0};
    assert_int_equal(mp_train(&request, &report, &err), MP_REFUTED);
    assert_non_null(strstr(err.message, "all its labels are ignored or have the weight 0"));
    mp_report_free(&report);
    mp_plan_free(plan);
    training_end(&t);
}

/* An operator that reads a mask of -inf is not reported as the fault. */
TEST(infinities_that_are_meant_are_not_blamed)
{
    static const line masked[] = {{"Mul", "x,w.weight", "a"},
                                  {"Add", "a,causal_mask", "s"},
                                  {"Softmax", "s", "p"},
                                  {"Mul", "p,x", "m"},
                                  {"Log", "m", "l"},
                                  {"Sub", "l,v.weight", "y"},
                                  {0}};
    fails(masked, 2, 1, "elements of 'l', by Log", "Add 'Add'");
}

/* The loss stays finite, because the network replaces NaN by other values. */
TEST(an_early_beginning_is_found)
{
    static const line hidden[] = {{"Abs", "x", "a"},
                                  {"Mul", "a,u.weight", "z"},
                                  {"Sqrt", "z", "q"},
                                  {"IsNaN", "q", "i"},
                                  {"Where", "i,v.weight,q", "k"},
                                  {"Add", "k,v.weight", "y"},
                                  {0}};
    fails(hidden, CONSTANT_STEPS, 1, "'u.weight' is not finite after step 6; first not finite: inf in 8 of 8", NULL);
    fails(hidden, CONSTANT_STEPS, 1, "in backward of step 1", NULL);
}
